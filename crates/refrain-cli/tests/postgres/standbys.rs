//! PGX-16, PGX-17: servers that follow, and servers that were put back.

use crate::call::{assert_fails, run};
use crate::scene::{APPEND, REPLACE, Scene};
use refrain_testkit::postgres::{Server, Version};
use refrain_testkit::program::Output;
use std::fs;
use std::process::Command;

const DATE: &str = "2013-01-01";

#[test]
fn pgx_16_a_standby_is_refused_before_the_task_and_of_several_hosts_the_primary_is_taken() {
    let primary = Server::start(Version::V15);
    let scene = Scene::of(primary.database());
    scene.declare(REPLACE);
    scene.run(&["--date", DATE]).success();
    // It lags for ever: whoever asked it would be told that nothing is published.
    let standby = primary.standby(&[("recovery_min_apply_delay", "1h")]);
    let name = scene.database.name();
    scene.declare_at(&format!("postgres://postgres@127.0.0.1:{}/{name}", standby.port()), REPLACE, "");
    for date in [DATE, "2013-01-02"] {
        assert_fails(&scene.run(&["--date", date]), &["standby", "hint: "]);
    }
    assert_eq!(scene.executions(), 1, "the task is not started");
    let both = format!(
        "postgres://postgres@127.0.0.1:{},127.0.0.1:{}/{name}?target_session_attrs=any",
        standby.port(),
        primary.port()
    );
    scene.declare_at(&both, REPLACE, "");
    scene.run(&["--date", "2013-01-02"]).success();
    for date in [DATE, "2013-01-02"] {
        scene.run(&["--date", date]).success().says("already published");
    }
    assert_eq!(scene.executions(), 2);
    scene.ends(&[DATE, "2013-01-02"].map(|date| (date.to_owned(), "beside a standby".to_owned())));
}

/// Runs a program of the server's version on the scene's database.
fn tool(scene: &Scene, name: &str, args: &[&str]) {
    let server = scene.database.server();
    let mut command = Command::new(server.version().programs().join(name));
    command.arg("-h").arg(server.socket_directory()).args(["-p", &server.port().to_string(), "-U", "postgres"]);
    command.args(args).args(["-d", scene.database.name()]);
    Output::of(&mut command, b"").success();
}

#[test]
fn pgx_17_a_database_that_was_put_back_is_noticed_and_nothing_is_doubled() {
    for what in [REPLACE, APPEND] {
        let scene = Scene::new(Version::V15);
        let dump = scene.home.join("dump");
        let dump = dump.to_str().unwrap();
        scene.declare_at(&scene.database.url(), what, "out.file = \"out/{date}.csv\"");
        scene.run(&["--date", DATE]).success();
        tool(&scene, "pg_dump", &["-Fc", "-f", dump]);
        scene.run(&["--date", "2013-01-02"]).success();
        scene.run(&["--date", DATE, "--rerun"]).success();
        scene.sql("DROP SCHEMA refrain CASCADE; DROP TABLE flights");
        tool(&scene, "pg_restore", &["--no-owner", dump]);
        for date in [DATE, "2013-01-02"] {
            let executions = scene.executions();
            let call = run(&scene.home, &["flights", "--date", date], "");
            let file = fs::read_to_string(scene.home.join(format!("out/{date}.csv"))).unwrap();
            let of_file = file.lines().nth(1).unwrap().rsplit(',').next().unwrap().to_owned();
            if call.output.code == Some(0) {
                // Brought right: both outputs are of one attempt.
                assert_eq!(scene.shown(date, "restored"), Some(of_file), "{}", call.output);
            } else {
                // Told, with the way out.
                let call = call.nothing(125, "refused");
                assert_eq!(scene.executions(), executions, "{}", call.output);
                let again = run(&scene.home, &["flights", "--date", date, "--rerun", "--adopt"], "").published();
                let file = fs::read_to_string(scene.home.join(format!("out/{date}.csv"))).unwrap();
                let shown = scene.shown(date, "afresh").unwrap();
                assert!(file.contains(&shown), "{}", again.output);
            }
        }
        scene.ends(&[(DATE.to_owned(), "restored".to_owned()), ("2013-01-02".to_owned(), "restored".to_owned())]);
    }
}
