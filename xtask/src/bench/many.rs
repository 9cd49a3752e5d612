//! A state with 100,000 published keys, beside one with a single key.

use super::rounds::{Contender, date, medians};
use super::space::{Space, remove};
use super::table::{Row, Target};
use crate::command::{Outcome, capture, cargo};
use std::path::Path;

const ROUNDS: u32 = 21;
const KEYS: u32 = 100_000;
/// A filesystem in memory.
const MEMORY: &str = "/dev/shm";
/// `status` of one task must print in under a second.
const STATUS_MS: f64 = 1000.0;

pub(super) fn measure(space: &Space) -> Outcome<Vec<Row>> {
    // In memory where that is to be had: 100,000 publications on a disk are half an hour of syncs, and both homes are on
    // the same filesystem either way.
    let [full, empty] = [space.home(&place("many-full"))?, space.home(&place("many-empty"))?];
    let measured = compare(space, &full, &empty);
    remove(&full)?;
    remove(&empty)?;
    measured
}

fn place(name: &str) -> String {
    if Path::new(MEMORY).is_dir() { format!("{MEMORY}/refrain-{name}") } else { name.to_owned() }
}

fn compare(space: &Space, full: &Path, empty: &Path) -> Outcome<Vec<Row>> {
    let seeded = seed(full, KEYS)?;
    let lone = seed(empty, 1)?;
    let repeat = |home: &Path, key: &Key| space.time(space.refrain(home, ["run", &key.task, "--date", &key.partition]));
    let publish = |home: &Path, round: u32| {
        let day = date(round);
        space.time(space.refrain(home, ["run", "bench", "--date", &day, "--stdout", "new/{date}", "--", "echo", &day]))
    };
    let mut contenders: Vec<Contender<'_>> = vec![
        Box::new(|_| repeat(full, &seeded)),
        Box::new(|_| repeat(empty, &lone)),
        Box::new(|round| publish(full, round)),
        Box::new(|round| publish(empty, round)),
        Box::new(|_| space.time(space.refrain(full, ["status", &seeded.task]))),
    ];
    let times = medians(ROUNDS, &mut contenders)?;
    let status_ms = times[4].as_secs_f64() * 1000.0;
    Ok(vec![
        Row::ratio("repeat among 100,000 keys", times[0], ("in a home of one key", times[1]), Target::AtMost(1.2)),
        Row::ratio("publication among 100,000 keys", times[2], ("in a home of one key", times[3]), Target::AtMost(1.2)),
        Row::number("`refrain status` of 100,000 keys", status_ms, "ms", Target::AtMost(STATUS_MS)),
    ])
}

/// A key that is published in a seeded home.
struct Key {
    task: String,
    partition: String,
}

/// Publishes `keys` keys of one task in `home`, whose `refrain.toml` then defines the task, and names one of the keys.
///
/// It is done by the library's example `seed`, in one process: `seed HOME N` prints `TASK PARTITION` as its last line.
fn seed(home: &Path, keys: u32) -> Outcome<Key> {
    let mut command = cargo(&["run", "--quiet", "--release", "-p", "refrain", "--example", "seed", "--"]);
    command.arg(home).arg(keys.to_string());
    let printed = String::from_utf8_lossy(&capture(command)?).into_owned();
    parse_key(&printed).ok_or_else(|| format!("the example `seed` must end with a line `TASK PARTITION`: {printed}"))
}

fn parse_key(printed: &str) -> Option<Key> {
    let (task, partition) = printed.lines().next_back()?.trim().split_once(' ')?;
    Some(Key { task: task.to_owned(), partition: partition.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::parse_key;

    #[test]
    fn the_last_line_of_the_seed_names_a_key() {
        let key = parse_key("seeding\nseeded 00042\n").unwrap();
        assert_eq!((key.task.as_str(), key.partition.as_str()), ("seeded", "00042"));
        assert!(parse_key("").is_none());
    }
}
