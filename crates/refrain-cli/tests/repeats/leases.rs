//! LEASE: who may work on a key, and how a holder that died is told from one that lives.

use crate::call::{Call, assert_closes, assert_fails, executions, finish, home, names, run, start};
use refrain_testkit::freeze::{is_alive, wait_for, wait_for_path};
use refrain_testkit::program::{Home, Output, Running};
use refrain_testkit::strace::inject;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const FLAGS: [&str; 3] = ["job", "--out", "out.csv"];
const SCRIPT: &str = "echo x >> runs.log; echo data > $REFRAIN_OUT";
const SLOW: &str =
    "echo x >> runs.log; touch started; while [ ! -e go ]; do sleep 0.01; done; echo slow > $REFRAIN_OUT";

/// A call that has begun its work and goes on when the test says so.
fn holder(home: &Home, flags: &[&str]) -> (Running, String) {
    let call = start(home, flags, SLOW);
    wait_for_path(&home.join("started"));
    call
}

fn log(home: &Home) -> Vec<Value> {
    let text = home.run(["log", "--json", "-n", "1000"]).success().stdout;
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn sql(home: &Home, statement: &str) {
    let output = Command::new("sqlite3").arg(home.join(".refrain/state.db")).arg(statement).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_second_call_is_held_and_one_that_waits_answers_with_the_firsts_publication() {
    let home = home();
    let first = holder(&home, &FLAGS);
    run(&home, &FLAGS, SCRIPT).nothing(120, "held");
    run(&home, &[&FLAGS[..], &["--wait=200ms"]].concat(), SCRIPT).nothing(120, "held");
    run(&home, &[&FLAGS[..], &["--rerun"]].concat(), SCRIPT).nothing(120, "held");
    let waiting = start(&home, &[&FLAGS[..], &["--wait"]].concat(), SCRIPT);
    home.write("go", "");
    let first = finish(first).published();
    let waited = finish(waiting).already_published();
    assert_eq!(waited.report["attempt"], first.report["attempt"]);
    assert_eq!(executions(&home), 1);
}

#[test]
fn a_call_that_waits_goes_on_when_the_holder_fails() {
    let home = home();
    let failing = start(&home, &FLAGS, "touch started; while [ ! -e go ]; do sleep 0.01; done; exit 3");
    wait_for_path(&home.join("started"));
    let waiting = start(&home, &[&FLAGS[..], &["--wait"]].concat(), SCRIPT);
    home.write("go", "");
    finish(failing).nothing(3, "task_failed");
    finish(waiting).published();
}

#[test]
fn another_partition_and_another_task_are_not_held() {
    let home = home();
    let first = holder(&home, &["job", "--date", "2025-03-24", "--out", "{date}.csv"]);
    run(&home, &["job", "--date", "2025-03-25", "--out", "{date}.csv"], SCRIPT).published();
    run(&home, &["job2", "--date", "2025-03-24", "--out", "other-{date}.csv"], SCRIPT).published();
    home.write("go", "");
    finish(first).published();
}

#[test]
fn lease_05_a_task_that_uses_all_processors_keeps_its_lease() {
    let home = home();
    let ttl = Duration::from_secs(3);
    let spin =
        "for i in 1 2 3 4; do (while [ ! -e go ]; do :; done) & done; touch started; wait; echo data > $REFRAIN_OUT";
    let busy = start(&home, &[&FLAGS[..], &["--ttl", "3s"]].concat(), spin);
    wait_for_path(&home.join("started"));
    held_for(&home, ttl * 2);
    home.write("go", "");
    finish(busy).published();
}

#[test]
fn lease_05_a_task_whose_stdout_nobody_reads_keeps_its_lease() {
    let home = home();
    let ttl = Duration::from_secs(3);
    let fill = "touch started; head -c 1000000 /dev/zero; echo data > $REFRAIN_OUT";
    let arguments = [&["run"], &FLAGS[..], &["--ttl", "3s", "--", "sh", "-c", fill]].concat();
    let mut child = home.refrain().command(arguments).stdout(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
    wait_for_path(&home.join("started"));
    held_for(&home, ttl * 2);
    let mut stdout = child.stdout.take().unwrap();
    let read = std::io::copy(&mut stdout, &mut std::io::sink()).unwrap();
    assert_eq!((read, child.wait().unwrap().code()), (1_000_000, Some(0)));
    assert_eq!(home.read("out.csv"), "data\n");
}

/// Asks again and again, for so long, and is told each time that somebody is at it.
fn held_for(home: &Home, time: Duration) {
    let begun = Instant::now();
    wait_for("the time of two leases has passed", || {
        home.run([&["run"], &FLAGS[..], &["--", "false"]].concat()).expect_code(120);
        begun.elapsed() > time
    });
}

#[test]
fn lease_07_a_renewal_in_flight_does_not_spoil_the_end() {
    let home = home();
    // The lease is renewed every 20 ms, so that a renewal meets the publication and the release again and again.
    for _ in 0..20 {
        let call = run(&home, &[&FLAGS[..], &["--rerun", "--ttl", "60ms"]].concat(), SCRIPT).published();
        assert_eq!(call.output.stderr.lines().count(), 1, "no noise\n{}", call.output);
    }
    assert!(log(&home).iter().all(|attempt| attempt["ending"]["outcome"] == "published"));
}

#[test]
fn lease_08_a_dead_holder_is_recognised_at_once() {
    let home = home();
    let kill = home.refrain().env("REFRAIN_CRASH_AT", "after-task");
    let arguments = [&["run"], &FLAGS[..], &["--ttl", "10000d", "--", "sh", "-c", SCRIPT]].concat();
    kill.run(arguments).expect_signal(9);
    let call = run(&home, &FLAGS, SCRIPT).published();
    assert_eq!(call.number("token"), 2, "without --wait, and long before the lease would end");
}

/// Leaves a lease that does not end by itself, held by a process that is dead, and changes what it says of its holder.
fn lease_of_a_dead_process(home: &Home, change: impl Fn(&str, u32) -> String) {
    let kill = home.refrain().env("REFRAIN_CRASH_AT", "after-acquire");
    let running = kill.spawn([&["run"], &FLAGS[..], &["--ttl", "10000d", "--", "true"]].concat());
    let pid = running.pid();
    running.wait().expect_signal(9);
    let record =
        Command::new("sqlite3").arg(home.join(".refrain/state.db")).arg("SELECT record FROM key").output().unwrap();
    let record = String::from_utf8(record.stdout).unwrap();
    let changed = change(record.trim_end(), pid);
    assert_ne!(changed, record.trim_end(), "nothing was changed in {record}");
    sql(home, &format!("UPDATE key SET record = '{}'", changed.replace('\'', "''")));
}

#[test]
fn lease_08_a_pid_that_an_unrelated_process_has_now_does_not_block() {
    let home = home();
    // This very test: it lives, and it began at another time than the process that had the pid.
    let pid = std::process::id();
    lease_of_a_dead_process(&home, |record, dead| {
        record.replace(&format!("\\\"pid\\\":{dead},"), &format!("\\\"pid\\\":{pid},"))
    });
    run(&home, &FLAGS, SCRIPT).published();
}

#[test]
fn lease_08_a_holder_from_before_a_reboot_does_not_block_even_with_a_living_pid() {
    let home = home();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let other = "00000000-0000-4000-8000-000000000000";
    lease_of_a_dead_process(&home, |record, dead| {
        let mine = std::process::id();
        record.replace(boot.trim(), other).replace(&format!("\\\"pid\\\":{dead},"), &format!("\\\"pid\\\":{mine},"))
    });
    run(&home, &FLAGS, SCRIPT).published();
}

#[test]
fn lease_08_a_holder_on_another_host_is_never_taken_for_dead() {
    let home = home();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    lease_of_a_dead_process(&home, |record, _| {
        let record = record.replace("machine-id:", "machine-id:other-");
        let field = |id: &str| format!("\\\"boot_id\\\":\\\"{id}");
        record.replace(&field(boot.trim()), &field("00000000-0000-4000-8000-000000000000"))
    });
    run(&home, &FLAGS, SCRIPT).nothing(120, "held");
    assert_eq!(executions(&home), 0);
}

#[test]
fn lease_10_a_kernel_lock_that_does_nothing_makes_no_second_publication() {
    // Every flock "succeeds", as on a mount with local_lock: the lease and the token still let one through.
    let home = home();
    let first = holder(&home, &FLAGS);
    let arguments = [&["run"], &FLAGS[..], &["--", "sh", "-c", SCRIPT]].concat();
    let second = inject(&home.refrain().command(&arguments), "flock:retval=0");
    assert_closes(&second.expect_code(120), crate::call::NOTHING);
    home.write("go", "");
    finish(first).published();
    inject(&home.refrain().command(&arguments), "flock:retval=0").success().says("already published");
    assert_eq!(executions(&home), 1);
}

#[test]
fn lease_10_a_filesystem_without_locks_is_a_clear_error() {
    for error in ["EBADF", "ENOLCK", "EOPNOTSUPP"] {
        let home = home();
        let arguments = [&["run"], &FLAGS[..], &["--", "sh", "-c", SCRIPT]].concat();
        let output = inject(&home.refrain().command(arguments), &format!("flock:error={error}"));
        assert_fails(&output, &["lock"]);
        assert!(!home.exists("out.csv"));
    }
}

#[test]
fn lease_11_a_process_left_in_the_background_holds_neither_the_end_nor_the_lock() {
    let home = home();
    let script = "sleep 1000 & echo $! > left; echo data > $REFRAIN_OUT";
    run(&home, &FLAGS, script).published().says("left behind");
    let left: u32 = home.read("left").trim().parse().unwrap();
    assert!(!is_alive(left), "it is ended before the seal");
    run(&home, &[&FLAGS[..], &["--rerun"]].concat(), SCRIPT).published();
}

#[test]
fn lease_11_no_descriptor_of_ours_reaches_the_command() {
    let home = home();
    run(&home, &FLAGS, "ls -l /proc/self/fd > fds; echo data > $REFRAIN_OUT").published();
    let fds = home.read("fds");
    assert!(!fds.contains(".refrain/"), "{fds}");
}

#[test]
fn lease_13_a_redelivered_task_ends_with_held_and_afterwards_with_already_published() {
    let home = home();
    let first = holder(&home, &FLAGS);
    for _ in 0..2 {
        run(&home, &FLAGS, SCRIPT).nothing(120, "held");
    }
    home.write("go", "");
    finish(first).published();
    run(&home, &FLAGS, SCRIPT).already_published();
    assert_eq!(executions(&home), 1);
}

#[test]
fn lease_14_of_64_simultaneous_runs_one_executes_and_one_publication_stands() {
    let home = home();
    let script = "echo x >> runs.log; echo $REFRAIN_TOKEN >> tokens; echo data > $REFRAIN_OUT";
    let program = env!("CARGO_BIN_EXE_refrain");
    // The barrier: every process waits for one file; half of them in a network of their own.
    let calls: Vec<_> = (0..64)
        .map(|number| {
            let wait = if number % 4 == 0 { "--wait" } else { "" };
            let network = if number % 2 == 0 { "unshare --net" } else { "" };
            let line = format!(
                "while [ ! -e barrier ]; do sleep 0.02; done; \
                 exec {network} {program} run job --out out.csv {wait} --report report-{number}.json -- sh -c '{script}'"
            );
            let mut command = Command::new("sh");
            command.args(["-c", &line]).current_dir(home.path());
            Running::start(&mut command, b"")
        })
        .collect();
    home.write("barrier", "");
    let outputs: Vec<Output> = calls.into_iter().map(Running::wait).collect();
    let mut published = 0;
    for (number, output) in outputs.iter().enumerate() {
        let report: Value = serde_json::from_str(&home.read(format!("report-{number}.json"))).unwrap();
        match report["outcome"].as_str().unwrap() {
            "published" => published += 1,
            "already_published" => assert_eq!(output.code, Some(0), "{output}"),
            "held" => assert!(output.code == Some(120) && number % 4 != 0, "{output}"),
            other => panic!("`{other}`\n{output}"),
        }
    }
    assert_eq!((published, executions(&home)), (1, 1));
    assert_eq!(home.read("out.csv"), "data\n");
    let log = log(&home);
    let tokens: BTreeSet<_> = log.iter().map(|attempt| attempt["token"].as_u64().unwrap()).collect();
    assert_eq!(tokens.len(), log.len(), "every token was given once: {log:?}");
    let times: Vec<_> = log.iter().rev().map(|attempt| attempt["token"].as_u64().unwrap()).collect();
    assert!(times.is_sorted(), "tokens rise: {times:?}");
    let status = home.run(["status", "job", "--json"]).success().stdout;
    assert!(status.contains("\"published\"") && !status.contains("running"), "no lease is left over\n{status}");
    home.run(["gc"]).success();
    let left = names(&home.join(".refrain/slots")).into_iter().filter(|name| name.ends_with(".0"));
    assert_eq!(left.count(), 0, "and no staging");
}

#[test]
fn tokens_rise_over_failures_kills_and_reruns() {
    let home = home();
    let mut last = 0;
    let mut rises = |call: &Call| {
        let token = call.number("token");
        assert!(token > last, "{token} after {last}");
        last = token;
    };
    rises(&run(&home, &FLAGS, "exit 3"));
    for point in ["after-acquire", "after-claim", "before-commit", "after-intent"] {
        let kill = home.refrain().env("REFRAIN_CRASH_AT", point);
        kill.run([&["run"], &FLAGS[..], &["--rerun", "--", "sh", "-c", SCRIPT]].concat()).expect_signal(9);
        rises(&run(&home, &[&FLAGS[..], &["--rerun"]].concat(), SCRIPT).published());
    }
    let tokens: Vec<_> = log(&home).iter().map(|attempt| attempt["token"].as_u64().unwrap()).collect();
    assert_eq!(tokens, (1..=last).rev().collect::<Vec<_>>(), "each was given to one attempt");
}
