//! Plain text and plain bytes.

use crate::support::{Outputs, assert_told, compare_bytes, only};
use refrain_compare::{Cause, FindingKind, Format, Known, Options, Verdict};

#[test]
fn lines_of_a_log() {
    let log = |second: usize, pid: usize| {
        format!(
            "2025-03-24T10:00:0{second}Z start\nloaded 842 rows\n2025-03-24T10:00:0{}Z done\nworker pid={pid}\n",
            second + 1
        )
    };
    let comparison = compare_bytes("run.log", log(1, 7), log(5, 7));
    let text = "the text differs in 2 of 4 lines: contains what looks like a wall-clock time";
    assert_told(&comparison, Verdict::ContentDiffers, &[(FindingKind::ColumnValues, text)]);
}

#[test]
fn the_order_of_lines_is_content() {
    let comparison = compare_bytes("a.txt", "B\nC\na\n", "a\nB\nC\n");
    assert_eq!(only(&comparison).text, "same lines in another order: looks like a locale's sort of `line`");
    assert_eq!(comparison.verdict, Verdict::ContentDiffers);
}

#[test]
fn lines_added() {
    let comparison = compare_bytes("a.txt", "one\ntwo\n", "one\nand a half\ntwo\n");
    assert_eq!(only(&comparison).text, "1 of 3 lines only on the right side, first: `and a half`");
}

#[test]
fn the_staging_path_in_a_text() {
    let known = vec![Known::new("the staging path", "/s/a1", "/s/b2")];
    let outputs = Outputs::pair("a.txt", "see /s/a1/x\n", "see /s/b2/x\n");
    let comparison = outputs.compare_with(&Options { known: known.clone(), ..Options::default() });
    assert_eq!(only(&comparison).text, "the text differs in 1 of 1 lines: contains the staging path");
    let outputs = Outputs::pair("a.bin", b"\0\x01/s/a1/x", b"\0\x01/s/b2/x");
    let comparison = outputs.compare_with(&Options { known, ..Options::default() });
    assert_eq!(only(&comparison).text, "2 of 9 bytes differ, the first at offset 5: contains the staging path");
    assert_eq!(only(&comparison).cause, Some(Cause::KnownString));
}

#[test]
fn bytes_without_a_form() {
    let comparison = compare_bytes("a.bin", [0, 1, 2, 3], [0, 1, 2, 4, 5]);
    assert_eq!(only(&comparison).text, "4 bytes on the left side, 5 on the right; they differ from offset 3");
    assert_eq!(comparison.files[0].formats, [Format::Bytes]);
    let comparison = compare_bytes("a", "", "x");
    assert_eq!(only(&comparison).kind, FindingKind::RowsAdded);
}
