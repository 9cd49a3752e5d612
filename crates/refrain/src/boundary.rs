//! The boundary around a task: opens a home and begins attempts.

use crate::attempt::{Attempt, Work};
use crate::clock::{Stopwatch, SystemClock};
use crate::driver::{Driver, Pause};
use crate::home::Home;
use crate::peek::{Peek, peek};
use crate::plan::Plan;
use crate::process::{EventReceiver, EventSender, ProcessIdentity, channel};
use crate::report::Conclusion;
use crate::sinks::Sinks;
use crate::store;
use crate::task::Task;
use refrain_core::{
    Adopt, Clock, CrashProbe, Error, Goal, NoProbe, Outcome, Partition, Result, SlotAddress, StateStore,
};
use refrain_input::Inputs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A home with its store and sinks, from which attempts begin.
#[derive(Debug)]
pub struct Boundary {
    pub(crate) home: Home,
    pub(crate) store: Arc<dyn StateStore>,
    pub(crate) sinks: Sinks,
    pub(crate) inputs: Inputs,
    pub(crate) outside: Outside,
    pub(crate) process: String,
}

/// What a boundary takes from the world, so that a test can give it another.
#[derive(Clone)]
pub struct Outside {
    /// The wall clock.
    pub clock: Arc<dyn Clock>,
    /// Told of every crash point.
    pub probe: Arc<dyn CrashProbe>,
    /// This program starts child processes only through Refrain: orphans that hide their origin are the task's.
    pub sole_parent: bool,
}

impl Default for Outside {
    fn default() -> Self {
        Self { clock: Arc::new(SystemClock), probe: Arc::new(NoProbe), sole_parent: false }
    }
}

impl std::fmt::Debug for Outside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outside").field("sole_parent", &self.sole_parent).finish_non_exhaustive()
    }
}

/// How a call treats what it finds.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What to do when the key is published already.
    pub repeat: Repeat,
    /// How long to wait for another attempt's lease; nothing: not at all.
    pub wait: Option<Duration>,
    /// Whether something at the target that Refrain did not publish may be replaced (it is kept as version 0).
    pub adopt: bool,
    /// Whether an empty output may be published.
    pub allow_empty: bool,
    /// Whether the caller itself comes back to a key that is held: then it is not tried again at once.
    pub returns_to_held: bool,
}

/// What to do when the key is published already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Repeat {
    /// Nothing.
    #[default]
    Never,
    /// Run again if the command, the code, the parameters or the inputs changed.
    IfChanged,
    /// Run again.
    Always,
}

/// How [`Boundary::begin`] ended.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "made once per run and taken apart at once")]
pub enum Begun<'b> {
    /// The key is leased, its slots are claimed, its inputs pinned: write to the staging places.
    Attempt(Attempt<'b>),
    /// There is nothing to do, or it cannot be done.
    Ended(Conclusion),
}

impl Boundary {
    /// Opens the home at `home`.
    ///
    /// # Errors
    /// `invalid` when there is no home or its configuration is wrong; `corrupt`, `unsupported` or `unavailable`
    /// when its state cannot be used.
    ///
    /// # Crash safety
    /// Makes the state of a home that has only its `refrain.toml` yet; complete or absent.
    pub fn open(home: impl AsRef<Path>) -> Result<Self> {
        let home = home.as_ref();
        Self::with(Home::find(Some(home), home)?, Outside::default())
    }

    /// Opens a home that was found, with the given world around it.
    pub fn with(home: Home, outside: Outside) -> Result<Self> {
        let store = store::open(&home, &outside.clock)?;
        let sinks = Sinks::open(&home, &outside.probe)?;
        let objects = home.config.objects.clone();
        let inputs = Inputs::new(home.state(), move |address| objects.settings(address), &outside.probe);
        let identity =
            ProcessIdentity::of_self().map_err(|error| Error::io("cannot read this process's identity", error))?;
        let process = serde_json::to_string(&identity).map_err(|error| {
            Error::new(refrain_core::ErrorKind::Internal, "cannot write this process's identity").because(error)
        })?;
        Ok(Self { home, store, sinks, inputs, outside, process })
    }

    /// The home.
    pub fn home(&self) -> &Home {
        &self.home
    }

    /// The sinks.
    pub fn sinks(&self) -> &Sinks {
        &self.sinks
    }

    /// The state store.
    pub fn store(&self) -> &dyn StateStore {
        self.store.as_ref()
    }

    /// The wall clock.
    pub fn now(&self) -> jiff::Timestamp {
        self.outside.clock.now()
    }

    /// Begins an attempt whose output this program writes itself.
    ///
    /// # Errors
    /// `invalid` for a partition or location that cannot be used, before anything is leased. Everything later is
    /// told by [`Begun::Ended`].
    pub fn begin(&self, task: &Task, partition: &Partition, options: &Options) -> Result<Begun<'_>> {
        Ok(match self.start(task, partition, options, || Ok(channel()))? {
            Ok(work) => Begun::Attempt(Attempt::of(work)),
            Err(conclusion) => Begun::Ended(*conclusion),
        })
    }

    /// Either an attempt that may write, or the end of the call.
    pub(crate) fn start(
        &self,
        task: &Task,
        partition: &Partition,
        options: &Options,
        events: impl FnOnce() -> Result<(EventSender, EventReceiver)>,
    ) -> Result<Result<Work<'_>, Box<Conclusion>>> {
        let mut channel = None;
        let begun = self.begin_once(task, partition, options, events, &mut channel)?;
        // What it found published it may have published itself, from what an attempt had sealed that died: whether that has
        // changed was not looked at yet.
        match (begun, channel) {
            (Err(conclusion), Some(channel))
                if options.repeat == Repeat::IfChanged && conclusion.report.outcome == Outcome::AlreadyPublished =>
            {
                self.begin_once(task, partition, options, || Ok(channel), &mut None)
            }
            (begun, _) => Ok(begun),
        }
    }

    /// The same, by one attempt at most; the channel of one that ended comes back.
    fn begin_once(
        &self,
        task: &Task,
        partition: &Partition,
        options: &Options,
        events: impl FnOnce() -> Result<(EventSender, EventReceiver)>,
        channel: &mut Option<(EventSender, EventReceiver)>,
    ) -> Result<Result<Work<'_>, Box<Conclusion>>> {
        let watch = Stopwatch::start();
        self.sinks.prepare(task, partition, if options.adopt { Adopt::Foreign } else { Adopt::Never })?;
        let plan = Plan::new(task, partition, &self.sinks)?;
        let (want, notes) = match peek(self, &plan, options)? {
            Peek::Ended(conclusion) => return Ok(Err(conclusion)),
            Peek::Go { want, notes } => (want, notes),
        };
        let (sender, receiver) = events()?;
        let goal = if options.repeat == Repeat::Always { Goal::Replace } else { Goal::Publish };
        let mut driver = Driver::new(self, plan, options.clone(), goal, want, watch);
        driver.notes = notes;
        let run = match driver.drive(&sender, &receiver) {
            Pause::End => {
                *channel = Some((sender, receiver));
                return Ok(Err(Box::new(driver.into_conclusion())));
            }
            Pause::Execute(run) => run,
        };
        if let Some(restores) = &run.restores {
            let version = restores.version;
            driver
                .notes
                .push(format!("finishing a rollback to version {version} that was begun; the command is not run"));
        }
        let restores = run.restores.is_some();
        Ok(match Work::open(driver, run, sender, receiver) {
            Ok(work) if restores => Err(Box::new(work.restore())),
            Ok(work) => work.or_sealed(),
            Err(ended) => Err(ended),
        })
    }

    /// Where readers find what is published at the slot.
    pub fn locate(&self, slot: &SlotAddress) -> String {
        self.sinks.of(slot).map_or_else(|_| slot.to_string(), |sink| sink.location(slot))
    }
}
