//! Publishes N daily keys of a task `seeded` in a home, as a Rust program does it: `seed HOME N`. Prints the task and
//! the last key. For measuring how a home with a long history behaves.
#![allow(clippy::print_stdout, reason = "a program whose output is a line")]

use refrain::config::FILE_NAME;
use refrain::core::{Interval, Partition, PartitionScheme};
use refrain::{Begun, Boundary, Error, Home, Options, Result, Task};
use std::path::Path;

const CONFIG: &str = "[task.seeded]\npartition = \"daily\"\ncommand = \"echo row > $REFRAIN_OUT\"\n\
                      out.row = \"rows/{date:%Y}/{date}.csv\"\n";

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let (Some(home), Some(count)) = (args.next(), args.next().and_then(|text| text.parse::<usize>().ok())) else {
        return Err(Error::invalid("usage: seed HOME N"));
    };
    let home = Path::new(&home);
    Home::make(home)?;
    std::fs::write(home.join(FILE_NAME), CONFIG).map_err(|error| Error::io("cannot write the configuration", error))?;
    let boundary = Boundary::open(home)?;
    let task = boundary.home().config.task("seeded")?;
    let PartitionScheme::Dates(calendar) = &task.partitions else {
        return Err(Error::invalid("the task has no dates"));
    };
    let (first, last) = (calendar.interval_of_key("1700-01-01")?, calendar.interval_of_key("9000-01-01")?);
    let intervals: Vec<_> = calendar.range(&first, &last)?.take(count).collect();
    let Some(newest) = intervals.last().map(|interval| interval.key.clone()) else { return Ok(()) };
    std::thread::scope(|scope| {
        let halves = intervals.chunks(count.div_ceil(2));
        let workers: Vec<_> = halves.map(|half| scope.spawn(|| publish_all(home, task, half))).collect();
        workers.into_iter().try_for_each(|worker| {
            worker.join().unwrap_or_else(|_| Err(Error::new(refrain::ErrorKind::Internal, "a thread panicked")))
        })
    })?;
    println!("{} {newest}", task.name);
    Ok(())
}

fn publish_all(home: &Path, task: &Task, intervals: &[Interval]) -> Result<()> {
    let boundary = Boundary::open(home)?;
    intervals.iter().try_for_each(|interval| publish(&boundary, task, &Partition::of(interval.clone())))
}

fn publish(boundary: &Boundary, task: &Task, partition: &Partition) -> Result<()> {
    if let Begun::Attempt(attempt) = boundary.begin(task, partition, &Options::default())? {
        let row = attempt.output("row")?;
        std::fs::write(&row, "row\n").map_err(|error| Error::io("cannot write", error))?;
        attempt.publish().into_result()?;
    }
    Ok(())
}
