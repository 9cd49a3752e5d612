//! One connection.

use crate::driver;
use crate::fault::Fault;
use crate::link::Link;
use crate::transaction::{Limits, Transaction};
use std::fmt;
use std::sync::Arc;
use tokio_postgres::{Client, NoTls};

/// The most characters of `application_name` that a server keeps.
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
    /// [`Fault::Lost`] when the server cannot be reached, [`Fault::Refused`] when it does not let us in.
    pub fn open(link: &Link, name: &str) -> Result<Self, Fault> {
        let mut config = link.config().clone();
        config.application_name(name.chars().take(NAME_LENGTH).collect::<String>());
        let (client, connection) = driver::wait(async move { config.connect(NoTls).await })??;
        driver::spawn(async move {
            // Its end is seen by whoever uses the client.
            drop(connection.await);
        })?;
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
