//! Real object stores, a strict server for Google Cloud Storage, and a proxy that makes what networks make of requests.
//!
//! - [`Server`]: a store of its own, or one that the tests of a process share; killed and started again. [`MiniStack`],
//!   [`SeaweedFs`], [`Azurite`] and [`Gcs`] start one of each kind;
//! - [`Bucket`]: a fresh bucket, the variables that lead to it, and raw access that shares nothing with the code under
//!   test;
//! - [`HttpProxy`]: forwards requests until one is to be cut, held, repeated, delayed, or answered otherwise.
//!
//! Everything ends with the test process, also when that is killed. `cargo xtask setup` installs what is needed.

mod access;
mod bucket;
mod gcs;
mod http;
mod process;
mod programs;
mod proxy;
mod server;
mod xml;

pub use bucket::Bucket;
pub use programs::{AZURITE_PACKAGE, PYTHON_PACKAGES, azurite, azurite_directory, python, python_directory, weed};
pub use proxy::{Exchange, Fault, HttpProxy, Tags, When};
pub use server::{Azurite, Gcs, Kind, MiniStack, SeaweedFs, Server};
