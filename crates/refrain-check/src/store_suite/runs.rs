//! Runs: opened once, continued by every retry, replaced on purpose (3.4).

use super::StoreFactory;
use super::tools::{
    TTL_MS, attempt, finish, granted, key, lease, opened, opened_after, proposal, published, request_over, run_id, seen,
};
use refrain_core::{AttemptFilter, AttemptRecord, Generation, Holder, OpenRun, Shown, Token, Want};

pub(super) fn open_run_is_for_the_holder_only(factory: &dyn StoreFactory) {
    let home = factory.make();
    let store = home.open();
    let first = lease(&*store, &key("a"), 1);
    home.advance(TTL_MS);
    let second = lease(&*store, &key("a"), 2);
    let refused = |holder: &Holder| {
        let answer = store.open_run(&key("a"), holder, Want::Continue, Some(&seen(5, 5)), Some(&proposal(1))).unwrap();
        assert_eq!(answer, None, "{holder:?}");
    };
    refused(&first);
    finish(&*store, &key("a"), &second);
    refused(&second);
    assert_eq!(store.key(&key("a")).unwrap().unwrap().run, None, "nothing was changed for them");
    assert_eq!(store.open_run(&key("unknown"), &first, Want::Continue, None, Some(&proposal(1))).unwrap(), None);
}

pub(super) fn open_run_asks_for_a_proposal_and_opens_the_first_generation(factory: &dyn StoreFactory) {
    let home = factory.make();
    let store = home.open();
    let holder = lease(&*store, &key("a"), 1);
    let asked = store.open_run(&key("a"), &holder, Want::Continue, None, None).unwrap();
    assert_eq!(asked, Some(OpenRun::Propose(Generation::new(1))));
    assert_eq!(store.key(&key("a")).unwrap().unwrap().run, None);
    let run = opened(&*store, &key("a"), &holder, Want::Continue, 1);
    assert_eq!((run.generation, run.run_id), (Generation::new(1), run_id(1)));
    assert_eq!((run.inputs.clone(), run.outputs.clone()), (proposal(1).inputs, proposal(1).outputs));
    assert_eq!(home.open().key(&key("a")).unwrap().unwrap().run, Some(run));
}

pub(super) fn ledg_10_a_retry_gets_the_same_run_and_pins(factory: &dyn StoreFactory) {
    let home = factory.make();
    let store = home.open();
    let first = lease(&*store, &key("a"), 1);
    let run = opened(&*store, &key("a"), &first, Want::Continue, 1);
    let again = opened(&*store, &key("a"), &first, Want::Continue, 2);
    assert_eq!(again, run, "a lost answer");
    let dead = store.key(&key("a")).unwrap().unwrap().lease.unwrap();
    let store = home.open();
    let retry = granted(&*store, &key("a"), &request_over(2, &dead));
    assert_eq!(retry.run.as_ref(), Some(&run), "told with the lease already: its slots are claimed (5.1)");
    let second = super::tools::holder(&*store, retry.token, 2);
    assert_eq!(opened(&*store, &key("a"), &second, Want::Continue, 2), run, "newer input is not for this run");
    finish(&*store, &key("a"), &second);
    let third = lease(&*store, &key("a"), 3);
    assert_eq!(opened(&*store, &key("a"), &third, Want::Continue, 3), run, "also after an end");
}

pub(super) fn a_rerun_opens_the_next_generation(factory: &dyn StoreFactory) {
    let home = factory.make();
    let store = home.open();
    let holder = lease(&*store, &key("a"), 1);
    let first = opened(&*store, &key("a"), &holder, Want::Continue, 1);
    let want = Want::Rerun { from: first.generation };
    let asked = store.open_run(&key("a"), &holder, want, None, None).unwrap();
    assert_eq!(asked, Some(OpenRun::Propose(Generation::new(2))));
    let second = opened(&*store, &key("a"), &holder, want, 2);
    assert_eq!((second.generation, second.run_id), (Generation::new(2), run_id(2)));
}

pub(super) fn wish_a_repeated_rerun_opens_one_run(factory: &dyn StoreFactory) {
    let home = factory.make();
    let store = home.open();
    let holder = lease(&*store, &key("a"), 1);
    let first = opened(&*store, &key("a"), &holder, Want::Continue, 1);
    let want = Want::Rerun { from: first.generation };
    let second = opened(&*store, &key("a"), &holder, want, 2);
    assert_eq!(opened(&*store, &key("a"), &holder, want, 3), second, "a lost answer");
    finish(&*store, &key("a"), &holder);
    let other = lease(&*home.open(), &key("a"), 2);
    assert_eq!(opened(&*store, &key("a"), &other, want, 4), second, "a restarted scheduler");
    let never = Want::Rerun { from: Generation::new(9) };
    assert_eq!(opened(&*store, &key("a"), &other, never, 5), second, "a wish for what is not there");
}

pub(super) fn a_run_seen_at_the_sink_outranks_the_store(factory: &dyn StoreFactory) {
    let home = factory.make();
    let store = home.open();
    let holder = lease(&*store, &key("a"), 1);
    // The store knows nothing: it was lost.
    let third = seen(3, 3);
    assert_eq!(opened_after(&*store, &key("a"), &holder, Want::Continue, Some(&third), 1), third);
    // The store knows less.
    let fifth = seen(5, 5);
    let answer = store.open_run(&key("a"), &holder, Want::Continue, Some(&fifth), None).unwrap();
    assert_eq!(answer, Some(OpenRun::Run(fifth)));
    // The store knows another run of the same generation.
    let other_fifth = seen(5, 55);
    assert_eq!(opened_after(&*store, &key("a"), &holder, Want::Continue, Some(&other_fifth), 1), other_fifth);
    let known = home.open().key(&key("a")).unwrap().unwrap().run;
    assert_eq!(known, Some(other_fifth), "remembered for those who see nothing");
}

pub(super) fn what_heads_show_is_learned_once_and_never_over_a_lease_or_a_later_run(factory: &dyn StoreFactory) {
    let home = factory.make();
    let store = home.open();
    let both = [shown("a", 3, 3), shown("b", 1, 4)];
    assert_eq!(store.learn(&both).unwrap(), 2);
    assert_eq!(home.open().learn(&both).unwrap(), 0, "repeating it changes nothing");
    let state = home.open().key(&key("a")).unwrap().unwrap();
    assert_eq!((state.run.as_ref(), &state.lease), (Some(&both[0].run), &None));
    assert_eq!(state.last_attempt.as_ref(), Some(&both[0].attempt));
    assert_eq!(store.attempts(&AttemptFilter::default()).unwrap().len(), 2);
    // It is the run that the next attempt works for.
    let holder = lease(&*store, &key("a"), 9);
    assert_eq!(opened(&*store, &key("a"), &holder, Want::Continue, 9), both[0].run);
    assert_eq!(store.learn(&[shown("a", 5, 5)]).unwrap(), 0, "its holder sees the head itself");
    finish(&*store, &key("a"), &holder);
    assert_eq!(store.learn(&[shown("a", 2, 6)]).unwrap(), 0, "older than what is known");
    assert_eq!(store.learn(&[shown("a", 5, 5)]).unwrap(), 1);
    assert_eq!(store.key(&key("a")).unwrap().unwrap().last_attempt, Some(shown("a", 5, 5).attempt));
}

fn shown(partition: &str, generation: u64, number: u128) -> Shown {
    let run = seen(generation, number);
    let attempt = AttemptRecord {
        attempt: attempt(number),
        key: key(partition),
        token: Token::new(7),
        run: Some(run.run_id),
        generation: Some(run.generation),
        process: "{}".to_owned(),
        started_at: jiff::Timestamp::UNIX_EPOCH,
        ending: Some(published()),
    };
    Shown { run, attempt }
}

pub(super) fn a_run_seen_at_the_sink_that_is_older_changes_nothing(factory: &dyn StoreFactory) {
    let home = factory.make();
    let store = home.open();
    let holder = lease(&*store, &key("a"), 1);
    let first = opened(&*store, &key("a"), &holder, Want::Continue, 1);
    let second = opened(&*store, &key("a"), &holder, Want::Rerun { from: first.generation }, 2);
    assert_eq!(opened_after(&*store, &key("a"), &holder, Want::Continue, Some(&first), 3), second);
    assert_eq!(opened_after(&*store, &key("a"), &holder, Want::Continue, Some(&second), 3), second);
}

pub(super) fn a_rerun_counts_from_what_was_seen(factory: &dyn StoreFactory) {
    let home = factory.make();
    let store = home.open();
    let holder = lease(&*store, &key("a"), 1);
    let want = Want::Rerun { from: Generation::new(7) };
    let asked = store.open_run(&key("a"), &holder, want, Some(&seen(7, 7)), None).unwrap();
    assert_eq!(asked, Some(OpenRun::Propose(Generation::new(8))));
    let run = opened_after(&*store, &key("a"), &holder, want, Some(&seen(7, 7)), 1);
    assert_eq!((run.generation, run.run_id), (Generation::new(8), run_id(1)));
}
