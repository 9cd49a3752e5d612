//! Sinks: where publications live.
