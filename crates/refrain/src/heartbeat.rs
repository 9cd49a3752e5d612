//! Renews a lease from a thread of its own, which the task cannot starve (LEASE-05).

use crate::clock::Stopwatch;
use crate::process::{Event, EventSender};
use refrain_core::{Holder, Key, Result, StateStore};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

/// The attempt fences itself so long before its lease ends, at most: the command is to have ended by then.
const MOST_MARGIN: Duration = Duration::from_secs(5);

/// A busy machine answers late: an attempt is never fenced sooner after the last question that was answered, however short
/// the ttl is.
const LEAST: Duration = Duration::from_millis(500);

/// A running heartbeat; dropping it stops it.
///
/// It is not waited for: a renewal that is on its way finds the lease released, and nobody listens to what it says then
/// (LEASE-07).
#[derive(Debug)]
pub(crate) struct Heartbeat {
    beat: Sender<Message>,
    loss: Arc<OnceLock<Loss>>,
}

/// Why the lease is not this attempt's any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The store says that it is not.
    Taken,
    /// The store could not be asked in time.
    Unasked {
        /// How long ago it confirmed the lease.
        since: Duration,
        /// What the last question failed with; nothing when it was never answered.
        why: Option<String>,
    },
}

/// What the heartbeat waits for.
#[derive(Debug)]
enum Message {
    Stop,
    Told(Result<bool>),
}

impl Heartbeat {
    /// Renews the lease three times per ttl; `asked` began before the lease was asked for. Says `LeaseLost` when the store
    /// says that the lease is another's, or when it has not confirmed the lease until shortly before the ttl ends: a tenth
    /// of it, at most 5 seconds. Then the attempt fences itself.
    pub(crate) fn start(
        store: Arc<dyn StateStore>,
        key: Key,
        holder: Holder,
        (ttl, asked): (Duration, Stopwatch),
        events: EventSender,
    ) -> std::io::Result<Self> {
        let (beat, inbox) = mpsc::channel();
        let (ask, questions) = mpsc::channel::<()>();
        let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        // A store that gives no answer at all must not keep the attempt from fencing itself: so it is asked by a thread
        // that nobody waits for.
        let told = beat.clone();
        let renew = move || {
            while questions.recv().is_ok() && told.send(Message::Told(store.renew(&key, &holder, ttl_ms))).is_ok() {}
        };
        thread::Builder::new().name("renewal".to_owned()).spawn(renew)?;
        let loss = Arc::new(OnceLock::new());
        let found = Arc::clone(&loss);
        let watch = move || {
            if let Some(loss) = watch(ttl, asked, &ask, &inbox) {
                // Nobody else sets it.
                drop(found.set(loss));
                events.send(Event::LeaseLost);
            }
        };
        thread::Builder::new().name("heartbeat".to_owned()).spawn(watch)?;
        Ok(Self { beat, loss })
    }

    /// Why the lease was lost, if it was.
    pub(crate) fn loss(&self) -> Option<Loss> {
        self.loss.get().cloned()
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        // It has stopped by itself when it has told a loss.
        drop(self.beat.send(Message::Stop));
    }
}

/// Asks for renewals until the heartbeat is stopped (nothing), or the lease is lost.
fn watch(ttl: Duration, asked: Stopwatch, ask: &Sender<()>, inbox: &Receiver<Message>) -> Option<Loss> {
    let interval = ttl / 3;
    let limit = ttl.saturating_sub((ttl / 10).min(MOST_MARGIN)).max(LEAST);
    // The beginning of the last question that the store said yes to: the lease lasts a ttl from there, or longer.
    let mut confirmed = asked;
    let (mut last_question, mut is_pending, mut why) = (asked, false, None);
    // Who slept past the limit could not ask: the store still says whether anybody came meanwhile (3.2).
    let mut woken = (asked.elapsed() >= limit).then(Stopwatch::start);
    loop {
        let left = match woken {
            Some(woken) => interval.max(LEAST).saturating_sub(woken.elapsed()),
            None => limit.saturating_sub(confirmed.elapsed()),
        };
        if left.is_zero() {
            return Some(Loss::Unasked { since: confirmed.elapsed(), why });
        }
        let pause = if is_pending { left } else { left.min(interval.saturating_sub(last_question.elapsed())) };
        let waited = Stopwatch::start();
        match inbox.recv_timeout(pause) {
            Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => return None,
            Ok(Message::Told(Ok(true))) => {
                (confirmed, is_pending, why) = (last_question, false, None);
                woken = woken.filter(|_| confirmed.elapsed() >= limit);
            }
            Ok(Message::Told(Ok(false))) => return Some(Loss::Taken),
            Ok(Message::Told(Err(error))) => {
                tracing::warn!(rule = "5.7", %error, "the lease could not be renewed");
                (is_pending, why) = (false, Some(error.message));
            }
            Err(RecvTimeoutError::Timeout) => {
                if waited.elapsed() > pause + interval {
                    woken = Some(Stopwatch::start());
                }
                if !is_pending {
                    (last_question, is_pending) = (Stopwatch::start(), true);
                    // Should that thread be gone, then no answer comes either.
                    let _gone = ask.send(());
                }
            }
        }
    }
}
