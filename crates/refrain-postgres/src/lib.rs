//! Sessions with a PostgreSQL server, for the state store and the sink.
//!
//! - [`Link`]: where a database is and how it is reached, read as libpq reads it. Its password is never shown.
//! - [`Session`]: one connection. [`Transaction`]: the only way to say something to the server, so that nothing outlives
//!   its end and a pooler in transaction mode may stand between.
//! - [`Fault`]: what went wrong, and whether the server said it or was lost.
//!
//! Blocking, and usable from any thread, also one of an asynchronous runtime: the input and output is done by a thread of
//! this crate. Values are text in both directions: statements cast what they bind (`$1::text::date`) and what they select
//! (`count(*)::text`), so that no type of the server need be known here.

mod connect;
mod driver;
mod explain;
mod fault;
mod link;
mod name;
mod session;
mod tls;
mod transaction;

pub use fault::{Fault, Refusal};
pub use link::{Environment, Link};
pub use name::{Relation, quote_identifier, quote_literal};
pub use session::Session;
pub use transaction::{Committed, CopyIn, Limits, Row, Transaction};
