//! Whoever takes the lock finishes what a dead holder began (PROTOCOL 9.3). Always forward, never back (9.5).

use super::problem::{look, problem};
use super::record::{Displaced, Intent, Layout, Record};
use super::seal::Measured;
use super::site::{Locked, Site};
use super::{LocalKind, durable};
use refrain_core::{Error, ErrorKind, Head, Result};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where an intent's data is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whereabouts {
    /// Visible at the target.
    Target,
    /// In the staging place.
    Staged,
    /// Among the versions, with no link to it yet.
    Version,
    /// Nowhere: it was visible, and was overwritten or deleted since.
    Gone,
}

/// Whether the switch of names may meet something that was not planned for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Surprise {
    /// Give up before anything happens.
    Refuse,
    /// Go forward and keep whatever stands there.
    KeepAside,
}

impl Locked<'_, '_> {
    pub(crate) fn recover(&mut self) -> Result<()> {
        let Some(last) = self.journal.last().cloned() else { return Ok(()) };
        let site = self.site;
        let Some(intent) = last.intent else {
            if let Some(displaced) = &last.displaced {
                site.keep_displaced(displaced)?;
            }
            site.tidy(&last.head);
            return Ok(());
        };
        // Its writer may have died before the sync: a power cut could take the intent back and leave the rename.
        self.journal.make_durable().map_err(|error| undone(site, error))?;
        self.carry_forward(&last.head, &intent).map_err(|error| undone(site, error))?;
        self.land(&last.head, &intent)
    }

    /// 9.3 (i) to (iii). That the data is gone needs no mark in the head: its identity shows it (13.2).
    fn carry_forward(&self, head: &Head, intent: &Intent) -> Result<()> {
        let site = self.site;
        match site.whereabouts(head, intent)? {
            Whereabouts::Target | Whereabouts::Gone => Ok(()),
            Whereabouts::Staged | Whereabouts::Version => {
                durable::make_directories(site.parent())
                    .map_err(|error| problem("make the directory", site.parent(), error))?;
                site.demand_direct_parent()?;
                site.switch(intent, Surprise::KeepAside).map_err(|error| problem("publish", &site.target, error))
            }
        }
    }

    /// After the data became visible: keeps what it displaced, makes all of it durable, and writes the head without
    /// the intent.
    pub(crate) fn land(&mut self, head: &Head, intent: &Intent) -> Result<()> {
        let site = self.site;
        site.keep_what_was_exchanged(intent)?;
        self.make_landing_durable()?;
        let former = self.journal.before().and_then(|record| record.head.publication.clone());
        self.record_landing(head.clone(), intent)?;
        if let Some(data) = former.as_ref().and_then(|former| former.data_for(site.slot)) {
            site.forget_manifest(&data.staged);
        }
        site.tidy(head);
        Ok(())
    }

    pub(crate) fn make_landing_durable(&self) -> Result<()> {
        let site = self.site;
        durable::sync_what_is_left_of(site.parent()).map_err(|error| {
            // FS-13: a second fsync would say "done" whatever became of the pages.
            site.sink.memory().latched.insert(site.head_path());
            problem("make durable the names in", site.parent(), error)
        })
    }

    pub(crate) fn record_landing(&mut self, head: Head, intent: &Intent) -> Result<()> {
        self.journal.append(Record::of(head, intent.displaced.clone()))
    }
}

impl Site<'_> {
    /// The inode test (9.3), and where it finds nothing, the content (9.5).
    fn whereabouts(&self, head: &Head, intent: &Intent) -> Result<Whereabouts> {
        match self.whereabouts_by_inode(intent)? {
            Whereabouts::Gone => self.find(intent, &|path| self.shows_copy(head, intent, path)),
            found => Ok(found),
        }
    }

    pub(crate) fn whereabouts_by_inode(&self, intent: &Intent) -> Result<Whereabouts> {
        self.find(intent, &|path| shows(path, intent))
    }

    /// Looks at the target alone, unless the inode test finds the data nowhere.
    pub(crate) fn has_landed(&self, head: &Head, intent: &Intent) -> Result<bool> {
        Ok(match self.whereabouts_by_inode(intent)? {
            Whereabouts::Target => true,
            Whereabouts::Staged | Whereabouts::Version => false,
            Whereabouts::Gone => self.is_visible(intent, &|path| self.shows_copy(head, intent, path))?,
        })
    }

    /// The target comes first: where a file is moved by a second hard link, both names may show it.
    fn find(&self, intent: &Intent, is: &dyn Fn(&Path) -> Result<bool>) -> Result<Whereabouts> {
        if self.is_visible(intent, is)? {
            return Ok(Whereabouts::Target);
        }
        if is(&self.place(&intent.staged)?)? {
            return Ok(Whereabouts::Staged);
        }
        match &intent.layout {
            Layout::Link { version } if is(&self.place(version)?)? => Ok(Whereabouts::Version),
            _ => Ok(Whereabouts::Gone),
        }
    }

    fn is_visible(&self, intent: &Intent, is: &dyn Fn(&Path) -> Result<bool>) -> Result<bool> {
        match &intent.layout {
            Layout::Real => is(&self.target),
            Layout::Link { version } => {
                let version = self.place(version)?;
                Ok(self.links_to(&version)? && is(&version)?)
            }
        }
    }

    /// Whether the intent's data is at the path of a home that was copied, where every inode is another one. What is
    /// known to be what the intent displaces is not its data, though the content be the same.
    fn shows_copy(&self, head: &Head, intent: &Intent, path: &Path) -> Result<bool> {
        let publication = head.publication.as_ref();
        let Some(data) = publication.and_then(|it| it.data_for(self.slot)) else { return Ok(false) };
        let Some(stat) = look(path)? else { return Ok(false) };
        if intent.displaced.as_ref().is_some_and(|displaced| displaced.is(&stat)) {
            return Ok(false);
        }
        self.holds(path, &stat, &Measured::of(data))
    }

    /// Makes the data visible in one step. After an error nothing moved, or the inode test tells.
    pub(crate) fn switch(&self, intent: &Intent, surprise: Surprise) -> io::Result<()> {
        let staged = self.place(&intent.staged).map_err(io::Error::other)?;
        match (&intent.layout, self.kind()) {
            (Layout::Real, LocalKind::File) => crate::file::switch(self, &staged, intent, surprise),
            (Layout::Real, LocalKind::Directory) => self.switch_names(&staged, intent, surprise),
            (Layout::Link { version }, _) => {
                let version = self.place(version).map_err(io::Error::other)?;
                crate::directory::switch_link(self, &staged, &version, intent, surprise)
            }
        }
    }

    /// Moves to a free name, or exchanges with what has the name.
    pub(crate) fn switch_names(&self, staged: &Path, intent: &Intent, surprise: Surprise) -> io::Result<()> {
        const TRIES: usize = 8;
        let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
        for _ in 0..TRIES {
            let occupied = super::Stat::of(&self.target)?.is_some();
            if occupied && intent.displaced.is_none() && surprise == Surprise::Refuse {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            let done = durable::while_movable(staged, &self.target, || {
                if occupied {
                    durable::exchange(staged, &self.target)
                } else {
                    durable::move_to_free(staged, &self.target)
                }
            });
            match done {
                // Somebody else's file came or went between the look and the step.
                Err(error) if matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound) => {
                    last = error;
                }
                done => return done,
            }
        }
        Err(last)
    }

    /// After an exchange the staging place holds what stood at the target.
    pub(crate) fn keep_what_was_exchanged(&self, intent: &Intent) -> Result<()> {
        let staged = self.place(&intent.staged)?;
        let Some(stat) = look(&staged)? else { return Ok(()) };
        if shows(&staged, intent)? {
            // The first of two hard links to the published file itself (file sink without exchange).
            return fs::remove_file(&staged).map_err(|error| problem("remove", &staged, error));
        }
        self.keep(&staged, &stat, intent.displaced.as_ref())
    }

    /// A power cut may have undone the move of what the last commit displaced.
    fn keep_displaced(&self, displaced: &Displaced) -> Result<()> {
        let staged = self.place(&displaced.staged)?;
        match look(&staged)? {
            Some(stat) => self.keep(&staged, &stat, Some(displaced)),
            None => Ok(()),
        }
    }

    /// Removes the empty shell of the published attempt's staging. What is left in it, if anything, stays.
    pub(crate) fn tidy(&self, head: &Head) {
        let data = head.publication.as_ref().and_then(|publication| publication.data_for(self.slot));
        let Some(directory) = data.and_then(|data| self.staging_directory(&data.staged)) else { return };
        if fs::remove_dir(&directory).is_ok_and_gone() {
            self.drop_quickly(&super::staging::owner_path(&directory));
        }
    }

    /// The manifest of a publication serves to compare what stands at the target; a replaced one has no use.
    pub(crate) fn forget_manifest(&self, staged: &str) {
        if let Some(directory) = self.staging_directory(staged) {
            self.drop_quickly(&super::staging::manifest_path(&directory));
        }
    }

    /// Gets a file of the staging out of the way by a rename, since the slot's lock is held: removing a long list takes as
    /// long as its directory is large, and removing any file takes long right after the fsync of a commit.
    fn drop_quickly(&self, path: &Path) {
        let dropped = self.dropped_path(path.file_name().unwrap_or_default());
        // Where nothing was ever kept there is no directory to move it to.
        let done = durable::replace(path, &dropped).or_else(|_| fs::remove_file(path));
        durable::best_effort(done);
    }

    /// The attempt's directory that a staged place lies in.
    pub(crate) fn staging_directory(&self, staged: &str) -> Option<PathBuf> {
        let directory = self.place(staged).ok()?.parent()?.to_owned();
        (directory.parent()? == self.volume.slots()).then_some(directory)
    }
}

/// Whether the intent's data is at the path.
fn shows(path: &Path, intent: &Intent) -> Result<bool> {
    let identity = intent.identity.parse::<super::Identity>().map_err(Error::corrupt)?;
    Ok(look(path)?.is_some_and(|stat| identity.is(&stat)))
}

/// For removals: done now, or before.
trait Gone {
    fn is_ok_and_gone(&self) -> bool;
}

impl Gone for io::Result<()> {
    fn is_ok_and_gone(&self) -> bool {
        match self {
            Ok(()) => true,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    }
}

fn undone(site: &Site<'_>, error: Error) -> Error {
    let hint = error.hint.clone().unwrap_or_else(|| "mend what the cause says, then repeat the call".to_owned());
    Error::new(
        ErrorKind::Unavailable,
        format!("an earlier commit to `{}` is decided and cannot be carried out yet", site.target.display()),
    )
    .hint(hint)
    .because(error)
}
