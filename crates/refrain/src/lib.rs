//! Makes a batch task safe to repeat: lease, pins, staging, one atomic commit.
//!
//! However often a task is repeated, the place where it publishes holds exactly one attempt's complete output:
//!
//! ```
//! use refrain::{Begun, Boundary, Options, Task};
//! use refrain::core::{Calendar, Grain, PartitionScheme};
//!
//! # fn main() -> Result<(), refrain::Error> {
//! # let directory = tempfile::tempdir().map_err(|error| refrain::Error::io("no directory", error))?;
//! # let home = directory.path();
//! refrain::Home::make(home)?;
//! let boundary = Boundary::open(home)?;
//! let days = PartitionScheme::Dates(Calendar::utc(Grain::Daily));
//! let task = Task::new("delays", days, home)?.output("report", "reports/{date}.csv")?;
//! let day = task.partitions.partition(Some("2013-01-01"), None, None)?;
//!
//! match boundary.begin(&task, &day, &Options::default())? {
//!     Begun::Attempt(attempt) => {
//!         let report = attempt.output("report")?;
//!         std::fs::write(&report, "carrier,delay\nUA,11\n").map_err(|error| refrain::Error::io("cannot write", error))?;
//!         attempt.publish().into_result()?; // dropping the attempt instead publishes nothing
//!     }
//!     Begun::Ended(conclusion) => drop(conclusion.into_result()?),
//! }
//! assert!(home.join("reports/2013-01-01.csv").exists());
//! // Repeating it is harmless.
//! assert!(matches!(boundary.begin(&task, &day, &Options::default())?, Begun::Ended(_)));
//! # Ok(())
//! # }
//! ```
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
