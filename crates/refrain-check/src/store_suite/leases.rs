//! Leases and fencing tokens (3.1 to 3.3).

use super::StoreFactory;
use super::tools::{TTL_MS, attempt, finish, granted, held, holder, key, lease, published, request, request_over};
use refrain_core::{Acquired, Holder, LeaseRequest, Token};
use std::collections::BTreeSet;
use std::sync::{Barrier, Mutex};

pub(super) fn acquire_is_idempotent_for_the_same_attempt(factory: &dyn StoreFactory) {
    let home = factory.make();
    let store = home.open();
    let first = granted(&*store, &key("a"), &request(1));
    assert_eq!(first.unclean, None);
    let again = granted(&*home.open(), &key("a"), &request(1));
    assert_eq!(again.token, first.token, "a lost answer is asked for again and gives the same token");
    assert_eq!(again.unclean, None);
    assert_eq!(store.attempts(&refrain_core::AttemptFilter::default()).unwrap().len(), 1);
}

pub(super) fn a_held_lease_is_told_with_its_holder(factory: &dyn StoreFactory) {
    let home = factory.make();
    let store = home.open();
    let token = granted(&*store, &key("a"), &request(1)).token;
    let lease = held(&*home.open(), &key("a"), &request(2));
    assert_eq!((lease.attempt, lease.token), (attempt(1), token));
    assert_eq!(lease.process, request(1).process);
    let latest = store.now().unwrap().after(TTL_MS);
    assert_eq!(lease.expires.epoch, latest.epoch);
    let bounds = latest.ms - home.drift_ms()..=latest.ms + home.drift_ms();
    assert!(bounds.contains(&lease.expires.ms), "{:?}, not within {bounds:?}", lease.expires);
    let known = store.attempts(&refrain_core::AttemptFilter::default()).unwrap();
    assert_eq!(known.len(), 1, "who was not granted the lease is no attempt of the key");
}

pub(super) fn keys_are_leased_one_by_one(factory: &dyn StoreFactory) {
    let home = factory.make();
    let store = home.open();
    for (number, key) in [key(""), key("a"), key("b"), super::tools::key_of("weekly", "a")].iter().enumerate() {
        assert_eq!(granted(&*store, key, &request(number as u128)).token, Token::new(1), "tokens count per key");
    }
}

pub(super) fn an_expired_lease_goes_to_the_next_who_learns_of_it(factory: &dyn StoreFactory) {
    let home = factory.make();
    let store = home.open();
    let first = granted(&*store, &key("a"), &request(1));
    let short = 1 + home.drift_ms();
    home.advance(TTL_MS - short);
    held(&*store, &key("a"), &request(2));
    home.advance(short);
    let second = granted(&*store, &key("a"), &request(2));
    assert!(second.token > first.token);
    let unclean = second.unclean.expect("the holder that did not release");
    assert_eq!((unclean.attempt, unclean.token), (attempt(1), first.token));
}

pub(super) fn a_renewed_lease_outlives_its_first_end(factory: &dyn StoreFactory) {
    let home = factory.make();
    let store = home.open();
    let holder = lease(&*store, &key("a"), 1);
    for _ in 0..5 {
        home.advance(TTL_MS / 2);
        assert!(store.renew(&key("a"), &holder, TTL_MS).unwrap());
        held(&*store, &key("a"), &request(2));
    }
}

pub(super) fn lease_04_renewal_after_the_end_keeps_the_token_while_nobody_took_it(factory: &dyn StoreFactory) {
    let home = factory.make();
    let store = home.open();
    let holder = lease(&*store, &key("a"), 1);
    home.advance(3 * TTL_MS);
    assert!(store.renew(&key("a"), &holder, TTL_MS).unwrap(), "a laptop that slept goes on");
    let lease = held(&*store, &key("a"), &request(2));
    assert_eq!((lease.attempt, lease.token), (holder.attempt, holder.token));
}

pub(super) fn lease_04_renewal_after_a_takeover_is_refused(factory: &dyn StoreFactory) {
    let home = factory.make();
    let store = home.open();
    let first = lease(&*store, &key("a"), 1);
    home.advance(3 * TTL_MS);
    let second = lease(&*store, &key("a"), 2);
    assert!(!store.renew(&key("a"), &first, TTL_MS).unwrap());
    assert!(store.renew(&key("a"), &second, TTL_MS).unwrap());
    finish(&*store, &key("a"), &second);
    assert!(!store.renew(&key("a"), &first, TTL_MS).unwrap(), "a released lease is nobody's");
}

pub(super) fn lease_08_a_lease_of_another_epoch_has_ended(factory: &dyn StoreFactory) {
    let home = factory.make();
    let store = home.open();
    home.advance(1_000_000);
    let first = lease(&*store, &key("a"), 1);
    if !home.begin_epoch() {
        return;
    }
    // After a reboot the clock is behind the end of the old lease.
    let second = granted(&*store, &key("a"), &request(2));
    assert!(second.token > first.token);
    assert_eq!(second.unclean.map(|lease| lease.attempt), Some(first.attempt));
}

pub(super) fn a_dead_holder_is_displaced_at_once_and_only_that_one(factory: &dyn StoreFactory) {
    let home = factory.make();
    let store = home.open();
    lease(&*store, &key("a"), 1);
    let dead = held(&*store, &key("a"), &request(2));
    let second = granted(&*store, &key("a"), &request_over(2, &dead));
    assert_eq!(second.unclean.as_ref(), Some(&dead));
    // The third saw the same death, but the key is in living hands meanwhile.
    let living = held(&*store, &key("a"), &request_over(3, &dead));
    assert_eq!((living.attempt, living.token), (attempt(2), second.token));
    let other_token = refrain_core::Lease { token: dead.token, ..living };
    held(&*store, &key("a"), &request_over(3, &other_token));
}

pub(super) fn tokens_rise_over_release_expiry_death_and_reopening(factory: &dyn StoreFactory) {
    let home = factory.make();
    let mut last = Token::default();
    for number in 0..12 {
        let store = home.open();
        let mut request = request(number);
        if let Some(lease) = store.key(&key("a")).unwrap().and_then(|state| state.lease) {
            if number % 2 == 0 {
                home.advance(TTL_MS);
            } else {
                request = request_over(number, &lease);
            }
        }
        let token = granted(&*store, &key("a"), &request).token;
        assert!(token > last, "token {token} after {last}");
        last = token;
        if number % 3 == 0 {
            finish(&*store, &key("a"), &holder(&*store, token, number));
        }
    }
}

pub(super) fn raise_gives_the_holder_a_token_above_the_floor(factory: &dyn StoreFactory) {
    let home = factory.make();
    let store = home.open();
    let first = lease(&*store, &key("a"), 1);
    let raised = store.raise(&key("a"), &first, Token::new(41)).unwrap();
    assert_eq!(raised, Some(Token::new(42)));
    assert_eq!(store.raise(&key("a"), &first, Token::new(50)).unwrap(), None, "the old token is no holder");
    assert!(!store.renew(&key("a"), &first, TTL_MS).unwrap());
    let second = Holder { token: Token::new(42), ..first };
    assert!(store.renew(&key("a"), &second, TTL_MS).unwrap());
    let third = store.raise(&key("a"), &second, Token::new(7)).unwrap();
    assert_eq!(third, Some(Token::new(43)), "never back, whatever the floor");
    finish(&*store, &key("a"), &Holder { token: Token::new(43), ..first });
    assert_eq!(granted(&*store, &key("a"), &request(2)).token, Token::new(44));
    assert_eq!(store.raise(&key("unknown"), &first, Token::new(1)).unwrap(), None);
}

pub(super) fn lease_14_of_64_threads_one_wins_and_no_token_repeats(factory: &dyn StoreFactory) {
    const THREADS: u128 = 64;
    // Nobody renews here, and a store that is slow under so many must not see the lease end before the last has asked.
    const LONG_MS: u64 = 60 * TTL_MS;
    let home = factory.make();
    let start = Barrier::new(64);
    let answers: Mutex<Vec<Acquired>> = Mutex::default();
    std::thread::scope(|scope| {
        for number in 0..THREADS {
            let (home, start, answers) = (&home, &start, &answers);
            scope.spawn(move || {
                let store = home.open();
                start.wait();
                let request = LeaseRequest { ttl_ms: LONG_MS, ..request(number) };
                let answer = store.acquire(&key("a"), &request).unwrap();
                answers.lock().unwrap().push(answer);
            });
        }
    });
    let answers = answers.into_inner().unwrap();
    let winners: Vec<_> = answers.iter().filter(|answer| matches!(answer, Acquired::Granted(_))).collect();
    assert_eq!((answers.len(), winners.len()), (64, 1), "{winners:?}");
    let holders: BTreeSet<_> = answers
        .iter()
        .filter_map(|answer| match answer {
            Acquired::Held(lease) => Some((lease.attempt, lease.token)),
            Acquired::Granted(_) => None,
        })
        .collect();
    assert_eq!(holders.len(), 1, "all losers are told the same holder");
    assert_eq!(holders.first().unwrap().1, Token::new(1));
}

pub(super) fn lease_14_a_stampede_in_turn_gives_every_attempt_its_own_token(factory: &dyn StoreFactory) {
    const THREADS: u128 = 16;
    const ROUNDS: u128 = 8;
    let home = factory.make();
    let tokens: Mutex<Vec<Token>> = Mutex::default();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (home, tokens) = (&home, &tokens);
            scope.spawn(move || {
                let store = home.open();
                for round in 0..ROUNDS {
                    let number = thread * ROUNDS + round;
                    let token = wait_for_lease(&*store, &request(number));
                    // In the order of the leases, since only the holder pushes.
                    tokens.lock().unwrap().push(token);
                    finish(&*store, &key("a"), &holder(&*store, token, number));
                }
            });
        }
    });
    let tokens = tokens.into_inner().unwrap();
    assert_eq!(tokens.len() as u128, THREADS * ROUNDS);
    assert!(tokens.is_sorted_by(|earlier, later| earlier < later), "{tokens:?}");
    assert_eq!(home.open().key(&key("a")).unwrap().unwrap().lease, None, "no leftover");
}

fn wait_for_lease(store: &dyn refrain_core::StateStore, request: &LeaseRequest) -> Token {
    loop {
        match store.acquire(&key("a"), request).unwrap() {
            Acquired::Granted(granted) => return granted.token,
            Acquired::Held(_) => std::thread::yield_now(),
        }
    }
}

pub(super) fn coll_nobody_ends_or_renews_the_lease_of_another(factory: &dyn StoreFactory) {
    let home = factory.make();
    let store = home.open();
    let holder = lease(&*store, &key("a"), 1);
    let others = [
        Holder { attempt: attempt(2), ..holder },
        Holder { token: holder.token.next(), ..holder },
        Holder { token: Token::default(), ..holder },
        Holder { store_id: refrain_core::StoreId::from_uuid(*attempt(9).as_uuid()), ..holder },
    ];
    for other in &others {
        assert!(!store.renew(&key("a"), other, TTL_MS).unwrap(), "{other:?}");
        assert_eq!(store.raise(&key("a"), other, Token::new(9)).unwrap(), None, "{other:?}");
        store.finish(&key("a"), other, &published()).unwrap();
        store.finish(&key("b"), &holder, &published()).unwrap();
        let lease = held(&*store, &key("a"), &request(3));
        assert_eq!((lease.attempt, lease.token), (holder.attempt, holder.token), "after {other:?}");
    }
}

pub(super) fn coll_after_a_restore_an_equal_token_of_the_old_store_does_nothing(factory: &dyn StoreFactory) {
    let home = factory.make();
    let store = home.open();
    let zombie = lease(&*store, &key("a"), 1);
    let restored = home.mark_restored();
    let store = home.open();
    assert!(!store.renew(&key("a"), &zombie, TTL_MS).unwrap(), "all leases are void");
    // The same attempt asks again and gets another lease; its old self must not touch it, not even if the tokens
    // were equal.
    let token = granted(&*store, &key("a"), &request(1)).token;
    let equal = Holder { token, ..zombie };
    assert!(!store.renew(&key("a"), &equal, TTL_MS).unwrap());
    assert_eq!(store.raise(&key("a"), &equal, token).unwrap(), None);
    store.finish(&key("a"), &equal, &published()).unwrap();
    let lease = held(&*store, &key("a"), &request(2));
    assert_eq!(lease.token, token, "the zombie released it");
    assert!(store.renew(&key("a"), &Holder { store_id: restored.store_id, ..equal }, TTL_MS).unwrap());
}
