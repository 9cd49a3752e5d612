//! The sink's part of the protocol on files and directories: claims, commits, and every death in between.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod support;

use refrain_core::{ClaimAnswer, CommitAnswer, Condition, CrashPoint, Sink, SlotAddress};
use refrain_sink::{LocalKind, LocalSink};
use support::{Content, Home, STRICT, commit_and_die, tree};

/// The points inside a commit.
const POINTS: [CrashPoint; 5] = [
    CrashPoint::BeforeIntent,
    CrashPoint::AfterIntent,
    CrashPoint::AfterRename,
    CrashPoint::BeforeRecord,
    CrashPoint::AfterRecord,
];

const OLD_TREE: Content<'_> = Content::Tree(&[("a", "old"), ("sub/b", "old")]);
const NEW_TREE: Content<'_> = Content::Tree(&[("a", "new")]);

fn content(kind: LocalKind, new: bool) -> Content<'static> {
    match (kind, new) {
        (LocalKind::File, false) => Content::File("old"),
        (LocalKind::File, true) => Content::File("new"),
        (LocalKind::Directory, false) => OLD_TREE,
        (LocalKind::Directory, true) => NEW_TREE,
    }
}

fn spec(kind: LocalKind) -> &'static str {
    match kind {
        LocalKind::File => "out/x.csv",
        LocalKind::Directory => "out/x/",
    }
}

fn shows(home: &Home, kind: LocalKind, new: bool) -> bool {
    match kind {
        LocalKind::File => std::fs::read_to_string(home.join("out/x.csv")).unwrap() == if new { "new" } else { "old" },
        LocalKind::Directory => tree(&home.join("out/x")).len() == if new { 1 } else { 2 },
    }
}

fn setup(kind: LocalKind) -> (Home, LocalSink, SlotAddress) {
    let home = Home::new();
    let sink = home.sink(kind);
    let slot = home.slot(&sink, spec(kind));
    (home, sink, slot)
}

#[test]
fn first_and_second_publication_are_whole_and_leave_nothing_behind() {
    for kind in [LocalKind::File, LocalKind::Directory] {
        let (home, sink, slot) = setup(kind);
        sink.preflight(&slot, None, refrain_core::Adopt::Never).unwrap();
        home.publish(&sink, &slot, 1, &content(kind, false));
        assert!(shows(&home, kind, false));
        let second = home.publish(&sink, &slot, 2, &content(kind, true));
        assert!(shows(&home, kind, true));
        let head = sink.read(&slot).unwrap().unwrap();
        assert!(head.shows(second.holder.attempt));
        assert_eq!(sink.condition(&slot, Some(&head)).unwrap(), Condition::Intact);
        assert_eq!(home.leftovers(), Vec::<String>::new());
        let versions = sink.versions(&slot).unwrap();
        assert_eq!(versions.iter().map(|it| it.generation.get()).collect::<Vec<_>>(), [2, 1]);
        assert!(versions[0].current && !versions[1].current);
    }
}

#[test]
fn dir_01_fs_01_death_at_every_point_leaves_old_or_new_and_the_next_claim_settles_it() {
    for kind in [LocalKind::File, LocalKind::Directory] {
        for existing in [false, true] {
            for point in POINTS {
                let (home, sink, slot) = setup(kind);
                if existing {
                    home.publish(&sink, &slot, 1, &content(kind, false));
                }
                let dead = home.attempt(2, std::slice::from_ref(&slot));
                let request = dead.prepare(&sink, &slot, &content(kind, true));
                commit_and_die(&home, kind, point, &slot, &request);
                let decided = point != CrashPoint::BeforeIntent;
                let visible = decided && point != CrashPoint::AfterIntent;
                let context = format!("{kind:?} existing={existing} {point}");
                if existing {
                    assert!(shows(&home, kind, visible), "{context}");
                } else {
                    assert_eq!(sink.target(&slot).unwrap().exists(), visible, "{context}");
                }
                let seen = sink.read(&slot).unwrap().unwrap();
                assert_eq!(seen.shows(dead.holder.attempt), visible, "{context}");

                let next = home.attempt(2, std::slice::from_ref(&slot));
                let head = next.claim(&sink, &slot);
                assert_eq!(head.shows(dead.holder.attempt), decided, "{context}");
                if decided {
                    assert!(shows(&home, kind, true), "{context}");
                    assert_eq!(sink.condition(&slot, Some(&head)).unwrap(), Condition::Intact, "{context}");
                    assert_eq!(home.leftovers(), Vec::<String>::new(), "{context}");
                    assert_eq!(sink.versions(&slot).unwrap().len(), 1 + usize::from(existing), "{context}");
                } else {
                    // 4.5, 5.11: the dead one's commit, should it still arrive, is refused.
                    assert_eq!(sink.commit(&slot, &request, &STRICT).unwrap(), CommitAnswer::Rejected);
                    assert_eq!(home.leftovers().len(), 2, "{context}");
                }
            }
        }
    }
}

#[test]
fn the_identical_commit_sent_again_is_answered_the_same() {
    for kind in [LocalKind::File, LocalKind::Directory] {
        for point in POINTS {
            let (home, sink, slot) = setup(kind);
            home.publish(&sink, &slot, 1, &content(kind, false));
            let attempt = home.attempt(2, std::slice::from_ref(&slot));
            let request = attempt.prepare(&sink, &slot, &content(kind, true));
            commit_and_die(&home, kind, point, &slot, &request);
            for _ in 0..3 {
                assert_eq!(sink.commit(&slot, &request, &STRICT).unwrap(), CommitAnswer::Committed, "{point}");
                assert!(shows(&home, kind, true), "{point}: a second exchange undoes the first (9.5)");
            }
        }
    }
}

#[test]
fn a_later_claim_fences_the_earlier_and_not_itself() {
    let (home, sink, slot) = setup(LocalKind::File);
    let early = home.attempt(1, std::slice::from_ref(&slot));
    let request = early.prepare(&sink, &slot, &Content::File("early"));
    let late = home.attempt(1, std::slice::from_ref(&slot));
    let head = late.claim(&sink, &slot);
    assert_eq!(late.claim(&sink, &slot), head, "4.1b: a retried claim changes nothing");
    assert_eq!(sink.commit(&slot, &request, &STRICT).unwrap(), CommitAnswer::Rejected);
    assert!(matches!(sink.claim(&slot, &early.claim_request()).unwrap(), ClaimAnswer::Fenced(_)));
    assert!(!home.join("out/x.csv").exists());
}

#[test]
fn whoever_comes_next_rolls_the_other_slot_forward_with_the_same_data() {
    for kind in [LocalKind::File, LocalKind::Directory] {
        let (home, sink, anchor) = setup(kind);
        let second = home.slot(&sink, if kind == LocalKind::File { "out/y.csv" } else { "out/y/" });
        let slots = [anchor.clone(), second.clone()];
        let dead = home.attempt(1, &slots);
        let version = dead.claim(&sink, &anchor).version;
        dead.claim(&sink, &second);
        let data: Vec<_> = slots.iter().map(|slot| dead.seal(&sink, slot, &content(kind, true)).unwrap()).collect();
        let request = dead.request(version, data);
        assert_eq!(sink.commit(&anchor, &request, &STRICT).unwrap(), CommitAnswer::Committed);

        let next = home.attempt(1, &slots);
        let version = next.claim(&sink, &second).version;
        let mut forward = next.request(version, request.publication.data.clone());
        forward.publication = request.publication.clone();
        assert_eq!(sink.commit(&second, &forward, &STRICT).unwrap(), CommitAnswer::Committed);
        assert!(sink.read(&second).unwrap().unwrap().shows(dead.holder.attempt));
        assert!(sink.target(&second).unwrap().exists());
    }
}
