//! Calls to object stores: S3 and what speaks like it, Google Cloud Storage, Azure Blob.
//!
//! The path of a call: [`Address`] (a URL) -> [`Settings`] (file, environment, profile) -> [`Bucket`] -> the wire, which
//! sends each request once and reads the server's clock from every answer. Calls block; one runtime of this process
//! does the input and output of all.
//!
//! What decides is [`Bucket::swap`] alone: a conditional write whose content is its own proof, so that a lost answer is
//! settled by reading, and an own success is never taken for a loss (OBJ-01, OBJ-02).

mod address;
mod assemble;
mod bucket;
mod canary;
mod connect;
mod driver;
mod fault;
mod profile;
mod settings;
mod swap;
mod upload;
mod wire;

pub use address::{Address, Scheme};
pub use assemble::{Completed, Copied, Parts};
pub use bucket::{Bucket, Entry, Object, Version};
pub use settings::{Environment, Settings};
pub use swap::{Content, Swapped};
pub use upload::{Multipart, Upload};
pub use wire::Moment;
