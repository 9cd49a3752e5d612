//! Real PostgreSQL servers of two versions, a pooler in front of them, and a proxy that cuts connections.
//!
//! - [`Server`]: a server of its own data directory, or one that the tests of a process share; killed, started again,
//!   followed by a standby;
//! - [`Database`]: a fresh database of a server, its URLs and `psql`;
//! - [`PgBouncer`]: the pooler in transaction mode;
//! - [`Proxy`]: forwards messages of clients until one holds the bytes at which the connection is to be cut.
//!
//! Everything ends with the test process, also when that is killed. `cargo xtask setup` installs what is needed.

mod cluster;
mod database;
mod pgbouncer;
mod proxy;
mod run_as;
mod server;
mod version;
mod wire;

pub use database::Database;
pub use pgbouncer::PgBouncer;
pub use proxy::Proxy;
pub use server::Server;
pub use version::{Version, wheel_directory};
