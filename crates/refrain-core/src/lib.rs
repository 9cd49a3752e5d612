//! The words and the protocol of Refrain as code that does no input or output.

mod error;
mod id;

pub use error::{Error, ErrorKind, Result, Window};
pub use id::{AttemptId, Generation, HeadVersion, Key, RunId, SlotId, StoreId, TaskName, Token};
