//! Proof: the protocol's explorer, the conformance suites for stores and sinks, and (feature `task`) `refrain check`.

mod cases;
pub mod explorer;
pub mod sink_suite;
pub mod store_suite;
#[cfg(feature = "task")]
pub mod task;
