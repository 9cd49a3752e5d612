//! The same work on many files at once.

use refrain_core::{Error, ErrorKind, Result};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

const BATCH: usize = 32;
const MOST_THREADS: usize = 4;

/// Shares work out that keeps a core busy. The results in the items' order; after an error no further item is begun.
pub(crate) fn on_all_cores<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> Result<R> + Sync) -> Result<Vec<R>> {
    if items.len() <= BATCH {
        return items.iter().map(work).collect();
    }
    let threads = thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
    share_out(items, BATCH, threads, work)
}

/// The same for work that waits: so many items are underway, whatever the number of cores.
pub(crate) fn at_once<T: Sync, R: Send>(
    items: &[T],
    most: usize,
    work: impl Fn(&T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    share_out(items, 1, most.min(items.len()), work)
}

fn share_out<T: Sync, R: Send>(
    items: &[T],
    batch: usize,
    threads: usize,
    work: impl Fn(&T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let share = || -> Result<Vec<(usize, R)>> {
        let mut done = Vec::new();
        loop {
            let first = next.fetch_add(batch, Ordering::Relaxed);
            if first >= items.len() || failed.load(Ordering::Relaxed) {
                return Ok(done);
            }
            for (index, item) in items.iter().enumerate().skip(first).take(batch) {
                done.push((index, work(item).inspect_err(|_| failed.store(true, Ordering::Relaxed))?));
            }
        }
    };
    let mut done = thread::scope(|scope| {
        let helpers: Vec<_> = (1..threads).map(|_| scope.spawn(share)).collect();
        let mut result = share();
        for helper in helpers {
            let helped = helper
                .join()
                .unwrap_or_else(|_| Err(Error::new(ErrorKind::Internal, "a thread that reads inputs ended early")));
            result = match (result, helped) {
                (Ok(mut own), Ok(helped)) => {
                    own.extend(helped);
                    Ok(own)
                }
                (Err(error), _) | (_, Err(error)) => Err(error),
            };
        }
        result
    })?;
    done.sort_unstable_by_key(|(index, _)| *index);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_items_and_one_failure_fails_all() {
        let items: Vec<usize> = (0..1000).collect();
        assert_eq!(on_all_cores(&items, |item| Ok(item * 2)).unwrap(), (0..2000).step_by(2).collect::<Vec<_>>());
        let failing = |item: &usize| if *item == 500 { Err(Error::invalid("no")) } else { Ok(*item) };
        assert!(on_all_cores(&items, failing).is_err());
        assert_eq!(at_once(&items, 8, |item| Ok(item * 2)).unwrap(), (0..2000).step_by(2).collect::<Vec<_>>());
        assert!(at_once(&items, 8, failing).is_err());
        assert!(at_once(&[] as &[usize], 8, failing).unwrap().is_empty());
    }
}
