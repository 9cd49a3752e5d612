//! The hypotheses about a column, and what the pairs seen so far leave of them.

use super::Background;
use super::pairs::{self, Texts};
use super::shapes::{self, TimeShape};

/// What all differing pairs may have in common, the most telling first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hypothesis {
    /// The known string of that index.
    Known(usize),
    Nothing,
    LetterCase,
    Whitespace,
    DecimalComma,
    NumberFormat,
    TimeZone,
    ProcessId,
    WallClock,
    RandomUuid,
    TimeUuid,
    Address,
    Counter,
    Noise,
    RandomNumber,
    HostName,
    TemporaryPath,
    ElementOrder,
    AbsolutePath,
    Token,
    Number,
}

impl Hypothesis {
    /// Whether something more telling may hold for a part of the values.
    pub(super) fn is_vague(self) -> bool {
        matches!(self, Self::Token | Self::AbsolutePath)
    }
}

const PLAIN: [Hypothesis; 20] = [
    Hypothesis::Nothing,
    Hypothesis::LetterCase,
    Hypothesis::Whitespace,
    Hypothesis::DecimalComma,
    Hypothesis::NumberFormat,
    Hypothesis::TimeZone,
    Hypothesis::ProcessId,
    Hypothesis::WallClock,
    Hypothesis::RandomUuid,
    Hypothesis::TimeUuid,
    Hypothesis::Address,
    Hypothesis::Counter,
    Hypothesis::Noise,
    Hypothesis::RandomNumber,
    Hypothesis::HostName,
    Hypothesis::TemporaryPath,
    Hypothesis::ElementOrder,
    Hypothesis::AbsolutePath,
    Hypothesis::Token,
    Hypothesis::Number,
];

/// A clock does not go on for longer than this between two executions that are compared, in nanoseconds.
const BETWEEN_RUNS: i128 = 32 * 86_400 * 1_000_000_000;

const QUARTER: i128 = 15 * 60 * 1_000_000_000;

/// Linux gives no larger number to a process.
const LARGEST_PROCESS: i128 = 4_194_304;

/// Something that must be the same in all pairs.
#[derive(Clone, Debug, Default, PartialEq)]
enum Same<T> {
    #[default]
    Unseen,
    One(T),
}

impl<T: PartialEq> Same<T> {
    /// Whether `value` is the same as before.
    fn holds(&mut self, value: T) -> bool {
        match self {
            Self::Unseen => {
                *self = Self::One(value);
                true
            }
            Self::One(one) => *one == value,
        }
    }
}

/// What a story is about.
pub(super) struct Scope<'a> {
    pub(super) column: &'a str,
    /// Pairs that differ and were looked at.
    pub(super) pairs: u64,
    /// Pairs that differ.
    pub(super) differing: u64,
    /// All pairs, equal ones as well.
    pub(super) total: u64,
}

/// What has been seen of the pairs of one column.
#[derive(Debug)]
pub(super) struct Seen {
    open: Vec<Hypothesis>,
    pub(super) largest: f64,
    sum_of_differences: f64,
    pub(super) step: Option<i128>,
    time_shape: Option<TimeShape>,
    time_sign: Same<bool>,
    shift: Same<i128>,
    counter: Same<i128>,
    process: Same<(i128, i128)>,
    host: Same<(String, String)>,
    token_length: Same<(usize, usize)>,
}

impl Seen {
    /// Everything is possible; `known` is the number of known strings.
    pub(super) fn new(known: usize) -> Self {
        let open = (0..known).map(Hypothesis::Known).chain(PLAIN).collect();
        Self {
            open,
            largest: 0.0,
            sum_of_differences: 0.0,
            step: None,
            time_shape: None,
            time_sign: Same::default(),
            shift: Same::default(),
            counter: Same::default(),
            process: Same::default(),
            host: Same::default(),
            token_length: Same::default(),
        }
    }

    /// Whether any hypothesis is left.
    pub(super) fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Whether a hypothesis about numbers is left.
    pub(super) fn are_numbers(&self) -> bool {
        self.open.iter().any(|hypothesis| matches!(hypothesis, Hypothesis::Noise | Hypothesis::Number))
    }

    /// Whether a hypothesis is left that says more than any about a part of the values would.
    pub(super) fn is_telling(&self) -> bool {
        self.open.iter().any(|hypothesis| !hypothesis.is_vague())
    }

    pub(super) fn add(&mut self, texts: Texts<'_>, background: &Background<'_>) {
        let mut open = std::mem::take(&mut self.open);
        open.retain(|hypothesis| self.holds(*hypothesis, texts, background));
        self.open = open;
    }

    fn holds(&mut self, hypothesis: Hypothesis, texts: Texts<'_>, background: &Background<'_>) -> bool {
        if hypothesis == Hypothesis::Nothing {
            return shapes::is_nothing(texts.left) && shapes::is_nothing(texts.right);
        }
        let Some((left, right)) = texts.both() else { return false };
        match hypothesis {
            Hypothesis::Nothing => false,
            Hypothesis::Known(index) => pairs::equal_without(left, right, &background.known[index]),
            Hypothesis::LetterCase => pairs::equal_but_case(left, right),
            Hypothesis::Whitespace => pairs::equal_but_space(left, right),
            Hypothesis::DecimalComma => pairs::is_decimal_comma(left, right),
            Hypothesis::NumberFormat => {
                shapes::number(left).zip(shapes::number(right)).is_some_and(|(a, b)| a.to_bits() == b.to_bits())
            }
            Hypothesis::TimeZone | Hypothesis::WallClock => self.times_hold(hypothesis, left, right),
            Hypothesis::RandomUuid => versions(left, right).is_some_and(|pair| pair == ('4', '4')),
            Hypothesis::TimeUuid => versions(left, right).is_some_and(|(a, b)| "167".contains(a) && "167".contains(b)),
            Hypothesis::Address => {
                let masked = pairs::without_addresses(left);
                masked.is_some() && masked == pairs::without_addresses(right)
            }
            Hypothesis::ProcessId => integers(left, right).is_some_and(|pair| {
                let is_id = |number| (1..=LARGEST_PROCESS).contains(&number);
                is_id(pair.0) && is_id(pair.1) && self.process.holds(pair)
            }),
            Hypothesis::Counter => integers(left, right).is_some_and(|(a, b)| {
                let step = b.checked_sub(a);
                self.step = step;
                step.is_some_and(|step| self.counter.holds(step))
            }),
            Hypothesis::Noise | Hypothesis::Number | Hypothesis::RandomNumber => {
                self.numbers_hold(hypothesis, left, right)
            }
            Hypothesis::HostName => {
                let are_names = shapes::is_host_name(left) && shapes::is_host_name(right);
                are_names && self.host.holds((left.to_owned(), right.to_owned()))
            }
            Hypothesis::TemporaryPath => shapes::is_temporary_path(left) && shapes::is_temporary_path(right),
            Hypothesis::AbsolutePath => shapes::is_absolute_path(left) && shapes::is_absolute_path(right),
            Hypothesis::ElementOrder => pairs::is_other_order(left, right),
            Hypothesis::Token => {
                let are_tokens = shapes::is_token(left) && shapes::is_token(right);
                are_tokens && self.token_length.holds((left.len(), right.len()))
            }
        }
    }

    fn times_hold(&mut self, hypothesis: Hypothesis, left: &str, right: &str) -> bool {
        let Some(((shape_left, left), (shape_right, right))) = shapes::time(left).zip(shapes::time(right)) else {
            return false;
        };
        let between = right - left;
        if hypothesis == Hypothesis::TimeZone {
            let is_zone = !matches!(shape_left, TimeShape::Date | TimeShape::Epoch);
            return is_zone && between % QUARTER == 0 && between.abs() <= 104 * QUARTER && self.shift.holds(between);
        }
        self.time_shape = Some(shape_left);
        shape_left == shape_right
            && between.abs() <= BETWEEN_RUNS
            && (between == 0 || shape_left == TimeShape::TimeOfDay || self.time_sign.holds(between > 0))
    }

    fn numbers_hold(&mut self, hypothesis: Hypothesis, left: &str, right: &str) -> bool {
        let Some((a, b)) = shapes::number(left).zip(shapes::number(right)) else { return false };
        let difference = pairs::relative_difference(a, b);
        match hypothesis {
            Hypothesis::Noise => {
                (shapes::is_fraction(left) || shapes::is_fraction(right)) && difference <= crate::NOISE
            }
            Hypothesis::RandomNumber => {
                let is_share = |number: f64| (0.0..1.0).contains(&number);
                self.sum_of_differences += difference;
                shapes::is_fraction(left) && is_share(a) && is_share(b)
            }
            _ => {
                self.largest = self.largest.max(difference);
                true
            }
        }
    }

    /// The most telling hypothesis that holds for all pairs.
    pub(super) fn best(&self, scope: &Scope<'_>, background: &Background<'_>) -> Option<Hypothesis> {
        self.open.iter().copied().find(|hypothesis| self.is_told(*hypothesis, scope, background))
    }

    /// Whether a hypothesis that holds is worth telling: some need more than one pair, or a telling name.
    fn is_told(&self, hypothesis: Hypothesis, scope: &Scope<'_>, background: &Background<'_>) -> bool {
        let name = scope.column.to_ascii_lowercase();
        let Scope { pairs, differing, total, .. } = *scope;
        match hypothesis {
            Hypothesis::ProcessId => {
                let is_process = |part| matches!(part, "pid" | "process" | "ppid");
                name.split(['_', '.', ' ']).any(is_process) || (pairs >= 3 && differing == total)
            }
            // A change of a few values by the same amount is no sequence.
            Hypothesis::Counter => pairs >= 2 && differing * 2 >= total,
            Hypothesis::RandomNumber => {
                // Two independent shares differ by half of the larger, on average.
                #[expect(clippy::cast_precision_loss, reason = "a mean needs no more digits")]
                let mean = self.sum_of_differences / pairs as f64;
                pairs >= 8 && mean > 0.3
            }
            Hypothesis::HostName => {
                let has_name =
                    |text: &str| ["host", "node", "machine", "server"].iter().any(|word| text.contains(word));
                let is_ours = |text: &str| background.host_name == Some(text);
                has_name(&name) || matches!(&self.host, Same::One((left, right)) if is_ours(left) || is_ours(right))
            }
            Hypothesis::TimeZone => pairs >= 2 || self.is_same_instant(),
            _ => true,
        }
    }

    /// Whether both sides name the same instants.
    pub(super) fn is_same_instant(&self) -> bool {
        self.shift == Same::One(0)
    }

    /// Whether the times are dates without a time of day.
    pub(super) fn are_dates(&self) -> bool {
        self.time_shape == Some(TimeShape::Date)
    }
}

fn integers(left: &str, right: &str) -> Option<(i128, i128)> {
    shapes::integer(left).zip(shapes::integer(right))
}

fn versions(left: &str, right: &str) -> Option<(char, char)> {
    shapes::uuid_version(left).zip(shapes::uuid_version(right))
}
