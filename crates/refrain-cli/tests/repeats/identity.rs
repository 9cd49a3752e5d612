//! DATE-04, DATE-05, LEASE-16, LEDG-04, LEDG-05: what is the same key, and what is not.

use crate::call::{executions, finish, home, names, run, run_as, start};
use refrain_testkit::freeze::wait_for_path;

const SCRIPT: &str = "echo x >> runs.log; echo data > $REFRAIN_OUT";

#[test]
fn date_04_two_honest_runs_within_a_minute_keep_their_own_keys() {
    let home = home();
    for second in ["2025-03-24T05:00:00Z", "2025-03-24T05:00:20Z"] {
        run(&home, &["job", "--partition", second, "--out", "{partition}.csv"], SCRIPT).published();
    }
    for hour in ["2025-03-24T05", "2025-03-24T06:00:00Z"] {
        run(&home, &["hourly", "--grain", "hourly", "--date", hour, "--out", "h-{date}.csv"], SCRIPT).published();
    }
    assert_eq!(executions(&home), 4);
}

#[test]
fn date_04_a_date_finer_than_the_grain_is_refused_with_both_candidates() {
    let home = home();
    for (grain, date, inside, next) in [
        ("daily", "2025-03-24T05:00:20Z", "2025-03-24", "2025-03-25"),
        ("hourly", "2025-03-24T05:00:20Z", "2025-03-24T05", "2025-03-24T06"),
        ("weekly", "2025-03-26", "2025-W13", "2025-W14"),
        ("monthly", "2025-03-24", "2025-03", "2025-04"),
        ("yearly", "2025-03-24", "2025", "2026"),
    ] {
        let call = run(&home, &["job", "--grain", grain, "--date", date, "--out", "{date}.csv"], SCRIPT);
        call.nothing(125, "error").says(&format!("give {inside} ")).says(&format!(" or {next} "));
    }
    assert_eq!(executions(&home), 0, "nothing is cut off in silence");
}

#[test]
fn date_05_the_time_zone_of_the_caller_does_not_matter() {
    let home = home();
    let flags = |date: &'static str| ["job", "--date", date, "--out", "{date}.csv"];
    let first = run_as(&home, &home.refrain().env("TZ", "UTC"), &flags("2025-03-24"), SCRIPT).published();
    for zone in ["Asia/Tokyo", "America/Los_Angeles", "Pacific/Kiritimati", "nonsense"] {
        let again = run_as(&home, &home.refrain().env("TZ", zone), &flags("2025-03-24"), SCRIPT).already_published();
        assert_eq!(again.text("fingerprint"), first.text("fingerprint"), "in {zone}");
    }
    run(&home, &flags("2025-03-24T09:00:00+09:00"), SCRIPT).already_published();
    run(&home, &flags("2025-03-24T00:00:00+09:00"), SCRIPT).nothing(125, "error").says("2025-03-23").says("2025-03-24");
    assert_eq!(executions(&home), 1);
}

#[test]
fn date_05_a_declared_zone_makes_the_day() {
    let home = home();
    let flags = |date: &'static str| ["job", "--timezone", "Asia/Tokyo", "--date", date, "--out", "{date}.csv"];
    let show = "echo x >> runs.log; echo $REFRAIN_DATE_START > $REFRAIN_OUT";
    for zone in ["UTC", "Asia/Tokyo"] {
        let caller = home.refrain().env("TZ", zone);
        for date in ["2025-03-24", "2025-03-24T00:00:00+09:00", "2025-03-23T15:00:00Z"] {
            run_as(&home, &caller, &flags(date), show).output.success();
        }
    }
    assert_eq!((executions(&home), home.read("2025-03-24.csv")), (1, "2025-03-23T15:00:00Z\n".to_owned()));
}

#[test]
fn lease_16_three_spellings_of_one_day_at_once_are_one_publication() {
    let home = home();
    let slow = "echo x >> runs.log; touch started; while [ ! -e go ]; do sleep 0.01; done; echo data > $REFRAIN_OUT";
    let dates = ["2025-03-24", "2025-03-24T00:00:00Z", "2025-03-24T00:00:00+00:00"];
    let calls = dates.map(|date| start(&home, &["job", "--date", date, "--wait", "--out", "out/{date}.csv"], slow));
    wait_for_path(&home.join("started"));
    home.write("go", "");
    let calls = calls.map(finish);
    let mut outcomes: Vec<_> = calls.iter().map(|call| call.text("outcome")).collect();
    outcomes.sort_unstable();
    assert_eq!(outcomes, ["already_published", "already_published", "published"]);
    assert!(
        calls.iter().all(|call| call.text("partition") == "2025-03-24" && call.report["run"] == calls[0].report["run"])
    );
    assert_eq!((executions(&home), names(&home.join("out"))), (1, vec!["2025-03-24.csv".to_owned()]));
}

#[test]
fn ledg_04_the_order_of_parameters_and_the_processs_hash_seed_do_not_matter() {
    let home = home();
    let flags = |params: [&'static str; 3]| {
        ["job", "--out", "out.csv", "--param", params[0], "--param", params[1], "--param", params[2]]
    };
    let first = run(&home, &flags(["a=1", "b=0.1", "name=ü"]), SCRIPT).published();
    for (seed, params) in
        [("0", ["b=0.1", "a=1", "name=ü"]), ("7", ["name=ü", "b=0.1", "a=1"]), ("20", ["a=1", "name=ü", "b=0.1"])]
    {
        let caller = home.refrain().env("PYTHONHASHSEED", seed).env("LC_ALL", "C");
        let again = run_as(&home, &caller, &flags(params), SCRIPT).already_published().never_says("changed since");
        assert_eq!(again.text("fingerprint"), first.text("fingerprint"));
    }
    // What is written differently differs: no number is guessed into a text.
    run(&home, &flags(["a=1.0", "b=0.1", "name=ü"]), SCRIPT).already_published().says("parameter `a` changed");
}

#[test]
fn ledg_05_nothing_of_the_caller_is_in_the_key_or_the_fingerprint() {
    let home = home();
    std::fs::create_dir(home.join("sub")).unwrap();
    home.config("[task.job]\ncommand = \"echo x >> runs.log; echo data > $REFRAIN_OUT\"\nout.out = \"out.csv\"\n");
    let first = run(&home, &["job"], "").published();
    let callers = [
        home.refrain().cwd(home.join("sub")),
        home.refrain()
            .env("USER", "somebody")
            .env("HOSTNAME", "elsewhere")
            .env("HOME", "/nowhere")
            .env("TMPDIR", "/var/tmp"),
        home.refrain().cwd("/").env("REFRAIN_HOME", home.path()),
        home.refrain().env("REFRAIN_LOG", "debug"),
    ];
    for caller in callers {
        let flags = ["job", "--ttl", "7m", "--timeout", "1h", "--grace", "3s", "--wait"];
        let again = run_as(&home, &caller, &flags, "").already_published().never_says("changed since");
        assert_eq!(again.text("fingerprint"), first.text("fingerprint"));
    }
    assert_eq!(executions(&home), 1);
    let shown = home.run(["show", "out.csv"]).success().stdout;
    assert!(shown.contains("made from") && shown.contains("command: "), "the record lists what entered it\n{shown}");
    for attempts_own in [home.path().display().to_string(), first.text("attempt").to_owned()] {
        let parts = shown.split("made from").nth(1).unwrap();
        assert!(!parts.contains(&attempts_own), "`{attempts_own}` entered the fingerprint\n{parts}");
    }
}

#[test]
fn ledg_05_an_ad_hoc_output_by_another_spelling_is_no_change() {
    let home = home();
    std::fs::create_dir(home.join("sub")).unwrap();
    let first = run(&home, &["job", "--out", "out.csv"], SCRIPT).published();
    let below = home.refrain().cwd(home.join("sub"));
    let again = run_as(&home, &below, &["job", "--out", "../out.csv", "--if-changed"], SCRIPT).already_published();
    assert_eq!(again.text("fingerprint"), first.text("fingerprint"));
}

#[test]
fn dates_relative_to_today_are_the_key_of_that_day() {
    let home = home();
    let today = run(&home, &["job", "--date", "today", "--out", "{date}.csv"], SCRIPT);
    let day = today.text("partition").to_owned();
    assert_eq!(day.len(), "2025-03-24".len(), "{day}");
    // Unless midnight passed between the two calls, which the first one's own start tells.
    if today.text("started_at").starts_with(&day) {
        run(&home, &["job", "--date", &day, "--out", "{date}.csv"], SCRIPT).already_published();
    }
    let yesterday = run(&home, &["job", "--date", "yesterday", "--out", "{date}.csv"], SCRIPT).published();
    run(&home, &["job", "--date", "-1d", "--out", "{date}.csv"], SCRIPT);
    assert!(yesterday.text("partition") < day.as_str());
}
