//! What is said when a database cannot be used, and what is never said: passwords.

use crate::call::{NOTHING, assert_closes, run};
use crate::scene::{REPLACE, Scene, table_at};
use refrain_testkit::freeze::{stop_tree, wait_for, wake_all};
use refrain_testkit::postgres::{Proxy, Server, Version};
use refrain_testkit::program::Output;
use std::fs;
use std::path::Path;

const DATE: &str = "2013-01-01";
const SECRET: &str = "hush-5ecret";

/// Everything below a directory, as one text.
fn everything(directory: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            text += &everything(&path);
        } else if path.is_file() {
            text += &String::from_utf8_lossy(&fs::read(&path).unwrap());
        }
    }
    text
}

#[test]
fn a_password_is_in_nothing_that_is_written_or_shown() {
    let hosts = ["host all keeper all scram-sha-256"];
    let server = Server::with(Version::V15, &[], &hosts);
    let scene = Scene::of(server.database());
    let name = scene.database.name();
    scene.sql(&format!(
        "CREATE ROLE keeper LOGIN PASSWORD '{SECRET}'; GRANT CREATE ON DATABASE {name} TO keeper; GRANT ALL ON flights TO keeper"
    ));
    let url = |password: &str| format!("postgres://keeper:{password}@127.0.0.1:{}/{name}", server.port());
    // By a file that is loaded, and by the command itself, which is told how to connect.
    for what in [REPLACE, "mode = \"replace\", where = \"dt = {date}\""] {
        scene.declare_at("${SECRET_URL}", what, "");
        let refrain = scene.refrain().env("SECRET_URL", url(SECRET)).env("REFRAIN_LOG", "debug");
        let running = refrain.env("REFRAIN_CRASH_AT", "before-commit=stop").spawn([
            "-vv",
            "run",
            "flights",
            "--date",
            DATE,
            "--rerun",
            "--report",
            "report.json",
        ]);
        wait_for("it stands still", || refrain_testkit::freeze::state(running.pid()) == Some('T'));
        let stopped = stop_tree(running.pid());
        let shown = fs::read(format!("/proc/{}/cmdline", running.pid())).unwrap();
        assert!(!String::from_utf8_lossy(&shown).contains(SECRET), "the list of processes");
        wake_all(&stopped);
        let mut outputs = vec![running.wait().success()];
        let refrain = scene.refrain().env("SECRET_URL", url(SECRET));
        for args in [
            &["config", "show"][..],
            &["status"],
            &["log", "--json"],
            &["path", "flights", "--date", DATE],
            &["why", "flights", "--date", DATE],
            &["gc"],
            &["recover"],
            &["-vv", "run", "flights", "--date", DATE],
        ] {
            outputs.push(refrain.run(args).success());
        }
        let wrong = scene.refrain().env("SECRET_URL", url(&format!("{SECRET}-wrong")));
        outputs.push(wrong.run(["-vv", "run", "flights", "--date", DATE]).expect_code(125).says("hint: "));
        for Output { stdout, stderr, .. } in &outputs {
            assert!(!stdout.contains(SECRET) && !stderr.contains(SECRET), "{stdout}\n{stderr}");
        }
    }
    assert!(!everything(scene.home.path()).contains(SECRET), "a file of the home holds the password");
}

#[test]
fn every_mistake_is_named_with_its_reason_and_the_next_command() {
    let scene = Scene::new(Version::V15);
    let url = scene.database.url();
    let port = scene.database.server().port();
    // A port that nobody listens at any more.
    let dead = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let name = scene.database.name();
    scene.sql("CREATE VIEW seen AS SELECT * FROM flights; CREATE ROLE nobody_special LOGIN");
    let at = |url: &str, what: &str| table_at("table", url, what);
    let mistakes: Vec<(String, &[&str])> = vec![
        (at(&format!("postgres://postgres@127.0.0.1:{dead}/{name}"), REPLACE), &["127.0.0.1"]),
        (at(&format!("postgres://postgres@no-such-host.invalid/{name}"), REPLACE), &["no-such-host.invalid"]),
        (at(&format!("postgres://postgres@127.0.0.1:{port}/nowhere"), REPLACE), &["nowhere"]),
        (at(&format!("postgres://stranger@127.0.0.1:{port}/{name}"), REPLACE), &["stranger"]),
        (at(&format!("postgres://nobody_special@127.0.0.1:{port}/{name}"), REPLACE), &["refrain sinks --sql"]),
        (at(&url, REPLACE).replace("\"flights\"", "\"flihgts\""), &["flihgts", "no table"]),
        (at(&url, REPLACE).replace("\"flights\"", "\"seen\""), &["seen", "a view"]),
        (at(&url, &REPLACE.replace("dt =", "td =")), &["td", "dt"]),
        (at(&url, &REPLACE.replace("dt = {date}", "dt")), &["where", "no condition"]),
        (at(&url, &REPLACE.replace("dt = {date}", "dt = 'soon' and carrier = {date}")), &["soon"]),
        (at(&url, "where = \"dt = {date}\", from = \"flights.csv\""), &["mode", "replace"]),
        (at(&url, &REPLACE.replace("replace", "replcae")), &["replcae", "did you mean \"replace\""]),
        (at(&url, &REPLACE.replace("mode =", "mdoe =")), &["unknown key", "mdoe", "did you mean", "mode"]),
    ];
    let prepared = Scene::new(Version::V18);
    for (line, phrases) in &mistakes {
        let scene = if line.contains("nobody_special") { &prepared } else { &scene };
        let line = if line.contains("nobody_special") {
            scene
                .database
                .psql("DO $$ BEGIN CREATE ROLE nobody_special LOGIN; EXCEPTION WHEN duplicate_object THEN END $$");
            table_at("table", &scene.database.url_as("nobody_special"), REPLACE)
        } else {
            line.clone()
        };
        scene.home.config(&format!("[task.flights]\npartition = \"daily\"\ncommand = \". ./make.sh\"\n{line}\n"));
        let output = scene.run(&["--date", DATE]);
        assert_eq!(output.code, Some(125), "{line}\n{output}");
        assert!(output.stderr.contains("hint: "), "{line}\n{output}");
        for phrase in *phrases {
            assert!(output.stderr.contains(phrase), "`{phrase}`: {line}\n{output}");
        }
        assert_closes(&output, NOTHING);
        assert_eq!(scene.executions(), 0, "the task is not started: {line}");
    }
}

#[test]
fn a_server_that_is_down_is_told_by_every_command() {
    let server = Server::start(Version::V15);
    let scene = Scene::of(server.database());
    scene.declare(REPLACE);
    scene.run(&["--date", DATE]).success();
    server.kill();
    let address = format!("127.0.0.1:{}", server.port());
    for args in [
        &["run", "flights", "--date", DATE][..],
        &["path", "flights", "--date", DATE],
        &["why", "flights", "--date", DATE],
        &["rollback", "flights", "--date", DATE],
    ] {
        let output = scene.home.run(args);
        assert_eq!(output.code, Some(125), "{output}");
        assert!(output.stderr.contains(&address) && output.stderr.contains("hint: "), "{output}");
        assert_closes(&output, NOTHING);
    }
    // What the state alone can tell is told.
    for args in [&["status"][..], &["gc"], &["recover"], &["log"]] {
        let output = scene.home.run(args);
        assert!(output.code == Some(0) || output.stderr.contains(&address), "{output}");
    }
    server.restart();
    scene.run(&["--date", DATE]).success().says("already published");
    scene.ends(&[(DATE.to_owned(), "the server was down".to_owned())]);
}

#[test]
fn nothing_to_do_costs_one_connection_and_few_requests() {
    let scene = Scene::new(Version::V15);
    let proxy = Proxy::start(scene.database.server().port());
    scene.declare_at(&proxy.url(&scene.database), REPLACE, "");
    run(&scene.home, &["flights", "--date", DATE], "").published();
    let before = (proxy.connections(), proxy.requests());
    run(&scene.home, &["flights", "--date", DATE], "").already_published();
    let (connections, requests) = (proxy.connections() - before.0, proxy.requests() - before.1);
    assert_eq!(connections, 1);
    // Sixteen round trips: four transactions are begun and ended, and eight questions asked. A question with values is several
    // messages, and one more ends the session.
    assert!(requests <= 50, "{requests} messages");
}

#[test]
fn nothing_is_made_in_a_database_for_a_table_that_cannot_be_published() {
    let scene = Scene::new(Version::V15);
    let schemas = || scene.sql("SELECT count(*) FROM pg_namespace WHERE nspname = 'refrain'");
    let url = scene.database.url();
    let swap = REPLACE.replace("\"replace\"", "\"swap-partition\"");
    let missing = table_at("second", &url, REPLACE).replace("\"flights\"", "\"absent\"");
    for (what, more) in [(swap.as_str(), ""), (&REPLACE.replace("dt =", "td ="), ""), (REPLACE, missing.as_str())] {
        scene.declare_at(&url, what, more);
        let refused = scene.run(&["--date", DATE]).expect_code(125).says("hint: ");
        assert_closes(&refused, NOTHING);
        assert_eq!((schemas().as_str(), scene.executions()), ("0", 0), "{refused}");
    }
    scene.sql(&format!("INSERT INTO flights VALUES ('{DATE}', 'XX', 1, 1, 'by hand')"));
    scene.declare(REPLACE);
    scene.run(&["--date", DATE]).expect_code(125).says("has 1 row already").says("--adopt");
    assert_eq!(schemas(), "0");
    scene.run(&["--date", DATE, "--adopt"]).success();
    assert_eq!(schemas(), "1");
}

#[test]
fn triggers_that_are_switched_off_for_the_role_are_told() {
    let scene = Scene::new(Version::V18);
    let name = scene.database.name();
    scene.sql(&format!("ALTER DATABASE {name} SET session_replication_role = 'replica'"));
    scene.declare(REPLACE);
    let refused = scene.run(&["--date", DATE]).expect_code(125).says("session_replication_role").says("ALTER DATABASE");
    assert_closes(&refused, NOTHING);
    assert_eq!(scene.executions(), 0);
    scene.sql(&format!("ALTER DATABASE {name} RESET session_replication_role"));
    scene.run(&["--date", DATE]).success();
}

#[test]
fn a_trigger_that_rests_on_the_search_path_is_named_with_its_function() {
    let scene = Scene::new(Version::V15);
    scene.sql(
        "CREATE TABLE audit (what text); CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS \
         'BEGIN INSERT INTO audit VALUES (NEW.carrier); RETURN NEW; END'; \
         CREATE TRIGGER noting AFTER INSERT ON flights FOR EACH ROW EXECUTE FUNCTION note()",
    );
    scene.declare(REPLACE);
    let refused = scene.run(&["--date", DATE]).expect_code(125).says("audit").says("ALTER FUNCTION public.note()");
    assert_closes(&refused, NOTHING);
    scene.sql("ALTER FUNCTION public.note() SET search_path = public");
    scene.run(&["--date", DATE]).success();
    assert_ne!(scene.sql("SELECT count(*) FROM audit"), "0");
}

#[test]
fn rows_that_a_policy_hides_are_told_with_what_helps() {
    let scene = Scene::new(Version::V15);
    let role = format!("hidden_{}", scene.database.name());
    scene.sql(&format!(
        "CREATE ROLE {role} LOGIN; GRANT ALL ON flights TO {role}; ALTER TABLE flights ENABLE ROW LEVEL SECURITY; \
         CREATE POLICY own ON flights USING (carrier = 'AA')"
    ));
    scene.sql(&scene.refrain().run(["sinks", "--sql", &role]).success().stdout);
    scene.declare_at(&scene.database.url_as(&role), REPLACE, "");
    scene.run(&["--date", DATE]).expect_code(125).says("row-level security").says("BYPASSRLS");
    scene.sql(&format!("DROP OWNED BY {role}; DROP ROLE {role}"));
}
