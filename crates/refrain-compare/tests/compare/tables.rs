//! CSV and JSON Lines.

use crate::support::{
    Outputs, assert_told, causes, compare_bytes, flights, only, shuffle, told, with_column, with_rows,
};
use refrain_compare::{Cause, FindingKind, Known, Options, Verdict};
use std::fmt::Write;

#[test]
fn equal_bytes_are_equal() {
    let comparison = compare_bytes("a.csv", flights(), flights());
    assert!(comparison.is_equal() && comparison.is_equivalent());
    assert_eq!((comparison.equal_files, comparison.files.len()), (1, 0));
}

#[test]
fn det_07_another_order_of_the_same_rows() {
    let comparison = compare_bytes("a.csv", flights(), with_rows(&flights(), |rows| shuffle(rows)));
    let finding = only(&comparison);
    assert_eq!(finding.kind, FindingKind::RowOrder);
    assert_eq!(finding.text, "same rows in another order");
    assert_eq!(comparison.files[0].summary(), "bytes differ, rows equal (order)");
    assert!(comparison.is_equivalent());
}

#[test]
fn det_08_a_wall_clock_and_a_uuid_are_named_with_their_rows() {
    let with = |csv: &str, second: usize, uuid: &str| {
        let csv = with_column(csv, "loaded_at", |row| format!("2025-03-24 10:00:0{second}.{:06}", row * 31));
        with_column(&csv, "id", |row| format!("{uuid}{row:04x}"))
    };
    let left = with(&flights(), 1, "6fa459ea-ee8a-4ca4-894e-db77e160");
    let right = with(&flights(), 8, "16fd2706-8baf-433b-82eb-8c7fada8");
    let expected = [
        (FindingKind::ColumnValues, "column `loaded_at` differs in 842 of 842 rows: looks like a wall-clock time"),
        (FindingKind::ColumnValues, "column `id` differs in 842 of 842 rows: looks like a random UUID"),
    ];
    assert_told(&compare_bytes("a.csv", &left, &right), Verdict::ContentDiffers, &expected);

    let shuffled = with_rows(&right, |rows| shuffle(rows));
    let comparison = compare_bytes("a.csv", &left, &shuffled);
    assert_eq!(told(&comparison)[..2], expected);
    assert_eq!(told(&comparison)[2], (FindingKind::RowOrder, "the rows stand in another order"));
}

#[test]
fn few_rows_changed_in_another_order_are_found() {
    let changed = with_rows(&flights(), |rows| {
        shuffle(rows);
        for row in rows.iter_mut().take(5) {
            *row = row.replacen("2013,1,1", "2013,1,2", 1);
        }
    });
    let comparison = compare_bytes("a.csv", flights(), changed);
    let finding = comparison.findings().next().unwrap().1;
    assert_eq!((finding.column.as_deref(), finding.differing, finding.total), (Some("day"), Some(5), Some(842)));
    assert_eq!(told(&comparison)[1], (FindingKind::RowOrder, "the rows stand in another order"));
}

#[test]
fn det_04_numeric_noise_has_its_largest_difference() {
    let sums = |last: &str| format!("carrier,sum\nAA,0.1\nUA,1.{last}\nB6,3.5\n");
    let comparison = compare_bytes("a.csv", sums("5"), sums("5000000000000004"));
    let text = "column `sum` differs in 1 of 3 rows: numeric noise, largest relative difference 3e-16";
    assert_told(&comparison, Verdict::ContentDiffers, &[(FindingKind::ColumnValues, text)]);
    let outputs = Outputs::pair("a.csv", sums("5"), sums("5000000000000004"));
    assert!(outputs.compare_with(&Options { tolerance: Some(1e-12), ..Options::default() }).is_equivalent());
    assert!(!outputs.compare_with(&Options { tolerance: Some(1e-17), ..Options::default() }).is_equivalent());
}

#[test]
fn rows_added_and_removed_are_counted() {
    let fewer = with_rows(&flights(), |rows| {
        rows.drain(10..13);
    });
    let comparison = compare_bytes("a.csv", flights(), &fewer);
    let finding = only(&comparison);
    assert_eq!((finding.kind, finding.differing, finding.total), (FindingKind::RowsRemoved, Some(3), Some(842)));
    assert!(
        finding.text.starts_with("3 of 842 rows only on the left side, first: year=2013, month=1"),
        "{}",
        finding.text
    );
    let comparison = compare_bytes("a.csv", &fewer, flights());
    assert_eq!(only(&comparison).kind, FindingKind::RowsAdded);
}

#[test]
fn duplicates_count() {
    let twice = with_rows(&flights(), |rows| {
        let first = rows[0].clone();
        rows.push(first);
    });
    let comparison = compare_bytes("a.csv", flights(), twice);
    assert_eq!((only(&comparison).kind, only(&comparison).differing), (FindingKind::RowsAdded, Some(1)));
}

#[test]
fn all_rows_added_to_an_empty_file() {
    let header = flights().lines().next().unwrap().to_owned() + "\n";
    let comparison = compare_bytes("a.csv", header, flights());
    assert_eq!((only(&comparison).kind, only(&comparison).differing), (FindingKind::RowsAdded, Some(842)));
}

#[test]
fn columns_added_removed_renamed_and_reordered() {
    let wider = with_column(&flights(), "extra", |row| row.to_string());
    let comparison = compare_bytes("a.csv", flights(), &wider);
    assert_told(
        &comparison,
        Verdict::ContentDiffers,
        &[(FindingKind::ColumnAdded, "column `extra` is only on the right side")],
    );
    let comparison = compare_bytes("a.csv", &wider, flights());
    assert_eq!(only(&comparison).kind, FindingKind::ColumnRemoved);
    let renamed = flights().replacen("carrier", "airline", 1);
    let comparison = compare_bytes("a.csv", flights(), renamed);
    assert_eq!(only(&comparison).text, "column `carrier` is called `airline` on the right side");
    let comparison = compare_bytes("a.csv", "a,b\n1,2\n3,4\n", "b,a\n2,1\n4,3\n");
    assert_eq!(only(&comparison).kind, FindingKind::ColumnOrder);
    assert!(comparison.is_equivalent());
}

#[test]
fn det_05_a_locale_sorts_otherwise() {
    let names = |names: &[&str]| names.iter().fold("name,n\n".to_owned(), |text, name| text + name + ",1\n");
    let comparison = compare_bytes("a.csv", names(&["B", "C", "a", "d"]), names(&["a", "B", "C", "d"]));
    assert_eq!(only(&comparison).text, "same rows in another order: looks like a locale's sort of `name`");
    assert_eq!(only(&comparison).cause, Some(Cause::LocaleSort));
    let comparison = compare_bytes("a.csv", names(&["10", "9", "91"]), names(&["9", "10", "91"]));
    assert_eq!(only(&comparison).cause, Some(Cause::NumberSort));
}

#[test]
fn det_05_a_decimal_comma_in_another_dialect() {
    let comparison = compare_bytes("a.csv", "id,x\n1,1.5\n2,2.25\n", "id;x\n1;1,5\n2;2,25\n");
    assert_eq!(causes(&comparison)[0], (Some("x"), Some(Cause::DecimalComma)));
    assert_eq!(told(&comparison)[1].0, FindingKind::Delimiter);
}

#[test]
fn what_is_known_is_named() {
    let row = |attempt: usize| format!("file,attempt\n/home/a/staging/{attempt}/x.csv,attempt-{attempt}\n");
    let known = vec![
        Known::new("the staging path", "/home/a/staging/17", "/home/a/staging/23"),
        Known::new("the attempt's id", "attempt-17", "attempt-23"),
    ];
    let comparison = Outputs::pair("a.csv", row(17), row(23)).compare_with(&Options { known, ..Options::default() });
    let expected = [
        (FindingKind::ColumnValues, "column `file` differs in 1 of 1 rows: contains the staging path"),
        (FindingKind::ColumnValues, "column `attempt` differs in 1 of 1 rows: contains the attempt's id"),
    ];
    assert_told(&comparison, Verdict::ContentDiffers, &expected);
}

#[test]
fn ids_given_in_the_order_of_arrival_are_permuted() {
    let rows = |order: &[usize]| {
        let cells = ["x", "y", "z", "w"].iter().zip(order).map(|(name, id)| format!("{name},{id}\n"));
        format!("name,id\n{}", cells.collect::<String>())
    };
    let comparison = compare_bytes("a.csv", rows(&[1, 2, 3, 4]), rows(&[2, 1, 4, 3]));
    let finding = comparison.findings().find(|(_, finding)| finding.column.as_deref() == Some("id")).unwrap().1;
    assert_eq!((finding.differing, finding.total), (Some(4), Some(4)));
}

#[test]
fn a_counter_that_goes_on() {
    let rows =
        |start: usize| (0..20).fold("name,id\n".to_owned(), |text, row| text + &format!("n{row},{}\n", start + row));
    let comparison = compare_bytes("a.csv", rows(1), rows(843));
    assert_eq!(only(&comparison).cause, Some(Cause::Counter));
    let comparison = compare_bytes("a.csv", rows(1), rows(1).replace("n3,4", "n3,5").replace("n8,9", "n8,10"));
    assert_eq!(only(&comparison).cause, Some(Cause::Number));
}

#[test]
fn spelling_of_csv_is_not_content() {
    for (right, kind) in [
        ("\"a\",b\n1,2\n", FindingKind::Quoting),
        ("a,b\r\n1,2\r\n", FindingKind::LineEnds),
        ("a,b\n1,2", FindingKind::TrailingNewline),
        ("\u{feff}a,b\n1,2\n", FindingKind::Encoding),
        ("a,b\n\n1,2\n", FindingKind::Quoting),
    ] {
        let comparison = compare_bytes("a.csv", "a,b\n1,2\n", right);
        assert_eq!((only(&comparison).kind, comparison.verdict), (kind, Verdict::ContentEqual), "{right}");
    }
}

#[test]
fn other_encodings_are_read() {
    let utf16: Vec<u8> = "\u{feff}name,n\nä,1\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let comparison = compare_bytes("a.csv", "name,n\nä,1\n", utf16);
    assert_eq!((only(&comparison).kind, comparison.verdict), (FindingKind::Encoding, Verdict::ContentEqual));
    let comparison = compare_bytes("a.csv", "name,n\nä,1\n", b"name,n\n\xe4,1\n");
    assert_eq!((only(&comparison).kind, comparison.verdict), (FindingKind::Encoding, Verdict::ContentEqual));
}

#[test]
fn files_without_a_header_have_numbered_columns() {
    let comparison = compare_bytes("a.tsv", "1\tx\n2\ty\n", "1\tx\n2\tz\n");
    assert_eq!(only(&comparison).column.as_deref(), Some("2"));
    let outputs = Outputs::pair("a.csv", "a,b\n1,2\n", "a,c\n1,2\n");
    let comparison = outputs.compare_with(&Options { csv_header: Some(false), ..Options::default() });
    assert_eq!(only(&comparison).column.as_deref(), Some("2"));
}

#[test]
fn json_lines_are_rows() {
    let line = |id: usize, at: usize| {
        format!("{{\"id\": {id}, \"at\": \"2025-03-24T10:00:{at:02}Z\", \"in\": {{\"a\": 1, \"b\": [1, 2]}}}}\n")
    };
    let left = line(1, 1) + &line(2, 2);
    let comparison = compare_bytes("a.jsonl", &left, line(1, 11) + &line(2, 12));
    let text = "column `at` differs in 2 of 2 rows: looks like a wall-clock time";
    assert_told(&comparison, Verdict::ContentDiffers, &[(FindingKind::ColumnValues, text)]);
    let comparison = compare_bytes("a.jsonl", &left, line(2, 2) + &line(1, 1));
    assert_eq!(only(&comparison).kind, FindingKind::RowOrder);
    let spelled = left.replace("\"a\": 1, \"b\": [1, 2]", "\"b\":[1,2],\"a\":1");
    let comparison = compare_bytes("a.jsonl", &left, spelled);
    assert_eq!((only(&comparison).kind, comparison.verdict), (FindingKind::JsonSpelling, Verdict::ContentEqual));
    let big = |last: u8| format!("{{\"n\": 1844674407370955161{last}}}\n");
    assert!(!compare_bytes("a.jsonl", big(7), big(8)).is_equivalent());
}

#[test]
fn json_documents_are_compared_by_paths() {
    let document = |at: usize, order: &str| {
        format!(
            "{{\"rows\": [{{\"x\": 1, \"at\": \"2025-03-24T10:00:0{at}Z\"}}, {{\"x\": 2, \"at\": \"2025-03-24T10:01:0{at}Z\"}}], \"tags\": {order}}}"
        )
    };
    let comparison = compare_bytes("a.json", document(1, "[1, 2]"), document(5, "[2, 1]"));
    let expected = [
        (FindingKind::RowOrder, "`$.tags` has the same elements in another order"),
        (FindingKind::JsonValue, "`$.rows[*].at` differs in 2 of 2 places: looks like a wall-clock time"),
    ];
    assert_told(&comparison, Verdict::ContentDiffers, &expected);
    let comparison = compare_bytes("a.json", "{\"a\": 1, \"b\": 2}", "{\n \"b\": 2,\n \"a\": 1}");
    assert_eq!((only(&comparison).kind, comparison.verdict), (FindingKind::JsonSpelling, Verdict::ContentEqual));
}

#[test]
fn many_rows_are_matched_in_little_memory() {
    // More unmatched rows than are held in memory, in another order, and a budget that makes every sort spill.
    let rows = |shift: usize, order: usize| {
        let mut text = String::from("key,kind,value\n");
        for row in 0..60_000_usize {
            let row = row * order % 60_000;
            let value = if row.is_multiple_of(2) { row } else { row + shift };
            writeln!(text, "k{row},{},{value}", row % 7).unwrap();
        }
        text
    };
    let outputs = Outputs::pair("a.csv", rows(0, 1), rows(1_000_000, 59_999));
    let comparison = outputs.compare_with(&Options { memory_bytes: 0, ..Options::default() });
    let (column, differing) = (told(&comparison)[0].1, comparison.files[0].findings[0].differing);
    assert!(column.starts_with("column `value` differs in 30000 of 60000 rows"), "{column}");
    assert_eq!(differing, Some(30_000));
    assert_eq!(told(&comparison).last().unwrap().0, FindingKind::RowOrder);

    let fewer = rows(1_000_000, 59_999);
    let fewer: Vec<&str> = fewer.lines().take(59_001).collect();
    let outputs = Outputs::pair("a.csv", rows(0, 1), fewer.join("\n"));
    let comparison = outputs.compare_with(&Options { memory_bytes: 0, ..Options::default() });
    let finding = comparison.findings().find(|(_, finding)| finding.kind == FindingKind::RowsRemoved).unwrap().1;
    assert_eq!((finding.differing, finding.total), (Some(1000), Some(60_000)));
    assert!(
        told(&comparison)[0].1.starts_with("column `value` differs in 29500 of 59000 rows"),
        "{:?}",
        told(&comparison)
    );
}
