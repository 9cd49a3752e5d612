//! Whether a home belongs to the store in the database that it names.

use super::{Place, give_up, lost_stores, make_state};
use crate::config::Config;
use crate::home::Home;
use crate::task::{InputSource, Task};
use refrain_core::{Error, ErrorKind, Result, StateStore, StoreId, StoreIdentity, counted, were};
use refrain_store::{BucketStore, Entry, HomeRecord, PostgresStore, SqliteStore, Stranger, TaskRecord};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

/// A store that several homes may work with.
pub(super) trait Shared: StateStore {
    /// Who it was when it was opened.
    fn opened(&self) -> Result<StoreIdentity> {
        self.identity()
    }

    /// Lets a home work with it, or tells whose it is.
    fn admit(&self, home: &HomeRecord, entry: Entry) -> Result<Option<Stranger>>;
}

impl Shared for PostgresStore {
    fn opened(&self) -> Result<StoreIdentity> {
        self.opened_as().cloned().map_or_else(|| self.identity(), Ok)
    }

    fn admit(&self, home: &HomeRecord, entry: Entry) -> Result<Option<Stranger>> {
        PostgresStore::admit(self, home, entry)
    }
}

impl Shared for BucketStore {
    fn opened(&self) -> Result<StoreIdentity> {
        self.opened_as()
    }

    fn admit(&self, home: &HomeRecord, entry: Entry) -> Result<Option<Stranger>> {
        BucketStore::admit(self, home, entry)
    }
}

/// What was found the last time, in the state directory: the store, and what this home declared.
struct Note {
    store: String,
    /// Digest of the declaration; notes of earlier programs have none.
    declared: Option<String>,
}

/// Sees to it that the outputs of this home were published through this store, or through one that it replaces, and that
/// the store is of this home's project. Seen once, it is noted, so that the next run need not read every head.
///
/// # Errors
/// `refused` with the next command.
pub(super) fn belong<T: Shared>(home: &Home, place: &Place, store: &T) -> Result<()> {
    let identity = &store.opened()?;
    let record = record_of(home);
    let id = identity.store_id.to_string();
    let note = read_note(home).filter(|note| note.store == id);
    if note.as_ref().is_some_and(|note| note.declared.as_deref() == Some(&record.digest)) {
        return Ok(());
    }
    if note.is_none() {
        refuse_foreign(home, place, identity)?;
        refuse_without_history(home, place, Some(identity))?;
    }
    // A home that had no tasks when it was looked at was not compared with anybody.
    let empty = digest_of(&BTreeMap::new());
    let is_member = note.is_some_and(|note| note.declared.is_none_or(|declared| declared != empty));
    let entry = if is_member { Entry::Member } else { Entry::Newcomer };
    if let Some(stranger) = store.admit(&record, entry)? {
        return Err(of_another(place, &stranger));
    }
    write_note(home, &id, &record.digest)
}

/// Lets the home work with the store because its user says that it is of the same project.
///
/// # Errors
/// As [`belong`], for outputs that were published through another store.
pub(super) fn join<T: Shared>(home: &Home, place: &Place, store: &T) -> Result<StoreIdentity> {
    let identity = store.opened()?;
    refuse_foreign(home, place, &identity)?;
    introduce(home, store)?;
    write_note(home, &identity.store_id.to_string(), &record_of(home).digest)?;
    Ok(identity)
}

/// Makes the home known to a store that is its own.
pub(super) fn introduce<T: Shared>(home: &Home, store: &T) -> Result<()> {
    store.admit(&record_of(home), Entry::Member).map(drop)
}

fn refuse_foreign(home: &Home, place: &Place, identity: &StoreIdentity) -> Result<()> {
    let mut foreign = lost_stores(home)?;
    foreign.retain(|store| !is_of(identity, store));
    if foreign.is_empty() { Ok(()) } else { Err(moved(home, place, &foreign)) }
}

/// Refuses a store that knows nothing of what was published through the home's own state. Outputs anywhere are claimed
/// through that, and each of them would refuse the store, after it was begun and written to. A home that says that it
/// [joins](join) the store is not asked.
///
/// # Errors
/// `refused` with the ways out: taking the history along, beginning afresh, going back.
pub(super) fn refuse_without_history(home: &Home, place: &Place, standing: Option<&StoreIdentity>) -> Result<()> {
    let Some(state) = own_history(home)? else { return Ok(()) };
    let own = state.identity()?;
    if standing.is_some_and(|identity| is_of(identity, &own.store_id)) || state.moved_to()?.is_some() {
        return Ok(());
    }
    let keys = state.published_keys()?;
    if keys == 0 {
        return Ok(());
    }
    let afresh = match standing {
        None => give_up(&BTreeSet::from([own.store_id])),
        Some(_) => {
            "refrain store join (outputs that were published through that state go on refusing this one)".to_owned()
        }
    };
    Err(Error::refused(format!(
        "{} of this home {} published through its own state {}, which the state store in {} does not replace",
        counted(keys, "key"),
        were(keys),
        own.store_id,
        place.shown()
    ))
    .hint(format!(
        "take its history along: refrain store copy; or begin without it on purpose: {afresh}; or go on with it: \
         `store = \"sqlite\"` in refrain.toml"
    )))
}

/// Whoever replaces the store that the home's own state was taken along to, or a later one in its place, replaces that
/// state, too.
pub(super) fn with_forerunners(
    home: &Home,
    place: &Place,
    mut replaces: BTreeSet<StoreId>,
) -> Result<BTreeSet<StoreId>> {
    if replaces.is_empty() {
        return Ok(replaces);
    }
    let Some(state) = own_history(home)? else { return Ok(replaces) };
    let Some((store, at)) = state.moved_to()? else { return Ok(replaces) };
    if replaces.contains(&store) || at == place.shown() {
        let StoreIdentity { store_id, ancestors } = state.identity()?;
        replaces.extend(ancestors.into_iter().chain([store_id, store]));
    }
    Ok(replaces)
}

/// The home's own state, if there is one. What was never begun, or cannot be read any more, takes no history along.
fn own_history(home: &Home) -> Result<Option<SqliteStore>> {
    let database = home.database();
    if !database.exists() {
        return Ok(None);
    }
    match SqliteStore::open(&database, super::options(&super::clock())?) {
        Err(error) if matches!(error.kind, ErrorKind::Invalid | ErrorKind::Corrupt) => Ok(None),
        opened => opened.map(Some),
    }
}

/// The note is not true any more once another store goes on.
pub(super) fn forget(home: &Home) -> Result<()> {
    let note = place_of(home);
    // On a filesystem that is read-only even the removal of nothing is an error.
    if note.symlink_metadata().is_err() {
        return Ok(());
    }
    match fs::remove_file(&note) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io(format!("cannot remove `{}`", note.display()), error))
        }
        _ => Ok(()),
    }
}

/// The home went over to a store that knows nothing of its outputs.
pub(super) fn moved(home: &Home, place: &Place, stores: &BTreeSet<StoreId>) -> Error {
    let named: Vec<_> = stores.iter().map(StoreId::to_string).collect();
    let error = Error::refused(format!(
        "outputs of this home were published through the state store {}, which the one in {} does not replace",
        named.join(" and "),
        place.shown()
    ));
    if own_state(home).is_some_and(|own| stores.iter().all(|store| is_of(&own, store))) {
        return error.hint(
            "take its history along: refrain store copy; or go on with it: `store = \"sqlite\"` in refrain.toml",
        );
    }
    error.hint(format!(
        "if it was there, put a backup of it back and run `refrain store restored`; if it is elsewhere, \
         name it as `store` in refrain.toml; or give it up: {}",
        give_up(stores)
    ))
}

/// The identity of the home's own state, if there is one that can be read.
fn own_state(home: &Home) -> Option<StoreIdentity> {
    let database = home.database();
    if !database.exists() {
        return None;
    }
    SqliteStore::identity_of(&database, super::options(&super::clock()).ok()?).ok()
}

fn is_of(identity: &StoreIdentity, store: &StoreId) -> bool {
    identity.store_id == *store || identity.ancestors.contains(store)
}

/// What a person should know of the home's own state when the store is in a database that knows nothing of it: it has a
/// history that no command shows. A look that fails tells nothing.
pub fn left_behind(home: &Home, store: &dyn StateStore) -> Option<String> {
    if home.config.store.as_deref().is_none_or(|store| store == super::EMBEDDED) {
        return None;
    }
    let own = own_state(home)?;
    if is_of(&store.identity().ok()?, &own.store_id) {
        return None;
    }
    let state = SqliteStore::open(&home.database(), super::options(&super::clock()).ok()?).ok()?;
    let mut keys = 0_u64;
    let count = &mut |_| {
        keys += 1;
        Ok(())
    };
    state.for_each_key(None, count).ok()?;
    (keys > 0).then(|| {
        format!(
            "this home's own state knows {}, of which its store knows nothing: to take them along, refrain store copy (into \
             one without a history)",
            counted(keys, "key")
        )
    })
}

fn of_another(place: &Place, stranger: &Stranger) -> Error {
    let (store, other) = (place.shown(), &stranger.place);
    let message = match &stranger.task {
        Some(task) => format!(
            "the state store in {store} is that of the home {other}, whose [task.{task}] is another one: it reads and \
             publishes elsewhere"
        ),
        None => format!("the state store in {store} is that of the home {other}, and this home has none of its tasks"),
    };
    let own = match place {
        Place::Bucket(..) => "takes a prefix of its own (`store` in refrain.toml)",
        Place::Database(_) | Place::Embedded(_) => {
            "takes a database of its own (CREATE DATABASE …, then `store` in refrain.toml)"
        }
    };
    Error::refused(message).hint(format!(
        "a project of its own {own}; if this is the same project on another host, say so: refrain store join"
    ))
}

fn record_of(home: &Home) -> HomeRecord {
    let tasks = home.config.tasks.iter().map(|task| (task.name.to_string(), record_of_task(task, &home.config)));
    let tasks = tasks.collect();
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    HomeRecord { digest: digest_of(&tasks), place: format!("{} on {host}", home.directory.display()), tasks }
}

/// Where it publishes is told apart by the whole path, what it reads by its name: hosts keep their inputs where they like.
fn record_of_task(task: &Task, config: &Config) -> TaskRecord {
    let written = config.written.get(&task.name).cloned().unwrap_or_default();
    let mut places = Vec::new();
    for input in &task.inputs {
        let source = match &input.source {
            InputSource::Path { location, .. } => location.as_str().to_owned(),
            InputSource::Publication(publication) => publication.to_string(),
        };
        places.push(("in", input.name.as_str(), source));
    }
    for output in &task.outputs {
        let location = output.location.as_str();
        let place =
            if output.table.is_some() { location.to_owned() } else { task.base.join(location).display().to_string() };
        places.push(("out", output.name.as_str(), place));
    }
    TaskRecord { written, places: digest(&format!("{places:?}")) }
}

fn digest_of(tasks: &BTreeMap<String, TaskRecord>) -> String {
    digest(&format!("{tasks:?}"))
}

fn digest(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

fn read_note(home: &Home) -> Option<Note> {
    // A note that cannot be read is made anew.
    let text = fs::read_to_string(place_of(home)).ok()?;
    let mut lines = text.lines();
    Some(Note { store: lines.next()?.to_owned(), declared: lines.next().map(str::to_owned) })
}

fn write_note(home: &Home, store: &str, declared: &str) -> Result<()> {
    make_state(home)?;
    let note = place_of(home);
    fs::write(&note, format!("{store}\n{declared}\n"))
        .map_err(|error| Error::io(format!("cannot write `{}`", note.display()), error))
}

fn place_of(home: &Home) -> PathBuf {
    home.state().join("store")
}
