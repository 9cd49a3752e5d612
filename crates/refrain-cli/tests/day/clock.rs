//! `clock = "logical"`: what the command's programs see, and what Refrain's own clocks do not.

use crate::call::{assert_fails, finish, home, run, run_as, start};
use refrain_testkit::freeze::wait_for_path;
use refrain_testkit::program::Home;

fn logical(command: &str) -> Home {
    let home = home();
    let text = format!(
        "[task.job]\npartition = \"daily\"\nclock = \"logical\"\ncommand = {command:?}\nout.o = \"o/{{date}}.txt\"\n"
    );
    home.config(&text);
    home
}

#[test]
fn every_program_of_the_command_starts_at_the_logical_date() {
    let python = "python3 -c 'import datetime; print(datetime.datetime.now().date())'";
    let home = logical(&format!(
        "(date +%FT%H; sleep 0.1; date +%FT%H; {python}; awk 'BEGIN {{ print systime() < 1357002000 }}') > $REFRAIN_OUT"
    ));
    home.config(
        &format!(
            "{}out.checked = {{ path = \"c/{{date}}\", check = \"test $(date +%F) = $REFRAIN_DATE\" }}\n",
            home.read("refrain.toml")
        )
        .replace("$REFRAIN_OUT", "$REFRAIN_OUT_O; echo x > $REFRAIN_OUT_CHECKED"),
    );
    let call = run(&home, &["job", "--date", "2013-01-01"], "").published();
    assert_eq!(home.read("o/2013-01-01.txt"), "2013-01-01T00\n2013-01-01T00\n2013-01-01\n1\n");
    assert!(!call.text("started_at").starts_with("2013"), "refrain's own times are the host's: {}", call.report);
    let log = home.run(["log", "--json"]).success().stdout;
    assert!(!log.contains("2013-01-01T"), "{log}");
}

#[test]
fn an_interval_that_starts_in_another_zone_is_met_to_the_second() {
    let home = logical("date -u +%FT%T > $REFRAIN_OUT");
    home.config(&home.read("refrain.toml").replace("daily\"\n", "daily\"\ntimezone = \"Asia/Kathmandu\"\n"));
    run(&home, &["job", "--date", "2013-01-01"], "").published();
    let shown = home.read("o/2013-01-01.txt");
    assert!(shown.starts_with("2012-12-31T18:15:0"), "{shown}");
}

#[test]
fn a_wait_with_a_limit_ends() {
    // libfaketime 0.9.10 knows no `sem_clockwait`: with a changed monotonic clock this would wait for decades.
    let home = logical("python3 -c 'import threading; threading.Event().wait(0.01)' && date +%F > $REFRAIN_OUT");
    run(&home, &["job", "--date", "2013-01-01", "--timeout", "30s"], "").published();
    assert_eq!(home.read("o/2013-01-01.txt"), "2013-01-01\n");
}

#[test]
fn the_lease_goes_by_the_hosts_clock() {
    let home = logical("date +%F > $REFRAIN_OUT; touch started; while [ ! -e go ]; do sleep 0.01; done");
    let running = start(&home, &["job", "--date", "2013-01-01"], "");
    wait_for_path(&home.join("started"));
    run(&home, &["job", "--date", "2013-01-01"], "").nothing(120, "held");
    home.write("go", "");
    finish(running).published();
}

#[test]
fn without_libfaketime_it_is_refused_and_what_is_published_stays() {
    let home = logical("date +%F > $REFRAIN_OUT");
    let without = home.refrain().env("PATH", "/nonexistent");
    let call = run_as(&home, &without, &["job", "--date", "2013-01-01"], "").nothing(125, "error");
    call.says("needs libfaketime").says("apt-get install faketime");
    assert!(!home.exists("o"));
    run(&home, &["job", "--date", "2013-01-01"], "").published();
    run_as(&home, &without, &["job", "--date", "2013-01-01"], "").already_published();
}

#[test]
fn the_clock_is_part_of_what_the_output_is_made_from() {
    let home = logical("echo data > $REFRAIN_OUT");
    let wall = home.read("refrain.toml").replace("clock = \"logical\"\n", "");
    let logical = home.read("refrain.toml");
    home.config(&wall);
    let before = run(&home, &["job", "--date", "2013-01-01"], "").published();
    home.config(&wall.replace("daily\"\n", "daily\"\nclock = \"wall\"\n"));
    run(&home, &["job", "--date", "2013-01-01"], "").already_published().never_says("changed since");
    home.config(&logical);
    let after = run(&home, &["job", "--date", "2013-01-01"], "").already_published().says("the clock is new");
    assert_ne!(
        before.text("fingerprint"),
        run(&home, &["job", "--date", "2013-01-01", "--rerun"], "").published().text("fingerprint")
    );
    drop(after);
    let shown = home.run(["config", "show"]).success().stdout;
    assert!(shown.contains("task.job.clock = \"logical\"  # refrain.toml"), "{shown}");
}

#[test]
fn a_preloaded_library_of_the_caller_stays_behind_ours() {
    let home = logical("echo $LD_PRELOAD > $REFRAIN_OUT");
    let call = run_as(&home, &home.refrain().env("LD_PRELOAD", "libm.so.6"), &["job", "--date", "2013-01-01"], "");
    call.published();
    let preload = home.read("o/2013-01-01.txt");
    assert!(preload.contains("libfaketime") && preload.trim_end().ends_with(":libm.so.6"), "{preload}");
}

#[test]
fn a_clock_that_is_none_is_refused() {
    let home = logical("true");
    let text = home.read("refrain.toml");
    let with = |from: &str, to: &str| {
        home.config(&text.replace(from, to));
        home.run(["status"])
    };
    assert_fails(&with("\"logical\"", "\"utc\""), &["task.job.clock", "\"wall\" or \"logical\"", "\"utc\""]);
    assert_fails(&with("\"logical\"", "true"), &["task.job.clock", "a text"]);
    assert_fails(&with("clock =", "clok ="), &["clok", "clock"]);
    let dateless = text.replace("partition = \"daily\"\n", "").replace("{date}", "x");
    home.config(&dateless);
    assert_fails(&home.run(["status"]), &["task.job.clock", "partitions that are dates"]);
}
