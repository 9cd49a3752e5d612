//! Whether a repeat is worthwhile: for schedulers as a word, for Refrain's own retries as a policy.

use crate::{Error, ErrorKind, Outcome, Result, Window, nearest, parse_duration};
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

/// Whether repeating the very same call is worthwhile. A repeat is always safe; this says whether it can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Retry {
    /// At once: what is left to do needs nothing but the call.
    Now,
    /// After a while: what stood in the way may pass.
    Later,
    /// Not before somebody changed something; or there is nothing left to do.
    Never,
}

impl Retry {
    /// The table: what a kind of failure means for a repeat. The task's own failures are refined by [`RetryOn`].
    pub fn after(kind: ErrorKind) -> Self {
        match kind {
            // Another attempt works or has worked (a later call finds what it published, or goes on); something cannot
            // be reached; or only the task, or whoever mends a full disk, can know.
            ErrorKind::Held
            | ErrorKind::Fenced
            | ErrorKind::Unavailable
            | ErrorKind::Unknown
            | ErrorKind::TaskFailed
            | ErrorKind::TimedOut
            | ErrorKind::Internal => Self::Later,
            ErrorKind::Conflict
            | ErrorKind::Unsupported
            | ErrorKind::Invalid
            | ErrorKind::Refused
            | ErrorKind::Guard
            | ErrorKind::Corrupt => Self::Never,
        }
    }

    /// The word for a whole call or attempt.
    pub fn of(outcome: Outcome, kind: Option<ErrorKind>, end: Option<TaskEnd>, on: Option<&RetryOn>) -> Self {
        match (outcome, kind, end, on) {
            (Outcome::Published | Outcome::AlreadyPublished | Outcome::Superseded | Outcome::Recovered, ..) => {
                Self::Never
            }
            // What keeps the follow-up back may need a person.
            (Outcome::Decided, kind, ..) => match kind.map(Self::after) {
                Some(Self::Never) => Self::Never,
                _ => Self::Now,
            },
            (Outcome::TaskFailed | Outcome::TimedOut, _, Some(end), Some(on)) if !on.has(end) => Self::Never,
            (_, Some(kind), ..) => Self::after(kind),
            (_, None, ..) => Self::Later,
        }
    }
}

/// How a task's command failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskEnd {
    /// With this exit code.
    Code(i32),
    /// By this signal, which Refrain did not send.
    Signal(i32),
    /// It was ended because its time limit passed.
    TimedOut,
}

/// Which failures of a task may pass: the entries of `retry_on`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetryOn(Vec<Passing>);

/// One entry of `retry_on`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Passing {
    /// One of these exit codes of the task.
    Codes(RangeInclusive<u8>),
    /// Any exit code of the task but 0.
    Failed,
    /// The time limit.
    Timeout,
    /// The end by a signal.
    Signal,
    /// Another attempt has the lease. Always may pass; may be written for clarity.
    Held,
    /// A store, sink or input cannot be reached. Always may pass; may be written for clarity.
    Unavailable,
}

const NAMES: [(&str, Passing); 5] = [
    ("failed", Passing::Failed),
    ("timeout", Passing::Timeout),
    ("signal", Passing::Signal),
    ("held", Passing::Held),
    ("unavailable", Passing::Unavailable),
];

impl FromStr for Passing {
    type Err = Error;

    /// Reads `75`, `70..79` (both ends included), or a name.
    fn from_str(text: &str) -> Result<Self> {
        let code = |text: &str| text.parse().ok().filter(|code: &u8| *code > 0);
        if text.starts_with(|c: char| c.is_ascii_digit()) {
            let ends = text.split_once("..").unwrap_or((text, text));
            return match (code(ends.0), code(ends.1)) {
                (Some(first), Some(last)) if first <= last => Ok(Self::Codes(first..=last)),
                _ => Err(Error::invalid(format!("`{text}` is no exit code and no range of exit codes"))
                    .hint("exit codes are 1 to 255; a range is written like \"70..79\", both ends included")),
            };
        }
        if let Some((_, passing)) = NAMES.iter().find(|(name, _)| *name == text) {
            return Ok(passing.clone());
        }
        let names = NAMES.iter().map(|(name, _)| *name);
        let hint = match nearest(text, names.clone()) {
            Some(near) => format!("did you mean \"{near}\"?"),
            None => {
                format!(
                    "write exit codes (75), ranges of them (\"70..79\") or {}",
                    names.collect::<Vec<_>>().join(", ")
                )
            }
        };
        Err(Error::invalid(format!("`{text}` is no failure that can be retried")).hint(hint))
    }
}

impl RetryOn {
    /// These entries.
    pub fn new(entries: impl IntoIterator<Item = Passing>) -> Self {
        Self(entries.into_iter().collect())
    }

    /// The entries as they are written.
    pub fn entries(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|entry| match entry {
            Passing::Codes(codes) if codes.start() == codes.end() => codes.start().to_string(),
            Passing::Codes(codes) => format!("{}..{}", codes.start(), codes.end()),
            named => {
                let name = NAMES.iter().find(|(_, passing)| passing == named).map(|(name, _)| *name);
                name.unwrap_or_default().to_owned()
            }
        })
    }

    /// Whether the command's end is listed.
    pub fn has(&self, end: TaskEnd) -> bool {
        self.0.iter().any(|entry| match (entry, end) {
            (Passing::Codes(codes), TaskEnd::Code(code)) => u8::try_from(code).is_ok_and(|code| codes.contains(&code)),
            (Passing::Failed, TaskEnd::Code(_))
            | (Passing::Timeout, TaskEnd::TimedOut)
            | (Passing::Signal, TaskEnd::Signal(_)) => true,
            _ => false,
        })
    }
}

/// How often, after which failures, and after which pauses Refrain itself tries again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The attempts of one call, the first included; at least 1.
    pub attempts: u32,
    /// Pauses between the attempts.
    pub backoff: Backoff,
    /// The task's failures that may pass; without it none is retried, and none is called hopeless.
    pub on: Option<RetryOn>,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { attempts: 1, backoff: Backoff::default(), on: None }
    }
}

impl RetryPolicy {
    /// Whether a call that ended so is tried again, were there attempts left. Only what published nothing is.
    pub fn covers(&self, window: Window, kind: ErrorKind, end: Option<TaskEnd>) -> bool {
        window == Window::NothingPublished
            && match kind {
                ErrorKind::Held | ErrorKind::Unavailable => true,
                ErrorKind::TaskFailed | ErrorKind::TimedOut => {
                    end.is_some_and(|end| self.on.as_ref().is_some_and(|on| on.has(end)))
                }
                _ => false,
            }
    }
}

/// Exponential pauses with full jitter: the n-th is drawn evenly from `least` to `least * 2^n`, and never above `most`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The least pause.
    pub least: Duration,
    /// The longest.
    pub most: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { least: Duration::from_secs(1), most: Duration::from_mins(1) }
    }
}

impl FromStr for Backoff {
    type Err = Error;

    /// Reads `10s..5m`, or `10s` for pauses that are all the same.
    fn from_str(text: &str) -> Result<Self> {
        let (least, most) = text.split_once("..").unwrap_or((text, text));
        let (least, most) = (parse_duration(least)?, parse_duration(most)?);
        if least > most {
            return Err(Error::invalid(format!("`{text}` ends before it begins"))
                .hint("write the shorter pause first, like \"10s..5m\""));
        }
        Ok(Self { least, most })
    }
}

impl Backoff {
    /// The pause before retry `retry` (1 for the first), given a random number from 0 to 1.
    pub fn pause(&self, retry: u32, random: f64) -> Duration {
        let doubled = 1_u32.checked_shl(retry).and_then(|factor| self.least.checked_mul(factor));
        let upper = doubled.unwrap_or(self.most).min(self.most);
        (self.least + upper.saturating_sub(self.least).mul_f64(random.clamp(0.0, 1.0))).min(self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn on(entries: &[&str]) -> RetryOn {
        RetryOn::new(entries.iter().map(|entry| entry.parse().unwrap()))
    }

    #[test]
    fn entries_are_codes_ranges_and_names() {
        let on = on(&["75", "70..72", "timeout"]);
        for (end, listed) in [
            (TaskEnd::Code(75), true),
            (TaskEnd::Code(70), true),
            (TaskEnd::Code(72), true),
            (TaskEnd::Code(73), false),
            (TaskEnd::Signal(9), false),
            (TaskEnd::TimedOut, true),
        ] {
            assert_eq!(on.has(end), listed, "{end:?}");
        }
        assert_eq!(on.entries().collect::<Vec<_>>(), ["75", "70..72", "timeout"]);
        for (text, phrase) in [("0", "1 to 255"), ("79..70", "both ends"), ("256", "1 to 255"), ("timeot", "`timeout`")]
        {
            let error = text.parse::<Passing>().unwrap_err();
            let hint = error.hint.unwrap_or_default().replace('"', "`");
            assert!(error.message.contains(text) && hint.contains(phrase), "{}: {hint}", error.message);
        }
    }

    #[test]
    fn what_may_pass_is_covered_only_before_anything_is_published() {
        let policy = RetryPolicy { on: Some(on(&["75"])), ..RetryPolicy::default() };
        let nothing = Window::NothingPublished;
        assert!(policy.covers(nothing, ErrorKind::Held, None));
        assert!(policy.covers(nothing, ErrorKind::TaskFailed, Some(TaskEnd::Code(75))));
        assert!(!policy.covers(nothing, ErrorKind::TaskFailed, Some(TaskEnd::Code(1))));
        assert!(!policy.covers(nothing, ErrorKind::TaskFailed, None), "refrain itself was told to stop");
        assert!(!policy.covers(nothing, ErrorKind::Guard, None));
        for window in [Window::Published, Window::Unknown] {
            assert!(!policy.covers(window, ErrorKind::Unavailable, None), "{window:?}");
        }
        assert!(!RetryPolicy::default().covers(nothing, ErrorKind::TaskFailed, Some(TaskEnd::Code(75))));
    }

    #[test]
    fn a_listed_failure_is_worth_a_repeat_and_an_unlisted_one_is_not() {
        let word =
            |end, on: Option<&RetryOn>| Retry::of(Outcome::TaskFailed, Some(ErrorKind::TaskFailed), Some(end), on);
        let listed = on(&["75"]);
        assert_eq!(word(TaskEnd::Code(75), Some(&listed)), Retry::Later);
        assert_eq!(word(TaskEnd::Code(1), Some(&listed)), Retry::Never);
        assert_eq!(word(TaskEnd::Code(1), None), Retry::Later, "nobody said");
        assert_eq!(Retry::of(Outcome::Decided, Some(ErrorKind::Unavailable), None, None), Retry::Now);
        assert_eq!(Retry::of(Outcome::Decided, Some(ErrorKind::Conflict), None, None), Retry::Never);
    }

    proptest! {
        #[test]
        fn a_pause_stays_within_its_bounds(
            least in 0_u64..100_000, more in 0_u64..1_000_000, retry in 1_u32..100, random in 0.0_f64..=1.0,
        ) {
            let backoff = Backoff {
                least: Duration::from_millis(least), most: Duration::from_millis(least + more),
            };
            let pause = backoff.pause(retry, random);
            prop_assert!(backoff.least <= pause && pause <= backoff.most);
        }
    }

    #[test]
    fn pauses_grow_to_the_longest() {
        let backoff: Backoff = "10s..5m".parse().unwrap();
        let longest: Vec<_> = (1..=7).map(|retry| backoff.pause(retry, 1.0).as_secs()).collect();
        assert_eq!(longest, [20, 40, 80, 160, 300, 300, 300]);
        assert_eq!(backoff.pause(7, 0.0).as_secs(), 10);
        assert!("5m..10s".parse::<Backoff>().is_err());
    }
}
