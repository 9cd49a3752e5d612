//! A reader that looks at a publication at full speed and remembers every distinct thing it saw.

use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, openat};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// One state of a publication as a reader sees it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Observation {
    /// Nothing is at the path.
    Missing,
    /// A file with this content.
    File(Vec<u8>),
    /// A directory with these files (relative path and content), in all its depth.
    Directory(BTreeMap<PathBuf, Vec<u8>>),
    /// The reader got an error half way: what it had opened was torn.
    Torn(String),
    /// The filesystem itself answers with EIO: the power is off. A [`Reader`] does not remember it.
    PowerOff,
}

impl Observation {
    /// A file that contains `content`.
    pub fn file(content: impl AsRef<[u8]>) -> Self {
        Self::File(content.as_ref().to_vec())
    }

    /// A directory that contains exactly these files.
    pub fn directory<P: AsRef<Path>, C: AsRef<[u8]>>(files: impl IntoIterator<Item = (P, C)>) -> Self {
        let files = files.into_iter().map(|(path, content)| (path.as_ref().to_path_buf(), content.as_ref().to_vec()));
        Self::Directory(files.collect())
    }
}

/// Everything a reader saw.
#[derive(Debug)]
pub struct Observations {
    /// The distinct observations in the order of their first appearance.
    pub distinct: Vec<Observation>,
    /// How often the reader looked.
    pub rounds: u64,
}

impl Observations {
    /// Fails the test unless every observation is one of `allowed`.
    pub fn assert_only(&self, allowed: &[Observation]) {
        for seen in &self.distinct {
            assert!(
                allowed.contains(seen),
                "a reader saw {seen:?}\nallowed: {allowed:?}\n(looked {} times)",
                self.rounds
            );
        }
    }
}

/// A thread that reads one path until it is stopped.
pub struct Reader {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    seen: Mutex<(Vec<Observation>, u64)>,
}

impl Reader {
    /// Starts reading what is at `path`, file or directory; returns after the first look.
    ///
    /// A file is read through one descriptor, a directory through one descriptor of its top, so a mixed observation is
    /// the publisher's fault and never comes from a path that changed its meaning while the reader walked.
    pub fn start(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let shared = Arc::new(Shared::default());
        shared.look(&path);
        let thread = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                while !shared.stop.load(Ordering::Acquire) {
                    shared.look(&path);
                }
                // What stands at the end is always seen.
                shared.look(&path);
            }
        });
        Self { shared, thread: Some(thread) }
    }

    /// The distinct observations so far.
    pub fn so_far(&self) -> Observations {
        let seen = self.shared.seen.lock().unwrap_or_else(PoisonError::into_inner);
        Observations { distinct: seen.0.clone(), rounds: seen.1 }
    }

    /// Looks a last time, ends the thread and returns everything it saw.
    pub fn stop(mut self) -> Observations {
        self.end();
        self.so_far()
    }

    fn end(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the reader's thread");
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if !thread::panicking() {
            self.end();
        }
        self.shared.stop.store(true, Ordering::Release);
    }
}

impl Shared {
    fn look(&self, path: &Path) {
        let observation = observe(path);
        if observation == Observation::PowerOff {
            return;
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.1 += 1;
        if !seen.0.contains(&observation) {
            seen.0.push(observation);
        }
    }
}

/// Looks once at what is at `path`.
pub fn observe(path: &Path) -> Observation {
    let top = match openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) {
        Ok(top) => top,
        Err(Errno::NOENT) => return Observation::Missing,
        Err(error) => return failed(&format!("cannot open {}", path.display()), error),
    };
    let mut files = BTreeMap::new();
    let seen = match kind(&top) {
        Ok(FileType::Directory) => {
            read_directory(&top, Path::new(""), &mut files).map(|()| Observation::Directory(files))
        }
        Ok(_) => read_file(top).map(Observation::File),
        Err(failure) => Err(failure),
    };
    match seen {
        Ok(seen) => seen,
        Err(Observation::Torn(what)) => Observation::Torn(format!("{}: {what}", path.display())),
        Err(other) => other,
    }
}

/// The errors of the functions below are themselves observations.
fn read_directory(at: &OwnedFd, prefix: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) -> Result<(), Observation> {
    let unlisted = |error| failed(&format!("cannot list `{}`", prefix.display()), error);
    for entry in Dir::read_from(at).map_err(unlisted)? {
        let entry = entry.map_err(unlisted)?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let path = prefix.join(name.to_string_lossy().as_ref());
        let opened = openat(at.as_fd(), name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|error| failed(&format!("listed `{}` but cannot open it", path.display()), error))?;
        if kind(&opened)? == FileType::Directory {
            read_directory(&opened, &path, files)?;
        } else {
            files.insert(path, read_file(opened)?);
        }
    }
    Ok(())
}

fn kind(file: &OwnedFd) -> Result<FileType, Observation> {
    let stat = rustix::fs::fstat(file).map_err(|error| failed("cannot stat", error))?;
    Ok(FileType::from_raw_mode(stat.st_mode))
}

fn read_file(file: OwnedFd) -> Result<Vec<u8>, Observation> {
    let mut content = vec![];
    File::from(file).read_to_end(&mut content).map_err(|error| failed("cannot read", error))?;
    Ok(content)
}

fn failed(what: &str, error: impl Into<io::Error>) -> Observation {
    let error = error.into();
    if error.raw_os_error() == Some(Errno::IO.raw_os_error()) {
        return Observation::PowerOff;
    }
    Observation::Torn(format!("{what}: {error}"))
}
