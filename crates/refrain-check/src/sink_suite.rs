//! The conformance suite of sinks (PROTOCOL 2, 4, 7, 13): what every [`Sink`] must do, whatever it writes to.
//!
//! What a sink claims in its [`Capabilities`](refrain_core::Capabilities) is tested; of what it does not claim, the
//! suite demands a clear `unsupported`.
//!
//! ```ignore
//! struct Mine;
//! impl SinkFactory for Mine { /* … */ }
//! refrain_check::sink_suite!(mine, Mine); // one test per case, as `mine::…`
//! ```

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a case reports failure by failing the test"
)]

mod claims;
mod commits;
mod races;
mod staging;
mod standing;
mod tools;
mod versions;

use refrain_core::{Open, Sink, SlotAddress, Staging};
use std::sync::Arc;

/// Makes sinks to test.
pub trait SinkFactory: Sync {
    /// A sink with nothing published that nobody else uses.
    fn make(&self) -> Box<dyn SinkUnderTest>;
}

/// One sink, and what a case may do to it from outside.
pub trait SinkUnderTest: Sync {
    /// A handle of its own to the sink, as another process would open it.
    fn open(&self) -> Arc<dyn Sink>;

    /// The slot of this name; another one for another name.
    fn slot(&self, name: &str) -> SlotAddress;

    /// How the sink publishes at the slot, where it knows several ways.
    fn manner(&self, _slot: &SlotAddress) -> Option<String> {
        None
    }

    /// Writes to a staging place, as a task does. Where an output can have parts, it shall have some, so that a
    /// mixture of two outputs would be seen.
    fn write(&self, staging: &Staging<Open>, content: Content<'_>);

    /// What a reader of the slot finds: the text that was written, whole. Panics when it finds a part or a mixture.
    fn visible(&self, slot: &SlotAddress) -> Option<String>;

    /// Replaces what readers of the slot find without the sink, as a foreign writer does; nothing removes it. False if
    /// nobody can do that.
    fn overwrite(&self, slot: &SlotAddress, text: Option<&str>) -> bool;

    /// Every text that a reader finds who lists everything where publications are.
    fn listed(&self) -> Vec<String>;
}

/// What a task leaves at its staging place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// Nothing at all: the task forgot its output.
    Nothing,
    /// An output of no bytes; for a sink of directories, one without files.
    Empty,
    /// An output that holds this text.
    Text(&'a str),
}

crate::cases::suite! { $,
    /// Makes a module with one test per case of the sink suite. Takes the module's name and a
    /// [`SinkFactory`](crate::sink_suite::SinkFactory).
    sink_suite in sink_suite for SinkFactory:
    claims::{
        a_sink_keeps_the_protocol_and_says_where_readers_find_a_slot,
        a_first_claim_makes_the_head,
        a_repeated_claim_is_not_fenced_by_itself,
        a_later_claim_fences_the_earlier_attempt,
        an_equal_token_of_another_attempt_is_fenced,
        a_slot_of_another_owner_is_refused_until_taken_over,
        a_foreign_store_is_refused_and_a_successor_accepted,
        a_claim_carries_the_slots_of_the_former,
        slots_are_claimed_one_by_one,
    },
    commits::{
        a_commit_publishes_what_was_sealed,
        the_identical_commit_may_be_sent_again,
        lease_01_a_zombie_is_rejected_after_a_later_claim,
        a_commit_on_a_stale_version_is_rejected,
        a_commit_without_a_claim_is_rejected,
        a_later_generation_replaces_the_publication,
        a_resent_commit_after_a_later_publication_is_rejected,
        no_version_of_a_head_ever_repeats,
        a_decided_run_is_rolled_forward_by_another_holder,
        a_commit_of_lost_data_says_so_and_changes_nothing,
    },
    races::{
        of_many_that_claim_and_commit_at_once_one_publishes_and_stands_whole,
        the_identical_commit_sent_by_many_at_once_lands_once,
        readers_see_the_old_or_the_new_output_whole,
    },
    staging::{
        staging_is_invisible_and_named,
        attempts_stage_apart_and_are_discarded_apart,
        a_seal_says_what_was_written,
        a_missing_output_fails_the_guard,
        an_empty_output_fails_the_guard_unless_allowed,
        an_output_below_its_bounds_fails_the_guard,
        after_a_commit_nothing_stays_staged,
    },
    standing::{
        what_was_published_stands_intact,
        what_somebody_else_put_there_is_foreign_and_kept_on_adoption,
        what_was_changed_by_hand_has_drifted,
        what_was_removed_by_hand_is_missing_and_published_again,
    },
    versions::{
        replaced_versions_are_listed_newest_first,
        a_kept_version_is_published_again,
        a_version_that_is_not_kept_cannot_be_restored,
        trimming_keeps_the_newest_the_recent_and_the_published,
    },
}
