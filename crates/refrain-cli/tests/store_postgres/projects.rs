//! Homes of one project share a store, and homes of another are told so.

use crate::call::NOTHING;
use crate::hosts::Host;
use crate::scene::{Shared, run_on};
use refrain_testkit::program::Home;

const DAY: [&str; 4] = ["run", "day", "--date", "2025-03-01"];

/// A home whose task `day` copies its own input to its own output.
fn home(shared: &Shared, command: &str) -> Home {
    let home = Home::temp(env!("CARGO_BIN_EXE_refrain"));
    configure(&home, shared, command);
    home
}

fn configure(home: &Home, shared: &Shared, command: &str) {
    home.config(&format!(
        "store = \"{}\"\n[task.day]\npartition = \"daily\"\ncommand = '{command}'\nin.data = \"data.csv\"\nout.file = \
         \"out/{{date}}.csv\"\nlease = {{ ttl = \"60s\" }}\n",
        shared.url()
    ));
    home.write("data.csv", home.path().display().to_string());
}

#[test]
fn a_home_of_another_project_is_refused_before_it_reads_a_run_of_the_first() {
    let shared = Shared::new();
    // The first project's run is open: it failed.
    let first = home(&shared, "exit 3");
    first.run(DAY).expect_code(3);
    let second = home(&shared, "cp \"$REFRAIN_IN_DATA\" \"$REFRAIN_OUT\"");
    let calls: [&[&str]; 5] =
        [&DAY, &["status"], &["recover"], &["log"], &["backfill", "day", "--from", "2025-03-01", "--to", "2025-03-02"]];
    for call in calls {
        let refused =
            second.run(call).expect_code(125).says("[task.day]").says("refrain store join").says("CREATE DATABASE");
        assert!(refused.stderr.contains(&first.path().display().to_string()), "whose store it is\n{refused}");
        assert!(refused.stderr.trim_end().ends_with(NOTHING), "{refused}");
    }
    assert_eq!(shared.sql("SELECT count(*) FROM refrain.attempt"), "1");
    // In a database of its own nothing stands in its way.
    let own = Shared::of(shared.database.server().database());
    configure(&second, &own, "cp \"$REFRAIN_IN_DATA\" \"$REFRAIN_OUT\"");
    second.run(DAY).success().says("published");
    assert_eq!(second.read("out/2025-03-01.csv"), second.path().display().to_string());
    // A task of the first project that is mended stays its own.
    configure(&first, &shared, "cat \"$REFRAIN_IN_DATA\" > \"$REFRAIN_OUT\"");
    first.run(DAY).success().says("published");
    assert_eq!(first.read("out/2025-03-01.csv"), first.path().display().to_string());
}

#[test]
fn a_home_without_a_common_task_is_of_another_project_and_joins_when_its_user_says_so() {
    let shared = Shared::new();
    home(&shared, "cat \"$REFRAIN_IN_DATA\" > \"$REFRAIN_OUT\"").run(DAY).success();
    let other = Home::temp(env!("CARGO_BIN_EXE_refrain"));
    let store = format!("store = \"{}\"\n", shared.url());
    // One without tasks can be taken for no other.
    other.config(&store);
    other.run(["status"]).success();
    other.config(&format!("{store}[task.week]\ncommand = 'echo x > $REFRAIN_OUT'\nout.a = \"a.csv\"\n"));
    other.run(["run", "week"]).expect_code(125).says("none of its tasks").says("refrain store join");
    let joined = other.run(["store", "join"]).success();
    assert!(joined.stdout.starts_with("store "), "{joined}");
    other.run(["store", "join"]).success();
    other.run(["run", "week"]).success().says("published");
    other.run(["run", "week"]).success().says("already published");
}

#[test]
fn clones_on_several_hosts_need_no_word_and_one_that_reads_elsewhere_says_it_once() {
    let shared = Shared::new();
    let [one, two] = ["etl-1", "etl-2"].map(Host::start);
    let first = home(&shared, "cat \"$REFRAIN_IN_DATA\" > \"$REFRAIN_OUT\"");
    let clone = home(&shared, "cat \"$REFRAIN_IN_DATA\" > \"$REFRAIN_OUT\"");
    run_on(&one, &first, &DAY).success().says("published");
    run_on(&two, &clone, &["status"]).success();
    let mended = home(&shared, "cp \"$REFRAIN_IN_DATA\" \"$REFRAIN_OUT\"");
    run_on(&two, &mended, &["status"]).expect_code(125).says("on etl-").says("refrain store join");
    run_on(&two, &mended, &["store", "join"]).success();
    run_on(&two, &mended, &["status"]).success();
    // What was said once holds for its next clone, too, at whatever place.
    let next = home(&shared, "cp \"$REFRAIN_IN_DATA\" \"$REFRAIN_OUT\"");
    run_on(&one, &next, &["status"]).success();
}

#[test]
fn of_two_projects_that_come_at_once_one_has_the_store() {
    let shared = Shared::new();
    let homes =
        ["cat", "cp"].map(|program| home(&shared, &format!("{program} \"$REFRAIN_IN_DATA\" > \"$REFRAIN_OUT\"")));
    let calls = homes.each_ref().map(|home| home.spawn(["status"]));
    let mut codes = calls.map(|call| call.wait().code);
    codes.sort_unstable();
    assert_eq!(codes, [Some(0), Some(125)]);
}

#[test]
fn a_store_of_the_former_format_is_brought_up_to_date_and_its_homes_stay() {
    let shared = Shared::new();
    let first = home(&shared, "cat \"$REFRAIN_IN_DATA\" > \"$REFRAIN_OUT\"");
    first.run(DAY).success();
    let note = first.read(".refrain/store");
    shared.sql("DROP TABLE refrain.home; UPDATE refrain.store SET format = 1");
    first.write(".refrain/store", note.lines().next().unwrap());
    let second = home(&shared, "cp \"$REFRAIN_IN_DATA\" \"$REFRAIN_OUT\"");
    second.write(".refrain/store", note.lines().next().unwrap());
    first.run(DAY).success().says("already published");
    assert_eq!(shared.sql("SELECT format FROM refrain.store"), "2");
    second.run(["status"]).success();
    home(&shared, "exit 0").run(["status"]).expect_code(125);
}

#[test]
fn a_run_that_another_host_opened_goes_on_with_the_same_input_at_another_place_and_with_no_other() {
    let shared = Shared::new();
    let [one, two] = ["etl-1", "etl-2"].map(Host::start);
    let home = || {
        let home = Home::temp(env!("CARGO_BIN_EXE_refrain"));
        shared.configure(
            &home,
            &format!("store = \"{}\"", shared.url()),
            "60s",
            "test -e ready || exit 1\ncat $REFRAIN_IN_DATA",
        );
        let toml = home.read("refrain.toml");
        home.config(&format!("{toml}in.data = \"data.csv\"\n"));
        home.write("data.csv", "one\n");
        home
    };
    let first = home();
    run_on(&one, &first, &DAY).expect_code(1);
    // What the first host has is not there on the second.
    std::fs::remove_file(first.join("data.csv")).unwrap();
    let second = home();
    second.write("ready", "");
    second.write("data.csv", "another\n");
    let hinted = run_on(&two, &second, &DAY).expect_code(125).says("opened by a home that reads").says("--rerun");
    assert!(hinted.stderr.contains(&first.join("data.csv").display().to_string()), "{hinted}");
    second.write("data.csv", "one\n");
    let end = run_on(&two, &second, &DAY).success().says("published");
    assert_eq!(end.stdout, "one\n");
    assert_eq!(shared.read("out/2025-03-01.txt"), "2025-03-01\n");
}
