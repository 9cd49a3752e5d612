//! A home with sinks, and attempts that walk the sink's part of the protocol.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "shared by tests, each of which uses a part of it"
)]

use refrain_core::{
    Adopt, AttemptId, ClaimAnswer, ClaimRequest, CommitAnswer, CommitOptions, CommitRequest, CrashPoint, CrashProbe,
    Fingerprint, Generation, Guards, Head, HeadVersion, Holder, Key, NoProbe, OutputSlot, Publication, Result, RunId,
    RunRecord, SealedData, Sink, SlotAddress, SlotId, Staging, StagingId, StoreId, Token,
};
use refrain_sink::{LocalKind, LocalSink};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use uuid::Uuid;

/// Takes the permission to replace nothing but the last publication.
pub const STRICT: CommitOptions = CommitOptions { adopt: Adopt::Never, overwrite_drift: false };
pub const ADOPT: CommitOptions = CommitOptions { adopt: Adopt::Foreign, overwrite_drift: false };
pub const OVERWRITE: CommitOptions = CommitOptions { adopt: Adopt::Never, overwrite_drift: true };

const STORE: StoreId = StoreId::from_uuid(Uuid::from_u128(1));

/// A home in a temporary directory.
pub struct Home {
    pub dir: TempDir,
    tokens: std::cell::Cell<u64>,
}

impl Home {
    pub fn new() -> Self {
        Self::within(TempDir::new().unwrap())
    }

    /// A home on a mounted filesystem.
    pub fn at(mount: &Path) -> Self {
        Self::within(tempfile::tempdir_in(mount).unwrap())
    }

    fn within(dir: TempDir) -> Self {
        std::fs::create_dir(dir.path().join(".refrain")).unwrap();
        Self { dir, tokens: std::cell::Cell::new(0) }
    }

    pub fn path(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap()
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    pub fn slots(&self) -> PathBuf {
        self.join(".refrain/slots")
    }

    pub fn sink(&self, kind: LocalKind) -> LocalSink {
        self.sink_with(kind, Arc::new(NoProbe))
    }

    pub fn files(&self) -> LocalSink {
        self.sink(LocalKind::File)
    }

    pub fn directories(&self) -> LocalSink {
        self.sink(LocalKind::Directory)
    }

    pub fn sink_with(&self, kind: LocalKind, probe: Arc<dyn CrashProbe>) -> LocalSink {
        LocalSink::new(kind, &self.path(), &[], probe).unwrap().with_lock_patience(Duration::from_secs(5))
    }

    /// The slot of a target inside the home.
    pub fn slot(&self, sink: &LocalSink, spec: &str) -> SlotAddress {
        sink.address(spec, &self.path()).unwrap()
    }

    /// An attempt with a fresh token, for the generation and these slots.
    pub fn attempt(&self, generation: u64, slots: &[SlotAddress]) -> Attempt {
        self.tokens.set(self.tokens.get() + 1);
        let outputs =
            slots.iter().map(|slot| OutputSlot { name: "out".to_owned(), slot: slot.clone(), manner: None }).collect();
        Attempt {
            holder: Holder {
                store_id: STORE,
                token: Token::new(self.tokens.get()),
                attempt: AttemptId::from_uuid(Uuid::new_v4()),
            },
            run: RunRecord {
                generation: Generation::new(generation),
                run_id: RunId::from_uuid(Uuid::from_u128(u128::from(generation))),
                inputs: Vec::new(),
                outputs,
                restores: None,
            },
        }
    }

    /// Publishes a file or directory the ordinary way.
    pub fn publish(&self, sink: &LocalSink, slot: &SlotAddress, generation: u64, content: &Content<'_>) -> Attempt {
        let attempt = self.attempt(generation, std::slice::from_ref(slot));
        let request = attempt.prepare(sink, slot, content);
        assert_eq!(sink.commit(slot, &request, &STRICT).unwrap(), CommitAnswer::Committed);
        attempt
    }

    /// The names in `slots/`, without those of locks and heads.
    pub fn leftovers(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.slots())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| {
                !Path::new(name).extension().is_some_and(|it| it == "lock" || it == "head" || it == "manifest")
            })
            .collect();
        names.sort();
        names
    }
}

/// What a task writes.
pub enum Content<'a> {
    File(&'a str),
    /// Paths below the directory, and what is in the files.
    Tree(&'a [(&'a str, &'a str)]),
}

impl Content<'_> {
    pub fn write(&self, place: &Path) {
        match self {
            Self::File(text) => std::fs::write(place, text).unwrap(),
            Self::Tree(files) => {
                for (name, text) in *files {
                    let path = place.join(name);
                    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                    std::fs::write(path, text).unwrap();
                }
            }
        }
    }
}

/// An attempt.
#[derive(Clone, Debug)]
pub struct Attempt {
    pub holder: Holder,
    pub run: RunRecord,
}

impl Attempt {
    pub fn staging_id(&self) -> StagingId {
        StagingId { holder: self.holder, generation: self.run.generation, slots: self.run.slots().cloned().collect() }
    }

    pub fn claim_request(&self) -> ClaimRequest {
        ClaimRequest {
            owner: Key { task: "t".parse().unwrap(), partition: String::new() },
            holder: self.holder,
            ancestors: BTreeSet::new(),
            slots: self.run.slots().cloned().collect(),
            fresh_slot_id: SlotId::from_uuid(Uuid::new_v4()),
            fresh_version: HeadVersion::from_uuid(Uuid::new_v4()),
            take_over: false,
        }
    }

    pub fn claim(&self, sink: &LocalSink, slot: &SlotAddress) -> Head {
        match sink.claim(slot, &self.claim_request()).unwrap() {
            ClaimAnswer::Claimed(head) => head,
            other => panic!("{other:?}"),
        }
    }

    pub fn stage(&self, sink: &LocalSink, slot: &SlotAddress) -> Staging<refrain_core::Open> {
        sink.stage(slot, None, &self.staging_id()).unwrap()
    }

    pub fn seal(&self, sink: &LocalSink, slot: &SlotAddress, content: &Content<'_>) -> Result<SealedData> {
        let staging = self.stage(sink, slot);
        content.write(&staging.path());
        Ok(sink.seal(staging, &guards())?.into_data().unwrap())
    }

    pub fn request(&self, expected: HeadVersion, data: Vec<SealedData>) -> CommitRequest {
        CommitRequest {
            holder: self.holder,
            expected,
            fresh_version: HeadVersion::from_uuid(Uuid::new_v4()),
            publication: Publication {
                run: self.run.clone(),
                attempt: self.holder.attempt,
                data,
                fingerprint: Fingerprint { digest: "blake3:00".to_owned(), parts: BTreeMap::new() },
                sealed_at: "2025-03-24T00:00:00Z".parse().unwrap(),
                edited: false,
                adopts: false,
            },
        }
    }

    /// Everything up to the commit.
    pub fn prepare(&self, sink: &LocalSink, slot: &SlotAddress, content: &Content<'_>) -> CommitRequest {
        let head = self.claim(sink, slot);
        let data = self.seal(sink, slot, content).unwrap();
        self.request(head.version, vec![data])
    }
}

pub fn guards() -> Guards {
    Guards { provenance: "{\"attempt\":\"a\"}".to_owned(), ..Guards::default() }
}

/// Dies at one point, as far as one process can.
#[derive(Debug)]
pub struct DieAt(pub CrashPoint);

impl CrashProbe for DieAt {
    fn reach(&self, point: CrashPoint) {
        if point == self.0 {
            std::panic::panic_any("died on purpose");
        }
    }
}

/// Commits with a sink that dies at the point.
pub fn commit_and_die(home: &Home, kind: LocalKind, point: CrashPoint, slot: &SlotAddress, request: &CommitRequest) {
    let sink = home.sink_with(kind, Arc::new(DieAt(point)));
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let died = catch_unwind(AssertUnwindSafe(|| sink.commit(slot, request, &STRICT)));
    std::panic::set_hook(hook);
    assert!(died.is_err(), "{point} was not reached");
}

/// A tree as a reader sees it: path to content.
pub fn tree(root: &Path) -> BTreeMap<String, String> {
    fn collect(root: &Path, at: &Path, into: &mut BTreeMap<String, String>) {
        for entry in std::fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.is_symlink() {
                collect(root, &path, into);
            } else {
                let name = path.strip_prefix(root).unwrap().display().to_string();
                into.insert(name, std::fs::read_to_string(&path).unwrap());
            }
        }
    }
    let mut files = BTreeMap::new();
    collect(root, root, &mut files);
    files
}
