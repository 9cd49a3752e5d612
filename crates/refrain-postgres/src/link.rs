//! Where a database is and how it is reached.

mod environment;
mod parameter;
mod passfile;
mod service;
mod settings;
mod text;
mod values;

pub use environment::Environment;
pub(crate) use passfile::{Passwords, Wanted};
#[cfg(test)]
use settings::Keepalive;
pub(crate) use settings::{CertificateMode, Host, Mode, Named, Place, Roots, Settings, Timeout, Tls, Versions};

use refrain_core::Result;
use std::fmt::{self, Write};
use std::path::Path;
use std::sync::Arc;
use values::{Source, Values};

/// How a database is reached, as libpq reads it
/// (<https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNSTRING>).
///
/// What the connection string leaves out is taken from the service that it or `PGSERVICE` names, then from the `PG*`
/// variables, then it is what is usual: the system's name of the user, a database of that name, the socket where the
/// system's packages put it. The password file is read when a connection is opened.
///
/// `Display` and `Debug` show hosts, ports and the database; never a user or a password.
#[derive(Clone)]
pub struct Link {
    settings: Arc<Settings>,
    url: Arc<str>,
}

impl Link {
    /// Reads `postgresql://…`, `postgres://…` or `name=value …`, and fills in what it leaves out from this process's
    /// environment.
    ///
    /// # Errors
    /// `invalid`, without showing the text: it cannot be read, a parameter is unknown or cannot be honoured, a service
    /// is unknown.
    pub fn parse(text: &str) -> Result<Self> {
        Self::resolve(text, &environment::of_this_process)
    }

    /// As [`parse`](Self::parse) with another environment. `HOME` tells where `.pgpass`, `.pg_service.conf` and
    /// `.postgresql` are.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn resolve(text: &str, environment: &Environment<'_>) -> Result<Self> {
        let values = Values::gather(text, environment)?;
        let settings = Settings::read(&values)?;
        let url = match text::after_scheme(text) {
            // SQLAlchemy knows this scheme only.
            Some(rest) => format!("postgresql://{rest}"),
            None => url(&settings, &values),
        };
        Ok(Self { settings: Arc::new(settings), url: url.into() })
    }

    /// Whether a text is a URL that [`parse`](Self::parse) is for.
    pub fn is_one(text: &str) -> bool {
        text::after_scheme(text).is_some()
    }

    /// The whole URL with its password, for the environment of a task only: the user's own where it was one, else one of
    /// what the text and its service say. What comes from the environment or the password file is found there by the
    /// task, too.
    pub fn secret_url(&self) -> &str {
        &self.url
    }

    /// The database's own name.
    pub fn database(&self) -> &str {
        &self.settings.database
    }

    /// The role that sessions are of.
    pub fn user(&self) -> &str {
        &self.settings.user
    }

    pub(crate) fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }
}

impl fmt::Display for Link {
    /// Hosts, ports and database, without user and password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown(&self.settings.places, &self.settings.database))
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Link({self})")
    }
}

impl fmt::Display for Place {
    /// For messages: `host:port`, or the path of a socket.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Default => write!(f, "the local socket of port {}", self.port),
            Host::Directory(directory) => write!(f, "{}", socket(directory, self.port).display()),
            Host::Named(name, _) => write!(f, "{}:{}", bracketed(name), self.port),
        }
    }
}

/// Where a server of that port listens in a directory.
pub(crate) fn socket(directory: &Path, port: u16) -> std::path::PathBuf {
    directory.join(format!(".s.PGSQL.{port}"))
}

/// A URL that shows places and database.
pub(crate) fn shown(places: &[Place], database: &str) -> String {
    let (authority, query) = authority(places);
    let mut url = format!("postgresql://{authority}/{database}");
    for (index, (name, value)) in query.iter().enumerate() {
        let _infallible = write!(url, "{}{name}={value}", if index == 0 { '?' } else { '&' });
    }
    url
}

/// The hosts as the authority of a URL, and what of one socket stands in its query instead.
fn authority(places: &[Place]) -> (String, Vec<(&'static str, String)>) {
    if let [Place { host: host @ (Host::Default | Host::Directory(_)), port }] = places {
        let mut query = vec![];
        if let Host::Directory(directory) = host {
            query.push(("host", directory.display().to_string()));
        }
        if *port != settings::PORT {
            query.push(("port", port.to_string()));
        }
        return (String::new(), query);
    }
    let places = places.iter().map(|Place { host, port }| match host {
        Host::Default => format!(":{port}"),
        Host::Directory(directory) => format!("{}:{port}", text::encoded(&directory.display().to_string())),
        Host::Named(name, _) => format!("{}:{port}", bracketed(name)),
    });
    (places.collect::<Vec<_>>().join(","), vec![])
}

/// A host as it stands before a port.
fn bracketed(name: &str) -> String {
    if name.contains(':') { format!("[{name}]") } else { name.to_owned() }
}

/// The URL of what a text of names and values, and its service, say.
fn url(settings: &Settings, values: &Values) -> String {
    let (hosts, mut query) = authority(&settings.places);
    let mut url = format!("postgresql://{}", text::encoded(&settings.user));
    for (parameter, value) in values.all() {
        match parameter.name {
            _ if matches!(value.source, Source::Variable(_)) => {}
            "password" => {
                let _infallible = write!(url, ":{}", text::encoded(&value.text));
            }
            "host" | "port" | "dbname" | "user" | "service" | "servicefile" => {}
            name => query.push((name, value.text.clone())),
        }
    }
    let _infallible = write!(url, "@{hosts}/{}", text::encoded(&settings.database));
    for (index, (name, value)) in query.iter().enumerate() {
        let _infallible = write!(url, "{}{name}={}", if index == 0 { '?' } else { '&' }, text::encoded(value));
    }
    url
}

#[cfg(test)]
mod tests;
