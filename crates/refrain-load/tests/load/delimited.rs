//! CSV and TSV are passed on as they are.

use super::{file, flights, read, refusal};
use refrain_load::{Dialect, Options};
use std::io::Write;

#[test]
fn every_byte_of_a_real_file_is_passed_on() {
    for day in 1..=31 {
        let path = flights::csv(day);
        let content = std::fs::read_to_string(&path).unwrap();
        let (source, text) = read(&path, &Options::default()).unwrap();
        assert!(text == content);
        assert_eq!(source.columns().join(","), content.lines().next().unwrap());
        assert_eq!(source.rows(), Some(content.lines().count() as u64 - 1));
    }
}

#[test]
fn chunks_are_bounded_and_whole_whatever_is_in_them() {
    let long = "é".repeat(300_000);
    let quoted = "x\"\"\n".repeat(100_000);
    let content = format!("a,b\n1,{long}\n2,\"{quoted}\"\n3,{}", "y\r\n4,z\r\n".repeat(200_000));
    let (_directory, path) = file("long.csv", &content);
    let mut source = refrain_load::open(&path, refrain_load::Format::Csv, &Options::default()).unwrap();
    let (mut text, mut chunk) = (vec![], vec![]);
    while source.next_chunk(&mut chunk).unwrap() {
        assert!(chunk.len() <= 384 << 10);
        text.append(&mut chunk);
    }
    assert!(text == content.as_bytes());
    assert_eq!(source.rows(), Some(2 + 400_000));
}

#[test]
fn headers_are_read_as_editors_and_spreadsheets_write_them() {
    for (content, columns, rows, passed) in [
        ("a,b\n1,2\n", vec!["a", "b"], 1, None),
        ("a,b\r\n1,2\r\n", vec!["a", "b"], 1, None),
        ("a,b\r1,2\r", vec!["a", "b"], 1, None),
        ("\u{feff}a,b\n1,2", vec!["a", "b"], 1, Some("a,b\n1,2")),
        ("\"a, or \"\"b\"\"\",\"two\nlines\"\n1,2", vec!["a, or \"b\"", "two\nlines"], 1, None),
        ("Grüße\nx\n\ny\n", vec!["Grüße"], 3, None),
        ("a,b\n", vec!["a", "b"], 0, None),
        ("a,b", vec!["a", "b"], 0, None),
        ("a\n\"x\ny\"\n\"x\r\ny\"", vec!["a"], 2, None),
    ] {
        let (_directory, path) = file("a.csv", content);
        let (source, text) = read(&path, &Options::default()).unwrap();
        assert_eq!(source.columns(), columns);
        assert_eq!((source.rows(), &*text), (Some(rows), passed.unwrap_or(content)));
    }
}

#[test]
fn tabs_other_delimiters_and_other_nulls_are_for_the_server() {
    let (_directory, path) = file("a.tsv", "a\tb\n1\t\n");
    let dialect = read(&path, &Options::default()).unwrap().0.dialect();
    assert_eq!(dialect, Dialect::Csv { delimiter: '\t', null: String::new() });
    let (_directory, path) = file("a.csv", "a;b\n1;NA\n");
    let options = Options { null: Some("NA".to_owned()), delimiter: Some(';'), ..Options::default() };
    let source = read(&path, &options).unwrap().0;
    assert_eq!((source.columns().len(), source.dialect()), (2, Dialect::Csv { delimiter: ';', null: "NA".to_owned() }));
    for options in [
        Options { delimiter: Some('é'), ..Options::default() },
        Options { delimiter: Some('"'), ..Options::default() },
        Options { null: Some("a,b".to_owned()), ..Options::default() },
        Options { null: Some("\\.".to_owned()), ..Options::default() },
    ] {
        assert!(read(&path, &options).unwrap_err().message.contains("cannot stand"));
    }
}

#[test]
fn packed_files_are_unpacked_whatever_their_name_is() {
    let content = std::fs::read(flights::csv(1)).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(vec![], flate2::Compression::default());
    gzip.write_all(&content).unwrap();
    let gzip = gzip.finish().unwrap();
    let zstd = zstd::encode_all(&content[..], 3).unwrap();
    for (name, packed) in [("a.csv.gz", &gzip), ("a.csv.zst", &zstd), ("a.csv", &gzip)] {
        let (_directory, path) = file(name, packed);
        let (source, text) = read(&path, &Options::default()).unwrap();
        assert!(text.as_bytes() == content);
        assert_eq!(source.rows(), Some(842));
        let cut = refusal(name, &packed[..packed.len() / 2]);
        assert_eq!(cut, format!("`{name}` cannot be unpacked: it is damaged or was not written to its end"));
    }
}

#[test]
fn what_is_no_table_is_refused_by_name_and_line() {
    for (content, expected) in [
        (&b""[..], "`a.csv` is empty: it has no header"),
        (b"\xef\xbb\xbf", "`a.csv` is empty: it has no header"),
        (b"\n1,2\n", "the first line of `a.csv` is no header in UTF-8"),
        (b",b\n1,2\n", "column 1 of `a.csv` has no name in the header"),
        (b"a,b,a\n", "the header of `a.csv` has the column `a` twice"),
        (b"a\xff\n", "the first line of `a.csv` is no header in UTF-8"),
        (b"\xff\xfea\0\n\0", "`a.csv` is UTF-16"),
        (b"a\nx\n\"y\nz\xe9\"\n", "line 4 of `a.csv` is not UTF-8: it has the byte 0xe9"),
        (b"a\nx\ny\0\n", "line 3 of `a.csv` has a NUL byte"),
    ] {
        assert_eq!(refusal("a.csv", content), expected);
    }
    let late = ["a\n".repeat(400_000).as_bytes(), b"\xc3"].concat();
    assert_eq!(refusal("a.csv", late), "line 400001 of `a.csv` is not UTF-8: it has the byte 0xc3");
    let open = format!("a,\"b\n{}", "1,2\n".repeat(1 << 20));
    assert_eq!(refusal("a.csv", open), "the header of `a.csv` is longer than 1 MiB");
}

#[test]
fn an_end_mark_of_copy_is_quoted_where_it_would_end_the_copy() {
    for (content, passed, rows) in [
        ("a\nx\n\\.\ny\n", "a\nx\n\"\\.\"\ny\n", 3),
        ("a\r\n\\.\r\ny\r\n", "a\r\n\"\\.\"\r\ny\r\n", 2),
        ("a\n\\.", "a\n\"\\.\"", 1),
        ("a\n\"x\n\\.\ny\"\n\\.\n", "a\n\"x\n\\.\ny\"\n\"\\.\"\n", 2),
        ("a\n\\.x\nx\\.\n\"\\.\"\n", "a\n\\.x\nx\\.\n\"\\.\"\n", 3),
    ] {
        let (_directory, path) = file("a.csv", content);
        let (source, text) = read(&path, &Options::default()).unwrap();
        assert_eq!((&*text, source.rows()), (passed, Some(rows)));
    }
    for before in (256 << 10) - 8..(256 << 10) + 8 {
        let content = format!("a\n{}\n\\.\nz\n", "x".repeat(before));
        let (_directory, path) = file("a.csv", &content);
        let text = read(&path, &Options::default()).unwrap().1;
        assert!(text.ends_with("\n\"\\.\"\nz\n"), "{before}");
    }
}
