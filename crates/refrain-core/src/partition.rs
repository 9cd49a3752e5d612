//! Partitions: what one repetition of a task is for.

use crate::{Calendar, Error, Interval, Result, nearest};
use jiff::Timestamp;
use std::fmt;

/// An instant whose date stands in hints: 2025-03-24T00:00:00Z.
const EXAMPLE: Timestamp = Timestamp::constant(1_742_774_400, 0);

/// How a task is divided into partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartitionScheme {
    /// Not at all: the task has one key.
    None,
    /// By logical date.
    Dates(Calendar),
    /// By a declared list of names. Made by [`PartitionScheme::values`].
    Values(Vec<String>),
    /// By any name the caller gives. Names are compared byte for byte and keep their full resolution.
    Free,
}

impl PartitionScheme {
    /// A scheme of declared names, each as [`check_name`] wants it and none twice.
    pub fn values(names: Vec<String>) -> Result<Self> {
        if names.is_empty() {
            return Err(Error::invalid("the list of partition values is empty"));
        }
        for (index, name) in names.iter().enumerate() {
            check_name(name)?;
            if names[..index].contains(name) {
                return Err(Error::invalid(format!("the partition value `{name}` is listed twice")));
            }
        }
        Ok(Self::Values(names))
    }

    /// The partition that a caller's `--date` or `--partition` names.
    ///
    /// `now` is only needed for dates such as `yesterday`.
    pub fn partition(&self, date: Option<&str>, partition: Option<&str>, now: Option<Timestamp>) -> Result<Partition> {
        match (self, date, partition) {
            (_, Some(_), Some(_)) => Err(Error::invalid("a partition is named by `--date` or `--partition`, not both")
                .hint(format!("this task takes {}", self.flag()))),
            (Self::None, None, None) => Ok(Partition::whole()),
            (Self::Dates(calendar), Some(date), None) => Ok(Partition::of(calendar.given("--date", date, now)?)),
            (Self::Values(names), None, Some(name)) => one_of(names, name),
            (Self::Free, None, Some(name)) => {
                check_name(name)?;
                Ok(Partition::named(name))
            }
            (Self::None, _, _) => Err(self
                .unfit(date, partition)
                .hint("leave it away, or give the task partitions, such as `partition = \"daily\"` in refrain.toml")),
            (Self::Dates(calendar), _, _) => {
                let example = calendar.containing(EXAMPLE);
                let example = example.map_or_else(|_| "2025-03-24".to_owned(), |interval| interval.key);
                Err(self.unfit(date, partition).hint(format!("give `--date`, as in `--date {example}`")))
            }
            (Self::Values(names), _, _) => {
                Err(self.unfit(date, partition).hint(format!("give `--partition` with one of {}", names.join(", "))))
            }
            (Self::Free, _, _) => Err(self.unfit(date, partition).hint("give `--partition NAME`")),
        }
    }

    /// The partition of a stored key. Refuses what is not a key of this scheme.
    pub fn partition_of_key(&self, key: &str) -> Result<Partition> {
        match self {
            Self::None if key.is_empty() => Ok(Partition::whole()),
            Self::None => Err(Error::invalid(format!("the key `{key}` is not of a task without partitions"))),
            Self::Dates(calendar) => calendar.interval_of_key(key).map(Partition::of),
            Self::Values(_) | Self::Free => self.partition(None, Some(key), None),
        }
    }

    /// The calendar of a dated scheme.
    pub fn calendar(&self) -> Option<&Calendar> {
        match self {
            Self::Dates(calendar) => Some(calendar),
            Self::None | Self::Values(_) | Self::Free => None,
        }
    }

    fn flag(&self) -> &'static str {
        match self {
            Self::None => "neither",
            Self::Dates(_) => "`--date`",
            Self::Values(_) | Self::Free => "`--partition`",
        }
    }

    /// The task wants another flag than it got.
    fn unfit(&self, date: Option<&str>, partition: Option<&str>) -> Error {
        Error::invalid(match (date, partition) {
            (Some(date), _) => format!("the task has {self} and takes no `--date` (`{date}` was given)"),
            (_, Some(name)) => format!("the task has {self} and takes no `--partition` (`{name}` was given)"),
            _ => format!("the task has {self} and needs {}", self.flag()),
        })
    }
}

impl fmt::Display for PartitionScheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("no partitions"),
            Self::Dates(calendar) => write!(f, "{} partitions", calendar.grain()),
            Self::Values(_) => f.write_str("a list of partitions"),
            Self::Free => f.write_str("named partitions"),
        }
    }
}

/// What one repetition of a task is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// The canonical key; empty for a task without partitions.
    pub key: String,
    /// The interval of a logical date.
    pub interval: Option<Interval>,
}

impl Partition {
    /// The one partition of a task without partitions.
    pub fn whole() -> Self {
        Self { key: String::new(), interval: None }
    }

    /// The partition of an interval.
    pub fn of(interval: Interval) -> Self {
        Self { key: interval.key.clone(), interval: Some(interval) }
    }

    fn named(name: &str) -> Self {
        Self { key: name.to_owned(), interval: None }
    }
}

/// Whether `name` may be a partition's key.
///
/// It has 1 to 200 bytes, no control characters and no `/`, is not `.` or `..`, and neither begins nor ends with
/// white space. It is kept byte for byte: no case folding, no Unicode normalisation, so composed and decomposed
/// spellings are two partitions. A name becomes part of paths, hence no `/`; the limit leaves room for a suffix within
/// the 255 bytes of a file name.
pub fn check_name(name: &str) -> Result<()> {
    let reason = if name.is_empty() {
        "it is empty"
    } else if name.len() > 200 {
        "it is longer than 200 bytes"
    } else if name.chars().any(char::is_control) {
        "it has a control character"
    } else if name.contains('/') {
        "it has a `/`, and a partition's name becomes part of paths"
    } else if name == "." || name == ".." {
        "it would name a directory"
    } else if name.trim() != name {
        "it begins or ends with white space"
    } else {
        return Ok(());
    };
    Err(Error::invalid(format!("`{}` cannot name a partition: {reason}", name.escape_debug())))
}

fn one_of(names: &[String], name: &str) -> Result<Partition> {
    if names.iter().any(|known| known == name) {
        return Ok(Partition::named(name));
    }
    let error = Error::invalid(format!("`{}` is not a partition of the task", name.escape_debug()));
    Err(match nearest(name, names.iter().map(String::as_str)) {
        Some(known) => error.hint(format!("did you mean `--partition {known}`?")),
        None => error.hint(format!("partitions are {}", names.join(", "))),
    })
}

#[cfg(test)]
mod tests {
    use super::{PartitionScheme, check_name};
    use crate::{Calendar, Grain};

    fn daily() -> PartitionScheme {
        PartitionScheme::Dates(Calendar::utc(Grain::Daily))
    }

    fn regions() -> PartitionScheme {
        PartitionScheme::values(vec!["EU".to_owned(), "US".to_owned(), "ASIA".to_owned()]).unwrap()
    }

    #[test]
    fn each_scheme_takes_its_own_flag() {
        assert_eq!(PartitionScheme::None.partition(None, None, None).unwrap().key, "");
        let dated = daily().partition(Some("2025-03-24T00:00:00Z"), None, None).unwrap();
        assert_eq!((dated.key.as_str(), dated.interval.is_some()), ("2025-03-24", true));
        assert_eq!(regions().partition(None, Some("EU"), None).unwrap().key, "EU");
        assert_eq!(PartitionScheme::Free.partition(None, Some("a b"), None).unwrap().key, "a b");
    }

    #[test]
    fn a_wrong_flag_is_refused_with_the_right_one() {
        let cases = [
            (PartitionScheme::None, Some("2025-03-24"), None, "takes no `--date`", "refrain.toml"),
            (PartitionScheme::None, None, Some("EU"), "takes no `--partition`", "leave it away"),
            (daily(), None, None, "needs `--date`", "--date 2025-03-24"),
            (daily(), None, Some("EU"), "takes no `--partition`", "--date 2025-03-24"),
            (daily(), Some("2025-03-24"), Some("EU"), "not both", "takes `--date`"),
            (regions(), None, None, "needs `--partition`", "EU, US, ASIA"),
            (regions(), None, Some("EX"), "`EX` is not a partition", "did you mean `--partition EU`?"),
            (regions(), None, Some("elsewhere"), "`elsewhere`", "partitions are EU, US, ASIA"),
            (PartitionScheme::Free, Some("2025-03-24"), None, "takes no `--date`", "--partition NAME"),
            (PartitionScheme::Free, None, None, "needs `--partition`", "--partition NAME"),
        ];
        for (scheme, date, partition, message, hint) in cases {
            let error = scheme.partition(date, partition, None).unwrap_err();
            assert!(error.message.contains(message), "{error}");
            assert!(error.hint.as_deref().unwrap().contains(hint), "{:?}", error.hint);
        }
    }

    #[test]
    fn names_keep_their_bytes_and_resolution() {
        let free = |name| PartitionScheme::Free.partition(None, Some(name), None).unwrap().key;
        assert_ne!(free("2025-03-24T05:00:00Z"), free("2025-03-24T05:00:20Z"));
        assert_ne!(free("caf\u{e9}"), free("cafe\u{301}"));
        assert_ne!(free("eu"), free("EU"));
    }

    #[test]
    fn names_that_break_paths_are_refused() {
        let (long, longest) = ("x".repeat(201), "x".repeat(200));
        for name in ["", ".", "..", "a/b", "../x", "a\nb", "a\0b", " a", "a ", "\u{85}", long.as_str()] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
        assert!(PartitionScheme::Free.partition(None, Some("../x"), None).is_err());
        assert!(PartitionScheme::Free.partition_of_key("a/b").is_err());
        for name in [longest.as_str(), "a..b", ".hidden", "-x", "\u{1f600}", "a b"] {
            check_name(name).unwrap();
        }
    }

    #[test]
    fn a_list_of_values_is_checked() {
        for names in [vec![], vec!["EU", "EU"], vec!["a/b"]] {
            assert!(PartitionScheme::values(names.into_iter().map(str::to_owned).collect()).is_err());
        }
    }

    #[test]
    fn stored_keys_are_read_back_in_one_form() {
        assert_eq!(daily().partition_of_key("2025-03-24").unwrap().key, "2025-03-24");
        assert!(daily().partition_of_key("20250324").is_err());
        assert!(daily().partition_of_key("yesterday").is_err());
        assert_eq!(PartitionScheme::None.partition_of_key("").unwrap().key, "");
        assert!(PartitionScheme::None.partition_of_key("EU").is_err());
        assert!(regions().partition_of_key("MARS").is_err());
    }
}
