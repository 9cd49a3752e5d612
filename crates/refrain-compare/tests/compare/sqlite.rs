//! SQLite databases.

use crate::support::{Outputs, only, told};
use refrain_compare::{Comparison, FindingKind, Format, Verdict};
use rusqlite::Connection;

fn compare(left: &[&str], right: &[&str]) -> Comparison {
    let outputs = Outputs::new();
    for (path, statements) in [(outputs.left("a.db"), left), (outputs.right("a.db"), right)] {
        let connection = Connection::open(path).unwrap();
        for statement in statements {
            connection.execute_batch(statement).unwrap();
        }
    }
    outputs.compare()
}

const TABLE: &str = "CREATE TABLE t (name TEXT, n INTEGER, at TEXT)";
const ROWS: &str = "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 500) \
                    INSERT INTO t SELECT 'name ' || i, i, '2025-03-24 10:00:00' FROM c";

#[test]
fn the_change_counter_is_not_content() {
    let comparison = compare(&[TABLE, ROWS], &["BEGIN", TABLE, ROWS, "COMMIT"]);
    assert_eq!(comparison.files[0].formats, [Format::Sqlite]);
    assert_eq!(only(&comparison).text, "same rows, the file's header differs: change counter");
    assert_eq!(comparison.verdict, Verdict::ContentEqual);
}

#[test]
fn free_pages_and_rowids_are_not_content() {
    let more = "INSERT INTO t SELECT name, n + 1000, at FROM t";
    let comparison = compare(&[TABLE, ROWS], &[TABLE, ROWS, more, "DELETE FROM t WHERE n > 1000"]);
    assert!(
        told(&comparison).iter().any(|(_, text)| text.starts_with("same rows with another page layout: 0 free pages")),
        "{:?}",
        told(&comparison)
    );
    assert_eq!(comparison.verdict, Verdict::ContentEqual);
    let comparison =
        compare(&[TABLE, ROWS], &[TABLE, "INSERT INTO t (name) VALUES ('x')", ROWS, "DELETE FROM t WHERE name = 'x'"]);
    assert_eq!(told(&comparison)[0], (FindingKind::SqliteRowIds, "table `t`: same rows with other rowids"));
}

#[test]
fn det_08_columns_of_tables() {
    let comparison = compare(&[TABLE, ROWS], &[TABLE, ROWS, "UPDATE t SET at = '2025-03-24 10:00:09'"]);
    let text = "table `t`: column `at` differs in 500 of 500 rows: looks like a wall-clock time";
    assert_eq!(told(&comparison), [(FindingKind::ColumnValues, text)]);
    assert_eq!(only(&comparison).place.as_deref(), Some("t"));
}

#[test]
fn types_differ_though_the_text_is_the_same() {
    let table = "CREATE TABLE t (x)";
    let comparison = compare(&[table, "INSERT INTO t VALUES (1)"], &[table, "INSERT INTO t VALUES ('1')"]);
    assert_eq!(comparison.verdict, Verdict::ContentDiffers);
}

#[test]
fn autoincrement_goes_on() {
    let table = "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, x)";
    let insert = "INSERT INTO t (x) VALUES (1)";
    let comparison = compare(&[table, insert], &[table, insert, insert, "DELETE FROM t WHERE id = 2"]);
    let text = "table `t`: the next AUTOINCREMENT number differs: after 1 on the left side, after 2 on the right";
    assert_eq!(told(&comparison)[0], (FindingKind::SqliteSequence, text));
    assert_eq!(comparison.verdict, Verdict::ContentEqual);
}

#[test]
fn schemas_differ() {
    let comparison = compare(&[TABLE, "CREATE INDEX i ON t (n)"], &[TABLE, "CREATE TABLE u (x)"]);
    let texts: Vec<_> = told(&comparison).into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, ["index `i` is only on the left side", "table `u` is only on the right side"]);
    let comparison = compare(&[TABLE], &["CREATE TABLE t (name TEXT, n TEXT, at TEXT, more)"]);
    assert!(told(&comparison).iter().any(|(kind, _)| *kind == FindingKind::SqliteSchema));
    assert!(told(&comparison).iter().any(|(kind, _)| *kind == FindingKind::ColumnAdded));
}

#[test]
fn lite_02_rows_in_the_log_count_and_nothing_is_written_beside_the_outputs() {
    let outputs = Outputs::new();
    let mut open = vec![];
    for (path, mode) in [(outputs.left("a.db"), "wal"), (outputs.right("a.db"), "delete")] {
        let connection = Connection::open(path).unwrap();
        connection.pragma_update(None, "journal_mode", mode).unwrap();
        connection.execute_batch(&format!("{TABLE};{ROWS}")).unwrap();
        open.push(connection);
    }
    // The connection with the log stays open: its rows are in the log only.
    let list =
        || std::fs::read_dir(outputs.left("")).unwrap().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>();
    let before = list();
    let comparison = outputs.compare();
    let database = comparison.files.iter().find(|file| file.left.as_deref() == Some("a.db")).unwrap();
    assert_eq!(database.verdict, Verdict::ContentEqual, "{:?}", database.findings);
    assert_eq!(list(), before);
    drop(open);
}

#[test]
fn names_that_need_quotes() {
    let table = "CREATE TABLE \"a \"\"b\" (\"x y\" TEXT, \"select\" INTEGER)";
    let insert = |n: u8| format!("INSERT INTO \"a \"\"b\" VALUES ('a', 1), ('b', {n})");
    let comparison = compare(&[table, &insert(2)], &[table, &insert(3)]);
    assert_eq!(only(&comparison).column.as_deref(), Some("select"));
}
