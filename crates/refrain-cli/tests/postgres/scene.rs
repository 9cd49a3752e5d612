//! A task that publishes the flights of a day to tables, and what must hold once all is over.

use crate::call::names;
use refrain_testkit::postgres::{Database, Server, Version};
use refrain_testkit::program::{Home, Output, Refrain};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

/// The program under test.
pub(crate) const BIN: &str = env!("CARGO_BIN_EXE_refrain");

pub(crate) const SIGKILL: i32 = 9;

/// Rows as the task writes them into a file.
pub(crate) const REPLACE: &str = "mode = \"replace\", where = \"dt = {date}\", from = \"flights.csv\"";
/// Rows that are added, and that name their run.
pub(crate) const APPEND: &str = "mode = \"append\", run_column = \"run\", from = \"flights.csv\"";

/// The table, partitioned by `dt` in the database or not.
pub(crate) const TABLE: &str = "CREATE TABLE flights (dt date NOT NULL, carrier text NOT NULL, flights int NOT NULL, \
     distance bigint NOT NULL, attempt text NOT NULL, run text)";

/// Counts the flights of a carrier, and names the attempt in every row so that a mixture shows. Fills whatever is declared:
/// the tables `table` and `other`, by file or by statements, and the file `file`.
const MAKE: &str = r#"
echo "$REFRAIN_ATTEMPT" >> runs.log
day="${REFRAIN_DATE:-2013-01-01}"
source="$DATA/$day.csv"
[ -e "$source" ] || source="$DATA/2013-01-01.csv"
rows() {
  awk -F, -v dt="$day" -v attempt="$REFRAIN_ATTEMPT" '
    BEGIN { print "dt,carrier,flights,distance,attempt" }
    NR > 1 { flights[$10]++; distance[$10] += $16 }
    END { for (carrier in flights) print dt "," carrier "," flights[carrier] "," distance[carrier] "," attempt }' "$source"
}
if [ -n "$REFRAIN_OUT_TABLE_DSN" ]; then
  rows | "$PSQL" -X -q -v ON_ERROR_STOP=1 "$REFRAIN_OUT_TABLE_DSN" \
    -c "\\copy $REFRAIN_OUT_TABLE_TABLE (dt, carrier, flights, distance, attempt) FROM STDIN (FORMAT csv, HEADER)"
elif [ -n "$REFRAIN_OUT_TABLE" ]; then
  rows > "$REFRAIN_OUT_TABLE"
fi || exit 3
[ -z "$REFRAIN_OUT_OTHER" ] || rows > "$REFRAIN_OUT_OTHER"
[ -z "$REFRAIN_OUT_FILE" ] || rows > "$REFRAIN_OUT_FILE"
"#;

/// A home and the database that it publishes to.
pub(crate) struct Scene {
    pub(crate) home: Home,
    pub(crate) database: Database,
}

impl Scene {
    /// A database of the server that the tests share.
    pub(crate) fn new(version: Version) -> Self {
        Self::of(Server::shared(version).database())
    }

    pub(crate) fn of(database: Database) -> Self {
        database.psql(TABLE);
        Self { home: fresh_home(), database }
    }

    /// Declares the task `flights` with `out.table`, of which `what` is everything but database and table.
    pub(crate) fn declare(&self, what: &str) {
        self.declare_at(&self.database.url(), what, "");
    }

    /// The same by another way to the database, and with more lines of the task.
    pub(crate) fn declare_at(&self, url: &str, what: &str, more: &str) {
        let partition = if what.contains("\"table\"") { "none" } else { "daily" };
        self.home.config(&format!(
            "[task.flights]\npartition = \"{partition}\"\ncommand = \". ./make.sh\"\n{}\n{more}\n",
            table_at("table", url, what)
        ));
    }

    pub(crate) fn refrain(&self) -> Refrain {
        self.home.refrain()
    }

    pub(crate) fn run(&self, flags: &[&str]) -> Output {
        self.home.run([&["run", "flights"], flags].concat())
    }

    pub(crate) fn sql(&self, sql: &str) -> String {
        self.database.psql(sql)
    }

    /// The attempt whose rows stand for a day, all of them and of no other attempt; nothing where there are none.
    #[track_caller]
    pub(crate) fn shown(&self, date: &str, context: &str) -> Option<String> {
        shown_in(&self.database, date, context)
    }

    /// One publication, told once, and nothing left over after `gc`.
    #[track_caller]
    pub(crate) fn ends(&self, cases: &[(String, String)]) {
        let gc = self.home.run(["gc"]).success();
        let log = log(&self.home);
        let status = self.home.run(["status", "--json"]).success();
        let status: Vec<Value> = serde_json::from_str(&status.stdout).expect("the status");
        for (date, context) in cases {
            let Some(shown) = self.shown(date, context) else { panic!("{context}: {date}: nothing is published") };
            let of_key = |entry: &&Value| entry["key"]["partition"] == **date;
            let entries: Vec<_> = log.iter().filter(of_key).collect();
            for entry in &entries {
                assert!(!entry["ending"].is_null(), "{context}: an attempt was not settled: {entry:#}");
            }
            let state = status.iter().find(|entry| entry["partition"] == **date).expect("the key's state");
            let generation = &state["generation"];
            let newest = &entries[0]["ending"]["outcome"];
            // A rerun that failed before it opened a run leaves the publication that stands; its failure is shown.
            let failed_rerun = *newest == "error" && state["state"] == "failed";
            assert!(state["state"] == "published" || failed_rerun, "{context}: {state:#}");
            let published: Vec<_> = entries
                .iter()
                .filter(|entry| entry["generation"] == *generation && entry["ending"]["outcome"] == "published")
                .map(|entry| text(&entry["attempt"]))
                .collect();
            assert_eq!(published, *std::slice::from_ref(&shown), "{context}: entries of the publication");
            assert_eq!(self.head(date), shown, "{context}: the head");
        }
        has_no_leftover(&self.home, &self.database, &gc);
    }

    /// The attempt that the head of a day names.
    pub(crate) fn head(&self, date: &str) -> String {
        let scope = if date.is_empty() { "slot LIKE '%'".to_owned() } else { format!("slot LIKE '%{date}%'") };
        let head = self.sql(&format!("SELECT head FROM refrain.head WHERE {scope}"));
        let head: Value = serde_json::from_str(&head).unwrap_or_else(|error| panic!("{error}: {head}"));
        text(&head["publication"]["attempt"])
    }

    /// How often the command was started.
    pub(crate) fn executions(&self) -> usize {
        fs::read_to_string(self.home.join("runs.log")).unwrap_or_default().lines().count()
    }
}

/// A home that has the command `make.sh`.
pub(crate) fn fresh_home() -> Home {
    let home = Home::temp(BIN);
    let psql = Version::V15.programs().join("psql");
    home.write("make.sh", format!("DATA='{}'\nPSQL='{}'\n{MAKE}", data().display(), psql.display()));
    home
}

/// The line that declares a table of this database.
pub(crate) fn table_at(name: &str, url: &str, what: &str) -> String {
    format!("out.{name} = {{ to = \"{url}\", table = \"flights\", {what} }}")
}

/// Nothing of attempts is left in the database and in the home.
#[track_caller]
pub(crate) fn has_no_leftover(home: &Home, database: &Database, gc: &Output) {
    let rows = database.psql("SELECT name FROM refrain.staging");
    let tables = database.psql(
        "SELECT relname FROM pg_class WHERE relnamespace = 'refrain'::regnamespace AND relkind IN ('r', 'p') \
         AND relname !~ '^(site|head|horizon|staging|store|key|attempt|watermark)$'",
    );
    assert_eq!((rows.as_str(), tables.as_str()), ("", ""), "left in the database\n{gc}");
    assert_eq!(names(&home.join(".refrain/tables")), Vec::<String>::new(), "left in the home\n{gc}");
}

/// The attempts of a home, newest first.
pub(crate) fn log(home: &Home) -> Vec<Value> {
    let log = home.run(["log", "--json", "-n", "100000"]).success();
    log.stdout.lines().map(|line| serde_json::from_str(line).expect("a line of the log")).collect()
}

/// The attempt whose rows stand for a day in a database; fails the test where they are not the day, once.
#[track_caller]
pub(crate) fn shown_in(database: &Database, date: &str, context: &str) -> Option<String> {
    let date = if date.is_empty() { FIRST } else { date };
    let found = database.psql(&format!(
        "SELECT count(*), sum(flights), count(DISTINCT attempt), min(attempt) FROM flights WHERE dt = '{date}'"
    ));
    let (numbers, attempt) = found.rsplit_once('|').expect("a row");
    if numbers == "0||0" {
        return None;
    }
    assert_eq!(numbers, format!("{}|1", day(date)), "{context}: rows, flights and attempts of {date}");
    Some(attempt.to_owned())
}

/// The day of the tasks that have no partitions.
const FIRST: &str = "2013-01-01";

/// Rows and flights of a day, as a query that counts shows them.
pub(crate) fn day(date: &str) -> String {
    let path = data().join(format!("{date}.csv"));
    let path = if path.exists() { path } else { data().join("2013-01-01.csv") };
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let carriers: Vec<_> = text.lines().skip(1).map(|line| line.split(',').nth(9).expect("a carrier")).collect();
    format!("{}|{}", carriers.iter().collect::<BTreeSet<_>>().len(), carriers.len())
}

/// A date of its own for each number.
pub(crate) fn date(number: usize) -> String {
    format!("2013-{:02}-{:02}", 1 + number / 28, 1 + number % 28)
}

fn data() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/flights/data")
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
