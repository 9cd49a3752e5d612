//! Every sink passes the suite of sinks.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test reports failure by panicking")]

use refrain_check::sink_suite::{Content, SinkFactory, SinkUnderTest};
use refrain_core::{NoProbe, Open, Sink, SlotAddress, Staging};
use refrain_sink::{LocalKind, LocalSink, MemorySink};
use refrain_testkit::mounts::Mount;
use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;

struct Memory;

#[derive(Default)]
struct MemoryHome {
    sink: Arc<MemorySink>,
    slots: Mutex<BTreeSet<SlotAddress>>,
}

impl SinkFactory for Memory {
    fn make(&self) -> Box<dyn SinkUnderTest> {
        Box::new(MemoryHome::default())
    }
}

impl SinkUnderTest for MemoryHome {
    fn open(&self) -> Arc<dyn Sink> {
        self.sink.clone()
    }

    fn slot(&self, name: &str) -> SlotAddress {
        let slot = MemorySink::address(name);
        self.slots.lock().unwrap().insert(slot.clone());
        slot
    }

    fn write(&self, staging: &Staging<Open>, content: Content<'_>) {
        match content {
            Content::Nothing => {}
            Content::Empty => self.sink.write(&staging.place, b"").unwrap(),
            Content::Text(text) => self.sink.write(&staging.place, text.as_bytes()).unwrap(),
        }
    }

    fn visible(&self, slot: &SlotAddress) -> Option<String> {
        self.sink.visible(slot).map(|bytes| String::from_utf8(bytes).unwrap())
    }

    fn overwrite(&self, slot: &SlotAddress, text: Option<&str>) -> bool {
        self.sink.overwrite(slot, text.map(str::as_bytes));
        true
    }

    fn listed(&self) -> Vec<String> {
        self.slots.lock().unwrap().iter().filter_map(|slot| self.visible(slot)).collect()
    }
}

/// Files or directories on the disk that the tests have, or on a stand-in for a poor one.
struct Local {
    kind: LocalKind,
    without_exchange: bool,
}

struct LocalHome {
    kind: LocalKind,
    root: PathBuf,
    /// Where readers look. Below a FUSE mount it is the directory that the mount shows: libfuse keeps names by itself
    /// and loses one for a moment while it is renamed, which is not the sink's doing.
    readers: PathBuf,
    /// Dropped in this order: the mount stands on the directory.
    _mount: Option<Mount>,
    _directory: TempDir,
}

/// The files of a published directory; all hold the same text, so that a mixture is seen.
const PARTS: [&str; 3] = ["part-0", "sub/part-1", "sub/deeper/part-2"];

impl SinkFactory for Local {
    fn make(&self) -> Box<dyn SinkUnderTest> {
        let directory = tempfile::tempdir().unwrap();
        let mount = self.without_exchange.then(|| Mount::bindfs(directory.path()));
        let readers = directory.path().canonicalize().unwrap();
        let root = mount.as_ref().map_or_else(|| readers.clone(), Mount::path);
        fs::create_dir(root.join(".refrain")).unwrap();
        Box::new(LocalHome { kind: self.kind, root, readers, _mount: mount, _directory: directory })
    }
}

impl LocalHome {
    fn sink(&self) -> LocalSink {
        LocalSink::new(self.kind, &self.root, &[], Arc::new(NoProbe)).unwrap()
    }

    fn put(&self, place: &Path, text: &str) {
        match self.kind {
            LocalKind::File => fs::write(place, text).unwrap(),
            LocalKind::Directory => {
                for part in PARTS {
                    fs::create_dir_all(place.join(part).parent().unwrap()).unwrap();
                    fs::write(place.join(part), text).unwrap();
                }
            }
        }
    }

    /// The text of a directory as a reader gets it who opens it once and reads its parts from there.
    fn read_directory(place: &Path) -> Option<String> {
        let opened = match fs::File::open(place) {
            Ok(opened) => opened,
            Err(error) if error.kind() == ErrorKind::NotFound => return None,
            Err(error) => panic!("{error}"),
        };
        let through = PathBuf::from(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&opened)));
        let [text, second, third] = PARTS.map(|part| fs::read_to_string(through.join(part)).unwrap());
        assert!(text == second && text == third, "a mixture at {}", place.display());
        Some(text)
    }
}

impl SinkUnderTest for LocalHome {
    fn open(&self) -> Arc<dyn Sink> {
        Arc::new(self.sink())
    }

    fn slot(&self, name: &str) -> SlotAddress {
        let spec = match self.kind {
            LocalKind::File => format!("warehouse/{name}.csv"),
            LocalKind::Directory => format!("warehouse/{name}/"),
        };
        self.sink().address(&spec, &self.root).unwrap()
    }

    fn write(&self, staging: &Staging<Open>, content: Content<'_>) {
        match (content, self.kind) {
            (Content::Text(text), _) => self.put(&staging.path(), text),
            (Content::Empty, LocalKind::File) => fs::write(staging.path(), "").unwrap(),
            (Content::Empty, LocalKind::Directory) | (Content::Nothing, _) => {}
        }
    }

    fn visible(&self, slot: &SlotAddress) -> Option<String> {
        let target = self.sink().target(slot).unwrap();
        let target = self.readers.join(target.strip_prefix(&self.root).unwrap());
        match self.kind {
            LocalKind::File => match fs::read_to_string(target) {
                Ok(text) => Some(text),
                Err(error) if error.kind() == ErrorKind::NotFound => None,
                Err(error) => panic!("{error}"),
            },
            LocalKind::Directory => Self::read_directory(&target),
        }
    }

    fn overwrite(&self, slot: &SlotAddress, text: Option<&str>) -> bool {
        let target = self.sink().target(slot).unwrap();
        match text {
            Some(text) if target.is_dir() && !target.is_symlink() => {
                fs::remove_dir_all(&target).unwrap();
                self.put(&target, text);
            }
            Some(text) if target.is_symlink() => {
                // Through the link, into the version it shows; times of a directory may count in ticks of the kernel.
                std::thread::sleep(Duration::from_millis(20));
                fs::remove_file(target.join(PARTS[0])).unwrap();
                self.put(&target, text);
            }
            Some(text) => {
                fs::create_dir_all(target.parent().unwrap()).unwrap();
                self.put(&target, text);
            }
            None if target.is_dir() && !target.is_symlink() => fs::remove_dir_all(target).unwrap(),
            None => fs::remove_file(target).unwrap(),
        }
        true
    }

    fn listed(&self) -> Vec<String> {
        let mut texts = BTreeSet::new();
        collect(&self.readers.join("warehouse"), &mut texts);
        texts.into_iter().collect()
    }
}

/// The texts of all files below, through links too, as a glob finds them.
fn collect(directory: &Path, texts: &mut BTreeSet<String>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, texts);
        } else {
            texts.insert(fs::read_to_string(path).unwrap());
        }
    }
}

refrain_check::sink_suite!(memory, Memory);
refrain_check::sink_suite!(file, Local { kind: LocalKind::File, without_exchange: false });
refrain_check::sink_suite!(directory, Local { kind: LocalKind::Directory, without_exchange: false });
refrain_check::sink_suite!(file_without_exchange, Local { kind: LocalKind::File, without_exchange: true });
refrain_check::sink_suite!(directory_without_exchange, Local { kind: LocalKind::Directory, without_exchange: true });
