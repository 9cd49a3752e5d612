//! What it means when a connection cannot be opened, for a person.

use crate::connect::password;
use crate::fault::{Fault, Refusal};
use crate::link::{Host, Mode, Passwords, Place, Settings};
use crate::tls;
use refrain_core::{Error, ErrorKind};
use std::error::Error as StdError;
use std::io;

/// The server that would not let us in.
pub(crate) struct Explained<'e> {
    pub(crate) settings: &'e Settings,
    pub(crate) passwords: &'e Passwords,
    pub(crate) place: &'e Place,
}

impl Explained<'_> {
    /// Nobody answered in time.
    pub(crate) fn timed_out(&self) -> Fault {
        self.unavailable(
            "it did not answer in time",
            "look whether a firewall is between, or give it longer: connect_timeout=SECONDS",
        )
    }

    /// The host has no address.
    pub(crate) fn not_found(&self, error: &io::Error) -> Fault {
        self.unavailable(
            &format!("the host was not found: {error}"),
            "look at the spelling of the host, and at the name server (`getent hosts HOST`)",
        )
    }

    /// The server cannot be written to.
    pub(crate) fn standby(&self) -> Fault {
        self.unavailable("it is a standby", "name the primary, too")
    }

    /// The failure of a client that could not connect.
    pub(crate) fn fault(&self, error: &tokio_postgres::Error) -> Fault {
        if let Some(server) = error.as_db_error() {
            return self.refused(Refusal::from(server));
        }
        let root = root(error);
        if let Some(error) = of_rustls(error) {
            let (why, hint) = tls::what_failed(error);
            return self.invalid(&why, hint);
        }
        match error.to_string().as_str() {
            "invalid configuration" if root == "password missing" => self.invalid(
                &format!("it asks for a password of the user `{}`, {}", self.settings.user, self.password()),
                "set PGPASSWORD, or add a line HOST:PORT:DATABASE:USER:PASSWORD to ~/.pgpass (mode 0600)",
            ),
            "error performing TLS handshake" if root == "server does not support TLS" => self.invalid(
                "it does not speak TLS, and sslmode asks for it",
                "switch it on there (ssl = on), or write sslmode=prefer if the network is trusted",
            ),
            "authentication error" if root.contains("channel binding") => self.invalid(
                "it did not prove that it knows the password by the channel (channel_binding=require)",
                "use TLS and a password of scram-sha-256 there, or write channel_binding=prefer",
            ),
            "authentication error" => self.invalid(
                &format!("the authentication failed: {root}"),
                "passwords (scram-sha-256, md5, plain) and client certificates are spoken: see pg_hba.conf there",
            ),
            _ => self.of_the_network(error, &root),
        }
    }

    fn of_the_network(&self, error: &tokio_postgres::Error, root: &str) -> Fault {
        let by_socket = !matches!(self.place.host, Host::Named(..));
        let kind = causes(error).find_map(|cause| cause.downcast_ref::<io::Error>()).map(io::Error::kind);
        match kind {
            Some(io::ErrorKind::NotFound) if by_socket => self.unavailable(
                "there is no such socket",
                "look whether the server runs (`pg_lsclusters`), or name its host: postgresql://HOST:PORT/DATABASE",
            ),
            Some(io::ErrorKind::PermissionDenied) if by_socket => {
                self.invalid("its socket may not be used", "look at unix_socket_permissions there, or name its host")
            }
            Some(io::ErrorKind::ConnectionRefused) => self.unavailable(
                "nobody listens there (connection refused)",
                "look whether the server runs and listens there (`pg_lsclusters`; listen_addresses, port)",
            ),
            Some(io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable) => {
                self.unavailable("it cannot be reached from here", "look at the network: `ip route get ADDRESS`")
            }
            Some(io::ErrorKind::TimedOut) => self.timed_out(),
            _ if error.is_closed() || kind.is_some() => self.unavailable(
                &format!("it ended the connection ({root})"),
                "look at the server's log, then repeat the call",
            ),
            _ => self.unavailable(&format!("{error}: {root}"), "look at the server's log, then repeat the call"),
        }
    }

    /// What the server said, and who was to be let in where.
    fn refused(&self, mut refusal: Refusal) -> Fault {
        let (user, database) = (&self.settings.user, &self.settings.database);
        let said = |what: &str| refusal.message.contains(what);
        let hint = match refusal.code.as_str() {
            // PgBouncer's own words; it has one code for all it says.
            "08P01" if said("no such database") => {
                return self.invalid(
                    &format!("PgBouncer knows no database `{database}`"),
                    "add it to the section [databases] of pgbouncer.ini, then `RELOAD`",
                );
            }
            "08P01" if said("unsupported startup parameter") => {
                return self.invalid(
                    &refusal.message,
                    "leave `options` away (PGOPTIONS, too), or name it in ignore_startup_parameters of pgbouncer.ini",
                );
            }
            "08P01" if said("no such user") => {
                return self.invalid(&refusal.message, "add the user to auth_file of pgbouncer.ini, then `RELOAD`");
            }
            "28P01" => "mend the password where it was found; `psql -W` with the same host, database and user asks for one".to_owned(),
            "28000" if said("pg_hba.conf") && said("no encryption") && self.settings.tls.mode < Mode::Prefer => {
                "it may want TLS: write sslmode=require; else a line for this is missing in its pg_hba.conf".to_owned()
            }
            "28000" if said("pg_hba.conf") => {
                "have a line for this added to the server's pg_hba.conf (`SHOW hba_file` says where), then `SELECT pg_reload_conf()`".to_owned()
            }
            "28000" if said("does not exist") => format!("`createuser {user}` there, or name another user: PGUSER"),
            "28000" => "see the line of its pg_hba.conf; by the network (host=127.0.0.1) a password may be enough".to_owned(),
            "3D000" => format!("`createdb {database}` there, or name another database"),
            "42501" => format!("GRANT CONNECT ON DATABASE \"{database}\" TO \"{user}\""),
            "53300" => "wait until others have left, or raise max_connections there; a pooler (PgBouncer) helps, too".to_owned(),
            "57P03" => "wait until it has started, then repeat the call".to_owned(),
            _ => refusal.hint.take().unwrap_or_else(|| "look at the server's log".to_owned()),
        };
        let mut message = format!("{}: {}", self.place, refusal.message);
        if refusal.code.starts_with("28") {
            message.push_str(&format!(" (user `{user}`, database `{database}`; {})", self.password()));
        }
        refusal.message = message;
        refusal.hint = Some(hint);
        Fault::Refused(Box::new(refusal))
    }

    /// Where the password was looked for.
    fn password(&self) -> String {
        if let Some((_, source)) = password(self.settings, self.passwords, self.place) {
            return format!("the password is of {source}");
        }
        let mut looked = "no password was found: not in the connection string, not in PGPASSWORD".to_owned();
        match (self.passwords.ignored(), &self.settings.passfile) {
            (Some(ignored), _) => looked.push_str(&format!("; {ignored}")),
            (None, Some(file)) => looked.push_str(&format!(", not in `{}`", file.display())),
            (None, None) => {}
        }
        looked
    }

    fn unavailable(&self, why: &str, hint: &str) -> Fault {
        Fault::Invalid(Error::new(ErrorKind::Unavailable, format!("{}: {why}", self.place)).hint(hint))
    }

    fn invalid(&self, why: &str, hint: &str) -> Fault {
        Fault::Invalid(Error::invalid(format!("{}: {why}", self.place)).hint(hint))
    }
}

/// Whether the connection failed while it was to be encrypted.
pub(crate) fn is_of_tls(error: &tokio_postgres::Error) -> bool {
    of_rustls(error).is_some() || error.to_string() == "error performing TLS handshake"
}

fn of_rustls(error: &tokio_postgres::Error) -> Option<&rustls::Error> {
    causes(error).find_map(|cause| {
        let inner = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        cause.downcast_ref().or_else(|| inner.and_then(|inner| inner.downcast_ref()))
    })
}

/// The innermost text of an error.
fn root(error: &tokio_postgres::Error) -> String {
    causes(error).last().map_or_else(|| error.to_string(), ToString::to_string)
}

fn causes(error: &tokio_postgres::Error) -> impl Iterator<Item = &(dyn StdError + 'static)> {
    std::iter::successors(error.source(), |cause| (*cause).source())
}
