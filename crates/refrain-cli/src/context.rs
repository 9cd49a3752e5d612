//! What every command shares: where it was called, which home, how much to say.

use crate::args::{Cli, Partition as PartitionArgs};
use crate::output::Loudness;
use crate::probe::EnvironmentProbe;
use refrain::core::{Calendar, Clock, Grain, Key, Partition, PartitionScheme, TaskName, nearest};
use refrain::{Boundary, Error, Home, Outside, Result, SystemClock, Task};
use std::path::PathBuf;
use std::sync::Arc;

/// The call.
pub(crate) struct Context {
    pub(crate) directory: PathBuf,
    /// The home that the call names, absolute.
    pub(crate) home: Option<PathBuf>,
    /// `--home` as it was given.
    pub(crate) home_flag: Option<PathBuf>,
    pub(crate) loudness: Loudness,
    /// How often `-v` was given.
    pub(crate) verbose: u8,
    clock: SystemClock,
}

impl Context {
    pub(crate) fn new(cli: &Cli) -> Result<Self> {
        let directory =
            std::env::current_dir().map_err(|error| Error::io("cannot tell the current directory", error))?;
        // An empty variable is one that is not set: that is how a scheduler takes it back.
        let variable = std::env::var_os("REFRAIN_HOME").filter(|home| !home.is_empty());
        let home = cli.everywhere.home.clone().or(variable.map(PathBuf::from)).map(|home| directory.join(home));
        let home_flag = cli.everywhere.home.clone();
        Ok(Self {
            directory,
            home,
            home_flag,
            loudness: Loudness::of(cli.everywhere.quiet),
            verbose: cli.everywhere.verbose,
            clock: SystemClock,
        })
    }

    pub(crate) fn now(&self) -> jiff::Timestamp {
        self.clock.now()
    }

    /// The home that the call names, or the nearest.
    pub(crate) fn find_home(&self) -> Result<Home> {
        Home::find(self.home.as_deref(), &self.directory)
    }

    pub(crate) fn boundary(&self) -> Result<Boundary> {
        let outside = Outside {
            clock: Arc::new(self.clock),
            probe: Arc::new(EnvironmentProbe::from_environment()?),
            sole_parent: true,
        };
        Boundary::with(self.find_home()?, outside)
    }

    /// A declared task, or one that has a history.
    pub(crate) fn known_task(boundary: &Boundary, task: &str) -> Result<TaskName> {
        let name: TaskName = task.parse()?;
        if boundary.home().config.tasks.iter().any(|task| task.name == name) {
            return Ok(name);
        }
        let known = boundary.task_names()?;
        if known.contains(&name) {
            return Ok(name);
        }
        let error = Error::invalid(format!("there is no task `{task}`, neither in refrain.toml nor in the log"));
        Err(match nearest(task, known.iter().map(TaskName::as_str)) {
            Some(near) => error.hint(format!("did you mean `{near}`?")),
            None if known.is_empty() => error.hint("nothing is declared, and nothing was run yet"),
            None => {
                let known: Vec<_> = known.iter().map(TaskName::as_str).collect();
                error.hint(format!("known tasks: {}", known.join(", ")))
            }
        })
    }

    /// The partition that the flags name.
    pub(crate) fn partition(&self, task: &Task, args: &PartitionArgs) -> Result<Partition> {
        task.partitions.partition(args.date.as_deref(), args.partition.as_deref(), Some(self.now()))
    }

    /// The key that the flags name, for a task that may not be in the configuration any more.
    pub(crate) fn key(&self, boundary: &Boundary, task: &str, args: &PartitionArgs) -> Result<Key> {
        let name: TaskName = task.parse()?;
        let declared = boundary.home().config.declared(&name);
        let partition = match declared {
            Some(declared) => self.partition(declared, args)?.key,
            None => self.guess_partition(boundary, &name, args)?,
        };
        Ok(Key { task: name, partition })
    }

    /// A task that was run with flags only: its partition is what the store knows, in whatever grain, else a day.
    fn guess_partition(&self, boundary: &Boundary, name: &TaskName, args: &PartitionArgs) -> Result<String> {
        let Some(date) = &args.date else {
            return Ok(args.partition.clone().unwrap_or_default());
        };
        let key = Key { task: name.clone(), partition: date.clone() };
        if boundary.store().key(&key)?.is_some() {
            return Ok(key.partition);
        }
        let day = self.interval(Grain::Daily, date);
        for grain in [Grain::Hourly, Grain::Weekly, Grain::Monthly, Grain::Yearly] {
            let Ok(partition) = self.interval(grain, date) else { continue };
            if boundary.store().key(&Key { task: name.clone(), partition: partition.clone() })?.is_some() {
                return Ok(partition);
            }
        }
        day
    }

    fn interval(&self, grain: Grain, date: &str) -> Result<String> {
        let scheme = PartitionScheme::Dates(Calendar::utc(grain));
        Ok(scheme.partition(Some(date), None, Some(self.now()))?.key)
    }
}
