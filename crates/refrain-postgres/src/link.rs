//! Where a database is and how it is reached.

use refrain_core::{Error, Result, without_password};
use std::fmt;
use std::str::FromStr;
use tokio_postgres::Config;
use tokio_postgres::config::Host;

/// How a database is reached.
#[derive(Clone)]
pub struct Link {
    config: Config,
    url: String,
}

impl Link {
    /// Reads `postgresql://…` or `postgres://…`.
    ///
    /// # Errors
    /// `invalid` when it cannot be read; the text is never shown with its password.
    pub fn parse(url: &str) -> Result<Self> {
        let config = Config::from_str(url).map_err(|error| {
            Error::invalid(format!("`{}` cannot be read: {error}", without_password(url)))
                .hint("write postgresql://USER@HOST:PORT/DATABASE")
        })?;
        Ok(Self { config, url: url.to_owned() })
    }

    /// Whether a text is one that [`parse`](Self::parse) is for.
    pub fn is_one(text: &str) -> bool {
        text.starts_with("postgresql://") || text.starts_with("postgres://")
    }

    /// The whole URL with its password, for the environment of a task only.
    pub fn secret_url(&self) -> &str {
        &self.url
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }
}

impl fmt::Display for Link {
    /// Host, port and database, without user and password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = match self.config.get_hosts().first() {
            Some(Host::Tcp(name)) => name.clone(),
            Some(Host::Unix(path)) => path.display().to_string(),
            None => "localhost".to_owned(),
        };
        let port = self.config.get_ports().first().copied().unwrap_or(5432);
        write!(f, "postgresql://{host}:{port}/{}", self.config.get_dbname().unwrap_or_default())
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Link({self})")
    }
}
