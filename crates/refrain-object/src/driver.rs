//! The runtime that does the input and output of all calls of this process.

use refrain_core::{Error, ErrorKind, Result};
use std::future::Future;
use std::sync::OnceLock;
use std::sync::mpsc;
use tokio::runtime::{Builder, Handle, Runtime};

/// Two threads: one may digest a part while the other sends.
const THREADS: usize = 2;

static DRIVER: OnceLock<Result<Runtime, String>> = OnceLock::new();

/// Runs the future on the runtime and waits for its end.
///
/// # Errors
/// `internal` when no thread can be started.
pub(crate) fn wait<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> Result<T> {
    let (sender, receiver) = mpsc::sync_channel(1);
    handle()?.spawn(async move {
        // Nobody waits any more when the caller's thread has ended.
        drop(sender.send(future.await));
    });
    receiver.recv().map_err(|_| Error::new(ErrorKind::Internal, "a call to an object store ended without an answer"))
}

fn handle() -> Result<&'static Handle> {
    let driver = DRIVER.get_or_init(|| {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(THREADS).thread_name("refrain-object").enable_io().enable_time();
        builder.build().map_err(|error| error.to_string())
    });
    let cannot = |error: &String| Error::new(ErrorKind::Internal, format!("cannot start threads: {error}"));
    driver.as_ref().map(Runtime::handle).map_err(cannot)
}
