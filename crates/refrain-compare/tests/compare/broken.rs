//! Files that are not what they seem to be.

use crate::support::{Outputs, compare_bytes, told};
use flate2::{Compression, GzBuilder};
use refrain_compare::{FindingKind, Format, Options, Verdict};
use std::io::Write;

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut writer = GzBuilder::new().write(vec![], Compression::default());
    writer.write_all(content).unwrap();
    writer.finish().unwrap()
}

#[test]
fn truncated_files_are_said_to_be_broken() {
    let text = "a,b\n1,2\n".repeat(1000);
    let whole = gzip(text.as_bytes());
    let comparison = compare_bytes("a.csv.gz", &whole, &whole[..whole.len() / 2]);
    let told = told(&comparison);
    assert_eq!(told[0].0, FindingKind::Unreadable);
    assert!(told[0].1.starts_with("the right side cannot be read as gzip: "), "{told:?}");
    assert_eq!(told[1].0, FindingKind::Bytes);
    assert_eq!(comparison.verdict, Verdict::ContentDiffers);
}

#[test]
fn magic_numbers_without_anything_behind_them() {
    for (name, magic) in [
        ("a.parquet", b"PAR1".as_slice()),
        ("a.db", b"SQLite format 3\0"),
        ("a.gz", b"\x1f\x8b\x08"),
        ("a.zst", b"\x28\xb5\x2f\xfd"),
        ("a.bz2", b"BZh9"),
        ("a.xz", b"\xfd7zXZ\0"),
        ("a.zip", b"PK\x03\x04"),
    ] {
        let comparison = compare_bytes(name, [magic, b"left"].concat(), [magic, b"right side"].concat());
        assert_eq!(told(&comparison)[0].0, FindingKind::Unreadable, "{name}");
        assert_eq!(comparison.verdict, Verdict::ContentDiffers, "{name}");
    }
}

#[test]
fn ragged_csv_is_text() {
    let comparison = compare_bytes("a.csv", "a,b\n1,2\n3\n", "a,b\n1,2\n4\n");
    assert_eq!(comparison.files[0].formats, [Format::Text]);
    assert_eq!(told(&comparison)[0].0, FindingKind::ColumnValues);
}

#[test]
fn a_quote_that_is_never_closed_and_bytes_that_are_no_text() {
    let long = format!("a,b\n\"{}", "x,y\n".repeat(300_000));
    let comparison = compare_bytes("a.csv", &long, format!("{long}z"));
    assert_eq!(comparison.verdict, Verdict::ContentDiffers);
    let comparison = compare_bytes("a.csv", b"a,b\n\xff,\0\n", b"a,b\n\xfe,\0\n");
    assert_eq!(comparison.verdict, Verdict::ContentDiffers);
}

#[test]
fn a_line_that_is_too_long_is_compared_as_bytes() {
    let line = "x".repeat((64 << 20) + 1);
    let comparison = compare_bytes("a.txt", &line, format!("{line}y"));
    assert_eq!(comparison.files[0].formats, [Format::Bytes]);
}

#[test]
fn json_nested_too_deeply_is_text() {
    let nested = |depth: usize, inner: &str| format!("{}{inner}{}\n", "[".repeat(depth), "]".repeat(depth));
    let comparison = compare_bytes("a.json", nested(100_000, "1"), nested(100_000, "2"));
    assert_eq!(comparison.verdict, Verdict::ContentDiffers);
    let comparison = compare_bytes("a.jsonl", nested(3, "1"), nested(3, "2"));
    assert_eq!(comparison.files[0].formats, [Format::JsonLines]);
}

#[test]
fn files_of_two_formats() {
    let comparison = compare_bytes("a", "a,b\n1,2\n3,4\n", b"PAR1\0\0PAR1");
    assert_eq!(told(&comparison)[0], (FindingKind::FileType, "csv on the left side, parquet on the right"));
    let comparison = compare_bytes("a.parquet", "", b"PAR1\0\0PAR1");
    assert_eq!(told(&comparison)[0], (FindingKind::FileType, "an empty file on the left side, parquet on the right"));
}

#[test]
fn no_room_for_temporary_files_is_an_error() {
    let outputs = Outputs::pair("a.csv", "a,b\n1,2\n", "a,b\n1,3\n");
    let temporary = Some(outputs.left("nowhere"));
    let options = Options { temporary, ..Options::default() };
    let error = refrain_compare::compare(&outputs.left("a.csv"), &outputs.right("a.csv"), &options).unwrap_err();
    assert!(error.to_string().starts_with("cannot write temporary files in `"), "{error}");
}
