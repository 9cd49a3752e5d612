//! `refrain check`: a user's own task, proved repeatable in a scratch copy.
//!
//! [`Check::prepare`] makes a scratch directory and puts this process behind a shield, so that nothing the task does
//! reaches the real files; [`Check::run`] then runs the task twice, kills it at every step and starts it many times at
//! once, as it was asked, and says in a [`Verdict`] what differed and why.
//!
//! What is proved is about this machine, this day and these inputs: two runs that agree do not exclude a third that
//! does not. What was varied from run to run, and what could not be, stands in the verdict.

mod call;
mod control;
mod copied;
mod ground;
mod inputs;
mod kill;
mod layer;
mod mounts;
mod owners;
mod pipes;
mod race;
mod shield;
mod stage;
mod today;
mod told;
mod trials;
mod twice;
mod verdict;
mod writes;

pub use call::Exit;
pub use ground::{Wanted, Watched};
pub use verdict::{Failure, Finding, Kind, Outcome, Trial, Verdict};
pub use writes::{How, Write};

use call::Caller;
use ground::{Directories, Ground};
use inputs::Inputs;
use refrain::core::{AttemptId, Error, ErrorKind, Partition, Result};
use refrain::{Boundary, Home, Outside, Task};
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use trials::Trials;
use uuid::Uuid;

/// What to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wishes {
    /// Run it twice.
    pub twice: bool,
    /// Kill it.
    pub kill: bool,
    /// Start it many times at once.
    pub race: bool,
    /// How many kills at moments that the seed decides, besides those at the steps of the protocol.
    pub moments: u32,
    /// Decides the moments.
    pub seed: u64,
}

/// What to check, and where.
#[derive(Debug)]
pub struct Request {
    /// The home; nothing in it is written.
    pub home: Home,
    /// The task, with its parameters.
    pub task: Task,
    /// For which partition.
    pub partition: Partition,
    /// The `refrain` program.
    pub program: PathBuf,
    /// How the real files are kept out.
    pub wanted: Wanted,
    /// The directory in which the scratch directory is made; nothing: the one for temporary files.
    pub scratch: Option<PathBuf>,
    /// Whether the scratch directory stays.
    pub keep_scratch: bool,
    /// What to try.
    pub wishes: Wishes,
}

/// Told of every step, while it is made.
pub trait Progress {
    /// The check begins this step.
    fn step(&self, what: &str);
    /// Something that the task could do to real files, told before it runs.
    fn warn(&self, what: &str);
}

/// A check that is ready to run.
#[derive(Debug)]
pub struct Check {
    request: Request,
    // Dropped before the scratch directory, which cannot be removed while something is mounted in it.
    ground: Ground,
    scratch: TempDir,
}

impl Check {
    /// Makes the scratch directory and puts this process behind the shield. The process must have one thread only:
    /// call it before anything starts another one.
    ///
    /// # Errors
    /// `invalid` for a task that cannot be moved into a scratch directory; `internal` when that cannot be made.
    ///
    /// # Crash safety
    /// Writes only in the scratch directory `refrain-check-*`, which is removed at the end, also after a signal; a
    /// `kill -9` leaves it, and nothing needs it then. No mount outlives the process.
    pub fn prepare(request: Request) -> Result<Self> {
        if request.task.command.is_none() {
            return Err(Error::invalid(format!("the task `{}` has no command to check", request.task.name))
                .hint(format!("add `command = \"…\"` to [task.{}]", request.task.name)));
        }
        let elsewhere =
            |spec: &&refrain::task::OutputSpec| spec.table.as_ref().is_some_and(|table| table.file().is_none());
        if let Some(output) = request.task.outputs.iter().find(elsewhere) {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "the output `{}` of `{}` is written in its database, which has no scratch copy",
                    output.name, request.task.name
                ),
            )
            .hint("a table whose rows come from a file can be checked: from = \"rows.csv\""));
        }
        let parent = request.scratch.clone().unwrap_or_else(std::env::temp_dir);
        let scratch = tempfile::Builder::new()
            .prefix("refrain-check-")
            .disable_cleanup(request.keep_scratch)
            .tempdir_in(&parent)
            .and_then(|scratch| scratch.path().canonicalize().map(|path| (scratch, path)));
        let (scratch, path) = scratch
            .map_err(|error| Error::io(format!("cannot make a scratch directory in `{}`", parent.display()), error))?;
        let directories = directories(&request)?;
        let ground = Ground::prepare(request.wanted, &path, &directories)?;
        Ok(Self { request, ground, scratch })
    }

    /// Where the check works; gone afterwards unless it is to be kept.
    pub fn scratch(&self) -> &Path {
        self.scratch.path()
    }

    /// Does what was asked. `interrupted` is asked often whether to stop.
    ///
    /// # Errors
    /// Those of the inputs; `internal` when a run cannot be started or watched; `unavailable` when it was interrupted.
    pub fn run(self, progress: &dyn Progress, interrupted: &dyn Fn() -> bool) -> Result<Verdict> {
        let Self { request, ground, scratch } = self;
        let keep = request.keep_scratch;
        let checked = scratch
            .path()
            .canonicalize()
            .map_err(|error| Error::io("cannot use the scratch directory", error))
            .and_then(|path| check(&request, ground, path, progress, interrupted));
        // Whatever came of it, nothing is mounted in it any more.
        if !keep {
            let place = scratch.path().display().to_string();
            make_removable(scratch.path());
            let removed = scratch.close();
            if checked.is_ok() {
                removed.map_err(|error| Error::io(format!("cannot remove the scratch directory `{place}`"), error))?;
            }
        }
        checked
    }
}

/// Does what was asked in the scratch directory `path`; takes the shield away at the end.
fn check(
    request: &Request,
    ground: Ground,
    path: PathBuf,
    progress: &dyn Progress,
    interrupted: &dyn Fn() -> bool,
) -> Result<Verdict> {
    for danger in ground.dangers() {
        progress.warn(&danger);
    }
    let wishes = request.wishes;
    let published = |name: &str| {
        if !ground.is_shielded() {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "input `{name}` is a publication, which cannot be looked up without writing to the home's state"
                ),
            )
            .hint("check it where a shield is possible: as root, or with user namespaces"));
        }
        Boundary::with(request.home.clone(), Outside::default())?.hold_publication(
            &request.task,
            &request.partition,
            name,
        )
    };
    // The id only names a directory.
    let owner = AttemptId::from_uuid(Uuid::nil());
    let inputs = Inputs::hold(&request.task, &request.partition, &path, ground.is_shielded(), owner, &published)?;
    let mut trials = Trials {
        home: &request.home,
        task: &request.task,
        partition: &request.partition,
        ground,
        inputs,
        caller: Caller {
            program: request.program.clone(),
            scratch: path.clone(),
            task: request.task.name.to_string(),
            partition: &request.partition,
            interrupted,
            count: std::cell::Cell::new(0),
            keep: request.keep_scratch,
        },
        progress,
        done: Vec::new(),
        findings: Vec::new(),
        notes: Vec::new(),
        writes: BTreeSet::new(),
    };
    let failure = try_all(&mut trials, wishes)?;
    told::writes(&mut trials, failure.is_some());
    let result = match (&failure, trials.findings.is_empty()) {
        (Some(_), _) => Outcome::CouldNotBeChecked,
        (None, true) => Outcome::Repeatable,
        (None, false) => Outcome::NotRepeatable,
    };
    let verdict = Verdict {
        schema: 1,
        task: request.task.name.to_string(),
        partition: request.partition.key.clone(),
        result,
        trials: std::mem::take(&mut trials.done),
        findings: std::mem::take(&mut trials.findings),
        notes: std::mem::take(&mut trials.notes),
        watched: trials.ground.watched(),
        seed: wishes.seed,
        failure: failure.map(|failure| *failure),
        scratch: request.keep_scratch.then_some(path),
    };
    Ok(verdict)
}

/// Copies of inputs are read-only, their directories too: nothing could be removed from those.
fn make_removable(scratch: &Path) {
    let directories = walkdir::WalkDir::new(scratch).into_iter().flatten().filter(|entry| entry.file_type().is_dir());
    for directory in directories {
        let mode = std::fs::Permissions::from_mode(0o700);
        if let Err(error) = std::fs::set_permissions(directory.path(), mode) {
            tracing::debug!(%error, directory = %directory.path().display(), "it may not go");
        }
    }
}

/// All trials in turn, until one shows that the task fails by itself.
fn try_all(trials: &mut Trials<'_>, wishes: Wishes) -> Result<Option<Box<Failure>>> {
    let mut undisturbed = None;
    if wishes.twice {
        match twice::twice(trials)? {
            Ok(first) => undisturbed = Some(first),
            Err(failure) => return Ok(Some(failure)),
        }
    }
    if wishes.kill {
        match kill::kill(trials, wishes.moments, wishes.seed)? {
            Ok(played) => drop(undisturbed.get_or_insert(played)),
            Err(failure) => return Ok(Some(failure)),
        }
    }
    if wishes.race
        && let Err(failure) = race::race(trials, undisturbed.as_ref())?
    {
        return Ok(Some(failure));
    }
    Ok(None)
}

fn directories(request: &Request) -> Result<Directories> {
    // A table is no place on the disk.
    let outputs = request.task.outputs.iter().filter(|spec| spec.table.is_none());
    let outputs =
        outputs.map(|spec| Ok(request.task.base.join(spec.location.render(&request.partition, &request.task.params)?)));
    let others = ["HOME", "TMPDIR"].iter().filter_map(|name| std::env::var_os(name).map(PathBuf::from));
    let usual = ["/tmp", "/var/tmp"].map(PathBuf::from);
    Ok(Directories {
        home: request.home.directory.clone(),
        cwd: request.task.directory.clone(),
        outputs: outputs.collect::<Result<_>>()?,
        others: others.filter(|path| path.is_absolute()).chain(usual).collect(),
    })
}
