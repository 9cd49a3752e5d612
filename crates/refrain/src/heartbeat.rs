//! Renews a lease from a thread of its own, which the task cannot starve (LEASE-05).

use crate::clock::Stopwatch;
use crate::process::{Event, EventSender};
use refrain_core::{Holder, Key, StateStore};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

/// A running heartbeat; dropping it stops it.
///
/// It is not waited for: a renewal that is on its way finds the lease released, and nobody listens to what it says then
/// (LEASE-07).
#[derive(Debug)]
pub(crate) struct Heartbeat {
    _stop: Sender<()>,
}

impl Heartbeat {
    /// Renews the lease three times per ttl. Says `LeaseLost` when the store says that the lease is another's,
    /// or, before the ttl ends, when the store could not be asked for too long: the attempt fences itself.
    pub(crate) fn start(
        store: Arc<dyn StateStore>,
        key: Key,
        holder: Holder,
        ttl: Duration,
        events: EventSender,
    ) -> std::io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let (ask, asked) = mpsc::channel::<()>();
        let (answer, answers) = mpsc::channel();
        let interval = ttl / 3;
        let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        // A store that gives no answer at all must not keep the attempt from fencing itself: so it is asked by a thread
        // that nobody waits for.
        let renew = move || {
            while asked.recv().is_ok() && answer.send(store.renew(&key, &holder, ttl_ms)).is_ok() {}
        };
        thread::Builder::new().name("renewal".to_owned()).spawn(renew)?;
        let beat = move || {
            let mut renewed = Stopwatch::start();
            let mut unanswered = false;
            while matches!(stopped.recv_timeout(interval), Err(RecvTimeoutError::Timeout)) {
                if !unanswered {
                    // Should that thread be gone, then no answer comes either.
                    let _gone = ask.send(());
                }
                let rest = ttl.saturating_sub(renewed.elapsed() + interval);
                // After a sleep the time is over, and the store still says whether anybody came meanwhile (3.2).
                let patience = if rest.is_zero() { interval } else { rest.min(interval) };
                let told = answers.recv_timeout(patience);
                unanswered = told.is_err();
                match told {
                    Ok(Ok(true)) => renewed = Stopwatch::start(),
                    Ok(Ok(false)) => return events.send(Event::LeaseLost),
                    Ok(Err(error)) => tracing::warn!(rule = "5.7", %error, "the lease could not be renewed"),
                    Err(_) => tracing::warn!(rule = "5.7", "the store does not answer: the lease is not renewed"),
                }
                if renewed.elapsed() + interval >= ttl {
                    return events.send(Event::LeaseLost);
                }
            }
        };
        thread::Builder::new().name("heartbeat".to_owned()).spawn(beat)?;
        Ok(Self { _stop: stop })
    }
}
