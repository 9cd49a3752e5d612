//! PGX-14 and LEASE-01: a program that is frozen past its lease is refused by the table's head when it wakes.

use crate::call::{finish, run};
use crate::scene::{APPEND, REPLACE, Scene};
use crate::watch::Watch;
use refrain_testkit::freeze::{kill, state, wait_for, wake};
use refrain_testkit::postgres::Version;
use refrain_testkit::program::Running;

/// Starts a publication with a short lease, and returns when it has frozen itself at the point.
fn frozen_at(scene: &Scene, point: &str, date: &str) -> (Running, String) {
    let report = scene.home.join(format!("frozen-{date}.json")).display().to_string();
    let crashing = scene.refrain().env("REFRAIN_CRASH_AT", format!("{point}=stop"));
    let running = crashing.spawn(["run", "flights", "--date", date, "--ttl", "1s", "--report", &report]);
    wait_for(&format!("refrain freezes at {point}"), || state(running.pid()) == Some('T'));
    (running, report)
}

fn freeze_everywhere(version: Version, what: &str) {
    let scene = Scene::new(version);
    scene.declare(what);
    let watch = Watch::start(&scene.database);
    let points =
        ["after-acquire", "after-claim", "after-open-run", "before-task", "after-task", "after-seal", "before-commit"];
    let frozen: Vec<_> = points
        .iter()
        .enumerate()
        .map(|(index, point)| {
            let date = crate::scene::date(index);
            (frozen_at(&scene, point, &date), date, *point)
        })
        .collect();
    let mut cases = vec![];
    for (running, date, point) in frozen {
        run(&scene.home, &["flights", "--date", &date, "--wait"], "").published();
        let later = scene.shown(&date, point);
        wake(running.0.pid());
        finish(running).nothing(121, "fenced").says("was fenced");
        assert_eq!(scene.shown(&date, point), later, "frozen at {point}: the later publication stands");
        cases.push((date, format!("frozen at {point}")));
    }
    for (index, point) in ["after-database-commit", "after-commit"].into_iter().enumerate() {
        let date = crate::scene::date(20 + index);
        let running = frozen_at(&scene, point, &date);
        run(&scene.home, &["flights", "--date", &date, "--wait"], "").already_published();
        wake(running.0.pid());
        finish(running).published();
        cases.push((date, format!("frozen at {point}")));
    }
    watch.end();
    scene.ends(&cases);
}

#[test]
fn pgx_14_a_replacement_that_was_frozen_past_its_lease_is_fenced() {
    freeze_everywhere(Version::V15, REPLACE);
}

#[test]
fn pgx_14_an_append_that_was_frozen_past_its_lease_is_fenced() {
    freeze_everywhere(Version::V18, APPEND);
}

#[test]
fn pgx_14_frozen_inside_its_transaction_it_is_named_and_ended_by_the_server() {
    let scene = Scene::new(Version::V15);
    scene.declare(REPLACE);
    let watch = Watch::start(&scene.database);
    let frozen = frozen_at(&scene, "before-database-commit", "2013-01-01");
    let pid =
        "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'refrain attempt%' AND state LIKE 'idle in tr%'";
    let pid = scene.sql(pid);
    let attempt = crate::scene::log(&scene.home)[0]["attempt"].as_str().unwrap().to_owned();
    let second = run(&scene.home, &["flights", "--date", "2013-01-01", "--wait"], "").nothing(120, "held");
    assert_eq!(pid, second.output.stderr.split("held by process ").nth(1).unwrap().split(' ').next().unwrap());
    second.says(&format!("'refrain attempt {attempt}'")).says("idle in transaction").says("pg_terminate_backend");
    // The server ends it by itself: nobody is asked to.
    wait_for("the server ends the frozen session", || {
        scene.sql(&format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {pid}")) == "0"
    });
    run(&scene.home, &["flights", "--date", "2013-01-01", "--wait"], "").published();
    let later = scene.shown("2013-01-01", "after the frozen one");
    wake(frozen.0.pid());
    finish(frozen).nothing(121, "fenced");
    assert_eq!(scene.shown("2013-01-01", "woken"), later);
    watch.end();
    scene.ends(&[("2013-01-01".to_owned(), "frozen inside its transaction".to_owned())]);
}

#[test]
fn pgx_14_killed_inside_its_transaction_it_keeps_nobody_waiting() {
    let scene = Scene::new(Version::V18);
    scene.declare(REPLACE);
    let frozen = frozen_at(&scene, "before-database-commit", "2013-01-01");
    kill(frozen.0.pid());
    run(&scene.home, &["flights", "--date", "2013-01-01"], "").published();
    scene.ends(&[("2013-01-01".to_owned(), "killed inside its transaction".to_owned())]);
}
