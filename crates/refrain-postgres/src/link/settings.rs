//! What the parameters of a connection say, with types.

use super::parameter::Treatment;
use super::values::Values;
use refrain_core::{Error, Result, nearest};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;
use tokio_postgres::config::ChannelBinding;

/// The port of PostgreSQL.
pub(crate) const PORT: u16 = 5432;

/// So long all tries of all hosts may take together, when `connect_timeout` says nothing.
const CONNECT: Duration = Duration::from_secs(10);
/// A server that is silent for so long is asked whether it is there …
const IDLE: Duration = Duration::from_secs(15);
/// … again after so long …
const INTERVAL: Duration = Duration::from_secs(5);
/// … and so often before it counts as lost.
const COUNT: u32 = 3;
/// What was sent and is not acknowledged for so long means that the connection is lost.
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);

/// How a database is reached, whole.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) places: Vec<Place>,
    pub(crate) user: String,
    pub(crate) database: String,
    /// The password, and where it was found.
    pub(crate) password: Option<(String, String)>,
    pub(crate) passfile: Option<PathBuf>,
    pub(crate) options: Option<String>,
    pub(crate) tls: Tls,
    pub(crate) channel_binding: ChannelBinding,
    pub(crate) keepalive: Option<Keepalive>,
    pub(crate) unacknowledged: Option<Duration>,
    pub(crate) timeout: Timeout,
    /// Whether the hosts are tried in any order.
    pub(crate) shuffled: bool,
}

/// One server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) host: Host,
    pub(crate) port: u16,
}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    /// The socket where the system's packages put it.
    Default,
    /// The socket in this directory.
    Directory(PathBuf),
    /// A host, and its address where that need not be looked up.
    Named(String, Option<IpAddr>),
}

/// How a silent connection is looked after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Keepalive {
    pub(crate) idle: Duration,
    pub(crate) interval: Duration,
    pub(crate) count: u32,
}

/// How long connecting may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timeout {
    /// All tries together.
    Together(Duration),
    /// Each try of an address.
    Each(Duration),
    Never,
}

/// How the connection is encrypted.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    pub(crate) mode: Mode,
    pub(crate) direct: bool,
    pub(crate) roots: Roots,
    pub(crate) revoked: Named,
    /// The client's own certificate and its key.
    pub(crate) certificate: Named,
    pub(crate) key: Named,
    pub(crate) certificate_mode: CertificateMode,
    /// Whether the server is told by which name it was looked for.
    pub(crate) indicated: bool,
    pub(crate) versions: Versions,
}

/// `sslmode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mode {
    Disable,
    Allow,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

/// The versions of TLS that are spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Versions {
    Both,
    Only12,
    Only13,
}

/// `sslcertmode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CertificateMode {
    Disable,
    Allow,
    Require,
}

/// A file that was named, or one that is used if it is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    Given(PathBuf),
    Usual(PathBuf),
    Nothing,
}

/// Which certificates are trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Roots {
    File(Named),
    System,
}

impl Settings {
    /// Reads what the parameters say.
    pub(super) fn read(values: &Values) -> Result<Self> {
        for (parameter, value) in values.all() {
            if let Treatment::Only(allowed, why) = parameter.treatment
                && !value.text.is_empty()
                && !allowed.contains(&value.text.to_ascii_lowercase().as_str())
            {
                return Err(
                    Error::invalid(format!("`{}` of {} cannot be honoured", parameter.name, value.source)).hint(why)
                );
            }
        }
        let user = match values.get("user") {
            Some(user) => user.to_owned(),
            None => super::environment::user_name().ok_or_else(|| {
                Error::invalid("the name of the user is unknown").hint("name it: postgresql://USER@HOST/DATABASE")
            })?,
        };
        let attributes = ["any", "read-write", "read-only", "primary", "standby", "prefer-standby"];
        if let Some(standby @ ("read-only" | "standby")) = one_of(values, "target_session_attrs", &attributes)? {
            return Err(Error::invalid(format!(
                "target_session_attrs={standby} asks for a server that cannot be written to: what is published is \
                 decided on the primary"
            ))
            .hint("leave target_session_attrs away: of several hosts, one that can be written to is taken"));
        }
        Ok(Self {
            places: places(values)?,
            database: values.get("dbname").unwrap_or(&user).to_owned(),
            user,
            password: values.sourced("password").map(|value| (value.text.clone(), value.source.to_string())),
            passfile: values
                .get("passfile")
                .map(PathBuf::from)
                .or_else(|| values.home().map(|home| home.join(".pgpass"))),
            options: values.get("options").map(str::to_owned),
            tls: tls(values)?,
            channel_binding: match one_of(values, "channel_binding", &["disable", "prefer", "require"])? {
                Some("disable") => ChannelBinding::Disable,
                Some("require") => ChannelBinding::Require,
                _ => ChannelBinding::Prefer,
            },
            keepalive: keepalive(values)?,
            unacknowledged: match number(values, "tcp_user_timeout")? {
                None => Some(UNACKNOWLEDGED),
                Some(milliseconds) => Some(Duration::from_millis(milliseconds)).filter(|limit| !limit.is_zero()),
            },
            timeout: match number(values, "connect_timeout")? {
                None => Timeout::Together(CONNECT),
                Some(0) => Timeout::Never,
                Some(seconds) => Timeout::Each(Duration::from_secs(seconds)),
            },
            shuffled: one_of(values, "load_balance_hosts", &["disable", "random"])? == Some("random"),
        })
    }
}

fn places(values: &Values) -> Result<Vec<Place>> {
    let list = |name| values.get(name).map(|text| text.split(',').map(str::trim).collect::<Vec<_>>());
    let (hosts, addresses, ports) = (list("host"), list("hostaddr"), list("port").unwrap_or_default());
    let count = hosts.as_ref().or(addresses.as_ref()).map_or(1, Vec::len);
    let counted = |number: usize, what: &str| {
        Error::invalid(format!("{number} {what} are given for {count} {}", if count == 1 { "host" } else { "hosts" }))
            .hint("give as many as hosts, in their order; an empty one between the commas is the usual one")
    };
    if let Some(addresses) = addresses.as_ref().filter(|addresses| addresses.len() != count) {
        return Err(counted(addresses.len(), "addresses (hostaddr)"));
    }
    if ports.len() > 1 && ports.len() != count {
        return Err(counted(ports.len(), "ports"));
    }
    let at = |list: &Option<Vec<&str>>, index: usize| {
        list.as_ref().and_then(|list| list.get(index).copied()).unwrap_or_default().to_owned()
    };
    (0..count)
        .map(|index| {
            let host = host(&at(&hosts, index), &at(&addresses, index))?;
            let port = match ports.get(index).or(ports.first().filter(|_| ports.len() == 1)).copied() {
                None | Some("") => PORT,
                Some(text) => text.parse().ok().filter(|port| *port > 0).ok_or_else(|| {
                    Error::invalid(format!("`{}` is no number of a port", text.escape_debug()))
                        .hint("a port is between 1 and 65535; PostgreSQL's own is 5432")
                })?,
            };
            Ok(Place { host, port })
        })
        .collect()
}

fn host(name: &str, address: &str) -> Result<Host> {
    let address: Option<IpAddr> = match address {
        "" => None,
        text => Some(text.parse().map_err(|_| {
            Error::invalid(format!("the hostaddr `{}` is no IP address", text.escape_debug()))
                .hint("names of hosts belong into `host`")
        })?),
    };
    Ok(match (name, address) {
        ("", None) => Host::Default,
        ("", Some(address)) => Host::Named(address.to_string(), Some(address)),
        (name, None) if name.starts_with('/') => Host::Directory(PathBuf::from(name)),
        (name, _) if name.starts_with('@') => {
            return Err(Error::invalid("a socket in the abstract namespace (host=@…) cannot be connected to")
                .hint("name the directory of a socket (unix_socket_directories), or a host"));
        }
        (name, address) => Host::Named(name.to_owned(), address),
    })
}

fn tls(values: &Values) -> Result<Tls> {
    let usual = |name: &str| match values.home() {
        Some(home) => Named::Usual(home.join(".postgresql").join(name)),
        None => Named::Nothing,
    };
    let file = |name: &str, or: Named| values.get(name).map_or(or, |path| Named::Given(PathBuf::from(path)));
    let system = values.get("sslrootcert") == Some("system");
    let modes = ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"];
    let mode = match one_of(values, "sslmode", &modes)? {
        Some("disable") => Mode::Disable,
        Some("allow") => Mode::Allow,
        Some("require") => Mode::Require,
        Some("verify-ca") => Mode::VerifyCa,
        Some("verify-full") => Mode::VerifyFull,
        None if system => Mode::VerifyFull,
        _ => Mode::Prefer,
    };
    if system && mode < Mode::VerifyFull {
        return Err(Error::invalid(
            "sslrootcert=system trusts every server that anybody certified: the name must be checked, too",
        )
        .hint("write sslmode=verify-full with it"));
    }
    let direct = one_of(values, "sslnegotiation", &["postgres", "direct"])? == Some("direct");
    if direct && mode < Mode::Require {
        return Err(Error::invalid("sslnegotiation=direct needs a connection that is encrypted in any case")
            .hint("write sslmode=require, verify-ca or verify-full with it"));
    }
    let versions = ["TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3"];
    let least = one_of(values, "ssl_min_protocol_version", &versions)?;
    let most = one_of(values, "ssl_max_protocol_version", &versions)?;
    let versions = match (least, most) {
        (_, Some("TLSv1" | "TLSv1.1")) | (Some("TLSv1.3"), Some("TLSv1.2")) => {
            return Err(Error::invalid("no version of TLS is left: only 1.2 and 1.3 are spoken")
                .hint("leave ssl_min_protocol_version and ssl_max_protocol_version away"));
        }
        (_, Some("TLSv1.2")) => Versions::Only12,
        (Some("TLSv1.3"), _) => Versions::Only13,
        _ => Versions::Both,
    };
    Ok(Tls {
        mode,
        direct,
        roots: if system { Roots::System } else { Roots::File(file("sslrootcert", usual("root.crt"))) },
        revoked: file("sslcrl", usual("root.crl")),
        certificate: file("sslcert", usual("postgresql.crt")),
        key: file("sslkey", usual("postgresql.key")),
        certificate_mode: match one_of(values, "sslcertmode", &["disable", "allow", "require"])? {
            Some("disable") => CertificateMode::Disable,
            Some("require") => CertificateMode::Require,
            _ => CertificateMode::Allow,
        },
        indicated: one_of(values, "sslsni", &["0", "1"])? != Some("0"),
        versions,
    })
}

fn keepalive(values: &Values) -> Result<Option<Keepalive>> {
    let seconds = |name, usual| -> Result<Duration> {
        // As for libpq, 0 is what is usual.
        Ok(number(values, name)?.filter(|seconds| *seconds > 0).map_or(usual, Duration::from_secs))
    };
    let keepalive = Keepalive {
        idle: seconds("keepalives_idle", IDLE)?,
        interval: seconds("keepalives_interval", INTERVAL)?,
        count: number(values, "keepalives_count")?
            .filter(|count| *count > 0)
            .and_then(|count| u32::try_from(count).ok())
            .unwrap_or(COUNT),
    };
    Ok(if number(values, "keepalives")? == Some(0) { None } else { Some(keepalive) })
}

/// A parameter that is a number; a negative one is 0, as for libpq.
fn number(values: &Values, name: &'static str) -> Result<Option<u64>> {
    let Some(value) = values.sourced(name) else { return Ok(None) };
    let number: i32 = value.text.trim().parse().map_err(|_| {
        Error::invalid(format!("{name} of {} is no whole number: `{}`", value.source, value.text.escape_debug()))
    })?;
    Ok(Some(u64::try_from(number).unwrap_or_default()))
}

/// A parameter that is one of some words.
fn one_of(values: &Values, name: &'static str, known: &[&'static str]) -> Result<Option<&'static str>> {
    let Some(value) = values.sourced(name) else { return Ok(None) };
    if let Some(word) = known.iter().find(|word| word.eq_ignore_ascii_case(&value.text)) {
        return Ok(Some(word));
    }
    let error = Error::invalid(format!("{name} of {} cannot be `{}`", value.source, value.text.escape_debug()));
    Err(match nearest(&value.text, known.iter().copied()) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error.hint(format!("it is one of {}", known.join(", "))),
    })
}
