//! Opening a connection: hosts, addresses, ways to encrypt, one after the other as libpq goes.

use crate::explain::Explained;
use crate::fault::Fault;
use crate::link::{Host, Mode, Passwords, Place, Settings, Timeout, Wanted, shown, socket};
use crate::tls;
use refrain_core::{Error, ErrorKind};
use std::collections::hash_map::RandomState;
use std::future::Future;
use std::hash::BuildHasher;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};
use tokio_postgres::config::{SslMode, SslNegotiation};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage};
use tokio_postgres_rustls::MakeRustlsConnect;

/// Where the system's packages put the sockets: Debian's, then the one that PostgreSQL is built with.
pub(crate) const DIRECTORIES: [&str; 2] = ["/var/run/postgresql", "/tmp"];

/// A connection, and the task that reads and writes it.
pub(crate) struct Connected {
    pub(crate) client: Client,
    pub(crate) connection: AbortHandle,
}

/// Everything that is needed to connect, read before the first packet is sent.
pub(crate) struct Order {
    settings: Arc<Settings>,
    name: String,
    passwords: Passwords,
    tls: Option<MakeRustlsConnect>,
}

/// How a connection begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Plain,
    PerhapsTls,
    Tls,
}

impl Order {
    /// Reads the password file and the certificates.
    ///
    /// # Errors
    /// `invalid` when a certificate or a key is missing or cannot be used.
    pub(crate) fn new(settings: &Arc<Settings>, name: String) -> Result<Self, Error> {
        let passwords = match &settings.passfile {
            Some(place) if settings.password.is_none() => Passwords::read(place),
            _ => Passwords::default(),
        };
        let by_network = settings.places.iter().any(|place| matches!(place.host, Host::Named(..)));
        let tls =
            (by_network && settings.tls.mode > Mode::Disable).then(|| tls::connector(&settings.tls)).transpose()?;
        Ok(Self { settings: Arc::clone(settings), name, passwords, tls })
    }

    /// Connects to the first server that lets us in, and that may be written to when there are several.
    pub(crate) async fn connect(self) -> Result<Connected, Fault> {
        let mut places = self.settings.places.clone();
        if self.settings.shuffled {
            shuffle(&mut places);
        }
        let deadline = match self.settings.timeout {
            Timeout::Together(limit) => Some(Instant::now() + limit),
            Timeout::Each(_) | Timeout::Never => None,
        };
        let mut missed = Vec::new();
        for (index, place) in places.iter().enumerate() {
            // A server that does not answer leaves time for those after it.
            let share = |left: usize| {
                deadline.map(|deadline| {
                    deadline.saturating_duration_since(Instant::now()) / u32::try_from(left).unwrap_or(1)
                })
            };
            match self.try_place(place, share(places.len() - index)).await {
                Ok(connected) => return Ok(connected),
                Err(fault) if fault.is_passing() => missed.push((place, fault)),
                Err(fault) => return Err(fault),
            }
        }
        Err(self.nowhere(missed))
    }

    async fn try_place(&self, place: &Place, share: Option<Duration>) -> Result<Connected, Fault> {
        let explained = Explained { settings: &self.settings, passwords: &self.passwords, place };
        let addresses = match &place.host {
            Host::Named(_, Some(address)) => vec![*address],
            Host::Named(name, None) => within(share.or(self.each()), addresses(name, place.port))
                .await
                .map_err(|_| explained.timed_out())?
                .map_err(|error| explained.not_found(&error))?,
            Host::Default | Host::Directory(_) => {
                return self.try_address(place, None, share).await;
            }
        };
        let started = Instant::now();
        let mut last = explained.not_found(&std::io::Error::other("it has no address"));
        for (index, address) in addresses.iter().enumerate() {
            let left = u32::try_from(addresses.len() - index).unwrap_or(1);
            let share = share.map(|share| share.saturating_sub(started.elapsed()) / left);
            match self.try_address(place, Some(*address), share).await {
                Ok(connected) => return Ok(connected),
                Err(fault) if fault.is_passing() => last = fault,
                Err(fault) => return Err(fault),
            }
        }
        Err(last)
    }

    async fn try_address(
        &self,
        place: &Place,
        address: Option<IpAddr>,
        share: Option<Duration>,
    ) -> Result<Connected, Fault> {
        let explained = Explained { settings: &self.settings, passwords: &self.passwords, place };
        let connected = within(share.or(self.each()), async {
            let connected = self.try_ways(place, address).await?;
            if self.settings.places.len() > 1 && is_standby(&connected.client).await? {
                return Ok(None);
            }
            Ok::<_, tokio_postgres::Error>(Some(connected))
        });
        match connected.await {
            Ok(Ok(Some(connected))) => Ok(connected),
            Ok(Ok(None)) => Err(explained.standby()),
            Ok(Err(error)) => Err(explained.fault(&error)),
            Err(_) => Err(explained.timed_out()),
        }
    }

    /// Without TLS, with it, or with the other one after the server refused the first (`sslmode=allow`, `prefer`).
    async fn try_ways(&self, place: &Place, address: Option<IpAddr>) -> Result<Connected, tokio_postgres::Error> {
        let mode = if address.is_some() { self.settings.tls.mode } else { Mode::Disable };
        let (first, second) = match mode {
            Mode::Disable => (Way::Plain, None),
            Mode::Allow => (Way::Plain, Some(Way::Tls)),
            Mode::Prefer => (Way::PerhapsTls, Some(Way::Plain)),
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => (Way::Tls, None),
        };
        let error = match self.dial(place, address, first).await {
            Ok(connected) => return Ok(connected),
            Err(error) => error,
        };
        let refused = error.code() == Some(&SqlState::INVALID_AUTHORIZATION_SPECIFICATION);
        match second.filter(|way| refused || (*way == Way::Plain && crate::explain::is_of_tls(&error))) {
            // What the server said first is what a person expects to read.
            Some(way) => self.dial(place, address, way).await.map_err(|_| error),
            None => Err(error),
        }
    }

    async fn dial(&self, place: &Place, address: Option<IpAddr>, way: Way) -> Result<Connected, tokio_postgres::Error> {
        let config = self.config(place, address, way);
        match &self.tls {
            Some(tls) if way != Way::Plain => {
                let (client, connection) = config.connect(tls.clone()).await?;
                Ok(Connected { client, connection: attend(connection) })
            }
            _ => {
                let (client, connection) = config.connect(NoTls).await?;
                Ok(Connected { client, connection: attend(connection) })
            }
        }
    }

    fn config(&self, place: &Place, address: Option<IpAddr>, way: Way) -> Config {
        let settings = &self.settings;
        let mut config = Config::new();
        match (&place.host, address) {
            (Host::Named(name, _), Some(address)) => {
                config.host(name).hostaddr(address);
            }
            (Host::Directory(directory), _) => {
                config.host_path(directory);
            }
            _ => {
                config.host_path(default_directory(place.port));
            }
        }
        config.port(place.port).user(&settings.user).dbname(&settings.database).application_name(&self.name);
        if let Some(password) = password(settings, &self.passwords, place) {
            config.password(password.0);
        }
        if let Some(options) = &settings.options {
            config.options(options);
        }
        config.channel_binding(settings.channel_binding);
        config.ssl_mode(match way {
            Way::Plain => SslMode::Disable,
            Way::PerhapsTls => SslMode::Prefer,
            Way::Tls => SslMode::Require,
        });
        if settings.tls.direct {
            config.ssl_negotiation(SslNegotiation::Direct);
        }
        config.keepalives(settings.keepalive.is_some());
        if let Some(keepalive) = settings.keepalive {
            config
                .keepalives_idle(keepalive.idle)
                .keepalives_interval(keepalive.interval)
                .keepalives_retries(keepalive.count);
        }
        if let Some(limit) = settings.unacknowledged {
            config.tcp_user_timeout(limit);
        }
        config
    }

    /// The limit of each try, where there is one.
    fn each(&self) -> Option<Duration> {
        match self.settings.timeout {
            Timeout::Each(limit) => Some(limit),
            Timeout::Together(_) | Timeout::Never => None,
        }
    }

    /// What is said when no server was any good.
    fn nowhere(&self, mut missed: Vec<(&Place, Fault)>) -> Fault {
        if missed.len() == 1
            && let Some((_, fault)) = missed.pop()
        {
            return fault;
        }
        let link = shown(&self.settings.places, &self.settings.database);
        let reasons: Vec<String> = missed.into_iter().map(|(_, fault)| fault.to_string()).collect();
        Fault::Invalid(
            Error::new(
                ErrorKind::Unavailable,
                format!("no server of {link} can be written to: {}", reasons.join("; ")),
            )
            .hint("look which of them is the primary and whether it runs: `SELECT pg_is_in_recovery()`"),
        )
    }
}

/// The password for a server, and where it was found.
pub(crate) fn password(settings: &Settings, passwords: &Passwords, place: &Place) -> Option<(String, String)> {
    if let Some((password, source)) = &settings.password {
        return Some((password.clone(), source.clone()));
    }
    let directory;
    let host = match &place.host {
        Host::Default => "localhost",
        Host::Directory(path) if DIRECTORIES.iter().any(|usual| Path::new(usual) == path) => "localhost",
        Host::Directory(path) => {
            directory = path.to_string_lossy();
            &directory
        }
        Host::Named(name, _) => name,
    };
    let wanted = Wanted { host, port: place.port, database: &settings.database, user: &settings.user };
    let (password, line) = passwords.find(wanted)?;
    let file = settings.passfile.as_deref().unwrap_or(Path::new(".pgpass"));
    Some((password, format!("`{}`, line {line}", file.display())))
}

/// The first usual directory that has a socket of that port, else the first one.
pub(crate) fn default_directory(port: u16) -> PathBuf {
    let mut usual = DIRECTORIES.iter().map(Path::new);
    usual.find(|directory| socket(directory, port).exists()).unwrap_or(Path::new(DIRECTORIES[0])).to_owned()
}

/// Lets the connection do its work until its client is gone.
fn attend(connection: impl Future<Output = Result<(), tokio_postgres::Error>> + Send + 'static) -> AbortHandle {
    // Its end is seen by whoever uses the client.
    tokio::spawn(async move { drop(connection.await) }).abort_handle()
}

async fn addresses(name: &str, port: u16) -> std::io::Result<Vec<IpAddr>> {
    Ok(tokio::net::lookup_host((name, port)).await?.map(|address: SocketAddr| address.ip()).collect())
}

async fn is_standby(client: &Client) -> Result<bool, tokio_postgres::Error> {
    let messages = client.simple_query("SELECT pg_catalog.pg_is_in_recovery()").await?;
    Ok(messages.iter().any(|message| matches!(message, SimpleQueryMessage::Row(row) if row.get(0) == Some("t"))))
}

async fn within<T>(limit: Option<Duration>, future: impl Future<Output = T>) -> Result<T, tokio::time::error::Elapsed> {
    match limit {
        Some(limit) => timeout(limit, future).await,
        None => Ok(future.await),
    }
}

fn shuffle(places: &mut [Place]) {
    let chance = RandomState::new();
    places.sort_by_cached_key(|place| chance.hash_one(place.to_string()));
}
