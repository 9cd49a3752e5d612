//! Files into real servers.

use super::{arrow, file, flights, types};
use refrain_load::{Format, Options, Place, Shape, Source, open, parse_context};
use refrain_postgres::{Fault, Limits, Link, Session, quote_identifier};
use refrain_testkit::postgres::{Database, Server, Version};
use std::path::Path;

/// Loads a file into `public.stage`, made with those columns; the number of rows, or the place that the server means.
fn load(database: &Database, columns: &str, path: &Path, options: &Options) -> Result<u64, (Option<Place>, String)> {
    database.psql(&format!("DROP TABLE IF EXISTS public.stage; CREATE TABLE public.stage ({columns})"));
    let link = Link::resolve(&database.url(), &|name| (name == "HOME").then(|| "/nonexistent".into())).unwrap();
    let mut session = Session::open(&link, "a test").unwrap();
    let mut transaction = session.write(&Limits::default()).unwrap();
    let mut source = open(path, Format::of(path).unwrap(), options).unwrap();
    let names: Vec<String> = source.columns().iter().map(|name| quote_identifier(name)).collect();
    let sql = format!("COPY public.stage ({}) FROM STDIN {}", names.join(", "), source.dialect());
    let copied = send(transaction.copy_in(&sql).unwrap(), &mut source);
    match copied {
        Ok(rows) => {
            assert_eq!(source.rows(), Some(rows));
            transaction.commit("SELECT 1").unwrap();
            Ok(rows)
        }
        Err(Fault::Refused(refusal)) => {
            let context = refusal.context.clone().unwrap_or_default();
            let place = parse_context(&context, "stage", source.columns())
                .map(|(line, column)| source.explain(line, column.as_deref()));
            Err((place, refusal.message))
        }
        Err(fault) => panic!("{fault:?}"),
    }
}

fn send(mut copy: refrain_postgres::CopyIn, source: &mut Source) -> Result<u64, Fault> {
    let mut chunk = vec![];
    while source.next_chunk(&mut chunk).unwrap() {
        copy.send(std::mem::take(&mut chunk))?;
    }
    copy.finish()
}

/// The place at which a file is refused, as it is told.
fn refused(database: &Database, columns: &str, name: &str, content: &str) -> String {
    let (_directory, path) = file(name, content);
    let (place, message) = load(database, columns, &path, &Options::default()).unwrap_err();
    format!("{}: {message}", place.unwrap())
}

#[test]
fn every_type_comes_back_as_it_was() {
    let cases = types::cases();
    let columns: Vec<String> = cases.iter().map(|case| format!("{} {}", case.name, case.target)).collect();
    let shape = |target: &str| match target {
        "jsonb" => Shape::Json,
        "text" => Shape::Text,
        target if target.ends_with("[]") => Shape::Array,
        _ => Shape::Any,
    };
    let shapes = cases.iter().map(|case| (case.name.clone(), shape(case.target))).collect();
    let options = Options { shapes, ..Options::default() };
    let whole = types::batch(&cases);
    let formats = [("a.arrow", arrow::ipc_file(std::slice::from_ref(&whole))), ("a.parquet", arrow::parquet(&[whole]))];
    for version in Version::ALL {
        let database = Server::shared(version).database();
        for (name, content) in &formats {
            let (_directory, path) = file(name, content);
            assert_eq!(load(&database, &columns.join(", "), &path, &options).unwrap(), 3);
            for case in &cases {
                // In hexadecimal digits, for a value may have line ends.
                let sql = format!(
                    "SET TimeZone = 'UTC'; SELECT pg_catalog.encode(pg_catalog.convert_to(coalesce({}::text, '{}'), \
                     'UTF8'), 'hex') FROM public.stage ORDER BY ctid",
                    case.name,
                    types::NULL
                );
                let hex = |text: &str| text.bytes().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
                let expected = case.expected.iter().copied().chain([types::NULL]).map(hex);
                let expected = expected.collect::<Vec<_>>().join("\n");
                assert_eq!(
                    database.psql(&sql),
                    expected,
                    "{version} {name} {} {:?}",
                    case.target,
                    case.array.data_type()
                );
            }
        }
    }
}

#[test]
fn real_rows_are_the_same_from_every_format() {
    let database = Server::shared(Version::V15).database();
    let digest = "SELECT pg_catalog.count(*), pg_catalog.md5(pg_catalog.string_agg(s::text, ',' ORDER BY s::text)) FROM public.stage s";
    let na = Options { null: Some("NA".to_owned()), ..Options::default() };
    assert_eq!(load(&database, flights::TABLE, &flights::csv(1), &na).unwrap(), 842);
    let expected = database.psql(digest);
    let lines = database.psql("SET TimeZone = 'UTC'; SELECT pg_catalog.row_to_json(s) FROM public.stage s");
    let batch = [flights::batch(1)];
    let others =
        [("a.parquet", arrow::parquet(&batch)), ("a.arrow", arrow::ipc_file(&batch)), ("a.jsonl", lines.into_bytes())];
    for (name, content) in others {
        let (_directory, path) = file(name, content);
        assert_eq!(load(&database, flights::TABLE, &path, &Options::default()).unwrap(), 842);
        assert_eq!(database.psql(digest), expected, "{name}");
    }
}

#[test]
fn a_bad_value_is_named_by_its_place_in_the_file() {
    for version in Version::ALL {
        let database = Server::shared(version).database();
        let refused = |columns: &str, name: &str, content: &str| refused(&database, columns, name, content);
        let bad = "invalid input syntax for type integer: \"x\"";
        let table = "a text, delay int";
        assert_eq!(refused(table, "a.csv", "a,delay\ny,1\nz,x\n"), format!("line 3, column `delay`: `x`: {bad}"));
        let quoted = "a,delay\n\"1\n2\n3\",1\n\"4\n5\",x\n";
        assert_eq!(refused(table, "a.csv", quoted), format!("line 5, column `delay`: `x`: {bad}"));
        let spreadsheet = "a,delay\r\n\"1\n2\n3\",1\r\n\"4\n5\",2\r\n6,x\r\n";
        assert_eq!(refused(table, "a.csv", spreadsheet), format!("line 7, column `delay`: `x`: {bad}"));
        let both = "a,delay\r\n\"1\r\n2\n3\",1\r\n6,x\r\n";
        assert_eq!(refused(table, "a.csv", both), format!("line 5, column `delay`: `x`: {bad}"));
        let old = "a,delay\r\"1\r2\",1\r6,x\r";
        assert_eq!(refused(table, "a.csv", old), format!("line 4, column `delay`: `x`: {bad}"));
        let header = "\"a\",\"delay\"\n1,2\n\n3,x\n";
        assert_eq!(refused(table, "a.csv", header), "line 3: missing data for column \"delay\"");
        let open = "a,delay\n1,2\n\"3,4\n5,6\n";
        assert_eq!(refused(table, "a.csv", open), "line 3: unterminated CSV quoted field");
        let extra = "a,delay\n1,2\n3,4,5\n";
        assert_eq!(refused(table, "a.csv", extra), "line 3: extra data after last expected column");
        let objects = "{\"a\":\"1\\n2\",\"delay\":1}\n\n{\"delay\":\"x\"}\n";
        assert_eq!(refused(table, "a.jsonl", objects), format!("line 3, column `delay`: `x`: {bad}"));
        let null = refused("a text, delay int NOT NULL", "a.csv", "a,delay\n1,2\n3,\n");
        assert!(null.starts_with("line 3: null value in column \"delay\""), "{null}");
    }
}

#[test]
fn a_line_with_the_end_mark_of_copy_loses_no_row() {
    for version in Version::ALL {
        let database = Server::shared(version).database();
        for (content, rows, expected) in [
            ("a\nx\n\\.\ny\n", 3, "x\n\\.\ny"),
            ("a\r\n\\.\r\n\"\n\\.\n\"\r\ny\r\n", 3, "\\.\n\n\\.\n\ny"),
            ("a\nx\n\\.", 2, "x\n\\."),
        ] {
            let (_directory, path) = file("a.csv", content);
            assert_eq!(load(&database, "a text", &path, &Options::default()), Ok(rows), "{version} {content:?}");
            assert_eq!(database.psql("SELECT a FROM public.stage ORDER BY ctid"), expected);
        }
        let wide = refused(&database, "a text, b text", "a.csv", "a,b\n1,2\n\\.\n3,4\n");
        assert_eq!(wide, "line 3: missing data for column \"b\"");
    }
}

#[test]
fn the_server_counts_the_rows_that_the_file_has() {
    let database = Server::shared(Version::V15).database();
    for (content, rows) in [
        ("a", 0),
        ("a\n", 0),
        ("a\n\n", 1),
        ("a\n\"\"\n\n1", 3),
        ("a\r\n1\r\n", 1),
        ("a\r1\r2", 2),
        ("\u{feff}a\n\"x\n\n\"\"\n\"\n", 1),
    ] {
        let (_directory, path) = file("a.csv", content);
        assert_eq!(load(&database, "a text", &path, &Options::default()), Ok(rows), "{content:?}");
    }
    let (_directory, path) = file("a.tsv", "a\tb\n\"x\ty\"\t\n");
    load(&database, "a text, b int", &path, &Options::default()).unwrap();
    assert_eq!(database.psql("SELECT a, b IS NULL FROM public.stage"), "x\ty|t");
}
