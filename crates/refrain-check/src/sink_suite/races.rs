//! Many at once: one wins, and readers see nothing between.

use super::SinkFactory;
use super::tools::{Attempt, STRICT, committed, head, publish};
use refrain_core::{ClaimAnswer, CommitAnswer};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex};

pub(super) fn of_many_that_claim_and_commit_at_once_one_publishes_and_stands_whole(factory: &dyn SinkFactory) {
    const THREADS: u64 = 16;
    let home = factory.make();
    let slot = home.slot("one");
    let (start, claimed) = (Barrier::new(16), Barrier::new(16));
    let winners = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for token in 1..=THREADS {
            let (home, slot, start, claimed, winners) = (&*home, &slot, &start, &claimed, &winners);
            scope.spawn(move || {
                let sink = home.open();
                let attempt = Attempt::new(token, 1, &[slot]);
                start.wait();
                let answer = sink.claim(slot, &attempt.claim_request()).unwrap();
                let version = match answer {
                    ClaimAnswer::Claimed(head) => Some(head.version),
                    ClaimAnswer::Fenced(_) => None,
                    ClaimAnswer::Refused(head, why) => panic!("{why:?}: {head:?}"),
                };
                let text = format!("output of token {token}");
                let data = version.map(|_| attempt.seal(home, &*sink, slot, &text));
                claimed.wait();
                let (Some(version), Some(data)) = (version, data) else { return };
                let request = attempt.commit_request(version, vec![data]);
                match sink.commit(slot, &request, &STRICT).unwrap() {
                    CommitAnswer::Committed => winners.lock().unwrap().push((attempt, text)),
                    CommitAnswer::Rejected => {}
                    CommitAnswer::DataLost => panic!("the data of token {token} is gone"),
                }
            });
        }
    });
    let winners = winners.into_inner().unwrap();
    let [(attempt, text)] = winners.as_slice() else { panic!("not one winner: {winners:?}") };
    assert_eq!(attempt.holder.token.get(), THREADS, "the latest claim fences all others");
    assert_eq!(home.visible(&slot).as_ref(), Some(text));
    assert!(head(&*home.open(), &slot).shows(attempt.holder.attempt));
    assert_eq!(home.listed(), std::slice::from_ref(text), "no loser published anything");
}

pub(super) fn the_identical_commit_sent_by_many_at_once_lands_once(factory: &dyn SinkFactory) {
    let home = factory.make();
    let slot = home.slot("one");
    publish(&*home, &slot, 1, "old");
    let sink = home.open();
    let request = Attempt::new(2, 2, &[&slot]).prepare(&*home, &*sink, &slot, "new");
    let start = Barrier::new(8);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let sink = home.open();
                start.wait();
                committed(&*sink, &slot, &request);
            });
        }
    });
    assert_eq!(home.visible(&slot).as_deref(), Some("new"));
    let head = head(&*sink, &slot);
    assert_eq!((head.version, head.history.len()), (request.fresh_version, 1), "landed once");
}

pub(super) fn readers_see_the_old_or_the_new_output_whole(factory: &dyn SinkFactory) {
    const GENERATIONS: u64 = 40;
    let home = factory.make();
    let slot = home.slot("one");
    let text = |generation: u64| format!("{generation} ").repeat(4096);
    publish(&*home, &slot, 1, &text(1));
    if !home.open().capabilities().atomic {
        return;
    }
    let done = AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut seen = BTreeSet::new();
            while !done.load(Ordering::Relaxed) {
                seen.insert(home.visible(&slot));
            }
            seen
        });
        for generation in 2..=GENERATIONS {
            publish(&*home, &slot, generation, &text(generation));
        }
        done.store(true, Ordering::Relaxed);
        reader.join().unwrap()
    });
    let whole: BTreeSet<_> = (1..=GENERATIONS).map(|generation| Some(text(generation))).collect();
    let odd = seen.difference(&whole).next();
    let odd = odd.map(|text| text.as_ref().map(|text| text.chars().take(60).collect::<String>()));
    assert_eq!(odd, None, "a reader saw what was never published");
}
