//! Watermarks: keys that are forgotten, and what is kept in their place (PROTOCOL 12).

use super::StoreFactory;
use super::tools::{
    attempt, ending, finish, granted, holder, key, key_of, lease, opened, opened_after, published, request, run_id,
    seen,
};
use jiff::{SignedDuration, Timestamp};
use refrain_core::{
    Acquired, AttemptFilter, Foldable, Interval, Key, Outcome, StateStore, Token, Want, Watermark, Window,
};
use std::thread;

pub(super) fn ledg_01_a_folded_key_is_forgotten_and_the_watermark_stands_for_it(factory: &dyn StoreFactory) {
    let home = factory.make();
    let store = home.open();
    assert_eq!(watermark(&*store), None);
    for (day, number) in [("a", 1), ("b", 2), ("c", 3)] {
        publish(&*store, &key(day), number);
    }
    let left = store.fold(&task(), &[foldable(&*store, "b", 2), foldable(&*store, "a", 1)]).unwrap();
    assert_eq!(left, [""; 0]);
    let stands = watermark(&*home.open()).unwrap();
    assert_eq!((stands.through.as_str(), stands.ends_at, stands.folded), ("b", ends_at(2), 2));
    assert_eq!(store.key(&key("a")).unwrap(), None);
    assert_eq!(keys(&*store), [key("c")]);
    assert_eq!(attempts(&*store), [attempt(3)]);
    let covers = |day| stands.covers(&interval(day));
    assert_eq!([covers(1), covers(2), covers(3)], [true, true, false]);
}

pub(super) fn ledg_01_tokens_go_on_above_those_of_the_folded_keys(factory: &dyn StoreFactory) {
    let home = factory.make();
    let store = home.open();
    publish(&*store, &key("a"), 1);
    let first = lease(&*store, &key("b"), 2);
    let raised = store.raise(&key("b"), &first, Token::new(41)).unwrap().unwrap();
    finish(&*store, &key("b"), &holder(&*store, raised, 2));
    store.fold(&task(), &[foldable(&*store, "a", 1), foldable(&*store, "b", 2)]).unwrap();
    for (day, number) in [("a", 3), ("b", 4), ("never seen", 5)] {
        assert!(granted(&*home.open(), &key(day), &request(number)).token > raised, "of {day}");
    }
    assert_eq!(granted(&*store, &key_of("weekly", "a"), &request(6)).token, Token::new(1), "another task has its own");
    // What stands at the sink is the run again, whatever the store forgot (3.4a).
    let again = holder(&*store, granted(&*store, &key("a"), &request(3)).token, 3);
    let run = opened_after(&*store, &key("a"), &again, Want::Continue, Some(&seen(1, 1)), 9);
    assert_eq!(run.run_id, run_id(1));
}

pub(super) fn ledg_02_what_is_leased_unsettled_or_changed_is_not_folded(factory: &dyn StoreFactory) {
    let home = factory.make();
    let store = home.open();
    for (number, day) in (1..).zip(["leased", "unknown", "changed", "quiet"]) {
        publish(&*store, &key(day), number);
    }
    let as_seen = ["leased", "unknown", "changed", "quiet"].map(|day| foldable(&*store, day, 1));
    lease(&*store, &key("leased"), 11);
    let unknown = lease(&*store, &key("unknown"), 12);
    store.finish(&key("unknown"), &unknown, &ending(Outcome::Unknown, Window::Unknown)).unwrap();
    publish(&*store, &key("changed"), 13);
    let again = foldable(&*store, "leased", 1);
    let unsettled = foldable(&*store, "unknown", 1);
    assert_eq!(store.fold(&task(), &as_seen).unwrap(), ["leased", "unknown", "changed"]);
    assert_eq!(store.fold(&task(), &[again, unsettled]).unwrap(), ["leased", "unknown"], "seen or not");
    assert_eq!(keys(&*store), [key("changed"), key("leased"), key("unknown")]);
    assert_eq!(attempts(&*store).len(), 6, "all of what stays stays");
    assert_eq!(watermark(&*store).unwrap().folded, 1);
}

pub(super) fn a_watermark_rises_only_and_counts_a_key_once(factory: &dyn StoreFactory) {
    let home = factory.make();
    let store = home.open();
    publish(&*store, &key("late"), 1);
    publish(&*store, &key("early"), 2);
    let [late, early] = [foldable(&*store, "late", 9), foldable(&*store, "early", 1)];
    assert_eq!(store.fold(&task(), &[]).unwrap(), [""; 0]);
    assert_eq!(watermark(&*store), None, "nothing folded, nothing raised");
    store.fold(&task(), std::slice::from_ref(&late)).unwrap();
    store.fold(&task(), &[early, late]).unwrap();
    let stands = watermark(&*store).unwrap();
    assert_eq!((stands.through.as_str(), stands.ends_at, stands.folded), ("late", ends_at(9), 2));
    store.reclaim().unwrap();
    assert_eq!(watermark(&*store).unwrap(), stands);
}

pub(super) fn two_who_fold_at_once_fold_every_key_once(factory: &dyn StoreFactory) {
    const KEYS: u16 = 60;
    let home = factory.make();
    let store = home.open();
    let days: Vec<String> = (0..KEYS).map(|day| format!("{day:03}")).collect();
    for (number, day) in (1..).zip(&days) {
        publish(&*store, &key(day), number);
    }
    let foldable: Vec<_> = (1..).zip(&days).map(|(at, day)| foldable(&*store, day, at)).collect();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let store = home.open();
                for batch in foldable.chunks(7) {
                    assert_eq!(store.fold(&task(), batch).unwrap(), [""; 0]);
                }
                store.reclaim().unwrap();
            });
        }
        // Somebody publishes newer keys meanwhile.
        scope.spawn(|| {
            let store = home.open();
            for number in 1000..1020 {
                publish(&*store, &key(&format!("new {number}")), number);
            }
        });
    });
    assert_eq!(watermark(&*store).unwrap().folded, u64::from(KEYS));
    assert_eq!(keys(&*store).len(), 20);
    let acquired = store.acquire(&key("new 1000"), &request(5000)).unwrap();
    assert!(matches!(acquired, Acquired::Granted(granted) if granted.run.is_some()));
}

fn task() -> refrain_core::TaskName {
    key("").task
}

fn ends_at(day: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24 * day)
}

fn interval(day: i64) -> Interval {
    let start = ends_at(day - 1);
    Interval {
        key: String::new(),
        start,
        end: ends_at(day),
        start_civil: start.to_zoned_datetime(jiff::tz::TimeZone::UTC),
    }
}

fn publish(store: &dyn StateStore, key: &Key, number: u128) {
    let holder = lease(store, key, number);
    opened(store, key, &holder, Want::Continue, number);
    store.finish(key, &holder, &published()).unwrap();
}

/// The key as it stands, to be folded.
fn foldable(store: &dyn StateStore, partition: &str, day: i64) -> Foldable {
    let state = store.key(&key(partition)).unwrap().expect("the key's state");
    Foldable {
        partition: partition.to_owned(),
        ends_at: ends_at(day),
        run: state.run.map(|run| run.run_id),
        last_attempt: state.last_attempt.map(|attempt| attempt.attempt),
    }
}

fn watermark(store: &dyn StateStore) -> Option<Watermark> {
    store.watermark(&task()).unwrap()
}

fn keys(store: &dyn StateStore) -> Vec<Key> {
    let mut keys = Vec::new();
    store
        .for_each_key(None, &mut |summary| {
            keys.push(summary.key);
            Ok(())
        })
        .unwrap();
    keys
}

fn attempts(store: &dyn StateStore) -> Vec<refrain_core::AttemptId> {
    store.attempts(&AttemptFilter::default()).unwrap().into_iter().map(|record| record.attempt).collect()
}
