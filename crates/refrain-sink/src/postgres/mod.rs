//! Tables in PostgreSQL. A publication is one transaction: it locks the slot's head, tests claim and version, moves the
//! staged rows and writes the head.
//!
//! The path of the data: `manner` (what is declared) -> `address` (the slot) -> `stage` (a table of the attempt) ->
//! `load` (rows of a file) or `statements` (SQL) -> `seal` -> `commit` with one of the `modes`.
//!
//! # Crash safety
//! Everything that decides is in the database, in one transaction each. Of a process that dies there remain a staging table
//! with its row, and a directory for the file that the task writes; both are found by what they record and go when the
//! attempt is fenced or outdone.

mod address;
mod catalog;
mod commit;
mod files;
mod heads;
mod horizon;
mod load;
mod locks;
mod manner;
mod modes;
mod rights;
mod schema;
mod scope;
mod seal;
mod shape;
mod site;
mod stage;
mod standing;
mod statements;
mod succession;
mod writers;

pub use manner::{Comparison, Condition as ScopeCondition, Manner, Mode, Source};
pub use schema::{TABLES, sql_for};
pub use statements::{Parameters, read_sql};

use address::{KIND, NO_SITE};
use catalog::Target;
use jiff::Timestamp;
use refrain_core::{
    Adopt, Capabilities, ClaimAnswer, ClaimDecision, ClaimRequest, CommitAnswer, CommitOptions, CommitRequest,
    Condition, CrashProbe, Error, ErrorKind, Generation, Guards, Head, Keep, Key, Open, OutputSlot, Result, Sealed,
    Sink, SlotAddress, Staged, Staging, StagingId, SwapCost, TaskName, Version, decide_claim,
};
use refrain_postgres::{Fault, Limits, Link, Transaction};
use site::Site;
use stage::Stage;
use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

/// Tables of the databases that a home names.
pub struct PostgresSink {
    sites: RwLock<Vec<Arc<Site>>>,
    /// The way to each slot that an output was found to have: of several to one database it is the output's own, since the
    /// role decides about rights, rows and owners.
    ways: RwLock<HashMap<SlotAddress, Arc<Site>>>,
    /// Where the files are that tasks write and Refrain loads.
    directory: PathBuf,
    probe: Arc<dyn CrashProbe>,
}

impl PostgresSink {
    /// A sink for these databases. Nothing is connected yet.
    pub fn new(links: impl IntoIterator<Item = Link>, state: &Path, probe: Arc<dyn CrashProbe>) -> Self {
        let (sites, ways) = (RwLock::default(), RwLock::default());
        let sink = Self { sites, ways, directory: state.join(files::DIRECTORY), probe };
        for link in links {
            drop(sink.reached_by(&link));
        }
        sink
    }

    /// What the sink promises.
    pub fn promises() -> Capabilities {
        Capabilities {
            sink: KIND,
            atomic: true,
            conditional: true,
            claims: true,
            ledger_in_commit: true,
            swap_cost: SwapCost::Rows,
            rollback: false,
            keeps_changes: false,
        }
    }

    /// The slot that a manner of a key replaces in the database that is reached so.
    ///
    /// # Errors
    /// `unavailable` when the database cannot be reached, `invalid` when it lets nobody in.
    pub fn address(&self, link: &Link, manner: &Manner, key: &Key) -> Result<SlotAddress> {
        let site = self.reached_by(link);
        let slot = address::address(site.id()?.as_deref().unwrap_or(NO_SITE), manner, key);
        self.ways.write().unwrap_or_else(PoisonError::into_inner).insert(slot.clone(), site);
        Ok(slot)
    }

    /// Makes the sink's tables in the database, where they are missing. Returns whether any were.
    ///
    /// # Errors
    /// `invalid` when the role may not; the hint says what a database administrator runs.
    ///
    /// # Crash safety
    /// One transaction. Repeating it changes nothing.
    pub fn prepare(&self, link: &Link) -> Result<bool> {
        self.reached_by(link).prepare()
    }

    /// Whether a publication can succeed in a database in which the sink has no tables yet: so that nothing is made for one
    /// that cannot. Elsewhere [`Sink::preflight`] finds it out.
    ///
    /// # Errors
    /// As [`Sink::preflight`].
    pub fn inspect(&self, link: &Link, manner: &Manner, adopt: Adopt) -> Result<()> {
        let site = self.reached_by(link);
        if site.id()?.is_some() {
            return Ok(());
        }
        site.look(None, |transaction| {
            let target = Target::find(transaction, &manner.relation())?;
            // A role that can make nothing is told that first.
            let may = "SELECT 1::text WHERE has_database_privilege(current_database(), 'CREATE')";
            if transaction.query(may, &[])?.is_empty() {
                return Ok(());
            }
            modes::preflight(transaction, &target, manner, None, adopt)
        })
    }

    /// Whether two slots of this sink meet.
    pub fn overlap(&self, one: &SlotAddress, other: &SlotAddress) -> bool {
        one.sink == KIND && other.sink == KIND && address::overlap(one, other)
    }

    /// The database that is reached so; one that nobody named before is kept in mind.
    fn reached_by(&self, link: &Link) -> Arc<Site> {
        let same = |site: &&Arc<Site>| site.link().secret_url() == link.secret_url();
        if let Some(site) = self.sites().iter().find(same) {
            return Arc::clone(site);
        }
        let site = Arc::new(Site::new(link.clone()));
        self.sites.write().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&site));
        site
    }

    fn sites(&self) -> Vec<Arc<Site>> {
        self.sites.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn way(&self, slot: &SlotAddress) -> Option<Arc<Site>> {
        self.ways.read().unwrap_or_else(PoisonError::into_inner).get(slot).cloned()
    }

    /// The database of a slot.
    fn site(&self, slot: &SlotAddress) -> Result<Arc<Site>> {
        self.find(slot)?.ok_or_else(|| {
            let wanted = address::place(slot).map_or_else(|_| String::new(), |place| place.site.to_owned());
            let what = address::place(slot).map_or_else(|_| String::new(), |place| address::shown(place.slot));
            Error::invalid(format!("no database of refrain.toml is the one that holds {what} (site {wanted})"))
                .hint(format!(
                    "name it again in an output's `to`; if it is gone for good, or what it holds need not be replaced, run with \
                     `--adopt`; if one that is named takes its place, made anew or restored without schema refrain, say so \
                     there: UPDATE refrain.site SET id = '{wanted}'"
                ))
        })
    }

    /// The database of a slot; nothing when none that is known is the one.
    fn find(&self, slot: &SlotAddress) -> Result<Option<Arc<Site>>> {
        if let Some(site) = self.way(slot) {
            return Ok(Some(site));
        }
        let wanted = address::place(slot)?.site;
        let mut unreachable = None;
        for site in self.sites() {
            match site.id() {
                Ok(Some(id)) if id == wanted => return Ok(Some(site)),
                Ok(None) if wanted == NO_SITE => return Ok(Some(site)),
                Ok(_) => {}
                Err(error) => unreachable = Some(error),
            }
        }
        // The one that cannot be asked may be the one that is meant.
        unreachable.map_or(Ok(None), Err)
    }

    fn look<T>(&self, slot: &SlotAddress, work: impl Fn(&mut Transaction<'_>, &str) -> Result<T, Fault>) -> Result<T> {
        let name = address::place(slot)?.slot;
        self.site(slot)?.look(None, |transaction| work(transaction, name))
    }

    /// Drops what an exchange of partitions has replaced: the head shows that it is replaced. The server removes its files
    /// before it answers, which takes longer the more rows there are; so the commit leaves it.
    fn drop_replaced(&self, slot: &SlotAddress) -> Result<()> {
        let replaced = self.look(slot, |transaction, name| {
            let head = heads::read(transaction, name)?.map(|standing| standing.head);
            let Some(publication) = head.and_then(|head| head.publication) else { return Ok(None) };
            let stage = stage::find(transaction, publication.attempt, slot)?;
            Ok(stage.map(|_| publication.attempt))
        })?;
        let Some(attempt) = replaced else { return Ok(()) };
        self.site(slot)?.change(None, |transaction| match stage::find(transaction, attempt, slot)? {
            Some(stage) => stage::remove(transaction, &stage),
            None => Ok(()),
        })
    }
}

impl fmt::Debug for PostgresSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresSink").field("sites", &self.sites()).finish_non_exhaustive()
    }
}

impl Sink for PostgresSink {
    fn capabilities(&self) -> Capabilities {
        Self::promises()
    }

    fn location(&self, slot: &SlotAddress) -> String {
        let Ok(place) = address::place(slot) else { return slot.to_string() };
        let holds = |site: &Arc<Site>| site.id().is_ok_and(|id| id.as_deref().unwrap_or(NO_SITE) == place.site);
        let site = self.way(slot).or_else(|| self.sites().into_iter().find(holds));
        let slot = address::shown(place.slot);
        site.map_or_else(|| slot.clone(), |site| format!("{} {slot}", site.link()))
    }

    fn preflight(&self, slot: &SlotAddress, manner: Option<&str>, adopt: Adopt) -> Result<()> {
        let manner = demand(slot, manner)?;
        self.look(slot, |transaction, name| {
            let target = Target::find(transaction, &manner.relation())?;
            let standing = heads::read(transaction, name)?;
            modes::preflight(transaction, &target, &manner, standing.as_ref(), adopt)
        })
    }

    fn reaches(&self, slot: &SlotAddress) -> Result<bool> {
        self.find(slot).map(|site| site.is_some())
    }

    fn supersede(&self, key: &Key, output: &OutputSlot, outputs: &[OutputSlot], adopt: Adopt) -> Result<()> {
        let place = address::place(&output.slot)?;
        if place.site == NO_SITE {
            return Ok(());
        }
        let manner = demand(&output.slot, output.manner.as_deref())?;
        let here = outputs.iter().filter(|output| output.slot.sink == KIND);
        let places = here.filter_map(|output| address::place(&output.slot).ok());
        let beside: Vec<_> = places.filter(|other| other.site == place.site).map(|other| other.slot).collect();
        self.look(&output.slot, |transaction, slot| {
            let wish = succession::Wish { key, slot, manner: &manner, beside: &beside, adopt };
            succession::test(transaction, &wish)
        })
    }

    /// Scopes show their rows; of rows beside others only the head tells, and of merged ones only those matter that add up.
    fn rests_on_head(&self, slot: &SlotAddress, manner: Option<&str>) -> bool {
        let beside_others = address::place(slot).is_ok_and(|place| address::scope_of(place.slot).is_none());
        let adds = |manner: Manner| manner.mode == Mode::Append || modes::merge::adds_up(&manner);
        beside_others && demand(slot, manner).is_ok_and(adds)
    }

    fn read(&self, slot: &SlotAddress) -> Result<Option<Head>> {
        if address::place(slot)?.site == NO_SITE {
            return Ok(None);
        }
        self.look(slot, |transaction, name| Ok(heads::read(transaction, name)?.map(|standing| standing.head)))
    }

    fn claim(&self, slot: &SlotAddress, request: &ClaimRequest) -> Result<ClaimAnswer> {
        let name = address::place(slot)?.slot;
        let attempt = Some(request.holder.attempt);
        let (site, limits) = (self.site(slot)?, Limits { lock: locks::ROW, ..Limits::default() });
        let claimed = site.try_change(attempt, &limits, |transaction| {
            loop {
                let standing = heads::lock(transaction, name)?.map(|standing| standing.head);
                return Ok(match decide_claim(standing.as_ref(), request) {
                    ClaimDecision::Accept(head) if standing.is_none() => {
                        horizon::test(transaction, name, &request.owner)?;
                        if !heads::insert(transaction, name, &head)? {
                            continue;
                        }
                        ClaimAnswer::Claimed(head)
                    }
                    ClaimDecision::Accept(head) => {
                        heads::save(transaction, name, &head, None)?;
                        ClaimAnswer::Claimed(head)
                    }
                    ClaimDecision::Standing(head) => ClaimAnswer::Claimed(head),
                    ClaimDecision::Fenced(head) => ClaimAnswer::Fenced(head),
                    ClaimDecision::Refused(head, why) => ClaimAnswer::Refused(head, why),
                });
            }
        });
        claimed.map_err(|fault| locks::explain(&site, slot, request.holder.attempt, fault))
    }

    fn stage(&self, slot: &SlotAddress, manner: Option<&str>, staging: &StagingId) -> Result<Staging<Open>> {
        let manner = demand(slot, manner)?;
        let site = self.site(slot)?;
        if manner.mode == Mode::SwapPartition
            && let Err(error) = self.drop_replaced(slot)
        {
            // Whoever published may have died before it did so.
            tracing::warn!(rule = "7.1", %slot, %error, "the partition that was replaced is not dropped yet");
        }
        let table = site
            .change(Some(staging.holder.attempt), |transaction| stage::create(transaction, slot, staging, &manner))?;
        let place = match &manner.source {
            Source::File { name, .. } => files::make(&self.directory, slot, staging, name)?,
            Source::Sql { .. } | Source::Direct => table.to_string().replace('"', ""),
        };
        let mut open = Staging::open(slot.clone(), staging.clone(), place);
        if manner.source == Source::Direct {
            let plain = |name: &str, value: &str| (name.to_owned(), value.to_owned());
            open.extra = vec![
                plain("TABLE", &open.place),
                plain("SCHEMA", &table.schema),
                plain("NAME", &table.name),
                plain("DSN", site.link().secret_url()),
            ];
        }
        Ok(open)
    }

    fn seal(&self, staging: Staging<Open>, guards: &Guards) -> Result<Staging<Sealed>> {
        let site = self.site(&staging.slot)?;
        let sealed = seal::seal(&site, &staging, guards)?;
        files::remove(&self.directory, &staging.slot, &staging.id)?;
        Ok(staging.sealed(sealed))
    }

    fn commit(&self, slot: &SlotAddress, request: &CommitRequest, options: &CommitOptions) -> Result<CommitAnswer> {
        commit::commit(&*self.site(slot)?, slot, request, *options, &*self.probe)
    }

    fn condition(&self, slot: &SlotAddress, head: Option<&Head>) -> Result<Condition> {
        let published = head.is_some_and(|head| head.publication.is_some());
        self.look(slot, |transaction, name| standing::condition(transaction, name, published))
    }

    fn versions(&self, slot: &SlotAddress) -> Result<Vec<Version>> {
        let head = self.read(slot)?.map(Head::as_seen).filter(|head| head.publication.is_some());
        let current = head.map(|head| Version {
            generation: head.generation(),
            locations: vec![self.location(slot)],
            replaced_at: None,
            current: true,
            edited: false,
        });
        Ok(current.into_iter().collect())
    }

    fn restore(&self, slot: &SlotAddress, generation: Generation, _into: &str) -> Result<()> {
        Err(Error::new(
            ErrorKind::Unsupported,
            format!("version {generation} of {} is not kept: a table has no earlier versions", self.location(slot)),
        )
        .hint("publish it anew from its inputs: refrain run TASK --rerun"))
    }

    fn forget(&self, task: &TaskName, keys: &[(SlotAddress, String)]) -> Result<u64> {
        let Some((first, _)) = keys.first() else { return Ok(0) };
        // The keys of one call may lie in several databases: each is changed by itself.
        let (here, elsewhere): (Vec<_>, Vec<_>) = keys.iter().cloned().partition(|(slot, _)| {
            address::place(slot).ok().map(|place| place.site) == address::place(first).ok().map(|place| place.site)
        });
        let forgotten = self.site(first)?.change(None, |transaction| horizon::forget(transaction, task, &here))?;
        Ok(forgotten + self.forget(task, &elsewhere)?)
    }

    fn staged(&self) -> Result<Vec<Staged>> {
        let mut staged = Vec::new();
        for site in self.sites() {
            if site.id()?.is_none() {
                continue;
            }
            let found = site.look(None, |transaction| {
                let mut staged = Vec::new();
                for stage in stage::all(transaction)?.into_iter().flatten() {
                    if !is_published(transaction, &stage)? {
                        staged.push(stage);
                    }
                }
                Ok(staged)
            })?;
            staged.extend(
                found
                    .into_iter()
                    .map(|stage| Staged { place: stage.table.to_string(), owner: Some((stage.slot, stage.id)) }),
            );
        }
        // A file goes with its table.
        let files = crate::written::all(&self.directory)?.into_iter();
        let alone: Vec<_> =
            files.filter(|file| file.owner.is_none() || staged.iter().all(|table| table.owner != file.owner)).collect();
        staged.extend(alone);
        Ok(staged)
    }

    fn discard(&self, staged: &Staged) -> Result<()> {
        let Some((slot, id)) = &staged.owner else { return Ok(()) };
        self.site(slot)?.change(None, |transaction| match stage::find(transaction, id.holder.attempt, slot)? {
            Some(stage) => stage::remove(transaction, &stage),
            None => Ok(()),
        })?;
        files::remove(&self.directory, slot, id)
    }

    /// A table has no earlier versions. What an exchange of partitions has replaced goes.
    fn trim(&self, slot: &SlotAddress, _keep: &Keep, _now: Timestamp, dry_run: bool) -> Result<Vec<Version>> {
        if !dry_run {
            self.drop_replaced(slot)?;
        }
        Ok(Vec::new())
    }
}

/// The manner that a run pinned for the slot.
fn demand(slot: &SlotAddress, manner: Option<&str>) -> Result<Manner> {
    match manner {
        Some(text) => Manner::read(text),
        None => Err(Error::corrupt(format!("the run does not say how `{slot}` is published"))),
    }
}

/// Whether the staged rows stand in the table. Then what the row of the staging table names is the partition that they have
/// replaced, which is no staging but waits for [`Sink::trim`].
fn is_published(transaction: &mut Transaction<'_>, stage: &Stage) -> Result<bool, Fault> {
    let (Ok(place), Some(_)) = (address::place(&stage.slot), &stage.sealed) else { return Ok(false) };
    let head = heads::read(transaction, place.slot)?.map(|standing| standing.head);
    Ok(head.and_then(|head| head.publication).is_some_and(|shown| shown.attempt == stage.id.holder.attempt))
}

/// Names the cluster in which a transaction's number means something; nothing where the role may not ask.
fn cluster(transaction: &mut Transaction<'_>) -> Result<Option<String>, Fault> {
    let sql = "SELECT CASE WHEN has_function_privilege('pg_control_system()', 'execute') \
               THEN (SELECT system_identifier FROM pg_control_system()) END::text";
    let rows = transaction.query(sql, &[])?;
    Ok(rows.into_iter().next().and_then(|row| row.into_iter().next().flatten()))
}
