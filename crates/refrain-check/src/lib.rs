//! Proof: the protocol's explorer and the conformance suites for stores and sinks.
