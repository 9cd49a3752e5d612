//! Writers in this process and in others.

#![cfg(target_os = "linux")]

use refrain_writers::is_written;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Another process that has the file open for appending.
fn writer(path: &Path) -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", "exec 3>>\"$0\"; echo open; exec cat >&3"]).arg(path);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0; 5]).unwrap();
    child
}

#[test]
fn a_writer_is_told_as_long_as_it_is_open_and_readers_are_not() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x");
    drop(File::create(&path).unwrap());
    let (file, _reader) = (File::open(&path).unwrap(), File::open(&path).unwrap());
    assert_eq!(is_written(&file), Some(false));
    for _ in 0..2 {
        // It could not be opened if the lease had not been given back.
        let mut child = writer(&path);
        assert_eq!(is_written(&file), Some(true));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(is_written(&file), Some(false));
    }
}

#[test]
fn of_what_this_process_writes_itself_nothing_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x");
    let _writer = File::create(&path).unwrap();
    assert_eq!(is_written(&File::open(&path).unwrap()), None);
}
