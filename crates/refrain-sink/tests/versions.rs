//! What is listed as a version is whole: removals that end in the middle, removals beside restorations, damage.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod support;

use jiff::{SignedDuration, Timestamp};
use refrain_core::{CommitAnswer, CrashPoint, Error, ErrorKind, Generation, Keep, Result, Sink, SlotAddress};
use refrain_sink::{LocalKind, LocalSink};
use refrain_testkit::mounts::Mount;
use refrain_testkit::strace;
use std::collections::BTreeMap;
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use support::{ADOPT, Content, Home, OVERWRITE, STRICT, commit_and_die, tree};

const NOTHING: Keep = Keep { versions: 0, grace: Duration::ZERO };
const DEEP: Content<'_> = Content::Tree(&[("sub/a", "1"), ("sub/b", "1"), ("sub/c", "1")]);
const OTHER: Content<'_> = Content::Tree(&[("sub/a", "2")]);

/// Names the home to a process that removes its versions.
const TRIMMED_HOME: &str = "REFRAIN_TEST_TRIMMED_HOME";

fn later() -> Timestamp {
    Timestamp::now() + SignedDuration::from_secs(60)
}

/// The filesystems with both layouts; each home must go before its mounts.
fn homes() -> [(Home, Vec<Mount>, Option<tempfile::TempDir>); 2] {
    let mount = Mount::ext4(64);
    let plain = Home::at(&mount.path());
    let below = tempfile::tempdir().unwrap();
    let poor = Mount::bindfs(below.path());
    let links = Home::at(&poor.path());
    [(plain, vec![mount], None), (links, vec![poor], Some(below))]
}

/// Fills a staging place with a kept version.
fn restore(home: &Home, sink: &LocalSink, slot: &SlotAddress, generation: u64) -> Result<PathBuf> {
    let staging = home.attempt(99, std::slice::from_ref(slot)).stage(sink, slot);
    sink.restore(slot, Generation::new(generation), &staging.place)?;
    Ok(staging.path())
}

fn generations(sink: &LocalSink, slot: &SlotAddress) -> Vec<u64> {
    sink.versions(slot).unwrap().iter().map(|it| it.generation.get()).collect()
}

/// Where a kept version lies.
fn place(sink: &LocalSink, slot: &SlotAddress, generation: u64) -> PathBuf {
    let versions = sink.versions(slot).unwrap();
    let kept = versions.iter().find(|it| it.generation.get() == generation).unwrap();
    PathBuf::from(&kept.locations[0])
}

/// The names in the slot's directory of versions.
fn names(home: &Home) -> Vec<String> {
    let slots: Vec<_> = fs::read_dir(home.join(".refrain/versions")).unwrap().map(|it| it.unwrap().path()).collect();
    let list = |slot: &PathBuf| fs::read_dir(slot).unwrap().map(|it| it.unwrap().file_name().into_string().unwrap());
    slots.iter().flat_map(list).collect()
}

/// The text of a version's label.
fn label(version: &Path) -> PathBuf {
    PathBuf::from(format!("{}.label", version.parent().unwrap().display()))
}

/// Makes a file that not even root can remove, while `work` runs.
fn with_immovable<T>(file: &Path, work: impl FnOnce() -> T) -> T {
    let chattr = |how: &str, file: &Path| Command::new("chattr").arg(how).arg(file).status().unwrap().success();
    let inode = fs::File::open(file).unwrap();
    assert!(chattr("+i", file));
    let result = work();
    // By its inode: its name may be another one now.
    let now = fs::read_link(format!("/proc/self/fd/{}", inode.as_raw_fd())).unwrap();
    assert!(chattr("-i", &now));
    result
}

#[test]
fn a_version_whose_removal_failed_in_the_middle_is_none() {
    for drifted in [false, true] {
        let mount = Mount::ext4(64);
        let home = Home::at(&mount.path());
        let sink = home.directories();
        let slot = home.slot(&sink, "out/");
        home.publish(&sink, &slot, 1, &DEEP);
        if drifted {
            // Without a digest nothing but the list tells.
            fs::write(home.join("out/more"), "x").unwrap();
        }
        let second = home.attempt(2, std::slice::from_ref(&slot));
        let request = second.prepare(&sink, &slot, &OTHER);
        assert_eq!(sink.commit(&slot, &request, &OVERWRITE).unwrap(), CommitAnswer::Committed);
        let stuck = place(&sink, &slot, 1).join("sub/b");
        let failed = with_immovable(&stuck, || sink.trim(&slot, &NOTHING, later(), false));
        let error = failed.unwrap_err();
        assert!(error.message.contains("cannot remove the version"), "{error}");
        assert_eq!(generations(&sink, &slot), [2], "drifted={drifted}");
        assert_eq!(restore(&home, &sink, &slot, 1).unwrap_err().kind, ErrorKind::Invalid);
        assert!(sink.trim(&slot, &NOTHING, later(), true).unwrap().is_empty());
        assert!(!names(&home).is_empty(), "a dry run removes nothing");
        assert!(sink.trim(&slot, &NOTHING, later(), false).unwrap().is_empty());
        assert_eq!(names(&home), Vec::<String>::new(), "the next one removes what is left");
    }
}

/// What [`a_removal_that_is_killed_anywhere_leaves_whole_versions_or_none`] kills.
#[test]
fn removes_all_versions_of_a_home() {
    let Some(home) = std::env::var_os(TRIMMED_HOME) else { return };
    let home = PathBuf::from(home);
    let sink = LocalSink::new(LocalKind::Directory, &home, &[], Arc::new(refrain_core::NoProbe)).unwrap();
    sink.trim(&sink.address("out/", &home).unwrap(), &NOTHING, later(), false).unwrap();
}

#[test]
fn a_removal_that_is_killed_anywhere_leaves_whole_versions_or_none() {
    const CALLS: [&str; 6] = ["rename", "renameat2", "fsync", "unlink", "unlinkat", "rmdir"];
    let command = |home: &Home| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "removes_all_versions_of_a_home", "--test-threads=1"]).env(TRIMMED_HOME, home.path());
        command
    };
    let published = || {
        let home = Home::new();
        let sink = home.directories();
        let slot = home.slot(&sink, "out/");
        for generation in 1..=3 {
            home.publish(&sink, &slot, generation, &DEEP);
        }
        (home, sink, slot)
    };
    let counted = strace::trace(&command(&published().0), &CALLS);
    counted.output.clone().success();
    let mut killed = 0;
    for (call, count) in counted.count(&CALLS) {
        for nth in 1..=count {
            let (home, sink, slot) = published();
            let output = strace::inject_everywhere(&command(&home), &format!("{call}:signal=SIGKILL:when={nth}"));
            killed += usize::from(output.signal.is_some());
            let left = generations(&sink, &slot);
            for generation in &left {
                let restored = tree(&restore(&home, &sink, &slot, *generation).unwrap());
                assert_eq!(restored.len(), 3, "{call} {nth}: version {generation} of {left:?}");
            }
            sink.trim(&slot, &NOTHING, later(), false).unwrap();
            assert_eq!(generations(&sink, &slot), [3], "{call} {nth}");
            assert_eq!(names(&home), Vec::<String>::new(), "{call} {nth}");
        }
    }
    assert!(killed >= 15, "killed {killed} times");
}

#[test]
fn what_a_killed_removal_left_is_no_version_and_goes_with_the_next() {
    for (home, mounts, below) in homes() {
        let sink = home.directories();
        let slot = home.slot(&sink, "out/");
        for generation in 1..=3 {
            home.publish(&sink, &slot, generation, &DEEP);
        }
        // As after the rename: with the label and a part of the content.
        let first = place(&sink, &slot, 1).parent().unwrap().to_owned();
        let dropped = first.with_file_name(format!("dropped-{}", first.file_name().unwrap().display()));
        fs::rename(&first, &dropped).unwrap();
        fs::remove_file(dropped.join("out/sub/b")).unwrap();
        assert_eq!(generations(&sink, &slot), [3, 2]);
        assert_eq!(restore(&home, &sink, &slot, 1).unwrap_err().kind, ErrorKind::Invalid);
        let keep = Keep { versions: 1, grace: Duration::ZERO };
        assert!(sink.trim(&slot, &keep, later(), false).unwrap().is_empty(), "it is not counted");
        assert!(!names(&home).iter().any(|name| name.contains(first.file_name().unwrap().to_str().unwrap())));
        assert_eq!(generations(&sink, &slot), [3, 2]);
        assert_eq!(tree(&restore(&home, &sink, &slot, 2).unwrap()).len(), 3);
        assert_eq!(tree(&home.join("out")).len(), 3);
        drop(home);
        drop(mounts);
        drop(below);
    }
}

#[test]
fn a_version_that_is_removed_while_it_is_restored_is_never_restored_in_part() {
    const FILES: usize = 400;
    let (mut whole, mut refused) = (0, 0);
    for round in 0..30_u64 {
        let home = Home::new();
        let sink = Arc::new(home.directories());
        let slot = home.slot(&sink, "out/");
        // An adopted one: there is no digest that would tell.
        for at in 0..FILES {
            fs::create_dir_all(home.join(&format!("out/{}", at % 20))).unwrap();
            fs::write(home.join(&format!("out/{}/{at}", at % 20)), "x").unwrap();
        }
        let request = home.attempt(1, std::slice::from_ref(&slot)).prepare(&sink, &slot, &OTHER);
        assert_eq!(sink.commit(&slot, &request, &ADOPT).unwrap(), CommitAnswer::Committed);
        let staging = home.attempt(2, std::slice::from_ref(&slot)).stage(&sink, &slot);
        let remover = {
            let (sink, slot) = (Arc::clone(&sink), slot.clone());
            thread::spawn(move || {
                thread::sleep(Duration::from_micros(200 * round));
                sink.trim(&slot, &NOTHING, later(), false).unwrap();
            })
        };
        match sink.restore(&slot, Generation::default(), &staging.place) {
            Ok(()) => {
                assert_eq!(tree(&staging.path()).len(), FILES, "round {round}: restored in part");
                whole += 1;
            }
            Err(error) => {
                assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
                refused += 1;
            }
        }
        remover.join().unwrap();
    }
    assert!(whole + refused == 30 && refused > 0, "{whole} whole, {refused} refused");
}

#[test]
fn a_damaged_version_is_not_restored() {
    for (home, mounts, below) in homes() {
        let sink = home.directories();
        let slot = home.slot(&sink, "out/");
        for generation in 1..=4 {
            home.publish(&sink, &slot, generation, &DEEP);
        }
        let text = fs::read_link(label(&place(&sink, &slot, 3))).unwrap().display().to_string();
        assert!(text.contains("\"sealed\":{\"digest\":\"blake3:"), "{text}");
        assert!(text.contains("\"bytes\":3,\"files\":3}"), "{text}");
        assert!(text.len() < 400, "{text}");

        fs::remove_file(place(&sink, &slot, 3).join("sub/b")).unwrap();
        fs::write(place(&sink, &slot, 2).join("sub/b"), "!").unwrap();
        let damaged = |generation| -> Error { restore(&home, &sink, &slot, generation).unwrap_err() };
        let [lacking, other] = [3, 2].map(damaged);
        assert_eq!((lacking.kind, other.kind), (ErrorKind::Refused, ErrorKind::Refused));
        let target = home.join("out").display().to_string();
        assert_eq!(
            lacking.message,
            format!(
                "kept version 3 of `{target}` is damaged: it has 2 files with 2 bytes, and 3 files with 3 bytes were published"
            )
        );
        assert_eq!(
            other.message,
            format!("kept version 2 of `{target}` is damaged: its content is not what was published")
        );
        assert_eq!(tree(&restore(&home, &sink, &slot, 1).unwrap()).len(), 3);
        // The one that stands is looked at as closely.
        fs::write(home.join("out/sub/a"), "?").unwrap();
        assert_eq!(damaged(4).kind, ErrorKind::Refused);
        drop(home);
        drop(mounts);
        drop(below);
    }
}

#[test]
fn a_damaged_version_of_a_file_is_not_restored() {
    let home = Home::new();
    let sink = home.files();
    let slot = home.slot(&sink, "out");
    home.publish(&sink, &slot, 1, &Content::File("one"));
    home.publish(&sink, &slot, 2, &Content::File("two"));
    assert_eq!(fs::read_to_string(restore(&home, &sink, &slot, 1).unwrap()).unwrap(), "one");
    fs::write(place(&sink, &slot, 1), "o").unwrap();
    let error = restore(&home, &sink, &slot, 1).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused);
    assert!(error.message.contains("kept version 1 of"), "{error}");
}

#[test]
fn labels_without_a_digest_are_taken_and_changed_or_adopted_versions_have_none() {
    let home = Home::new();
    let sink = home.directories();
    let slot = home.slot(&sink, "out/");
    fs::create_dir(home.join("out")).unwrap();
    fs::write(home.join("out/theirs"), "x").unwrap();
    let request = home.attempt(1, std::slice::from_ref(&slot)).prepare(&sink, &slot, &DEEP);
    assert_eq!(sink.commit(&slot, &request, &ADOPT).unwrap(), CommitAnswer::Committed);
    fs::write(home.join("out/added"), "x").unwrap();
    let request = home.attempt(2, std::slice::from_ref(&slot)).prepare(&sink, &slot, &DEEP);
    assert_eq!(sink.commit(&slot, &request, &OVERWRITE).unwrap(), CommitAnswer::Committed);
    home.publish(&sink, &slot, 3, &OTHER);
    for (generation, sealed) in [(0, false), (1, false), (2, true)] {
        let text = fs::read_link(label(&place(&sink, &slot, generation))).unwrap().display().to_string();
        assert_eq!(text.contains("blake3"), sealed, "{text}");
        restore(&home, &sink, &slot, generation).unwrap();
    }
    // As earlier versions of the program wrote it.
    let kept = place(&sink, &slot, 2);
    let attempt = kept.parent().unwrap().file_name().unwrap().to_str().unwrap().strip_prefix("2-").unwrap().to_owned();
    fs::remove_file(label(&kept)).unwrap();
    let old = format!("{{\"format\":1,\"generation\":2,\"attempt\":\"{attempt}\",\"drifted\":false}}");
    symlink(old, label(&kept)).unwrap();
    assert_eq!(generations(&sink, &slot), [3, 2, 1, 0]);
    assert_eq!(tree(&restore(&home, &sink, &slot, 2).unwrap()).len(), 3);
}

#[test]
fn a_version_keeps_its_label_when_another_of_its_name_comes() {
    for (home, mounts, below) in homes() {
        let sink = home.files();
        let slot = home.slot(&sink, "out");
        for (round, text) in ["first", "second"].into_iter().enumerate() {
            // The head is lost: what stands counts as foreign.
            for entry in fs::read_dir(home.slots()).into_iter().flatten() {
                let path = entry.unwrap().path();
                if path.extension().is_some_and(|it| it == "head") {
                    fs::remove_file(path).unwrap();
                }
            }
            fs::write(home.join("out"), text).unwrap();
            let before = (round > 0).then(|| sink.versions(&slot).unwrap());
            let request = home.attempt(1, std::slice::from_ref(&slot)).prepare(&sink, &slot, &Content::File("new"));
            assert_eq!(sink.commit(&slot, &request, &ADOPT).unwrap(), CommitAnswer::Committed);
            let versions = sink.versions(&slot).unwrap();
            if let Some(before) = before {
                assert!(versions.contains(&before[0]), "{before:?} became {versions:?}");
            }
        }
        let contents: Vec<_> = names(&home)
            .into_iter()
            .filter(|name| Path::new(name).extension().is_some_and(|it| it == "label"))
            .collect();
        assert_eq!(contents.len(), 2, "{contents:?}");
        drop(home);
        drop(mounts);
        drop(below);
    }
}

#[test]
fn a_link_that_was_turned_to_a_kept_version_does_not_rename_it() {
    let below = tempfile::tempdir().unwrap();
    let mount = Mount::bindfs(below.path());
    let home = Home::at(&mount.path());
    let sink = home.directories();
    let slot = home.slot(&sink, "out/");
    for generation in 1..=3 {
        home.publish(&sink, &slot, generation, &Content::Tree(&[("a", &generation.to_string())]));
    }
    let first = place(&sink, &slot, 1);
    fs::remove_file(home.join("out")).unwrap();
    symlink(&first, home.join("out")).unwrap();
    let request = home.attempt(4, std::slice::from_ref(&slot)).prepare(&sink, &slot, &Content::Tree(&[("a", "4")]));
    assert_eq!(sink.commit(&slot, &request, &STRICT).unwrap_err().kind, ErrorKind::Conflict);
    assert_eq!(sink.commit(&slot, &request, &OVERWRITE).unwrap(), CommitAnswer::Committed);
    assert_eq!(generations(&sink, &slot), [4, 3, 2, 1]);
    for generation in 1..=3_u64 {
        let restored = tree(&restore(&home, &sink, &slot, generation).unwrap());
        assert_eq!(restored, BTreeMap::from([("a".to_owned(), generation.to_string())]));
    }
    drop(home);
    drop(mount);
}

#[test]
fn staging_whose_removal_failed_in_the_middle_is_not_published() {
    let mount = Mount::ext4(64);
    let home = Home::at(&mount.path());
    let sink = home.directories();
    let slot = home.slot(&sink, "out/");
    let attempt = home.attempt(1, std::slice::from_ref(&slot));
    let request = attempt.prepare(&sink, &slot, &DEEP);
    let [staged] = sink.staged().unwrap().try_into().unwrap();
    let stuck = home.slots().join(format!("{}.0/out/sub/b", attempt.holder.attempt));
    with_immovable(&stuck, || sink.discard(&staged)).unwrap_err();
    assert_eq!(sink.commit(&slot, &request, &STRICT).unwrap(), CommitAnswer::DataLost);
    assert!(!home.join("out").exists());
    let [left] = sink.staged().unwrap().try_into().unwrap();
    assert_eq!(left, staged, "what is left has its owner");
    sink.discard(&left).unwrap();
    assert_eq!(home.leftovers(), Vec::<String>::new());
    assert!(sink.staged().unwrap().is_empty());
}

#[test]
fn staging_that_a_decided_commit_waits_for_is_published_and_not_discarded() {
    for kind in [LocalKind::File, LocalKind::Directory] {
        let home = Home::new();
        let sink = home.sink(kind);
        let slot = home.slot(&sink, if kind == LocalKind::File { "out" } else { "out/" });
        let dead = home.attempt(1, std::slice::from_ref(&slot));
        let content = if kind == LocalKind::File { Content::File("new") } else { DEEP };
        let request = dead.prepare(&sink, &slot, &content);
        commit_and_die(&home, kind, CrashPoint::AfterIntent, &slot, &request);
        let [staged] = sink.staged().unwrap().try_into().unwrap();
        sink.discard(&staged).unwrap();
        assert!(sink.read(&slot).unwrap().unwrap().shows(dead.holder.attempt), "{kind:?}");
        assert!(home.join("out").exists(), "{kind:?}");
        assert_eq!(home.leftovers(), Vec::<String>::new());
    }
}

#[test]
fn many_slots_are_staged_on_a_filesystem_with_short_links() {
    let mount = Mount::xfs(320);
    let home = Home::at(&mount.path());
    let sink = home.files();
    let slots: Vec<_> = (0..30).map(|at| home.slot(&sink, &format!("an/output/of/the/task/{at}.parquet"))).collect();
    let attempt = home.attempt(1, &slots);
    attempt.stage(&sink, &slots[29]);
    assert_eq!(sink.staged().unwrap()[0].owner, Some((slots[29].clone(), attempt.staging_id())));
    // A crash while the owner was written: nothing was staged yet.
    let torn = home.attempt(2, &slots).holder.attempt;
    fs::write(home.slots().join(format!("{torn}.0.owner")), "{\"format\":1,\"sl").unwrap();
    assert_eq!(sink.staged().unwrap().len(), 1);
    drop(home);
}

#[test]
fn the_manifest_of_a_replaced_directory_goes_with_the_next_trim() {
    let home = Home::new();
    let sink = home.directories();
    let slot = home.slot(&sink, "out/");
    let manifests = |directory: &Path| -> Vec<String> {
        let names = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.ends_with(".manifest")).collect()
    };
    let former = home.publish(&sink, &slot, 1, &Content::Tree(&[("a", "1")]));
    let newer = home.publish(&sink, &slot, 2, &Content::Tree(&[("a", "2")]));
    assert_eq!(manifests(&home.slots()), [format!("{}.0.manifest", newer.holder.attempt)]);
    let versions = place(&sink, &slot, 1).parent().unwrap().parent().unwrap().to_owned();
    assert_eq!(manifests(&versions), [format!("dropped-{}.0.manifest", former.holder.attempt)]);
    assert_eq!(generations(&sink, &slot), [2, 1], "what waits for its removal is no version");
    sink.trim(&slot, &Keep::default(), Timestamp::UNIX_EPOCH, false).unwrap();
    assert!(manifests(&versions).is_empty());

    // Killed before it was moved, it is listed as what its attempt left behind.
    let killed = home.attempt(3, std::slice::from_ref(&slot));
    let request = killed.prepare(&sink, &slot, &Content::Tree(&[("a", "3")]));
    commit_and_die(&home, LocalKind::Directory, CrashPoint::AfterRecord, &slot, &request);
    let sink = home.directories();
    let staged = sink.staged().unwrap();
    let left = staged.iter().find(|it| it.owner.as_ref().unwrap().1.holder.attempt == newer.holder.attempt);
    sink.discard(left.unwrap()).unwrap();
    assert_eq!(manifests(&home.slots()), [format!("{}.0.manifest", killed.holder.attempt)]);
}
