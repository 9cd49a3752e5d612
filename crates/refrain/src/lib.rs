//! Makes a batch task safe to repeat: lease, pins, staging, one atomic commit.
//!
//! However often a task is repeated, the place where it publishes holds exactly one attempt's complete output.
//!
//! # How to depend on it
//!
//! The crate is in no registry; Cargo finds it in a checkout of the repository, or in the repository itself:
//!
//! ```toml
//! [dependencies]
//! refrain = { path = "../refrain/crates/refrain" }
//! # or: refrain = { git = "URL of the repository", rev = "the commit" }
//! ```
//!
//! It needs Linux and Rust 1.95 or later.
//!
//! # A task whose work this program does
//!
//! [`Boundary::begin`] gives an [`Attempt`], which says where to write and what a command would find in its environment. However
//! a call ends, a [`Conclusion`] says how:
//!
//! ```
//! use refrain::core::{Calendar, Grain, Outcome, PartitionScheme};
//! use refrain::{Begun, Boundary, Conclusion, ErrorKind, Home, Options, Task};
//! use std::error::Error;
//!
//! fn publish(boundary: &Boundary, task: &Task, date: &str, rows: &str) -> Result<Conclusion, Box<dyn Error>> {
//!     let day = task.partitions.partition(Some(date), None, None)?;
//!     Ok(match boundary.begin(task, &day, &Options::default())? {
//!         Begun::Attempt(attempt) => {
//!             // What fails before `publish` drops the attempt, and nothing is published.
//!             std::fs::write(attempt.output("report")?, rows)?;
//!             attempt.publish()
//!         }
//!         Begun::Ended(conclusion) => conclusion,
//!     })
//! }
//!
//! fn told(conclusion: &Conclusion) -> String {
//!     let report = &conclusion.report;
//!     // One entry for each output that is published; its version is the run's generation.
//!     let published = report.outputs.first().map(|output| format!("version {} of {}", output.version, output.name));
//!     let published = published.unwrap_or_default();
//!     match (&conclusion.error, report.outcome) {
//!         (None, Outcome::Published) => format!("published {published}"),
//!         (None, _) => format!("{published} stood there before"),
//!         (Some(_), Outcome::Decided) => format!("published {published}; the same call again finishes it"),
//!         (Some(error), _) => match error.kind {
//!             ErrorKind::Guard | ErrorKind::Refused => format!("refused: {error}"),
//!             ErrorKind::Held => format!("somebody else is at it: {error}"),
//!             ErrorKind::Unknown => format!("it may be published: ask again: {error}"),
//!             kind => format!("{}: {error}", kind.as_str()),
//!         },
//!     }
//! }
//!
//! fn main() -> Result<(), Box<dyn Error>> {
//!     let directory = tempfile::tempdir()?; // in earnest a directory that stays
//!     let home = directory.path();
//!     Home::make(home)?; // repeating it changes nothing
//!     let boundary = Boundary::open(home)?;
//!     let days = PartitionScheme::Dates(Calendar::utc(Grain::Daily));
//!     let task = Task::new("delays", days, home)?.output("report", "reports/{date}.csv")?;
//!
//!     let first = publish(&boundary, &task, "2013-01-01", "carrier,delay\nUA,11\n")?;
//!     assert_eq!(told(&first), "published version 1 of report");
//!     assert!(home.join("reports/2013-01-01.csv").exists());
//!
//!     let again = publish(&boundary, &task, "2013-01-01", "carrier,delay\nUA,12\n")?;
//!     assert_eq!(told(&again), "version 1 of report stood there before");
//!
//!     let empty = publish(&boundary, &task, "2013-01-02", "")?;
//!     assert!(told(&empty).starts_with("refused: "), "an empty output is published only where that is allowed");
//!     assert!(!home.join("reports/2013-01-02.csv").exists());
//!     Ok(())
//! }
//! ```
//!
//! # A task with a command
//!
//! [`Boundary::run`] starts it, watches it and publishes what it wrote. Signals reach it through a channel of events, because a
//! library installs no handlers: a program that wants its signals to end the command keeps the sender.
//!
//! ```
//! use refrain::core::{Outcome, PartitionScheme};
//! use refrain::process::{Event, channel};
//! use refrain::task::CommandLine;
//! use refrain::{Boundary, Home, Options, Stdout, Task};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let directory = tempfile::tempdir()?;
//! let home = directory.path();
//! Home::make(home)?;
//! let boundary = Boundary::open(home)?;
//! let mut task = Task::new("hello", PartitionScheme::None, home)?.output("text", "hello.txt")?;
//! task.command = Some(CommandLine::Shell("echo hello > $REFRAIN_OUT".to_owned()));
//! let all = task.partitions.partition(None, None, None)?;
//!
//! // The handler of a signal sends `Event::Signal(number)` through a clone of the sender: the command is ended, and nothing
//! // is published.
//! let (sender, receiver) = channel();
//! let handler = sender.clone();
//! let on_terminate = move || handler.send(Event::Signal(15));
//! let conclusion = boundary.run(&task, &all, &Options::default(), Stdout::Inherit, || Ok((sender, receiver)))?;
//! assert_eq!(conclusion.report.outcome, Outcome::Published);
//! assert_eq!(std::fs::read_to_string(home.join("hello.txt"))?, "hello\n");
//! # drop(on_terminate);
//! # Ok(())
//! # }
//! ```
//!
//! # The code
//!
//! The path of the data is the order of the modules: [`config`] and [`task`] say what to do, `plan` fills in the
//! partition, `peek` looks whether there is anything to do, `driver` leases and claims, [`attempt`] stages and
//! seals, [`command`] and [`process`] run the command in between, `conclude` says what came of it ([`report`]).

mod apart;
pub mod attempt;
mod beside;
pub mod boundary;
mod clock;
pub mod command;
pub mod compact;
mod conclude;
pub mod config;
mod driver;
mod elsewhere;
mod environment;
pub mod fetch;
mod foresee;
pub mod gc;
mod heartbeat;
mod holder;
pub mod home;
mod ids;
mod lacking;
mod lineage;
mod logical_clock;
pub mod lookup;
mod output_log;
mod parameter;
mod peek;
mod places;
mod plan;
pub mod process;
pub mod recover;
pub mod relearn;
pub mod report;
pub mod retell;
mod retry;
mod rollback;
pub mod row_id;
mod sealed;
mod settle;
mod sinks;
pub mod store;
pub mod survey;
pub mod table;
pub mod task;
pub mod why;

pub use apart::may_replace;
pub use attempt::Attempt;
pub use boundary::{Begun, Boundary, Options, Outside, Repeat};
pub use clock::SystemClock;
pub use command::Stdout;
pub use home::Home;
pub use refrain_core as core;
pub use refrain_core::{Error, ErrorKind, Result};
pub use report::{Conclusion, Report};
pub use retry::{Attach, NextTry};
pub use sinks::{Sinks, make_ready, prove_sink, sink_sql};
pub use task::Task;
