//! The sinks of this build, found by the kind that a slot's address names.

use crate::home::Home;
use crate::plan::Plan;
use crate::table::TableSpec;
use crate::task::{OutputSpec, Task};
use refrain_core::{
    Adopt, Capabilities, CrashProbe, Error, ErrorKind, Key, NoProbe, Partition, Result, Sink, SlotAddress,
};
use refrain_object::{Address, Bucket};
use refrain_postgres::Link;
use refrain_sink::postgres::{Manner, TABLES, sql_for};
use refrain_sink::{
    Buckets, LocalKind, LocalSink, ObjectKind, ObjectSink, PostgresSink, PrefixManner, Reader, folders_of_objects,
    objects_overlap,
};
use refrain_store::BucketStore;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// All sinks.
#[derive(Debug)]
pub struct Sinks {
    file: LocalSink,
    directory: LocalSink,
    postgres: PostgresSink,
    prefix: ObjectSink,
    object: ObjectSink,
    /// The state store, if it is in a bucket: nothing is published there.
    store: Option<Address>,
}

impl Sinks {
    /// The sinks of a home. No database is connected to yet.
    pub(crate) fn open(home: &Home, probe: &Arc<dyn CrashProbe>) -> Result<Self> {
        let local = |kind| LocalSink::new(kind, &home.directory, &home.config.staging, Arc::clone(probe));
        let links = home.config.tasks.iter().flat_map(links);
        let postgres = PostgresSink::new(links, &home.state(), Arc::clone(probe));
        let objects = home.config.objects.clone();
        let outputs = home.config.tasks.iter().flat_map(|task| &task.outputs);
        let known = outputs.filter_map(|output| Address::bucket_of(output.location.as_str()));
        let buckets = Arc::new(Buckets::new(move |address| objects.settings(address), &home.state(), known));
        let object = |kind| ObjectSink::new(kind, Arc::clone(&buckets), &home.state(), Arc::clone(probe));
        let (prefix, object) = (object(ObjectKind::Prefix), object(ObjectKind::Object));
        let store = store_in_a_bucket(home)?;
        Ok(Self {
            file: local(LocalKind::File)?,
            directory: local(LocalKind::Directory)?,
            postgres,
            prefix,
            object,
            store,
        })
    }

    /// From now on a wait for what another process holds ends as soon as `signalled` is set.
    pub(crate) fn heed(&self, signalled: &Arc<AtomicBool>) {
        self.file.heed(signalled);
        self.directory.heed(signalled);
    }

    /// The sink of a slot.
    pub fn of(&self, slot: &SlotAddress) -> Result<&dyn Sink> {
        self.all().find(|sink| sink.capabilities().sink == slot.sink).ok_or_else(|| {
            Error::new(ErrorKind::Unsupported, format!("this build has no sink for `{slot}`"))
                .hint("`refrain sinks` lists the sinks of this build")
        })
    }

    /// Every sink.
    pub fn all(&self) -> impl Iterator<Item = &dyn Sink> {
        [&self.file as &dyn Sink, &self.directory, &self.postgres, &self.prefix, &self.object].into_iter()
    }

    /// The slot that a location names: a trailing `/` is a directory.
    pub fn address(&self, location: &str, base: &Path) -> Result<SlotAddress> {
        if Address::is_one(location) {
            let address = Address::parse(location)?;
            if let Some(store) = self.store.as_ref().filter(|store| store.contains(&address) || address.contains(store))
            {
                return Err(Error::invalid(format!("{address} meets the state store {store}"))
                    .hint("publish to another prefix of the bucket, which neither holds the store nor lies in it"));
            }
            return match ObjectKind::of(&address) {
                ObjectKind::Prefix => self.prefix.address(&address),
                ObjectKind::Object => self.object.address(&address),
            };
        }
        if let Some((scheme, rest)) = location.split_once(":/")
            && Address::is_one(&format!("{scheme}://{rest}"))
            && !rest.starts_with('/')
        {
            return Err(Error::invalid(format!("`{location}` has one slash where a URL has two"))
                .hint(format!("write {scheme}://{rest}; a directory of that name is ./{location}")));
        }
        if let Some((scheme, _)) = location.split_once("://") {
            let error = Error::new(
                ErrorKind::Unsupported,
                format!("this build publishes to files, directories, objects and PostgreSQL, not to `{scheme}://`"),
            );
            return Err(if Link::is_one(location) {
                error.hint("a table is declared in refrain.toml: out.NAME = { to = \"postgresql://…\", table = \"…\", mode = \"…\" }")
            } else {
                error.hint("`refrain sinks` lists the sinks of this build")
            });
        }
        if location.ends_with('/') { self.directory.address(location, base) } else { self.file.address(location, base) }
    }

    /// How a prefix is published for these readers.
    ///
    /// # Errors
    /// `invalid` when there are readers, and the slot is no prefix.
    pub(crate) fn prefix_manner(slot: &SlotAddress, readers: &[Reader]) -> Result<Option<String>> {
        let manner = PrefixManner::of(readers);
        if manner.is_some() && slot.sink != ObjectKind::Prefix.name() {
            return Err(Error::invalid("`readers` is for prefixes of objects")
                .hint("end the URL with `/`, as in s3://lake/delays/dt={date}/, or leave `readers` out"));
        }
        manner.map(|manner| manner.write()).transpose()
    }

    /// The slot of a table for one key.
    pub(crate) fn table(&self, table: &TableSpec, manner: &Manner, key: &Key) -> Result<SlotAddress> {
        self.postgres.address(&table.link, manner, key)
    }

    /// Lets each table of a plan be reached by its output's own link, whose role decides what may be done. Where that cannot
    /// be told now, any link to the same database serves.
    pub(crate) fn find_ways(&self, plan: &Plan) {
        for table in plan.task.outputs.iter().filter_map(|output| output.table.as_ref()) {
            let found =
                table.manner(&plan.task, &plan.partition).and_then(|manner| self.table(table, &manner, &plan.key));
            if let Err(error) = found {
                tracing::debug!(%error, "the way to a table is not known");
            }
        }
    }

    /// Makes what the sinks of a task keep in databases, where it is missing.
    ///
    /// # Errors
    /// As [`PostgresSink::prepare`]; `invalid`, and nothing is connected, when an output asks for what its table cannot give;
    /// and nothing is made where one of the tables could not be published to.
    pub(crate) fn prepare(&self, task: &Task, partition: &Partition, adopt: Adopt) -> Result<()> {
        let tables = || task.outputs.iter().filter_map(|output| Some((output, output.table.as_ref()?)));
        let named = |error: Error, output: &OutputSpec| error.within(format!("output `{}`", output.name));
        for (output, table) in tables() {
            table.refuse_unfit(output).map_err(|error| named(error, output))?;
        }
        for (output, table) in tables() {
            let manner = table.manner(task, partition).map_err(|error| named(error, output))?;
            self.postgres.inspect(&table.link, &manner, adopt)?;
        }
        links(task).try_for_each(|link| self.postgres.prepare(&link).map(drop))
    }

    /// Whether two slots meet: the same place, or one within the other.
    pub fn overlap(&self, one: &SlotAddress, other: &SlotAddress) -> bool {
        one == other
            || self.directory.contains(one, other)
            || self.directory.contains(other, one)
            || self.postgres.overlap(one, other)
            || objects_overlap(one, other)
    }

    /// Whether a path lies in the home's state or in a staging directory.
    pub(crate) fn is_own(&self, path: &Path) -> bool {
        self.directory.is_own(path)
    }

    /// Who publishes at a path of this host, or a directory that it lies in. The path is canonical but for its last part.
    ///
    /// # Errors
    /// As [`LocalSink::publisher_of`].
    pub(crate) fn publisher_of(&self, path: &Path) -> Result<Option<Key>> {
        self.directory.publisher_of(path)
    }

    /// Whether a publication at the slot replaces what stands at the path, which is canonical but for its last part.
    pub(crate) fn publishes_at(&self, slot: &SlotAddress, path: &Path) -> bool {
        self.directory.target(slot).is_ok_and(|target| path.starts_with(target))
    }

    /// Whether what is published at the slot is a directory.
    pub(crate) fn is_tree(&self, slot: &SlotAddress) -> bool {
        [self.directory.capabilities().sink, ObjectKind::Prefix.name()].contains(&slot.sink.as_str())
    }

    /// Whether what is published at the slot are rows.
    pub(crate) fn is_table(&self, slot: &SlotAddress) -> bool {
        self.postgres.capabilities().sink == slot.sink
    }

    /// What each sink promises.
    pub fn capabilities() -> [Capabilities; 5] {
        [
            LocalKind::File.capabilities(),
            LocalKind::Directory.capabilities(),
            ObjectKind::Prefix.capabilities(),
            ObjectKind::Object.capabilities(),
            PostgresSink::promises(),
        ]
    }
}

/// The state store of a home that has it in a bucket.
///
/// # Errors
/// `invalid` when it lies where outputs have their own objects.
fn store_in_a_bucket(home: &Home) -> Result<Option<Address>> {
    let Some(store) = home.config.store.as_deref().filter(|store| BucketStore::is_one(store)) else { return Ok(None) };
    let store = BucketStore::address_of(store)?;
    let area = home.config.objects.settings(&store).area(&store);
    match folders_of_objects(&area).iter().find(|folder| folder.contains(&store)) {
        None => Ok(Some(store)),
        Some(folder) => Err(Error::invalid(format!(
            "the state store {store} lies in {folder}, where outputs have their own objects"
        ))
        .hint(format!("write store = \"{area}\", or another prefix"))),
    }
}

/// Makes what tables are published with in a database, where it is missing. Returns where, and whether anything was made.
///
/// # Errors
/// `unsupported` when it is no database that tables are published in, `invalid` when the role may not: the hint says what
/// somebody runs who may.
pub fn make_ready(url: &str) -> Result<(String, bool)> {
    if !Link::is_one(url) {
        return Err(Error::new(ErrorKind::Unsupported, "only a database of PostgreSQL is made ready")
            .hint("write --sink postgresql://USER@HOST:PORT/DATABASE; files and directories need no preparation"));
    }
    let link = Link::parse(url)?;
    let sink = PostgresSink::new([link.clone()], Path::new(""), Arc::new(NoProbe));
    Ok((link.to_string(), sink.prepare(&link)?))
}

/// Tries out whether a bucket keeps what a publication needs, as the first run there does. Returns where it looked.
///
/// # Errors
/// `unsupported` when it is no bucket, or ignores conditions; `invalid` when a right is missing.
///
/// # Crash safety
/// Writes and deletes objects of fresh names in Refrain's own area of the bucket.
pub fn prove_sink(home: Option<&Home>, url: &str) -> Result<String> {
    if !Address::is_one(url) {
        return Err(Error::new(ErrorKind::Unsupported, "only a bucket is tried out by itself")
            .hint("write --sink s3://BUCKET; a database is made ready by refrain init --sink"));
    }
    let address = Address::parse(url)?;
    let settings = home.map(|home| home.config.objects.settings(&address)).unwrap_or_default();
    let area = settings.area(&address);
    Bucket::open(&address, &settings)?.prove(&area.key)?;
    Ok(area.to_string())
}

/// The SQL that a database administrator runs so that tables can be published in a database where a role may create no
/// schemas; without a role, what makes the tables alone.
pub fn sink_sql(role: Option<&str>) -> String {
    role.map_or_else(|| TABLES.trim_end().to_owned(), sql_for)
}

fn links(task: &Task) -> impl Iterator<Item = Link> {
    task.outputs.iter().filter_map(|output| output.table.as_ref()).map(|table| table.link.clone())
}
