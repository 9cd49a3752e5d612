//! The thread that does the input and output of all sessions of this process.

use std::future::Future;
use std::io;
use std::sync::OnceLock;
use std::sync::mpsc;
use std::time::Duration;
use tokio::runtime::{Builder, Handle};
use tokio::time::timeout;

static DRIVER: OnceLock<Result<Handle, String>> = OnceLock::new();

/// Runs the future on the driver's thread and waits for its end, so long at most if there is a limit. Nothing when it has
/// not ended by then; it is dropped.
///
/// # Errors
/// When the thread cannot be started.
pub(crate) fn wait<T: Send + 'static>(
    limit: Option<Duration>,
    future: impl Future<Output = T> + Send + 'static,
) -> io::Result<Option<T>> {
    let (sender, receiver) = mpsc::sync_channel(1);
    handle()?.spawn(async move {
        let end = match limit {
            Some(limit) => timeout(limit, future).await.ok(),
            None => Some(future.await),
        };
        // Nobody waits any more when the caller's thread has ended.
        drop(sender.send(end));
    });
    receiver.recv().map_err(|_| io::Error::other("the thread of the sessions has ended"))
}

/// Runs the future on the driver's thread; nobody waits for it.
pub(crate) fn spawn(future: impl Future<Output = ()> + Send + 'static) -> io::Result<()> {
    handle()?.spawn(future);
    Ok(())
}

fn handle() -> io::Result<&'static Handle> {
    DRIVER
        .get_or_init(|| start().map_err(|error| error.to_string()))
        .as_ref()
        .map_err(|error| io::Error::other(error.clone()))
}

fn start() -> io::Result<Handle> {
    let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
    let handle = runtime.handle().clone();
    std::thread::Builder::new()
        .name("refrain-postgres".to_owned())
        .spawn(move || runtime.block_on(std::future::pending::<()>()))?;
    Ok(handle)
}
