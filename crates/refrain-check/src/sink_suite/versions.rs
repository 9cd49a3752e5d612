//! Kept versions: listed, published again, trimmed (7.4). A sink that cannot roll back says so.

use super::tools::{Attempt, committed, publish};
use super::{SinkFactory, SinkUnderTest};
use jiff::{SignedDuration, Timestamp};
use refrain_core::{ErrorKind, Generation, Guards, Keep, Sink, SlotAddress, Version};
use std::time::Duration;

/// No generation.
const NONE: [u64; 0] = [];

pub(super) fn replaced_versions_are_listed_newest_first(factory: &dyn SinkFactory) {
    let home = factory.make();
    let slot = home.slot("one");
    assert_eq!(list(&*home.open(), &slot), []);
    publish_three(&*home, &slot);
    let sink = home.open();
    if !sink.capabilities().rollback {
        assert_eq!(list(&*sink, &slot), [(3, true)], "the published one is a version in any case");
        return;
    }
    assert_eq!(list(&*sink, &slot), [(3, true), (2, false), (1, false)]);
    for version in sink.versions(&slot).unwrap() {
        assert!(!version.locations.is_empty(), "{version:?}");
        assert_eq!(version.replaced_at.is_none(), version.current, "{version:?}");
    }
}

pub(super) fn a_kept_version_is_published_again(factory: &dyn SinkFactory) {
    let home = factory.make();
    let (sink, slot) = (home.open(), home.slot("one"));
    publish_three(&*home, &slot);
    for (generation, restored) in [(4, 1), (5, 3), (6, 5)] {
        let attempt = Attempt::new(generation, generation, &[&slot]);
        let head = attempt.claim(&*sink, &slot);
        let staging = sink.stage(&slot, home.manner(&slot).as_deref(), &attempt.staging_id()).unwrap();
        let answer = sink.restore(&slot, Generation::new(restored), &staging.place);
        if !sink.capabilities().rollback {
            assert_eq!(answer.expect_err("no rollback").kind, ErrorKind::Unsupported);
            return;
        }
        answer.unwrap();
        let data = sink.seal(staging, &Guards::default()).unwrap().into_data().expect("what was sealed");
        committed(&*sink, &slot, &attempt.commit_request(head.version, vec![data]));
        let expected = if restored == 1 { "output 1" } else { "output 3" };
        assert_eq!(home.visible(&slot).as_deref(), Some(expected), "version {restored}");
    }
    let generations: Vec<_> = list(&*sink, &slot).into_iter().map(|(generation, _)| generation).collect();
    assert_eq!(generations, [6, 5, 4, 3, 2, 1], "publishing again is a new commit; what was kept is kept");
}

pub(super) fn a_version_that_is_not_kept_cannot_be_restored(factory: &dyn SinkFactory) {
    let home = factory.make();
    let (sink, slot) = (home.open(), home.slot("one"));
    publish_three(&*home, &slot);
    let staging = sink.stage(&slot, home.manner(&slot).as_deref(), &Attempt::new(4, 4, &[&slot]).staging_id()).unwrap();
    let error = sink.restore(&slot, Generation::new(9), &staging.place).expect_err("no such version");
    let expected = if sink.capabilities().rollback { ErrorKind::Invalid } else { ErrorKind::Unsupported };
    assert_eq!(error.kind, expected, "{error:?}");
}

pub(super) fn trimming_keeps_the_newest_the_recent_and_the_published(factory: &dyn SinkFactory) {
    let home = factory.make();
    let (sink, slot) = (home.open(), home.slot("one"));
    publish_three(&*home, &slot);
    if !sink.capabilities().rollback {
        let keep = Keep { versions: 0, grace: Duration::ZERO };
        assert_eq!(sink.trim(&slot, &keep, long_after(), false).unwrap(), [], "nothing is kept");
        return;
    }
    let trim = |versions, grace, now, dry_run| {
        let removed = sink.trim(&slot, &Keep { versions, grace }, now, dry_run).unwrap();
        removed.iter().map(|version: &Version| version.generation.get()).collect::<Vec<_>>()
    };
    let hour = Duration::from_hours(1);
    assert_eq!(trim(2, hour, long_after(), false), NONE, "so many are kept");
    assert_eq!(trim(0, hour, Timestamp::UNIX_EPOCH, false), NONE, "readers may still have them open");
    assert_eq!(trim(1, hour, long_after(), true), [1], "a dry run");
    assert_eq!(list(&*sink, &slot), [(3, true), (2, false), (1, false)], "removes nothing");
    assert_eq!(trim(1, hour, long_after(), false), [1]);
    assert_eq!(list(&*sink, &slot), [(3, true), (2, false)]);
    assert_eq!(trim(0, Duration::ZERO, long_after(), false), [2]);
    assert_eq!(list(&*sink, &slot), [(3, true)], "never the published one");
    assert_eq!(trim(0, Duration::ZERO, long_after(), false), NONE);
    assert_eq!(home.visible(&slot).as_deref(), Some("output 3"));
}

fn publish_three(home: &dyn SinkUnderTest, slot: &SlotAddress) {
    for generation in 1..=3 {
        publish(home, slot, generation, &format!("output {generation}"));
    }
}

fn list(sink: &dyn Sink, slot: &SlotAddress) -> Vec<(u64, bool)> {
    sink.versions(slot).unwrap().iter().map(|version| (version.generation.get(), version.current)).collect()
}

/// Later than any version of a test was replaced.
fn long_after() -> Timestamp {
    Timestamp::MAX.checked_sub(SignedDuration::from_hours(1)).expect("a moment before the end of time")
}
