//! Which homes share a store: those of one project, however many hosts they are on.
//!
//! A store knows tasks by their names alone. A home of another project that declares a task of the same name would go on
//! with runs that are none of its own, so each home is looked at before it works with a store for the first time.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a home declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HomeRecord {
    /// Tells this declaration from others.
    pub digest: String,
    /// The declared tasks, by name.
    pub tasks: BTreeMap<String, TaskRecord>,
    /// Where the home is, for people.
    pub place: String,
}

/// What tells one task from another of the same name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRecord {
    /// Digest of the declaration as it is written.
    pub written: String,
    /// Digest of where it publishes, and of the inputs that it names.
    pub places: String,
}

/// Why a home works with a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// It begins to, and must be of the project that the store is of.
    Newcomer,
    /// It did before, or its user says that it is of the same project: what it declares now is noted.
    Member,
}

/// A home of another project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stranger {
    /// The task that a home of the store declares in another way; nothing when the two have no task in common.
    pub task: Option<String>,
    /// Where that home is.
    pub place: String,
}

/// The tasks of a home that is known, and where it is.
pub(crate) type Known = (BTreeMap<String, TaskRecord>, String);

/// Nothing if the newcomer is of the project of these homes.
pub(crate) fn judge(home: &HomeRecord, known: &[Known]) -> Option<Stranger> {
    let mut strange = None;
    for (tasks, place) in known {
        let both = || home.tasks.iter().filter_map(|(name, one)| Some((name, one, tasks.get(name)?)));
        let differs = both().find(|(_, one, other)| one.written != other.written && one.places != other.places);
        match differs {
            None if both().next().is_some() => return None,
            None => strange = strange.or(Some(Stranger { task: None, place: place.clone() })),
            Some((name, ..)) if strange.as_ref().is_none_or(|stranger: &Stranger| stranger.task.is_none()) => {
                strange = Some(Stranger { task: Some(name.clone()), place: place.clone() });
            }
            Some(_) => {}
        }
    }
    strange
}

#[cfg(test)]
mod tests {
    use super::{HomeRecord, Known, Stranger, TaskRecord, judge};
    use std::collections::BTreeMap;

    fn tasks(declared: &[(&str, &str, &str)]) -> BTreeMap<String, TaskRecord> {
        let task = |(name, written, places): &(&str, &str, &str)| {
            let record = TaskRecord { written: (*written).to_owned(), places: (*places).to_owned() };
            ((*name).to_owned(), record)
        };
        declared.iter().map(task).collect()
    }

    #[test]
    fn a_home_is_of_a_project_when_the_tasks_that_both_have_are_the_same() {
        let home = |declared| HomeRecord { digest: String::new(), tasks: tasks(declared), place: String::new() };
        let known: Vec<Known> = vec![
            (tasks(&[("day", "written 2", "there"), ("hour", "so", "here")]), "b".to_owned()),
            (tasks(&[("day", "written 1", "there")]), "a".to_owned()),
        ];
        let stranger =
            |task: Option<&str>, place: &str| Some(Stranger { task: task.map(str::to_owned), place: place.to_owned() });
        assert_eq!(judge(&home(&[("day", "written 3", "elsewhere")]), &[]), None, "the first one");
        assert_eq!(judge(&home(&[("day", "written 1", "elsewhere")]), &known), None, "written alike");
        assert_eq!(judge(&home(&[("day", "written 3", "there"), ("month", "x", "y")]), &known), None, "same places");
        assert_eq!(judge(&home(&[("day", "written 3", "elsewhere")]), &known), stranger(Some("day"), "b"));
        assert_eq!(judge(&home(&[("month", "x", "y")]), &known), stranger(None, "b"));
        let half = home(&[("day", "written 2", "there"), ("hour", "other", "elsewhere")]);
        assert_eq!(judge(&half, &known[..1]), stranger(Some("hour"), "b"));
    }
}
