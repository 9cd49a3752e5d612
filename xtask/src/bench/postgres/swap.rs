//! The commit of a partition by its number of rows: exchanged, replaced, and replaced by hand.

use super::Place;
use crate::bench::rounds::{Contender, median, medians};
use crate::bench::space::{Space, write};
use crate::bench::table::{Row, Target};
use crate::command::Outcome;
use std::time::Duration;

const ROUNDS: u32 = 3;

/// A partition: its day, its rows, and how often it is published in one round.
struct Size {
    day: &'static str,
    rows: u32,
    name: &'static str,
    times: usize,
}

const SIZES: [Size; 3] = [
    Size { day: "2013-01-01", rows: 10_000, name: "10,000", times: 7 },
    Size { day: "2013-01-02", rows: 100_000, name: "100,000", times: 7 },
    Size { day: "2013-01-03", rows: 5_000_000, name: "5,000,000", times: 1 },
];

const SCHEMA: &str = "
CREATE TABLE swapped (dt date, id bigint, carrier text, delay integer, PRIMARY KEY (dt, id)) PARTITION BY LIST (dt);
CREATE TABLE replaced (dt date, id bigint, carrier text, delay integer, PRIMARY KEY (dt, id));
CREATE TABLE by_hand (dt date, id bigint, carrier text, delay integer, PRIMARY KEY (dt, id));
CREATE TABLE staging (LIKE by_hand);
CREATE TABLE sizes (dt date, rows integer);
";

const TOML: &str = r#"
[task.swapped]
partition = "daily"
out.rows = { to = "URL", table = "swapped", mode = "swap-partition", where = "dt = {date}", sql = "rows.sql" }

[task.replaced]
partition = "daily"
out.rows = { to = "URL", table = "replaced", mode = "replace", where = "dt = {date}", sql = "rows.sql" }
"#;

/// The rows of a day, in an order that is not the key's.
const ROWS: &str = "SELECT s.dt, hashint8(i)::bigint * 10000000 + i, 'carrier ' || i % 20, i % 300 \
    FROM sizes s, generate_series(1, s.rows) i WHERE s.dt = ";

pub(crate) fn measure(space: &Space) -> Outcome<Vec<Row>> {
    let place = Place::new(space, "swap", SCHEMA, TOML)?;
    for Size { day, rows, .. } in &SIZES {
        place.sql(&format!("INSERT INTO sizes VALUES ('{day}', {rows})"))?;
    }
    let statement = format!("INSERT INTO \"REFRAIN_STAGING\" (dt, id, carrier, delay) {ROWS}:date::date;\n");
    write(&place.home().join("rows.sql"), statement)?;
    let mut contenders: Vec<Contender<'_>> = vec![];
    for size in &SIZES {
        for table in ["swapped", "replaced"] {
            contenders.push(Box::new(|_| publish(&place, table, size)));
        }
        contenders.push(Box::new(|_| by_hand(&place, size)));
    }
    let times = medians(ROUNDS, &mut contenders)?;
    drop(contenders);
    let mut rows = vec![];
    for (size, times) in SIZES.iter().zip(times.chunks(3)) {
        let beside = ("`BEGIN; DELETE; INSERT … SELECT; COMMIT` in psql", times[2]);
        let name = size.name;
        rows.push(Row::ratio(&format!("commit of {name} rows, `swap-partition`"), times[0], beside, Target::None));
        rows.push(Row::ratio(&format!("commit of {name} rows, `replace`"), times[1], beside, Target::None));
    }
    let swaps = || times.iter().step_by(3).copied();
    let (longest, shortest) = (swaps().max().unwrap_or_default(), swaps().min().unwrap_or_default());
    let title = "longest commit of `swap-partition`, 10,000 to 5,000,000 rows";
    rows.push(Row::ratio(title, longest, ("the shortest", shortest), Target::AtMost(1.5)));
    Ok(rows)
}

/// Publishes the day anew; the time of the commit.
fn publish(place: &Place<'_>, table: &str, size: &Size) -> Outcome<Duration> {
    repeated(size, || {
        prepare(place, table)?;
        place.space.time(place.run([table, "--date", size.day, "--rerun"]))?;
        place.step("commit")
    })
}

/// The same from a staging table that is filled.
fn by_hand(place: &Place<'_>, size: &Size) -> Outcome<Duration> {
    let day = size.day;
    place.sql(&format!("TRUNCATE staging; INSERT INTO staging {ROWS}'{day}'"))?;
    repeated(size, || {
        prepare(place, "by_hand")?;
        let columns = "dt, id, carrier, delay";
        place.time_psql(&format!(
            "BEGIN; DELETE FROM by_hand WHERE dt = '{day}'; \
             INSERT INTO by_hand ({columns}) SELECT {columns} FROM staging; COMMIT;"
        ))
    })
}

/// Rows that are gone are cleared away, as the server does it by itself.
fn prepare(place: &Place<'_>, table: &str) -> Outcome {
    place.sql(&format!("VACUUM ANALYZE {table}"))?;
    place.settle()
}

fn repeated(size: &Size, once: impl Fn() -> Outcome<Duration>) -> Outcome<Duration> {
    Ok(median((0..size.times).map(|_| once()).collect::<Outcome<_>>()?))
}
