//! Power cuts at every step of a commit, homes that were copied in the middle of one, and many who come at once.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod support;

use refrain_core::{ClaimAnswer, CommitAnswer, Condition, CrashPoint, ErrorKind, Holder, Sink, SlotAddress, Token};
use refrain_sink::{LocalKind, LocalSink, prepare_volume};
use refrain_testkit::mounts::Mount;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use support::{Attempt, Content, Home, STRICT, commit_and_die, tree};

const POINTS: [Option<CrashPoint>; 6] = [
    Some(CrashPoint::BeforeIntent),
    Some(CrashPoint::AfterIntent),
    Some(CrashPoint::AfterRename),
    Some(CrashPoint::BeforeRecord),
    Some(CrashPoint::AfterRecord),
    None,
];

fn content(kind: LocalKind, new: bool) -> Content<'static> {
    match (kind, new) {
        (LocalKind::File, false) => Content::File("old"),
        (LocalKind::File, true) => Content::File("new"),
        (LocalKind::Directory, false) => Content::Tree(&[("a", "old"), ("sub/b", "old")]),
        (LocalKind::Directory, true) => Content::Tree(&[("a", "new"), ("sub/b", "new")]),
    }
}

/// What a reader finds; nothing when there is no target. A mix of old and new fails the test.
fn seen(kind: LocalKind, target: &Path) -> Option<bool> {
    if !target.exists() {
        return None;
    }
    let texts: Vec<String> = match kind {
        LocalKind::File => vec![fs::read_to_string(target).unwrap()],
        LocalKind::Directory => {
            let tree = tree(target);
            assert_eq!(tree.len(), 2, "not whole: {tree:?}");
            tree.into_values().collect()
        }
    };
    assert!(texts.windows(2).all(|pair| pair[0] == pair[1]), "a mix: {texts:?}");
    match texts[0].as_str() {
        "old" => Some(false),
        "new" => Some(true),
        other => panic!("neither old nor new: {other:?}"),
    }
}

/// Makes the home itself durable, as `refrain init` does.
fn settle(home: &Home, mount: &Mount) {
    prepare_volume(&home.join(".refrain")).unwrap();
    assert!(Command::new("sync").arg("-f").arg(mount.path()).status().unwrap().success());
}

fn power_cuts(mut mount: Mount) {
    for kind in [LocalKind::File, LocalKind::Directory] {
        for existing in [false, true] {
            for point in POINTS {
                let home = Home::at(&mount.path());
                settle(&home, &mount);
                let context = format!("{kind:?} existing={existing} {point:?}");
                let (slot, request, dead) = {
                    let sink = home.sink(kind);
                    let slot = home.slot(&sink, if kind == LocalKind::File { "out/x" } else { "out/x/" });
                    if existing {
                        home.publish(&sink, &slot, 1, &content(kind, false));
                    }
                    let dead = home.attempt(2, std::slice::from_ref(&slot));
                    let request = dead.prepare(&sink, &slot, &content(kind, true));
                    (slot, request, dead)
                };
                if let Some(point) = point {
                    commit_and_die(&home, kind, point, &slot, &request);
                } else {
                    let committed = home.sink(kind).commit(&slot, &request, &STRICT).unwrap();
                    assert_eq!(committed, CommitAnswer::Committed);
                }
                mount.power_cut();
                let target = home.join("out/x");
                let after_cut = seen(kind, &target);
                assert_eq!(after_cut.is_some(), existing || after_cut == Some(true), "{context}");
                if point.is_none() || point == Some(CrashPoint::BeforeRecord) {
                    assert_eq!(after_cut, Some(true), "{context}: it was said to be durable");
                }
                let sink = home.sink(kind);
                let head = home.attempt(3, std::slice::from_ref(&slot)).claim(&sink, &slot);
                let decided = point != Some(CrashPoint::BeforeIntent);
                assert_eq!(head.shows(dead.holder.attempt), decided, "{context}");
                assert_eq!(
                    seen(kind, &target),
                    if decided { Some(true) } else { existing.then_some(false) },
                    "{context}"
                );
                if decided || existing {
                    assert_eq!(sink.condition(&slot, Some(&head)).unwrap(), Condition::Intact, "{context}");
                    let versions = sink.versions(&slot).unwrap();
                    assert_eq!(versions.len(), 1 + usize::from(existing && decided), "{context}: {versions:?}");
                }
            }
        }
    }
}

#[test]
fn fs_01_fs_02_a_power_cut_on_ext4_leaves_whole_old_or_new() {
    power_cuts(Mount::ext4(64));
}

#[test]
fn fs_01_fs_02_a_power_cut_on_xfs_leaves_whole_old_or_new() {
    power_cuts(Mount::xfs(320));
}

/// The home as its copy on another place: every inode is another one.
fn copied(home: &Home, to: Home) -> Home {
    let status = Command::new("cp").arg("-a").arg(home.path().join(".")).arg(to.path()).status().unwrap();
    assert!(status.success());
    to
}

/// A commit of the new content that died at the point, in a copy of its home, and what the copy holds beside it.
struct Copied {
    kind: LocalKind,
    home: Home,
    slot: SlotAddress,
    dead: Attempt,
}

impl Copied {
    fn at(point: CrashPoint, kind: LocalKind, former: bool, homes: [Home; 2]) -> Self {
        let [home, to] = homes;
        let sink = home.sink(kind);
        let slot = home.slot(&sink, if kind == LocalKind::File { "out" } else { "out/" });
        if former {
            home.publish(&sink, &slot, 1, &content(kind, false));
        }
        let dead = home.attempt(2, std::slice::from_ref(&slot));
        let request = dead.prepare(&sink, &slot, &content(kind, true));
        commit_and_die(&home, kind, point, &slot, &request);
        Self { kind, home: copied(&home, to), slot, dead }
    }

    fn sink(&self) -> LocalSink {
        self.home.sink(self.kind)
    }

    fn target(&self) -> PathBuf {
        self.home.join("out")
    }

    /// Whoever takes the lock next.
    fn next_holder(&self) -> Condition {
        let (sink, next) = (self.sink(), self.home.attempt(2, std::slice::from_ref(&self.slot)));
        let later = Holder { token: Token::new(99), ..next.holder };
        let head = Attempt { holder: later, ..next }.claim(&sink, &self.slot);
        assert!(head.shows(self.dead.holder.attempt));
        sink.condition(&self.slot, Some(&head)).unwrap()
    }

    /// The replaced versions: where they lie, and whether they are said to be changed by hand.
    fn kept(&self) -> Vec<(PathBuf, bool)> {
        let versions = self.sink().versions(&self.slot).unwrap();
        let kept = versions.into_iter().filter(|version| !version.current);
        kept.map(|version| (PathBuf::from(&version.locations[0]), version.edited)).collect()
    }
}

fn edit(kind: LocalKind, target: &Path) {
    match kind {
        LocalKind::File => fs::write(target, "mad").unwrap(),
        LocalKind::Directory => fs::write(target.join("a"), "mad").unwrap(),
    }
}

#[test]
fn a_decided_commit_is_carried_out_in_a_copy_of_its_home() {
    let (below, plain) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let poor = Mount::bindfs(below.path());
    for filesystem in [plain.path().to_owned(), poor.path()] {
        for kind in [LocalKind::File, LocalKind::Directory] {
            for point in [CrashPoint::AfterIntent, CrashPoint::AfterRename] {
                for former in [false, true] {
                    let case = format!("{kind:?}, {point}, {former}, {}", filesystem.display());
                    let homes = [Home::at(&filesystem), Home::at(&filesystem)];
                    let copy = Copied::at(point, kind, former, homes);
                    let before = copy.sink().read(&copy.slot).unwrap();
                    let landed = before.is_some_and(|head| head.shows(copy.dead.holder.attempt));
                    assert_eq!(landed, point == CrashPoint::AfterRename, "{case}");
                    assert_eq!(copy.next_holder(), Condition::Intact, "{case}");
                    assert_eq!(seen(kind, &copy.target()), Some(true), "{case}");
                    let kept: Vec<_> = copy.kept().iter().map(|(at, edited)| (seen(kind, at), *edited)).collect();
                    assert_eq!(kept, if former { vec![(Some(false), false)] } else { Vec::new() }, "{case}");
                    assert_eq!(copy.home.leftovers(), Vec::<String>::new(), "{case}");
                }
            }
        }
    }
    drop(poor);
}

#[test]
fn what_was_changed_by_hand_is_noticed_in_a_copy_of_a_home_too() {
    for kind in [LocalKind::File, LocalKind::Directory] {
        let read = |at: &Path| fs::read_to_string(if kind == LocalKind::File { at.to_owned() } else { at.join("a") });
        // Before the rename the changed one is what it displaces; after it, what stands is no more what was published.
        let copy = Copied::at(CrashPoint::AfterIntent, kind, true, [Home::new(), Home::new()]);
        edit(kind, &copy.target());
        assert_eq!(copy.next_holder(), Condition::Intact);
        assert_eq!(seen(kind, &copy.target()), Some(true));
        let [(changed, edited)] = copy.kept().try_into().unwrap();
        assert_eq!((read(&changed).unwrap().as_str(), edited), ("mad", true));

        let copy = Copied::at(CrashPoint::AfterRename, kind, true, [Home::new(), Home::new()]);
        edit(kind, &copy.target());
        assert!(matches!(copy.next_holder(), Condition::Drifted(_)));
        assert_eq!(read(&copy.target()).unwrap(), "mad");
        let [(former, edited)] = copy.kept().try_into().unwrap();
        assert_eq!((seen(kind, &former), edited), (Some(false), false));

        // What fits nowhere is carried nowhere.
        let copy = Copied::at(CrashPoint::AfterIntent, kind, true, [Home::new(), Home::new()]);
        let name = copy.home.leftovers().into_iter().find(|name| name.ends_with(".0")).unwrap();
        edit(kind, &copy.home.slots().join(name).join("out"));
        assert!(matches!(copy.next_holder(), Condition::Drifted(_)));
        assert_eq!(seen(kind, &copy.target()), Some(false));
    }
}

#[test]
fn in_its_own_home_the_inode_decides_whatever_the_content() {
    for kind in [LocalKind::File, LocalKind::Directory] {
        let home = Home::new();
        let sink = home.sink(kind);
        let slot = home.slot(&sink, if kind == LocalKind::File { "out" } else { "out/" });
        home.publish(&sink, &slot, 1, &content(kind, true));
        let request = home.attempt(2, std::slice::from_ref(&slot)).prepare(&sink, &slot, &content(kind, true));
        commit_and_die(&home, kind, CrashPoint::AfterRename, &slot, &request);
        // Somebody puts another in its place; what was exchanged has the content of what was published.
        fs::rename(home.join("out"), home.join("away")).unwrap();
        fs::create_dir(home.join("made")).unwrap();
        content(kind, false).write(&home.join("made/out"));
        fs::rename(home.join("made/out"), home.join("out")).unwrap();
        let head = home.attempt(2, std::slice::from_ref(&slot)).claim(&sink, &slot);
        assert!(matches!(sink.condition(&slot, Some(&head)).unwrap(), Condition::Drifted(_)));
        assert_eq!(seen(kind, &home.join("out")), Some(false), "{kind:?}: nothing is exchanged a second time");
    }
}

#[test]
fn ledg_11_many_claims_at_once_leave_one_whole_journal_and_the_highest_token() {
    let home = Home::new();
    let slot = home.slot(&home.files(), "x");
    let attempts: Vec<_> = (0..64).map(|_| home.attempt(1, std::slice::from_ref(&slot))).collect();
    let accepted = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::new(home.files());
    let threads: Vec<_> = attempts
        .chunks(8)
        .map(|chunk| {
            let (chunk, accepted, sink, slot) =
                (chunk.to_vec(), Arc::clone(&accepted), Arc::clone(&sink), slot.clone());
            thread::spawn(move || {
                for attempt in chunk {
                    if let ClaimAnswer::Claimed(_) = sink.claim(&slot, &attempt.claim_request()).unwrap() {
                        accepted.lock().unwrap().push(attempt.holder.token);
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    let head = sink.read(&slot).unwrap().unwrap();
    let highest = head.claim.unwrap().holder.token;
    assert_eq!(Some(&highest), accepted.lock().unwrap().iter().max());
    assert_eq!(highest.get(), 64);
}

#[test]
fn of_many_commits_at_once_one_lands() {
    for kind in [LocalKind::File, LocalKind::Directory] {
        let home = Home::new();
        let sink = Arc::new(home.sink(kind));
        let slot = home.slot(&sink, if kind == LocalKind::File { "x" } else { "x/" });
        let requests: Vec<_> = (0..8)
            .map(|_| home.attempt(1, std::slice::from_ref(&slot)).prepare(&sink, &slot, &content(kind, true)))
            .collect();
        let threads: Vec<_> = requests
            .into_iter()
            .map(|request| {
                let (sink, slot) = (Arc::clone(&sink), slot.clone());
                thread::spawn(move || sink.commit(&slot, &request, &STRICT).unwrap())
            })
            .collect();
        let answers: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        assert_eq!(answers.iter().filter(|answer| **answer == CommitAnswer::Committed).count(), 1, "{answers:?}");
    }
}

#[test]
fn fs_13_a_failed_fsync_of_the_directory_is_published_with_unknown_durability() {
    struct Cut(Arc<Mutex<Mount>>);
    impl refrain_core::CrashProbe for Cut {
        fn reach(&self, point: CrashPoint) {
            if point == CrashPoint::AfterRename {
                self.0.lock().unwrap().cut();
            }
        }
    }
    let mount = Arc::new(Mutex::new(Mount::ext4(64)));
    let home = Home::at(&mount.lock().unwrap().path());
    settle(&home, &mount.lock().unwrap());
    {
        let sink = home.sink_with(LocalKind::File, Arc::new(Cut(Arc::clone(&mount))));
        let slot = home.slot(&sink, "x");
        let request = home.attempt(1, std::slice::from_ref(&slot)).prepare(&sink, &slot, &Content::File("new"));
        for _ in 0..2 {
            let error = sink.commit(&slot, &request, &STRICT).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Unknown);
            assert!(error.message.contains("is published, but whether that survives"), "{error}");
        }
    }
    mount.lock().unwrap().restore();
    let sink = home.files();
    let slot = home.slot(&sink, "x");
    let head = home.attempt(1, std::slice::from_ref(&slot)).claim(&sink, &slot);
    assert!(head.publication.is_some(), "the intent was durable, so that the next one finished it");
    assert_eq!(fs::read_to_string(home.join("x")).unwrap(), "new");
}
