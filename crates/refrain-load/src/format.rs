//! The formats that can be loaded.

use std::fmt;
use std::path::Path;

/// What a staged file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated values with a header.
    Csv,
    /// The same with tabs, quoted as CSV is.
    Tsv,
    /// One JSON object a line.
    JsonLines,
    /// Apache Parquet.
    Parquet,
    /// Arrow IPC, the file format (Feather 2) or the stream.
    ArrowIpc,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Csv, Self::Tsv, Self::JsonLines, Self::Parquet, Self::ArrowIpc];

    /// The format that a file's name tells; `.gz` and `.zst` behind the name of a text format are looked through.
    pub fn of(path: impl AsRef<Path>) -> Option<Self> {
        let name = path.as_ref().file_name()?.to_str()?.to_ascii_lowercase();
        let inner = [".gz", ".zst"].iter().find_map(|packing| name.strip_suffix(packing));
        let format = match inner.unwrap_or(&name).rsplit_once('.')?.1 {
            "csv" => Self::Csv,
            "tsv" | "tab" => Self::Tsv,
            "jsonl" | "ndjson" | "jsonlines" => Self::JsonLines,
            "parquet" | "pq" => Self::Parquet,
            "arrow" | "arrows" | "feather" | "ipc" => Self::ArrowIpc,
            _ => return None,
        };
        (inner.is_none() || format.is_text()).then_some(format)
    }

    /// The format of that name in a configuration.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    /// Its name in a configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Tsv => "tsv",
            Self::JsonLines => "jsonl",
            Self::Parquet => "parquet",
            Self::ArrowIpc => "arrow",
        }
    }

    /// Whether it is text, which may be packed.
    pub(crate) fn is_text(self) -> bool {
        matches!(self, Self::Csv | Self::Tsv | Self::JsonLines)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::Format;

    #[test]
    fn names_tell_formats() {
        for (name, format) in [
            ("a/delays.csv", Some(Format::Csv)),
            ("DELAYS.CSV.GZ", Some(Format::Csv)),
            ("a.tsv.zst", Some(Format::Tsv)),
            ("a.ndjson", Some(Format::JsonLines)),
            ("a.jsonl.gz", Some(Format::JsonLines)),
            ("a.b.parquet", Some(Format::Parquet)),
            ("a.feather", Some(Format::ArrowIpc)),
            ("a.parquet.gz", None),
            ("a.json", None),
            ("csv", None),
            ("dir.csv/a", None),
        ] {
            assert_eq!(Format::of(name), format, "{name}");
        }
        for format in Format::ALL {
            assert_eq!(Format::named(format.name()), Some(format));
        }
        assert_eq!(Format::named("xlsx"), None);
    }
}
