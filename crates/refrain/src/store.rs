//! Opens, makes, copies and announces the state store that a home's configuration names.

mod belonging;

pub use belonging::left_behind;

use crate::clock::SystemClock;
use crate::config::Config;
use crate::holder::life_of;
use crate::home::Home;
use crate::process::Liveness;
use belonging::Shared;
use refrain_core::{Clock, Error, ErrorKind, Result, StateStore, StoreId, StoreIdentity, nearest};
use refrain_object::{Address, Settings};
use refrain_store::postgres::Link;
use refrain_store::{BucketOptions, BucketStore, Copied, PostgresOptions, PostgresStore, SqliteOptions, SqliteStore};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The embedded store, as configurations and arguments name it.
const EMBEDDED: &str = "sqlite";

/// How a history is copied.
const COPY: &str = "refrain store copy sqlite postgresql://USER@HOST/DATABASE, or refrain store copy sqlite s3://BUCKET/_refrain/; \
                    a state of another home is sqlite:FILE";

/// Where a home's store is.
enum Place {
    /// A file of the home, for this host.
    Embedded(PathBuf),
    /// A database, for many hosts.
    Database(Link),
    /// A bucket, for many hosts.
    Bucket(Address, Box<Settings>),
}

impl Place {
    /// For people, without a password.
    fn shown(&self) -> String {
        match self {
            Self::Embedded(database) => format!("`{}`", database.display()),
            Self::Database(link) => link.to_string(),
            Self::Bucket(address, _) => address.to_string(),
        }
    }
}

/// Opens the store; makes it for a home that has no state yet.
///
/// # Errors
/// `corrupt` when a store is missing although outputs were published through it: a new one must be declared to
/// replace it (PROTOCOL 8.1). `refused` when they were published through one that the configured store does not replace.
pub(crate) fn open(home: &Home, clock: &Arc<dyn Clock>) -> Result<Arc<dyn StateStore>> {
    let place = place(home)?;
    Ok(match &place {
        Place::Embedded(database) => Arc::new(open_embedded(home, database, clock)?),
        Place::Database(link) => Arc::new(open_shared(
            home,
            &place,
            || PostgresStore::find(link, session_options(clock)),
            || PostgresStore::create(link, BTreeSet::new(), session_options(clock)),
        )?),
        Place::Bucket(address, settings) => Arc::new(open_shared(
            home,
            &place,
            || BucketStore::find(address, settings, bucket_options(clock)),
            || BucketStore::create(address, settings, BTreeSet::new(), bucket_options(clock)),
        )?),
    })
}

fn open_embedded(home: &Home, database: &Path, clock: &Arc<dyn Clock>) -> Result<SqliteStore> {
    if !database.exists() {
        // Asked again, because another first run may have made it and claimed through it by now.
        let lost = lost_stores(home)?;
        if !lost.is_empty() && !database.exists() {
            return Err(Error::corrupt(format!("the state store `{}` is gone", database.display())).hint(format!(
                "put a backup back and run `refrain store restored`, or give it up: {}",
                give_up(&lost)
            )));
        }
        make_state(home)?;
    }
    belonging::forget(home)?;
    let open = || SqliteStore::open(database, options(clock)?);
    let store = match open() {
        // Another first run of this home is making it at this moment, or died while it did: whoever is first completes
        // it, and the others find it complete. What is no state, or was one, is refused again.
        Err(error) if error.kind == ErrorKind::Invalid => {
            if lost_stores(home)?.is_empty() {
                SqliteStore::create(database, BTreeSet::new(), options(clock)?).or_else(|_| open())
            } else {
                open()
            }
        }
        opened => opened,
    }?;
    match store.moved_to()? {
        None => Ok(store),
        Some((id, place)) => Err(Error::refused(format!(
            "the state `{}` was taken along to the state store {id} in {place}, which it does not replace",
            database.display()
        ))
        .hint(format!(
            "go on there: store = \"{place}\" in refrain.toml; or go back to this state, which knows nothing of what was \
             published since: refrain store restored"
        ))),
    }
}

/// Opens a store that other hosts may share, and makes it if there is none.
fn open_shared<T: Shared>(
    home: &Home,
    place: &Place,
    find: impl Fn() -> Result<Option<T>>,
    create: impl Fn() -> Result<T>,
) -> Result<T> {
    if let Some(store) = find()? {
        belonging::belong(home, place, &store)?;
        return Ok(store);
    }
    let lost = lost_stores(home)?;
    if !lost.is_empty() {
        return Err(belonging::moved(home, place, &lost));
    }
    belonging::refuse_without_history(home, place, None)?;
    // Another first run, perhaps of another host, may be making it at this moment.
    let store = match create() {
        Err(error) => find()?.ok_or(error)?,
        Ok(store) => store,
    };
    belonging::belong(home, place, &store)?;
    Ok(store)
}

/// Makes a new store that replaces lost ones (PROTOCOL 8.1). One that replaces them already stays as it is: repeating the
/// call goes on where another one ended.
///
/// # Errors
/// `invalid` when there is a store already, or when outputs were published through one that is not replaced.
pub fn make(home: &Home, replaces: BTreeSet<StoreId>) -> Result<StoreIdentity> {
    let place = place(home)?;
    // A state that is whole is not lost, whatever was published through it.
    if let Some(made) = standing(&place)? {
        if !replaces.is_empty() && replaces.is_subset(&made.ancestors) {
            return Ok(made);
        }
        let at = place.shown();
        let otherwise = match &place {
            Place::Embedded(_) => "move it away first".to_owned(),
            Place::Database(_) => format!("have it dropped first: DROP TABLE {}", PostgresStore::TABLES),
            Place::Bucket(..) => "name another prefix: its objects may be read by other hosts".to_owned(),
        };
        return Err(Error::invalid(format!("there is a state at {at} already, and it can be read")).hint(format!(
            "go on with it; if it is an older copy, say `refrain store restored`; to give it up, {otherwise}"
        )));
    }
    let lost = lost_stores(home)?;
    if let Some(one) = lost.difference(&replaces).next() {
        return Err(Error::invalid(format!(
            "outputs of this home were published through the state store {one}, which the new one would not replace"
        ))
        .hint(give_up(&lost)));
    }
    make_state(home)?;
    let replaces = belonging::with_forerunners(home, &place, replaces)?;
    match &place {
        Place::Embedded(database) => SqliteStore::create(database, replaces, options(&clock())?)?.identity(),
        Place::Database(link) => PostgresStore::create(link, replaces, session_options(&clock()))?.identity(),
        Place::Bucket(address, settings) => {
            BucketStore::create(address, settings, replaces, bucket_options(&clock()))?.identity()
        }
    }
}

/// Says that the store was put back from a backup: it gets a new id, and its leases are void (PROTOCOL 8.1).
pub fn restored(home: &Home) -> Result<StoreIdentity> {
    match place(home)? {
        Place::Embedded(database) => SqliteStore::mark_restored(&database, options(&clock())?),
        Place::Database(link) => found(&link)?.mark_restored(),
        Place::Bucket(address, settings) => found_in(&address, &settings)?.mark_restored(),
    }
}

/// The store's identity.
pub fn identity(home: &Home) -> Result<StoreIdentity> {
    match place(home)? {
        Place::Embedded(database) => SqliteStore::identity_of(&database, options(&clock())?),
        Place::Database(link) => found(&link)?.identity(),
        Place::Bucket(address, settings) => found_in(&address, &settings)?.identity(),
    }
}

/// Lets this home work with the store that refrain.toml names, whatever it declares: it is of the same project as the homes
/// that do already.
///
/// # Errors
/// `invalid` when refrain.toml names no store that homes share, or there is none in that place.
///
/// # Crash safety
/// One transaction, then a note of the home. Repeating it changes nothing.
pub fn join(home: &Home) -> Result<StoreIdentity> {
    let place = place(home)?;
    match &place {
        Place::Embedded(_) => {
            Err(Error::invalid("a home joins a store that other homes work with, and refrain.toml names none")
                .hint("store = \"postgresql://USER@HOST/DATABASE\" in refrain.toml, then: refrain store join"))
        }
        Place::Database(link) => belonging::join(home, &place, &found(link)?),
        Place::Bucket(address, settings) => belonging::join(home, &place, &found_in(address, settings)?),
    }
}

/// The history that [`copy`] took along.
#[derive(Debug)]
pub struct Moved {
    /// What was copied.
    pub copied: Copied,
    /// The line for refrain.toml, unless it stands there; the password is left out.
    pub setting: Option<String>,
}

/// Copies what an embedded store knows to a database or a bucket, whose store replaces it. `from` is the file, else the
/// home's own; `to` is the other store, else the one that refrain.toml names.
///
/// # Errors
/// `held` when an attempt is at work; `invalid` when the other store holds a history already, or none is named.
///
/// # Crash safety
/// One transaction of the database, or one last write to the bucket, before which nobody can use the store; the embedded
/// store is left as it is.
pub fn copy(home: &Home, from: Option<&str>, to: Option<&str>) -> Result<Moved> {
    let from = match from {
        None | Some(EMBEDDED) => home.database(),
        Some(from) => match from.strip_prefix("sqlite:") {
            Some(path) => PathBuf::from(path),
            None => return Err(Error::invalid("what a history is copied from is not understood").hint(COPY)),
        },
    };
    let configured = home.config.store.as_deref();
    let is_shared = |store: &&str| is_database(store) || BucketStore::is_one(store);
    let to = to
        .or(configured.filter(is_shared))
        .ok_or_else(|| Error::invalid("a history is copied to a database or a bucket, and none is named").hint(COPY))?;
    let place = shared(home, to)?;
    let source = SqliteStore::open(&from, options(&clock())?)?;
    let is_dead = |lease: &refrain_core::Lease| life_of(lease) == Liveness::Dead;
    let copied = match &place {
        Place::Bucket(address, settings) => {
            BucketStore::take_over(address, settings, &source, &is_dead, bucket_options(&clock()))?
        }
        Place::Database(link) => PostgresStore::take_over(link, &source, &is_dead, session_options(&clock()))?,
        Place::Embedded(_) => return Err(unsupported(to)),
    };
    match &place {
        Place::Database(link) => belonging::introduce(home, &found(link)?)?,
        Place::Bucket(..) | Place::Embedded(_) => {}
    }
    let setting = (configured != Some(to)).then(|| format!("store = \"{}\"", place.shown()));
    Ok(Moved { copied, setting })
}

/// The configured store for people: without user or password, and without a word of what is not understood.
pub fn shown(config: &Config) -> String {
    match config.store.as_deref() {
        None | Some(EMBEDDED) => EMBEDDED.to_owned(),
        Some(store) if is_database(store) => match Link::parse(store) {
            Ok(link) => link.to_string(),
            Err(_) => scheme(store).to_owned(),
        },
        Some(store) => match BucketStore::address_of(store) {
            Ok(address) => address.to_string(),
            Err(_) => scheme(store).to_owned(),
        },
    }
}

/// The SQL that lets `role` use a store in a database where it may make none.
pub fn sql_for(role: &str) -> String {
    PostgresStore::sql_for(role)
}

fn place(home: &Home) -> Result<Place> {
    match home.config.store.as_deref() {
        None | Some(EMBEDDED) => Ok(Place::Embedded(home.database())),
        Some(store) => shared(home, store),
    }
}

/// A store that is no file of the home.
fn shared(home: &Home, store: &str) -> Result<Place> {
    if is_database(store) {
        return Link::parse(store).map(Place::Database);
    }
    if BucketStore::is_one(store) {
        let address = BucketStore::address_of(store)?;
        let settings = home.config.objects.settings(&address);
        return Ok(Place::Bucket(address, Box::new(settings)));
    }
    Err(unsupported(store))
}

fn unsupported(store: &str) -> Error {
    let scheme = scheme(store);
    let error = Error::new(ErrorKind::Unsupported, format!("this build has no state store for `{scheme}`"));
    let near = match store.split_once("://") {
        None => nearest(store, [EMBEDDED]).map(str::to_owned),
        Some(_) => nearest(scheme, ["postgresql", "s3", "gs", "az"]).map(|scheme| format!("{scheme}://…")),
    };
    error.hint(match near {
        Some(near) => format!("did you mean store = \"{near}\"?"),
        None => "store = \"sqlite\", or store = \"postgresql://USER@HOST/DATABASE\" in refrain.toml; `refrain stores` lists \
                 the stores of this build"
            .to_owned(),
    })
}

/// Whether a text names a database as libpq's users write it: a URL, or names and values.
pub fn is_database(text: &str) -> bool {
    PostgresStore::is_one(text) || text.contains('=') && !text.contains("://")
}

/// What may be shown of a text that is not understood, in which anything may be a password.
fn scheme(store: &str) -> &str {
    let known = |scheme: &str| scheme.len() <= 16 && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric());
    match store.split_once("://") {
        Some((scheme, _)) if known(scheme) => scheme,
        _ => "…",
    }
}

/// The store that stands at this place, if there is one that can be read.
fn standing(place: &Place) -> Result<Option<StoreIdentity>> {
    match place {
        Place::Embedded(database) if database.exists() => {
            Ok(SqliteStore::identity_of(database, options(&clock())?).ok())
        }
        Place::Embedded(_) => Ok(None),
        Place::Database(link) => {
            PostgresStore::find(link, session_options(&clock()))?.map(|store| store.identity()).transpose()
        }
        Place::Bucket(address, settings) => {
            BucketStore::find(address, settings, bucket_options(&clock()))?.map(|store| store.identity()).transpose()
        }
    }
}

fn found(link: &Link) -> Result<PostgresStore> {
    PostgresStore::find(link, session_options(&clock()))?
        .ok_or_else(|| Error::invalid(format!("there is no state store in {link}")).hint("make one: refrain init"))
}

fn found_in(address: &Address, settings: &Settings) -> Result<BucketStore> {
    BucketStore::find(address, settings, bucket_options(&clock()))?
        .ok_or_else(|| Error::invalid(format!("there is no state store at {address}")).hint("make one: refrain init"))
}

/// The state directory with its volume, so that a run need not make and sync them.
fn make_state(home: &Home) -> Result<()> {
    Home::make_state(&home.directory)?;
    refrain_sink::prepare_volume(&home.state())
}

fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock)
}

fn options(clock: &Arc<dyn Clock>) -> Result<SqliteOptions> {
    SqliteOptions::new(Arc::clone(clock))
}

fn session_options(clock: &Arc<dyn Clock>) -> PostgresOptions {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    PostgresOptions { clock: Arc::clone(clock), name: format!("refrain store, pid {} on {host}", std::process::id()) }
}

fn bucket_options(clock: &Arc<dyn Clock>) -> BucketOptions {
    BucketOptions { clock: Arc::clone(clock) }
}

/// The stores that heads in the home's own volume are claimed through.
fn lost_stores(home: &Home) -> Result<BTreeSet<StoreId>> {
    refrain_sink::claimed_stores(&home.state())
}

/// The command that makes a store which replaces all of these.
fn give_up(lost: &BTreeSet<StoreId>) -> String {
    lost.iter().fold("refrain store init".to_owned(), |command, store| format!("{command} --replaces {store}"))
}
