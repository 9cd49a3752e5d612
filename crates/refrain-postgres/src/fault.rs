//! What can go wrong between us and a server.

use refrain_core::{Error, ErrorKind};
use std::fmt;
use tokio_postgres::error::{DbError, ErrorPosition};

/// A failure of a session.
#[derive(Debug)]
pub enum Fault {
    /// The server refused a statement. The transaction is over.
    Refused(Box<Refusal>),
    /// The connection was lost, or could not be made. What was sent before may have been done.
    Lost(String),
    /// No statement was sent: a setting or a certificate is wrong (`invalid`), or no server could be connected to that may
    /// be written to (`unavailable`).
    Invalid(Error),
}

/// What the server said (<https://www.postgresql.org/docs/current/protocol-error-fields.html>).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    /// SQLSTATE, five characters (<https://www.postgresql.org/docs/current/errcodes-appendix.html>).
    pub code: String,
    /// The message.
    pub message: String,
    /// More of it.
    pub detail: Option<String>,
    /// What may help.
    pub hint: Option<String>,
    /// Where it happened, such as `COPY stage, line 3, column delay: "x"`.
    pub context: Option<String>,
    /// The constraint it is about.
    pub constraint: Option<String>,
    /// The table it is about.
    pub table: Option<String>,
    /// The column it is about.
    pub column: Option<String>,
    /// The character of the statement it is about, counted from 1.
    pub position: Option<u32>,
}

impl Fault {
    /// SQLSTATE of what the server said; nothing when it said nothing.
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Refused(refusal) => Some(&refusal.code),
            Self::Lost(_) | Self::Invalid(_) => None,
        }
    }

    /// Whether another try may succeed: the connection was lost, the server shuts down or starts, a lock was not to be
    /// had, a deadlock or a failure of serialization.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Lost(_) => true,
            Self::Invalid(error) => error.kind == ErrorKind::Unavailable,
            Self::Refused(refusal) => {
                let class = refusal.code.get(..2).unwrap_or_default();
                // 55P03: a lock was not to be had. 25P03: a pause of ours was too long, and the server has ended the session.
                matches!(class, "08" | "40" | "53" | "57") || matches!(&*refusal.code, "55P03" | "25P03")
            }
        }
    }

    /// The failure as an error that names what was being done.
    pub fn during(self, what: impl fmt::Display) -> Error {
        match self {
            Self::Invalid(error) => error.within(what),
            Self::Lost(why) => {
                Error::new(ErrorKind::Unavailable, format!("{what}: the database cannot be reached: {why}"))
                    .hint("look whether the server runs and can be reached, then repeat the call")
            }
            Self::Refused(refusal) => refusal.during(what),
        }
    }
}

impl Refusal {
    fn during(self: Box<Self>, what: impl fmt::Display) -> Error {
        let kind = match self.code.get(..2).unwrap_or_default() {
            "08" | "40" | "53" | "57" => ErrorKind::Unavailable,
            "55" | "25" if matches!(&*self.code, "55P03" | "25P03") => ErrorKind::Unavailable,
            _ => ErrorKind::Invalid,
        };
        let error = Error::new(kind, format!("{what}: {self}"));
        let function = self.context.as_deref().and_then(function_in);
        if let (Some(function), "42P01" | "42883" | "42704" | "3F000") = (function, &*self.code) {
            return error.hint(format!(
                "a trigger or a default of the table calls {function}, and names are looked for in pg_catalog alone here: name the \
                 schema in it, or ALTER FUNCTION {function} SET search_path = SCHEMA"
            ));
        }
        let usual = match &*self.code {
            "42501" if self.message.contains("row-level security") => Some(
                "publish as a role from which no policy hides rows: the table's owner, or one with BYPASSRLS; or let a policy \
                 admit all rows of the output",
            ),
            "22021" if self.message.contains("0x00") => {
                Some("PostgreSQL stores no NUL characters in texts: leave them out in the task")
            }
            "42501" => Some("let the owner grant the right; docs/POSTGRESQL.md says which are needed"),
            code if code.starts_with("22") => {
                Some("a value is none of its column's type: compare refrain.toml (`where`) and the rows with the table")
            }
            _ => None,
        };
        match self.hint.or_else(|| usual.map(str::to_owned)) {
            Some(hint) => error.hint(hint),
            None => error,
        }
    }
}

/// The function in which a statement failed, as the server tells it: `PL/pgSQL function public.log() line 3 at …`.
fn function_in(context: &str) -> Option<&str> {
    let (_, rest) = context.split_once("PL/pgSQL function ")?;
    Some(rest.split_once(" line ")?.0)
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(detail) = &self.detail {
            write!(f, ": {detail}")?;
        }
        write!(f, " (SQLSTATE {})", self.code)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => refusal.fmt(f),
            Self::Lost(why) => f.write_str(why),
            Self::Invalid(error) => error.fmt(f),
        }
    }
}

impl From<&DbError> for Refusal {
    fn from(server: &DbError) -> Self {
        let own = |text: Option<&str>| text.map(str::to_owned);
        Self {
            code: server.code().code().to_owned(),
            message: server.message().to_owned(),
            detail: own(server.detail()),
            hint: own(server.hint()),
            context: own(server.where_()),
            constraint: own(server.constraint()),
            table: own(server.table()),
            column: own(server.column()),
            position: match server.position() {
                Some(ErrorPosition::Original(position)) => Some(*position),
                Some(ErrorPosition::Internal { .. }) | None => None,
            },
        }
    }
}

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Self {
        if let Some(server) = error.as_db_error() {
            return Self::Refused(Box::new(Refusal::from(server)));
        }
        let mut why = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            why.push_str(": ");
            why.push_str(&cause.to_string());
            source = cause.source();
        }
        Self::Lost(why)
    }
}

impl From<std::io::Error> for Fault {
    fn from(error: std::io::Error) -> Self {
        Self::Lost(error.to_string())
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Invalid(error)
    }
}
