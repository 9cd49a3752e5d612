//! Two files: what they are, and the comparison that fits.

use crate::archive;
use crate::error::Result;
use crate::format::csv::{self, CsvTable};
use crate::format::encoding::{self, Encoding};
use crate::format::json_lines::JsonLinesTable;
use crate::format::lines::Lines;
use crate::format::{bytes, json, parquet, sniff, sqlite};
use crate::options::Options;
use crate::report::{Finding, FindingKind, Format};
use crate::rows::{Side, Stop, Tables, compare_tables};
use crate::unpack;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Packings within packings that are looked into.
const MOST_DEPTH: usize = 6;

/// Two files and the names by which their readers know them.
#[derive(Clone, Copy)]
pub(crate) struct Files<'a> {
    pub(crate) left: &'a Path,
    pub(crate) right: &'a Path,
    pub(crate) left_name: &'a str,
    pub(crate) right_name: &'a str,
}

/// What two files hold; no finding means equal bytes.
#[derive(Default)]
pub(crate) struct Contents {
    pub(crate) formats: Vec<Format>,
    pub(crate) findings: Vec<Finding>,
}

/// Why a typed comparison came to nothing.
type Failed = (Side, Stop);

/// Compares two files; `depth` is the number of packings around them.
pub(crate) fn compare(files: Files<'_>, options: &Options, depth: usize) -> Result<Contents> {
    if bytes::are_equal(files.left, files.right)? {
        return Ok(Contents::default());
    }
    let formats = (sniff::sniff(files.left, files.left_name)?, sniff::sniff(files.right, files.right_name)?);
    let Some(format) = common(files, formats)? else { return mismatch(files, formats, options, depth) };
    let compared = match format {
        format if depth >= MOST_DEPTH && is_packed(format) => return not_unpacked(files, format, options),
        format if unpack::is_stream(format) => streams(files, (format, format), options, depth),
        Format::Zip | Format::Tar => archives(files, format, options, depth),
        Format::Parquet => parquets(files, options).map(|findings| Contents { formats: vec![format], findings }),
        Format::Sqlite => sqlite::compare(files.left, files.right, options)
            .map(|findings| Contents { formats: vec![format], findings }),
        Format::Bytes | Format::Link | Format::Directory | Format::Special => Ok(Contents::default()),
        _ => return texts(files, format, options),
    };
    let mut contents = match compared {
        Ok(contents) => contents,
        Err((_, Stop::Fatal(error))) => return Err(error),
        Err((side, Stop::Broken(reason))) => {
            let text = format!("the {} side cannot be read as {}: {reason}", side.name(), format.name());
            let finding =
                Finding::new(FindingKind::Unreadable, true, text).hint("Look whether the file was written to its end.");
            Contents { formats: vec![format], findings: vec![finding] }
        }
    };
    if contents.formats.is_empty() {
        contents.formats.push(format);
    }
    if contents.findings.is_empty()
        || contents.findings.iter().any(|finding| finding.kind == FindingKind::Unreadable && finding.place.is_none())
    {
        contents.findings.extend(bytes::finding(files.left, files.right, options)?);
    }
    Ok(contents)
}

fn is_packed(format: Format) -> bool {
    unpack::is_stream(format) || matches!(format, Format::Zip | Format::Tar)
}

fn is_text(format: Format) -> bool {
    matches!(format, Format::Csv | Format::Tsv | Format::JsonLines | Format::Json | Format::Text)
}

/// The format as which both can be read.
fn common(files: Files<'_>, (left, right): (Format, Format)) -> Result<Option<Format>> {
    if left == right {
        return Ok(Some(left));
    }
    let is_empty = |path: &Path| bytes::head(path, 1).map(|head| head.is_empty());
    Ok(match (left, right) {
        (other, text) if is_text(other) && is_text(text) && is_empty(files.right)? => Some(other),
        (text, other) if is_text(text) && is_text(other) && is_empty(files.left)? => Some(other),
        (Format::Csv | Format::Tsv, Format::Csv | Format::Tsv) => Some(Format::Csv),
        (left, right) if is_text(left) && is_text(right) => Some(Format::Text),
        _ => None,
    })
}

/// Files of two formats: what is packed on one side is unpacked.
fn mismatch(files: Files<'_>, formats: (Format, Format), options: &Options, depth: usize) -> Result<Contents> {
    let name = |path: &Path, format: Format| {
        bytes::head(path, 1).map(|head| if head.is_empty() { "an empty file" } else { format.name() })
    };
    let (left, right) = (name(files.left, formats.0)?, name(files.right, formats.1)?);
    let text = format!("{left} on the left side, {right} on the right");
    let is_packing = unpack::is_stream(formats.0) || unpack::is_stream(formats.1);
    let finding = Finding::new(FindingKind::FileType, !is_packing, text);
    let mut contents = match is_packing.then(|| streams(files, formats, options, depth)) {
        Some(Ok(contents)) => contents,
        Some(Err((_, Stop::Fatal(error)))) => return Err(error),
        Some(Err((_, Stop::Broken(_)))) | None => {
            let findings = bytes::finding(files.left, files.right, options)?;
            Contents { formats: vec![formats.0], findings: findings.into_iter().collect() }
        }
    };
    contents.findings.retain(|finding| finding.kind != FindingKind::Compression);
    contents.findings.insert(0, finding);
    Ok(contents)
}

fn not_unpacked(files: Files<'_>, format: Format, options: &Options) -> Result<Contents> {
    let text = format!("packed in more than {MOST_DEPTH} layers: compared as bytes");
    let mut findings = vec![Finding::new(FindingKind::NotUnpacked, true, text)];
    findings.extend(bytes::finding(files.left, files.right, options)?);
    Ok(Contents { formats: vec![format], findings })
}

/// Streams are compared as they are unpacked; only when they differ are they written down.
fn streams(
    files: Files<'_>,
    formats: (Format, Format),
    options: &Options,
    depth: usize,
) -> std::result::Result<Contents, Failed> {
    let side = |is_right| if is_right { Side::Right } else { Side::Left };
    let mut left = unpack::open(files.left, formats.0).map_err(|error| (Side::Left, error.into()))?;
    let mut right = unpack::open(files.right, formats.1).map_err(|error| (Side::Right, error.into()))?;
    let difference = bytes::difference(&mut left, &mut right)
        .map_err(|(is_right, error)| (side(is_right), Stop::Broken(error.to_string())))?;
    let packing = |formats: Vec<Format>, mut findings: Vec<Finding>, is_told: bool| {
        if is_told {
            let told =
                unpack::findings(files.left, files.right, formats[0]).map_err(|error| (Side::Left, error.into()))?;
            findings.extend(told);
        }
        Ok(Contents { formats, findings })
    };
    let Some(difference) = difference else { return packing(vec![formats.0], vec![], true) };
    if difference.left_bytes.max(difference.right_bytes) > options.unpack_bytes {
        let text = format!("it unpacks to more than {} bytes: compared as a stream", options.unpack_bytes);
        let findings = vec![Finding::new(FindingKind::NotUnpacked, true, text), bytes::tell(&difference)];
        return packing(vec![formats.0], findings, false);
    }
    let scratch = options.scratch().map_err(|error| (Side::Left, error.into()))?;
    let targets = (scratch.path().join("left"), scratch.path().join("right"));
    for (path, format, target, side) in
        [(files.left, formats.0, &targets.0, Side::Left), (files.right, formats.1, &targets.1, Side::Right)]
    {
        let mut stream = unpack::open(path, format).map_err(|error| (side, error.into()))?;
        unpack::copy(&mut stream, target, options.unpack_bytes, options).map_err(|failed| match failed {
            unpack::Failed::NoRoom(error) => (side, Stop::Fatal(error)),
            unpack::Failed::Broken(error) => (side, Stop::Broken(error.to_string())),
            unpack::Failed::TooLarge => (side, Stop::Broken("it grew while it was read".to_owned())),
        })?;
    }
    let names = (unpack::inner_name(files.left_name), unpack::inner_name(files.right_name));
    let inner = Files { left: &targets.0, right: &targets.1, left_name: &names.0, right_name: &names.1 };
    let inner = compare(inner, options, depth + 1).map_err(|error| (Side::Left, error.into()))?;
    let is_header_told = formats.0 == Format::Gzip && formats.1 == Format::Gzip;
    let mut contents = packing([vec![formats.0], inner.formats].concat(), inner.findings, is_header_told)?;
    if contents.findings.len() > 1 {
        // The streams differ since what is in them does.
        contents.findings.retain(|finding| finding.kind != FindingKind::Compression);
    }
    Ok(contents)
}

fn archives(
    files: Files<'_>,
    format: Format,
    options: &Options,
    depth: usize,
) -> std::result::Result<Contents, Failed> {
    let listed = archive::list_both(files.left, files.right, format)?;
    let mut findings = listed.findings(format);
    let differing = listed.differing();
    let scratch = options.scratch().map_err(|error| (Side::Left, error.into()))?;
    let targets = |name: &str, indices: &mut dyn Iterator<Item = usize>| -> BTreeMap<usize, PathBuf> {
        indices.map(|index| (index, scratch.path().join(format!("{name}{index}")))).collect()
    };
    let left = targets("left", &mut differing.iter().map(|pair| pair.0));
    let right = targets("right", &mut differing.iter().map(|pair| pair.1));
    if !differing.is_empty() {
        archive::extract(files.left, format, &left, options).map_err(|stop| (Side::Left, stop))?;
        archive::extract(files.right, format, &right, options).map_err(|stop| (Side::Right, stop))?;
    }
    for (index_left, index_right) in differing {
        let names = (listed.left[index_left].shown(), listed.right[index_right].shown());
        let pair =
            Files { left: &left[&index_left], right: &right[&index_right], left_name: &names.0, right_name: &names.1 };
        let inner = compare(pair, options, depth + 1).map_err(|error| (Side::Left, error.into()))?;
        if inner.findings.is_empty() {
            let text = format!("member `{}` has another type or link", names.0);
            findings.push(Finding::new(FindingKind::FileType, true, text));
        }
        let shown = format!("member `{}`", names.0);
        findings.extend(inner.findings.into_iter().map(|finding| finding.within(&names.0, &shown)));
    }
    if findings.is_empty() {
        let text = "same members, the archive's layout differs (compression, padding or extra fields)";
        findings.push(Finding::new(FindingKind::ArchiveLayout, false, text));
    }
    Ok(Contents { formats: vec![format], findings })
}

fn parquets(files: Files<'_>, options: &Options) -> std::result::Result<Vec<Finding>, Failed> {
    let (left, right) = parquet::open_pair(files.left, files.right)?;
    let tables = Tables { left: &left, right: &right, rows: "rows", is_text: false };
    let mut findings = compare_tables(&tables, options)?;
    findings.extend(parquet::findings(&left, &right));
    if findings.is_empty() {
        let text = "same rows, written in other pages or with other statistics";
        findings
            .push(Finding::new(FindingKind::ParquetLayout, false, text).hint("Use the same version of the writer."));
    }
    Ok(findings)
}

/// Files of text: what cannot be read as rows of its format is compared by lines.
fn texts(files: Files<'_>, format: Format, options: &Options) -> Result<Contents> {
    let scratch = options.scratch()?;
    let in_utf8 = (
        readable(files.left, files.right, scratch.path(), "left")?,
        readable(files.right, files.left, scratch.path(), "right")?,
    );
    let inner = Files { left: &in_utf8.0, right: &in_utf8.1, ..files };
    let (mut format, mut compared) = (format, typed(inner, format, options));
    if matches!(compared, Err((_, Stop::Broken(_)))) && format != Format::Text {
        format = Format::Text;
        compared = typed(inner, format, options);
    }
    let mut findings = match compared {
        Ok(findings) => findings,
        Err((_, Stop::Fatal(error))) => return Err(error),
        Err((_, Stop::Broken(_))) => {
            let findings = bytes::finding(files.left, files.right, options)?;
            return Ok(Contents { formats: vec![Format::Bytes], findings: findings.into_iter().collect() });
        }
    };
    if findings.iter().all(|finding| !finding.is_content) {
        let mut beside = encoding::findings(files.left, files.right)?;
        if !matches!(format, Format::Csv | Format::Tsv) {
            beside.retain(|finding| finding.kind != FindingKind::Quoting);
        }
        let is_spelling_told = findings.iter().any(|finding| finding.kind != FindingKind::RowOrder);
        findings.extend(beside);
        if findings.is_empty() && !is_spelling_told {
            let kind = if matches!(format, Format::Json | Format::JsonLines) {
                FindingKind::JsonSpelling
            } else {
                FindingKind::Quoting
            };
            let text = "same rows, written in another way (quotes, spaces, blank lines or the order of keys)";
            findings.push(Finding::new(kind, false, text));
        }
    }
    Ok(Contents { formats: vec![format], findings })
}

/// The file itself, or a copy in UTF-8 when the two sides are in different encodings.
fn readable(path: &Path, other: &Path, scratch: &Path, name: &str) -> Result<PathBuf> {
    let (encoding, other) = (encoding::detect(path)?, encoding::detect(other)?);
    let is_readable = match encoding {
        Encoding::Utf8 | Encoding::Utf8WithMark => true,
        Encoding::SingleByte => other == Encoding::SingleByte,
        Encoding::Utf16LittleEndian | Encoding::Utf16BigEndian => false,
    };
    if is_readable { Ok(path.to_owned()) } else { encoding::to_utf8(path, encoding, scratch, name) }
}

fn typed(files: Files<'_>, format: Format, options: &Options) -> std::result::Result<Vec<Finding>, Failed> {
    match format {
        Format::Csv | Format::Tsv => csvs(files, options),
        Format::JsonLines => {
            let left = JsonLinesTable::open(files.left).map_err(|stop| (Side::Left, stop))?;
            let right = JsonLinesTable::open(files.right).map_err(|stop| (Side::Right, stop))?;
            compare_tables(&Tables { left: &left, right: &right, rows: "rows", is_text: false }, options)
        }
        Format::Json => json::compare(files.left, files.right, options)
            .map_err(|(is_right, stop)| (if is_right { Side::Right } else { Side::Left }, stop)),
        _ => {
            let (left, right) = (Lines::new(files.left), Lines::new(files.right));
            compare_tables(&Tables { left: &left, right: &right, rows: "lines", is_text: true }, options)
        }
    }
}

fn csvs(files: Files<'_>, options: &Options) -> std::result::Result<Vec<Finding>, Failed> {
    let pair = csv::open_pair(files.left, files.right, options).map_err(|error| (Side::Left, error.into()))?;
    let Some((left, right)) = pair else {
        return Err((Side::Left, Stop::Broken("the records have different numbers of fields".to_owned())));
    };
    let mut findings = compare_tables(&Tables { left: &left, right: &right, rows: "rows", is_text: false }, options)?;
    findings.extend(delimiter_finding(&left, &right));
    Ok(findings)
}

fn delimiter_finding(left: &CsvTable, right: &CsvTable) -> Option<Finding> {
    let name = |table: &CsvTable| char::from(table.delimiter).escape_default().to_string();
    (left.delimiter != right.delimiter).then(|| {
        let text =
            format!("fields are separated by `{}` on the left side and `{}` on the right", name(left), name(right));
        Finding::new(FindingKind::Delimiter, false, text)
    })
}
