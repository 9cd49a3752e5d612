//! The clock that the kernel stamps files with, and when a stamp can be trusted.

use crate::stat::Stat;
use rustix::time::{ClockId, clock_getres, clock_gettime};
use std::time::Duration;

/// Filesystems that keep whole seconds, or every second one (FAT), show no fraction.
const COARSE_NS: i64 = 2_000_000_000;
/// So far may a file's time be ahead of the clock: since Linux 6.13 it may come from the fine one, and the coarse one
/// stands still while a virtual machine waits for its processor.
const MOST_AHEAD_NS: i64 = 100_000_000;

/// A time of the clock from which local filesystems take a file's times (`ktime_get_coarse_real_ts64` in the
/// kernel's `current_time`, which user space reads as `CLOCK_REALTIME_COARSE`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    ns: i64,
    tick_ns: i64,
}

impl Moment {
    pub(crate) fn now() -> Self {
        let ns = |time: rustix::time::Timespec| time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec);
        Self { ns: ns(clock_gettime(ClockId::RealtimeCoarse)), tick_ns: ns(clock_getres(ClockId::RealtimeCoarse)) }
    }

    /// Whether whatever is written from this moment on gives the file other times than these: it was last written to
    /// or changed clearly before. The rule for "racily clean" entries of git's index.
    pub(crate) fn is_clearly_after(self, stat: &Stat) -> bool {
        let newest = stat.written_ns.max(stat.changed_ns);
        newest.saturating_add(self.margin_ns(stat)) < self.ns
    }

    /// How long to wait until a file that was just written is clearly older; nothing where waiting would be long, or
    /// where the file's times are not of this clock.
    pub(crate) fn wait_for(self, stat: &Stat) -> Option<Duration> {
        let ahead = stat.written_ns.max(stat.changed_ns).saturating_sub(self.ns);
        let short = self.margin_ns(stat) < COARSE_NS && ahead <= MOST_AHEAD_NS;
        let wait = ahead.saturating_add(self.margin_ns(stat)).saturating_add(2 * self.tick_ns);
        (short && !self.is_clearly_after(stat)).then(|| Duration::from_nanos(wait.unsigned_abs()))
    }

    fn margin_ns(self, stat: &Stat) -> i64 {
        if stat.changed_ns % 1_000_000_000 == 0 { COARSE_NS } else { 2 * self.tick_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_clearly_written_before_is_trusted() {
        let now = Moment { ns: 10_000_000_000, tick_ns: 4_000_000 };
        let stat = |changed_ns| Stat { changed_ns, written_ns: 1, ..Stat::default() };
        assert!(now.is_clearly_after(&stat(9_991_999_999)));
        assert!(!now.is_clearly_after(&stat(9_992_000_000)), "two ticks");
        assert!(!now.is_clearly_after(&stat(11_000_000_001)), "from the future");
        assert!(!now.is_clearly_after(&stat(9_000_000_000)), "a filesystem of whole seconds");
        assert!(now.is_clearly_after(&stat(7_000_000_000)));
        assert_eq!(now.wait_for(&stat(9_999_000_001)), Some(Duration::from_nanos(15_000_001)));
        assert_eq!(now.wait_for(&stat(9_991_999_999)), None);
        assert_eq!(now.wait_for(&stat(9_000_000_000)), None, "two seconds are too long");
        assert_eq!(now.wait_for(&stat(11_000_000_001)), None);
    }
}
