//! Signals end the command, not the publication: a thread turns them into events.

use refrain::process::{EventReceiver, EventSender, Relay};
use refrain::{Error, Result};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// The signals of a call that makes attempts, one after the other. They are listened to from the first attempt on.
#[derive(Debug, Default)]
pub(crate) struct Listener {
    relay: Option<Relay>,
}

impl Listener {
    /// The channel of the next attempt.
    pub(crate) fn attach(&mut self) -> Result<(EventSender, EventReceiver)> {
        let relay = match self.relay.take() {
            Some(relay) => relay,
            None => listening()?,
        };
        Ok(self.relay.insert(relay).attach())
    }
}

/// A relay of this program's signals.
pub(crate) fn listening() -> Result<Relay> {
    let relay = Relay::default();
    let forward = relay.clone();
    forward_to(move |signal| forward.signal(signal))?;
    Ok(relay)
}

/// The number of the last of SIGTERM, SIGINT, SIGHUP and SIGQUIT that came; 0 before any. Unlike the others this starts no
/// thread.
pub(crate) fn noted() -> Result<Arc<AtomicUsize>> {
    let cannot = |error| Error::io("cannot listen to signals", error);
    signal_hook::flag::register(SIGCHLD, Arc::default()).map_err(cannot)?;
    let number = Arc::default();
    for signal in [SIGTERM, SIGINT, SIGHUP, SIGQUIT] {
        let value = usize::try_from(signal).unwrap_or_default();
        signal_hook::flag::register_usize(signal, Arc::clone(&number), value).map_err(cannot)?;
    }
    Ok(number)
}

/// SIGTERM, SIGINT, SIGHUP and SIGQUIT go to `each`. They no longer end this program by themselves; before the commit
/// they end the attempt, after it the publication is finished first.
pub(crate) fn forward_to(each: impl Fn(i32) + Send + 'static) -> Result<()> {
    // A scheduler may have started this program with SIGCHLD ignored; then the kernel would throw the command's exit
    // status away. Any handler undoes that (wait(2)).
    signal_hook::flag::register(SIGCHLD, Arc::default())
        .map_err(|error| Error::io("cannot listen to SIGCHLD", error))?;
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP, SIGQUIT])
        .map_err(|error| Error::io("cannot listen to signals", error))?;
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || signals.forever().for_each(each))
        .map_err(|error| Error::io("cannot start a thread", error))?;
    Ok(())
}
