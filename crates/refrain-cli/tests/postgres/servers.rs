//! kill -9 of the server at every step of a publication, then one plain run.

use crate::call::{Call, UNKNOWN, assert_closes, finish, start};
use crate::scene::{APPEND, REPLACE, Scene, text};
use crate::watch::Watch;
use refrain_testkit::freeze::{state, wait_for, wake};
use refrain_testkit::postgres::{Proxy, Server, Version};
use refrain_testkit::program::Running;

const DATE: &str = "2013-01-02";

/// Messages of a publication, in their order; what is held never reaches the server that is killed meanwhile.
const STEPS: [&str; 8] = [
    "INSERT INTO refrain.head",
    "CREATE TABLE",
    "INSERT INTO refrain.staging",
    // The statement, a part of the rows, and the end of the copy.
    "COPY ",
    ",UA,",
    "RENAME TO",
    "INSERT INTO \"public\"",
    COMMIT,
];

/// The COMMIT of the publication: the question that comes with it is asked nowhere else.
pub(crate) const COMMIT: &str = "COMMIT; SELECT version";

/// Starts the publication of a day.
fn begin(scene: &Scene, date: &str) -> (Running, String) {
    start(&scene.home, &["flights", "--date", date], "")
}

/// A server of its own with a scene on it, reached by a proxy.
fn scene(version: Version, what: &str) -> (Server, Proxy, Scene) {
    let server = Server::start(version);
    let proxy = Proxy::start(server.port());
    let scene = Scene::of(server.database());
    scene.declare_at(&proxy.url(&scene.database), what, "");
    (server, proxy, scene)
}

/// The server is dead: whatever the call said is true, and one plain run is the right end.
fn comes_right(server: &Server, scene: &Scene, call: &Call, date: &str, context: &str) {
    server.restart();
    match call.text("window") {
        "nothing_published" => assert_eq!(scene.shown(date, context), None, "{context}\n{}", call.output),
        "published" => assert!(scene.shown(date, context).is_some(), "{context}\n{}", call.output),
        other => assert_eq!((other, call.output.code), ("unknown", Some(122)), "{context}\n{}", call.output),
    }
    let repeated = scene.run(&["--date", date]);
    assert_eq!(repeated.code, Some(0), "{context}: {}\n{repeated}", call.output);
}

fn kill_at(version: Version, what: &str, steps: &[&str]) {
    let (server, proxy, scene) = scene(version, what);
    let watch = Watch::start(&scene.database);
    let mut cases = vec![];
    for (index, step) in steps.iter().enumerate() {
        let date = crate::scene::date(index + 1);
        proxy.hold(step.as_bytes());
        let running = begin(&scene, &date);
        wait_for(&format!("{step} is held"), || proxy.held() == 1);
        server.kill();
        proxy.release();
        let call = finish(running);
        assert_ne!(call.output.code, Some(0), "{step}\n{}", call.output);
        comes_right(&server, &scene, &call, &date, step);
        cases.push((date, format!("server killed at {step}")));
    }
    watch.end();
    scene.ends(&cases);
}

#[test]
fn pgx_01_the_server_is_killed_at_every_step_of_a_replacement() {
    kill_at(Version::V18, REPLACE, &STEPS);
}

#[test]
fn pgx_01_the_server_is_killed_at_the_last_steps_of_an_append() {
    kill_at(Version::V15, APPEND, &STEPS[5..]);
}

#[test]
fn pgx_01_the_server_is_killed_while_the_task_runs_and_right_after_the_commit() {
    let (server, proxy, scene) = scene(Version::V15, APPEND);
    let watch = Watch::start(&scene.database);
    let mut cases = vec![];
    for (index, point) in
        ["before-task", "after-task", "before-commit", "after-database-commit", "after-commit"].iter().enumerate()
    {
        let date = crate::scene::date(index);
        let report = scene.home.join(format!("{point}.json"));
        let crashing = scene.refrain().env("REFRAIN_CRASH_AT", format!("{point}=stop"));
        let running = crashing.spawn(["run", "flights", "--date", &date, "--report", report.to_str().unwrap()]);
        wait_for("refrain stands still", || state(running.pid()) == Some('T'));
        server.kill();
        // A task that needs no database goes on beside a server that is down.
        wake(running.pid());
        let call = finish((running, report.display().to_string()));
        let decided = index > 2;
        assert_eq!(call.text("window"), if decided { "published" } else { "nothing_published" }, "{}", call.output);
        assert!(decided || call.output.code == Some(125), "{}", call.output);
        comes_right(&server, &scene, &call, &date, point);
        cases.push((date, format!("server killed at {point}")));
    }
    // The server has committed and dies before anybody hears of it.
    let date = crate::scene::date(5);
    proxy.cut_after(COMMIT.as_bytes());
    let running = begin(&scene, &date);
    wait_for("the answer is cut", || proxy.cuts() == 1);
    server.kill();
    let call = finish(running).ends(122, "unknown", "unknown");
    assert_closes(&call.output, UNKNOWN);
    assert!(text(&call.report["error"]["hint"]).contains("refrain recover"), "{}", call.report);
    // It had committed: whoever cannot ask must not say that nothing was published.
    let down = scene.home.run(["recover"]).expect_code(122).says("cannot be settled").says("hint: ");
    assert_closes(&down, UNKNOWN);
    server.restart();
    scene.home.run(["recover"]).success();
    scene.run(&["--date", &date]).success().says("already published");
    cases.push((date, "server killed after the commit".to_owned()));
    watch.end();
    scene.ends(&cases);
}

#[test]
fn pgx_01_without_its_commit_recover_says_that_nothing_was_published() {
    let (server, proxy, scene) = scene(Version::V18, APPEND);
    proxy.hold(COMMIT.as_bytes());
    let running = begin(&scene, DATE);
    wait_for("the commit is held", || proxy.held() == 1);
    server.kill();
    proxy.release();
    let call = finish(running).ends(122, "unknown", "unknown");
    server.restart();
    scene.home.run(["recover"]).success();
    assert_eq!(scene.shown(DATE, "never committed"), None, "{}", call.output);
    let attempts = crate::scene::log(&scene.home);
    assert_eq!(attempts[0]["ending"]["window"], "nothing_published", "{attempts:#?}");
    scene.run(&["--date", DATE]).success();
    scene.ends(&[(DATE.to_owned(), "recovered".to_owned())]);
}
