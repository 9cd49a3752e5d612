//! K2: the claim (2, 4.1, 8.2).

use super::SinkFactory;
use super::tools::{Attempt, STORE, head, publish};
use refrain_core::{ClaimAnswer, ClaimRefusal, ClaimRequest, Condition, Generation, Holder, Key, StoreId};
use std::collections::BTreeSet;
use uuid::Uuid;

pub(super) fn a_sink_keeps_the_protocol_and_says_where_readers_find_a_slot(factory: &dyn SinkFactory) {
    let home = factory.make();
    let sink = home.open();
    let capabilities = sink.capabilities();
    assert!(capabilities.conditional, "without a conditional commit nothing is safe to repeat");
    assert!(capabilities.claims, "a sink that never claims is not supported (6.4)");
    let (one, other) = (home.slot("one"), home.slot("other"));
    assert_eq!(one.sink, capabilities.sink);
    assert_ne!(one, other);
    assert_eq!(one, home.slot("one"));
    assert!(!sink.location(&one).is_empty());
    assert_ne!(sink.location(&one), sink.location(&other));
    assert_eq!(sink.read(&one).unwrap(), None, "nothing was claimed");
}

pub(super) fn a_first_claim_makes_the_head(factory: &dyn SinkFactory) {
    let home = factory.make();
    let (sink, slot) = (home.open(), home.slot("one"));
    let attempt = Attempt::new(1, 1, &[&slot]);
    let request = attempt.claim_request();
    let ClaimAnswer::Claimed(claimed) = sink.claim(&slot, &request).unwrap() else {
        panic!("nobody else wants the slot");
    };
    assert_eq!((claimed.slot_id, claimed.version), (request.fresh_slot_id, request.fresh_version));
    assert_eq!(claimed.owner, attempt.owner);
    assert_eq!(claimed.claim.as_ref().unwrap().holder, attempt.holder);
    assert_eq!((&claimed.publication, claimed.history.len()), (&None, 0));
    assert_eq!(head(&*home.open(), &slot), claimed, "for everybody");
    assert_eq!(home.visible(&slot), None, "a claim shows readers nothing");
}

pub(super) fn a_repeated_claim_is_not_fenced_by_itself(factory: &dyn SinkFactory) {
    let home = factory.make();
    let (sink, slot) = (home.open(), home.slot("one"));
    let attempt = Attempt::new(1, 1, &[&slot]);
    let first = attempt.claim(&*sink, &slot);
    assert_eq!(attempt.claim(&*home.open(), &slot), first, "4.1b: nothing changes, not even the version");
    assert_eq!(head(&*sink, &slot), first);
}

pub(super) fn a_later_claim_fences_the_earlier_attempt(factory: &dyn SinkFactory) {
    let home = factory.make();
    let (sink, slot) = (home.open(), home.slot("one"));
    let [first, second] = [1, 2].map(|token| Attempt::new(token, 1, &[&slot]));
    let before = first.claim(&*sink, &slot);
    let after = second.claim(&*sink, &slot);
    assert_ne!(after.version, before.version, "2.3");
    assert_eq!(after.slot_id, before.slot_id, "2.2");
    let answer = sink.claim(&slot, &first.claim_request()).unwrap();
    assert_eq!(answer, ClaimAnswer::Fenced(after.clone()));
    assert_eq!(head(&*sink, &slot), after);
}

pub(super) fn an_equal_token_of_another_attempt_is_fenced(factory: &dyn SinkFactory) {
    let home = factory.make();
    let (sink, slot) = (home.open(), home.slot("one"));
    let [first, second] = [7, 7].map(|token| Attempt::new(token, 1, &[&slot]));
    let standing = first.claim(&*sink, &slot);
    // The store went back: only a token above the floor gets on (4.3).
    assert_eq!(sink.claim(&slot, &second.claim_request()).unwrap(), ClaimAnswer::Fenced(standing));
}

pub(super) fn a_slot_of_another_owner_is_refused_until_taken_over(factory: &dyn SinkFactory) {
    let home = factory.make();
    let slot = home.slot("one");
    publish(&*home, &slot, 1, "ours");
    let sink = home.open();
    let standing = head(&*sink, &slot);
    for owner in [("weekly", "2025-03-24"), ("daily", "2025-03-25")] {
        let owner = Key { task: owner.0.parse().unwrap(), partition: owner.1.to_owned() };
        let thief = Attempt { owner, ..Attempt::new(100, 1, &[&slot]) };
        let answer = sink.claim(&slot, &thief.claim_request()).unwrap();
        assert_eq!(answer, ClaimAnswer::Refused(standing.clone(), ClaimRefusal::Owner));
    }
    let heir = Attempt {
        owner: Key { task: "heir".parse().unwrap(), partition: String::new() },
        ..Attempt::new(100, 1, &[&slot])
    };
    let request = ClaimRequest { take_over: true, ..heir.claim_request() };
    let ClaimAnswer::Claimed(taken) = sink.claim(&slot, &request).unwrap() else {
        panic!("a person said that it may be taken over");
    };
    assert_eq!((&taken.owner, &taken.publication), (&heir.owner, &None), "the former owner's run is not the heir's");
    assert_ne!(taken.version, standing.version, "the former owner is fenced");
    assert_eq!(home.visible(&slot).as_deref(), Some("ours"), "readers notice nothing");
    let seen = taken.as_seen();
    assert_eq!((&seen.owner, &seen.publication), (&standing.owner, &standing.publication));
    assert_eq!(sink.condition(&slot, Some(&seen)).unwrap(), Condition::Intact);
    let current: Vec<_> = sink.versions(&slot).unwrap().into_iter().filter(|version| version.current).collect();
    assert_eq!(current.iter().map(|version| version.generation.get()).collect::<Vec<_>>(), [1]);
    if sink.capabilities().rollback {
        let staging = sink.stage(&slot, home.manner(&slot).as_deref(), &heir.staging_id()).unwrap();
        sink.restore(&slot, Generation::new(1), &staging.place).unwrap();
    }
}

pub(super) fn a_foreign_store_is_refused_and_a_successor_accepted(factory: &dyn SinkFactory) {
    let home = factory.make();
    let (sink, slot) = (home.open(), home.slot("one"));
    let ancestor = Attempt::new(9, 1, &[&slot]);
    let standing = ancestor.claim(&*sink, &slot);
    let other_store = StoreId::from_uuid(Uuid::from_u128(0x0001_e550));
    let mut successor = Attempt::new(1, 1, &[&slot]);
    successor.holder = Holder { store_id: other_store, ..successor.holder };
    let answer = sink.claim(&slot, &successor.claim_request()).unwrap();
    assert_eq!(answer, ClaimAnswer::Refused(standing, ClaimRefusal::ForeignStore), "whoever is there stays (8.2)");
    successor.ancestors = BTreeSet::from([STORE]);
    let standing = successor.claim(&*sink, &slot);
    // However high its token: the ancestor is over.
    let late = Attempt::new(1000, 1, &[&slot]);
    let answer = sink.claim(&slot, &late.claim_request()).unwrap();
    assert_eq!(answer, ClaimAnswer::Refused(standing, ClaimRefusal::ForeignStore));
}

pub(super) fn a_claim_carries_the_slots_of_the_former(factory: &dyn SinkFactory) {
    let home = factory.make();
    let (sink, slot) = (home.open(), home.slot("one"));
    let [old, new] = ["old", "new"].map(|name| home.slot(name));
    Attempt::new(1, 1, &[&slot, &old]).claim(&*sink, &slot);
    let head = Attempt::new(2, 1, &[&slot, &new]).claim(&*sink, &slot);
    assert_eq!(head.claim.unwrap().slots, BTreeSet::from([slot, old, new]), "4.1: the list only grows");
}

pub(super) fn slots_are_claimed_one_by_one(factory: &dyn SinkFactory) {
    let home = factory.make();
    let sink = home.open();
    let [one, other] = ["one", "other"].map(|name| home.slot(name));
    let [first, second] = [1, 2].map(|token| Attempt::new(token, 1, &[&one, &other]));
    second.claim(&*sink, &one);
    first.claim(&*sink, &other);
    assert_ne!(head(&*sink, &one).slot_id, head(&*sink, &other).slot_id);
}
