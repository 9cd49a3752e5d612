//! The clock that leases are measured by.

use jiff::Timestamp;
use refrain_core::{Clock, Error, Result, StoreTime};
use rustix::time::{ClockId, clock_gettime};
use std::fmt::Debug;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The kernel's name for the time since this boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Tells a store's time.
pub trait StoreClock: Send + Sync + Debug {
    /// This moment.
    fn now(&self) -> Result<StoreTime>;
}

/// The time since the host was booted.
///
/// `CLOCK_BOOTTIME` goes on while the host sleeps and knows nothing of the wall clock, whose jumps must
/// neither end nor prolong a lease. After a reboot every holder is dead, so moments of another boot need not
/// be comparable: a lease of another epoch has ended.
#[derive(Clone, Debug)]
pub struct BootClock {
    boot_id: String,
}

impl BootClock {
    /// The clock of this boot.
    pub fn new() -> Result<Self> {
        let text = std::fs::read_to_string(BOOT_ID)
            .map_err(|source| Error::io(format!("cannot read the boot's identity in `{BOOT_ID}`"), source))?;
        Ok(Self { boot_id: text.trim().to_owned() })
    }
}

impl StoreClock for BootClock {
    fn now(&self) -> Result<StoreTime> {
        let ms = u64::try_from(since_boot().as_millis()).unwrap_or(u64::MAX);
        Ok(StoreTime { epoch: self.boot_id.clone(), ms })
    }
}

/// How long something takes, whatever the wall clock does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(Duration);

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self(since_boot())
    }

    pub(crate) fn elapsed(self) -> Duration {
        since_boot().saturating_sub(self.0)
    }
}

/// `CLOCK_BOOTTIME`: it goes on while the host sleeps.
fn since_boot() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// A clock that moves only when it is told to. Also serves as wall clock.
#[derive(Debug)]
pub struct ManualClock {
    time: Mutex<StoreTime>,
}

impl ManualClock {
    /// A clock in its first epoch.
    pub fn new() -> Self {
        Self { time: Mutex::new(StoreTime { epoch: "boot-1".to_owned(), ms: 0 }) }
    }

    /// Moves on.
    pub fn advance(&self, ms: u64) {
        let mut time = self.time.lock().unwrap_or_else(PoisonError::into_inner);
        *time = time.after(ms);
    }

    /// Begins another epoch, as a reboot does.
    pub fn reboot(&self) {
        let mut time = self.time.lock().unwrap_or_else(PoisonError::into_inner);
        time.epoch.push('+');
        time.ms = 0;
    }

    fn read(&self) -> StoreTime {
        self.time.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl StoreClock for ManualClock {
    fn now(&self) -> Result<StoreTime> {
        Ok(self.read())
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        let ms = i64::try_from(self.read().ms).unwrap_or(i64::MAX);
        Timestamp::from_millisecond(ms).unwrap_or(Timestamp::MAX)
    }
}
