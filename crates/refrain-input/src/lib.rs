//! Pins: the recorded, immutable versions of what a task reads.
