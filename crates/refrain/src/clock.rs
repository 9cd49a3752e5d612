//! The clock: the one module that asks for the time.

use jiff::Timestamp;
use refrain_core::Clock;
use std::time::{Duration, Instant};

/// The wall clock of this host.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// Measures how long something took, or how long it may still take; not moved by changes of the wall clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    /// Elapsed time in whole microseconds.
    pub(crate) fn micros(&self) -> u64 {
        u64::try_from(self.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}
