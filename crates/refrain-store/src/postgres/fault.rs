//! What can go wrong with the database, and what the caller is told.

use crate::stored::Unreadable;
use refrain_core::{Error, ErrorKind};
use refrain_postgres::Link;

/// A failure inside the store, before the database's name is put to it.
#[derive(Debug)]
pub(super) enum Fault {
    /// The server, or the way to it.
    Session(refrain_postgres::Fault),
    /// The answer of a commit was lost: it may be committed or not.
    Unknown(String),
    /// A stored text is not what this program writes.
    Text(Unreadable),
    /// The database has no tables of a store.
    Absent,
    /// It has them, but no store was ever begun in them.
    Unnamed,
    /// This role may not do what is needed, and a database administrator can: the server's own words.
    Forbidden { role: String, why: String },
    /// Has its message already.
    Core(Error),
}

/// SQLSTATE of a relation or schema that is not there.
const UNDEFINED: [&str; 2] = ["42P01", "3F000"];
/// SQLSTATE of tables that are not as a store's are: a column is missing, of another type or cannot be filled in, a table is
/// there already, a conflict has no index.
const FOREIGN: [&str; 6] = ["42703", "42883", "42804", "42P07", "42P10", "23502"];
/// SQLSTATE of a role that may not.
pub(super) const FORBIDDEN: &str = "42501";
/// SQLSTATE of a transaction that the server ended because this process stood still in it.
const FROZEN: &str = "25P03";
/// SQLSTATE of a text that is too long for an index.
const TOO_LONG: &str = "54000";

impl Fault {
    /// Whether another try may succeed. Every method of the store may be repeated, also when the first try was done
    /// without our knowing.
    pub(super) fn is_passing(&self) -> bool {
        match self {
            Self::Session(fault) => fault.is_passing() || fault.code() == Some(FROZEN),
            Self::Unknown(_) => true,
            Self::Text(_) | Self::Absent | Self::Unnamed | Self::Forbidden { .. } | Self::Core(_) => false,
        }
    }

    /// Whether the server has said that the store's tables are not there.
    pub(super) fn is_absent(&self) -> bool {
        match self {
            Self::Absent => true,
            Self::Session(fault) => fault.code().is_some_and(|code| UNDEFINED.contains(&code)),
            _ => false,
        }
    }

    /// The error for the caller.
    pub(super) fn at(self, link: &Link) -> Error {
        let absent = || {
            Error::invalid(format!("there is no state store in {link}")).hint(
                "if there was one, put a backup of schema `refrain` back and run `refrain store restored`, or give it up: \
                 `refrain init` says how; if there never was one, `refrain init` makes it",
            )
        };
        match self {
            fault if fault.is_absent() => absent(),
            Self::Absent | Self::Unnamed => absent(),
            Self::Core(error) => error,
            Self::Text(Unreadable { what, source }) => {
                Error::corrupt(format!("{what} in the state store {link} cannot be read")).because(source).hint(
                    "heads and publications are safe in the sinks. Put a backup of schema `refrain` in its place and \
                     run `refrain store restored`",
                )
            }
            Self::Unknown(why) => {
                Error::new(ErrorKind::Unavailable, format!("the state store {link} did not answer: {why}"))
                    .hint("look whether the server runs and can be reached, then repeat the call")
            }
            Self::Forbidden { role, why } => {
                let plain = role.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
                let role_word = if plain { role.clone() } else { format!("'{}'", role.replace('\'', "'\\''")) };
                Error::invalid(format!("role `{role}` may not use the state store {link}: {why}")).hint(format!(
                    "a database administrator makes the tables and GRANTs their use, once: refrain store sql {role_word} | \
                     psql {}",
                    link.database()
                ))
            }
            Self::Session(fault) if fault.code().is_some_and(|code| FOREIGN.contains(&code)) => {
                let error =
                    fault.during(format!("schema `refrain` in {link} has a table that is none of a state store"));
                error.hint(
                    "look at it (psql: \\d refrain.*); rename it, or give the state store a database of its own: CREATE \
                     DATABASE …, then `store` in refrain.toml",
                )
            }
            Self::Session(fault) if fault.code() == Some(TOO_LONG) => {
                fault.during(format!("the state store {link}: a partition's name is too long"))
            }
            Self::Session(fault) => fault.during(format!("the state store {link}")),
        }
    }
}

impl From<refrain_postgres::Fault> for Fault {
    fn from(fault: refrain_postgres::Fault) -> Self {
        Self::Session(fault)
    }
}

impl From<Unreadable> for Fault {
    fn from(unreadable: Unreadable) -> Self {
        Self::Text(unreadable)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Core(error)
    }
}
