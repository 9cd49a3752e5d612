//! The words for each hypothesis.

use super::hypothesis::{Hypothesis, Seen};
use super::{Background, Told};
use crate::report::Cause;

/// How a difference is told, and what is to be done about it.
struct Words {
    cause: Cause,
    /// After "looks like ".
    looks: String,
    /// A sentence of its own, where "looks like" would be wrong.
    says: Option<String>,
    hint: &'static str,
}

/// Tells what all pairs have in common; `is_part` when it is about words within the values.
pub(super) fn tell(found: Hypothesis, seen: &Seen, background: &Background<'_>, is_part: bool) -> Told {
    let words = words(found, seen, background);
    let phrase = match words.says {
        Some(says) => says,
        None if is_part => format!("contains what looks like {}", words.looks),
        None => format!("looks like {}", words.looks),
    };
    let largest = matches!(words.cause, Cause::NumericNoise | Cause::Number).then_some(seen.largest);
    Told { cause: Some(words.cause), phrase, hint: words.hint.to_owned(), largest }
}

const CLOCK_HINT: &str = "Take the time from the logical date (`REFRAIN_DATE`), not from the clock.";
const ID_HINT: &str =
    "Derive ids from the key and the row, for instance as a UUID of version 5, or seed them from `REFRAIN_SEED`.";
const PATH_HINT: &str = "Write names relative to the output, or leave the path out.";
const SPELLING_HINT: &str = "Write the value with an explicit format.";

fn words(found: Hypothesis, seen: &Seen, background: &Background<'_>) -> Words {
    let looks = |cause, looks: &str, hint| Words { cause, looks: looks.to_owned(), says: None, hint };
    let says = |cause, says: String, hint| Words { cause, looks: String::new(), says: Some(says), hint };
    match found {
        Hypothesis::Known(index) => {
            says(Cause::KnownString, format!("contains {}", background.known[index].what), PATH_HINT)
        }
        Hypothesis::Nothing => {
            says(Cause::EmptySpelling, "the same missing value, spelled in two ways".to_owned(), SPELLING_HINT)
        }
        Hypothesis::LetterCase => {
            says(Cause::LetterCase, "only capital and small letters differ".to_owned(), SPELLING_HINT)
        }
        Hypothesis::Whitespace => says(Cause::Whitespace, "only spaces differ".to_owned(), SPELLING_HINT),
        Hypothesis::DecimalComma => {
            let hint = "Fix the locale (`LC_ALL`), or write numbers without it.";
            says(Cause::DecimalComma, "the same numbers, with a decimal comma on one side".to_owned(), hint)
        }
        Hypothesis::NumberFormat => {
            says(Cause::NumberFormat, "the same numbers, written in another way".to_owned(), SPELLING_HINT)
        }
        Hypothesis::TimeZone if seen.is_same_instant() => {
            says(Cause::TimeZone, "the same times, written in another way".to_owned(), SPELLING_HINT)
        }
        Hypothesis::TimeZone => {
            looks(Cause::TimeZone, "another time zone", "Fix the time zone (`TZ`), or write times in UTC.")
        }
        Hypothesis::WallClock if seen.are_dates() => looks(Cause::WallClock, "the date of the clock", CLOCK_HINT),
        Hypothesis::WallClock => looks(Cause::WallClock, "a wall-clock time", CLOCK_HINT),
        Hypothesis::RandomUuid => looks(Cause::RandomUuid, "a random UUID", ID_HINT),
        Hypothesis::TimeUuid => looks(Cause::TimeUuid, "a UUID made from the time", ID_HINT),
        Hypothesis::Address => looks(
            Cause::MemoryAddress,
            "an address in memory",
            "Write the object's values, not its default representation.",
        ),
        Hypothesis::ProcessId => looks(
            Cause::ProcessId,
            "a process id, or another number that is new in each run",
            "Leave it out, or use `REFRAIN_IDEMPOTENCY_KEY`, which is the same in all attempts of a run.",
        ),
        Hypothesis::Counter => {
            let step = seen.step.unwrap_or_default();
            let text =
                format!("looks like a counter that goes on from run to run: each right value is the left one {step:+}");
            says(
                Cause::Counter,
                text,
                "Number the rows from the data's own order, not from a sequence that outlives the run.",
            )
        }
        Hypothesis::Noise => {
            let text = format!("numeric noise, largest relative difference {:.0e}", seen.largest);
            says(Cause::NumericNoise, text, "Sum in a fixed order (sort first), or declare a tolerance.")
        }
        Hypothesis::RandomNumber => {
            looks(Cause::RandomNumber, "a random number", "Seed the generator from `REFRAIN_SEED`.")
        }
        Hypothesis::HostName => looks(Cause::HostName, "the name of the host", "Leave it out of the output."),
        Hypothesis::TemporaryPath => looks(Cause::TemporaryPath, "a path in a temporary directory", PATH_HINT),
        Hypothesis::AbsolutePath => looks(Cause::AbsolutePath, "an absolute path", PATH_HINT),
        Hypothesis::ElementOrder => says(
            Cause::ElementOrder,
            "the same elements in another order: looks like the order of a set".to_owned(),
            "Sort the elements before writing them.",
        ),
        Hypothesis::Token => looks(Cause::RandomToken, "a random token or a digest", ID_HINT),
        Hypothesis::Number => {
            let text = format!("other numbers, largest relative difference {:.0e}", seen.largest);
            says(Cause::Number, text, "")
        }
    }
}
