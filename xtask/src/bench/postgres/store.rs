//! Leases of the state store, taken by two processes, beside the same statements sent by `pgbench`.

use super::{Place, without_defaults};
use crate::bench::rounds::{Contender, medians};
use crate::bench::space::{Space, program, write};
use crate::bench::table::{Row, Target};
use crate::command::{Outcome, build_example};
use refrain_testkit::postgres::Version;
use std::path::Path;
use std::process::Command;

const ROUNDS: u32 = 7;
const KEYS: f64 = 500.0;
/// Of each of the two processes.
const HALF: &str = "250";

/// Tables like those of the store.
const SCHEMA: &str = "
CREATE TABLE pin (id integer, value text);
INSERT INTO pin VALUES (1, 'store');
CREATE TABLE key (task text, partition text, run text, leased boolean, record text, PRIMARY KEY (task, partition))
    WITH (fillfactor = 70);
CREATE TABLE attempt (seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, attempt text UNIQUE, task text, partition text,
    token bigint, run text, settled boolean, ending text) WITH (fillfactor = 80);
CREATE INDEX ON attempt (task, partition, seq);
CREATE INDEX ON attempt (seq) WHERE NOT settled;
CREATE SEQUENCE keys;
";

/// A lease, a run and an end: three transactions, in each of which the key's row is locked, read and written.
const STATEMENTS: &str = r"
SELECT 'key ' || nextval('keys') AS key, repeat('x', 400) AS record \gset
BEGIN;
SELECT pin.value, key.record FROM pin LEFT JOIN LATERAL (SELECT record FROM key WHERE task = 't' AND partition = :key FOR UPDATE) AS key ON true;
INSERT INTO key VALUES ('t', :key, NULL, false, :record) ON CONFLICT DO NOTHING;
WITH saved AS (UPDATE key SET leased = true, record = :record WHERE task = 't' AND partition = :key)
INSERT INTO attempt (attempt, task, partition, token, settled) VALUES (:key, 't', :key, 1, false);
COMMIT;
BEGIN;
SELECT pin.value, key.record FROM pin LEFT JOIN LATERAL (SELECT record FROM key WHERE task = 't' AND partition = :key FOR UPDATE) AS key ON true;
UPDATE key SET run = 'r', record = :record WHERE task = 't' AND partition = :key;
UPDATE attempt SET run = 'r' WHERE attempt = :key;
COMMIT;
BEGIN;
SELECT pin.value, key.record FROM pin LEFT JOIN LATERAL (SELECT record FROM key WHERE task = 't' AND partition = :key FOR UPDATE) AS key ON true;
UPDATE key SET leased = false, record = :record WHERE task = 't' AND partition = :key;
UPDATE attempt SET settled = true, ending = :record WHERE attempt = :key;
COMMIT;
";

pub(crate) fn measure(space: &Space) -> Outcome<Vec<Row>> {
    let example = build_example("leases", &["--release", "--package", "refrain-store"])?;
    let place = Place::new(space, "store", SCHEMA, "")?;
    write(&place.home().join("leases.sql"), STATEMENTS)?;
    // With no keys it only makes the store.
    space.time(without_defaults(program(&example, place.home(), [place.database().url().as_str(), "none", "0"])))?;
    let mut contenders: Vec<Contender<'_>> = vec![
        Box::new(|round| {
            place.settle()?;
            space.time(leases(&place, &example, round))
        }),
        Box::new(|_| {
            place.settle()?;
            space.time(pgbench(&place))
        }),
    ];
    let times = medians(ROUNDS, &mut contenders)?;
    drop(contenders);
    let title = "500 keys through the store from 2 processes: lease, run, end";
    let beside = ("`pgbench -c 2`, the same statements", times[1]);
    let [leases, plain] = [times[0], times[1]].map(|time| (KEYS / time.as_secs_f64()).round());
    Ok(vec![
        Row::ratio(title, times[0], beside, Target::None),
        Row::number("leases a second", leases, "", Target::None).beside("`pgbench`", plain),
    ])
}

fn leases(place: &Place<'_>, example: &Path, round: u32) -> Command {
    let both = "\"$0\" \"$1\" \"one-$2\" \"$3\" & one=$!; \"$0\" \"$1\" \"two-$2\" \"$3\" && wait $one";
    let mut command = program("sh", place.home(), ["-c", both]);
    command.arg(example).args([&place.database().url(), &round.to_string(), HALF]);
    without_defaults(command)
}

fn pgbench(place: &Place<'_>) -> Command {
    let options = ["-n", "-M", "extended", "-c", "2", "-j", "2", "-t", HALF, "-f", "leases.sql"];
    let mut command = program(Version::V15.programs().join("pgbench"), place.home(), options);
    command.arg(place.database().url());
    without_defaults(command)
}
