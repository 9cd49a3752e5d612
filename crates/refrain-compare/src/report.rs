//! What a comparison found, for machines and for people.

use serde::Serialize;
use std::fmt;

/// How much of two outputs is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Every byte, every name and every link is the same.
    BytesEqual,
    /// The bytes differ; the rows, values or members that a reader sees are the same.
    ///
    /// The order of rows in a table (CSV, JSON Lines, Parquet, SQLite) is not content: [`FindingKind::RowOrder`]
    /// says when it differs. The order of lines in plain text is.
    ContentEqual,
    /// A reader sees something else.
    ContentDiffers,
}

/// The result of comparing two outputs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The worst verdict of all files.
    pub verdict: Verdict,
    /// How many pairs of files are equal to the byte; they are not listed.
    pub equal_files: u64,
    /// Every file, or pair of files, that is not equal to the byte, in the order of their names.
    pub files: Vec<FileComparison>,
}

impl Comparison {
    /// Whether every byte and every name is the same.
    pub fn is_equal(&self) -> bool {
        self.verdict == Verdict::BytesEqual
    }

    /// Whether a reader sees the same content; true as well when every byte is the same.
    pub fn is_equivalent(&self) -> bool {
        self.verdict != Verdict::ContentDiffers
    }

    /// All findings with the file they belong to.
    pub fn findings(&self) -> impl Iterator<Item = (&FileComparison, &Finding)> {
        self.files.iter().flat_map(|file| file.findings.iter().map(move |finding| (file, finding)))
    }

    pub(crate) fn of(equal_files: u64, files: Vec<FileComparison>) -> Self {
        let verdict = files.iter().map(|file| file.verdict).max().unwrap_or(Verdict::BytesEqual);
        Self { verdict, equal_files, files }
    }
}

/// Two files, or one without a counterpart.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FileComparison {
    /// The path below the left output, empty when the output is this one file; `None` when only the right side has it.
    /// A name that is not UTF-8 is shown with replacement characters.
    pub left: Option<String>,
    /// The path below the right output; `None` when only the left side has it.
    pub right: Option<String>,
    /// What the content was read as, outermost first: `[gzip, csv]` for a `.csv.gz`. Empty without a counterpart.
    pub formats: Vec<Format>,
    /// The verdict on this pair.
    pub verdict: Verdict,
    /// Why; never empty.
    pub findings: Vec<Finding>,
}

impl FileComparison {
    /// One line on the whole pair: `bytes differ, rows equal (gzip header time)`, or what differs first.
    pub fn summary(&self) -> String {
        if self.verdict == Verdict::ContentDiffers {
            let first = self.findings.iter().find(|finding| finding.is_content);
            return first.map(|finding| finding.text.clone()).unwrap_or_default();
        }
        let innermost = self.formats.last().copied().unwrap_or(Format::Bytes);
        let has_rows =
            matches!(innermost, Format::Csv | Format::Tsv | Format::JsonLines | Format::Parquet | Format::Sqlite);
        let what = if has_rows { "rows" } else { "content" };
        let mut labels: Vec<&str> = self.findings.iter().map(|finding| finding.kind.label()).collect();
        labels.dedup();
        format!("bytes differ, {what} equal ({})", labels.join(", "))
    }

    /// The name to show: the left path, or the right one.
    pub fn name(&self) -> &str {
        self.left.as_deref().or(self.right.as_deref()).unwrap_or_default()
    }
}

/// What a file, or what lies inside it, was read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Comma-separated values, or with another delimiter than a comma or a tabulator.
    Csv,
    /// Values separated by tabulators.
    Tsv,
    /// One JSON document a line.
    JsonLines,
    /// One JSON document.
    Json,
    /// Apache Parquet.
    Parquet,
    /// A SQLite database.
    Sqlite,
    /// Text of another kind, compared by lines.
    Text,
    /// Anything else.
    Bytes,
    /// A gzip stream.
    Gzip,
    /// A Zstandard stream.
    Zstd,
    /// A bzip2 stream.
    Bzip2,
    /// An xz stream.
    Xz,
    /// A zip archive.
    Zip,
    /// A tar archive.
    Tar,
    /// A symbolic link.
    Link,
    /// A directory.
    Directory,
    /// A socket, a pipe or a device.
    Special,
}

impl Format {
    /// The name as it is serialized.
    pub fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Tsv => "tsv",
            Self::JsonLines => "json_lines",
            Self::Json => "json",
            Self::Parquet => "parquet",
            Self::Sqlite => "sqlite",
            Self::Text => "text",
            Self::Bytes => "bytes",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Bzip2 => "bzip2",
            Self::Xz => "xz",
            Self::Zip => "zip",
            Self::Tar => "tar",
            Self::Link => "link",
            Self::Directory => "directory",
            Self::Special => "special",
        }
    }
}

/// One difference and what it looks like.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// What differs.
    pub kind: FindingKind,
    /// What the values look like, when there is something to be said about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// The member of an archive or the table of a database that this is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// The column, or the path in a JSON document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<String>,
    /// How many rows, lines or members differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub differing: Option<u64>,
    /// Out of how many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// The largest relative difference, for [`Cause::NumericNoise`] and [`Cause::Number`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub largest_relative_difference: Option<f64>,
    /// Whether this difference is one of content: something that a reader of the rows or values sees.
    pub is_content: bool,
    /// One line for people, which needs nothing beside it but the file's name.
    pub text: String,
    /// What to do about it: one sentence; empty when there is nothing to advise.
    pub hint: String,
    /// The first few differing values, cut to a readable length.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<Example>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A value of the left output and its counterpart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Example {
    /// `None` when only the right side has it.
    pub left: Option<String>,
    /// `None` when only the left side has it.
    pub right: Option<String>,
}

/// What differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// The file, member or table is in one output only.
    OnlyLeft,
    /// The file, member or table is in the other output only.
    OnlyRight,
    /// Two files were paired although their names differ.
    FileName,
    /// A file on one side, a directory, link or other format on the other.
    FileType,
    /// Symbolic links that lead elsewhere.
    LinkTarget,
    /// The permission bits of the file.
    FileMode,
    /// The time in a gzip header.
    GzipTime,
    /// The name in a gzip header.
    GzipName,
    /// The same bytes were compressed in another way: level, program, blocks, other headers.
    Compression,
    /// The same members in another order.
    MemberOrder,
    /// The members' times.
    MemberTime,
    /// The members' users or groups.
    MemberOwner,
    /// The members' permission bits.
    MemberMode,
    /// The archive's layout beyond that: padding, extra fields, versions of its program.
    ArchiveLayout,
    /// The same rows, or lines, in another order.
    RowOrder,
    /// Rows that only the right side has.
    RowsAdded,
    /// Rows that only the left side has.
    RowsRemoved,
    /// The values of a column, or the lines of a text.
    ColumnValues,
    /// A column that only the right side has.
    ColumnAdded,
    /// A column that only the left side has.
    ColumnRemoved,
    /// A column whose values are the same under another name.
    ColumnRenamed,
    /// The type of a column.
    ColumnType,
    /// The same columns in another order.
    ColumnOrder,
    /// The value at a path of a JSON document.
    JsonValue,
    /// The same JSON written in another way: order of keys, spaces, spelling of numbers.
    JsonSpelling,
    /// Row groups, pages or encodings of a Parquet file.
    ParquetLayout,
    /// The compression of a Parquet file.
    ParquetCompression,
    /// The program that is named in a Parquet file.
    ParquetCreator,
    /// The key-value metadata of a Parquet file.
    ParquetMetadata,
    /// The pages of a SQLite file: sizes, free pages, order of insertion.
    SqliteLayout,
    /// The change counter and other counters in the header of a SQLite file.
    SqliteHeader,
    /// The numbers that SQLite gave to rows.
    SqliteRowIds,
    /// The counters of AUTOINCREMENT.
    SqliteSequence,
    /// The definition of a table, index, view or trigger.
    SqliteSchema,
    /// The last line ends with a line end on one side only.
    TrailingNewline,
    /// `\r\n` on one side, `\n` on the other.
    LineEnds,
    /// The encoding of the text, or a byte order mark.
    Encoding,
    /// Which fields of a CSV file stand in quotes.
    Quoting,
    /// What stands between the fields of a CSV file.
    Delimiter,
    /// Bytes that were not understood any further.
    Bytes,
    /// One or both sides cannot be read as what they seem to be.
    Unreadable,
    /// What is inside was too large to unpack, or nested too deeply, and was compared as a stream of bytes.
    NotUnpacked,
}

impl FindingKind {
    /// A few words for it, as they stand in `rows equal (gzip header time)`.
    pub fn label(self) -> &'static str {
        match self {
            Self::OnlyLeft => "only on the left side",
            Self::OnlyRight => "only on the right side",
            Self::FileName => "file name",
            Self::FileType => "file type",
            Self::LinkTarget => "link target",
            Self::FileMode => "file mode",
            Self::GzipTime => "gzip header time",
            Self::GzipName => "gzip header name",
            Self::MemberOrder => "order of members",
            Self::MemberTime => "times of members",
            Self::MemberOwner => "owners of members",
            Self::MemberMode => "modes of members",
            Self::ArchiveLayout => "layout of the archive",
            Self::RowOrder => "order",
            Self::RowsAdded => "rows added",
            Self::RowsRemoved => "rows removed",
            Self::ColumnValues | Self::JsonValue => "values",
            Self::ColumnAdded => "column added",
            Self::ColumnRemoved => "column removed",
            Self::ColumnRenamed => "column renamed",
            Self::ColumnType => "type of a column",
            Self::ColumnOrder => "order of columns",
            Self::JsonSpelling => "spelling of JSON",
            Self::ParquetLayout => "row groups, pages or encodings",
            Self::Compression | Self::ParquetCompression => "compression",
            Self::ParquetCreator => "created_by",
            Self::ParquetMetadata => "metadata",
            Self::SqliteLayout => "page layout",
            Self::SqliteHeader => "counters in the header",
            Self::SqliteRowIds => "rowids",
            Self::SqliteSequence => "AUTOINCREMENT",
            Self::SqliteSchema => "schema",
            Self::TrailingNewline => "newline at the end",
            Self::LineEnds => "line ends",
            Self::Encoding => "encoding",
            Self::Quoting => "quoting",
            Self::Delimiter => "delimiter",
            Self::Bytes => "bytes",
            Self::Unreadable => "unreadable",
            Self::NotUnpacked => "not unpacked",
        }
    }
}

/// What differing values look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The time at which something ran.
    WallClock,
    /// The same instants, a whole number of quarters of an hour apart.
    TimeZone,
    /// UUIDs made at random.
    RandomUuid,
    /// UUIDs made from the time.
    TimeUuid,
    /// Floating-point results that differ in their last digits.
    NumericNoise,
    /// Other numbers.
    Number,
    /// The same numbers with a decimal comma on one side.
    DecimalComma,
    /// The same numbers, written in another way.
    NumberFormat,
    /// Numbers of which each is larger by the same amount.
    Counter,
    /// The number of a process, or another number that is the same in all rows of one run.
    ProcessId,
    /// A string of [`crate::Options::known`], such as the path of the staging.
    KnownString,
    /// A path in a directory for temporary files.
    TemporaryPath,
    /// Absolute paths.
    AbsolutePath,
    /// The name of the host.
    HostName,
    /// Addresses in memory, as in `<object at 0x7f3a>`.
    MemoryAddress,
    /// Letters and digits without a meaning.
    RandomToken,
    /// Numbers between 0 and 1 that have nothing to do with each other.
    RandomNumber,
    /// The same elements in a list in another order.
    ElementOrder,
    /// The same values in other rows.
    Permuted,
    /// Capital and small letters.
    LetterCase,
    /// Spaces.
    Whitespace,
    /// Nothing, spelled in two ways: an empty field, `NULL`, `NaN`.
    EmptySpelling,
    /// One side is sorted as a locale sorts, the other byte by byte.
    LocaleSort,
    /// One side is sorted as numbers, the other as text.
    NumberSort,
}

impl Finding {
    pub(crate) fn new(kind: FindingKind, is_content: bool, text: impl Into<String>) -> Self {
        Self {
            kind,
            cause: None,
            place: None,
            column: None,
            differing: None,
            total: None,
            largest_relative_difference: None,
            is_content,
            text: text.into(),
            hint: String::new(),
            examples: vec![],
        }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    pub(crate) fn counts(mut self, differing: u64, total: u64) -> Self {
        self.differing = Some(differing);
        self.total = Some(total);
        self
    }

    pub(crate) fn column(mut self, column: impl Into<String>) -> Self {
        self.column = Some(column.into());
        self
    }

    pub(crate) fn example(mut self, left: Option<String>, right: Option<String>) -> Self {
        self.examples.push(Example { left, right });
        self
    }

    /// Says that the finding is about something inside: the member of an archive, the table of a database.
    pub(crate) fn within(mut self, place: &str, shown: &str) -> Self {
        self.text = format!("{shown}: {}", self.text);
        self.place = Some(match self.place {
            Some(inner) => format!("{place}/{inner}"),
            None => place.to_owned(),
        });
        self
    }
}
