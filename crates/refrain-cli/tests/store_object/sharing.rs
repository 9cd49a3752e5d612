//! Several homes share one store.

use crate::scene::Shared;
use refrain_testkit::freeze::{wait_for, wait_for_path};
use refrain_testkit::object::{Kind, Server};
use refrain_testkit::program::{Home, Running};
use std::fs::{self, File};

#[test]
fn a_publication_of_one_home_is_known_in_the_other_with_every_kind_of_store() {
    for kind in Kind::ALL {
        let shared = Shared::of(Server::shared(kind).bucket());
        let [first, second] = [(), ()].map(|()| shared.home(""));
        shared.run(&first, &["run", "day", "--date", "2025-03-01"]).success().says("published");
        shared.run(&second, &["run", "day", "--date", "2025-03-01"]).success().says("already published");
        let fill = ["backfill", "day", "--from", "2025-03-01", "--to", "2025-03-04", "--jobs", "2"];
        shared.run(&second, &fill).success();
        assert_eq!(shared.executions(), ["2025-03-01", "2025-03-02", "2025-03-03", "2025-03-04"], "{kind:?}");
        assert_eq!(shared.read("out/2025-03-04.txt"), "2025-03-04\n");
        let status = ["status", "day", "--list", "--from", "2025-03-01", "--to", "2025-03-05"];
        let status = shared.run(&first, &status).stdout;
        assert!(status.starts_with("day: 4 published, 1 missing"), "{status}");
        assert_eq!(shared.run(&first, &["log", "day", "--json"]).success().stdout.lines().count(), 4);
        let shown = |home| shared.run(home, &["store", "show"]).success().stdout;
        assert_eq!(shown(&first), shown(&second));
        shared.has_no_leftover();
    }
}

#[test]
fn a_home_of_another_project_is_refused_until_it_says_that_it_is_none() {
    let shared = Shared::new();
    let home = shared.home("");
    shared.run(&home, &["run", "day", "--date", "2025-03-01"]).success();
    let stranger = Home::temp(env!("CARGO_BIN_EXE_refrain"));
    let url = shared.bucket.url("_refrain/");
    stranger.config(&format!(
        "store = \"{url}\"\n[task.day]\npartition = \"daily\"\ncommand = 'echo other > $REFRAIN_OUT'\nout.other = \
         \"other/{{date}}.txt\"\n"
    ));
    let refused = shared.run(&stranger, &["run", "day", "--date", "2025-03-01"]).expect_code(125);
    refused.says("is that of the home").says("refrain store join");
    assert!(!stranger.join("other").exists());
    let joined = shared.run(&stranger, &["store", "join"]);
    joined.success();
    shared.run(&stranger, &["run", "day", "--date", "2025-03-02"]).success().says("published");
    shared.run(&shared.home(""), &["run", "day", "--date", "2025-03-01"]).success().says("already published");
}

#[test]
fn lease_14_of_32_calls_at_once_one_executes() {
    let shared = Shared::new();
    let homes = [(), ()].map(|()| shared.home(""));
    let calls: Vec<_> =
        (0..32).map(|call| shared.spawn(&homes[call % 2], &["run", "day", "--date", "2025-03-01"])).collect();
    let ends: Vec<_> = calls.into_iter().map(Running::wait).collect();
    assert_eq!(shared.executions(), ["2025-03-01"]);
    for end in &ends {
        let published = end.code == Some(0) && end.stderr.contains("published: ");
        assert!(published || end.code == Some(120), "{end}");
    }
    assert!(ends.iter().any(|end| end.code == Some(0)));
    shared.has_no_leftover();
}

#[test]
fn a_server_killed_during_the_task_and_back_within_the_ttl_harms_nothing() {
    let shared = Shared::of(Server::start(Kind::MiniStack).bucket());
    File::create(shared.path("hold")).unwrap();
    let home = shared.home(&format!("while [ -e {} ]; do sleep 0.05; done", shared.path("hold").display()));
    let running = shared.spawn(&home, &["run", "day", "--date", "2025-03-01"]);
    wait_for_path(&shared.path("executions"));
    let second = shared.home("");
    shared.run(&second, &["run", "day", "--date", "2025-03-01"]).expect_code(120);
    shared.bucket.server().kill();
    // The command ends while there is no server: the end is recorded when it is back.
    fs::remove_file(shared.path("hold")).unwrap();
    wait_for("the command has ended", || shared.path("executions").exists());
    shared.bucket.server().restart();
    running.wait().success().says("published");
    shared.run(&second, &["run", "day", "--date", "2025-03-01"]).success().says("already published");
    assert_eq!(shared.executions(), ["2025-03-01"]);
    shared.has_no_leftover();
}

#[test]
fn a_history_goes_over_into_a_bucket_and_a_home_without_it_is_refused() {
    let shared = Shared::new();
    let home = Home::temp(env!("CARGO_BIN_EXE_refrain"));
    shared.configure(&home, "store = \"sqlite\"", "");
    let volume = shared.path("");
    let local = fs::read_to_string(home.join("refrain.toml")).unwrap();
    let local = local.replace(&format!("{}out/", volume.display()), "out/");
    home.config(&local);
    shared.run(&home, &["backfill", "day", "--from", "2025-03-01", "--to", "2025-03-03"]).success();
    let url = shared.bucket.url("_refrain/");
    home.config(&local.replace("store = \"sqlite\"", &format!("store = \"{url}\"")));
    let refused = shared.run(&home, &["run", "day", "--date", "2025-03-01"]);
    assert!(refused.code != Some(0) && refused.stderr.contains("refrain store copy"), "{refused}");
    // Without a name it goes to the store of refrain.toml.
    shared.run(&home, &["store", "copy"]).success().says("copied 3 keys and 3 attempts");
    shared.run(&home, &["run", "day", "--date", "2025-03-01"]).success().says("already published");
    assert_eq!(shared.run(&home, &["log", "day", "--json"]).success().stdout.lines().count(), 3);
    shared.run(&home, &["store", "restored"]).success();
    shared.run(&home, &["run", "day", "--date", "2025-03-04"]).success().says("published");
    let shown = shared.run(&home, &["config", "show"]).success().stdout;
    assert!(shown.contains(&format!("store = \"{url}\"")), "{shown}");
    let again = shared.run(&home, &["store", "copy"]);
    assert!(again.code != Some(0) && again.stderr.contains("knows keys already"), "{again}");
}

#[test]
fn a_bucket_that_is_not_there_and_keys_that_are_wrong_are_told_without_secrets() {
    let shared = Shared::of(Server::shared(Kind::SeaweedFs).bucket());
    let home = shared.home("");
    let secret = "8s3cr3t/k3y+0f+n0b0dy/8s3cr3t/k3y+0f+n0b0";
    let denied = shared.refrain(&home).env("AWS_SECRET_ACCESS_KEY", secret).run(["run", "day", "--date", "2025-03-01"]);
    assert!(denied.code == Some(125) && denied.stderr.contains("denies access"), "{denied}");
    assert!(!denied.stderr.contains(secret), "{denied}");
    shared.configure(&home, "store = \"s3://nobodys/_refrain/\"", "");
    let missing = shared.run(&home, &["run", "day", "--date", "2025-03-01"]);
    assert!(missing.code == Some(125) && missing.stderr.contains("no bucket `nobodys`"), "{missing}");
    assert_eq!(shared.executions(), [""; 0]);
}
