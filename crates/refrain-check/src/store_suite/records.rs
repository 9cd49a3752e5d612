//! What the store remembers: attempts and their ends, keys, its own identity.

use super::StoreFactory;
use super::tools::{TTL_MS, attempt, ending, finish, holder, key, key_of, lease, opened, published, request, run_id};
use refrain_core::{
    AttemptFilter, AttemptId, AttemptRecord, Error, Holder, Key, Outcome, StateStore, Token, Want, Window,
};

pub(super) fn lease_07_finishing_twice_is_harmless_and_a_late_heartbeat_no_error(factory: &dyn StoreFactory) {
    let home = factory.make();
    let store = home.open();
    let first = lease(&*store, &key("a"), 1);
    finish(&*store, &key("a"), &first);
    finish(&*store, &key("a"), &first);
    assert!(!store.renew(&key("a"), &first, TTL_MS).unwrap(), "a late heartbeat is answered, not an error");
    let second = lease(&*store, &key("a"), 2);
    finish(&*store, &key("a"), &first);
    assert!(store.renew(&key("a"), &second, TTL_MS).unwrap(), "not even late does the first end the second's lease");
    assert_eq!(record(&*store, 1).ending, Some(published()));
    assert_eq!(record(&*store, 2).ending, None);
}

pub(super) fn an_ending_is_recorded_also_for_who_lost_the_lease(factory: &dyn StoreFactory) {
    let home = factory.make();
    let store = home.open();
    let first = lease(&*store, &key("a"), 1);
    home.advance(TTL_MS);
    let second = lease(&*store, &key("a"), 2);
    let fenced = ending(Outcome::Fenced, Window::NothingPublished);
    store.finish(&key("a"), &first, &fenced).unwrap();
    assert_eq!(record(&*store, 1).ending, Some(fenced));
    assert!(store.renew(&key("a"), &second, TTL_MS).unwrap());
}

pub(super) fn an_unknown_end_is_settled_once(factory: &dyn StoreFactory) {
    let home = factory.make();
    let store = home.open();
    let unfinished = || store.attempts(&AttemptFilter { unfinished: true, ..AttemptFilter::default() }).unwrap();
    let first = lease(&*store, &key("a"), 1);
    assert_eq!(unfinished().len(), 1);
    store.finish(&key("a"), &first, &ending(Outcome::Unknown, Window::Unknown)).unwrap();
    assert_eq!(unfinished().len(), 1, "unknown is no end");
    store.settle_attempt(&key("a"), attempt(1), &ending(Outcome::Decided, Window::Published)).unwrap();
    assert_eq!(unfinished().len(), 1, "a follow-up is pending");
    store.settle_attempt(&key("a"), attempt(1), &published()).unwrap();
    assert_eq!(unfinished(), []);
    store.settle_attempt(&key("a"), attempt(1), &ending(Outcome::Error, Window::NothingPublished)).unwrap();
    assert_eq!(record(&*store, 1).ending, Some(published()), "the last word");
    store.settle_attempt(&key("a"), attempt(99), &published()).unwrap();
    assert_eq!(all(&*store).len(), 1, "of an attempt that nobody knows nothing is recorded");
}

pub(super) fn attempts_are_listed_newest_first_and_filtered(factory: &dyn StoreFactory) {
    let home = factory.make();
    let store = home.open();
    let keys = [key("a"), key("b"), key_of("weekly", "a"), key("a")];
    for (number, key) in (1..).zip(&keys) {
        let holder = lease(&*store, key, number);
        opened(&*store, key, &holder, Want::Continue, number);
        if number != 2 {
            finish(&*store, key, &holder);
        }
    }
    let list = |filter: AttemptFilter| numbers(&store.attempts(&filter).unwrap());
    let any = AttemptFilter::default;
    let daily = Some(key("").task);
    assert_eq!(list(any()), [4, 3, 2, 1]);
    assert_eq!(list(AttemptFilter { limit: Some(2), ..any() }), [4, 3]);
    assert_eq!(list(AttemptFilter { limit: Some(0), ..any() }), []);
    assert_eq!(list(AttemptFilter { task: daily.clone(), ..any() }), [4, 2, 1]);
    assert_eq!(list(AttemptFilter { partition: Some("a".to_owned()), ..any() }), [4, 3, 1]);
    assert_eq!(list(AttemptFilter { partition: Some(String::new()), ..any() }), []);
    assert_eq!(list(AttemptFilter { task: daily.clone(), partition: Some("a".to_owned()), ..any() }), [4, 1]);
    assert_eq!(list(AttemptFilter { task: daily.clone(), limit: Some(1), ..any() }), [4]);
    assert_eq!(list(AttemptFilter { unfinished: true, ..any() }), [2]);
    assert_eq!(list(AttemptFilter { unfinished: true, partition: Some("a".to_owned()), ..any() }), []);
    assert_eq!(list(AttemptFilter { id_part: Some("aaaa".to_owned()), ..any() }), [4, 3, 2, 1]);
    assert_eq!(list(AttemptFilter { id_part: Some(attempt(3).to_string()), ..any() }), [3]);
    // Attempts 1 and 4 work for the run that attempt 1 opened.
    let run = run_id(1).to_string();
    assert_eq!(list(AttemptFilter { id_part: Some(run.to_uppercase()), ..any() }), [4, 1]);
    assert_eq!(list(AttemptFilter { id_part: Some("%".to_owned()), ..any() }), [], "no letter is a wildcard");
    let end = attempt(3).to_string().split_off(20);
    assert_eq!(list(AttemptFilter { id_part: Some(end), ..any() }), [3], "ids differ in their ends");
    assert_eq!(list(AttemptFilter { id_part: Some("c".to_owned()), ..any() }), []);
}

pub(super) fn an_attempt_shows_its_token_and_its_run(factory: &dyn StoreFactory) {
    let home = factory.make();
    let store = home.open();
    let first = lease(&*store, &key("a"), 1);
    let before = record(&*store, 1);
    assert_eq!((before.key, before.token), (key("a"), first.token));
    assert_eq!(before.process, request(1).process);
    assert_eq!((before.run, before.generation, before.ending), (None, None, None));
    let raised = store.raise(&key("a"), &first, Token::new(10)).unwrap().unwrap();
    let first = Holder { token: raised, ..first };
    let run = opened(&*store, &key("a"), &first, Want::Continue, 1);
    let after = record(&*store, 1);
    assert_eq!((after.token, after.run, after.generation), (raised, Some(run.run_id), Some(run.generation)));
    assert_eq!(after.started_at, before.started_at);
    assert_eq!(store.key(&key("a")).unwrap().unwrap().last_attempt, Some(after));
}

pub(super) fn keys_are_listed_in_order_and_by_task(factory: &dyn StoreFactory) {
    let home = factory.make();
    let store = home.open();
    let unordered = [key("b"), key_of("weekly", "a"), key(""), key("a"), key_of("a.task", "z"), key_of("daily-2", "a")];
    for (number, key) in (1..).zip(&unordered) {
        let holder = lease(&*store, key, number);
        if number == 4 {
            opened(&*store, key, &holder, Want::Continue, number);
        } else {
            finish(&*store, key, &holder);
        }
    }
    let mut ordered = unordered.to_vec();
    ordered.sort();
    assert_eq!(walk(&*store, None), ordered);
    assert_eq!(walk(&*store, Some(&key(""))), [key(""), key("a"), key("b")]);
    assert_eq!(walk(&*store, Some(&key_of("nobody", ""))), []);
    store
        .for_each_key(None, &mut |summary| {
            let state = store.key(&summary.key)?.expect("the key's state");
            assert_eq!(summary.lease, state.lease);
            assert_eq!(summary.lease.is_some(), summary.key == key("a"));
            assert_eq!(summary.run, state.run.as_ref().map(|run| run.run_id));
            assert_eq!(summary.generation, state.run.as_ref().map(|run| run.generation));
            assert_eq!(summary.last_attempt, state.last_attempt);
            Ok(())
        })
        .unwrap();
}

pub(super) fn a_walk_over_many_keys_may_call_the_store_and_stops_at_an_error(factory: &dyn StoreFactory) {
    const KEYS: u32 = 1200;
    let home = factory.make();
    let store = home.open();
    for number in 0..KEYS {
        lease(&*store, &key(&format!("{number:05}")), u128::from(number));
    }
    let mut shown = 0;
    store
        .for_each_key(Some(&key("").task), &mut |summary| {
            assert_eq!(summary.key, key(&format!("{shown:05}")));
            if shown % 100 == 0 {
                let holder = holder(&*store, Token::new(1), u128::from(shown));
                assert!(store.renew(&summary.key, &holder, TTL_MS)?);
            }
            shown += 1;
            Ok(())
        })
        .unwrap();
    assert_eq!(shown, KEYS);
    let mut shown = 0;
    let stopped = store.for_each_key(None, &mut |_| {
        shown += 1;
        if shown == 700 { Err(Error::invalid("enough")) } else { Ok(()) }
    });
    assert_eq!(stopped.unwrap_err().message, "enough");
    assert_eq!(shown, 700);
}

pub(super) fn a_key_that_nobody_leased_is_unknown(factory: &dyn StoreFactory) {
    let home = factory.make();
    let store = home.open();
    assert_eq!(store.key(&key("a")).unwrap(), None);
    assert_eq!(all(&*store), []);
    assert_eq!(walk(&*store, None), []);
    assert_eq!(store.compact_attempts(1, 1).unwrap(), 0);
}

pub(super) fn a_partition_may_hold_any_text(factory: &dyn StoreFactory) {
    let home = factory.make();
    let store = home.open();
    let texts =
        ["", " ", "%", "_", "'; DROP TABLE key; --", "a\nb", "\u{1f6eb} Z\u{fc}rich", "z\u{308}", &"x".repeat(4000)];
    for (number, text) in (1..).zip(texts) {
        let holder = lease(&*store, &key(text), number);
        opened(&*store, &key(text), &holder, Want::Continue, number);
        let state = home.open().key(&key(text)).unwrap().unwrap();
        assert_eq!(state.last_attempt.unwrap().key, key(text));
    }
    assert_eq!(walk(&*store, None).len(), texts.len());
}

pub(super) fn ledg_02_compaction_keeps_the_newest_and_the_unsettled(factory: &dyn StoreFactory) {
    let home = factory.make();
    let store = home.open();
    for number in 1..=20 {
        let key = key(if number % 2 == 0 { "a" } else { "b" });
        let holder = lease(&*store, &key, number);
        match number {
            2 => store.finish(&key, &holder, &ending(Outcome::Unknown, Window::Unknown)).unwrap(),
            3 => home.advance(TTL_MS), // never said how it ended
            _ => finish(&*store, &key, &holder),
        }
    }
    let before = store.key(&key("a")).unwrap();
    assert_eq!(store.compact_attempts(3, 2).unwrap(), 12);
    assert_eq!(numbers(&all(&*store)), [20, 19, 18, 17, 16, 15, 3, 2]);
    assert_eq!(store.compact_attempts(3, 2).unwrap(), 0);
    assert_eq!(store.compact_attempts(0, 0).unwrap(), 4, "the newest stays whatever is asked for");
    assert_eq!(numbers(&all(&*store)), [20, 19, 3, 2]);
    assert_eq!(store.key(&key("a")).unwrap(), before);
    assert_eq!(lease(&*store, &key("a"), 21).token, Token::new(11), "tokens do not depend on what is remembered");
}

pub(super) fn a_restored_store_has_a_fresh_identity_and_keeps_its_records(factory: &dyn StoreFactory) {
    let home = factory.make();
    let store = home.open();
    let old = store.identity().unwrap();
    assert_eq!(home.open().identity().unwrap(), old, "the same for all who open it");
    assert!(!old.ancestors.contains(&old.store_id));
    let first = lease(&*store, &key("a"), 1);
    let run = opened(&*store, &key("a"), &first, Want::Continue, 1);
    let restored = home.mark_restored();
    assert_ne!(restored.store_id, old.store_id);
    assert!(restored.ancestors.contains(&old.store_id) && restored.ancestors.is_superset(&old.ancestors));
    for store in [&store, &home.open()] {
        assert_eq!(store.identity().unwrap(), restored, "also for who had it open");
        let state = store.key(&key("a")).unwrap().unwrap();
        assert_eq!((state.lease, state.run), (None, Some(run.clone())));
    }
    let second = lease(&*store, &key("a"), 2);
    assert!(second.token > first.token);
    assert_eq!(numbers(&all(&*store)), [2, 1]);
}

fn all(store: &dyn StateStore) -> Vec<AttemptRecord> {
    store.attempts(&AttemptFilter::default()).unwrap()
}

fn record(store: &dyn StateStore, number: u128) -> AttemptRecord {
    all(store).into_iter().find(|record| record.attempt == attempt(number)).expect("the attempt's record")
}

fn numbers(records: &[AttemptRecord]) -> Vec<u128> {
    let number = |id: AttemptId| (0..100).find(|number| attempt(*number) == id).expect("a numbered attempt");
    records.iter().map(|record| number(record.attempt)).collect()
}

fn walk(store: &dyn StateStore, task: Option<&Key>) -> Vec<Key> {
    let mut keys = Vec::new();
    let each = &mut |summary: refrain_core::KeySummary| {
        keys.push(summary.key);
        Ok(())
    };
    store.for_each_key(task.map(|key| &key.task), each).unwrap();
    keys
}
