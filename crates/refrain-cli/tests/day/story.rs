//! `refrain log` as a story, `show` and `why` on who, from what, and what would happen.

use crate::call::{finish, home, run, start};
use crate::on_a_terminal;
use refrain_testkit::freeze::wait_for_path;
use refrain_testkit::program::Home;

fn job() -> Home {
    let home = home();
    home.config(
        "[task.job]\npartition = \"daily\"\ncommand = \"cat $REFRAIN_IN_SRC make.sh > $REFRAIN_OUT\"\ncode = [\"make.sh\"]\n\
         param.k = \"one\"\nin.src = \"in/{date}.csv\"\nout.o = \"o/{date}.txt\"\n",
    );
    home.write("in/2025-03-24.csv", "1\n");
    home.write("make.sh", "v1\n");
    home
}

#[test]
fn the_story_tells_why_it_ended_what_was_published_and_what_to_do_next() {
    let home = job();
    let story = || home.run(["log", "job", "--story"]).success().stdout;
    run(&home, &["job", "--date", "2025-03-24"], "exit 3").nothing(3, "task_failed");
    let failed = story();
    for words in [
        "job 2025-03-24 task failed (exit code 3), ",
        "failed with exit code 3",
        "next: refrain run job --date 2025-03-24",
    ] {
        assert!(failed.contains(words), "no `{words}` in\n{failed}");
    }
    let call = run(&home, &["job", "--date", "2025-03-24"], "").published();
    let told = story();
    let mut chapters = told.split("\n\n");
    let newest = chapters.next().unwrap();
    let place = home.join("o/2025-03-24.txt").display().to_string();
    for words in
        ["published version 1, ", ", took ", call.text("attempt"), "token 2", ", user ", &format!("published: {place}")]
    {
        assert!(newest.contains(words), "no `{words}` in\n{newest}");
    }
    assert!(!told.contains("next: "), "the later attempt did what was to be done\n{told}");
    assert!(chapters.next().unwrap().contains("task failed"), "newest first\n{told}");
}

#[test]
fn the_story_names_the_command_that_shows_what_a_failed_attempt_printed() {
    let home = job();
    home.write("in/2025-03-24.csv", "");
    home.config(
        &home.read("refrain.toml").replace("cat $REFRAIN_IN_SRC make.sh > $REFRAIN_OUT", "echo why it failed; exit 3"),
    );
    home.run(["-qq", "backfill", "job", "--from", "2025-03-24", "--to", "2025-03-24"]).expect_code(3);
    let told = home.run(["log", "--story"]).success().stdout;
    let line = told
        .lines()
        .find_map(|line| line.trim().strip_prefix("what it printed: refrain "))
        .unwrap_or_else(|| panic!("{told}"));
    let printed = home.run(line.split(' ')).success().stdout;
    assert_eq!(printed, "why it failed\n");
}

#[test]
fn the_story_tells_a_running_attempt_from_one_that_died() {
    let home = job();
    let kill = home.refrain().env("REFRAIN_CRASH_AT", "after-task");
    kill.run(["run", "job", "--date", "2025-03-24"]).expect_signal(9);
    let died = home.run(["log", "--story"]).success().stdout;
    assert!(died.contains("ended without a word") && died.contains("next: refrain recover job"), "{died}");
    let waits = "touch started; while [ ! -e go ]; do sleep 0.01; done; echo x > $REFRAIN_OUT";
    let running = start(&home, &["job", "--date", "2025-03-24"], waits);
    wait_for_path(&home.join("started"));
    let told = home.run(["log", "-n", "1", "--story"]).success().stdout;
    assert!(told.contains("is running") && told.contains("next: refrain run job --date 2025-03-24 --wait"), "{told}");
    home.write("go", "");
    finish(running).published();
    let told = home.run(["log", "--story"]).success().stdout;
    assert!(told.contains("end found out ") && !told.contains("next: "), "{told}");
}

#[test]
fn on_a_terminal_the_log_is_a_story_and_elsewhere_a_list() {
    let home = job();
    run(&home, &["job", "--date", "2025-03-24"], "").published();
    let text = on_a_terminal(&home, 80, "NO_COLOR=1", "log");
    assert!(text.starts_with("job 2025-03-24 published version 1, "), "{text}");
    let list = home.run(["log"]).success().stdout;
    assert!(list.starts_with(" STARTED"), "{list}");
    assert_eq!(on_a_terminal(&home, 80, "", "log --list"), list);
}

#[test]
fn show_says_who_published_a_path_and_from_what() {
    let home = job();
    let call = run(&home, &["job", "--date", "2025-03-24"], "").published();
    let input = call.report["inputs"][0]["version"].as_str().unwrap().to_owned();
    let shown = home.run(["show", "o/2025-03-24.txt"]).success().stdout;
    for words in [
        "job 2025-03-24",
        "version      1",
        "started      20",
        "by           pid ",
        ", user ",
        &input,
        "code:make.sh: \"blake3:",
        "command: \"cat $REFRAIN_IN_SRC make.sh > $REFRAIN_OUT\"",
        "param:k: \"one\"",
        call.text("attempt"),
    ] {
        assert!(shown.contains(words), "no `{words}` in\n{shown}");
    }
}

#[test]
fn why_says_from_what_to_what_each_part_changed_and_who_published() {
    let home = job();
    let why = || home.run(["why", "job", "--date", "2025-03-24"]).success().stdout;
    let place = home.join("o/2025-03-24.txt").display().to_string();
    assert!(why().contains(&format!("publishes: {place}")), "{}", why());
    run(&home, &["job", "--date", "2025-03-24"], "").published();
    home.config(&home.read("refrain.toml").replace("\"one\"", "\"two\""));
    home.write("make.sh", "v2\n");
    home.write("in/2025-03-24.csv", "2\n");
    let text = why();
    for words in [
        "pid ",
        "parameter `k` changed: \"one\" -> \"two\"",
        "code `make.sh` changed: blake3:",
        "input `src` changed: blake3:",
    ] {
        assert!(text.contains(words), "no `{words}` in\n{text}");
    }
    let shown: serde_json::Value =
        serde_json::from_str(&home.run(["why", "job", "--date", "2025-03-24", "--json"]).success().stdout).unwrap();
    let parameter = shown["changes"].as_array().unwrap().iter().find(|change| change["part"] == "param:k").unwrap();
    assert_eq!((&parameter["old"], &parameter["new"]), (&"\"one\"".into(), &"\"two\"".into()));
}
