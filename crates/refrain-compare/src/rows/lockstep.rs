//! Two tables read side by side, row for row.

use super::{Batch, Side, Stop, Table, Want};
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, sync_channel};

/// Batches of one side that wait to be looked at; each may be large.
const WAITING: usize = 2;

/// A row of each side.
pub(super) struct Pair<'a> {
    pub(super) left: (&'a Batch, usize),
    pub(super) right: (&'a Batch, usize),
}

/// Calls `visit` for each pair of rows in the same place, until one side ends.
pub(super) fn walk(left: &dyn Table, right: &dyn Table, mut visit: impl FnMut(&Pair<'_>)) -> Result<(), (Side, Stop)> {
    std::thread::scope(|scope| {
        let (send_left, receive_left) = sync_channel(WAITING);
        let (send_right, receive_right) = sync_channel(WAITING);
        // A send fails when the other side has ended: there is nothing to compare with any more.
        let read = |table: &dyn Table, send: std::sync::mpsc::SyncSender<Batch>| {
            table.scan(Want::Values, &mut |batch| {
                Ok(if send.send(batch).is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
            })
        };
        let left = scope.spawn(move || read(left, send_left));
        let right = scope.spawn(move || read(right, send_right));
        pair_up(&receive_left, &receive_right, &mut visit);
        drop((receive_left, receive_right));
        for (side, thread) in [(Side::Left, left), (Side::Right, right)] {
            match thread.join() {
                Ok(result) => result.map_err(|stop| (side, stop))?,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(())
    })
}

/// A batch and the next row in it.
type At = (Batch, usize);

fn pair_up(left: &Receiver<Batch>, right: &Receiver<Batch>, visit: &mut impl FnMut(&Pair<'_>)) {
    let (mut current_left, mut current_right): (Option<At>, Option<At>) = (None, None);
    loop {
        let (Some(from_left), Some(from_right)) = (refill(current_left, left), refill(current_right, right)) else {
            return;
        };
        let count = (from_left.0.rows - from_left.1).min(from_right.0.rows - from_right.1);
        for offset in 0..count {
            visit(&Pair { left: (&from_left.0, from_left.1 + offset), right: (&from_right.0, from_right.1 + offset) });
        }
        current_left = Some((from_left.0, from_left.1 + count));
        current_right = Some((from_right.0, from_right.1 + count));
    }
}

/// The batch at hand while it has rows left, or the next one that has any.
fn refill(current: Option<At>, receiver: &Receiver<Batch>) -> Option<At> {
    match current {
        Some((batch, row)) if row < batch.rows => Some((batch, row)),
        _ => receiver.iter().find(|batch| batch.rows > 0).map(|batch| (batch, 0)),
    }
}
