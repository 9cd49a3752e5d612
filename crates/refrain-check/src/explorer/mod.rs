//! The explorer: every order of events of a small world, walked through the code that ships.
//!
//! [`Attempt`](refrain_core::Attempt), [`KeyRecord`](refrain_core::KeyRecord),
//! [`decide_claim`](refrain_core::decide_claim), [`decide_commit`](refrain_core::decide_commit),
//! [`staleness`](refrain_core::staleness) and [`verdict`](refrain_core::verdict) are called as they are; around
//! them stand a network, processes that die, stores that are lost and a collector. A [`Config`] says who takes
//! part and what may go wrong; [`explore`] visits every state that can be reached and says what broke, with a
//! shortest way to it. [`Switch`] takes one repair out, to see that its absence is noticed.

mod alone;
mod checks;
mod code;
mod collector;
mod config;
mod faults;
mod filesystem;
mod hash;
mod intern;
mod label;
mod model;
mod names;
mod network;
mod probe;
mod process;
mod properties;
mod report;
mod search;
mod sink;
mod store;
mod switch;
mod world;

pub use config::{Budget, Collector, Config, Fault, Medium, Plan, Recovery};
pub use probe::Probe;
pub use properties::Property;
pub use report::{Report, explore};
pub use search::{Counterexample, Outcome, Violation};
pub use switch::Switch;
