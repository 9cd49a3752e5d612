//! A history that moves from a home's own state to a database, and databases that go back in time.

use crate::hosts::Host;
use crate::scene::{Shared, run_on, spawn_on};
use refrain_testkit::freeze::wait_for_path;
use refrain_testkit::program::Home;
use std::fs;

const DAY: [&str; 4] = ["run", "day", "--date", "2025-03-01"];

/// A home with a state of its own that has published two days, one of them twice.
fn embedded(shared: &Shared) -> Home {
    let home = Home::temp(env!("CARGO_BIN_EXE_refrain"));
    // Its heads lie in the home itself, as they do for nearly everybody.
    configure(&home, "sqlite");
    fs::create_dir_all(shared.path("out")).unwrap();
    home.run(DAY).success();
    home.run(["run", "day", "--date", "2025-03-01", "--rerun"]).success();
    home.run(["run", "day", "--date", "2025-03-02"]).success();
    home
}

fn configure(home: &Home, store: &str) {
    home.config(&format!(
        "store = \"{store}\"\n[task.day]\npartition = \"daily\"\ncommand = \"echo $REFRAIN_TOKEN >> executions; echo \
         $REFRAIN_DATE > $REFRAIN_OUT\"\nout.file = \"out/{{date}}.txt\"\n"
    ));
}

#[test]
fn a_history_moves_and_whoever_goes_on_with_the_old_state_is_refused_at_the_heads() {
    let shared = Shared::new();
    let home = embedded(&shared);
    let old = home.run(["store", "show"]).success().stdout.lines().next().unwrap().replace("store ", "");
    let copied = home.run(["store", "copy", "sqlite", &shared.url()]).success().says("copied 2 keys and 3 attempts");
    assert!(copied.stderr.contains("store = \"postgresql://"), "{copied}");
    assert!(copied.stdout.lines().any(|line| line == format!("replaces {old}")), "{copied}");
    configure(&home, &shared.url());
    home.run(DAY).success().says("already published");
    assert_eq!(home.run(["log", "day", "--json"]).success().stdout.lines().count(), 3);
    home.run(["run", "day", "--date", "2025-03-01", "--rerun"]).success().says("published");
    home.run(["run", "day", "--date", "2025-03-03"]).success().says("published");
    // Tokens go on above those of the old state.
    let executed = home.read("executions");
    assert_eq!(executed.lines().collect::<Vec<_>>(), ["1", "2", "1", "3", "1"]);
    configure(&home, "sqlite");
    let refused = home.run(["run", "day", "--date", "2025-03-01", "--rerun"]).expect_code(125);
    assert!(refused.stderr.contains("was taken along to the state store "), "{refused}");
    assert!(
        refused.stderr.contains("does not replace") && refused.stderr.contains("refrain store restored"),
        "{refused}"
    );
    assert_eq!(home.read("executions"), executed);
    // A key that was never published through the database has no head that could refuse it.
    home.run(["run", "day", "--date", "2025-03-09"]).expect_code(125).says("was taken along");
    assert_eq!(home.read("executions"), executed);
    configure(&home, &shared.url());
    home.run(DAY).success().says("already published");
    // Who goes back on purpose says so, and is refused where the database has published since.
    configure(&home, "sqlite");
    home.run(["store", "restored"]).success();
    home.run(["run", "day", "--date", "2025-03-09"]).success().says("published");
    home.run(["run", "day", "--date", "2025-03-01", "--rerun"]).expect_code(125).says("does not replace");
    shared.has_no_leftover();
}

#[test]
fn tables_that_are_gone_are_told_with_the_commands_that_end_it() {
    for gone in [
        "DROP TABLE refrain.store, refrain.key, refrain.attempt, refrain.watermark, refrain.home",
        "DROP SCHEMA refrain CASCADE",
        "TRUNCATE refrain.store, refrain.key, refrain.attempt, refrain.watermark, refrain.home",
    ] {
        let shared = Shared::new();
        let home = embedded(&shared);
        home.run(["store", "copy", "sqlite", &shared.url()]).success();
        configure(&home, &shared.url());
        home.run(["run", "day", "--date", "2025-03-03"]).success();
        shared.sql(gone);
        for call in [&DAY[..], &["status"], &["init"]] {
            let told =
                home.run(call).expect_code(125).says("refrain store init --replaces").says("refrain store restored");
            assert!(!told.stderr.contains("store copy"), "{gone}: {told}");
        }
        let told = home.run(["status"]).stderr;
        let command = told.split("give it up: refrain ").nth(1).unwrap().lines().next().unwrap();
        home.run(command.split(' ')).success().says("brought back from the heads beside the data: 3");
        home.run(DAY).success().says("already published");
        home.run(["run", "day", "--date", "2025-03-03"]).success().says("already published");
    }
}

#[test]
fn a_history_that_stays_behind_is_told_wherever_the_outputs_are() {
    let shared = Shared::new();
    let home = Home::temp(env!("CARGO_BIN_EXE_refrain"));
    // The heads lie in a volume of their own, so that nothing in the home refuses the database.
    shared.configure(&home, "", "60s", "");
    home.run(DAY).success();
    shared.configure(&home, &format!("store = \"{}\"", shared.url()), "60s", "");
    for arguments in [&DAY[..], &["status"]] {
        home.run(arguments).expect_code(125).says("refrain store copy").says("refrain store init --replaces");
    }
    assert_eq!(shared.sql("SELECT count(*) FROM pg_namespace WHERE nspname = 'refrain'"), "0", "nothing was made");
    home.run(["store", "copy"]).success();
    assert_eq!(home.run(["status"]).success().stderr, "");
    home.run(DAY).success().says("already published");
}

#[test]
fn a_database_through_which_nothing_was_published_gives_way_to_a_history() {
    let shared = Shared::new();
    let home = Home::temp(env!("CARGO_BIN_EXE_refrain"));
    shared.configure(&home, "", "60s", "");
    home.run(DAY).success();
    let other = shared.home(&shared.url(), "60s", "exit 1");
    other.run(["run", "day", "--date", "2025-03-02"]).expect_code(1);
    shared.configure(&home, &format!("store = \"{}\"", shared.url()), "60s", "");
    home.run(DAY).expect_code(125).says("refrain store copy").says("refrain store join");
    home.run(["store", "copy"]).success().says("copied 1 key and 1 attempt");
    assert_eq!(shared.sql("SELECT count(*) FROM refrain.attempt"), "1");
    home.run(DAY).success().says("already published");
    home.run(["run", "day", "--date", "2025-03-02"]).success().says("published");
    // An attempt whose end is open may have published.
    let late = Shared::of(shared.database.server().database());
    let open = late.home(&late.url(), "60s", "");
    open.run(DAY).success();
    late.sql("UPDATE refrain.attempt SET settled = false, ending = NULL");
    home.run(["store", "restored"]).success();
    shared.configure(&home, "store = \"sqlite\"", "60s", "");
    home.run(["store", "restored"]).success();
    home.run(["store", "copy", &late.url()]).expect_code(125).says("knows keys already").says("refrain recover");
}

#[test]
fn going_over_without_the_history_is_refused_with_the_command_that_helps() {
    let shared = Shared::new();
    let home = embedded(&shared);
    configure(&home, &shared.url());
    for arguments in [&DAY[..], &["status"], &["log"]] {
        home.run(arguments).expect_code(125).says("does not replace").says("refrain store copy");
    }
    assert_eq!(shared.sql("SELECT count(*) FROM pg_namespace WHERE nspname = 'refrain'"), "0", "nothing was made");
    home.run(["store", "init"]).expect_code(125).says("--replaces");
    // The database is the store of another home already.
    let database = shared.database.server().database();
    let other = Shared::of(database);
    other.home(&other.url(), "60s", "").run(DAY).success();
    configure(&home, &other.url());
    home.run(DAY).expect_code(125).says("does not replace").says("refrain store copy");
    home.run(["store", "copy"]).expect_code(125).says("knows keys already");
    configure(&home, &shared.url());
    home.run(["store", "copy"]).success();
    home.run(DAY).success().says("already published");
    assert_eq!(home.read("executions").lines().count(), 3);
}

#[test]
fn a_history_is_not_copied_while_an_attempt_is_at_work() {
    let shared = Shared::new();
    let home = Home::temp(env!("CARGO_BIN_EXE_refrain"));
    shared.configure(&home, "", "60s", &format!("read line < {}", shared.path("hold").display()));
    assert!(std::process::Command::new("mkfifo").arg(shared.path("hold")).status().unwrap().success());
    let running = home.spawn(DAY);
    wait_for_path(&shared.path("executions"));
    home.run(["store", "copy", &shared.url()]).expect_code(120).says("2025-03-01").says("is being run");
    fs::write(shared.path("hold"), "go\n").unwrap();
    running.wait().success();
    home.run(["store", "copy", "sqlite", &shared.url()]).success().says("copied 1 key");
}

#[test]
fn pgx_17_a_store_that_went_back_in_time_publishes_nothing_twice() {
    let shared = Shared::new();
    let host = Host::start("etl-1");
    let home = shared.home(&shared.url(), "60s", "");
    run_on(&host, &home, &DAY).success();
    let name = shared.database.name();
    let maintenance = shared.database.server().maintenance();
    maintenance.psql(&format!("CREATE DATABASE {name}_backup TEMPLATE {name}"));
    run_on(&host, &home, &["run", "day", "--date", "2025-03-01", "--rerun"]).success();
    run_on(&host, &home, &["run", "day", "--date", "2025-03-02"]).success();
    maintenance.psql(&format!("DROP DATABASE {name}"));
    maintenance.psql(&format!("CREATE DATABASE {name} TEMPLATE {name}_backup"));
    // Nobody says that it was restored: the heads are ahead, and what they show stands.
    for date in ["2025-03-01", "2025-03-02"] {
        spawn_on(&host, &home, &["run", "day", "--date", date]).wait().success().says("already published");
    }
    run_on(&host, &home, &["run", "day", "--date", "2025-03-02", "--rerun"]).success().says("published");
    assert_eq!(shared.executions(), 4);
    let restored = home.run(["store", "restored"]).success().stdout;
    assert_eq!(restored.lines().count(), 2, "{restored}");
    run_on(&host, &home, &["run", "day", "--date", "2025-03-01", "--rerun"]).success().says("published");
    assert_eq!(shared.executions(), 5);
    shared.has_no_leftover();
}
