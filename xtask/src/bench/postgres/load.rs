//! Five million rows into a staging table, beside `\copy` of the same file.

use super::Place;
use crate::bench::large::peak_memory;
use crate::bench::rounds::{Contender, medians};
use crate::bench::space::{Space, program, write};
use crate::bench::table::{Row, Target};
use crate::command::{Outcome, root};
use crate::python::with_package;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Duration;

const ROUNDS: u32 = 3;
const ROWS: usize = 5_000_000;
const DAYS: &str = "examples/flights/data";

const SCHEMA: &str = "CREATE TABLE flights (year integer, month integer, day integer, dep_time integer, \
    sched_dep_time integer, dep_delay integer, arr_time integer, sched_arr_time integer, arr_delay integer, carrier text, \
    flight integer, tailnum text, origin text, dest text, air_time integer, distance integer, hour integer, \
    minute integer, time_hour timestamptz)";

/// The tasks of both formats. The file is there: nothing but what Refrain does is measured.
const TOML: &str = r#"
[task.csv]
command = 'ln flights.csv "$REFRAIN_OUT"'
out.rows = { to = "URL", table = "flights", mode = "table", truncate = true, from = "flights.csv", null = "NA" }

[task.parquet]
command = 'ln flights.parquet "$REFRAIN_OUT"'
out.rows = { to = "URL", table = "flights", mode = "table", truncate = true, from = "flights.parquet" }
"#;

/// Writes the Parquet file with what another program would use.
const PARQUET: &str = r#"
import duckdb
duckdb.sql("copy (from read_csv('flights.csv', nullstr='NA')) to 'flights.parquet'")
"#;

pub(crate) fn measure(space: &Space) -> Outcome<Vec<Row>> {
    let place = Place::new(space, "load", SCHEMA, TOML)?;
    repeat_days(&place.home().join("flights.csv"))?;
    let python = with_package("duckdb", "duckdb==2.0.1")?;
    write(&place.home().join("parquet.py"), PARQUET)?;
    space.time(program(python, place.home(), ["parquet.py"]))?;
    let mut peak = 0.0;
    let mut contenders: Vec<Contender<'_>> = vec![
        Box::new(|_| Ok(publish(space, &place, "csv")?.0)),
        Box::new(|_| copy(&place)),
        Box::new(|_| Ok(publish(space, &place, "parquet")?.0)),
    ];
    let times = medians(ROUNDS, &mut contenders)?;
    drop(contenders);
    for task in ["csv", "parquet"] {
        peak = f64::max(peak, publish(space, &place, task)?.1);
    }
    let beside = ("`\\copy` of the CSV in psql", times[1]);
    Ok(vec![
        Row::ratio("loading 5,000,000 rows, CSV of 466 MB", times[0], beside, Target::AtMost(1.15)),
        Row::ratio("loading the same rows, Parquet", times[2], beside, Target::AtMost(1.3)),
        Row::number("peak memory, loading 5,000,000 rows", peak, "MiB", Target::AtMost(64.0)),
    ])
}

/// Publishes the file anew; returns the time of the seal and the peak of the memory.
fn publish(space: &Space, place: &Place<'_>, task: &str) -> Outcome<(Duration, f64)> {
    place.settle()?;
    let peak = peak_memory(space, &place.run([task, "--rerun", "--adopt"]))?;
    Ok((place.step("seal")?, peak))
}

/// Copies the file into a table like the staging table.
fn copy(place: &Place<'_>) -> Outcome<Duration> {
    place.sql("DROP TABLE IF EXISTS staging; CREATE TABLE staging (LIKE flights INCLUDING CONSTRAINTS)")?;
    place.settle()?;
    let time = place.time_psql("\\copy staging from 'flights.csv' (format csv, header, null 'NA')")?;
    place.sql("DROP TABLE staging")?;
    Ok(time)
}

/// Writes the days of the example one after the other, again and again.
fn repeat_days(path: &Path) -> Outcome {
    let failed = |error| format!("cannot write {}: {error}", path.display());
    let mut days: Vec<_> = fs::read_dir(root().join(DAYS)).map_err(failed)?.flatten().map(|day| day.path()).collect();
    days.sort();
    let days = days.iter().map(fs::read_to_string).collect::<Result<Vec<_>, _>>().map_err(failed)?;
    let header = days.first().and_then(|day| day.lines().next()).ok_or_else(|| format!("{DAYS} is empty"))?;
    let rows = days.iter().flat_map(|day| day.lines().skip(1)).cycle().take(ROWS);
    let mut file = BufWriter::new(File::create(path).map_err(failed)?);
    std::iter::once(header).chain(rows).try_for_each(|line| writeln!(file, "{line}")).map_err(failed)?;
    file.flush().map_err(failed)
}
