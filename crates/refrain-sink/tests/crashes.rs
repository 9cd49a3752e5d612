//! Power cuts at every step of a commit, and many who come at once.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod support;

use refrain_core::{ClaimAnswer, CommitAnswer, Condition, CrashPoint, ErrorKind, Sink};
use refrain_sink::{LocalKind, prepare_volume};
use refrain_testkit::mounts::Mount;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use support::{Content, Home, STRICT, commit_and_die, tree};

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
