//! Hands a program's signals to whichever attempt it works on.

use super::supervise::{Event, EventReceiver, EventSender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The signals of a program that makes several attempts one after the other. Each attempt has a channel of its own, since
/// an event that is left over would end the next one; a signal, though, is meant for all that would follow.
#[derive(Clone, Debug, Default)]
pub struct Relay(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// The attempt that works, or the last one that did.
    current: Option<EventSender>,
    /// The last signal.
    signal: Option<i32>,
}

impl Relay {
    /// Reports a signal: to the attempt that works, and to every later one at its start.
    pub fn signal(&self, number: i32) {
        let mut state = self.lock();
        state.signal = Some(number);
        if let Some(current) = &state.current {
            current.send(Event::Signal(number));
        }
    }

    /// The channel of the next attempt, or of a pause between two.
    pub fn attach(&self) -> (EventSender, EventReceiver) {
        let (sender, receiver) = channel();
        let mut state = self.lock();
        if let Some(number) = state.signal {
            sender.send(Event::Signal(number));
        }
        state.current = Some(sender.clone());
        (sender, receiver)
    }

    /// Nothing in here can be left half done.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::{Event, Relay};

    #[test]
    fn a_signal_reaches_the_attempt_that_works_and_every_later_one() {
        let relay = Relay::default();
        let (_, first) = relay.attach();
        assert_eq!(first.try_next(), None);
        relay.signal(15);
        assert_eq!(first.try_next(), Some(Event::Signal(15)));
        let (_, second) = relay.attach();
        assert_eq!(second.try_next(), Some(Event::Signal(15)));
        assert_eq!(second.try_next(), None);
    }
}
