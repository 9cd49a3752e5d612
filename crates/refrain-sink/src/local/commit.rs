//! K3: the commit (PROTOCOL 4.2, 9.4).

use super::problem::{look, problem};
use super::record::{Displaced, FORMAT, Intent, Layout, Record, VersionLabel};
use super::recover::{Surprise, Whereabouts};
use super::site::{Locked, Site};
use super::standing::{Depth, Standing, identity_of};
use super::stat::Stat;
use super::{Identity, LocalKind, durable, journal};
use refrain_core::{
    Adopt, CommitAnswer, CommitDecision, CommitOptions, CommitRequest, CrashPoint, Error, ErrorKind, Head, Result,
    SealedData, decide_commit,
};
use rustix::io::Errno;
use std::io;
use std::path::Path;

impl Site<'_> {
    /// # Crash safety
    /// Before the intent is durable: nothing happened. After: whoever next takes the lock carries it out. The one
    /// step that readers see is a rename.
    pub(crate) fn commit(&self, request: &CommitRequest, options: CommitOptions) -> Result<CommitAnswer> {
        if self.sink.memory().latched.contains(&self.head_path()) {
            return Err(self.durability_unknown());
        }
        let mut locked = self.lock().map_err(|error| self.doubt(request, error))?;
        let head = match decide_commit(locked.journal.last().map(|record| &record.head), request) {
            CommitDecision::Rejected => return Ok(CommitAnswer::Rejected),
            CommitDecision::Standing(_) => return Ok(CommitAnswer::Committed), // 4.5
            CommitDecision::Accept(head) => *head,
        };
        let data = request.publication.data_for(self.slot).ok_or_else(|| {
            Error::new(ErrorKind::Internal, format!("the commit to `{}` names no sealed data for it", self.slot))
        })?;
        let own = request.publication.attempt == request.holder.attempt;
        let staged = self.place(&data.staged)?;
        let Some(stat) = self.sealed_as_it_was(data, &staged, own)? else {
            return Ok(CommitAnswer::DataLost);
        };
        let looked_at = own && !self.sink.memory().edited.remove(&self.head_path());
        let depth = if looked_at { Depth::Root } else { Depth::Entries };
        let (standing, displaced) = locked.what_it_displaces(&data.staged, options, depth)?;
        let intent = Intent {
            staged: data.staged.clone(),
            identity: Identity::of(&stat).to_string(),
            bytes: data.bytes,
            digest: data.digest.clone(),
            layout: self.layout(request, standing.as_ref())?,
            displaced,
        };
        locked.carry_out(&head, &intent, own)
    }

    /// Sealed data is looked at once more. For an attempt's own the root tells; whoever rolls forward what another
    /// sealed, perhaps long ago, compares every entry (FS-14).
    fn sealed_as_it_was(&self, data: &SealedData, staged: &Path, own: bool) -> Result<Option<Stat>> {
        let Some(stat) = look(staged)? else { return Ok(None) };
        let identity = identity_of(data)?;
        let same = match (self.kind(), own) {
            (LocalKind::File, true) => identity.is_unchanged(&stat) && stat.size == data.bytes,
            (LocalKind::File, false) => crate::file::difference(data, staged, &stat)?.is_none(),
            (LocalKind::Directory, true) => identity.is_unchanged(&stat),
            (LocalKind::Directory, false) => crate::directory::staged_difference(self, data, staged, &stat)?.is_none(),
        };
        Ok(same.then_some(stat))
    }

    /// The target's directory must still be where its name was resolved: through a link that was put in its place, somebody
    /// else's data would be replaced.
    pub(crate) fn demand_direct_parent(&self) -> Result<()> {
        let parent = self.parent();
        let found = std::fs::canonicalize(parent).map_err(|error| problem("look at", parent, error))?;
        if found == parent {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Conflict,
            format!("`{}` became a link to `{}` while the task ran", parent.display(), found.display()),
        )
        .hint("repeat the call: it publishes where the link leads"))
    }

    fn layout(&self, request: &CommitRequest, standing: Option<&Stat>) -> Result<Layout> {
        match self.kind() {
            LocalKind::File => Ok(Layout::Real),
            LocalKind::Directory => {
                let publication = &request.publication;
                let version = self.version_place(publication.run.generation, publication.attempt);
                crate::directory::layout(self, standing, &version)
            }
        }
    }

    /// The error of a commit that was sent before: it may have been decided then.
    fn doubt(&self, request: &CommitRequest, error: Error) -> Error {
        let last = journal::read(&self.head_path()).ok().and_then(|contents| contents.last);
        match last {
            Some(record) if record.head.version == request.fresh_version => error.kind(ErrorKind::Unknown),
            _ => error,
        }
    }

    fn durability_unknown(&self) -> Error {
        Error::new(
            ErrorKind::Unknown,
            format!("`{}` is published, but whether that survives a power cut is unknown", self.target.display()),
        )
        .hint("look for errors of the disk in the system's log, then `refrain recover`")
    }
}

impl Locked<'_, '_> {
    /// What stands at the target must be what the head says, or be there with permission; it is kept in any case.
    fn what_it_displaces(
        &self,
        staged: &str,
        options: CommitOptions,
        depth: Depth,
    ) -> Result<(Option<Stat>, Option<Displaced>)> {
        let site = self.site;
        let head = self.journal.last().map(|record| &record.head);
        let target = site.target.display();
        let published = head.and_then(|head| head.publication.as_ref());
        let (stat, version) = match site.standing(head, depth)? {
            Standing::Nothing => return Ok((None, None)),
            Standing::Foreign(_) if options.adopt != Adopt::Foreign => {
                return Err(Error::new(
                    ErrorKind::Conflict,
                    format!("`{target}` exists and was not published by Refrain"),
                )
                .hint("`--adopt` keeps it as version 0 and publishes over it"));
            }
            Standing::Drifted(_, difference) if !options.overwrite_drift => {
                return Err(Error::new(
                    ErrorKind::Conflict,
                    format!("`{target}` was changed since it was published: {difference}"),
                )
                .hint("`--rerun` keeps the changed one aside and publishes again"));
            }
            Standing::Foreign(stat) => {
                site.demand_no_slot_inside(&stat)?;
                (stat, VersionLabel::of(None, false))
            }
            Standing::Ours(stat) => {
                (stat, VersionLabel::intact(published, published.and_then(|it| it.data_for(site.slot))))
            }
            Standing::Drifted(stat, _) => {
                site.demand_no_slot_inside(&stat)?;
                (stat, VersionLabel::of(published, true))
            }
        };
        let identity = Identity::of(&stat).to_string();
        Ok((Some(stat), Some(Displaced { staged: staged.to_owned(), identity, version })))
    }

    fn carry_out(&mut self, head: &Head, intent: &Intent, own: bool) -> Result<CommitAnswer> {
        let site = self.site;
        durable::make_directories(site.parent())
            .map_err(|error| problem("make the directory", site.parent(), error))?;
        self.lock.demand_in_place()?;
        site.sink.reach(CrashPoint::BeforeIntent);
        self.make_names_durable(own)?;
        // The last look before the decision: a lock that was taken from under us fences nobody.
        self.lock.demand_in_place()?;
        site.demand_direct_parent()?;
        self.decide(head, intent)?;
        site.sink.reach(CrashPoint::AfterIntent);
        if let Err(error) = site.switch(intent, Surprise::Refuse) {
            return Err(self.give_up(intent, error));
        }
        site.sink.reach(CrashPoint::AfterRename);
        let former = self.journal.before().and_then(|record| record.head.publication.clone());
        // Before the directory's fsync, which makes this durable too.
        let kept = site.keep_what_was_exchanged(intent).is_ok();
        if let Err(error) = self.make_landing_durable() {
            return Err(site.durability_unknown().because(error)); // 9.6
        }
        site.sink.reach(CrashPoint::BeforeRecord);
        // The commit is decided, visible and durable. Without this record the next holder of the lock sees by the
        // inode that it landed, keeps what it replaced should there have been no room for that, and writes the record.
        let recorded = kept && self.record_landing(head.clone(), intent).is_ok();
        site.sink.reach(CrashPoint::AfterRecord);
        if recorded {
            if let Some(data) = former.as_ref().and_then(|former| former.data_for(site.slot)) {
                site.forget_manifest(&data.staged);
            }
            site.tidy(head);
        }
        Ok(CommitAnswer::Committed)
    }

    /// The head's own name must be durable before its content says anything that matters. The seal made it so, unless
    /// the data was sealed by somebody else.
    fn make_names_durable(&self, own: bool) -> Result<()> {
        let site = self.site;
        let new = site.sink.memory().unsynced.remove(&site.head_path());
        if new || !own {
            let slots = site.volume.slots();
            durable::sync_directory(&slots).map_err(|error| problem("make durable the names in", &slots, error))?;
        }
        Ok(())
    }

    /// Writes the intent: the commit point (9.5).
    fn decide(&mut self, head: &Head, intent: &Intent) -> Result<()> {
        let before = self.journal.last().cloned();
        let record = Record { format: FORMAT, head: head.clone(), intent: Some(intent.clone()), displaced: None };
        let Err(error) = self.journal.append_durably(record) else { return Ok(()) };
        // The line may be visible to others, and may yet become durable: the state before goes on top of it, durably,
        // or the end is not known.
        if self.journal.last().is_some_and(|last| last.intent.is_some()) {
            let withdrawn = before.map_or(Ok(()), |before| self.journal.append_durably(before));
            if withdrawn.is_err() {
                return Err(error.kind(ErrorKind::Unknown));
            }
        }
        Err(error)
    }

    /// The switch failed while the lock is held. If the inode test says that nothing moved, the intent is withdrawn:
    /// nobody else acted on it, since acting needs the lock.
    fn give_up(&mut self, intent: &Intent, error: io::Error) -> Error {
        let site = self.site;
        let failure = explain(site, error);
        if !site.is_back_in_staging(intent) {
            return failure.kind(ErrorKind::Unknown);
        }
        let Some(before) = self.journal.before().cloned() else {
            return failure.kind(ErrorKind::Unknown);
        };
        match self.journal.append_durably(before) {
            Ok(()) => failure,
            Err(withdrawal) => withdrawal.kind(ErrorKind::Unknown),
        }
    }
}

impl Site<'_> {
    /// The inode test after a failed switch. With the link layout the data may have come as far as the versions.
    fn is_back_in_staging(&self, intent: &Intent) -> bool {
        let take_back = |version: &str| -> io::Result<()> {
            let staged = self.place(&intent.staged).map_err(io::Error::other)?;
            let version = self.place(version).map_err(io::Error::other)?;
            durable::remove(&staged)?;
            durable::replace(&version, &staged)
        };
        match (self.whereabouts_by_inode(intent), &intent.layout) {
            (Ok(Whereabouts::Staged), _) => true,
            (Ok(Whereabouts::Version), Layout::Link { version }) => take_back(version).is_ok(),
            _ => false,
        }
    }
}

fn explain(site: &Site<'_>, error: io::Error) -> Error {
    const OVERLAY: u64 = 0x794C_7630;
    let target = site.target.display();
    let standing = Stat::of(&site.target).ok().flatten();
    let directory = site.kind() == LocalKind::Directory && standing.is_some_and(|standing| standing.is_directory());
    if directory && !site.can_exchange().unwrap_or(true) {
        return site.directory_in_the_way().because(error);
    }
    if error.kind() == io::ErrorKind::AlreadyExists {
        return Error::new(ErrorKind::Conflict, format!("`{target}` appeared while it was being published"))
            .hint("`--adopt` keeps what is there as version 0 and publishes over it");
    }
    if durable::is(&error, Errno::XDEV) {
        let filesystem = rustix::fs::statfs(site.parent()).map(|it| u64::try_from(it.f_type).unwrap_or_default());
        let (why, hint) = if filesystem == Ok(OVERLAY) {
            // DIR-08: overlayfs cannot rename a directory that has a part in a lower layer.
            (
                "it came with the container's image, and overlayfs cannot move such a directory",
                "publish to a directory that is not part of the image, or mount a volume there",
            )
        } else {
            ("no rename goes there from the staging directory", "check whether something is mounted there")
        };
        return Error::new(ErrorKind::Unsupported, format!("`{target}` cannot be replaced: {why}"))
            .hint(hint)
            .because(error);
    }
    if durable::is(&error, Errno::BUSY) {
        return Error::new(
            ErrorKind::Unsupported,
            format!("`{target}` cannot be replaced: something is mounted there"),
        )
        .because(error);
    }
    problem("publish", &site.target, error)
}
