//! A whole publication of 1,000 rows beside a script of psql, and one that has nothing to do among a million others.

use super::Place;
use crate::bench::rounds::{Contender, medians};
use crate::bench::space::{Space, program, write};
use crate::bench::table::{Row, Target};
use crate::command::Outcome;
use std::fmt::Write;
use std::time::Duration;

const ROUNDS: u32 = 41;
const DAY: &str = "2013-01-01";

const SCHEMA: &str = "
CREATE TABLE delays (dt date NOT NULL, id integer NOT NULL, carrier text, delay integer, PRIMARY KEY (dt, id));
CREATE TABLE by_hand (LIKE delays INCLUDING ALL);
CREATE TABLE ledger (task text, dt date, rows bigint, published_at timestamptz, PRIMARY KEY (task, dt));
";

const TOML: &str = r#"
[task.delays]
partition = "daily"
command = 'cp rows.csv "$REFRAIN_OUT"'
out.rows = { to = "URL", table = "delays", mode = "replace", where = "dt = {date}", from = "rows.csv" }
"#;

/// The same work: a table aside, the file into it, and one transaction that replaces the rows and notes it.
const BY_HAND: &str = "
CREATE TABLE staging (LIKE by_hand);
\\copy staging from 'staged.csv' (format csv, header)
BEGIN;
SELECT 1 FROM ledger WHERE task = 'delays' AND dt = '2013-01-01' FOR UPDATE;
DELETE FROM by_hand WHERE dt = '2013-01-01';
INSERT INTO by_hand SELECT * FROM staging;
INSERT INTO ledger VALUES ('delays', '2013-01-01', (SELECT count(*) FROM staging), now())
  ON CONFLICT (task, dt) DO UPDATE SET rows = excluded.rows, published_at = excluded.published_at;
DROP TABLE staging;
COMMIT;
";

pub(crate) fn measure(space: &Space) -> Outcome<Vec<Row>> {
    let place = Place::new(space, "publish", SCHEMA, TOML)?;
    let server = place.database().server();
    let stored = format!("store = \"URL\"\n{TOML}");
    let stored = Place::beside(space, server.database(), "publish-stored", SCHEMA, &stored)?;
    let crowded = Place::beside(space, server.database(), "publish-crowded", SCHEMA, TOML)?;
    let lone = Place::beside(space, server.database(), "publish-lone", SCHEMA, TOML)?;
    for place in [&place, &stored, &crowded, &lone] {
        write(&place.home().join("rows.csv"), rows()?)?;
        space.time(place.run(["delays", "--date", DAY]))?;
    }
    fill_ledger(&crowded)?;
    place.settle()?;
    let scans = || crowded.sql("SELECT seq_scan FROM pg_stat_user_tables WHERE relid = 'refrain.head'::regclass");
    let before = scans()?;
    let mut contenders: Vec<Contender<'_>> = vec![
        Box::new(|_| space.time(place.run(["delays", "--date", DAY, "--rerun"]))),
        Box::new(|_| by_hand(space, &place)),
        Box::new(|_| space.time(stored.run(["delays", "--date", DAY, "--rerun"]))),
        Box::new(|_| repeat(space, &lone)),
        Box::new(|_| repeat(space, &crowded)),
        Box::new(|_| space.time(crowded.run(["delays", "--date", DAY, "--rerun"]))),
    ];
    let times = medians(ROUNDS, &mut contenders)?;
    drop(contenders);
    let scanned = difference(&before, &scans()?)?;
    let title = "`refrain run` that publishes 1,000 rows in PostgreSQL";
    let script = ("the same work as a script of psql", times[1]);
    let million = "among 1,000,000 ledger rows";
    Ok(vec![
        Row::ratio(title, times[0], script, Target::AtMost(2.0)),
        Row::ratio(&format!("{title}, with its store there"), times[2], script, Target::None),
        Row::ratio(&format!("repeat {million}"), times[4], ("beside one row", times[3]), Target::AtMost(1.2)),
        Row::ratio(&format!("publication {million}"), times[5], ("beside one row", times[0]), Target::AtMost(1.2)),
        Row::number(&format!("sequential scans {million}"), scanned, "scans", Target::AtMost(0.0)),
    ])
}

/// The second of two: what ran before is the same for all.
fn repeat(space: &Space, place: &Place<'_>) -> Outcome<Duration> {
    space.time(place.run(["delays", "--date", DAY]))?;
    space.time(place.run(["delays", "--date", DAY]))
}

fn by_hand(space: &Space, place: &Place<'_>) -> Outcome<Duration> {
    // The script is written before; what it is to copy is made by the same command.
    let psql = place.psql(BY_HAND)?;
    let mut command = program("sh", place.home(), ["-c", "cp rows.csv staged.csv && exec \"$@\"", "sh"]);
    command.arg(psql.get_program()).args(psql.get_args());
    space.time(super::without_defaults(command))
}

/// Rows of the day, as a file.
fn rows() -> Outcome<String> {
    let mut text = String::from("dt,id,carrier,delay\n");
    for id in 0..1000 {
        writeln!(text, "{DAY},{id},carrier {},{}", id % 16, id % 90).map_err(|error| error.to_string())?;
    }
    Ok(text)
}

/// Copies the one row of the ledger, under other names.
fn fill_ledger(place: &Place<'_>) -> Outcome {
    place.sql(
        "INSERT INTO refrain.head (slot, relation, version, head, applied) \
         SELECT slot || '/' || i, relation, gen_random_uuid(), head, applied FROM refrain.head, generate_series(1, 1000000) i; \
         VACUUM ANALYZE refrain.head",
    )?;
    Ok(())
}

fn difference(before: &str, after: &str) -> Outcome<f64> {
    let number = |text: &str| text.parse::<f64>().map_err(|_| format!("no number of scans: {text}"));
    Ok(number(after)? - number(before)?)
}
