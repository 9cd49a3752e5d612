//! Many calls for one key, through a pooler too, and homes that share a database and no store.

use crate::call::{PUBLISHED, assert_closes, run};
use crate::scene::{APPEND, REPLACE, SIGKILL, Scene, fresh_home, table_at};
use crate::watch::Watch;
use refrain_testkit::postgres::{Database, PgBouncer, Server, Version};
use refrain_testkit::program::Running;
use std::fs;

const DATE: &str = "2013-01-01";

/// Starts so many calls at once; one of them executes the task.
fn race(scene: &Scene, racers: usize, date: &str) {
    let before = scene.executions();
    let calls: Vec<_> = (0..racers).map(|_| scene.home.spawn(["run", "flights", "--date", date])).collect();
    let ends: Vec<_> = calls.into_iter().map(Running::wait).collect();
    for end in &ends {
        assert!(end.code == Some(120) || end.code == Some(0) && end.stderr.contains("published: "), "{end}");
    }
    let published = ends.iter().filter(|end| end.stderr.starts_with("published: ")).count();
    assert_eq!((scene.executions() - before, published), (1, 1));
}

#[test]
fn pgx_04_of_32_racers_one_publishes() {
    for what in [REPLACE, APPEND] {
        let scene = Scene::new(Version::V15);
        scene.declare(what);
        let watch = Watch::start(&scene.database);
        race(&scene, 32, DATE);
        watch.end();
        scene.ends(&[(DATE.to_owned(), "raced".to_owned())]);
    }
}

#[test]
fn pgx_04_a_second_home_without_the_same_store_is_refused() {
    let scene = Scene::new(Version::V18);
    scene.declare(REPLACE);
    scene.run(&["--date", DATE]).success();
    let shown = scene.shown(DATE, "the first home");
    let second = fresh_home();
    second.write("refrain.toml", scene.home.read("refrain.toml"));
    let store = scene.home.run(["store", "show"]).success().stdout;
    for flags in [&["flights", "--date", DATE, "--rerun"][..], &["flights", "--date", DATE]] {
        let call = run(&second, flags, "").nothing(125, "refused").says("this home's store does not replace");
        let hint = call.report["error"]["hint"].as_str().expect("a hint").to_owned();
        let id = hint.split("--replaces ").nth(1).expect("the next command").split(';').next().unwrap();
        assert!(store.contains(id), "{hint}\n{store}");
        assert!(hint.contains("as `store`"), "{hint}");
    }
    assert_eq!(scene.shown(DATE, "the second home"), shown);
    // A day that nobody published is free for both, and then belongs to the first that came.
    run(&second, &["flights", "--date", "2013-01-02"], "").published();
    run(&scene.home, &["flights", "--date", "2013-01-02", "--rerun"], "").nothing(125, "refused");
    second.run(["gc"]).success();
    scene.ends(&[(DATE.to_owned(), "two homes".to_owned())]);
}

#[test]
fn pgx_13_through_a_pooler_runs_never_overlap_and_leave_no_lock() {
    for what in [REPLACE, APPEND] {
        let scene = Scene::new(Version::V15);
        let pooler = PgBouncer::with(&scene.database, &[("default_pool_size", "3")]);
        let watch = Watch::start(&scene.database);
        scene.declare_at(&pooler.url(), what, "");
        race(&scene, 8, DATE);
        let mut cases = vec![(DATE.to_owned(), "raced".to_owned())];
        let points = ["after-claim", "after-seal", "before-database-commit", "after-database-commit"];
        for (number, point) in points.iter().enumerate() {
            let date = crate::scene::date(1 + number);
            let crashing = scene.refrain().env("REFRAIN_CRASH_AT", format!("{point}=kill"));
            crashing.run(["run", "flights", "--date", &date]).expect_signal(SIGKILL);
            scene.run(&["--date", &date]).success();
            cases.push((date, format!("killed at {point}")));
        }
        watch.end();
        scene.ends(&cases);
        has_no_lock(&scene);
    }
}

fn has_no_lock(scene: &Scene) {
    for locks in [
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'",
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'",
        "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE a.datname = current_database() \
         AND a.pid <> pg_backend_pid() AND l.locktype = 'relation'",
    ] {
        assert_eq!(scene.sql(locks), "0", "{locks}");
    }
}

/// Two tables, of which the second cannot be committed at first.
fn two(scene: &Scene, other: &Database) {
    other.psql(crate::scene::TABLE);
    scene.declare_at(&scene.database.url(), APPEND, &table_at("other", &other.url(), APPEND));
}

#[test]
fn pgs_11_a_step_after_the_publication_that_fails_doubles_nothing() {
    let scene = Scene::new(Version::V15);
    let other = Server::shared(Version::V18).database();
    two(&scene, &other);
    // The output that is decided first is the first of the run.
    let pending = [&scene.database, &other].map(|database| {
        database.psql(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not today'; END $$;
             CREATE CONSTRAINT TRIGGER late AFTER INSERT ON flights DEFERRABLE INITIALLY DEFERRED FOR EACH ROW \
             EXECUTE FUNCTION refuse()",
        );
        let call = scene.run(&["--date", DATE]);
        database.psql("DROP TRIGGER late ON flights");
        (call.code, call)
    });
    let decided: Vec<_> = pending.iter().filter(|(code, _)| *code == Some(118)).collect();
    assert_eq!(decided.len(), 1, "{pending:?}");
    assert_closes(&decided[0].1, PUBLISHED);
    let executions = scene.executions();
    let pinned = scene.shown(DATE, "decided").or_else(|| crate::scene::shown_in(&other, DATE, "decided"));
    scene.run(&["--date", DATE]).success();
    assert_eq!(scene.executions(), executions, "only what was outstanding is done");
    assert_eq!(scene.shown(DATE, "finished"), pinned);
    assert_eq!(crate::scene::shown_in(&other, DATE, "finished"), pinned);
    scene.run(&["--date", DATE]).success().says("already published");
    scene.ends(&[(DATE.to_owned(), "a step that failed".to_owned())]);
}

#[test]
fn pgs_10_twenty_killed_runs_leave_nothing_and_a_table_of_the_user_stays() {
    let scene = Scene::new(Version::V18);
    scene.declare("mode = \"replace\", where = \"dt = {date}\"");
    scene.run(&["--date", "2013-03-01"]).success();
    scene.sql(
        "CREATE TABLE refrain.stage_0123456789abcdef0123456789abcdef (mine text); CREATE TABLE stage_of_mine (x int)",
    );
    for kill in 0..20 {
        let point = ["before-task", "after-task", "after-seal", "before-database-commit"][kill % 4];
        let crashing = scene.refrain().env("REFRAIN_CRASH_AT", format!("{point}=kill"));
        crashing.run(["run", "flights", "--date", &crate::scene::date(kill % 10)]).expect_signal(SIGKILL);
    }
    let staged = scene.sql("SELECT count(*) FROM refrain.staging").parse::<usize>().unwrap();
    assert!(staged > 0, "a kill leaves staging");
    let mut cases = vec![];
    for day in 0..10 {
        let date = crate::scene::date(day);
        scene.run(&["--date", &date]).success();
        cases.push((date, "killed".to_owned()));
    }
    scene.home.run(["gc"]).success();
    assert_eq!(scene.sql("SELECT to_regclass('refrain.stage_0123456789abcdef0123456789abcdef') IS NOT NULL"), "t");
    scene.sql("DROP TABLE refrain.stage_0123456789abcdef0123456789abcdef, stage_of_mine");
    scene.ends(&cases);
}

#[test]
fn date_10_a_backfill_of_60_days_takes_few_connections() {
    let scene = Scene::new(Version::V15);
    scene.declare(REPLACE);
    let fill = scene.home.spawn(["backfill", "flights", "--from", "2013-01-01", "--to", "2013-03-01", "--jobs", "4"]);
    let mut fill = fill;
    let count = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                 AND application_name LIKE 'refrain%'";
    let mut most = 0;
    while !fill.has_ended() {
        most = most.max(scene.sql(count).parse::<u32>().unwrap());
    }
    fill.wait().success();
    // One for each job.
    assert!((1..=5).contains(&most), "{most} connections at once");
    let days = "SELECT count(DISTINCT dt), count(DISTINCT attempt), count(DISTINCT (dt, attempt)) FROM flights";
    assert_eq!((scene.sql(days).as_str(), scene.executions()), ("60|60|60", 60));
    let dates: Vec<_> = scene.sql("SELECT DISTINCT dt FROM flights").lines().map(str::to_owned).collect();
    scene.ends(&dates.into_iter().map(|date| (date, "backfilled".to_owned())).collect::<Vec<_>>());
}

#[test]
fn data_01_and_02_an_empty_output_is_published_only_when_it_is_allowed() {
    const EMPTY: &str = "[ \"$REFRAIN_DATE\" != 2013-01-09 ] && exec sh make.sh; \
                         echo dt,carrier,flights,distance,attempt > \"$REFRAIN_OUT\"";
    let scene = Scene::new(Version::V15);
    for what in [REPLACE, "mode = \"replace\", where = \"dt = {date}\""] {
        scene.declare(what);
        scene.run(&["--date", "2013-01-09", "--rerun"]).success();
        let full = scene.shown("2013-01-09", "full");
        let command = if what == REPLACE { EMPTY } else { "true" };
        let empty = |flags: &[&str]| {
            run(&scene.home, &[&["flights", "--date", "2013-01-09", "--rerun"], flags].concat(), command)
        };
        let refused = empty(&[]).nothing(123, "refused").says("no rows").says("--allow-empty");
        assert_eq!(scene.shown("2013-01-09", "refused"), full, "{}", refused.output);
        let published = empty(&["--allow-empty"]).published();
        assert_eq!(published.report["outputs"][0]["rows"], 0, "{}", published.report);
        assert_eq!(scene.shown("2013-01-09", "empty"), None);
        let attempts = crate::scene::log(&scene.home);
        assert_eq!([&attempts[0]["ending"]["outcome"], &attempts[1]["ending"]["outcome"]], ["published", "refused"]);
        run(&scene.home, &["flights", "--date", "2013-01-09"], command).already_published();
    }
    let gc = scene.home.run(["gc"]).success();
    crate::scene::has_no_leftover(&scene.home, &scene.database, &gc);
    assert!(fs::exists(scene.home.join("runs.log")).unwrap());
}
