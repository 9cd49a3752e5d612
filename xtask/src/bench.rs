//! `cargo xtask bench`: how fast the program is, always beside a baseline measured in the same run on the same disk.
//!
//! Only ratios are claimed: a time by itself says more about the machine than about the program. The contenders of a
//! measure take turns, round by round, so that a change of the machine's mood meets all of them.

mod backfill;
mod compare;
mod directory;
mod large;
mod luigi;
mod many;
mod objects;
mod pins;
mod postgres;
mod publish;
mod repeat;
mod rounds;
mod space;
mod table;

use crate::command::Outcome;
use crate::setup;
use space::Space;
use table::Row;

/// One group of measures.
struct Measure {
    name: &'static str,
    run: fn(&Space) -> Outcome<Vec<Row>>,
}

const MEASURES: &[Measure] = &[
    Measure { name: "publish", run: publish::measure },
    Measure { name: "repeat", run: repeat::measure },
    Measure { name: "directory", run: directory::measure },
    Measure { name: "large", run: large::measure },
    Measure { name: "many", run: many::measure },
    Measure { name: "compare", run: compare::measure },
    Measure { name: "pins", run: pins::measure },
    Measure { name: "backfill", run: backfill::measure },
    Measure { name: "postgres-load", run: postgres::load::measure },
    Measure { name: "postgres-swap", run: postgres::swap::measure },
    Measure { name: "postgres-merge", run: postgres::merge::measure },
    Measure { name: "postgres-publish", run: postgres::publish::measure },
    Measure { name: "postgres-store", run: postgres::store::measure },
    Measure { name: "objects-publish", run: objects::publish::measure },
    Measure { name: "objects-commit", run: objects::commit::measure },
];

/// Runs the named groups, or all of them, prints them, and writes their lines into the document.
pub(crate) fn run(names: &[&str]) -> Outcome {
    if let Some(unknown) = names.iter().find(|name| !MEASURES.iter().any(|measure| measure.name == **name)) {
        let known: Vec<_> = MEASURES.iter().map(|measure| measure.name).collect();
        return Err(format!("there is no measure `{unknown}`; there are: {}", known.join(", ")));
    }
    setup::for_benchmarks()?;
    let space = Space::new()?;
    let mut rows = vec![];
    for measure in MEASURES.iter().filter(|measure| names.is_empty() || names.contains(&measure.name)) {
        println!("==> {}", measure.name);
        let measured = (measure.run)(&space).map_err(|error| format!("measure `{}`: {error}", measure.name))?;
        print!("{}", table::markdown(&measured));
        rows.extend(measured);
    }
    table::write_document(&rows, &space.machine(), names.is_empty())?;
    let missed: Vec<String> = rows.iter().filter(|row| !row.holds()).map(|row| row.what.clone()).collect();
    if missed.is_empty() { Ok(()) } else { Err(format!("missed targets: {}", missed.join("; "))) }
}
