//! The least that a durable publication with a ledger can cost: the baseline of the benchmarks.
//!
//! ```text
//! floor publish keep-wal|checkpoint STATE.DB TARGET COMMAND...
//! floor sync-each DIRECTORY
//! ```
//!
//! `publish` starts the command with a temporary file's path in `REFRAIN_OUT`, syncs the file, renames it to the target,
//! syncs the directory and records it with one SQLite commit (WAL, synchronous=FULL). There is no lease, no fencing, no
//! digest, no recovery. With `keep-wal` the log stays when the database is closed, so that the commit is a single fsync;
//! with `checkpoint` SQLite does what it does by itself. `sync-each` opens and syncs every file of a directory and then
//! the directory, and prints the microseconds that took.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for developers, whose output is its purpose")]

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use std::error::Error;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["publish", close, state, target, program, arguments @ ..] => {
            publish(*close == "keep-wal", Path::new(state), Path::new(target), program, arguments)
        }
        ["sync-each", directory] => sync_each(Path::new(directory)),
        _ => Err("usage: floor publish keep-wal|checkpoint STATE.DB TARGET COMMAND... | sync-each DIRECTORY".into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("floor: {error}");
            ExitCode::FAILURE
        }
    }
}

fn publish(keep_wal: bool, state: &Path, target: &Path, program: &str, arguments: &[&str]) -> Result {
    let temporary = target.with_extension("tmp");
    let status = Command::new(program).args(arguments).env("REFRAIN_OUT", &temporary).status()?;
    if !status.success() {
        return Err(format!("the command failed: {status}").into());
    }
    File::open(&temporary)?.sync_all()?;
    fs::rename(&temporary, target)?;
    let directory = target.parent().ok_or("the target has no directory")?;
    File::open(directory)?.sync_all()?;
    record(keep_wal, state, &target.to_string_lossy())
}

/// One row in one transaction of its own.
fn record(keep_wal: bool, state: &Path, target: &str) -> Result {
    let is_new = !state.exists();
    let connection = Connection::open(state)?;
    if is_new {
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.execute("create table ledger (target text primary key) without rowid", [])?;
    }
    connection.pragma_update(None, "synchronous", "full")?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep_wal)?;
    connection.execute("insert into ledger values (?1)", [target])?;
    Ok(())
}

fn sync_each(directory: &Path) -> Result {
    let start = Instant::now();
    for entry in fs::read_dir(directory)? {
        File::open(entry?.path())?.sync_all()?;
    }
    File::open(directory)?.sync_all()?;
    println!("{}", start.elapsed().as_micros());
    Ok(())
}
