//! Files of every format, as rows, and into real servers.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

mod arrow;
mod delimited;
mod flights;
mod json_lines;
mod server;
mod types;

use refrain_core::Result;
use refrain_load::{Format, Options, Source, open};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A file with that content in a directory of its own.
fn file(name: &str, content: impl AsRef<[u8]>) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(name);
    std::fs::write(&path, content).unwrap();
    (directory, path)
}

/// All that a source hands on.
fn drain(source: &mut Source) -> Result<Vec<u8>> {
    let (mut all, mut chunk) = (vec![], vec![]);
    while source.next_chunk(&mut chunk)? {
        all.append(&mut chunk);
    }
    Ok(all)
}

/// What becomes of a file; the format is told by its name.
fn read(path: &Path, options: &Options) -> Result<(Source, String)> {
    let mut source = open(path, Format::of(path).unwrap(), options)?;
    let text = drain(&mut source)?;
    assert_eq!(source.digest(), blake3::hash(&std::fs::read(path).unwrap()));
    assert_eq!(source.bytes(), std::fs::metadata(path).unwrap().len());
    Ok((source, String::from_utf8(text).unwrap()))
}

/// The message of the refusal of a file with that content.
#[track_caller]
fn refusal(name: &str, content: impl AsRef<[u8]>) -> String {
    let (_directory, path) = file(name, content);
    let error = read(&path, &Options::default()).map(|(source, text)| format!("{source:?} {text}")).unwrap_err();
    error.message.replace(&path.display().to_string(), name)
}

#[test]
fn a_source_can_go_to_another_thread() {
    fn is_send<T: Send>() {}
    is_send::<Source>();
}
