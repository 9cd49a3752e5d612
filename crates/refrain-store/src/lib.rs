//! State stores: leases, runs and the record of attempts (PROTOCOL 3).
//!
//! A store saves work and remembers pins. It decides nothing about publication: that is the sinks' alone, so
//! a lost, restored or doubled store can cost a repeated run, never a wrong output.
//!
//! - [`SqliteStore`]: one file, for all processes of one host. The default.
//! - [`PostgresStore`]: tables in a database, for any number of hosts.
//! - [`BucketStore`]: small objects in a bucket, for any number of hosts.
//! - [`MemoryStore`]: the same behaviour without a file, for tests.
//!
//! All apply the rules of [`KeyRecord`](refrain_core::KeyRecord) and add none: a method is one transaction, or one
//! conditional write, that loads the key's record, changes it by core's method of the same name and saves it. Leases are
//! measured by one clock: a [`StoreClock`] of the host, or the server's; never by the wall clock of who asks.
//!
//! The file is not for a network filesystem: neither kernel locks nor shared memory reach another host. Such a place
//! is recognised and refused; hosts share a database or a bucket instead.

mod chance;
mod clock;
mod copied;
mod homes;
pub mod memory;
pub mod object;
pub mod postgres;
pub mod sqlite;
mod stored;

pub use clock::{BootClock, ManualClock, StoreClock};
pub use copied::Copied;
pub use homes::{Entry, HomeRecord, Stranger, TaskRecord};
pub use memory::MemoryStore;
pub use object::{BucketOptions, BucketStore};
pub use postgres::{PostgresOptions, PostgresStore};
pub use sqlite::{SqliteOptions, SqliteStore};
