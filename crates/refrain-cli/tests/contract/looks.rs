//! Commands that only look: text for people, JSON for machines.

use crate::call::{assert_fails, home, run};
use crate::commands::daily;
use refrain_testkit::program::Home;
use serde_json::{Value, json};

fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn path_prints_where_readers_find_each_output() {
    let home = home();
    home.config(
        "[task.job]\npartition = \"daily\"\ncommand = \"echo a > $REFRAIN_OUT_A; echo b > $REFRAIN_OUT_B/b\"\n\
         out.a = \"a/{date}.csv\"\nout.b = \"b/{date}/\"\n",
    );
    assert_fails(
        &home.run(["path", "job", "--date", "2025-03-24"]),
        &["is not published", "refrain run job --date 2025-03-24"],
    );
    home.run(["run", "job", "--date", "2025-03-24"]).success();
    let all = home.run(["path", "job", "--date", "2025-03-24"]).success().stdout;
    let lines: Vec<_> = all.lines().map(|line| line.trim_end_matches('/').to_owned()).collect();
    let expected = ["a/2025-03-24.csv", "b/2025-03-24"].map(|path| home.join(path).display().to_string());
    assert_eq!(lines, expected);
    let one = home.run(["path", "job", "a", "--date", "2025-03-24"]).success().stdout;
    assert_eq!(one.trim_end(), expected[0]);
    assert_fails(&home.run(["path", "job", "c", "--date", "2025-03-24"]), &["no output `c`", "a, b"]);
    assert_fails(&home.run(["path", "job", "--date", "2025-03-24", "--version", "9"]), &["version 9", "1"]);
}

#[test]
fn path_prints_the_outputs_that_are_there_when_another_is_gone() {
    let home = home();
    run(&home, &["job", "--out", "a=a", "--out", "b=b"], "echo a > $REFRAIN_OUT_A; echo b > $REFRAIN_OUT_B")
        .published();
    std::fs::remove_file(home.join("a")).unwrap();
    let path = home.run(["path", "job"]);
    assert_fails(&path, &["output `a` of `job` is not there", "hint: nothing of it can be read", "--rerun"]);
    assert_eq!(path.stdout, format!("{}\n", home.join("b").display()));
    assert_fails(&home.run(["path", "job", "a"]), &["output `a` of `job` is not there"]);
    assert_eq!(home.run(["path", "job", "b"]).success().stdout, path.stdout);
}

#[test]
fn show_of_a_path_within_a_published_directory_tells_of_the_directory() {
    let home = home();
    let call = run(&home, &["job", "--out", "d/"], "mkdir $REFRAIN_OUT/s; echo x > $REFRAIN_OUT/s/f").published();
    let shown = home.run(["show", "d/s/f"]).success().stdout;
    let place = home.join("d").display().to_string();
    assert!(shown.starts_with(&format!("s/f: part of {place}, published by refrain\n")), "{shown}");
    assert!(shown.contains(call.text("run")) && shown.contains("what was published"), "{shown}");
    for (path, part) in [("d/s/f", json!("s/f")), ("d/s", json!("s")), ("d", Value::Null)] {
        let shown = value(&home.run(["show", path, "--json"]).success().stdout);
        assert_eq!((&shown["location"], &shown["part"]), (&json!(place), &part), "{path}");
    }
    home.write("d/s/g", "by hand");
    assert!(home.run(["show", "d/s/g"]).success().stdout.contains("changed by hand"));
}

#[test]
fn show_of_a_run_before_the_last_knows_what_it_read_and_never_says_that_it_read_nothing() {
    let home = daily();
    let rerun = |script: &str| run(&home, &["daily", "--date", "2025-03-24", "--rerun"], script);
    let first = rerun("").published();
    let never = rerun("exit 3").nothing(3, "task_failed");
    home.write("in/2025-03-24.csv", "second\n");
    rerun("").published();
    let inputs = |call: &crate::call::Call| {
        let id = call.report["run"].as_str().unwrap_or_default();
        let shown = value(&home.run(["show", id, "--json"]).success().stdout);
        (shown[0]["inputs"].clone(), home.run(["show", id]).success().stdout)
    };
    let read = &first.report["inputs"][0];
    let (json, text) = inputs(&first);
    assert_eq!(json, json!([{ "name": "src", "version": read["version"] }]));
    assert!(text.contains(&format!("src: {}\n", read["version"].as_str().unwrap())), "{text}");
    let (json, text) = inputs(&never);
    assert!(json.is_null() && text.contains("not known any more"), "{json}\n{text}");
}

#[test]
fn status_shows_every_state() {
    let home = daily();
    let set = |day: &str, code: i32| home.run(["run", "daily", "--date", day]).expect_code(code);
    set("2025-03-24", 0);
    set("2025-03-25", 0);
    home.write("reports/2025-03-25.csv", "by hand");
    std::fs::remove_file(home.join("in/2025-03-27.csv")).unwrap();
    set("2025-03-27", 125);
    let kill = home.refrain().env("REFRAIN_CRASH_AT", "after-task");
    kill.run(["run", "daily", "--date", "2025-03-28", "--in", "src=refrain.toml"]).expect_signal(9);
    let held = "touch started; while [ ! -e go ]; do sleep 0.01; done; echo x > $REFRAIN_OUT";
    let running = crate::call::start(&home, &["daily", "--date", "2025-03-29", "--in", "src=refrain.toml"], held);
    refrain_testkit::freeze::wait_for_path(&home.join("started"));

    let shown = value(&home.run(["status", "daily", "--json"]).success().stdout);
    let states: Vec<_> = shown
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["partition"].as_str().unwrap(), one["state"].as_str().unwrap()))
        .collect();
    let expected = [
        ("2025-03-24", "published"),
        ("2025-03-25", "drifted"),
        ("2025-03-26", "missing"),
        ("2025-03-27", "failed"),
        ("2025-03-28", "unsettled"),
        ("2025-03-29", "running"),
    ];
    assert_eq!(states, expected);
    let text = home.run(["status"]).success().stdout;
    for ((day, _), word) in
        expected.iter().zip(["published", "changed by hand", "missing", "failed", "unsettled", "running"])
    {
        assert!(text.lines().any(|line| line.contains(day) && line.contains(word)), "{day} is not {word}\n{text}");
    }
    home.write("go", "");
    crate::call::finish(running).published();
    home.config(&home.read("refrain.toml").replace("cat ", "cat  "));
    let text = home.run(["status"]).success().stdout;
    assert!(
        text.lines().any(|line| line.contains("2025-03-24") && line.contains("stale") && line.contains("command")),
        "{text}"
    );
}

/// State and note of each partition that `status` shows.
fn told(home: &Home, arguments: &[&str]) -> Vec<(String, String)> {
    let shown = value(&home.run([&["status", "--json"], arguments].concat()).success().stdout);
    let word = |one: &Value, field: &str| one[field].as_str().unwrap_or_default().to_owned();
    shown.as_array().unwrap().iter().map(|one| (word(one, "state"), word(one, "note"))).collect()
}

#[test]
fn a_task_that_never_ran_is_missing_with_values_and_without_partitions_alike() {
    let home = home();
    home.config(
        "[task.whole]\ncommand = \"true\"\nout.o = \"o\"\n\n\
         [task.listed]\npartition = { values = [\"a\"] }\ncommand = \"true\"\nout.o = \"{partition}\"\n",
    );
    for task in ["whole", "listed"] {
        assert_eq!(told(&home, &[task]), [("missing".to_owned(), String::new())], "{task}");
        let text = home.run(["status", task]).success().stdout;
        assert!(text.contains(&format!("{task}: 1 missing")), "{text}");
    }
}

#[test]
fn status_says_stale_when_an_input_changed_as_why_does_and_names_every_reason() {
    let home = daily();
    let config = home.read("refrain.toml");
    home.config(&config.replace("in.src", "in.more = \"more/{date}/\"\nin.all = \"all/*.csv\"\nin.src"));
    for place in ["more/2025-03-24/a", "more/2025-03-25/a", "all/a.csv"] {
        home.write(place, "first");
    }
    for day in ["2025-03-24", "2025-03-25"] {
        home.run(["run", "daily", "--date", day]).success();
    }
    let published = ("published".to_owned(), String::new());
    let stale = |what: &str| ("stale".to_owned(), format!("changed since it was published: {what}"));
    let src = home.read("in/2025-03-24.csv");
    home.write("in/2025-03-24.csv", &src);
    assert_eq!(told(&home, &["daily"]), [published.clone(), published.clone()], "written anew, and the same");
    home.write("in/2025-03-24.csv", "other");
    assert_eq!(told(&home, &["daily"]), [stale("input `src` changed"), published.clone()]);
    home.write("more/2025-03-24/b", "more");
    let both = stale("input `more` changed, input `src` changed");
    for arguments in [&[][..], &["daily"], &["daily", "--from", "2025-03-24", "--to", "2025-03-25"]] {
        assert_eq!(told(&home, arguments), [both.clone(), published.clone()]);
    }
    let text = home.run(["status"]).success().stdout;
    assert!(text.contains("1 stale") && text.contains(&both.1), "{text}");
    for (day, changed) in [("2025-03-24", true), ("2025-03-25", false)] {
        assert_eq!(value(&home.run(["why", "daily", "--date", day, "--json"]).success().stdout)["changed"], changed);
    }
    home.write("in/2025-03-24.csv", &src);
    std::fs::remove_file(home.join("more/2025-03-24/b")).unwrap();
    home.config(&home.read("refrain.toml").replace("cat ", "cat  "));
    home.write("all/b.csv", "second");
    std::fs::remove_file(home.join("in/2025-03-25.csv")).unwrap();
    let expected =
        ["the command changed, input `all` changed", "the command changed, input `all` changed, input `src` changed"];
    assert_eq!(told(&home, &["daily"]), expected.map(stale));
}

#[test]
fn status_reads_no_more_than_a_bound_of_an_input_that_it_does_not_know_and_says_so() {
    let home = home();
    let sized = |mib: u64| std::fs::File::create(home.join("in")).unwrap().set_len(mib << 20).unwrap();
    sized(65);
    home.config(
        "[task.job]\ncommand = \"echo x > $REFRAIN_OUT\"\nin.i = { path = \"in\", pin = \"verify\" }\nout.o = \"o\"\n",
    );
    home.run(["run", "job"]).success();
    let all = |state: &str, note: &str| vec![(state.to_owned(), note.to_owned())];
    assert_eq!(told(&home, &[]), all("published", ""), "what the run read is known");
    std::fs::remove_dir_all(home.join(".refrain/seen")).unwrap();
    let unread = "input `i` was not compared: too much would have to be read";
    assert_eq!(told(&home, &[]), all("published", unread));
    let text = home.run(["status"]).success().stdout;
    assert!(text.contains("1 published") && text.contains("too much would have to be read: 1"), "{text}");
    sized(66);
    assert_eq!(told(&home, &[]), all("stale", "changed since it was published: input `i` changed"), "by its size");
    sized(65);
    home.run(["why", "job"]).success();
    assert_eq!(told(&home, &[]), all("published", ""), "what `why` read is known");
}

#[test]
fn status_says_where_a_code_file_cannot_be_read() {
    let home = home();
    home.config("[task.job]\ncommand = \"echo x > $REFRAIN_OUT\"\ncode = [\"job.sh\"]\nout.o = \"o\"\n");
    home.write("job.sh", "");
    home.run(["run", "job"]).success();
    std::fs::remove_file(home.join("job.sh")).unwrap();
    let unread = "whether it changed cannot be told: the code file `job.sh` of task `job` cannot be read";
    assert_eq!(told(&home, &[]), [("published".to_owned(), unread.to_owned())]);
    assert_fails(&home.run(["why", "job"]), &["the code file `job.sh`"]);
}

#[test]
fn status_of_a_range_includes_both_ends_and_what_was_never_run() {
    let home = daily();
    home.run(["run", "daily", "--date", "2025-03-25"]).success();
    let arguments = ["status", "daily", "--from", "2025-03-24", "--to", "2025-03-26", "--json"];
    let shown = value(&home.run(arguments).success().stdout);
    let states: Vec<_> = shown.as_array().unwrap().iter().map(|one| one["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["missing", "published", "missing"]);
}

#[test]
fn the_columns_of_status_stand_below_their_headers() {
    let home = daily();
    home.run(["run", "daily", "--date", "2025-03-24"]).success();
    let text = home.run(["status"]).success().stdout;
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[1].find("PARTITION"), lines[2].find("2025-03-24"), "{text}");
    assert_eq!(lines[1].find("STATE"), lines[2].find("published"), "{text}");
}

#[test]
fn log_lists_attempts_newest_first() {
    let home = daily();
    home.run(["run", "daily", "--date", "2025-03-24", "--", "false"]).expect_code(1);
    home.run(["run", "daily", "--date", "2025-03-24"]).success();
    home.run(["run", "daily", "--date", "2025-03-25"]).success();
    let lines: Vec<Value> = home.run(["log", "--json"]).success().stdout.lines().map(value).collect();
    let told: Vec<_> =
        lines.iter().map(|line| (&line["key"]["partition"], &line["token"], &line["ending"]["outcome"])).collect();
    let expected = [
        (&json!("2025-03-25"), &json!(1), &json!("published")),
        (&json!("2025-03-24"), &json!(2), &json!("published")),
        (&json!("2025-03-24"), &json!(1), &json!("task_failed")),
    ];
    assert_eq!(told, expected);
    let text = home.run(["log", "daily", "--date", "2025-03-24"]).success().stdout;
    assert_eq!(text.lines().count(), 3, "a header and two attempts\n{text}");
    assert!(text.contains("task failed") && text.contains("exit code 1"), "{text}");
    assert_eq!(home.run(["log", "-n", "1"]).success().stdout.lines().count(), 2);
    assert_fails(&home.run(["log", "--date", "2025-03-24"]), &["refrain log TASK --date D"]);
    assert_fails(&home.run(["log", "-n", "0"]), &["--limit", "1 or more"]);
}

#[test]
fn show_finds_by_the_beginning_of_an_id_and_by_path() {
    let home = daily();
    let call = run(&home, &["daily", "--date", "2025-03-24"], "").published();
    let (attempt, run_id) = (call.text("attempt").to_owned(), call.text("run").to_owned());
    for id in [attempt.as_str(), run_id.as_str(), &attempt[..23]] {
        let shown = home.run(["show", id]).success().stdout;
        assert!(
            shown.contains(&attempt) && shown.contains("published") && shown.contains("daily 2025-03-24"),
            "{shown}"
        );
    }
    let shown = value(&home.run(["show", &attempt, "--json"]).success().stdout);
    assert_eq!(shown[0]["attempt"], attempt);

    let shown = home.run(["show", "reports/2025-03-24.csv"]).success().stdout;
    for part in ["daily 2025-03-24", &attempt, &run_id, "input:src", "command", "what was published"] {
        assert!(shown.contains(part), "no `{part}` in\n{shown}");
    }
    let shown = value(&home.run(["show", "reports/2025-03-24.csv", "--json"]).success().stdout);
    assert_eq!((&shown["publication"]["attempt"], &shown["drift"]), (&json!(attempt), &Value::Null));
    home.write("reports/2025-03-24.csv", "by hand");
    let shown = home.run(["show", "reports/2025-03-24.csv"]).success().stdout;
    assert!(shown.contains("changed by hand"), "{shown}");
    assert_fails(&home.run(["show", "refrain.toml"]), &["is no published path"]);
    assert_fails(&home.run(["show", "ffff"]), &["no run or attempt"]);
}

#[test]
fn why_says_what_run_would_do_and_what_changed() {
    let home = daily();
    let why = |flags: &[&str]| {
        let mut all = vec!["why", "daily", "--date", "2025-03-24"];
        all.extend(flags);
        home.run(all).success().stdout
    };
    assert!(why(&[]).contains("would run the command") && why(&[]).contains("never published"), "{}", why(&[]));
    assert!(!home.exists("reports"), "it changes nothing");
    home.run(["run", "daily", "--date", "2025-03-24"]).success();
    assert!(why(&[]).contains("would do nothing"), "{}", why(&[]));
    home.write("in/2025-03-24.csv", "later\n");
    let text = why(&[]);
    assert!(text.contains("input `src` changed") && text.contains("--if-changed"), "{text}");
    let shown = value(&why(&["--json"]));
    assert_eq!(
        (&shown["task"], &shown["partition"], &shown["would"]),
        (&json!("daily"), &json!("2025-03-24"), &json!("nothing"))
    );
    assert!(
        shown["because"].as_array().unwrap().iter().any(|line| line.as_str().unwrap().contains("input `src`")),
        "{shown}"
    );
}

#[test]
fn why_tells_a_held_a_failed_and_a_dead_attempt_apart() {
    let home = daily();
    let would = || value(&home.run(["why", "daily", "--date", "2025-03-24", "--json"]).success().stdout);
    home.run(["run", "daily", "--date", "2025-03-24", "--", "false"]).expect_code(1);
    let failed = would();
    assert_eq!(failed["would"], "run");
    assert!(failed["because"].to_string().contains("exit code 1"), "{failed}");
    let kill = home.refrain().env("REFRAIN_CRASH_AT", "after-task");
    kill.run(["run", "daily", "--date", "2025-03-24"]).expect_signal(9);
    assert_eq!(would()["would"], "recover");
    let held = "touch started; while [ ! -e go ]; do sleep 0.01; done; echo x > $REFRAIN_OUT";
    let running = crate::call::start(&home, &["daily", "--date", "2025-03-24"], held);
    refrain_testkit::freeze::wait_for_path(&home.join("started"));
    assert_eq!(would()["would"], "wait");
    home.write("go", "");
    crate::call::finish(running).published();
}

#[test]
fn a_date_of_an_ad_hoc_task_is_found_in_every_spelling() {
    let home = home();
    let run = |grain: &str, date: &str| {
        let task = format!("job-{grain}");
        let out = format!("{grain}/{{date}}.csv");
        let command =
            ["run", &task, "--grain", grain, "--date", date, "--out", &out, "--", "sh", "-c", "echo x > $REFRAIN_OUT"];
        home.run(command).success();
    };
    for (grain, date, other) in [
        ("hourly", "2025-03-24T05", "2025-03-24T05:00:00Z"),
        ("daily", "2025-03-24", "2025-03-24T02:00:00+02:00"),
        ("weekly", "2025-W13", "2025-03-24"),
        ("monthly", "2025-03", "2025-03-01"),
    ] {
        run(grain, date);
        let task = format!("job-{grain}");
        for date in [date, other] {
            let path = home.run(["path", &task, "--date", date]).success().stdout;
            assert!(std::path::Path::new(path.trim_end()).is_file(), "{path}");
            assert!(home.run(["why", &task, "--date", date]).success().stdout.contains("would do nothing"));
            assert_eq!(home.run(["log", &task, "--date", date]).success().stdout.lines().count(), 2);
        }
    }
}

#[test]
fn sinks_and_stores_are_tables_and_json() {
    let home = home();
    let text = home.run(["sinks"]).success().stdout;
    assert!(text.contains("SINK") && text.contains("file") && text.contains("directory"), "{text}");
    let shown = value(&home.run(["sinks", "--json"]).success().stdout);
    let names: Vec<_> = shown.as_array().unwrap().iter().map(|sink| sink["sink"].as_str().unwrap()).collect();
    assert_eq!(names, ["file", "directory", "prefix", "object", "postgresql"]);
    assert!(home.run(["stores"]).success().stdout.contains("sqlite"));
    assert_eq!(value(&home.run(["stores", "--json"]).success().stdout)[0]["store"], "sqlite");
}

#[test]
fn a_range_without_a_task_holds_for_tasks_of_every_grain() {
    let home = home();
    let task = |name: &str, partition: &str, place: &str| {
        format!("[task.{name}]\npartition = {partition}\ncommand = \"true\"\nout.o = \"{name}/{place}\"\n")
    };
    let grains = ["hourly", "daily", "monthly"].map(|grain| task(grain, &format!("{grain:?}"), "{date}")).concat();
    let unset = "[task.unset]\npartition = \"daily\"\nout.o = \"${REFRAIN_TEST_UNSET}/{date}\"\n";
    home.config(&(grains + unset + &task("names", "{ values = [\"eu\"] }", "{partition}")));
    let range = ["status", "--from", "2025-03-31", "--to", "2025-04-01"];
    let shown = value(&home.run(range.into_iter().chain(["--json"])).success().stdout);
    let keys = |task: &str| {
        let of_task = shown.as_array().unwrap().iter().filter(|status| status["task"] == task);
        of_task.map(|status| status["partition"].as_str().unwrap()).collect::<Vec<_>>()
    };
    let hours = keys("hourly");
    assert_eq!((hours.len(), hours[0], hours[47]), (48, "2025-03-31T00", "2025-04-01T23"));
    assert_eq!(keys("daily"), ["2025-03-31", "2025-04-01"]);
    assert_eq!(keys("monthly"), ["2025-03", "2025-04"]);
    assert_eq!(keys("unset"), ["2025-03-31", "2025-04-01"]);
    assert_eq!(keys("names"), ["eu"]);
    home.run(range).success();
    let output = home.run(["status", "--from", "yesterdy"]);
    assert_fails(&output, &["`--from`", "yesterdy"]);
    assert_fails(&home.run(["status", "hourly", "--from", "2025-03-31"]), &["`--from`", "2025-03-31T00"]);
}
