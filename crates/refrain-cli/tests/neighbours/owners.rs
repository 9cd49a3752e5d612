//! Who owns a path: whoever published there, and nobody who only tried.

use crate::call::{finish, home, run, start};
use crate::{killed_at, status};
use refrain_testkit::freeze::wait_for_path;

const OURS: &str = "echo ours > $REFRAIN_OUT";
const THEIRS: &str = "echo theirs > $REFRAIN_OUT";

#[test]
fn a_task_that_failed_keeps_nobody_from_the_path() {
    let home = home();
    run(&home, &["typo", "--out", "out.csv"], "exit 3").nothing(3, "task_failed");
    run(&home, &["job", "--out", "out.csv"], OURS).published();
    assert_eq!(home.read("out.csv"), "ours\n");
    run(&home, &["typo", "--out", "out.csv"], THEIRS).nothing(125, "refused").says("belongs to `job`");
    assert_eq!(home.read("out.csv"), "ours\n");
}

#[test]
fn a_task_that_was_killed_before_its_commit_keeps_nobody_from_the_path() {
    for point in ["after-claim", "before-task", "after-seal", "before-commit", "before-intent"] {
        let home = home();
        killed_at(&home, point, &["dead", "--out", "out.csv"], THEIRS);
        run(&home, &["job", "--out", "out.csv"], OURS).published();
        assert_eq!(home.read("out.csv"), "ours\n", "{point}");
        // The dead one is settled without touching what stands.
        drop(home.run(["recover"]));
        run(&home, &["dead", "--out", "out.csv"], THEIRS).nothing(125, "refused");
        assert_eq!(home.read("out.csv"), "ours\n", "{point}");
    }
}

#[test]
fn a_task_that_was_killed_after_its_decision_keeps_the_path() {
    for point in ["after-intent", "after-rename", "before-record", "after-record", "after-commit"] {
        let home = home();
        killed_at(&home, point, &["dead", "--out", "out.csv"], THEIRS);
        run(&home, &["job", "--out", "out.csv"], OURS).nothing(125, "refused").says("belongs to `dead`");
        assert_eq!(home.read("out.csv"), "theirs\n", "{point}");
    }
}

#[test]
fn a_task_that_published_keeps_the_path_unless_it_is_adopted() {
    let home = home();
    run(&home, &["first", "--out", "out.csv"], THEIRS).published();
    for flags in [&["job", "--out", "out.csv"][..], &["job", "--out", "out.csv", "--rerun"]] {
        run(&home, flags, OURS).nothing(125, "refused").says("belongs to `first`").says("--adopt");
    }
    assert_eq!(home.read("out.csv"), "theirs\n");
    run(&home, &["job", "--out", "out.csv", "--adopt"], OURS).published();
    assert_eq!(home.read("out.csv"), "ours\n");
    run(&home, &["first", "--out", "out.csv"], "exit 9").nothing(125, "refused").says("belongs to `job`");
}

#[test]
fn two_unpublished_tasks_race_for_one_path_and_the_later_claim_publishes() {
    let home = home();
    let waits = "touch started; while [ ! -e go ]; do sleep 0.01; done; echo theirs > $REFRAIN_OUT";
    let first = start(&home, &["first", "--out", "out.csv"], waits);
    wait_for_path(&home.join("started"));
    run(&home, &["second", "--out", "out.csv"], OURS).published();
    home.write("go", "");
    let call = finish(first);
    assert!(matches!(call.text("outcome"), "fenced" | "refused"), "{}", call.output);
    assert!(matches!(call.output.code, Some(121 | 125)), "{}", call.output);
    assert_eq!(call.text("window"), "nothing_published");
    assert_eq!(home.read("out.csv"), "ours\n");
    run(&home, &["second", "--out", "out.csv"], "exit 9").already_published();
}

#[test]
fn many_unpublished_tasks_at_once_make_one_publication() {
    let home = home();
    let tasks: Vec<String> = (0..6).map(|number| format!("task-{number}")).collect();
    let calls: Vec<_> = tasks
        .iter()
        .map(|task| start(&home, &[task, "--out", "out.csv"], &format!("echo {task} > $REFRAIN_OUT")))
        .collect();
    let ended: Vec<_> = calls.into_iter().map(finish).collect();
    let winners: Vec<_> = ended.iter().filter(|call| call.output.code == Some(0)).collect();
    assert_eq!(winners.len(), 1, "{:#?}", ended.iter().map(|call| call.output.to_string()).collect::<Vec<_>>());
    assert_eq!(home.read("out.csv").trim_end(), winners[0].text("task"));
    for call in ended.iter().filter(|call| call.output.code != Some(0)) {
        assert!(matches!(call.output.code, Some(121 | 125)), "{}", call.output);
        assert_eq!(call.text("window"), "nothing_published", "{}", call.output);
    }
}

#[test]
fn a_take_over_that_fails_leaves_the_former_owner_its_publication() {
    let home = home();
    run(&home, &["first", "--out", "out.csv"], THEIRS).published();
    run(&home, &["job", "--out", "out.csv", "--adopt"], "exit 3").nothing(3, "task_failed");
    run(&home, &["first", "--out", "out.csv"], THEIRS).already_published();
    killed_at(&home, "before-commit", &["job", "--out", "out.csv", "--adopt"], OURS);
    run(&home, &["first", "--out", "out.csv"], THEIRS).already_published();
    assert_eq!(home.read("out.csv"), "theirs\n");
    run(&home, &["job", "--out", "out.csv", "--adopt"], OURS).published();
    assert_eq!(home.read("out.csv"), "ours\n");
}

#[test]
fn a_task_that_moves_away_from_what_another_took_over_goes_on_elsewhere() {
    let home = home();
    run(&home, &["job", "--out", "a.csv"], OURS).published();
    run(&home, &["other", "--adopt", "--out", "a.csv"], THEIRS).published();
    // Where it still publishes there, a person must decide.
    run(&home, &["job", "--out", "a.csv"], OURS).nothing(125, "refused").says("belongs to `other`");
    let call = run(&home, &["job", "--out", "b.csv"], OURS).published();
    assert_eq!(call.number("generation"), 2);
    assert_eq!((home.read("a.csv"), home.read("b.csv")), ("theirs\n".into(), "ours\n".into()));
    run(&home, &["job", "--out", "b.csv"], OURS).already_published();
    run(&home, &["job", "--rerun", "--adopt", "--out", "b.csv"], OURS).published();
    run(&home, &["other", "--out", "a.csv"], THEIRS).already_published();
    home.run(["recover"]).success().says("nothing to recover");
}

const SPLIT: &str = "[task.job]\ncommand = 'echo ours > $REFRAIN_OUT_A'\nout.a = 'a.csv'\n\
    [task.other]\ncommand = 'echo theirs > $REFRAIN_OUT_B'\nout.b = 'b.csv'\n";
const WHOLE: &str = "[task.job]\ncommand = 'echo ours > $REFRAIN_OUT_A; echo ours > $REFRAIN_OUT_B'\nout.a = 'a.csv'\nout.b = 'b.csv'\n";

#[test]
fn of_a_task_that_is_split_each_part_keeps_its_output() {
    // Not killed; killed when it is decided and the second output is still to follow; before it is decided.
    for point in [None, Some("after-commit"), Some("before-commit")] {
        let home = home();
        home.write("refrain.toml", WHOLE);
        home.run(["run", "job"]).success();
        if let Some(point) = point {
            home.refrain().env("REFRAIN_CRASH_AT", point).run(["run", "job", "--rerun"]).expect_signal(9);
        }
        home.write("refrain.toml", SPLIT);
        home.run(["run", "other", "--adopt"]).success();
        let call = home.run(["run", "job"]);
        assert_eq!(call.code, Some(0), "{point:?}: {call}");
        assert_eq!((home.read("a.csv"), home.read("b.csv")), ("ours\n".into(), "theirs\n".into()), "{point:?}");
        let call = home.run(["run", "job", "--adopt"]);
        assert_eq!(call.code, Some(0), "{point:?}: {call}");
        home.run(["run", "other"]).success().says("already published");
        home.run(["recover"]).success().says("nothing to recover");
        for task in ["job", "other"] {
            let (state, ..) = crate::status(&home, task);
            assert!(["published", "stale"].contains(&state.as_str()), "{point:?} {task}: {state}");
        }
        home.run(["gc"]).success();
        home.run(["gc"]).success().says("removed 0 staging");
    }
}

#[test]
fn what_was_taken_over_and_is_taken_back_is_a_new_version() {
    let home = home();
    run(&home, &["job", "--out", "out.csv"], OURS).published();
    run(&home, &["other", "--adopt", "--out", "out.csv"], THEIRS).published();
    run(&home, &["other", "--rerun", "--out", "out.csv"], THEIRS).published();
    let call = run(&home, &["job", "--adopt", "--out", "out.csv"], "echo again > $REFRAIN_OUT").published();
    assert_eq!(call.number("generation"), 2);
    assert_eq!(home.read("out.csv"), "again\n");
    let log = home.run(["log", "job", "--json"]).success().stdout;
    let entries: Vec<serde_json::Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let published =
        entries.iter().filter(|entry| entry["ending"]["outcome"] == "published").map(|entry| entry["run"].to_string());
    let mut runs: Vec<_> = published.collect();
    runs.dedup();
    assert_eq!(runs.len(), 2, "{log}");
}

#[test]
fn what_a_key_published_stays_its_own_while_another_takes_its_path_over() {
    let home = home();
    home.config(
        "[task.b]\nout.o = \"o.csv\"\ncommand = \"echo theirs > $REFRAIN_OUT\"\n\
         [task.reader]\nin.i = { task = \"b\" }\nout.o = \"copy.csv\"\ncommand = \"cat $REFRAIN_IN_I > $REFRAIN_OUT\"\n",
    );
    home.run(["run", "b"]).success();
    let stands = |when: &str| {
        assert_eq!(home.run(["path", "b"]).success().stdout.trim_end(), home.join("o.csv").to_str().unwrap(), "{when}");
        assert_eq!(status(&home, "b").0, "published", "{when}");
        let why = home.run(["why", "b", "--json"]).success().stdout;
        assert!(why.contains("\"nothing\""), "{when}: {why}");
        let show = home.run(["show", "o.csv"]).success().stdout;
        assert!(show.contains("key          b\n") && show.contains("what was published"), "{when}: {show}");
        home.run(["run", "reader", "--rerun"]).success();
        assert_eq!(home.read("copy.csv"), "theirs\n", "{when}");
    };
    run(&home, &["a", "--out", "o.csv", "--adopt"], "exit 3").nothing(3, "task_failed");
    stands("after the other one failed");
    run(&home, &["a", "--out", "o.csv"], OURS).nothing(125, "refused").says("belongs to `b`").says("--adopt");
    let why = home.run(["why", "a"]).success().stdout;
    assert!(why.contains("belongs to `b`") && !why.contains("did not publish"), "{why}");
    stands("after the other one was refused");
    killed_at(&home, "before-commit", &["a", "--out", "o.csv", "--adopt"], OURS);
    stands("after the other one was killed");
    home.run(["run", "b"]).success();
    assert_eq!(home.read("o.csv"), "theirs\n");
}

const BOTH: &str = "echo ours > $REFRAIN_OUT_X; echo ours > $REFRAIN_OUT_Y";

#[test]
fn a_take_over_of_two_outputs_that_was_decided_is_finished_by_a_plain_run() {
    for theirs in [true, false] {
        let home = home();
        let flags = ["--out", "x=x.csv", "--out", "y=y.csv"];
        if theirs {
            let script = "echo theirs > $REFRAIN_OUT_X; echo theirs > $REFRAIN_OUT_Y";
            run(&home, &[&["old"], &flags[..]].concat(), script).published();
        } else {
            home.write("x.csv", "theirs\n");
            home.write("y.csv", "theirs\n");
        }
        killed_at(&home, "after-record", &[&["new"], &flags[..], &["--adopt"]].concat(), BOTH);
        assert_eq!((home.read("x.csv").as_str(), home.read("y.csv").as_str()), ("ours\n", "theirs\n"));
        run(&home, &[&["new"], &flags[..]].concat(), "exit 9").already_published();
        assert_eq!(
            (home.read("x.csv").as_str(), home.read("y.csv").as_str()),
            ("ours\n", "ours\n"),
            "theirs: {theirs}"
        );
        let kept = home.run(["path", "new", "--version", "0"]).success().stdout;
        let kept: Vec<_> = kept.lines().map(|path| std::fs::read_to_string(path).unwrap()).collect();
        assert_eq!(kept, ["theirs\n", "theirs\n"]);
    }
}

#[test]
fn the_former_owner_takes_nothing_back_of_a_take_over_that_is_decided() {
    let home = home();
    run(&home, &["old", "--out", "x=x.csv"], "echo theirs > $REFRAIN_OUT_X").published();
    let new = ["new", "--out", "y=y.csv", "--out", "x=x.csv"];
    killed_at(&home, "after-record", &[&new[..], &["--adopt"]].concat(), BOTH);
    for flags in [&["old", "--out", "x=x.csv"][..], &["old", "--out", "x=x.csv", "--rerun"]] {
        let call = run(&home, flags, "exit 9").nothing(125, "refused");
        call.says("is being taken over by `new`, which has published at its first output").says("refrain run new");
    }
    run(&home, &new, "exit 9").already_published();
    assert_eq!((home.read("x.csv").as_str(), home.read("y.csv").as_str()), ("ours\n", "ours\n"));
}

#[test]
fn what_another_task_took_over_is_not_told_as_ones_own() {
    let home = home();
    run(&home, &["a", "--out", "x=x.csv", "--out", "y=y.csv"], BOTH).published();
    run(&home, &["b", "--out", "y=y.csv", "--adopt"], "echo theirs > $REFRAIN_OUT_Y").published();
    let call = run(&home, &["a", "--out", "x=x.csv"], "exit 9").already_published();
    let call = call.says("y.csv is not among its outputs any more: `b` has taken it over");
    let outputs: Vec<_> = call.report["outputs"].as_array().unwrap().iter().map(|it| it["name"].clone()).collect();
    assert_eq!(outputs, ["x"], "{}", call.report);
    let path = home.run(["path", "a"]).expect_code(125).says("output `y` of `a` was taken over by `b`");
    assert_eq!(path.stdout.lines().count(), 1, "{path}");
    path.says("refrain path b");
}

#[test]
fn what_was_published_and_taken_over_before_it_was_settled_is_not_denied() {
    let home = home();
    killed_at(&home, "after-record", &["a", "--out", "x.csv"], OURS);
    run(&home, &["b", "--out", "x.csv", "--adopt"], THEIRS).published();
    home.run(["recover"]).success().says("a: published, and what another task published has taken its place");
    let why = home.run(["why", "a"]).success();
    assert!(why.stdout.contains("version 1 was published, and what another task published"), "{why}");
}
