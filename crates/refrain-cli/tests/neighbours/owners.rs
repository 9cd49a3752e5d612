//! Who owns a path: whoever published there, and nobody who only tried.

use crate::call::{finish, home, run, start};
use crate::killed_at;
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
