//! Signals end the command, not the publication: a thread turns them into events.

use refrain::process::{Event, EventReceiver, EventSender, channel};
use refrain::{Error, Result};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use std::sync::Arc;

/// A channel on which SIGTERM, SIGINT, SIGHUP and SIGQUIT arrive as events. They no longer end this program by
/// themselves; before the commit they end the attempt, after it the publication is finished first.
pub(crate) fn listen() -> Result<(EventSender, EventReceiver)> {
    let (sender, receiver) = channel();
    // A scheduler may have started this program with SIGCHLD ignored; then the kernel would throw the command's exit
    // status away. Any handler undoes that (wait(2)).
    signal_hook::flag::register(SIGCHLD, Arc::default())
        .map_err(|error| Error::io("cannot listen to SIGCHLD", error))?;
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP, SIGQUIT])
        .map_err(|error| Error::io("cannot listen to signals", error))?;
    let forward = sender.clone();
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            for signal in signals.forever() {
                forward.send(Event::Signal(signal));
            }
        })
        .map_err(|error| Error::io("cannot start a thread", error))?;
    Ok((sender, receiver))
}
