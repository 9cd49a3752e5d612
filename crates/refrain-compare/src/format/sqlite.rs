//! SQLite databases: their tables as rows, and what the file has beside them.

use super::{Collector, bytes};
use crate::error::Error;
use crate::options::Options;
use crate::report::{Finding, FindingKind};
use crate::rows::{Column, Side, Stop, Table, Tables, Visit, Want, compare_tables, hash_value};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const HEADER_BYTES: usize = 100;

/// Kind and name of a part of the schema, and its definition.
type Schema = BTreeMap<(String, String), String>;

/// A database that is read and never written.
struct Database {
    /// As SQLite opens it.
    uri: String,
    path: PathBuf,
    /// Holds the copy that a write-ahead log needs.
    _copy: Option<TempDir>,
}

impl Database {
    /// Looks whether committed rows are still in a write-ahead log beside the file: then both are copied, since SQLite
    /// writes beside a database whose log it reads.
    fn find(path: &Path, options: &Options) -> Result<Self, Error> {
        let mut log = OsString::from(path);
        log.push("-wal");
        let has_log = std::fs::metadata(&log).is_ok_and(|metadata| metadata.len() > 0);
        if !has_log {
            return Ok(Self { uri: uri(path, "mode=ro&immutable=1"), path: path.to_owned(), _copy: None });
        }
        let copy = options.scratch()?;
        let target = copy.path().join("copy.db");
        for (from, to) in [(path.as_os_str(), target.clone()), (&log, copy.path().join("copy.db-wal"))] {
            std::fs::copy(from, to).map_err(options.no_room())?;
        }
        Ok(Self { uri: uri(&target, "mode=rw"), path: path.to_owned(), _copy: Some(copy) })
    }

    fn open(&self) -> Result<Connection, Stop> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.uri, flags).map_err(broken)?;
        connection.pragma_update(None, "query_only", true).map_err(broken)?;
        Ok(connection)
    }

    fn schema(&self) -> Result<Schema, Stop> {
        let connection = self.open()?;
        let query =
            "SELECT type, name, coalesce(sql, '') FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'";
        let mut statement = connection.prepare(query).map_err(broken)?;
        let rows = statement.query_map([], |row| Ok(((row.get(0)?, row.get(1)?), row.get(2)?))).map_err(broken)?;
        rows.collect::<rusqlite::Result<_>>().map_err(broken)
    }

    fn sequences(&self) -> Result<BTreeMap<String, i64>, Stop> {
        let connection = self.open()?;
        let Ok(mut statement) = connection.prepare("SELECT name, seq FROM sqlite_sequence") else {
            return Ok(BTreeMap::new());
        };
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).map_err(broken)?;
        rows.collect::<rusqlite::Result<_>>().map_err(broken)
    }

    /// A hash of the numbers of a table's rows, in their order; nothing for a table without them.
    fn row_ids(&self, table: &str) -> Result<Option<u128>, Stop> {
        let connection = self.open()?;
        let Ok(mut statement) = connection.prepare(&format!("SELECT rowid FROM {}", quoted(table))) else {
            return Ok(None);
        };
        let mut hasher = xxhash_rust::xxh3::Xxh3::new();
        let mut rows = statement.query([]).map_err(broken)?;
        while let Some(row) = rows.next().map_err(broken)? {
            hasher.update(&row.get::<_, i64>(0).map_err(broken)?.to_le_bytes());
        }
        Ok(Some(hasher.digest128()))
    }
}

#[expect(clippy::needless_pass_by_value, reason = "a function for `map_err`")]
fn broken(error: rusqlite::Error) -> Stop {
    Stop::Broken(error.to_string())
}

fn uri(path: &Path, parameters: &str) -> String {
    let mut uri = "file:".to_owned();
    for &byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/-_.".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            uri += &format!("%{byte:02X}");
        }
    }
    uri + "?" + parameters
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

struct SqliteTable<'a> {
    database: &'a Database,
    name: String,
    columns: Vec<Column>,
}

impl<'a> SqliteTable<'a> {
    fn open(database: &'a Database, name: &str) -> Result<Self, Stop> {
        let connection = database.open()?;
        let mut statement = connection.prepare("SELECT name, type FROM pragma_table_info(?1)").map_err(broken)?;
        let column = |row: &rusqlite::Row<'_>| Ok(Column { name: row.get(0)?, kind: row.get(1)? });
        let columns =
            statement.query_map([name], column).map_err(broken)?.collect::<rusqlite::Result<_>>().map_err(broken)?;
        Ok(Self { database, name: name.to_owned(), columns })
    }
}

impl Table for SqliteTable<'_> {
    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn scan(&self, want: Want, visit: &mut Visit<'_>) -> Result<(), Stop> {
        let connection = self.database.open()?;
        let names: Vec<String> = self.columns.iter().map(|column| quoted(&column.name)).collect();
        let query = format!("SELECT {} FROM {}", names.join(", "), quoted(&self.name));
        let mut statement = connection.prepare(&query).map_err(broken)?;
        let mut rows = statement.query([]).map_err(broken)?;
        let mut collector = Collector::new(want, self.columns.len());
        while let Some(row) = rows.next().map_err(broken)? {
            for place in 0..self.columns.len() {
                cell(row.get_ref(place).map_err(broken)?, &mut collector);
            }
            if collector.end_row() && visit(collector.take())?.is_break() {
                return Ok(());
            }
        }
        visit(collector.take()).map(|_| ())
    }
}

/// A value of one type never has the hash of a value of another type.
fn cell(value: ValueRef<'_>, collector: &mut Collector) {
    let tagged = |tag: u64, bytes: &[u8]| hash_value(bytes) ^ tag;
    match value {
        ValueRef::Null => collector.hashed_cell(0, None),
        ValueRef::Integer(number) => {
            collector.hashed_cell(tagged(1, &number.to_le_bytes()), Some(number.to_string().as_bytes()));
        }
        ValueRef::Real(number) => {
            collector.hashed_cell(tagged(2, &number.to_le_bytes()), Some(format!("{number:?}").as_bytes()));
        }
        ValueRef::Text(text) => collector.cell(text),
        ValueRef::Blob(bytes) => {
            let shown = super::hex(&bytes[..bytes.len().min(1024)]);
            collector.hashed_cell(tagged(3, bytes), Some(shown.as_bytes()));
        }
    }
}

/// Compares two databases.
pub(crate) fn compare(left: &Path, right: &Path, options: &Options) -> Result<Vec<Finding>, (Side, Stop)> {
    let (left, right) = (
        Database::find(left, options).map_err(|error| (Side::Left, error.into()))?,
        Database::find(right, options).map_err(|error| (Side::Right, error.into()))?,
    );
    let schemas =
        (left.schema().map_err(|stop| (Side::Left, stop))?, right.schema().map_err(|stop| (Side::Right, stop))?);
    let mut findings = schema_findings(&schemas.0, &schemas.1);
    let is_table = |(kind, _): &&(String, String)| kind == "table";
    for key in schemas.0.keys().filter(is_table).filter(|key| schemas.1.contains_key(*key)) {
        findings.extend(table_findings(&left, &right, &key.1, options)?);
    }
    findings.extend(sequence_findings(&left, &right)?);
    let file = file_findings(&left.path, &right.path).map_err(|error| (Side::Left, error.into()))?;
    if findings.iter().all(|finding| !finding.is_content) {
        findings.extend(file);
    }
    Ok(findings)
}

fn schema_findings(left: &Schema, right: &Schema) -> Vec<Finding> {
    let mut findings = vec![];
    for ((kind, name), definition) in left {
        match right.get(&(kind.clone(), name.clone())) {
            None => {
                let text = format!("{kind} `{name}` is only on the left side");
                findings.push(Finding::new(FindingKind::OnlyLeft, true, text));
            }
            Some(other) if other != definition => {
                let text = format!("the definition of {kind} `{name}` differs");
                let finding = Finding::new(FindingKind::SqliteSchema, true, text);
                findings.push(finding.example(Some(definition.clone()), Some(other.clone())));
            }
            Some(_) => {}
        }
    }
    for (kind, name) in right.keys().filter(|key| !left.contains_key(*key)) {
        let text = format!("{kind} `{name}` is only on the right side");
        findings.push(Finding::new(FindingKind::OnlyRight, true, text));
    }
    findings
}

fn table_findings(
    left: &Database,
    right: &Database,
    name: &str,
    options: &Options,
) -> Result<Vec<Finding>, (Side, Stop)> {
    let tables = (
        SqliteTable::open(left, name).map_err(|stop| (Side::Left, stop))?,
        SqliteTable::open(right, name).map_err(|stop| (Side::Right, stop))?,
    );
    let pair = Tables { left: &tables.0, right: &tables.1, rows: "rows", is_text: false };
    let mut findings = compare_tables(&pair, options)?;
    if findings.is_empty() {
        let ids = (
            left.row_ids(name).map_err(|stop| (Side::Left, stop))?,
            right.row_ids(name).map_err(|stop| (Side::Right, stop))?,
        );
        if ids.0 != ids.1 {
            let text = "same rows with other rowids";
            let hint = "Declare an INTEGER PRIMARY KEY, or VACUUM before publishing.";
            findings.push(Finding::new(FindingKind::SqliteRowIds, false, text).hint(hint));
        }
    }
    Ok(findings.into_iter().map(|finding| finding.within(name, &format!("table `{name}`"))).collect())
}

fn sequence_findings(left: &Database, right: &Database) -> Result<Vec<Finding>, (Side, Stop)> {
    let sequences =
        (left.sequences().map_err(|stop| (Side::Left, stop))?, right.sequences().map_err(|stop| (Side::Right, stop))?);
    let differing = sequences.0.iter().filter_map(|(name, number)| {
        let other = sequences.1.get(name).filter(|other| *other != number)?;
        let text = format!(
            "the next AUTOINCREMENT number differs: after {number} on the left side, after {other} on the right"
        );
        Some(Finding::new(FindingKind::SqliteSequence, false, text).within(name, &format!("table `{name}`")))
    });
    Ok(differing.collect())
}

/// What differs in the file when the rows do not.
fn file_findings(left: &Path, right: &Path) -> Result<Vec<Finding>, Error> {
    let (head_left, head_right) = (bytes::head(left, HEADER_BYTES)?, bytes::head(right, HEADER_BYTES)?);
    let number = |head: &[u8], at: usize| {
        head.get(at..at + 4).map_or(0, |bytes| bytes.iter().fold(0_u32, |number, byte| number << 8 | u32::from(*byte)))
    };
    let mut findings = vec![];
    let differs = |at: usize| {
        (number(&head_left, at) != number(&head_right, at)).then(|| (number(&head_left, at), number(&head_right, at)))
    };
    for (at, name) in [(60, "user_version"), (68, "application_id")] {
        if let Some((a, b)) = differs(at) {
            let text = format!("`{name}` is {a} on the left side and {b} on the right");
            findings.push(Finding::new(FindingKind::SqliteHeader, true, text));
        }
    }
    // Offsets of the SQLite file format: change counter, schema cookie, version-valid-for, version of the library.
    let counters: Vec<&str> = [(24, "change counter"), (40, "schema cookie"), (96, "version of SQLite")]
        .into_iter()
        .filter(|(at, _)| differs(*at).is_some())
        .map(|(_, name)| name)
        .collect();
    if !counters.is_empty() {
        let text = format!("same rows, the file's header differs: {}", counters.join(", "));
        let hint = "Write the database in one transaction and VACUUM INTO the published file.";
        findings.push(Finding::new(FindingKind::SqliteHeader, false, text).hint(hint));
    }
    if let Some((a, b)) = differs(36) {
        let text = format!("same rows with another page layout: {a} free pages on the left side, {b} on the right");
        findings.push(Finding::new(FindingKind::SqliteLayout, false, text).hint("VACUUM INTO the published file."));
    } else if bytes_differ_beside_header(left, right)? {
        let text = "same rows with another page layout (order of writes, deletions, VACUUM)";
        findings.push(Finding::new(FindingKind::SqliteLayout, false, text).hint("VACUUM INTO the published file."));
    }
    Ok(findings)
}

fn bytes_differ_beside_header(left: &Path, right: &Path) -> Result<bool, Error> {
    let open = |path: &Path| {
        let mut file = std::fs::File::open(path).map_err(Error::read(path))?;
        std::io::Seek::seek(&mut file, std::io::SeekFrom::Start(HEADER_BYTES as u64)).map_err(Error::read(path))?;
        Ok(file)
    };
    let difference = bytes::difference(&mut open(left)?, &mut open(right)?);
    difference
        .map(|found| found.is_some())
        .map_err(|(is_right, error)| Error::read(if is_right { right } else { left })(error))
}
