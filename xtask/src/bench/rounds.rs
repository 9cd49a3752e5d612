//! Interleaved rounds and their medians.

use crate::command::Outcome;
use std::time::Duration;

/// Something that can be measured once a round: it prepares what it needs, times itself, and says how long it took.
pub(super) type Contender<'a> = Box<dyn FnMut(u32) -> Outcome<Duration> + 'a>;

/// Lets the contenders take turns and returns the median of each, in their order.
///
/// Round 0 warms the caches and is not counted. Who begins changes from round to round.
pub(super) fn medians(rounds: u32, contenders: &mut [Contender<'_>]) -> Outcome<Vec<Duration>> {
    let mut times = vec![vec![]; contenders.len()];
    for round in 0..=rounds {
        for turn in 0..contenders.len() {
            let index = (turn + round as usize) % contenders.len();
            let time = contenders[index](round)?;
            if round > 0 {
                times[index].push(time);
            }
        }
    }
    Ok(times.into_iter().map(median).collect())
}

/// The middle of `values`; the mean of the two middle ones when their number is even.
pub(super) fn median(mut values: Vec<Duration>) -> Duration {
    values.sort_unstable();
    let middle = values.len() / 2;
    match values.get(middle) {
        None => Duration::ZERO,
        Some(&upper) if values.len() % 2 == 1 => upper,
        Some(&upper) => (values[middle - 1] + upper) / 2,
    }
}

/// A date of its own for every round, in a calendar of 28-day months.
pub(super) fn date(round: u32) -> String {
    format!("{}-{:02}-{:02}", 2000 + round / 336, 1 + round / 28 % 12, 1 + round % 28)
}

#[cfg(test)]
mod tests {
    use super::{Contender, date, median, medians};
    use std::cell::RefCell;
    use std::time::Duration;

    #[test]
    fn contenders_take_turns_and_the_first_round_is_not_counted() {
        let order = RefCell::new(String::new());
        let contender = |name: char, slow_first: bool| -> Contender<'_> {
            let order = &order;
            Box::new(move |round| {
                order.borrow_mut().push(name);
                Ok(Duration::from_millis(if round == 0 && slow_first { 1000 } else { u64::from(round) }))
            })
        };
        let result = medians(3, &mut [contender('a', true), contender('b', false)]).unwrap();
        assert_eq!(result, [Duration::from_millis(2); 2]);
        assert_eq!(*order.borrow(), "abbaabba");
    }

    #[test]
    fn the_median_of_an_even_number_is_the_mean_of_the_middle() {
        let values = |list: &[u64]| list.iter().map(|ms| Duration::from_millis(*ms)).collect();
        assert_eq!(median(values(&[9, 1, 3, 2])), Duration::from_micros(2500));
        assert_eq!(median(values(&[9, 1, 3])), Duration::from_millis(3));
    }

    #[test]
    fn every_round_has_a_date_of_its_own() {
        assert_eq!(date(0), "2000-01-01");
        assert_eq!(date(336 + 28 + 1), "2001-02-02");
    }
}
