//! Staging and seal (5.7, 5.8, 7): where no reader looks, and what must be there before a commit.

use super::tools::{Attempt, committed, publish};
use super::{Content, SinkFactory, SinkUnderTest};
use refrain_core::{ErrorKind, Guards, Result, SealedData, Sink, SlotAddress, Staged};

pub(super) fn staging_is_invisible_and_named(factory: &dyn SinkFactory) {
    let home = factory.make();
    let (sink, slot) = (home.open(), home.slot("one"));
    let attempt = Attempt::new(1, 1, &[&slot]);
    attempt.claim(&*sink, &slot);
    let staging = sink.stage(&slot, home.manner(&slot).as_deref(), &attempt.staging_id()).unwrap();
    assert_eq!((&staging.slot, &staging.id), (&slot, &attempt.staging_id()));
    home.write(&staging, Content::Text("secret"));
    let hidden = || {
        assert_eq!(home.visible(&slot), None);
        assert_eq!(home.listed(), Vec::<String>::new(), "readers who list descend into everything");
        assert_eq!(owners(&*home.open()), [Some((slot.clone(), attempt.staging_id()))], "decided on by its name (7)");
    };
    hidden();
    sink.seal(staging, &Guards::default()).unwrap();
    hidden();
}

pub(super) fn attempts_stage_apart_and_are_discarded_apart(factory: &dyn SinkFactory) {
    let home = factory.make();
    let (sink, slot) = (home.open(), home.slot("one"));
    let [first, second] = [1, 2].map(|token| Attempt::new(token, 1, &[&slot]));
    first.prepare(&*home, &*sink, &slot, "first");
    let request = second.prepare(&*home, &*sink, &slot, "second");
    assert_eq!(owners(&*sink).len(), 2);
    let of = |attempt: &Attempt| -> Vec<Staged> {
        let is_its = |staged: &Staged| staged.owner.as_ref().is_some_and(|(_, id)| id.holder == attempt.holder);
        sink.staged().unwrap().into_iter().filter(is_its).collect()
    };
    for staged in of(&first) {
        sink.discard(&staged).unwrap();
        sink.discard(&staged).expect("what is gone may be discarded again: a killed gc repeats it");
    }
    assert_eq!((of(&first).len(), of(&second).len()), (0, 1));
    committed(&*sink, &slot, &request);
    assert_eq!(home.visible(&slot).as_deref(), Some("second"));
}

pub(super) fn a_seal_says_what_was_written(factory: &dyn SinkFactory) {
    let home = factory.make();
    let (sink, slot) = (home.open(), home.slot("one"));
    let seal = |token, text: &str| Attempt::new(token, 1, &[&slot]).seal(&*home, &*sink, &slot, text);
    let [one, same, other] = [seal(1, "delays"), seal(2, "delays"), seal(3, "detays")];
    assert_eq!(one.slot, slot);
    assert!(one.bytes >= 6 && one.files >= 1, "{one:?}");
    assert!(one.digest.starts_with("blake3:"), "{one:?}");
    assert_eq!((&one.digest, one.bytes, one.files), (&same.digest, same.bytes, same.files), "by content alone");
    assert_ne!(one.digest, other.digest);
    assert_ne!(one.staged, same.staged);
    assert_ne!(one.identity, same.identity, "equal bytes of two attempts are told apart (9.5)");
}

pub(super) fn a_missing_output_fails_the_guard(factory: &dyn SinkFactory) {
    let home = factory.make();
    let (sink, slot) = (home.open(), home.slot("one"));
    publish(&*home, &slot, 1, "old");
    fails_the_guard(sealed(&*home, &*sink, &slot, Content::Nothing, &Guards::default()));
    assert_eq!(home.visible(&slot).as_deref(), Some("old"));
}

pub(super) fn an_empty_output_fails_the_guard_unless_allowed(factory: &dyn SinkFactory) {
    let home = factory.make();
    let (sink, slot) = (home.open(), home.slot("one"));
    fails_the_guard(sealed(&*home, &*sink, &slot, Content::Empty, &Guards::default()));
    let guards = Guards { allow_empty: true, ..Guards::default() };
    let data = sealed(&*home, &*sink, &slot, Content::Empty, &guards).unwrap();
    assert_eq!(data.bytes, 0);
}

pub(super) fn an_output_below_its_bounds_fails_the_guard(factory: &dyn SinkFactory) {
    let home = factory.make();
    let (sink, slot) = (home.open(), home.slot("one"));
    let seal = |guards: Guards| sealed(&*home, &*sink, &slot, Content::Text("delays"), &guards);
    let data = seal(Guards::default()).unwrap();
    seal(Guards { min_bytes: Some(data.bytes), min_files: Some(data.files), ..Guards::default() }).unwrap();
    fails_the_guard(seal(Guards { min_bytes: Some(data.bytes + 1), ..Guards::default() }));
    fails_the_guard(seal(Guards { min_files: Some(data.files + 1), ..Guards::default() }));
}

pub(super) fn after_a_commit_nothing_stays_staged(factory: &dyn SinkFactory) {
    let home = factory.make();
    let slot = home.slot("one");
    for generation in 1..=3 {
        publish(&*home, &slot, generation, &format!("output {generation}"));
        assert_eq!(owners(&*home.open()), [], "what is published is no staging, and what it replaced is none either");
    }
}

fn owners(sink: &dyn Sink) -> Vec<Option<(SlotAddress, refrain_core::StagingId)>> {
    sink.staged().unwrap().into_iter().map(|staged| staged.owner).collect()
}

/// A fresh attempt stages this content and seals it.
fn sealed(
    home: &dyn SinkUnderTest,
    sink: &dyn Sink,
    slot: &SlotAddress,
    content: Content<'_>,
    guards: &Guards,
) -> Result<SealedData> {
    let staging = sink.stage(slot, home.manner(slot).as_deref(), &Attempt::new(2, 2, &[slot]).staging_id())?;
    home.write(&staging, content);
    Ok(sink.seal(staging, guards)?.into_data().expect("what was sealed"))
}

fn fails_the_guard(result: Result<SealedData>) {
    let error = result.expect_err("a failed guard");
    assert_eq!(error.kind, ErrorKind::Guard, "{error:?}");
}
