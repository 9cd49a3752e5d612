//! Proof: the protocol's explorer and the conformance suites for stores and sinks.

mod cases;
pub mod explorer;
pub mod sink_suite;
pub mod store_suite;
