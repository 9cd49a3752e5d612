//! What stands at a slot, and what a commit may replace (13.2).

use super::tools::{Attempt, STRICT, committed, head, publish};
use super::{SinkFactory, SinkUnderTest};
use refrain_core::{
    Adopt, CommitAnswer, CommitOptions, CommitRequest, Condition, ErrorKind, Generation, Sink, SlotAddress,
};

pub(super) fn what_was_published_stands_intact(factory: &dyn SinkFactory) {
    let home = factory.make();
    let (sink, slot) = (home.open(), home.slot("one"));
    assert_eq!(condition(&*sink, &slot), Condition::Absent);
    sink.preflight(&slot, home.manner(&slot).as_deref(), Adopt::Never).unwrap();
    let request = Attempt::new(1, 1, &[&slot]).prepare(&*home, &*sink, &slot, "delays");
    assert_eq!(condition(&*sink, &slot), Condition::Absent, "a claim publishes nothing");
    committed(&*sink, &slot, &request);
    assert_eq!(condition(&*sink, &slot), Condition::Intact);
    publish(&*home, &slot, 2, "delays");
    assert_eq!(condition(&*home.open(), &slot), Condition::Intact);
    sink.preflight(&slot, home.manner(&slot).as_deref(), Adopt::Never).unwrap();
}

pub(super) fn what_somebody_else_put_there_is_foreign_and_kept_on_adoption(factory: &dyn SinkFactory) {
    let home = factory.make();
    let (sink, slot) = (home.open(), home.slot("one"));
    if !home.overwrite(&slot, Some("theirs")) {
        return;
    }
    let before = condition(&*sink, &slot);
    assert!(matches!(before, Condition::Foreign(_)), "{before:?}");
    sink.preflight(&slot, home.manner(&slot).as_deref(), Adopt::Never).expect_err("a target that we did not publish");
    let possible = sink.preflight(&slot, home.manner(&slot).as_deref(), Adopt::Foreign);
    let attempt = Attempt::new(1, 1, &[&slot]);
    let request = attempt.prepare(&*home, &*sink, &slot, "ours");
    conflicts(&*home, &*sink, &slot, &request, "theirs");
    let adopt = CommitOptions { adopt: Adopt::Foreign, overwrite_drift: false };
    if let Err(error) = possible {
        // A place where it cannot be taken over in one step: said before the task starts, and then kept.
        assert!(matches!(error.kind, ErrorKind::Refused | ErrorKind::Unsupported), "{error:?}");
        sink.commit(&slot, &request, &adopt).expect_err("what is not possible");
        assert_eq!(home.visible(&slot).as_deref(), Some("theirs"));
        return;
    }
    assert_eq!(sink.commit(&slot, &request, &adopt).unwrap(), CommitAnswer::Committed);
    assert_eq!(home.visible(&slot).as_deref(), Some("ours"));
    if sink.capabilities().rollback {
        let versions = sink.versions(&slot).unwrap();
        let kept: Vec<_> = versions.iter().map(|version| (version.generation.get(), version.current)).collect();
        assert_eq!(kept, [(1, true), (0, false)], "kept as version 0");
        let staging =
            sink.stage(&slot, home.manner(&slot).as_deref(), &Attempt::new(2, 2, &[&slot]).staging_id()).unwrap();
        sink.restore(&slot, Generation::default(), &staging.place).unwrap();
    }
}

pub(super) fn what_was_changed_by_hand_has_drifted(factory: &dyn SinkFactory) {
    let home = factory.make();
    let (sink, slot) = (home.open(), home.slot("one"));
    publish(&*home, &slot, 1, "ours");
    if !home.overwrite(&slot, Some("by hand")) {
        return;
    }
    let after = condition(&*sink, &slot);
    assert!(matches!(after, Condition::Drifted(_)), "{after:?}");
    let request = Attempt::new(2, 2, &[&slot]).prepare(&*home, &*sink, &slot, "new");
    conflicts(&*home, &*sink, &slot, &request, "by hand");
    let overwrite = CommitOptions { adopt: Adopt::Never, overwrite_drift: true };
    assert_eq!(sink.commit(&slot, &request, &overwrite).unwrap(), CommitAnswer::Committed);
    assert_eq!(home.visible(&slot).as_deref(), Some("new"));
    assert_eq!(condition(&*sink, &slot), Condition::Intact);
}

pub(super) fn what_was_removed_by_hand_is_missing_and_published_again(factory: &dyn SinkFactory) {
    let home = factory.make();
    let (sink, slot) = (home.open(), home.slot("one"));
    publish(&*home, &slot, 1, "ours");
    if !home.overwrite(&slot, None) {
        return;
    }
    assert_eq!(condition(&*sink, &slot), Condition::Missing);
    publish(&*home, &slot, 2, "again");
    assert_eq!(condition(&*sink, &slot), Condition::Intact);
}

fn condition(sink: &dyn Sink, slot: &SlotAddress) -> Condition {
    let head = sink.read(slot).unwrap();
    sink.condition(slot, head.as_ref()).unwrap()
}

/// A commit without the permission fails as a conflict, and everything is as before, so that it may be repeated.
fn conflicts(home: &dyn SinkUnderTest, sink: &dyn Sink, slot: &SlotAddress, request: &CommitRequest, stands: &str) {
    let before = head(sink, slot);
    let error = sink.commit(slot, request, &STRICT).expect_err("a conflict");
    assert_eq!(error.kind, ErrorKind::Conflict, "{error:?}");
    assert_eq!(home.visible(slot).as_deref(), Some(stands), "nothing was replaced");
    assert_eq!(head(sink, slot), before);
}
