//! One connection.

use crate::connect::Order;
use crate::driver;
use crate::fault::Fault;
use crate::link::Link;
use crate::transaction::{Limits, Transaction};
use std::fmt;
use std::sync::Arc;
use tokio_postgres::Client;

/// The most bytes of `application_name` that a server keeps.
const NAME_LENGTH: usize = 63;

/// A connection to a server. Dropping it closes it, and whatever transaction was open is rolled back.
pub struct Session {
    client: Arc<Client>,
    link: Link,
}

impl Session {
    /// Connects. `name` is what the server's own views show of the session.
    ///
    /// # Errors
    /// [`Fault::Invalid`] when no server can be reached (`unavailable`) or the link cannot be used (`invalid`),
    /// [`Fault::Refused`] when the server does not let us in. All say what to do next.
    pub fn open(link: &Link, name: &str) -> Result<Self, Fault> {
        let order = Order::new(link.settings(), name[..name.floor_char_boundary(NAME_LENGTH)].to_owned())?;
        let client = driver::wait(order.connect())??;
        Ok(Self { client: Arc::new(client), link: link.clone() })
    }

    /// Begins a transaction that writes, READ COMMITTED whatever the role's default is: each statement sees what was
    /// committed before it, so that nothing that was decided under a lock rests on an older snapshot (PGX-04).
    ///
    /// # Errors
    /// `unavailable` when the server is a standby (PGX-16).
    pub fn write(&mut self, limits: &Limits) -> Result<Transaction<'_>, Fault> {
        Transaction::begin(self, "ISOLATION LEVEL READ COMMITTED READ WRITE", limits)
    }

    /// Begins a transaction that sees one moment of the database and may write.
    pub fn snapshot(&mut self, limits: &Limits) -> Result<Transaction<'_>, Fault> {
        Transaction::begin(self, "ISOLATION LEVEL REPEATABLE READ READ WRITE", limits)
    }

    /// Whether the connection is known to be gone.
    pub fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// How the server is reached.
    pub fn link(&self) -> &Link {
        &self.link
    }

    pub(crate) fn client(&self) -> Arc<Client> {
        Arc::clone(&self.client)
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("link", &self.link).field("closed", &self.is_closed()).finish_non_exhaustive()
    }
}
