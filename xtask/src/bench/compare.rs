//! Two outputs of 500 MB, compared by the library's example `compare` and by DuckDB's `EXCEPT` both ways.

use super::large::peak_memory;
use super::rounds::{Contender, medians};
use super::space::{Space, program, write};
use super::table::{Row, Target};
use crate::command::{Outcome, build_example};
use crate::python::with_package;
use std::path::Path;
use std::process::Command;

const ROUNDS: u32 = 3;
const PACKAGE: &str = "duckdb==2.0.1";

/// Writes `left`, `clock` (another time in every row) and `changed` (100 rows differ, all stand in another order).
const WRITE: &str = r#"
import sys, duckdb
form, rows = sys.argv[1], int(sys.argv[2])
base = f"""select i as id, 'customer ' || (hash(i) % 100000) as customer, (hash(i * 7) % 1000000) / 100.0 as amount,
    hash(i * 11) % 1000 as quantity, date '2025-01-01' + (hash(i * 13) % 365)::int as day, md5(i::varchar) as token,
    {{at}} as loaded_at from range({rows}) t(i)"""
left = base.format(at="timestamp '2025-03-24 10:00:00' + to_microseconds(i)")
clock = base.format(at="timestamp '2025-03-24 11:07:01' + to_microseconds(i * 2)")
changed = f"select * replace ((quantity + (id % {rows // 100} = 7)::int)::ubigint as quantity) from ({left}) order by hash(id)"
connection = duckdb.connect()
for name, query in [("left", left), ("clock", clock), ("changed", changed)]:
    connection.execute(f"copy ({query}) to '{name}.{form}'")
"#;

/// Counts the rows that each side has for itself.
const EXCEPT: &str = r#"
import sys, duckdb
left, right = sys.argv[1:]
count = lambda a, b: f"(select count(*) from (select * from '{a}' except select * from '{b}'))"
duckdb.sql(f"select {count(left, right)}, {count(right, left)}").fetchall()
"#;

/// A format and how many rows make about 500 MB of it.
const FORMATS: [(&str, &str, &str); 2] = [("csv", "CSV", "5000000"), ("parquet", "Parquet", "9500000")];

pub(super) fn measure(space: &Space) -> Outcome<Vec<Row>> {
    let python = with_package("duckdb", PACKAGE)?;
    let example = build_example("compare", &["--release", "--package", "refrain-compare"])?;
    let directory = space.fresh("compare")?;
    write(&directory.join("write.py"), WRITE)?;
    write(&directory.join("except.py"), EXCEPT)?;
    let mut rows = vec![];
    for (form, name, count) in FORMATS {
        space.time(program(&python, &directory, ["write.py", form, count]))?;
        for (right, what) in
            [("clock", "a time differs in every row"), ("changed", "100 rows differ, in another order")]
        {
            let files = [format!("left.{form}"), format!("{right}.{form}")];
            rows.extend(measure_pair(
                space,
                &Pair { python: &python, example: &example, directory: &directory, files },
                name,
                what,
            )?);
        }
        for file in ["left", "clock", "changed"] {
            let path = directory.join(format!("{file}.{form}"));
            std::fs::remove_file(&path).map_err(|error| format!("cannot remove {}: {error}", path.display()))?;
        }
    }
    Ok(rows)
}

struct Pair<'a> {
    python: &'a Path,
    example: &'a Path,
    directory: &'a Path,
    files: [String; 2],
}

impl Pair<'_> {
    fn compare(&self) -> Command {
        program(self.example, self.directory, &self.files)
    }

    fn except(&self) -> Command {
        let mut command = program(self.python, self.directory, ["except.py"]);
        command.args(&self.files);
        command
    }
}

fn measure_pair(space: &Space, pair: &Pair<'_>, name: &str, what: &str) -> Outcome<Vec<Row>> {
    let mut contenders: Vec<Contender<'_>> =
        vec![Box::new(|_| space.time(pair.compare())), Box::new(|_| space.time(pair.except()))];
    let times = medians(ROUNDS, &mut contenders)?;
    drop(contenders);
    let title = format!("two {name} files of 500 MB compared: {what}");
    let memory = peak_memory(space, &pair.compare())?;
    Ok(vec![
        Row::ratio(&title, times[0], ("DuckDB, `EXCEPT` both ways", times[1]), Target::AtMost(2.0)),
        Row::number(&format!("peak memory, {name}: {what}"), memory, "MiB", Target::AtMost(512.0)),
    ])
}
