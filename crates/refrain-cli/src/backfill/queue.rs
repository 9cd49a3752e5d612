//! Which date is next, and when no further one is begun.

use refrain::core::Interval;
use std::collections::VecDeque;

/// The dates that wait.
#[derive(Debug)]
pub(super) struct Queue {
    /// Not begun, in the order in which they will be.
    waiting: VecDeque<Interval>,
    /// Held by others when they were tried; tried once more when nothing else is left.
    held: VecDeque<Interval>,
    /// Each date needs the one before it: one at a time, and none after one that is not published.
    in_order: bool,
    max_failures: Option<u64>,
    failures: u64,
    stopped: Option<Stopped>,
}

/// Why no further date is begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stopped {
    Signal(i32),
    Failures(u64),
    /// A date is not published that the next one needs.
    Gap,
}

/// A date that is to be worked on now.
#[derive(Debug)]
pub(super) struct Next {
    pub(super) interval: Interval,
    /// It does not come back to the queue.
    pub(super) last: bool,
}

impl Queue {
    pub(super) fn new(waiting: VecDeque<Interval>, in_order: bool, max_failures: Option<u64>) -> Self {
        Self { waiting, held: VecDeque::new(), in_order, max_failures, failures: 0, stopped: None }
    }

    /// The next date, while so many are being worked on.
    pub(super) fn next(&mut self, running: usize) -> Option<Next> {
        if self.stopped.is_some() || self.in_order && running > 0 {
            return None;
        }
        if let Some(interval) = self.waiting.pop_front() {
            return Some(Next { interval, last: self.in_order });
        }
        self.held.pop_front().map(|interval| Next { interval, last: true })
    }

    /// A date could not be begun because another attempt has it. True if it is tried once more.
    pub(super) fn held(&mut self, next: Next) -> bool {
        if next.last {
            self.gap();
            return false;
        }
        self.held.push_back(next.interval);
        true
    }

    /// A date failed.
    pub(super) fn failed(&mut self) {
        self.failures += 1;
        self.gap();
        if self.max_failures.is_some_and(|most| self.failures >= most) {
            self.stop(Stopped::Failures(self.failures));
        }
    }

    fn gap(&mut self) {
        if self.in_order {
            self.stop(Stopped::Gap);
        }
    }

    /// Begins no further date. The first reason is the one that is told.
    pub(super) fn stop(&mut self, why: Stopped) {
        self.stopped.get_or_insert(why);
    }

    pub(super) fn stopped(&self) -> Option<Stopped> {
        self.stopped
    }

    /// The dates that were not begun, and those that stayed held.
    pub(super) fn into_rest(self) -> (Vec<Interval>, Vec<Interval>) {
        (self.waiting.into(), self.held.into())
    }
}

#[cfg(test)]
mod tests {
    use super::{Queue, Stopped};
    use refrain::core::{Calendar, Grain};

    fn queue(in_order: bool, max_failures: Option<u64>) -> Queue {
        let calendar = Calendar::utc(Grain::Daily);
        let end = |text| calendar.canonical(text, None).unwrap();
        let days = calendar.range(&end("2025-03-01"), &end("2025-03-03")).unwrap();
        Queue::new(days.collect(), in_order, max_failures)
    }

    fn day(queue: &mut Queue, running: usize) -> Option<u8> {
        queue.next(running).map(|next| next.interval.key[8..].parse().unwrap())
    }

    #[test]
    fn a_held_date_is_tried_once_more_after_all_others() {
        let mut queue = queue(false, None);
        let first = queue.next(0).unwrap();
        assert!(queue.held(first));
        assert_eq!((day(&mut queue, 1), day(&mut queue, 1)), (Some(2), Some(3)));
        let again = queue.next(0).unwrap();
        assert!(again.last && again.interval.key == "2025-03-01");
        assert!(!queue.held(again));
        assert_eq!(day(&mut queue, 0), None);
        assert_eq!(queue.stopped(), None);
    }

    #[test]
    fn in_order_one_runs_at_a_time_and_none_after_a_gap() {
        let mut queue = queue(true, None);
        assert_eq!(day(&mut queue, 0), Some(1));
        assert_eq!(day(&mut queue, 1), None);
        assert_eq!(day(&mut queue, 0), Some(2));
        queue.failed();
        assert_eq!((day(&mut queue, 0), queue.stopped()), (None, Some(Stopped::Gap)));
        assert_eq!(queue.into_rest().0.len(), 1);
    }

    #[test]
    fn after_enough_failures_none_is_begun() {
        let mut queue = queue(false, Some(2));
        assert_eq!((day(&mut queue, 0), day(&mut queue, 1)), (Some(1), Some(2)));
        queue.failed();
        queue.failed();
        assert_eq!((day(&mut queue, 0), queue.stopped()), (None, Some(Stopped::Failures(2))));
    }
}
