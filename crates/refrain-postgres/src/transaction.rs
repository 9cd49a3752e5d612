//! One transaction: all that is ever said to a server.

use crate::fault::Fault;
use crate::session::Session;
use bytes::{Bytes, BytesMut};
use futures_util::{FutureExt, SinkExt, TryStreamExt};
use refrain_core::{Error, ErrorKind};
use std::fmt::Write;
use std::pin::pin;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_postgres::SimpleQueryMessage;
use tokio_postgres::error::Severity;
use tokio_postgres::types::Type;

/// A row of texts, column by column; nothing for NULL.
pub type Row = Vec<Option<String>>;

/// So many chunks of COPY wait for the server at most.
const CHUNKS: usize = 4;

/// Smaller pieces of a COPY are gathered until they are as large: each chunk wakes the driver once.
const CHUNK_BYTES: usize = 64 * 1024;

/// The server ends a statement that takes too long, and says so; an answer that has not come so much later will not come.
const MARGIN: Duration = Duration::from_secs(10);

/// A transaction begins and is rolled back at once, but for a pooler that has no connection to give: PgBouncer's own limit
/// (`query_wait_timeout`) is 2 minutes.
const TURN: Duration = Duration::from_secs(150);

/// How long a transaction may take. Set for the transaction alone, so that a pooler hands nothing on (PGX-13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// For one lock.
    pub lock: Duration,
    /// For one statement; nothing: no limit. An answer is waited for 10 seconds longer, then the connection counts as lost.
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
    /// For one answer.
    limit: Option<Duration>,
    /// A COPY may still be on its way.
    has_copied: bool,
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
        let sql = format!("BEGIN {mode}; {}", settings(limits));
        let mut transaction = Self { session, over: false, limit: Some(TURN), has_copied: false };
        match transaction.simple(&sql) {
            // A standby refuses READ WRITE, and nothing else of this is refused so.
            Err(Fault::Refused(refusal)) if refusal.code == "0A000" => {
                return Err(Fault::Invalid(
                    Error::new(
                        ErrorKind::Unavailable,
                        format!(
                            "{} is a standby: what is published is decided on the primary",
                            transaction.session.link()
                        ),
                    )
                    .hint("name the primary, or all hosts (HOST1,HOST2): the one that can be written to is taken"),
                ));
            }
            answer => answer?,
        };
        transaction.limit = answer_within(limits);
        Ok(transaction)
    }

    /// Sets again what a transaction begins with, after statements of others that may have changed it.
    pub fn settle(&mut self, limits: &Limits) -> Result<(), Fault> {
        self.limit = answer_within(limits);
        self.simple(&settings(limits)).map(drop)
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
        let messages = self.session.ask(self.limit, async move { client.simple_query(&sql).await })??;
        Ok(rows_of(messages))
    }

    /// Begins to copy into a table: `sql` is a COPY … FROM STDIN.
    pub fn copy_in(&mut self, sql: &str) -> Result<CopyIn, Fault> {
        let client = self.session.client();
        let sql = sql.to_owned();
        self.has_copied = true;
        let (chunks, mut queue) = mpsc::channel::<Bytes>(CHUNKS);
        let (done, rows) = std::sync::mpsc::sync_channel(1);
        crate::driver::spawn(async move {
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
        Ok(CopyIn { gathered: BytesMut::new(), chunks: Some(chunks), rows })
    }

    /// Commits. `question` is asked in the same message, right after it: what it selects is the proof.
    ///
    /// A COMMIT of a transaction that has failed, or that is none any more, would be answered like any other (PGX-02).
    /// So a savepoint goes before it, which the server refuses in both cases.
    ///
    /// # Errors
    /// What the server said, and then nothing is committed: the transaction had failed before (25P02), there was none
    /// (25P01), or the COMMIT itself failed, by a deferred constraint for example. A lost answer is
    /// [`Committed::Unknown`] (PGX-01), and so is a question that failed after a COMMIT that did not.
    pub fn commit(mut self, question: &str) -> Result<Committed, Fault> {
        let client = self.session.client();
        let sql = format!("SAVEPOINT refrain_commit; COMMIT; {question}");
        let answer = self.session.ask(self.limit, async move {
            let mut messages = Vec::new();
            let end = async {
                let mut stream = pin!(client.simple_query_raw(&sql).await?);
                while let Some(message) = stream.try_next().await? {
                    messages.push(message);
                }
                Ok::<_, tokio_postgres::Error>(())
            };
            let end = end.await;
            (messages, end)
        });
        let (messages, end) = match answer {
            Ok(answer) => answer,
            // It was sent, and the server may have done it by now or do it later.
            Err(fault) => {
                self.over = true;
                return Ok(Committed::Unknown(fault.to_string()));
            }
        };
        let Err(error) = end else {
            self.over = true;
            return Ok(Committed::Yes(rows_of(messages)));
        };
        // Of the savepoint, of the COMMIT, of the question.
        let completed =
            messages.iter().filter(|message| matches!(message, SimpleQueryMessage::CommandComplete(_))).count();
        // Only an ERROR of the server itself tells that it went on after the failure, and so what it did.
        let definite = error.as_db_error().is_some_and(|server| {
            server.parsed_severity() == Some(Severity::Error) && !is_doubtful(server.code().code())
        });
        // After a failed savepoint the transaction still has to be rolled back.
        self.over = completed > 0 || !definite;
        if definite && completed < 2 {
            Err(error.into())
        } else {
            Ok(Committed::Unknown(Fault::from(error).to_string()))
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
        let answer = self.session.ask(self.limit, async move {
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
        if self.over || self.session.is_closed() {
            return;
        }
        // A connection that cannot even roll back is gone, and its transaction with it.
        if self.has_copied {
            drop(self.simple("ROLLBACK"));
        } else {
            // It is on its way before whatever follows, and needs no answer.
            drop(self.session.client().simple_query("ROLLBACK").now_or_never());
        }
    }
}

/// A COPY that takes data. Dropping it makes the copy fail.
#[derive(Debug)]
pub struct CopyIn {
    gathered: BytesMut,
    chunks: Option<mpsc::Sender<Bytes>>,
    rows: std::sync::mpsc::Receiver<Result<Option<u64>, tokio_postgres::Error>>,
}

impl CopyIn {
    /// Sends some data; waits while the server has enough to do. Pieces may be of any size.
    ///
    /// # Errors
    /// What the server said about earlier data.
    pub fn send(&mut self, chunk: impl Into<Bytes>) -> Result<(), Fault> {
        let chunk = chunk.into();
        if self.gathered.is_empty() && chunk.len() >= CHUNK_BYTES {
            return self.pass_on(chunk);
        }
        if self.gathered.capacity() == 0 {
            self.gathered.reserve(CHUNK_BYTES + chunk.len());
        }
        self.gathered.extend_from_slice(&chunk);
        if self.gathered.len() < CHUNK_BYTES {
            return Ok(());
        }
        let gathered = std::mem::take(&mut self.gathered).freeze();
        self.pass_on(gathered)
    }

    /// Says that this was all. Returns the number of rows.
    pub fn finish(mut self) -> Result<u64, Fault> {
        if !self.gathered.is_empty() {
            let gathered = std::mem::take(&mut self.gathered).freeze();
            self.pass_on(gathered)?;
        }
        if let Some(chunks) = &self.chunks {
            // What went wrong before is told by the end.
            drop(pollster::block_on(chunks.send(Bytes::new())));
        }
        self.end()
    }

    fn pass_on(&mut self, chunk: Bytes) -> Result<(), Fault> {
        let sent = match &self.chunks {
            Some(chunks) => pollster::block_on(chunks.send(chunk)).is_ok(),
            None => false,
        };
        if sent { Ok(()) } else { self.end().map(drop) }
    }

    fn end(&mut self) -> Result<u64, Fault> {
        self.chunks = None;
        let answer = self.rows.recv().map_err(|_| Fault::Lost("the copy has ended".to_owned()))?;
        answer?.ok_or_else(|| Fault::Lost("the copy has ended".to_owned()))
    }
}

/// How long one answer is waited for.
fn answer_within(limits: &Limits) -> Option<Duration> {
    limits.statement.map(|statement| statement.max(limits.lock) + MARGIN)
}

/// What holds for one transaction.
fn settings(limits: &Limits) -> String {
    // What a text means must not depend on the role's defaults: neither a time without a zone nor a date with slashes.
    let mut sql = String::from(
        "SET LOCAL search_path = pg_catalog, pg_temp; SET LOCAL timezone = 'UTC'; SET LOCAL datestyle = 'ISO, MDY'; \
         SET LOCAL intervalstyle = 'postgres'; ",
    );
    let mut limit = |name: &str, value: Duration| {
        let _infallible = write!(sql, "SET LOCAL {name} = {}; ", value.as_millis());
    };
    limit("lock_timeout", limits.lock);
    limit("statement_timeout", limits.statement.unwrap_or_default());
    limit("idle_in_transaction_session_timeout", limits.idle);
    // An acknowledged commit must be on the disk, whatever the role's default says (PGX-17).
    sql.push_str(
        "SELECT pg_catalog.set_config('synchronous_commit', 'on', true) \
         WHERE pg_catalog.current_setting('synchronous_commit') = 'off'",
    );
    sql
}

/// Whether a code says that the server itself does not know (`statement_completion_unknown`), or that the connection to it
/// failed behind a pooler.
fn is_doubtful(code: &str) -> bool {
    code == "40003" || code.starts_with("08")
}

fn rows_of(messages: Vec<SimpleQueryMessage>) -> Vec<Row> {
    let rows = messages.into_iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some((0..row.len()).map(|column| row.get(column).map(str::to_owned)).collect()),
        _ => None,
    });
    rows.collect()
}
