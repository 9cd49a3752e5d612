//! Pins publications for a run: each attempt of it reads one copy, whatever is published meanwhile.

use super::stale::Lineages;
use super::standing::{Readable, list, version_of};
use crate::boundary::Boundary;
use crate::ids;
use crate::plan::Plan;
use crate::task::{InputSource, PublicationRef, Task};
use refrain_core::{AttemptId, Error, ErrorKind, Key, Lineage, Partition, PinnedInput, PinnedPublication, Result};
use refrain_input::{Held, PINS, digest_path, make_read_only, owner_of};
use std::fs;
use std::io::ErrorKind::NotFound;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often a publication is looked at that is replaced while it is copied or not whole yet, and the pause for the
/// latter.
const LOOKS: u32 = 10;
const PAUSE: Duration = Duration::from_millis(50);

/// Of so many ranges of dates the command that publishes them again is told.
const MOST_COMMANDS: usize = 8;

/// Why publications were not copied.
struct NotCopied {
    /// Which of them are not what was published, by their places in the list; none if it was for another reason.
    damaged: Vec<usize>,
    cause: Error,
}

impl From<Error> for NotCopied {
    fn from(cause: Error) -> Self {
        Self { damaged: Vec::new(), cause }
    }
}

impl Boundary {
    /// Copies what an input reads for the run that `owner` opens.
    ///
    /// # Errors
    /// `refused` when something is not published, not whole, stale, or not what was published; the hint has the command
    /// that helps.
    ///
    /// # Crash safety
    /// The copy lies where copies of paths lie, below the attempt's own name, and counts only once the run names it:
    /// what a crash leaves is collected as theirs is. It is not synced, and digested before each use. No lock is held:
    /// the sink makes sure that the copy is what was published, and a publication that is replaced meanwhile is looked at
    /// afresh.
    pub(crate) fn pin_publications(
        &self,
        plan: &Plan,
        input: &str,
        reference: &PublicationRef,
        owner: AttemptId,
    ) -> Result<PinnedInput> {
        let root = self.home.state().join(PINS).join(owner.to_string()).join(input);
        let mut looks = 1;
        let (readable, copy) = loop {
            let again = looks < LOOKS;
            looks += 1;
            let readable = self.readable(plan, reference)?;
            if again && readable.missing.is_empty() && !readable.unfinished.is_empty() {
                // Its attempt may be about to publish the other output.
                std::thread::sleep(PAUSE);
                continue;
            }
            self.refuse_unfit(plan, reference, &readable)?;
            if readable.publications.is_empty() {
                break (readable, None);
            }
            match self.copy_all(&readable.publications, &root) {
                Ok(copy) => break (readable, Some(copy)),
                Err(failed) if again && self.readable(plan, reference)?.version() != readable.version() => {
                    tracing::info!(input, error = %failed.cause, "replaced while it was copied: looking again");
                }
                Err(failed) => return Err(self.unreadable(&readable.publications, failed)),
            }
        };
        let digest = copy.as_deref().map(digest_path).transpose()?;
        let place = |copy: &Path| copy.strip_prefix(self.home.state()).unwrap_or(copy).to_string_lossy().into_owned();
        Ok(PinnedInput {
            name: input.to_owned(),
            location: readable.publications.first().map_or_else(String::new, |one| self.locate(&one.slot)),
            version: readable.version(),
            digest: None,
            bytes: digest.as_ref().map_or(0, |digest| digest.bytes),
            snapshot: copy.as_deref().map(place),
            lineage: Some(Lineage {
                publications: readable.publications,
                digest: digest.map_or_else(String::new, |digest| digest.digest),
            }),
        })
    }

    /// Copies what an input of the task reads, for somebody who only wants to look at it: below the home's pins, where it
    /// belongs to no run. Nothing for an input that is no publication, and where a chain starts.
    ///
    /// # Errors
    /// `refused` as for a run; `invalid` for a partition or location that cannot be used.
    pub fn hold_publication(&self, task: &Task, partition: &Partition, input: &str) -> Result<Option<PathBuf>> {
        let plan = Plan::new(task, partition, &self.sinks)?;
        let found = task.inputs.iter().find(|spec| spec.name == input);
        let Some(InputSource::Publication(reference)) = found.map(|spec| &spec.source) else { return Ok(None) };
        let pin = self.pin_publications(&plan, input, reference, ids::attempt())?;
        Ok(pin.snapshot.map(|snapshot| self.home.state().join(snapshot)))
    }

    /// Names what is damaged, and the commands for exactly that: each publishes anew what it is given.
    fn unreadable(&self, publications: &[PinnedPublication], failed: NotCopied) -> Error {
        if failed.damaged.is_empty() {
            return failed.cause;
        }
        let mut ranges: Vec<Vec<Key>> = Vec::new();
        let mut last = None;
        for index in &failed.damaged {
            let key = publications.get(*index).map(|one| one.key.clone());
            match ranges.last_mut() {
                Some(range) if last.is_some_and(|last| last + 1 == *index) => range.extend(key),
                _ => ranges.push(key.into_iter().collect()),
            }
            last = Some(*index);
        }
        let mut commands: Vec<_> = ranges.iter().map(|keys| self.command_for(keys, " --rerun")).collect();
        let more = commands.split_off(commands.len().min(MOST_COMMANDS));
        let more = if more.is_empty() { String::new() } else { format!(" (and {} more)", more.len()) };
        Error::refused(format!("what {} published cannot be read as it was published", list(&ranges.concat())))
            .hint(format!("to publish it again: {}{more}", commands.join(" && ")))
            .because(failed.cause)
    }

    /// Refuses what is not all there, not whole, or stale.
    pub(crate) fn refuse_unfit(&self, plan: &Plan, reference: &PublicationRef, readable: &Readable) -> Result<()> {
        self.refuse_incomplete(plan, reference, readable)?;
        if readable.replaced { Ok(()) } else { Lineages::new(self).refuse_stale(&readable.publications) }
    }

    /// Where an attempt reads what was pinned, and what it looks like there; an empty text where a chain starts.
    ///
    /// # Errors
    /// `refused` when the copy is not what the run started with and the version that was pinned is kept no more.
    pub(crate) fn open_publications(&self, pin: &PinnedInput, lineage: &Lineage) -> Result<(String, Option<Held>)> {
        let Some(snapshot) = &pin.snapshot else { return Ok((String::new(), None)) };
        let copy = self.home.state().join(snapshot);
        let pinned = || Held::take(&copy).ok().filter(|held| held.digest().as_ref() == Some(&lineage.digest));
        let mut held = pinned();
        if held.is_none() {
            let again = match owner_of(pin) {
                Some(owner) => {
                    let root = self.home.state().join(PINS).join(owner.to_string()).join(&pin.name);
                    self.copy_all(&lineage.publications, &root).map(drop).map_err(|failed| failed.cause)
                }
                None => Err(Error::corrupt(format!("`{snapshot}` is no copy of an input"))),
            };
            held = again.is_ok().then(pinned).flatten();
            if held.is_none() {
                let version = version_of(&lineage.publications);
                let error =
                    Error::refused(format!("the pinned version of the input `{}` is gone: {version}", pin.name))
                        .hint("repeat the command with `--rerun`: it opens a new run that reads what is published now");
                return Err(match again {
                    Err(cause) => error.because(cause),
                    Ok(()) => error,
                });
            }
        }
        let place = copy.into_os_string().into_string().map_err(|path| {
            Error::invalid(format!("the input path `{}` is not valid UTF-8", Path::new(&path).display()))
        })?;
        Ok((place, held))
    }

    /// Fills a directory with publications: one under its own name; several each below the name of its partition. All are
    /// tried, so that each one that is damaged is found.
    fn copy_all(&self, publications: &[PinnedPublication], root: &Path) -> std::result::Result<PathBuf, NotCopied> {
        let failed = |error| Error::io(format!("cannot make the copy `{}`", root.display()), error);
        match fs::remove_dir_all(root) {
            Err(error) if error.kind() != NotFound => return Err(failed(error).into()),
            _ => {}
        }
        fs::create_dir_all(root).map_err(failed)?;
        let mut read = root.to_owned();
        let mut damaged = Vec::new();
        let mut first = None;
        for (index, one) in publications.iter().enumerate() {
            let location = PathBuf::from(self.locate(&one.slot));
            let name = location.file_name().unwrap_or_else(|| "input".as_ref());
            let tree = self.sinks.is_tree(&one.slot);
            let place = match (publications.len(), tree) {
                (1, _) => root.join(name),
                (_, true) => root.join(&one.key.partition),
                (_, false) => root.join(&one.key.partition).join(name),
            };
            let made = if tree { Some(place.as_path()) } else { place.parent() };
            made.map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
            let text = place.to_str().ok_or_else(|| {
                Error::new(ErrorKind::Unsupported, format!("the path `{}` is not valid UTF-8", place.display()))
            })?;
            match self.sinks.of(&one.slot)?.restore(&one.slot, one.generation, text) {
                Err(error) if matches!(error.kind, ErrorKind::Refused | ErrorKind::Invalid) => {
                    damaged.push(index);
                    first.get_or_insert(error);
                }
                other => other?,
            }
            if publications.len() == 1 {
                read = place;
            }
        }
        if let Some(cause) = first {
            return Err(NotCopied { damaged, cause });
        }
        make_read_only(root)?;
        Ok(read)
    }
}
