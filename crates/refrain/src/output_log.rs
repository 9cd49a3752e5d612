//! What a command prints while nobody watches: one bounded file for each attempt, `output/<task>/<attempt>.log` in the
//! home's state.
//!
//! The command writes into a pipe and a thread keeps what comes: the file must stay bounded however much a command prints.
//! It is kept for people and decides nothing: that it cannot be written is noted and changes no answer. No variable of the
//! environment and nothing else is written but what the command printed.

use crate::boundary::Boundary;
use crate::lookup::SHORTER;
use refrain_core::{AttemptFilter, AttemptId, AttemptRecord, Error, Result, TaskName};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, PipeReader, PipeWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

/// The directory within the home's state.
const DIRECTORY: &str = "output";
/// What is kept of the beginning and of the end of a long output, in bytes.
const HEAD: u64 = 256 * 1024;
const TAIL: u64 = 768 * 1024;
/// How many outputs of a task are kept.
const KEPT: usize = 1000;
/// How long the end of a pipe is waited for that a process which cannot be ended may hold.
const PATIENCE: Duration = Duration::from_secs(1);

/// The output of an attempt while it is written.
#[derive(Debug)]
pub(crate) struct OutputLog {
    writer: PipeWriter,
    ended: Receiver<io::Result<()>>,
    path: PathBuf,
}

impl OutputLog {
    /// Opens the output of an attempt. A file is made when there is something to keep.
    pub(crate) fn open(boundary: &Boundary, task: &TaskName, attempt: AttemptId) -> io::Result<Self> {
        let path = place(boundary, task, attempt);
        let (reader, writer) = io::pipe()?;
        let (end, ended) = mpsc::channel();
        let file = path.clone();
        // Nobody may listen any more; then nobody can be told.
        let keep = move || drop(end.send(keep(reader, &file)));
        thread::Builder::new().name("output".to_owned()).spawn(keep)?;
        Ok(Self { writer, ended, path })
    }

    /// One more end of the pipe, for a process.
    pub(crate) fn writer(&self) -> io::Result<PipeWriter> {
        self.writer.try_clone()
    }

    /// Waits until everything is kept that was written before; returns what a person should know.
    pub(crate) fn close(self) -> Option<String> {
        drop(self.writer);
        match self.ended.recv_timeout(PATIENCE) {
            Ok(Err(error)) => {
                Some(format!("the command's output is not complete in `{}`: {error}", self.path.display()))
            }
            Ok(Ok(())) | Err(_) => None,
        }
    }
}

fn place(boundary: &Boundary, task: &TaskName, attempt: AttemptId) -> PathBuf {
    boundary.home.state().join(DIRECTORY).join(task.as_str()).join(format!("{attempt}.log"))
}

/// Reads until all writers are gone, whatever becomes of the file: a command must not hang on a disk that is full.
fn keep(mut reader: PipeReader, path: &Path) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    let mut file: Option<Bounded> = None;
    let mut kept = Ok(());
    loop {
        let count = match reader.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if kept.is_ok() {
            kept = match &mut file {
                Some(file) => file.append(&buffer[..count]),
                None => Bounded::make(path).and_then(|made| file.insert(made).append(&buffer[..count])),
            };
        }
    }
    match file {
        Some(mut file) if kept.is_ok() => file.finish(),
        _ => kept,
    }
}

/// A file that keeps the beginning and the end of what is appended.
struct Bounded {
    file: File,
    length: u64,
    left_out: u64,
    /// Where the part begins whose end is kept.
    end_from: u64,
}

impl Bounded {
    fn make(path: &Path) -> io::Result<Self> {
        if let Some(directory) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        }
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
        Ok(Self { file, length: 0, left_out: 0, end_from: HEAD })
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.length += bytes.len() as u64;
        if self.length > self.end_from + 2 * TAIL { self.shorten() } else { Ok(()) }
    }

    fn finish(&mut self) -> io::Result<()> {
        if self.length > self.end_from + TAIL { self.shorten() } else { Ok(()) }
    }

    /// Leaves out what lies between the beginning and the end. Dying inside leaves the end where it was, too.
    fn shorten(&mut self) -> io::Result<()> {
        let mut end = Vec::new();
        let from = self.length - TAIL;
        self.file.seek(SeekFrom::Start(from))?;
        self.file.read_to_end(&mut end)?;
        self.left_out += from - self.end_from;
        let mark = format!("\n[refrain: {} bytes are left out here]\n", self.left_out);
        self.file.write_all_at(mark.as_bytes(), HEAD)?;
        self.end_from = HEAD + mark.len() as u64;
        self.file.write_all_at(&end, self.end_from)?;
        self.length = self.end_from + end.len() as u64;
        self.file.set_len(self.length)?;
        self.file.seek(SeekFrom::End(0)).map(drop)
    }
}

impl Boundary {
    /// What the command of an attempt printed, if it was kept: the beginning and the end of it.
    ///
    /// # Errors
    /// `internal` when it cannot be read.
    pub fn output_of(&self, task: &TaskName, attempt: AttemptId) -> Result<Option<Vec<u8>>> {
        let path = place(self, task, attempt);
        match fs::read(&path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io(format!("cannot read `{}`", path.display()), error)),
        }
    }

    /// The attempt by a part of its id or of its run's: of several of one run the newest whose output is kept, else
    /// the newest.
    ///
    /// # Errors
    /// `invalid` when there is none, or the part fits several ids.
    pub fn attempt_with_output(&self, id: &str) -> Result<(AttemptRecord, Option<Vec<u8>>)> {
        let attempts = self.attempts_named(id)?;
        let Some(newest) = attempts.first() else {
            return Err(Error::invalid(format!("there is no run or attempt `{id}`")).hint(SHORTER));
        };
        for record in &attempts {
            if let Some(text) = self.output_of(&record.key.task, record.attempt)? {
                return Ok((record.clone(), Some(text)));
            }
        }
        Ok((newest.clone(), None))
    }

    /// Removes the outputs beyond the newest of each task, but not of an attempt whose end is not known. Returns what
    /// was removed, or would be; what cannot be removed is told through `kept`.
    pub fn trim_outputs(&self, dry_run: bool, kept: &mut dyn FnMut(&str, &Error)) -> Vec<String> {
        let mut removed = Vec::new();
        let tasks = fs::read_dir(self.home.state().join(DIRECTORY)).into_iter().flatten().flatten();
        for task in tasks {
            let files = fs::read_dir(task.path()).into_iter().flatten().flatten();
            let id = |path: &PathBuf| path.file_stem()?.to_str()?.parse::<AttemptId>().ok();
            let mut outputs: Vec<(AttemptId, PathBuf)> =
                files.map(|file| file.path()).filter_map(|path| Some((id(&path)?, path))).collect();
            // Ids of attempts sort by the time of their beginning.
            outputs.sort();
            let surplus = outputs.len().saturating_sub(KEPT);
            for (attempt, path) in outputs.into_iter().take(surplus) {
                let place = path.display().to_string();
                match self.remove_output(attempt, &path, dry_run) {
                    Ok(true) => removed.push(place),
                    Ok(false) => {}
                    Err(error) => kept(&place, &error),
                }
            }
        }
        removed
    }

    fn remove_output(&self, attempt: AttemptId, path: &Path, dry_run: bool) -> Result<bool> {
        let filter = AttemptFilter { id_part: Some(attempt.to_string()), limit: Some(1), ..AttemptFilter::default() };
        let record = self.store.attempts(&filter)?.into_iter().next();
        if record.is_some_and(|record| record.ending.is_none()) {
            return Ok(false);
        }
        if !dry_run {
            fs::remove_file(path).map_err(|error| Error::io(format!("cannot remove `{}`", path.display()), error))?;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(chunks: impl IntoIterator<Item = Vec<u8>>) -> (Vec<u8>, u64) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("task/attempt.log");
        let mut file = Bounded::make(&path).unwrap();
        for chunk in chunks {
            file.append(&chunk).unwrap();
            assert!(fs::metadata(&path).unwrap().len() < HEAD + 2 * TAIL + 70_000, "never much longer");
        }
        file.finish().unwrap();
        (fs::read(&path).unwrap(), file.left_out)
    }

    #[test]
    fn a_short_output_is_kept_as_it_is() {
        let whole = vec![b'x'; usize::try_from(HEAD + TAIL).unwrap()];
        assert_eq!(kept([whole.clone()]), (whole, 0));
        assert_eq!(kept([b"a".to_vec(), b"\xff\0b".to_vec()]), (b"a\xff\0b".to_vec(), 0));
    }

    #[test]
    fn of_a_long_output_the_beginning_and_the_end_are_kept_and_what_is_missing_is_counted() {
        let lines: Vec<Vec<u8>> = (0..900_000_u32).map(|n| format!("line {n}\n").into_bytes()).collect();
        let total: usize = lines.iter().map(Vec::len).sum();
        let chunks: Vec<Vec<u8>> = lines.chunks(5000).map(<[Vec<u8>]>::concat).collect();
        let (text, left_out) = kept(chunks);
        let mark = format!("\n[refrain: {left_out} bytes are left out here]\n");
        let text = String::from_utf8(text).unwrap();
        let (head, tail) = text.split_once(&mark).expect("one mark");
        assert!(head.starts_with("line 0\nline 1\n") && tail.ends_with("line 899998\nline 899999\n"));
        assert_eq!((head.len() as u64, tail.len() as u64), (HEAD, TAIL));
        assert_eq!(head.len() + tail.len() + usize::try_from(left_out).unwrap(), total);
        assert!(!tail.contains("[refrain"), "the mark is in one place");
    }
}
