//! One connection.

use crate::connect::{Connected, Order};
use crate::driver;
use crate::fault::Fault;
use crate::link::Link;
use crate::transaction::{Limits, Transaction};
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::AbortHandle;
use tokio_postgres::Client;

/// The most bytes of `application_name` that a server keeps.
const NAME_LENGTH: usize = 63;

/// A connection to a server. Dropping it closes it, and whatever transaction was open is rolled back.
pub struct Session {
    client: Arc<Client>,
    /// What reads and writes the connection.
    connection: AbortHandle,
    /// The server has left a question unanswered for too long.
    is_silent: bool,
    patience: Option<Duration>,
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
        // How long each server is waited for is the link's own setting.
        let connected = driver::wait(None, order.connect())?;
        let Connected { client, connection } =
            connected.unwrap_or_else(|| Err(Fault::Lost("the connection was given up".to_owned())))?;
        Ok(Self { client: Arc::new(client), connection, is_silent: false, patience: None, link: link.clone() })
    }

    /// From now on no answer is waited for longer than this; nothing: as long as the limits of the transaction say. Who has
    /// to have an answer by some moment says so here.
    pub fn be_patient_for(&mut self, patience: Option<Duration>) {
        self.patience = patience;
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
        self.is_silent || self.client.is_closed()
    }

    /// Asks the server something and waits for the answer, for `limit` and the patience of this session at most. A server
    /// that has not answered by then is not asked again: the connection is closed.
    pub(crate) fn ask<T: Send + 'static>(
        &mut self,
        limit: Option<Duration>,
        question: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Fault> {
        let limit = self.patience.into_iter().chain(limit).min();
        if let Some(answer) = driver::wait(limit, question)? {
            return Ok(answer);
        }
        self.is_silent = true;
        self.connection.abort();
        let seconds = limit.unwrap_or_default().as_secs_f32();
        Err(Fault::Lost(format!("the server accepts what it is sent, and has not answered for {seconds:.0} s")))
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
