//! What a repeat costs that has nothing to do, and what the program costs that does nothing.

use super::rounds::{date, medians};
use super::space::{Space, program};
use super::table::{Row, Target};
use crate::command::Outcome;

const ROUNDS: u32 = 101;

pub(super) fn measure(space: &Space) -> Outcome<Vec<Row>> {
    let home = space.home("repeat-home")?;
    let day = date(0);
    let again = || {
        space.refrain(&home, ["run", "bench", "--date", &day, "--stdout", "out/{date}.txt", "--", "echo", "published"])
    };
    // The first one publishes; everything after it is a repeat.
    space.time(again())?;
    let database = home.join(".refrain/state.db");
    let query = || {
        let mut command = program("sqlite3", &home, [&database]);
        command.arg("select 1");
        command
    };
    let times = medians(
        ROUNDS,
        &mut [
            Box::new(|_| space.time(again())),
            Box::new(|_| space.time(query())),
            Box::new(|_| space.time(space.refrain(&home, ["--version"]))),
            Box::new(|_| space.time(program("/bin/true", &home, [""; 0]))),
        ],
    )?;
    Ok(vec![
        Row::ratio(
            "`refrain run` that finds it already published",
            times[0],
            ("`sqlite3 state.db 'select 1'`", times[1]),
            Target::AtMost(1.5),
        ),
        Row::ratio("`refrain --version`", times[2], ("`/bin/true`", times[3]), Target::AtMost(1.5)),
    ])
}
