//! The conformance suite of state stores (PROTOCOL 3, 8.1): what every [`StateStore`] must do, whatever it is
//! made of.
//!
//! ```ignore
//! struct Mine;
//! impl StoreFactory for Mine { /* … */ }
//! refrain_check::store_suite!(mine, Mine); // one test per case, as `mine::…`
//! ```

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a case reports failure by failing the test"
)]

mod leases;
mod records;
mod runs;
mod tools;
mod watermarks;

use refrain_core::{StateStore, StoreIdentity};

/// Makes stores to test.
pub trait StoreFactory: Sync {
    /// A new, empty store that nobody else uses.
    fn make(&self) -> Box<dyn StoreUnderTest>;
}

/// One store, and what a case may do to it from outside.
pub trait StoreUnderTest: Sync {
    /// A handle of its own to the store, as another process would open it.
    fn open(&self) -> Box<dyn StateStore>;

    /// Lets the store's clock go on; a store whose clock cannot be set waits, or lets the leases that stand age.
    fn advance(&self, ms: u64);

    /// So far the store's clock may go on by itself within a case, or be from what it says.
    fn drift_ms(&self) -> u64 {
        0
    }

    /// Begins another epoch of the store's clock, as a reboot does. False if this kind of store has none.
    fn begin_epoch(&self) -> bool;

    /// Declares that the store was restored from a backup (8.1).
    fn mark_restored(&self) -> StoreIdentity;
}

crate::cases::suite! { $,
    /// Makes a module with one test per case of the store suite. Takes the module's name and a
    /// [`StoreFactory`](crate::store_suite::StoreFactory).
    store_suite in store_suite for StoreFactory:
    leases::{
        acquire_is_idempotent_for_the_same_attempt,
        a_held_lease_is_told_with_its_holder,
        keys_are_leased_one_by_one,
        an_expired_lease_goes_to_the_next_who_learns_of_it,
        a_renewed_lease_outlives_its_first_end,
        lease_04_renewal_after_the_end_keeps_the_token_while_nobody_took_it,
        lease_04_renewal_after_a_takeover_is_refused,
        lease_08_a_lease_of_another_epoch_has_ended,
        a_dead_holder_is_displaced_at_once_and_only_that_one,
        tokens_rise_over_release_expiry_death_and_reopening,
        raise_gives_the_holder_a_token_above_the_floor,
        lease_14_of_64_threads_one_wins_and_no_token_repeats,
        lease_14_a_stampede_in_turn_gives_every_attempt_its_own_token,
        coll_nobody_ends_or_renews_the_lease_of_another,
        coll_after_a_restore_an_equal_token_of_the_old_store_does_nothing,
    },
    runs::{
        open_run_is_for_the_holder_only,
        open_run_asks_for_a_proposal_and_opens_the_first_generation,
        ledg_10_a_retry_gets_the_same_run_and_pins,
        a_rerun_opens_the_next_generation,
        wish_a_repeated_rerun_opens_one_run,
        a_run_seen_at_the_sink_outranks_the_store,
        what_heads_show_is_learned_once_and_never_over_a_lease_or_a_later_run,
        a_run_seen_at_the_sink_that_is_older_changes_nothing,
        a_rerun_counts_from_what_was_seen,
    },
    records::{
        lease_07_finishing_twice_is_harmless_and_a_late_heartbeat_no_error,
        an_ending_is_recorded_also_for_who_lost_the_lease,
        an_unknown_end_is_settled_once,
        attempts_are_listed_newest_first_and_filtered,
        an_attempt_shows_its_token_and_its_run,
        keys_are_listed_in_order_and_by_task,
        a_walk_over_many_keys_may_call_the_store_and_stops_at_an_error,
        a_key_that_nobody_leased_is_unknown,
        a_partition_may_hold_any_text,
        ledg_02_compaction_keeps_the_newest_and_the_unsettled,
        a_restored_store_has_a_fresh_identity_and_keeps_its_records,
    },
    watermarks::{
        ledg_01_a_folded_key_is_forgotten_and_the_watermark_stands_for_it,
        ledg_01_tokens_go_on_above_those_of_the_folded_keys,
        ledg_02_what_is_leased_unsettled_or_changed_is_not_folded,
        a_watermark_rises_only_and_counts_a_key_once,
        two_who_fold_at_once_fold_every_key_once,
    },
}
