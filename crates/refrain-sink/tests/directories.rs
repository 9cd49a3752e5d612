//! Directories: exchange and links, readers at full speed, what must not stay and what must not go.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod support;

use jiff::{SignedDuration, Timestamp};
use refrain_core::{
    Adopt, CommitAnswer, Condition, CrashPoint, ErrorKind, Generation, Keep, NoProbe, Sink, SlotAddress,
};
use refrain_sink::{LocalKind, LocalSink};
use refrain_testkit::mounts::Mount;
use std::collections::BTreeMap;
use std::fs::{self, File, FileTimes};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};
use support::{ADOPT, Content, Home, OVERWRITE, STRICT, commit_and_die, guards, tree};

const FOUR: Content<'_> =
    Content::Tree(&[("data_0", "old"), ("data_1", "old"), ("p=1/data_0", "old"), ("p=2/data_0", "old")]);
const ONE: Content<'_> = Content::Tree(&[("data_0", "new")]);

/// A home on a filesystem that has no exchange: below a bindfs.
fn without_exchange() -> (tempfile::TempDir, Mount, Home) {
    let below = tempfile::tempdir().unwrap();
    let mount = Mount::bindfs(below.path());
    let home = Home::at(&mount.path());
    (below, mount, home)
}

fn one(name: &str, content: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(name.to_owned(), content.to_owned())])
}

#[test]
fn dir_10_files_of_an_earlier_larger_run_do_not_stay() {
    let home = Home::new();
    let sink = home.directories();
    let slot = home.slot(&sink, "out/");
    home.publish(&sink, &slot, 1, &FOUR);
    assert_eq!(tree(&home.join("out")).len(), 4);
    home.publish(&sink, &slot, 2, &ONE);
    assert_eq!(tree(&home.join("out")), one("data_0", "new"));
    assert!(!home.join("out/p=1").exists());
}

#[test]
fn sealing_leaves_the_times_of_access_alone() {
    let home = Home::new();
    let sink = home.directories();
    let slot = home.slot(&sink, "out/");
    let staging = home.attempt(1, std::slice::from_ref(&slot)).stage(&sink, &slot);
    ONE.write(&staging.path());
    let file = staging.path().join("data_0");
    // Older than the time of its change: whoever reads it now would be noted, on any mount but one with `noatime`.
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    File::options().write(true).open(&file).unwrap().set_times(FileTimes::new().set_accessed(old)).unwrap();
    sink.seal(staging, &guards()).unwrap();
    assert_eq!(fs::metadata(&file).unwrap().accessed().unwrap(), old);
}

#[test]
fn dir_11_a_partition_does_not_touch_its_siblings() {
    let home = Home::new();
    let sink = home.directories();
    let slots = ["2018", "2019"].map(|year| home.slot(&sink, &format!("table/year={year}/")));
    for generation in 1..=2 {
        for slot in &slots {
            home.publish(&sink, slot, generation, &ONE);
        }
    }
    assert_eq!(tree(&home.join("table")).len(), 2);
}

#[test]
fn dir_02_dir_04_readers_never_miss_the_target_nor_see_a_mix() {
    let (below, mount, bind) = without_exchange();
    let plain = Home::new();
    // Readers of the second look below the FUSE mount, whose own lookups race with its renames.
    let below_it = below.path().join(bind.path().file_name().unwrap());
    for (home, seen, rounds) in [(&plain, plain.path(), 100_u64), (&bind, below_it, 20)] {
        let sink = home.directories();
        let slot = home.slot(&sink, "out/");
        home.publish(&sink, &slot, 1, &Content::Tree(&[("a", "1"), ("b", "1")]));
        let done = Arc::new(AtomicBool::new(false));
        let (target, stop) = (seen.join("out"), Arc::clone(&done));
        let reader = thread::spawn(move || {
            let mut looks = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                // A reader resolves the name once and reads what it got.
                let directory = fs::File::open(&target).expect("the target was missing");
                let at = |name: &str| {
                    use std::os::fd::AsRawFd;
                    let path = PathBuf::from(format!("/proc/self/fd/{}/{name}", directory.as_raw_fd()));
                    fs::read_to_string(path).expect("a file was missing")
                };
                assert_eq!(at("a"), at("b"), "a mix of two versions");
                looks += 1;
            }
            looks
        });
        for generation in 2..rounds {
            let text = generation.to_string();
            home.publish(&sink, &slot, generation, &Content::Tree(&[("a", &text), ("b", &text)]));
        }
        done.store(true, Ordering::Relaxed);
        assert!(reader.join().unwrap() > 0);
    }
    drop((bind, mount, below));
}

#[test]
fn dir_04_a_link_is_switched_where_names_cannot_be_exchanged() {
    let (_below, mount, home) = without_exchange();
    let sink = home.directories();
    let slot = home.slot(&sink, "out/");
    sink.preflight(&slot, None, Adopt::Never).unwrap();
    for generation in 1..=3 {
        let text = generation.to_string();
        home.publish(&sink, &slot, generation, &Content::Tree(&[("a", &text)]));
        assert!(home.join("out").is_symlink());
        assert_eq!(tree(&home.join("out")), one("a", &text), "no nested link");
        let head = sink.read(&slot).unwrap();
        assert_eq!(sink.condition(&slot, head.as_ref()).unwrap(), Condition::Intact);
        assert_eq!(home.slot(&sink, "out/"), slot, "the link is the publication and is not followed");
    }
    assert!(!fs::read_link(home.join("out")).unwrap().is_absolute(), "within the home, so that it can be moved");
    let versions = sink.versions(&slot).unwrap();
    assert_eq!(versions.iter().map(|it| it.generation.get()).collect::<Vec<_>>(), [3, 2, 1]);
    let all = Keep { versions: 0, grace: Duration::ZERO };
    let later = Timestamp::now() + SignedDuration::from_secs(1);
    assert_eq!(sink.trim(&slot, &all, later, false).unwrap().len(), 2);
    assert_eq!(tree(&home.join("out")), one("a", "3"), "never the one that the link shows");
    assert_eq!(home.leftovers(), Vec::<String>::new());
    drop(home);
    drop(mount);
}

#[test]
fn dir_04_a_directory_in_the_way_of_a_link_is_refused_not_deleted() {
    let (_below, mount, home) = without_exchange();
    let sink = home.directories();
    let slot = home.slot(&sink, "out/");
    fs::create_dir(home.join("out")).unwrap();
    fs::write(home.join("out/precious"), "x").unwrap();
    let error = sink.preflight(&slot, None, Adopt::Foreign).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused);
    assert!(error.message.contains("cannot exchange"), "{error}");
    let attempt = home.attempt(1, std::slice::from_ref(&slot));
    let request = attempt.prepare(&sink, &slot, &ONE);
    let error = sink.commit(&slot, &request, &ADOPT).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused, "{error}");
    assert_eq!(tree(&home.join("out")), one("precious", "x"));
    assert!(sink.read(&slot).unwrap().unwrap().publication.is_none(), "the intent is withdrawn");
    drop(home);
    drop(mount);
}

#[test]
fn death_with_links_or_without_exchange_is_settled_by_the_next() {
    let (_below, mount, home) = without_exchange();
    for (kind, content) in [(LocalKind::Directory, &ONE), (LocalKind::File, &Content::File("new"))] {
        for (at, point) in
            [CrashPoint::AfterIntent, CrashPoint::AfterRename, CrashPoint::BeforeRecord, CrashPoint::AfterRecord]
                .into_iter()
                .enumerate()
        {
            let sink = home.sink(kind);
            let slash = if kind == LocalKind::Directory { "/" } else { "" };
            let slot = home.slot(&sink, &format!("{kind:?}{at}{slash}"));
            let old = if kind == LocalKind::Directory { &FOUR } else { &Content::File("old") };
            home.publish(&sink, &slot, 1, old);
            let dead = home.attempt(2, std::slice::from_ref(&slot));
            let request = dead.prepare(&sink, &slot, content);
            commit_and_die(&home, kind, point, &slot, &request);
            let head = home.attempt(2, std::slice::from_ref(&slot)).claim(&sink, &slot);
            assert!(head.shows(dead.holder.attempt), "{kind:?} {point}");
            assert_eq!(sink.condition(&slot, Some(&head)).unwrap(), Condition::Intact, "{kind:?} {point}");
            assert_eq!(sink.versions(&slot).unwrap().len(), 2, "{kind:?} {point}");
            assert_eq!(home.leftovers(), Vec::<String>::new(), "{kind:?} {point}");
        }
    }
    drop(home);
    drop(mount);
}

#[test]
fn dir_08_a_directory_of_a_lower_layer_is_refused_and_files_publish() {
    let mount = Mount::overlay(|lower| {
        fs::create_dir(lower.join("out")).unwrap();
        fs::write(lower.join("out/a"), "image").unwrap();
        fs::write(lower.join("file"), "image").unwrap();
    });
    fs::create_dir(mount.path().join(".refrain")).unwrap();
    let home = mount.path();
    let sink = |kind| LocalSink::new(kind, &home, &[], Arc::new(NoProbe)).unwrap();
    let helper = Home::new();
    let files = sink(LocalKind::File);
    let slot = files.address("file", &home).unwrap();
    let request = helper.attempt(1, std::slice::from_ref(&slot)).prepare(&files, &slot, &Content::File("new"));
    assert_eq!(files.commit(&slot, &request, &ADOPT).unwrap(), CommitAnswer::Committed);
    assert_eq!(fs::read_to_string(home.join("file")).unwrap(), "new");

    let directories = sink(LocalKind::Directory);
    let slot = directories.address("out/", &home).unwrap();
    let request = helper.attempt(1, std::slice::from_ref(&slot)).prepare(&directories, &slot, &ONE);
    let error = directories.commit(&slot, &request, &ADOPT).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);
    assert!(error.message.contains("came with the container's image"), "{error}");
    assert_eq!(tree(&home.join("out")), one("a", "image"));
    assert!(directories.read(&slot).unwrap().unwrap().publication.is_none());
    let fresh = directories.address("fresh/", &home).unwrap();
    helper.publish(&directories, &fresh, 1, &FOUR);
    helper.publish(&directories, &fresh, 2, &ONE);
    assert_eq!(tree(&home.join("fresh")), one("data_0", "new"));
}

#[test]
fn dir_01_xfs_says_eexist_and_publishes_all_the_same() {
    let mount = Mount::xfs(320);
    let home = Home::at(&mount.path());
    for generation in 1..=3 {
        home.publish(&home.directories(), &home.slot(&home.directories(), "out/"), generation, &FOUR);
        home.publish(&home.files(), &home.slot(&home.files(), "file"), generation, &Content::File("x"));
    }
    assert_eq!(tree(&home.join("out")).len(), 4);
    drop(home);
}

#[test]
fn dir_05_versions_go_by_count_and_grace_and_never_the_published_one() {
    let home = Home::new();
    let sink = home.directories();
    let slot = home.slot(&sink, "out/");
    for generation in 1..=5 {
        home.publish(&sink, &slot, generation, &ONE);
    }
    let generations = |sink: &LocalSink, slot: &SlotAddress| {
        sink.versions(slot).unwrap().iter().map(|it| it.generation.get()).collect::<Vec<_>>()
    };
    let keep = Keep { versions: 2, grace: Duration::from_hours(1) };
    let now = Timestamp::now();
    assert!(sink.trim(&slot, &keep, now, false).unwrap().is_empty(), "in the grace");
    let later = now + SignedDuration::from_hours(2);
    let would = sink.trim(&slot, &keep, later, true).unwrap();
    assert_eq!(would.iter().map(|it| it.generation.get()).collect::<Vec<_>>(), [2, 1]);
    assert_eq!(generations(&sink, &slot), [5, 4, 3, 2, 1], "a dry run removes nothing");
    assert_eq!(sink.trim(&slot, &keep, later, false).unwrap(), would);
    assert_eq!(generations(&sink, &slot), [5, 4, 3]);
    sink.trim(&slot, &Keep { versions: 0, grace: Duration::ZERO }, later, false).unwrap();
    assert_eq!(generations(&sink, &slot), [5]);
    assert_eq!(tree(&home.join("out")), one("data_0", "new"));
}

#[test]
fn a_kept_version_is_published_again() {
    for kind in [LocalKind::File, LocalKind::Directory] {
        let home = Home::new();
        let sink = home.sink(kind);
        let slot = home.slot(&sink, if kind == LocalKind::File { "out" } else { "out/" });
        let content = |new| match (kind, new) {
            (LocalKind::File, true) => Content::File("new"),
            (LocalKind::File, false) => Content::File("old"),
            (LocalKind::Directory, true) => ONE,
            (LocalKind::Directory, false) => FOUR,
        };
        home.publish(&sink, &slot, 1, &content(false));
        home.publish(&sink, &slot, 2, &content(true));
        let first = digest(&sink, &slot, &home, 1);
        let attempt = home.attempt(3, std::slice::from_ref(&slot));
        let head = attempt.claim(&sink, &slot);
        let staging = attempt.stage(&sink, &slot);
        sink.restore(&slot, Generation::new(1), &staging.place).unwrap();
        let data = sink.seal(staging, &support::guards()).unwrap().into_data().unwrap();
        assert_eq!(data.digest, first);
        let request = attempt.request(head.version, vec![data]);
        assert_eq!(sink.commit(&slot, &request, &STRICT).unwrap(), CommitAnswer::Committed);
        assert_eq!(sink.versions(&slot).unwrap().len(), 3);
        let other = home.attempt(4, std::slice::from_ref(&slot)).stage(&sink, &slot);
        let error = sink.restore(&slot, Generation::new(9), &other.place).unwrap_err();
        assert!(error.hint.unwrap().contains("3, 2, 1"));
    }
}

/// The digest of a kept version, by way of a staging of its own.
fn digest(sink: &LocalSink, slot: &SlotAddress, home: &Home, generation: u64) -> String {
    let staging = home.attempt(9, std::slice::from_ref(slot)).stage(sink, slot);
    sink.restore(slot, Generation::new(generation), &staging.place).unwrap();
    let digest = sink.seal(staging, &support::guards()).unwrap().into_data().unwrap().digest;
    for staged in sink.staged().unwrap() {
        sink.discard(&staged).unwrap();
    }
    digest
}

#[test]
fn what_was_changed_by_hand_is_noticed_and_kept_aside() {
    for kind in [LocalKind::File, LocalKind::Directory] {
        let home = Home::new();
        let sink = home.sink(kind);
        let slot = home.slot(&sink, if kind == LocalKind::File { "out" } else { "out/" });
        let content = || if kind == LocalKind::File { Content::File("new") } else { FOUR };
        home.publish(&sink, &slot, 1, &content());
        let by_hand = if kind == LocalKind::File { home.join("out") } else { home.join("out/p=1/data_0") };
        let condition = |sink: &LocalSink| {
            let head = sink.read(&slot).unwrap();
            sink.condition(&slot, head.as_ref()).unwrap()
        };
        let same = fs::read(&by_hand).unwrap();
        fs::write(&by_hand, &same).unwrap();
        assert_eq!(condition(&sink), Condition::Intact, "written, but the same");
        fs::write(&by_hand, "NEW").unwrap();
        assert!(matches!(condition(&sink), Condition::Drifted(_)));
        if kind == LocalKind::Directory {
            fs::write(&by_hand, &same).unwrap();
            fs::write(home.join("out/added"), "x").unwrap();
            assert!(matches!(condition(&sink), Condition::Drifted(text) if text.contains("`added` was added")));
            fs::remove_file(home.join("out/added")).unwrap();
            fs::remove_file(home.join("out/data_1")).unwrap();
            assert!(matches!(condition(&sink), Condition::Drifted(text) if text.contains("`data_1` is missing")));
        }
        let attempt = home.attempt(2, std::slice::from_ref(&slot));
        let request = attempt.prepare(&sink, &slot, &content());
        assert_eq!(sink.commit(&slot, &request, &STRICT).unwrap_err().kind, ErrorKind::Conflict);
        assert_eq!(sink.commit(&slot, &request, &OVERWRITE).unwrap(), CommitAnswer::Committed);
        assert_eq!(condition(&sink), Condition::Intact);
        let kept = &sink.versions(&slot).unwrap()[1];
        assert!(kept.locations[0].contains("-drift/"), "{kept:?}");
        fs::remove_dir_all(home.join("out")).or_else(|_| fs::remove_file(home.join("out"))).unwrap();
        assert_eq!(condition(&sink), Condition::Missing);
        home.publish(&sink, &slot, 3, &content());
        assert_eq!(condition(&sink), Condition::Intact);
    }
}

#[test]
fn fs_14_staged_data_that_is_not_whole_any_more_is_not_rolled_forward() {
    let damage: [&dyn Fn(&Path); 3] = [
        &|staged| fs::remove_file(staged.join("p=1/data_0")).unwrap(),
        &|staged| fs::write(staged.join("p=1/data_0"), "odd").unwrap(),
        &|staged| fs::remove_dir_all(staged).unwrap(),
    ];
    for damage in damage {
        let home = Home::new();
        let sink = home.directories();
        let slots = ["one/", "two/"].map(|spec| home.slot(&sink, spec));
        let dead = home.attempt(1, &slots);
        let versions = [dead.claim(&sink, &slots[0]).version, dead.claim(&sink, &slots[1]).version];
        let data: Vec<_> = slots.iter().map(|slot| dead.seal(&sink, slot, &FOUR).unwrap()).collect();
        let request = dead.request(versions[0], data);
        assert_eq!(sink.commit(&slots[0], &request, &STRICT).unwrap(), CommitAnswer::Committed);
        damage(&home.slots().join(format!("{}.1/two", dead.holder.attempt)));
        let next = home.attempt(1, &slots);
        let mut forward = next.request(next.claim(&sink, &slots[1]).version, Vec::new());
        forward.publication = request.publication;
        assert_eq!(sink.commit(&slots[1], &forward, &STRICT).unwrap(), CommitAnswer::DataLost);
        assert!(!home.join("two").exists());
    }
}

#[test]
fn a_commit_whose_target_became_unwritable_publishes_nothing_and_can_be_sent_again() {
    let home = Home::new();
    let sink = home.directories();
    let slot = home.slot(&sink, "out/");
    let attempt = home.attempt(1, std::slice::from_ref(&slot));
    let request = attempt.prepare(&sink, &slot, &ONE);
    fs::create_dir(home.join("out")).unwrap();
    let bound = std::process::Command::new("mount")
        .args(["--bind"])
        .args([home.join("out"), home.join("out")])
        .status()
        .unwrap();
    assert!(bound.success());
    let error = sink.commit(&slot, &request, &ADOPT).unwrap_err();
    let unbound = std::process::Command::new("umount").arg(home.join("out")).status().unwrap();
    assert!(unbound.success());
    assert_eq!(error.kind, ErrorKind::Unsupported, "{error}");
    assert!(sink.read(&slot).unwrap().unwrap().publication.is_none());
    fs::remove_dir(home.join("out")).unwrap();
    assert_eq!(sink.commit(&slot, &request, &STRICT).unwrap(), CommitAnswer::Committed);
}

#[test]
fn a_link_that_took_the_targets_place_is_drift() {
    let home = Home::new();
    let sink = home.directories();
    let slot = home.slot(&sink, "out/");
    home.publish(&sink, &slot, 1, &ONE);
    fs::rename(home.join("out"), home.join("away")).unwrap();
    symlink("away", home.join("out")).unwrap();
    let head = sink.read(&slot).unwrap();
    assert!(matches!(sink.condition(&slot, head.as_ref()).unwrap(), Condition::Drifted(_)));
}
