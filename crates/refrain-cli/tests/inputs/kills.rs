//! SIGKILL while inputs are pinned.

use crate::call::{home, names, run};
use crate::{MODES, declare};
use refrain_testkit::program::Home;
use refrain_testkit::strace::{inject, trace};

const CALLS: &str =
    "mkdir,symlink,link,linkat,rename,renameat,renameat2,unlink,rmdir,flock,fchmod,chmod,write,ftruncate,openat";

fn with_tree(pin: &str) -> Home {
    let home = home();
    for part in 0..3 {
        home.write(format!("data/sub{part}/file"), format!("{part}\n"));
    }
    declare(&home, "data/", pin, "");
    home
}

/// One ordinary call publishes all of the input, and after a gc nothing is left of the pins.
#[track_caller]
fn assert_recovers(home: &Home, context: &str) {
    let call = run(home, &["job"], "");
    assert_eq!(call.output.code, Some(0), "{context}\n{}", call.output);
    assert_eq!(home.read("out.txt"), "0\n1\n2\n", "{context}");
    home.run(["gc"]).success();
    for directory in ["pins", "views"] {
        assert_eq!(names(&home.join(".refrain").join(directory)), Vec::<String>::new(), "{context}: {directory}");
    }
}

#[test]
fn a_kill_at_every_point_of_pinning_leaves_nothing_wrong() {
    for pin in MODES {
        for point in ["before-keep", "after-keep", "after-pin", "after-open-run", "before-task"] {
            let home = with_tree(pin);
            home.refrain().env("REFRAIN_CRASH_AT", format!("{point}=kill")).run(["run", "job"]).expect_signal(9);
            assert_recovers(&home, &format!("{pin}, {point}"));
        }
    }
}

#[test]
fn a_kill_before_any_call_of_pinning_leaves_nothing_wrong() {
    for pin in ["auto", "link"] {
        let counted = with_tree(pin);
        let list: Vec<&str> = CALLS.split(',').collect();
        let trace = trace(&counted.refrain().command(["run", "job"]), &list);
        trace.output.clone().success();
        let mut count = std::collections::BTreeMap::<String, u32>::new();
        let mut points = vec![];
        for call in trace.of_first().filter(|call| call.thread == trace.first) {
            let nth = count.entry(call.name.clone()).or_default();
            *nth += 1;
            // Of those that come often, some.
            let often = ["openat", "write", "fchmod"].contains(&call.name.as_str());
            if often && !nth.is_multiple_of(4) {
                continue;
            }
            if ["/.refrain/pins", "/.refrain/views", "/.refrain/seen"].iter().any(|place| call.args.contains(place)) {
                points.push(format!("{}:signal=SIGKILL:when={nth}", call.name));
            }
        }
        assert!(points.len() > 20, "{points:?}");
        let mut survived = 0;
        for point in points {
            let home = with_tree(pin);
            let output = inject(&home.refrain().command(["run", "job"]), &point);
            // How often the store writes differs a little, and so do the numbers of calls.
            survived += u32::from(output.code.is_some());
            if output.code.is_some() {
                output.success();
            } else {
                output.expect_signal(9);
            }
            assert_recovers(&home, &format!("{pin}, {point}"));
        }
        assert!(survived <= 3, "{survived} calls were not killed");
    }
}

#[test]
fn a_gc_killed_while_it_removes_views_leaves_the_rest_to_the_next_one() {
    for n in 1..8 {
        let home = with_tree("auto");
        home.run(["run", "job"]).success();
        drop(inject(&home.refrain().command(["gc"]), &format!("unlinkat:signal=SIGKILL:when={n}")));
        home.config(
            &std::fs::read_to_string(home.join("refrain.toml"))
                .unwrap()
                .replace("job", "other")
                .replace("out.txt", "other.txt"),
        );
        home.run(["run", "other"]).success();
        assert_eq!(home.read("other.txt"), "0\n1\n2\n");
        home.run(["gc"]).success();
        assert_eq!(names(&home.join(".refrain/views")), Vec::<String>::new(), "{n}");
    }
}
