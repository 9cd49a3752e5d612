//! The order and the number of the calls that make a publication durable.

use crate::scene::BIN;
use refrain_testkit::program::Home;
use refrain_testkit::strace::{Call, trace};

const SYNCS: &[&str] = &["fsync", "fdatasync", "syncfs", "sync_file_range"];
const LIMIT: u64 = 6;

fn position(calls: &[&Call], what: &str, is: impl Fn(&Call) -> bool) -> usize {
    let list = || calls.iter().map(|call| format!("{} {}({})", call.program, call.name, call.args)).collect::<Vec<_>>();
    calls.iter().position(|call| is(call)).unwrap_or_else(|| panic!("there is no {what} in {:#?}", list()))
}

#[test]
fn fs_01_fs_02_the_output_is_synced_before_the_rename_and_the_directory_after_it() {
    let home = Home::temp(BIN);
    let script = "head -c 8388608 /dev/zero > $REFRAIN_OUT";
    let args = ["run", "big", "--out", "new/made/big.bin", "--", "sh", "-c", script];
    let mut list = SYNCS.to_vec();
    list.extend(["write", "rename", "renameat", "renameat2", "mkdir", "mkdirat"]);
    let trace = trace(&home.refrain().command(args), &list);
    trace.output.clone().success().says("published");
    let calls: Vec<_> = trace.calls.iter().filter(|call| call.succeeded()).collect();

    let staged = |call: &Call| call.args.contains(".refrain/slots/") && call.args.contains("/big.bin>");
    let synced = |call: &Call, path: &str| {
        SYNCS.contains(&call.name.as_str()) && call.args.contains(&format!("{}>", home.join(path).display()))
    };
    let written = calls.iter().rposition(|call| call.name == "write" && staged(call)).expect("the task writes");
    let output = position(&calls, "sync of the staged file", |call| call.name == "fsync" && staged(call));
    let renamed = position(&calls, "rename to the target", |call| {
        call.name.starts_with("rename")
            && call.args.contains(&format!("\"{}\"", home.join("new/made/big.bin").display()))
    });
    let intent = calls
        .iter()
        .take(renamed)
        .rposition(|call| SYNCS.contains(&call.name.as_str()) && call.args.contains(".head>"));
    let parent = position(&calls, "sync of the target's directory after the rename", |call| synced(call, "new/made"));
    let reported = position(&calls, "report", |call| call.name == "write" && call.args.contains("published: big"));
    assert!(written < output, "the output is synced after the last write");
    assert!(
        intent.is_some_and(|intent| output < intent),
        "the intent is durable after the output and before the rename"
    );
    assert!(renamed < parent && parent < reported, "rename, sync of the directory, report");
    // Directories that were made on the way are durable in their own parents.
    for (made, within) in [("new", ""), ("new/made", "new")] {
        let path = format!("\"{}\"", home.join(made).display());
        let mkdir = position(&calls, "mkdir", |call| call.name.starts_with("mkdir") && call.args.contains(&path));
        let within = home.join(within);
        let within = format!("{}>", within.display().to_string().trim_end_matches('/'));
        let durable = calls.iter().skip(mkdir).any(|call| call.name == "fsync" && call.args.contains(&within));
        assert!(durable, "`{made}` is made durable in its parent");
    }
}

#[test]
fn fs_02_a_whole_run_of_one_small_file_syncs_at_most_six_times() {
    let home = Home::temp(BIN);
    let run = |task: &str, rerun: bool| {
        let out = format!("{task}.csv");
        let mut args = vec!["run", task, "--out", &out, "--", "sh", "-c", "head -c 4096 /dev/zero > $REFRAIN_OUT"];
        if rerun {
            args.insert(2, "--rerun");
        }
        let trace = trace(&home.refrain().command(args), SYNCS);
        trace.output.clone().success();
        trace.count(SYNCS).values().sum::<u64>()
    };
    assert!(run("first", false) <= LIMIT, "the first publication of a home");
    assert!(run("second", false) <= LIMIT);
    assert!(run("second", true) <= LIMIT, "a file that is replaced");
}
