//! Time, as the rest of the program may ask for it.

use jiff::Timestamp;

/// Tells the time. The only source of "now" for everything but the store's leases.
pub trait Clock: Send + Sync {
    /// The wall clock: for reports and for words such as `yesterday`, never for a decision about leases.
    fn now(&self) -> Timestamp;
}
