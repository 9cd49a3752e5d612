//! K3: the commit (4.2, 4.5, 5.5).

use super::SinkFactory;
use super::tools::{Attempt, STRICT, committed, fresh_version, head, publish, rejected};
use refrain_core::{CommitAnswer, CommitRequest, Former, Head, Sink, SlotAddress};
use std::collections::BTreeSet;

pub(super) fn a_commit_publishes_what_was_sealed(factory: &dyn SinkFactory) {
    let home = factory.make();
    let (sink, slot) = (home.open(), home.slot("one"));
    let attempt = Attempt::new(1, 1, &[&slot]);
    let request = attempt.prepare(&*home, &*sink, &slot, "delays");
    assert_eq!(home.visible(&slot), None);
    committed(&*sink, &slot, &request);
    assert_eq!(home.visible(&slot).as_deref(), Some("delays"));
    let head = head(&*home.open(), &slot);
    assert_eq!(head.version, request.fresh_version);
    assert!(head.shows(attempt.holder.attempt));
    assert_eq!(head.publication, Some(request.publication), "whole, for whoever rolls it forward");
    let claim = head.claim.unwrap();
    assert_eq!((claim.holder, claim.slots), (attempt.holder, BTreeSet::from([slot])));
    assert_eq!(head.history, []);
}

pub(super) fn the_identical_commit_may_be_sent_again(factory: &dyn SinkFactory) {
    let home = factory.make();
    let (sink, slot) = (home.open(), home.slot("one"));
    let request = Attempt::new(1, 1, &[&slot]).prepare(&*home, &*sink, &slot, "delays");
    committed(&*sink, &slot, &request);
    let standing = head(&*sink, &slot);
    committed(&*sink, &slot, &request);
    committed(&*home.open(), &slot, &request);
    assert_eq!(head(&*sink, &slot), standing, "4.5: nothing changes");
    assert_eq!(home.visible(&slot).as_deref(), Some("delays"));
    assert_eq!(home.listed(), ["delays"]);
}

pub(super) fn lease_01_a_zombie_is_rejected_after_a_later_claim(factory: &dyn SinkFactory) {
    let home = factory.make();
    let (sink, slot) = (home.open(), home.slot("one"));
    let zombie = Attempt::new(1, 1, &[&slot]);
    let late = zombie.prepare(&*home, &*sink, &slot, "zombie");
    let other = home.open();
    let winner = Attempt::new(2, 1, &[&slot]);
    let request = winner.prepare(&*home, &*other, &slot, "winner");
    rejected(&*sink, &slot, &late);
    assert_eq!(home.visible(&slot), None, "already the claim fences");
    committed(&*other, &slot, &request);
    rejected(&*sink, &slot, &late);
    // Not even with a version that it must not have learned (4.4).
    rejected(&*sink, &slot, &CommitRequest { expected: head(&*sink, &slot).version, ..late.clone() });
    assert_eq!(home.visible(&slot).as_deref(), Some("winner"));
    assert!(head(&*sink, &slot).shows(winner.holder.attempt));
}

pub(super) fn a_commit_on_a_stale_version_is_rejected(factory: &dyn SinkFactory) {
    let home = factory.make();
    let (sink, slot) = (home.open(), home.slot("one"));
    let attempt = Attempt::new(1, 1, &[&slot]);
    let request = attempt.prepare(&*home, &*sink, &slot, "delays");
    let standing = head(&*sink, &slot);
    rejected(&*sink, &slot, &CommitRequest { expected: fresh_version(), ..request.clone() });
    assert_eq!(head(&*sink, &slot), standing);
    assert_eq!(home.visible(&slot), None);
    committed(&*sink, &slot, &request); // what was sealed is still there
}

pub(super) fn a_commit_without_a_claim_is_rejected(factory: &dyn SinkFactory) {
    let home = factory.make();
    let sink = home.open();
    let [slot, other] = ["one", "other"].map(|name| home.slot(name));
    let attempt = Attempt::new(1, 1, &[&slot, &other]);
    let claimed = attempt.claim(&*sink, &other);
    let data = attempt.seal(&*home, &*sink, &slot, "delays");
    rejected(&*sink, &slot, &attempt.commit_request(claimed.version, vec![data]));
    assert_eq!(home.visible(&slot), None);
    assert!(sink.read(&slot).unwrap().is_none_or(|head| head.publication.is_none()));
}

pub(super) fn a_later_generation_replaces_the_publication(factory: &dyn SinkFactory) {
    let home = factory.make();
    let (sink, slot) = (home.open(), home.slot("one"));
    let former: Vec<_> = (1..=10).map(|number| publish(&*home, &slot, number, &format!("output {number}"))).collect();
    assert_eq!(home.visible(&slot).as_deref(), Some("output 10"));
    let head = head(&*sink, &slot);
    assert!(head.shows(former[9].holder.attempt));
    let expected: Vec<_> = former[..9]
        .iter()
        .rev()
        .take(8)
        .map(|attempt| Former {
            generation: attempt.run.generation,
            run_id: attempt.run.run_id,
            attempt: attempt.holder.attempt,
            made_from: None,
        })
        .collect();
    assert_eq!(head.history, expected, "2.1: the last eight, newest first");
    assert_eq!(home.listed(), ["output 10"], "readers who list find no replaced version");
}

pub(super) fn a_resent_commit_after_a_later_publication_is_rejected(factory: &dyn SinkFactory) {
    let home = factory.make();
    let (sink, slot) = (home.open(), home.slot("one"));
    let request = Attempt::new(1, 1, &[&slot]).prepare(&*home, &*sink, &slot, "first");
    committed(&*sink, &slot, &request);
    publish(&*home, &slot, 2, "second");
    rejected(&*sink, &slot, &request);
    assert_eq!(home.visible(&slot).as_deref(), Some("second"));
}

pub(super) fn no_version_of_a_head_ever_repeats(factory: &dyn SinkFactory) {
    let home = factory.make();
    let (sink, slot) = (home.open(), home.slot("one"));
    let mut versions = BTreeSet::new();
    let mut slot_ids = BTreeSet::new();
    let mut see = |head: &Head| {
        assert!(versions.insert(head.version), "{:?} was there before", head.version);
        slot_ids.insert(head.slot_id);
        slot_ids.len()
    };
    for number in 1..=5 {
        let attempt = Attempt::new(number, number, &[&slot]);
        see(&attempt.claim(&*sink, &slot));
        // The same bytes each time: a version is no digest of the content.
        let request = attempt.prepare(&*home, &*sink, &slot, "the same");
        committed(&*sink, &slot, &request);
        assert_eq!(see(&head(&*sink, &slot)), 1, "one slot id");
    }
}

pub(super) fn a_decided_run_is_rolled_forward_by_another_holder(factory: &dyn SinkFactory) {
    let home = factory.make();
    let sink = home.open();
    let [anchor, second, third] = ["anchor", "second", "third"].map(|name| home.slot(name));
    let dead = Attempt::new(1, 1, &[&anchor, &second]);
    let expected = dead.claim(&*sink, &anchor).version;
    let late = dead.claim(&*sink, &second).version;
    let data = vec![dead.seal(&*home, &*sink, &anchor, "a1"), dead.seal(&*home, &*sink, &second, "b1")];
    committed(&*sink, &anchor, &dead.commit_request(expected, data.clone()));
    assert_eq!((home.visible(&anchor).as_deref(), home.visible(&second)), (Some("a1"), None));

    let other = home.open();
    let next = Attempt::new(2, 2, &[&anchor, &second, &third]);
    let decided = next.claim(&*other, &anchor).publication.expect("the decision, with all of its data (5.9)");
    let expected = next.claim(&*other, &second).version;
    rejected(&*sink, &second, &dead.commit_request(late, data));
    let forward = CommitRequest { publication: decided, ..next.commit_request(expected, Vec::new()) };
    committed(&*other, &second, &forward);
    assert_eq!(home.visible(&second).as_deref(), Some("b1"));
    let rolled = head(&*other, &second);
    assert!(rolled.shows(dead.holder.attempt), "it is the decided attempt's, whoever carried it");
    let claim = rolled.claim.unwrap();
    assert_eq!(claim.holder, next.holder);
    assert_eq!(claim.slots, BTreeSet::from([anchor.clone(), second.clone(), third.clone()]), "its own wish is kept");
    // And the one who rolled it forward goes on with its own run.
    let data = vec![next.seal(&*home, &*other, &anchor, "a2"), next.seal(&*home, &*other, &second, "b2")];
    for slot in [&anchor, &second] {
        let request = next.commit_request(head(&*other, slot).version, data.clone());
        committed(&*other, slot, &request);
    }
    assert_eq!((home.visible(&anchor).as_deref(), home.visible(&second).as_deref()), (Some("a2"), Some("b2")));
}

pub(super) fn a_commit_of_lost_data_says_so_and_changes_nothing(factory: &dyn SinkFactory) {
    let home = factory.make();
    let slot = home.slot("one");
    publish(&*home, &slot, 1, "old");
    let sink = home.open();
    let attempt = Attempt::new(2, 2, &[&slot]);
    let request = attempt.prepare(&*home, &*sink, &slot, "new");
    discard_all(&*sink, &slot);
    let standing = head(&*sink, &slot);
    assert_eq!(sink.commit(&slot, &request, &STRICT).unwrap(), CommitAnswer::DataLost);
    assert_eq!(head(&*sink, &slot), standing);
    assert_eq!(home.visible(&slot).as_deref(), Some("old"));
}

fn discard_all(sink: &dyn Sink, slot: &SlotAddress) {
    for staged in sink.staged().unwrap() {
        assert_eq!(staged.owner.as_ref().map(|(owner, _)| owner), Some(slot));
        sink.discard(&staged).unwrap();
    }
}
