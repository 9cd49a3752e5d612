//! Tables that SQL fills, and the commands that make a database ready for them.

use crate::call::NOTHING;
use crate::scene::Scene;
use refrain_testkit::postgres::Version;
use std::fs;

const DATE: [&str; 2] = ["--date", "2013-01-01"];
const DAYS: &str = "mode = \"replace\", where = \"dt = {date}\", sql = \"days.sql\"";
const FILL: &str = "INSERT INTO \"REFRAIN_STAGING\" SELECT :date::date, :param_CARRIER, count(*), 0, 'sql' FROM legs\n\
                    WHERE dep >= :'date_start'::timestamptz AND dep < :date_end::timestamptz";

/// The task `flights` with a table that `days.sql` fills, and no command.
fn scene(version: Version) -> Scene {
    let scene = Scene::new(version);
    scene.sql(
        "CREATE TABLE legs (dep timestamptz); \
         INSERT INTO legs VALUES ('2013-01-01 00:00Z'), ('2013-01-01 23:59Z'), ('2013-01-02 00:00Z')",
    );
    scene.home.config(&format!(
        "[task.flights]\npartition = \"daily\"\nparam.CARRIER = \"O'Hare\"\nout.table = {{ to = \"{}\", table = \"flights\", {DAYS} }}\n",
        scene.database.url()
    ));
    scene
}

#[test]
fn a_query_that_failed_is_mended_and_the_next_call_runs_the_mended_one() {
    for version in Version::ALL {
        let scene = scene(version);
        let write = |sql: &str| fs::write(scene.home.join("days.sql"), sql).unwrap();
        let rows = || scene.sql("SELECT carrier, flights FROM flights");
        // What can be seen in the file is told before anything is begun.
        write(&FILL.replace(":date::date", ":dat::date"));
        scene.run(&DATE).expect_code(125).says("line 1, column 38").says("`:date`").says(NOTHING);
        // What only the server can tell, at the seal; and what the data are refused for.
        write(&FILL.replace("FROM legs", "FROM lags"));
        scene.run(&DATE).expect_code(125).says("`days.sql`, line 1").says("lags").says(NOTHING);
        write(&format!("{FILL};\nSELECT 1 / (SELECT 0)"));
        scene.run(&DATE).expect_code(123).says("line 3").says("division by zero").says(NOTHING);
        assert_eq!(rows(), "");
        write(FILL);
        scene.run(&DATE).success().says("published");
        assert_eq!(rows(), "O'Hare|2");
        scene.run(&DATE).success().says("already published");
        // Another text is another fingerprint.
        write(&FILL.replace("count(*)", "10 * count(*)"));
        scene.run(&[&DATE[..], &["--if-changed"]].concat()).success();
        assert_eq!(rows(), "O'Hare|20");
        scene.home.run(["gc"]).success();
        assert_eq!(scene.sql("SELECT count(*) FROM refrain.staging"), "0");
    }
}

#[test]
fn a_database_is_made_ready_once_and_without_a_home() {
    let scene = Scene::new(Version::V15);
    let url = scene.database.url();
    let elsewhere = tempfile::tempdir().unwrap();
    let refrain = || scene.refrain().cwd(elsewhere.path());
    refrain().run(["init", "--sink", &url]).success().says("made the tables of schema refrain");
    let site = scene.sql("SELECT id FROM refrain.site");
    refrain().run(["init", "--sink", &url]).success().says("nothing changed");
    assert_eq!(scene.sql("SELECT id FROM refrain.site"), site);
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0, "no home");
    refrain().run(["init", "--sink", "warehouse/"]).expect_code(125).says("postgresql://");
    // What is printed for an administrator makes the same.
    let other = Scene::new(Version::V15);
    other.sql("CREATE ROLE \"Loader\" LOGIN");
    let may_not = other.database.url_as("Loader");
    let refused = refrain().run(["init", "--sink", &may_not]).expect_code(125);
    assert!(refused.stderr.contains("refrain sinks --sql Loader | psql"), "{refused}");
    other.sql(&refrain().run(["sinks", "--sql", "Loader"]).success().stdout);
    refrain().run(["init", "--sink", &may_not]).success().says("nothing changed");
    other.sql("DROP OWNED BY \"Loader\"; DROP ROLE \"Loader\"");
    let tables = refrain().run(["sinks", "--sql"]).success().stdout;
    assert!(tables.contains("CREATE TABLE IF NOT EXISTS refrain.head") && !tables.contains("GRANT"), "{tables}");
}
