//! A million rows merged of which a hundredth differs, beside what one would write by hand.

use super::Place;
use crate::bench::rounds::{Contender, medians};
use crate::bench::space::{Space, write};
use crate::bench::table::{Row, Target};
use crate::command::Outcome;
use std::cell::Cell;
use std::time::Duration;

const ROUNDS: u32 = 5;
const CHANGED: f64 = 10_000.0;

const SCHEMA: &str = "
CREATE TABLE merged (id bigint PRIMARY KEY, name text, city text, amount numeric, visits integer, seen timestamptz);
CREATE TABLE staging (LIKE merged);
INSERT INTO staging SELECT i, 'customer ' || i, 'city ' || i % 1000, i % 10000 / 100.0, i % 7,
    timestamptz '2025-01-01' + i * interval '1 second' FROM generate_series(1, 1000000) i;
INSERT INTO merged SELECT * FROM staging;
CREATE TABLE updated (LIKE merged INCLUDING ALL);
INSERT INTO updated SELECT * FROM staging;
CREATE TABLE by_merge (LIKE merged INCLUDING ALL);
INSERT INTO by_merge SELECT * FROM staging;
CREATE TABLE on_conflict (LIKE merged INCLUDING ALL);
INSERT INTO on_conflict SELECT * FROM staging;
";

const TOML: &str = r#"
[task.merged]
partition = "daily"
out.rows = { to = "URL", table = "merged", mode = "merge", key = ["id"], sql = "rows.sql" }
"#;

const FILL: &str = "INSERT INTO \"REFRAIN_STAGING\" (id, name, city, amount, visits, seen) \
    SELECT id, name, city, amount, visits, seen FROM staging;\n";

const DIFFERS: &str =
    "(t.name, t.city, t.amount, t.visits, t.seen) IS DISTINCT FROM (s.name, s.city, s.amount, s.visits, s.seen)";
const SET: &str = "name = s.name, city = s.city, amount = s.amount, visits = s.visits, seen = s.seen";

/// What people write, with the memory that it wants.
fn by_hand(way: &str) -> String {
    let statement = match way {
        "updated" => format!(
            "UPDATE updated t SET {SET} FROM staging s WHERE t.id = s.id AND {DIFFERS}; \
             INSERT INTO updated SELECT s.* FROM staging s WHERE NOT EXISTS (SELECT FROM updated t WHERE t.id = s.id)"
        ),
        "by_merge" => format!(
            "MERGE INTO by_merge t USING staging s ON t.id = s.id WHEN MATCHED AND {DIFFERS} THEN UPDATE SET {SET} \
             WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.name, s.city, s.amount, s.visits, s.seen)"
        ),
        _ => format!(
            "INSERT INTO on_conflict AS t SELECT * FROM staging ON CONFLICT (id) DO UPDATE SET {} WHERE {}",
            SET.replace("s.", "excluded."),
            DIFFERS.replace("s.", "excluded.")
        ),
    };
    format!("SET work_mem = '256MB'; SET jit = off; BEGIN; {statement}; COMMIT;")
}

pub(crate) fn measure(space: &Space) -> Outcome<Vec<Row>> {
    let place = Place::new(space, "merge", SCHEMA, TOML)?;
    write(&place.home().join("rows.sql"), FILL)?;
    let rewritten = Cell::new(0.0);
    let mut contenders: Vec<Contender<'_>> = vec![Box::new(|round| {
        let (time, touched) = publish(&place, round)?;
        rewritten.set(f64::max(rewritten.get(), touched - CHANGED));
        Ok(time)
    })];
    for way in ["updated", "by_merge", "on_conflict"] {
        contenders.push(Box::new({
            let place = &place;
            move |round| {
                prepare(place, way, round)?;
                place.time_psql(&by_hand(way))
            }
        }));
    }
    let times = medians(ROUNDS, &mut contenders)?;
    drop(contenders);
    let title = "merge of 1,000,000 rows of which 1% changed, the commit";
    let best = times[1..].iter().min().copied().unwrap_or_default();
    let beside = |name| (name, times[if name == "`MERGE` in psql" { 2 } else { 3 }]);
    Ok(vec![
        Row::ratio(title, times[0], ("the best of these by hand, in psql", best), Target::AtMost(1.2)),
        Row::ratio(title, times[0], ("`UPDATE … FROM`, then `INSERT` in psql", times[1]), Target::None),
        Row::ratio(title, times[0], beside("`MERGE` in psql"), Target::None),
        Row::ratio(title, times[0], beside("`INSERT … ON CONFLICT … WHERE` in psql"), Target::None),
        Row::number("equal rows that the merge rewrote", rewritten.get(), "rows", Target::AtMost(0.0)),
    ])
}

/// Merges anew; the time of the commit, and how many rows were written.
fn publish(place: &Place<'_>, round: u32) -> Outcome<(Duration, f64)> {
    prepare(place, "merged", round)?;
    place.sql("DROP TABLE IF EXISTS before; CREATE TABLE before AS SELECT id, xmin::text AS number FROM merged")?;
    place.settle()?;
    place.space.time(place.run(["merged", "--date", "2013-01-01", "--rerun"]))?;
    let touched = place.sql("SELECT count(*) FROM merged m JOIN before b USING (id) WHERE m.xmin::text <> b.number")?;
    let touched = touched.parse().map_err(|_| format!("no number of rows: {touched}"))?;
    Ok((place.step("commit")?, touched))
}

/// Changes a hundredth of what is staged, unlike what the table has.
fn prepare(place: &Place<'_>, table: &str, round: u32) -> Outcome {
    place.sql(&format!(
        "TRUNCATE staging; INSERT INTO staging SELECT id, CASE WHEN id % 100 = {} THEN 'changed ' || {round} ELSE name END, \
         city, amount, visits, seen FROM {table}; VACUUM ANALYZE staging; VACUUM ANALYZE {table}",
        round % 100
    ))?;
    place.settle()
}
