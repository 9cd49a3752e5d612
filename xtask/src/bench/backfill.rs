//! A backfill of 1,000 days whose command does next to nothing, beside `xargs` over the same commands.

use super::rounds::{Contender, medians};
use super::space::{Space, make, program, write};
use super::table::{Row, Target};
use crate::command::{Outcome, capture};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Each round takes a new home and a new directory; the first is not counted.
const ROUNDS: u32 = 3;
const JOBS: &str = "2";
/// So many days, from the first to the last.
const DAYS: usize = 1000;
const RANGE: [&str; 8] = ["backfill", "bench", "--from", "2020-01-01", "--to", "2022-09-26", "--jobs", JOBS];

/// The task: next to nothing, so that what is around it is measured.
const TASK: &str = r#"echo "$REFRAIN_DATE" > "$REFRAIN_OUT""#;

pub(super) fn measure(space: &Space) -> Outcome<Vec<Row>> {
    let days = days(space)?;
    let mut contenders: Vec<Contender<'_>> = vec![
        Box::new(|round| {
            let home = home(space, &format!("backfill-home-{round}"))?;
            space.settle()?;
            space.time(space.refrain(&home, RANGE))
        }),
        Box::new(|round| {
            let directory = space.fresh(&format!("backfill-xargs-{round}"))?;
            make(&directory.join("out"))?;
            write(&directory.join("days"), &days)?;
            space.settle()?;
            space.time(xargs(&directory))
        }),
    ];
    let times = medians(ROUNDS, &mut contenders)?;
    let beside = "`xargs -P2`: write aside, `sync`, `mv`";
    Ok(vec![Row::ratio("`refrain backfill` of 1,000 days, 2 jobs", times[0], (beside, times[1]), Target::AtMost(2.5))])
}

/// A home with the task.
fn home(space: &Space, name: &str) -> Outcome<PathBuf> {
    let home = space.home(name)?;
    let toml = format!("[task.bench]\npartition = \"daily\"\ncommand = '{TASK}'\nout.day = \"out/{{date}}\"\n");
    write(&home.join("refrain.toml"), toml)?;
    Ok(home)
}

/// The days, one a line.
fn days(space: &Space) -> Outcome<String> {
    let home = home(space, "backfill-days")?;
    let listed = capture(space.refrain(&home, RANGE.iter().chain(&["--dry-run"])))?;
    let days = first_words(&String::from_utf8_lossy(&listed));
    if days.lines().count() == DAYS { Ok(days) } else { Err(format!("{} days are no {DAYS}", days.lines().count())) }
}

fn first_words(listed: &str) -> String {
    listed.lines().filter_map(|line| Some(format!("{}\n", line.split('\t').next()?))).collect()
}

fn xargs(directory: &Path) -> Command {
    let script = format!(
        r#"REFRAIN_DATE=$1 REFRAIN_OUT=$1.part; {TASK} && sync "$REFRAIN_OUT" && mv "$REFRAIN_OUT" "out/$REFRAIN_DATE""#
    );
    program("xargs", directory, ["-P", JOBS, "-n", "1", "-a", "days", "sh", "-c", &script, "sh"])
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_day_is_what_stands_before_the_first_tab() {
        assert_eq!(super::first_words("2020-01-01\trun\tnever\n2020-01-02\trun\t\n"), "2020-01-01\n2020-01-02\n");
    }
}
