//! Which partitions of another task an input reads, for one partition of the task that reads it.

use crate::task::{PublicationRef, Task, Which};
use refrain_core::{Calendar, Error, Interval, Partition, PartitionScheme, Result};

/// So many publications make one input at most: the run, and with it each line of its heads' journals, names every one.
const MOST: usize = 1000;

/// The partitions that an input reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reads {
    /// One publication: the input is what was published.
    One(Partition),
    /// The publications of all shorter intervals that make up the reader's: the input is a directory of them.
    Each(Vec<Partition>),
    /// The publication that the reader is about to replace, if there is one.
    Replaced(Partition),
    /// Nothing: the chain starts here.
    Nothing,
}

/// The partitions of `producer` that a partition of `reader` reads.
///
/// | reader | producer | read is |
/// | --- | --- | --- |
/// | none | none | the one publication |
/// | a date | the same grain and zone | the same date |
/// | a date | a longer grain | the interval that the date lies in |
/// | a date | a shorter grain | every interval that the date is made of |
/// | a date, a name | none | the one publication |
/// | a name | names | the same name |
///
/// # Errors
/// `invalid` where the intervals do not fit into each other, where a name is not one of the producer's, and before the
/// start of a chain; the hint names what to write.
pub(crate) fn reads(
    reference: &PublicationRef,
    reader: &Task,
    partition: &Partition,
    producer: &Task,
) -> Result<Reads> {
    match &reference.which {
        Which::Same => same(reader, partition, producer),
        Which::Named(template) => {
            let text = template.render(partition, &reader.params)?;
            let dated = producer.partitions.calendar().is_some();
            let (date, name) = if dated { (Some(text.as_str()), None) } else { (None, Some(text.as_str())) };
            producer.partitions.partition(date, name, None).map(Reads::One)
        }
        Which::Previous { start } => {
            if let (Some(start), Some(interval)) = (start, &partition.interval) {
                let calendar = reader.partitions.calendar().ok_or_else(|| no_order(reader))?;
                let start = calendar.interval_of_key(start)?;
                if interval.start == start.start {
                    return Ok(Reads::Nothing);
                }
                if interval.start < start.start {
                    return Err(Error::invalid(format!(
                        "{} lies before the start of the chain, {}",
                        interval.key, start.key
                    ))
                    .hint("choose a later date, or an earlier `start` in refrain.toml"));
                }
            }
            let Reads::One(read) = same(reader, partition, producer)? else { return Err(no_order(producer)) };
            let (Some(calendar), Some(interval)) = (producer.partitions.calendar(), &read.interval) else {
                return Err(no_order(producer));
            };
            Ok(Reads::One(Partition::of(calendar.previous(interval)?)))
        }
        Which::Replaced => Ok(Reads::Replaced(partition.clone())),
    }
}

fn same(reader: &Task, partition: &Partition, producer: &Task) -> Result<Reads> {
    match (&producer.partitions, &partition.interval) {
        (PartitionScheme::None, _) => Ok(Reads::One(Partition::whole())),
        (PartitionScheme::Dates(theirs), Some(interval)) => dates(reader, interval, producer, theirs),
        (PartitionScheme::Values(_) | PartitionScheme::Free, None) if !partition.key.is_empty() => {
            let found = producer.partitions.partition(None, Some(&partition.key), None);
            found.map(Reads::One).map_err(|error| error.within(format!("task `{}`", producer.name)))
        }
        _ => Err(name_one(reader, producer)),
    }
}

fn dates(reader: &Task, interval: &Interval, producer: &Task, theirs: &Calendar) -> Result<Reads> {
    if reader.partitions.calendar() == Some(theirs) {
        return Ok(Reads::One(Partition::of(interval.clone())));
    }
    let first = theirs.containing(interval.start)?;
    if first.start <= interval.start && interval.end <= first.end {
        return Ok(Reads::One(Partition::of(first)));
    }
    // The end is never an interval's first instant of interest: step back into the reader's interval.
    let last = theirs.previous(&theirs.containing(interval.end)?)?;
    if first.start == interval.start && last.end == interval.end {
        let all: Vec<_> = theirs.range(&first, &last)?.map(Partition::of).take(MOST + 1).collect();
        if all.len() > MOST {
            return Err(Error::invalid(format!(
                "{} is made of more than {MOST} intervals of `{}`",
                interval.key, producer.name
            ))
            .hint("put a task of a grain between the two, such as a day's sum of its hours"));
        }
        return Ok(Reads::Each(all));
    }
    Err(Error::invalid(format!(
        "{} ({} to {}) is not made of whole intervals of `{}` ({theirs})",
        interval.key, interval.start, interval.end, producer.name
    ))
    .hint("give both tasks one time zone, or name the partition: partition = \"{date:%Y-%m-%d}\""))
}

fn name_one(reader: &Task, producer: &Task) -> Error {
    let example = match &producer.partitions {
        PartitionScheme::Values(values) => values.first().cloned().unwrap_or_default(),
        PartitionScheme::Dates(_) => "2025-03-24".to_owned(),
        PartitionScheme::None | PartitionScheme::Free => "NAME".to_owned(),
    };
    Error::invalid(format!(
        "`{}` has {}, and `{}` has {}: it is not clear which one is read",
        reader.name, reader.partitions, producer.name, producer.partitions
    ))
    .hint(format!("name it: partition = \"{example}\""))
}

/// `previous` where there is none.
pub(crate) fn no_order(task: &Task) -> Error {
    Error::invalid(format!("`{}` has {}, and only dates have a previous one", task.name, task.partitions))
        .hint("partition = \"previous\" is for tasks with `partition = \"daily\"` or another grain")
}

/// Whether any partition of the reader can read the producer so: what is wrong for every date is told at once.
pub(crate) fn check_schemes(reference: &PublicationRef, reader: &Task, producer: &Task) -> Result<()> {
    match (&reference.which, &reader.partitions, &producer.partitions) {
        (Which::Named(template), scheme, _) => {
            let fits = !template.depends_on_partition() || *scheme != PartitionScheme::None;
            fits.then_some(()).ok_or_else(|| Error::invalid(format!("`{}` has no partition to fill in", reader.name)))
        }
        (Which::Previous { .. }, PartitionScheme::Dates(_), PartitionScheme::Dates(theirs)) => {
            let ours = reader.partitions.calendar().map(Calendar::grain);
            if ours.is_some_and(|ours| ours > theirs.grain()) {
                return Err(Error::invalid(format!(
                    "a {} task cannot read the previous partition of `{}`, which has {}",
                    reader.partitions.calendar().map_or("", |calendar| calendar.grain().as_str()),
                    producer.name,
                    producer.partitions
                ))
                .hint("leave `partition` away to read every partition of the interval"));
            }
            Ok(())
        }
        (Which::Previous { .. }, PartitionScheme::Dates(_), _) => Err(no_order(producer)),
        (Which::Previous { .. }, _, _) => Err(no_order(reader)),
        (Which::Same, ours, theirs) if *theirs != PartitionScheme::None && kind(ours) != kind(theirs) => {
            Err(name_one(reader, producer))
        }
        (Which::Same | Which::Replaced, _, _) => Ok(()),
    }
}

/// Schemes of one kind can be matched partition by partition.
fn kind(scheme: &PartitionScheme) -> u8 {
    match scheme {
        PartitionScheme::None => 0,
        PartitionScheme::Dates(_) => 1,
        PartitionScheme::Values(_) | PartitionScheme::Free => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use refrain_core::Grain;

    fn task(name: &str, grain: Grain, zone: &str) -> Task {
        Task::new(name, PartitionScheme::Dates(Calendar::new(grain, zone).unwrap()), "/").unwrap()
    }

    fn read(which: Which, reader: &Task, date: &str, producer: &Task) -> Result<Vec<String>> {
        let reference = PublicationRef { task: producer.name.clone(), output: None, which };
        let partition = reader.partitions.partition(Some(date), None, None)?;
        Ok(match reads(&reference, reader, &partition, producer)? {
            Reads::One(one) | Reads::Replaced(one) => vec![one.key],
            Reads::Each(all) => all.into_iter().map(|partition| partition.key).collect(),
            Reads::Nothing => Vec::new(),
        })
    }

    #[test]
    fn grains_that_nest_need_no_word() {
        let zone = "America/New_York";
        let (hours, days) = (task("h", Grain::Hourly, zone), task("d", Grain::Daily, zone));
        let (weeks, months) = (task("w", Grain::Weekly, zone), task("m", Grain::Monthly, zone));
        assert_eq!(read(Which::Same, &days, "2013-03-10", &days).unwrap(), ["2013-03-10"]);
        assert_eq!(read(Which::Same, &days, "2013-03-10", &months).unwrap(), ["2013-03"]);
        let month = read(Which::Same, &months, "2013-02", &days).unwrap();
        assert_eq!((month.len(), month[0].as_str(), month[27].as_str()), (28, "2013-02-01", "2013-02-28"));
        // The clock went forward: a day of 23 hours.
        assert_eq!(read(Which::Same, &days, "2013-03-10", &hours).unwrap().len(), 23);
        assert_eq!(read(Which::Same, &weeks, "2013-W01", &days).unwrap().len(), 7);
        assert_eq!(read(Which::Same, &months, "2013-01", &hours).unwrap().len(), 744);
        let years = task("y", Grain::Yearly, zone);
        assert!(read(Which::Same, &years, "2013", &hours).unwrap_err().message.contains("more than 1000 intervals"));
        let error = read(Which::Same, &months, "2013-02", &weeks).unwrap_err();
        assert!(error.message.contains("not made of whole intervals of `w`"), "{error}");
        let elsewhere = task("u", Grain::Daily, "UTC");
        assert!(read(Which::Same, &days, "2013-03-10", &elsewhere).unwrap_err().hint.unwrap().contains("time zone"));
    }

    #[test]
    fn date_11_the_previous_partition_is_that_of_the_calendar() {
        for (grain, date, previous) in [
            (Grain::Daily, "2024-03-01", "2024-02-29"),
            (Grain::Weekly, "2021-W01", "2020-W53"),
            (Grain::Monthly, "2013-01", "2012-12"),
            (Grain::Yearly, "2013", "2012"),
            (Grain::Hourly, "2013-10-27T02+0100", "2013-10-27T02+0200"),
        ] {
            let chain = task("chain", grain, "Europe/Berlin");
            let which = Which::Previous { start: None };
            assert_eq!(read(which, &chain, date, &chain).unwrap(), [previous]);
        }
        let (days, months) = (task("d", Grain::Daily, "UTC"), task("m", Grain::Monthly, "UTC"));
        assert_eq!(read(Which::Previous { start: None }, &days, "2013-03-31", &months).unwrap(), ["2013-02"]);
    }

    #[test]
    fn a_chain_starts_where_it_is_said_to() {
        let days = task("d", Grain::Daily, "UTC");
        let which = || Which::Previous { start: Some("2013-01-01".to_owned()) };
        assert_eq!(read(which(), &days, "2013-01-01", &days).unwrap(), Vec::<String>::new());
        assert_eq!(read(which(), &days, "2013-01-02", &days).unwrap(), ["2013-01-01"]);
        let error = read(which(), &days, "2012-12-31", &days).unwrap_err();
        assert!(error.message.contains("before the start of the chain, 2013-01-01"), "{error}");
    }

    #[test]
    fn a_named_partition_is_filled_in() {
        let (days, months) = (task("d", Grain::Daily, "UTC"), task("m", Grain::Monthly, "UTC"));
        let which = Which::Named("{date:%Y-%m}".parse().unwrap());
        assert_eq!(read(which, &days, "2013-03-31", &months).unwrap(), ["2013-03"]);
        let names = PartitionScheme::values(vec!["eu".to_owned(), "us".to_owned()]).unwrap();
        let regions = Task::new("r", names, "/").unwrap();
        let wrong = Which::Named("ey".parse().unwrap());
        assert!(read(wrong, &days, "2013-03-31", &regions).unwrap_err().hint.unwrap().contains("`--partition eu`"));
        let error = read(Which::Same, &days, "2013-03-31", &regions).unwrap_err();
        assert!(error.hint.unwrap().contains("partition = \"eu\""));
    }
}
