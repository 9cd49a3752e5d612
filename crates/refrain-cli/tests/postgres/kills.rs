//! SIGKILL of the program at every step of a publication that goes to tables.

use crate::scene::{APPEND, REPLACE, SIGKILL, Scene, date, has_no_leftover, shown_in, table_at};
use crate::watch::Watch;
use refrain_testkit::postgres::{Database, Server, Version};
use std::fs;

/// The points as `REFRAIN_CRASH_AT` takes them, in the order in which this call reaches them.
fn points(scene: &Scene, flags: &[&str]) -> Vec<String> {
    let told = scene.refrain().env("REFRAIN_CRASH_AT", "?").run([&["run", "flights"], flags].concat()).success();
    let mut points: Vec<String> = vec![];
    for name in told.stderr.lines().filter_map(|line| line.strip_prefix("reached ")) {
        let times = 1 + points.iter().filter(|point| point.split('#').next() == Some(name)).count();
        points.push(format!("{name}#{times}"));
    }
    for name in ["before-task#1", "after-seal#1", "before-database-commit#1", "after-database-commit#1"] {
        assert!(points.iter().any(|point| point == name), "{name} is reached\n{told}");
    }
    points
}

/// Publishes a day for each point, kills the program there, and repeats the call once. Returns the days.
fn kill_everywhere(scene: &Scene, replacing: bool) -> Vec<(String, String)> {
    let watch = Watch::start(&scene.database);
    let points = points(scene, &["--date", "2014-01-01"]);
    let mut cases = vec![];
    for (index, point) in points.iter().enumerate() {
        let date = date(index);
        let mut flags = vec!["run", "flights", "--date", &date];
        if replacing {
            scene.run(&["--date", &date]).success();
            flags.push("--rerun");
        }
        scene.refrain().env("REFRAIN_CRASH_AT", format!("{point}=kill")).run(flags).expect_signal(SIGKILL);
        let repeated = scene.run(&["--date", &date]);
        assert_eq!(repeated.code, Some(0), "killed at {point}: the repeated call failed\n{repeated}");
        cases.push((date, format!("killed at {point}")));
    }
    watch.end();
    cases
}

fn kill_table(version: Version, what: &str, replacing: bool) {
    let scene = Scene::new(version);
    scene.declare(what);
    scene.ends(&kill_everywhere(&scene, replacing));
}

#[test]
fn pgx_05_a_new_table_by_file_survives_a_kill_at_every_point() {
    kill_table(Version::V18, REPLACE, false);
}

#[test]
fn pgx_05_a_replaced_table_by_file_survives_a_kill_at_every_point() {
    kill_table(Version::V15, REPLACE, true);
}

#[test]
fn pgx_05_a_replaced_table_by_the_command_survives_a_kill_at_every_point() {
    kill_table(Version::V18, "mode = \"replace\", where = \"dt = {date}\"", true);
}

#[test]
fn pgx_05_appended_rows_survive_a_kill_at_every_point() {
    kill_table(Version::V15, APPEND, true);
}

#[test]
fn pgx_05_merged_rows_survive_a_kill_at_every_point() {
    let scene = Scene::new(Version::V18);
    scene.sql("ALTER TABLE flights ADD PRIMARY KEY (dt, carrier)");
    scene.declare("mode = \"merge\", where = \"dt = {date}\", delete_missing = true, from = \"flights.csv\"");
    scene.ends(&kill_everywhere(&scene, true));
}

#[test]
fn pgx_05_an_exchanged_partition_survives_a_kill_at_every_point() {
    let scene = Scene::new(Version::V15);
    scene.sql(&format!("DROP TABLE flights; {} PARTITION BY LIST (dt)", crate::scene::TABLE));
    scene.declare("mode = \"swap-partition\", where = \"dt = {date}\", from = \"flights.csv\"");
    scene.ends(&kill_everywhere(&scene, true));
    // Each day has one partition, attached, and nothing was left beside them.
    let beside = "SELECT count(*) FROM pg_class WHERE relname <> 'flights' AND relkind = 'r' AND NOT relispartition \
                  AND relnamespace = 'public'::regnamespace";
    assert_eq!(scene.sql(beside), "0");
}

#[test]
fn pgx_05_rows_of_sql_survive_a_kill_at_every_point() {
    let scene = Scene::new(Version::V15);
    scene.sql("CREATE TABLE source AS SELECT 'A' || n AS carrier, n AS flights FROM generate_series(1, 14) n");
    // As many rows and flights as the file of the days without one of their own.
    scene.sql("UPDATE source SET flights = flights + 842 - (SELECT sum(flights) FROM source) WHERE carrier = 'A1'");
    scene.home.write(
        "flights.sql",
        "INSERT INTO \"REFRAIN_STAGING\" (dt, carrier, flights, distance, attempt)\n\
         SELECT :date::date, carrier, flights, 1, pg_current_xact_id()::text FROM public.source;\n",
    );
    scene.declare("mode = \"replace\", where = \"dt = {date}\", sql = \"flights.sql\"");
    for (index, point) in points(&scene, &["--date", "2014-01-01"]).iter().enumerate() {
        let date = date(index);
        let crashing = scene.refrain().env("REFRAIN_CRASH_AT", format!("{point}=kill"));
        crashing.run(["run", "flights", "--date", &date]).expect_signal(SIGKILL);
        scene.run(&["--date", &date]).success();
        let count = format!("SELECT count(*), sum(flights), count(DISTINCT attempt) FROM flights WHERE dt = '{date}'");
        assert_eq!(scene.sql(&count), "14|842|1", "killed at {point}");
    }
    has_no_leftover(&scene.home, &scene.database, &scene.home.run(["gc"]).success());
}

#[test]
fn pgx_05_a_whole_table_survives_a_kill_at_every_point() {
    let scene = Scene::new(Version::V18);
    scene.declare("mode = \"table\", from = \"flights.csv\"");
    let points = points(&scene, &[]);
    let watch = Watch::start(&scene.database);
    for point in &points {
        let crashing = scene.refrain().env("REFRAIN_CRASH_AT", format!("{point}=kill"));
        crashing.run(["run", "flights", "--rerun"]).expect_signal(SIGKILL);
        scene.run(&[]).success();
        scene.shown("", point);
    }
    watch.end();
    let cases = [(String::new(), "killed everywhere".to_owned())];
    scene.ends(&cases);
}

#[test]
fn fs_11_a_table_and_a_file_survive_a_kill_at_every_point() {
    for (first, second, replacing) in [("table", "file", true), ("file", "table", false)] {
        let scene = Scene::new(Version::V15);
        let line = |name: &str| match name {
            "table" => table_at("table", &scene.database.url(), REPLACE),
            _ => "out.file = \"out/{date}.csv\"".to_owned(),
        };
        scene.home.config(&format!(
            "[task.flights]\npartition = \"daily\"\ncommand = \". ./make.sh\"\n{}\n{}\n",
            line(first),
            line(second)
        ));
        let cases = kill_everywhere(&scene, replacing);
        for (date, context) in &cases {
            let shown = scene.shown(date, context).expect("it is published");
            let file = fs::read_to_string(scene.home.join(format!("out/{date}.csv"))).expect("the file");
            let lines = file.lines().skip(1).filter(|line| line.ends_with(&format!(",{shown}"))).count();
            assert_eq!(lines + 1, file.lines().count(), "{context}: the file is of another attempt");
        }
        scene.ends(&cases);
    }
}

#[test]
fn fs_11_tables_of_two_databases_survive_a_kill_at_every_point() {
    let scene = Scene::new(Version::V15);
    let other: Database = Server::shared(Version::V18).database();
    other.psql(crate::scene::TABLE);
    scene.declare_at(&scene.database.url(), REPLACE, &table_at("other", &other.url(), REPLACE));
    let watch = Watch::start(&other);
    let cases = kill_everywhere(&scene, false);
    watch.end();
    for (date, context) in &cases {
        assert_eq!(scene.shown(date, context), shown_in(&other, date, context), "{context}");
    }
    scene.ends(&cases);
    has_no_leftover(&scene.home, &other, &scene.home.run(["gc"]).success());
}
