//! One transaction: all that is ever said to a server.

use crate::driver;
use crate::fault::Fault;
use crate::session::Session;
use bytes::Bytes;
use futures_util::{SinkExt, TryStreamExt};
use refrain_core::{Error, ErrorKind};
use std::fmt::Write;
use std::pin::pin;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_postgres::SimpleQueryMessage;
use tokio_postgres::types::Type;

/// A row of texts, column by column; nothing for NULL.
pub type Row = Vec<Option<String>>;

/// So many chunks of COPY wait for the server at most.
const CHUNKS: usize = 4;

/// How long a transaction may take. Set for the transaction alone, so that a pooler hands nothing on (PGX-13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// For one lock.
    pub lock: Duration,
    /// For one statement; nothing: no limit.
    pub statement: Option<Duration>,
    /// For a pause of ours inside the transaction: a frozen client must not keep its locks (PGX-14, 4.6).
    pub idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { lock: Duration::from_secs(10), statement: Some(Duration::from_mins(1)), idle: Duration::from_secs(30) }
    }
}

/// An open transaction. Dropping it rolls it back.
#[derive(Debug)]
pub struct Transaction<'s> {
    session: &'s mut Session,
    over: bool,
}

/// Answer of [`Transaction::commit`].
#[derive(Debug)]
pub enum Committed {
    /// It is committed; this is what the question that was asked after it selected.
    Yes(Vec<Row>),
    /// The answer was lost: it may be committed or not.
    Unknown(String),
}

impl<'s> Transaction<'s> {
    pub(crate) fn begin(session: &'s mut Session, mode: &str, limits: &Limits) -> Result<Self, Fault> {
        let mut sql = format!("BEGIN {mode}; SET LOCAL search_path = pg_catalog, pg_temp; ");
        let mut limit = |name: &str, value: Duration| {
            let _infallible = write!(sql, "SET LOCAL {name} = {}; ", value.as_millis());
        };
        limit("lock_timeout", limits.lock);
        limit("statement_timeout", limits.statement.unwrap_or_default());
        limit("idle_in_transaction_session_timeout", limits.idle);
        // An acknowledged commit must be on the disk, whatever the role's default says (PGX-17).
        sql.push_str(
            "SELECT pg_catalog.set_config('synchronous_commit', 'on', true) \
             WHERE pg_catalog.current_setting('synchronous_commit') = 'off'; \
             SELECT pg_catalog.pg_is_in_recovery()::text",
        );
        let mut transaction = Self { session, over: false };
        let rows = transaction.simple(&sql)?;
        if rows.last().and_then(|row| row.first()?.as_deref()) == Some("true") {
            return Err(Fault::Invalid(
                Error::new(
                    ErrorKind::Unavailable,
                    format!("{} is a standby: what is published is decided on the primary", transaction.session.link()),
                )
                .hint("name the primary, or all hosts with `target_session_attrs=read-write`"),
            ));
        }
        Ok(transaction)
    }

    /// Sends a statement with bound texts and returns what it selected.
    pub fn query(&mut self, sql: &str, values: &[Option<&str>]) -> Result<Vec<Row>, Fault> {
        Ok(self.send(sql, values)?.0)
    }

    /// Sends a statement with bound texts and returns how many rows it changed.
    pub fn execute(&mut self, sql: &str, values: &[Option<&str>]) -> Result<u64, Fault> {
        Ok(self.send(sql, values)?.1)
    }

    /// Sends statements without values, and returns what they selected.
    pub fn simple(&mut self, sql: &str) -> Result<Vec<Row>, Fault> {
        let client = self.session.client();
        let sql = sql.to_owned();
        let messages = driver::wait(async move { client.simple_query(&sql).await })??;
        Ok(rows_of(messages))
    }

    /// Begins to copy into a table: `sql` is a COPY … FROM STDIN.
    pub fn copy_in(&mut self, sql: &str) -> Result<CopyIn, Fault> {
        let client = self.session.client();
        let sql = sql.to_owned();
        let (chunks, mut queue) = mpsc::channel::<Bytes>(CHUNKS);
        let (done, rows) = std::sync::mpsc::sync_channel(1);
        driver::spawn(async move {
            let copied = async {
                let sink = client.copy_in::<str, Bytes>(&sql).await?;
                let mut sink = pin!(sink);
                while let Some(chunk) = queue.recv().await {
                    // An empty chunk says that all was sent; a queue that ends without one is dropped, and the copy fails.
                    if chunk.is_empty() {
                        return sink.finish().await.map(Some);
                    }
                    sink.send(chunk).await?;
                }
                Ok::<_, tokio_postgres::Error>(None)
            };
            let answer = copied.await;
            drop(done.send(answer));
        })?;
        Ok(CopyIn { chunks: Some(chunks), rows })
    }

    /// Commits. `question` is asked in the same message, right after it: what it selects is the proof, because the server
    /// says nothing else of a COMMIT that it turned into a ROLLBACK (PGX-02).
    ///
    /// # Errors
    /// What the server said, and then nothing is committed. A lost answer is [`Committed::Unknown`] (PGX-01).
    pub fn commit(mut self, question: &str) -> Result<Committed, Fault> {
        self.over = true;
        match self.simple(&format!("COMMIT; {question}")) {
            Ok(rows) => Ok(Committed::Yes(rows)),
            Err(Fault::Lost(why)) => Ok(Committed::Unknown(why)),
            // Only these come from the COMMIT itself: a deferred constraint, a failed serialization, a deferred trigger.
            Err(Fault::Refused(refusal)) if !matches!(refusal.code.get(..2), Some("23" | "40" | "P0")) => {
                Ok(Committed::Unknown(refusal.to_string()))
            }
            Err(fault) => Err(fault),
        }
    }

    /// Ends the transaction without a trace.
    pub fn roll_back(mut self) -> Result<(), Fault> {
        self.over = true;
        self.simple("ROLLBACK").map(drop)
    }

    fn send(&mut self, sql: &str, values: &[Option<&str>]) -> Result<(Vec<Row>, u64), Fault> {
        let client = self.session.client();
        let sql = sql.to_owned();
        let values: Vec<(Option<String>, Type)> =
            values.iter().map(|value| (value.map(str::to_owned), Type::TEXT)).collect();
        let answer = driver::wait(async move {
            let stream = client.query_typed_raw(&sql, values).await?;
            let mut stream = pin!(stream);
            let mut rows = Vec::new();
            while let Some(row) = stream.try_next().await? {
                rows.push((0..row.len()).map(|column| row.try_get(column)).collect::<Result<Row, _>>()?);
            }
            Ok::<_, tokio_postgres::Error>((rows, stream.rows_affected().unwrap_or_default()))
        })?;
        Ok(answer?)
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if !self.over && !self.session.is_closed() {
            // A connection that cannot even roll back is gone, and its transaction with it.
            drop(self.simple("ROLLBACK"));
        }
    }
}

/// A COPY that takes data. Dropping it makes the copy fail.
#[derive(Debug)]
pub struct CopyIn {
    chunks: Option<mpsc::Sender<Bytes>>,
    rows: std::sync::mpsc::Receiver<Result<Option<u64>, tokio_postgres::Error>>,
}

impl CopyIn {
    /// Sends some data.
    ///
    /// # Errors
    /// What the server said about earlier data.
    pub fn send(&mut self, chunk: impl Into<Bytes>) -> Result<(), Fault> {
        let chunk = chunk.into();
        if chunk.is_empty() {
            return Ok(());
        }
        let sent = match &self.chunks {
            Some(chunks) => pollster::block_on(chunks.send(chunk)).is_ok(),
            None => false,
        };
        if sent { Ok(()) } else { self.end().map(drop) }
    }

    /// Says that this was all. Returns the number of rows.
    pub fn finish(mut self) -> Result<u64, Fault> {
        if let Some(chunks) = &self.chunks {
            // What went wrong before is told by the end.
            drop(pollster::block_on(chunks.send(Bytes::new())));
        }
        self.end()
    }

    fn end(&mut self) -> Result<u64, Fault> {
        self.chunks = None;
        let answer = self.rows.recv().map_err(|_| Fault::Lost("the copy has ended".to_owned()))?;
        answer?.ok_or_else(|| Fault::Lost("the copy has ended".to_owned()))
    }
}

fn rows_of(messages: Vec<SimpleQueryMessage>) -> Vec<Row> {
    let rows = messages.into_iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some((0..row.len()).map(|column| row.get(column).map(str::to_owned)).collect()),
        _ => None,
    });
    rows.collect()
}
