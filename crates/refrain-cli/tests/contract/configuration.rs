//! Where the home and the values come from, and what is said of a wrong file, name or date.

use crate::call::{assert_fails, home, run, run_as};
use crate::commands::daily;
use std::fs;

#[test]
fn without_a_home_every_command_names_init() {
    let home = home();
    let bare = tempfile::tempdir().unwrap();
    let refrain = home.refrain().cwd(bare.path());
    let commands: [&[&str]; 10] = [
        &["run", "job", "--out", "out.csv", "--", "true"],
        &["backfill", "job", "--from", "2025-03-24", "--to", "2025-03-24"],
        &["status"],
        &["log"],
        &["why", "job"],
        &["path", "job"],
        &["rollback", "job"],
        &["recover"],
        &["gc"],
        &["config", "show"],
    ];
    for arguments in commands {
        assert_fails(&refrain.run(arguments), &["refrain init"]);
    }
    assert_eq!(crate::call::names(bare.path()), Vec::<String>::new(), "and leaves nothing behind");
}

#[test]
fn sinks_stores_and_completions_need_no_home() {
    let bare = tempfile::tempdir().unwrap();
    let refrain = refrain_testkit::program::Refrain::new(env!("CARGO_BIN_EXE_refrain"), bare.path());
    for arguments in [&["sinks"][..], &["stores"], &["completions", "zsh"]] {
        refrain.run(arguments).success();
    }
}

#[test]
fn the_home_is_named_by_flag_then_variable_then_place() {
    let [flag, variable, place] = [home(), home(), home()];
    let path = |home: &refrain_testkit::program::Home| home.path().display().to_string();
    let shown = |output: refrain_testkit::program::Output| output.success().stdout.lines().next().unwrap().to_owned();
    let here = place.refrain();
    assert!(shown(here.run(["config", "show"])).contains(&path(&place)));
    let here = here.env("REFRAIN_HOME", variable.path());
    let line = shown(here.run(["config", "show"]));
    assert!(line.contains(&path(&variable)) && line.ends_with("# REFRAIN_HOME"), "{line}");
    let line = shown(here.run(["--home", &path(&flag), "config", "show"]));
    assert!(line.contains(&path(&flag)) && line.ends_with("# --home"), "{line}");
}

#[test]
fn a_home_that_the_variable_names_and_that_is_none_is_an_error() {
    let home = home();
    let refrain = home.refrain().env("REFRAIN_HOME", home.join("absent"));
    let absent = home.join("absent").display().to_string();
    assert_fails(&refrain.run(["status"]), &["is no home", &format!("refrain --home {absent} init")]);
}

#[test]
fn a_home_with_only_its_file_is_completed() {
    let home = home();
    home.config("[task.job]\ncommand = \"echo data > $REFRAIN_OUT\"\nout.out = \"out.csv\"\n");
    fs::remove_dir_all(home.join(".refrain")).unwrap();
    run(&home, &["job"], "").published();
}

#[test]
fn an_unknown_key_is_refused_with_the_nearest() {
    let home = home();
    for (text, unknown, near) in [
        ("stor = \"sqlite\"\n", "`stor`", "did you mean `store`?"),
        ("[task.a]\nout.x = \"a\"\ncomand = \"x\"\n", "`task.a.comand`", "`task.a.command`?"),
        ("[task.a]\nout.x = { path = \"a\", min_byte = 1 }\n", "`task.a.out.x.min_byte`", "`task.a.out.x.min_bytes`?"),
        ("[task.a]\nout.x = \"a\"\nkeep = { version = 1 }\n", "`task.a.keep.version`", "`task.a.keep.versions`?"),
        ("[task.a]\nout.x = \"a\"\nlease = { tll = \"1s\" }\n", "`task.a.lease.tll`", "`task.a.lease.ttl`?"),
        ("[task.a]\nout.x = \"a\"\ncmd = \"x\"\n", "`task.a.cmd`", "`task.a.command`?"),
        ("[task.a]\nout.x = { pth = \"a\" }\n", "`task.a.out.x.pth`", "`task.a.out.x.path`?"),
        ("[task.a]\nout.x = \"a\"\nzzzzzzzz = 1\n", "`task.a.zzzzzzzz`", "known here: "),
        ("[task.a]\nout.x = \"a\"\nin.i = { tsk = \"b\" }\n", "`task.a.in.i.tsk`", "did you mean `task.a.in.i.task`?"),
        ("[task.a]\nout.x = \"a\"\nin.i = { zzzz = \"b\" }\n", "`task.a.in.i.zzzz`", "`path`, `pin`, `task`"),
        (
            "[task.a]\nout.x = { to = \"postgresql:///m\", table = \"t\", zzzz = 1 }\n",
            "`task.a.out.x.zzzz`",
            "`to`, `table`, `mode`, `where`, `from`, `sql`, `format`, `null`, `key`, `exclude`, `order_by`, `delete_missing`, \
             `set_again`, `run_column`, `covers`, `allow_shrink`, `truncate`, `set`, `min_rows`, `min_bytes`, `check`, \
             `allow_empty`, `stdout`\n",
        ),
    ] {
        home.config(text);
        assert_fails(&home.run(["status"]), &["refrain.toml", unknown, near]);
    }
}

#[test]
fn a_wrong_value_is_refused_by_name() {
    let home = home();
    for (text, says) in [
        ("[task.a]\nout.x = \"a\"\ncommand = 5\n", "`task.a.command` must be"),
        ("[task.a]\nout.x = \"a\"\npartition = \"dayly\"\n", "`task.a.partition`"),
        ("[task.a]\nout.x = \"a\"\npartition = \"daily\"\n", "two of them would be published to the same place"),
        (
            "[task.a]\nout.x = \"{date:%Q}\"\npartition = \"daily\"\n",
            "add `{date}` to the location: `{date:%Q}` is the same for both",
        ),
        ("[task.a]\nout.x = \"\"\npartition = \"daily\"\n", "`task.a.out.x`: the output `x` names no place"),
        ("[task.a]\nout.x = \"a\"\nin.y = \"\"\n", "`task.a.in.y`: the input `y` names no place"),
        ("[task.a]\nout.x = \"a-{date}\"\npartition = \"daily\"\ntimezone = \"Mars/Olympus\"\n", "Mars/Olympus"),
        ("[task.a]\nout.x = \"a\"\nlease = { ttl = \"soon\" }\n", "`task.a.lease.ttl`"),
        ("[task.a]\nout.x = \"a\"\non_change = \"maybe\"\n", "\"keep\", \"replace\" or \"refuse\""),
        ("[task.a]\ncommand = \"true\"\n", "declares no output"),
        ("[task.\"a b\"]\nout.x = \"a\"\n", "a b"),
        ("[task.a\n", "line 1"),
        ("[task.a]\nout.x = { path = \"a\", min_bytes = -3 }\n", "not -3"),
        ("[task.a]\nout = \"q.txt\"\n", "out.NAME = \"q.txt\""),
        ("[task.a]\nout = { path = \"q\", min_bytes = 3 }\n", "out.NAME = { path"),
        ("[task.a]\nout.x = \"a\"\ncode = [\"a\", 5]\n", "`task.a.code[1]` must be a text, not 5"),
        ("[task.a]\nout.x = \"a\"\ncommand = \"\"\n", "not an empty text"),
        ("[task.a]\nout.x = \"a\"\ntimezone = \"UTC\"\n", "for partitions that are dates"),
        ("[task.a]\nout.x = \"a\"\nkeep = { versions = 99999999999 }\n", "must be at most 4294967295, not 99999999999"),
        ("[task.a]\nout.x = \"a\"\nretry = { attempts = 99999999999 }\n", "must be at most 4294967295"),
        ("[task.a]\nout.x = \"a\"\nretry = { attempts = 0 }\n", "must be at least 1"),
        ("[task.a]\nout.\"\" = \"a\"\n", "`` cannot name an output"),
        ("[task.a]\nout.\"a b\" = \"a\"\n", "`a b` cannot name an output"),
        (
            "[task.a]\nout.x = { path = \"x\", stdout = true }\nout.y = { path = \"y\", stdout = true }\n",
            "`x` and `y` of `a` would both be the command's standard output",
        ),
        ("[task.a]\nout.x = { path = \"x/\", stdout = true }\n", "the standard output is one file"),
        ("[task.a]\nout.x = { path = \"a\", min_rows = 3 }\n", "`task.a.out.x.min_rows` is for tables"),
        ("[task.a]\nout.x = { to = \"postgresql:///m\", table = \"t\", mode = \"merg\" }\n", "did you mean \"merge\"?"),
        (
            "[task.a]\npartition = \"daily\"\nout.x = { to = \"postgresql:///m\", table = \"t\", mode = \"table\" }\n",
            "say which rows one partition has: mode = \"replace\"",
        ),
    ] {
        home.config(text);
        assert_fails(&home.run(["status"]), &["refrain.toml", says]);
    }
}

#[test]
fn a_bucket_that_is_declared_under_a_misspelled_name_is_refused_with_the_nearest_that_is_used() {
    let home = home();
    let task = "[task.a]\nout.x = \"s3://lake/a/\"\nin.y = \"gs://events/b.csv\"\n";
    for (declared, near) in [
        ("[objects.\"s3://laek\"]\n", Some("did you mean `objects.\"s3://lake\"`?")),
        ("[objects.\"gs://event\"]\n", Some("did you mean `objects.\"gs://events\"`?")),
        ("[objects.\"s3://events\"]\n", Some("did you mean `objects.\"gs://events\"`?")),
        ("store = \"s3://states/_refrain/\"\n[objects.\"s3://state\"]\n", Some("`objects.\"s3://states\"`?")),
        // Both are meant; for a call that names it itself; none of the names is near.
        ("[objects.\"s3://lake\"]\n[objects.\"s3://laek\"]\n", None),
        ("[objects.\"s3://backup-of-yesterday\"]\n", None),
    ] {
        home.config(&format!("{declared}{task}"));
        let shown = home.run(["config", "show"]);
        match near {
            Some(near) => assert_fails(&shown, &["refrain.toml", "no output, input or store uses the bucket", near]),
            None => drop(shown.success()),
        }
    }
}

#[test]
fn a_file_that_is_no_text_is_refused_with_the_line() {
    let home = home();
    home.write("refrain.toml", b"# one\n# two \xff\n");
    assert_fails(&home.run(["status"]), &["refrain.toml", "line 2", "UTF-8"]);
}

#[test]
fn an_empty_variable_is_one_that_is_not_set() {
    let home = daily();
    let empty = home.refrain().env("REFRAIN_HOME", "").env("REFRAIN_CRASH_AT", "").env("REFRAIN_LOG", "");
    let output = empty.run(["run", "daily", "--date", "2025-03-24"]).success();
    assert_eq!(output.stderr.lines().count(), 1, "{output}");
    assert!(empty.run(["config", "show"]).success().stdout.contains("# found from the current directory"));
}

#[test]
fn a_variable_that_means_nothing_is_told() {
    let home = daily();
    let call = ["run", "daily", "--date", "2025-03-24"];
    for (at, told) in [("before-commit#0", "`0` is not a number of times"), ("nowhere", "there is no point `nowhere`")]
    {
        assert_fails(&home.refrain().env("REFRAIN_CRASH_AT", at).run(call), &["`REFRAIN_CRASH_AT`", told]);
    }
    let output = home.refrain().env("REFRAIN_LOG", "bogus").run(call).success();
    output.says("`REFRAIN_LOG` is `bogus`, and not info, debug or trace");
}

#[test]
fn a_name_that_is_given_twice_is_refused_with_both() {
    let home = home();
    for (flags, both) in [
        (["--out", "a=x", "--out", "a=y"], ["`--out a=x`", "`--out a=y`"]),
        (["--out", "x", "--out", "out=y"], ["`--out x`", "`--out out=y`"]),
        (["--out", "a=x", "--stdout", "a=y"], ["`--out a=x`", "`--stdout a=y`"]),
    ] {
        let mut all = vec!["job"];
        all.extend(flags);
        run(&home, &all, "true").nothing(125, "error").says(both[0]).says(both[1]);
    }
    let flags = ["job", "--out", "o", "--param", "k=1", "--param", "k=2"];
    run(&home, &flags, "true").nothing(125, "error").says("`--param k=1`").says("`--param k=2`");
}

#[test]
fn an_output_keeps_its_guards_wherever_the_flag_puts_it() {
    let home = home();
    home.config("[task.job]\ncommand = \"echo x > $REFRAIN_OUT\"\nout.o = { path = \"a\", min_bytes = 100 }\n");
    run(&home, &["job", "--out", "o=b"], "").nothing(123, "refused").says("100");
}

#[test]
fn an_unknown_task_is_refused_with_the_nearest_or_with_what_would_make_it() {
    let home = daily();
    for command in ["run", "why"] {
        let output = home.run([command, "dayly", "--date", "2025-03-24"]);
        assert_fails(&output, &["there is no task `dayly`", "did you mean `daily`?"]);
    }
    for command in ["status", "log", "recover"] {
        assert_fails(&home.run([command, "dayly"]), &["there is no task `dayly`", "did you mean `daily`?"]);
    }
    home.config("");
    assert_fails(&home.run(["run", "job"]), &["[task.job]", "--out FILE -- COMMAND"]);
}

#[test]
fn a_bad_date_is_refused_with_an_example() {
    let home = daily();
    for date in ["2025-03-44", "2025-02-29", "24.03.2025", "tomorrowish", "", "2025-3-4", "2025-03-24T25:00:00Z"] {
        let output = home.run(["run", "daily", "--date", date]);
        assert_fails(&output, &["not a logical date of the daily grain", "`--date 2025-03-24`"]);
    }
    assert_fails(&home.run(["run", "daily"]), &["needs `--date`"]);
    assert_fails(&home.run(["run", "daily", "--partition", "x"]), &["takes no `--partition`"]);
    assert!(!home.exists("reports"));
}

#[test]
fn a_partition_outside_the_declared_values_is_refused_with_the_values() {
    let home = home();
    home.config(
        "[task.job]\npartition = { values = [\"eu\", \"us\"] }\ncommand = \"echo $REFRAIN_PARTITION > $REFRAIN_OUT\"\n\
         out.out = \"{partition}.csv\"\n",
    );
    run(&home, &["job", "--partition", "eu"], "").published();
    assert_eq!(home.read("eu.csv"), "eu\n");
    assert_fails(&home.run(["run", "job", "--partition", "uk"]), &["`uk` is not a partition", "--partition us"]);
    assert_fails(&home.run(["run", "job"]), &["--partition"]);
}

#[test]
fn wrong_flags_of_run_are_refused_by_name() {
    let home = home();
    let refused: [(&[&str], &str); 18] = [
        (&["--stdout", "postgresql:///m?table=t&mode=table"], "the standard output is a file"),
        (&["--out", "postgresql:///m?table=t&mode=replace"], "&KEY=VALUE"),
        (&["--in", "nameless", "--out", "o"], "--in nameless"),
        (&["--in", "a=", "--out", "o"], "the input `a` names no place"),
        (&["--in", "=x", "--out", "o"], "write --in NAME=x\n"),
        (&["--out", "o="], "the output `o` names no place"),
        (&["--stdout", "o/"], "the standard output is one file"),
        (&["--param", "nameless", "--out", "o"], "NAME=VALUE"),
        (&["--out", "o", "--ttl", "soon"], "`--ttl`"),
        (&["--out", "o", "--ttl", "0s"], "ttl of nothing"),
        (&["--in", "src=https://h/x", "--out", "o"], "`https://`"),
        (&["--out", "o", "--timeout", "never"], "`--timeout`"),
        (&["--out", "o-{nope}.csv"], "`{nope}` is not a placeholder"),
        (&["--out", "o-{param.absent}.csv"], "--param absent=VALUE"),
        (&["--out", "s3://bucket/x"], "s3://"),
        (&["--out", ""], "empty"),
        (&["--out", "o", "--grain", "hourly"], "--date DATE"),
        (&["--out", "o", "--timezone", "Asia/Tokyo", "--partition", "p"], "--date DATE"),
    ];
    for (flags, says) in refused {
        let mut all = vec!["job"];
        all.extend(flags);
        run(&home, &all, "echo data > $REFRAIN_OUT").nothing(125, "error").says(says);
    }
    run(&home, &["two words", "--out", "o"], "true").nothing(125, "error").says("`two words`");
    assert_eq!(crate::call::names(home.path()).iter().filter(|name| name.starts_with('o')).count(), 0);
}

#[test]
fn how_dates_are_cut_is_declared_for_a_declared_task_and_no_flag() {
    let home = home();
    home.config("[task.job]\npartition = \"daily\"\ncommand = \"date > $REFRAIN_OUT\"\nout.out = \"o-{date}.csv\"\n");
    for (flags, says) in [
        (["--grain", "hourly"], "`partition = \"hourly\"` below [task.job]"),
        (["--timezone", "Asia/Tokyo"], "`timezone = \"Asia/Tokyo\"` below [task.job]"),
    ] {
        let flags = [&["job", "--date", "2025-03-24"], &flags[..]].concat();
        run(&home, &flags, "").nothing(125, "error").says(says);
        assert!(!home.exists("o-2025-03-24.csv"), "{flags:?}");
    }
}

#[test]
fn a_task_without_command_or_output_says_what_is_missing() {
    let home = home();
    home.config("[task.job]\nout.out = \"out.csv\"\n");
    run(&home, &["job"], "").nothing(125, "error").says("has no command");
    run(&home, &["other"], "echo data > $REFRAIN_OUT").nothing(125, "error").says("no task `other`").says("job");
}

#[test]
fn config_show_says_where_each_value_came_from() {
    let home = daily();
    let shown = home.run(["config", "show"]).success().stdout;
    for line in [
        "store = \"sqlite\"  # default",
        "task.daily.out.report = \"reports/{date}.csv\"  # refrain.toml",
        "task.daily.in.src = \"in/{date}.csv\"  # refrain.toml",
        "task.daily.on_change = \"keep\"  # default",
        "task.daily.lease.ttl = \"1m\"  # default",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "no line `{line}` in\n{shown}");
    }
    home.config(
        "store = \"sqlite\"\n[task.a]\ncommand = [\"sh\", \"-c\", \"true\"]\ncode = [\"job.sh\"]\ntimeout = \"2h\"\n\
         on_change = \"replace\"\nlease = { ttl = \"5s\" }\nparam.k = \"v\"\n\
         out.x = { path = \"x\", min_bytes = 3, check = \"true\" }\nin.y = { path = \"y\", pin = \"verify\" }\n",
    );
    let shown = home.run(["config", "show"]).success().stdout;
    for line in [
        "store = \"sqlite\"  # refrain.toml",
        "task.a.partition = \"none\"  # default",
        "task.a.command = [\"sh\", \"-c\", \"true\"]  # refrain.toml",
        "task.a.code = [\"job.sh\"]  # refrain.toml",
        "task.a.param.k = \"v\"  # refrain.toml",
        "task.a.timeout = \"2h\"  # refrain.toml",
        "task.a.grace = \"10s\"  # default",
        "task.a.on_change = \"replace\"  # refrain.toml",
        "task.a.lease.ttl = \"5s\"  # refrain.toml",
        "task.a.out.x = { path = \"x\", min_bytes = 3, check = \"true\" }  # refrain.toml",
        "task.a.in.y = { path = \"y\", pin = \"verify\" }  # refrain.toml",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "no line `{line}` in\n{shown}");
    }
    // What is written is of the file, also where it says what holds anyway.
    home.config(
        "[objects.\"s3://lake\"]\nallow_http = false\n[task.a]\nout.x = \"s3://lake/{date}\"\npartition = \"daily\"\n\
         timezone = \"UTC\"\ncwd = \".\"\non_change = \"keep\"\nlease = { ttl = \"60s\" }\nkeep = { grace = \"1h\" }\n\
         grace = \"10s\"\nretry = { attempts = 1 }\ninherit_locale = false\nclock = \"wall\"\n",
    );
    let shown = home.run(["config", "show"]).success().stdout;
    for (key, written) in [
        ("objects.\"s3://lake\".allow_http", true),
        ("objects.\"s3://lake\".virtual_hosted", false),
        ("task.a.timezone", true),
        ("task.a.cwd", true),
        ("task.a.on_change", true),
        ("task.a.lease.ttl", true),
        ("task.a.keep.versions", false),
        ("task.a.keep.grace", true),
        ("task.a.grace", true),
        ("task.a.retry.attempts", true),
        ("task.a.retry.backoff", false),
        ("task.a.inherit_locale", true),
        ("task.a.clock", true),
    ] {
        let line = shown.lines().find(|line| line.starts_with(&format!("{key} = "))).unwrap();
        assert!(line.ends_with(if written { "  # refrain.toml" } else { "  # default" }), "{line}");
    }
}

#[test]
fn a_variable_that_is_not_set_is_an_error_of_the_tasks_that_need_it() {
    let home = home();
    let tasks = "[task.local]\ncommand = \"echo 1 > $REFRAIN_OUT\"\nout.o = \"local\"\n\
                 [task.far]\nout.x = { to = \"${REFRAIN_TEST_FAR}\", table = \"t\", mode = \"table\", from = \"x.csv\" }\n\
                 [task.near]\ncommand = \"echo 2 > $REFRAIN_OUT\"\nout.o = \"${REFRAIN_TEST_NEAR}/near\"\nkeep = { versions = 7 }\n\
                 [task.reader]\ncommand = \"cp $REFRAIN_IN_N $REFRAIN_OUT\"\nin.n = { task = \"near\" }\nout.o = \"copied\"\n";
    home.config(tasks);
    let set = home.refrain().env("REFRAIN_TEST_NEAR", home.path());
    set.run(["run", "near"]).success();
    run(&home, &["local"], "").published();
    let unset = "`task.near.out.o` needs the environment variable `REFRAIN_TEST_NEAR`, which is not set";
    for command in [&["run", "near"][..], &["run", "near", "--out", "o=elsewhere"], &["run", "reader"]] {
        assert_fails(&home.run(command), &["refrain.toml", unset, "export REFRAIN_TEST_NEAR=…"]);
    }
    assert_fails(&home.run(["run", "far"]), &["`task.far.out.x.to`", "export REFRAIN_TEST_FAR=…"]);
    let status = home.run(["status"]).success().says(unset).says("`far` cannot be run as it is declared");
    assert!(status.stdout.contains("local: 1 published") && status.stdout.contains("near: 1 published"), "{status}");
    let why = home.run(["why", "near"]).success().stdout;
    assert!(why.contains("would refuse") && why.contains(unset) && why.contains("version 1 was published"), "{why}");
    assert_eq!(home.run(["path", "near"]).success().stdout.trim_end(), home.join("near").display().to_string());
    let shown = home.run(["config", "show"]);
    assert_fails(&shown, &["which is not set"]);
    assert!(shown.stdout.contains("task.near.keep.versions = 7  # refrain.toml"), "{shown}");
    assert!(shown.stdout.contains("task.local.out.o = \"local\""), "{shown}");
    // An empty one is none: nothing is published at the root or the home instead.
    let empty = home.refrain().env("REFRAIN_TEST_NEAR", "");
    assert_fails(&empty.run(["run", "near"]), &[unset]);
    for key in ["cwd = \"${REFRAIN_TEST_NEAR}\"", "in.i = \"${REFRAIN_TEST_NEAR}\""] {
        home.config(&format!("[task.near]\ncommand = \"true\"\n{key}\nout.o = \"o\"\n"));
        assert_fails(&empty.run(["run", "near"]), &["`REFRAIN_TEST_NEAR`, which is not set, or empty"]);
    }
    for key in ["store = \"${REFRAIN_TEST_NEAR}\"", "staging = [\"${REFRAIN_TEST_NEAR}\"]"] {
        home.config(key);
        assert_fails(&empty.run(["status"]), &["`REFRAIN_TEST_NEAR`, which is not set, or empty"]);
    }
    home.config(tasks);
    set.run(["run", "reader"]).success();
    // What is wrong beside it is told all the same.
    home.config(&tasks.replace("keep =", "kep ="));
    assert_fails(&home.run(["status"]), &["unknown key `task.near.kep`"]);
    home.config("store = \"${REFRAIN_TEST_FAR}\"\n");
    assert_fails(&home.run(["status"]), &["`store` needs the environment variable"]);
}

#[test]
fn the_example_of_init_that_needs_nothing_else_publishes() {
    let home = home();
    fs::remove_file(home.join("refrain.toml")).unwrap();
    home.run(["init"]).success();
    let text = home.read("refrain.toml");
    let example = text.lines().skip_while(|line| *line != "# [task.carriers]").take_while(|line| *line != "#");
    home.config(&example.map(|line| line.trim_start_matches("# ")).collect::<Vec<_>>().join("\n"));
    home.write("carriers.csv", "UA\n");
    run(&home, &["carriers"], "").published();
    assert_eq!(home.read("carriers.txt"), "UA\n");
}

#[test]
fn a_file_url_is_the_path_that_it_names() {
    let home = home();
    home.write("in.csv", "1\n");
    let url = |name: &str| format!("file://{}", home.join(name).display());
    let flags = ["job", "--date", "2025-03-24", "--in", &format!("i={}", url("in.csv"))];
    let out = url("{date:%Y}-{date}.csv");
    run(&home, &[&flags[..], &["--out", &out]].concat(), "cp $REFRAIN_IN_I $REFRAIN_OUT").published();
    assert_eq!(home.read("2025-2025-03-24.csv"), "1\n");
    home.config(&format!("[task.a]\ncommand = \"echo 2 > $REFRAIN_OUT\"\nout.o = \"{}\"\n", url("o.csv")));
    run(&home, &["a"], "").published();
    assert_eq!(home.read("o.csv"), "2\n");
    for (url, why) in [("file://host/x", "names a host"), ("file:///a%20b", "escapes (`%`) are not read")] {
        run(&home, &["other", "--out", url], "true").nothing(125, "error").says(why).says("write the path as it is");
    }
}

#[test]
fn a_bucket_is_tried_out_as_the_home_says_or_not_at_all() {
    let home = home();
    home.config("stor = \"sqlite\"\n");
    assert_fails(&home.run(["check", "--sink", "s3://lake"]), &["unknown key `stor`", "did you mean `store`?"]);
}

#[test]
fn config_show_says_how_buckets_are_reached_without_a_secret() {
    let home = home();
    home.config(
        "[objects.\"s3://lake\"]\nendpoint = \"http://me:secret@127.0.0.1:9000\"\nregion = \"r\"\nprofile = \"etl\"\narea = \
         \"team/_refrain/\"\n[objects.\"az://spare\"]\naccount = \"acc\"\nallow_http = true\n[task.a]\nout.x = \
         \"s3://lake/a/\"\n",
    );
    let shown = home.run(["config", "show"]).success().stdout;
    for line in [
        "objects.\"s3://lake\".endpoint = \"http://me:…@127.0.0.1:9000\"  # refrain.toml",
        "objects.\"s3://lake\".region = \"r\"  # refrain.toml",
        "objects.\"s3://lake\".profile = \"etl\"  # refrain.toml",
        "objects.\"s3://lake\".allow_http = false  # default",
        "objects.\"s3://lake\".virtual_hosted = false  # default",
        "objects.\"s3://lake\".area = \"s3://lake/team/_refrain/\"  # refrain.toml",
        "objects.\"az://spare\".account = \"acc\"  # refrain.toml, where nothing else names this bucket",
        "objects.\"az://spare\".area = \"az://spare/_refrain/\"  # default",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "no line `{line}` in\n{shown}");
    }
    assert!(!shown.contains("secret"), "{shown}");
}

#[test]
fn only_the_homes_own_file_is_read() {
    // A file beside the data names no commands for us.
    let home = home();
    home.write("data/refrain.toml", "nonsense");
    let data = home.join("data").display().to_string();
    run_as(&home, &home.refrain(), &["job", "--out", &format!("{data}/out.csv")], "echo data > $REFRAIN_OUT")
        .published();
}
