//! The machine report.

use crate::call::{home, run};
use refrain_testkit::program::Refrain;
use serde_json::{Value, json};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

const FIELDS: [&str; 18] = [
    "attempt",
    "duration_ms",
    "error",
    "exit_code",
    "finished_at",
    "fingerprint",
    "generation",
    "inputs",
    "outcome",
    "outputs",
    "partition",
    "retry",
    "run",
    "schema",
    "started_at",
    "task",
    "task_exit",
    "token",
];

fn assert_has_every_field(report: &Value) {
    for field in FIELDS.iter().chain(&["window"]) {
        assert!(report.get(field).is_some(), "no `{field}` in {report}");
    }
}

#[test]
fn a_publication_is_told_in_full() {
    let home = home();
    home.write("in.csv", "12345");
    let flags = ["job", "--date", "2025-03-24", "--in", "src=in.csv", "--out", "a={date}.csv", "--out", "b=d/{date}/"];
    let script = "echo data > $REFRAIN_OUT_A; echo one > $REFRAIN_OUT_B/1; echo two > $REFRAIN_OUT_B/2";
    let report = run(&home, &flags, script).published().report;
    assert_has_every_field(&report);
    assert_eq!(report["task"], "job");
    assert_eq!(report["partition"], "2025-03-24");
    assert_eq!((&report["generation"], &report["token"]), (&json!(1), &json!(1)));
    assert!(report["fingerprint"].as_str().unwrap().starts_with("blake3:"));
    let outputs = report["outputs"].as_array().unwrap();
    let of = |index: usize, field: &str| outputs[index][field].clone();
    assert_eq!(
        (of(0, "name"), of(0, "sink"), of(0, "files"), of(0, "bytes")),
        (json!("a"), json!("file"), json!(1), json!(5))
    );
    assert_eq!(
        (of(1, "name"), of(1, "sink"), of(1, "files"), of(1, "bytes")),
        (json!("b"), json!("directory"), json!(2), json!(8))
    );
    assert_eq!(of(0, "location"), home.join("2025-03-24.csv").display().to_string());
    assert_eq!(
        of(1, "location").as_str().unwrap().trim_end_matches('/'),
        home.join("d/2025-03-24").display().to_string()
    );
    for output in outputs {
        assert_eq!(output["version"], 1);
        assert_eq!(output["rows"], Value::Null);
        assert!(output["digest"].as_str().unwrap().starts_with("blake3:"), "{output}");
    }
    let (started, finished) = (report["started_at"].as_str().unwrap(), report["finished_at"].as_str().unwrap());
    assert!(started < finished && started.ends_with('Z'), "RFC 3339 in UTC: {started}, {finished}");
}

#[test]
fn a_failure_is_told_with_kind_message_and_hint() {
    let home = home();
    let report = run(&home, &["job", "--out", "out.csv"], "true").nothing(123, "refused").report;
    assert_has_every_field(&report);
    assert_eq!(report["error"]["kind"], "guard");
    assert!(report["error"]["message"].as_str().unwrap().contains("no output"), "{report}");
    assert!(report["error"]["hint"].as_str().unwrap().contains("REFRAIN_OUT"), "{report}");
    assert_eq!(report["outputs"], json!([]));
}

#[test]
fn a_failed_attempt_is_told_with_what_it_read_and_what_its_output_is_made_from() {
    let home = home();
    home.write("in.csv", "12345");
    home.config("[task.job]\ncommand = \"sh ./how\"\nin.src = \"in.csv\"\nout.out = \"out.csv\"\n");
    let job = |how: &str| {
        home.write("how", how);
        run(&home, &["job", "--timeout", "300ms"], "")
    };
    let failed = [
        job("exit 3").nothing(3, "task_failed"),
        job("kill -9 $$").nothing(137, "task_failed"),
        job("exec sleep 1000").nothing(124, "timed_out"),
        job("").nothing(123, "refused"),
    ];
    let published = job("cat $REFRAIN_IN_SRC > $REFRAIN_OUT").published().report;
    assert_eq!(published["inputs"].as_array().map(Vec::len), Some(1));
    for call in failed {
        for field in ["run", "generation", "inputs", "fingerprint"] {
            assert_eq!(call.report[field], published[field], "{field}\n{}", call.output);
        }
    }
}

#[test]
fn a_call_that_fails_before_it_has_a_key_is_told_too() {
    let home = home();
    let report = run(&home, &["absent", "--date", "2025-03-24"], "").nothing(125, "error").report;
    assert_has_every_field(&report);
    assert_eq!((&report["task"], &report["partition"]), (&json!("absent"), &json!("2025-03-24")));
}

#[test]
fn a_dash_is_stdout_and_the_commands_stdout_then_goes_to_stderr() {
    let home = home();
    let script = "echo from the command; echo data > $REFRAIN_OUT";
    let output = home.run(["run", "job", "--out", "out.csv", "--report", "-", "--", "sh", "-c", script]).success();
    let report: Value = serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}\n{output}"));
    assert_has_every_field(&report);
    assert_eq!(output.stdout.lines().count(), 1, "{output}");
    output.says("from the command\n");
}

#[test]
fn a_report_replaces_an_older_one_whole() {
    let home = home();
    let old = home.write("report.json", "x".repeat(100_000));
    let place = old.display().to_string();
    let arguments =
        ["run", "job", "--out", "out.csv", "--report", place.as_str(), "--", "sh", "-c", "echo a > $REFRAIN_OUT"];
    home.run(arguments).success();
    let report: Value = serde_json::from_str(&fs::read_to_string(&old).unwrap()).unwrap();
    assert_eq!(report["outcome"], "published");
}

#[test]
fn a_report_goes_through_links_and_descriptors_and_keeps_the_mode() {
    let home = home();
    let report = |place: &str, outcome: &str| {
        let text = home.read(place);
        let report: Value = serde_json::from_str(text.trim_start_matches("first\n")).unwrap();
        assert_eq!(report["outcome"], outcome, "{place}");
    };
    let job = |place: &str| {
        ["run", "job", "--out", "out.csv", "--report", place, "--", "sh", "-c", "echo a > $REFRAIN_OUT"]
            .map(str::to_owned)
    };
    fs::set_permissions(home.write("logs/old.json", "old"), Permissions::from_mode(0o600)).unwrap();
    symlink("old.json", home.join("logs/link.json")).unwrap();
    symlink("logs/link.json", home.join("chain.json")).unwrap();
    home.run(job("chain.json")).success();
    report("logs/old.json", "published");
    assert_eq!(home.join("logs/old.json").metadata().unwrap().mode() & 0o7777, 0o600);
    for link in ["chain.json", "logs/link.json"] {
        assert!(home.join(link).is_symlink(), "{link}");
    }
    symlink("logs/new.json", home.join("dangling.json")).unwrap();
    home.run(job("dangling.json")).success();
    report("logs/new.json", "already_published");

    // What `/dev/stdout` is: a link to the link of a descriptor.
    symlink("/proc/self/fd/3", home.join("descriptor.json")).unwrap();
    for place in ["/dev/fd/3", "descriptor.json"] {
        let shell = Refrain::new("/bin/sh", home.path());
        let script = "exec 3>fd.json; echo first >&3; exec \"$@\"";
        let arguments = ["-c", script, "sh", env!("CARGO_BIN_EXE_refrain")].map(str::to_owned);
        shell.run(arguments.into_iter().chain(job(place))).success();
        assert!(home.read("fd.json").starts_with("first\n"), "{place}: nothing that is there is cut off");
        report("fd.json", "already_published");
    }
    assert!(home.join("descriptor.json").is_symlink());
    let left = fs::read_dir(home.join("logs")).unwrap().count();
    assert_eq!(left, 3, "nothing is left beside the report");
}

#[test]
fn one_line_when_all_is_well_and_none_when_quiet() {
    let home = home();
    let call = run(&home, &["job", "--out", "out.csv"], "echo data > $REFRAIN_OUT").published();
    assert_eq!(call.output.stderr.lines().count(), 1, "{}", call.output);
    let output = home.run(["-q", "run", "job", "--out", "out.csv", "--", "true"]).success();
    let lines: Vec<_> = output.stderr.lines().collect();
    assert!(lines.iter().all(|line| line.starts_with("note: ")), "-q silences the status\n{output}");
    let output = home.run(["-qq", "run", "job", "--out", "out.csv", "--", "true"]).success();
    assert_eq!(output.stderr, "", "-qq silences all but errors\n{output}");
    let output = home.run(["-qq", "run", "job2", "--out", "out2.csv", "--", "false"]).expect_code(1);
    assert!(output.stderr.contains("error: "), "{output}");
}

#[test]
fn verbose_shows_every_step_with_its_rule() {
    let home = home();
    let output =
        home.run(["-v", "run", "job", "--out", "out.csv", "--", "sh", "-c", "echo data > $REFRAIN_OUT"]).success();
    for rule in ["5.1", "5.2", "5.4", "5.7", "5.8", "5.9"] {
        assert!(output.stderr.contains(rule), "no rule {rule}\n{output}");
    }
    let logged = home.refrain().env("REFRAIN_LOG", "info");
    let output =
        logged.run(["run", "job2", "--out", "out2.csv", "--", "sh", "-c", "echo data > $REFRAIN_OUT"]).success();
    assert!(output.stderr.contains("5.9"), "{output}");
}

#[test]
fn a_report_is_not_written_where_a_task_publishes_or_reads() {
    let home = home();
    home.write("src/prices.csv", "price\n");
    home.write("job.sh", "echo job\n");
    home.write("adopted/part.csv", "foreign\n");
    let reads = "[task.reads]\ncode = [\"job.sh\"]\nin.prices = \"src/*.csv\"\nout.x = \"reads.csv\"\n";
    let others =
        "[task.later]\npartition = \"daily\"\nout.x = \"later/{date}.csv\"\n[task.adopts]\nout.y = \"adopted/\"\n";
    home.write("refrain.toml", format!("{reads}{others}"));
    home.write("later/2025-03-24.csv", "by hand\n");
    run(&home, &["job", "--out", "out.csv"], "echo data > $REFRAIN_OUT").published();
    run(&home, &["dir", "--out", "d/"], "mkdir $REFRAIN_OUT/s; echo data > $REFRAIN_OUT/s/f").published();
    symlink("d/s/f", home.join("link.json")).unwrap();
    symlink("d/s/new", home.join("dangling.json")).unwrap();
    symlink("tree/later", home.join("nowhere")).unwrap();
    fs::create_dir(home.join("tree")).unwrap();
    let head = fs::read_dir(home.join(".refrain/slots")).unwrap().next().unwrap().unwrap().file_name();
    let head = format!(".refrain/slots/{}", head.to_str().unwrap());
    for place in [
        "tree/report.json",
        "tree/not/yet/r.json",
        "nowhere/r.json",
        "unmade/../later/2025-03-26.csv",
        ".refrain/pins/r.json",
        "own.csv",
        "out.csv",
        "d/s/f",
        "d/r.json",
        "./tree/../d/s/f",
        "link.json",
        "dangling.json",
        "refrain.toml",
        ".refrain/state.db",
        ".refrain/versions/r.json",
        &head,
        "src/prices.csv",
        "job.sh",
        "later/2025-03-24.csv",
        "later/2025-03-25.csv",
        "adopted/r.json",
    ] {
        let before = fs::read(home.join(place)).ok();
        // The second would fail for another reason.
        for call in [
            "--out tree/ --out own=own.csv -- touch ran",
            "--in nothing=nothing --out own.csv --out tree=tree/ -- true",
        ] {
            let arguments = ["run", "z", "--report", place].into_iter().chain(call.split(' '));
            home.run(arguments).expect_code(125).says("nothing else may be written there").says("name another file");
        }
        assert_eq!(fs::read(home.join(place)).ok(), before, "{place}");
    }
    assert!(!home.exists("ran") && !home.exists("own.csv"));
    assert!(home.run(["status"]).success().stdout.lines().all(|line| !line.contains("hand")), "nothing was changed");
    // Where others look for reports, and beside all this.
    for place in ["src/report.csv", "src/report.csv", "later/report.json", "r.json"] {
        home.run(["run", "job", "--out", "out.csv", "--report", place, "--", "true"]).success();
        assert!(home.read(place).contains("already_published"), "{place}");
    }
}

#[test]
fn a_report_replaces_only_an_earlier_one_where_the_configuration_cannot_be_read() {
    let home = home();
    run(&home, &["job", "--out", "out.csv"], "echo data > $REFRAIN_OUT").published();
    home.write("old.json", "");
    home.run(["run", "job", "--out", "out.csv", "--report", "old.json", "--", "true"]).success();
    home.write("refrain.toml", "nonsense = 1\n");
    for (place, told) in [("out.csv", false), ("refrain.toml", false), ("old.json", true), ("new.json", true)] {
        home.run(["run", "job", "--out", "out.csv", "--report", place, "--", "true"]).expect_code(125);
        assert_eq!(fs::read_to_string(home.join(place)).unwrap().contains("nonsense`"), told, "{place}");
    }
}

#[test]
fn a_report_is_written_on_any_filesystem() {
    let home = home();
    let elsewhere = tempfile::Builder::new().prefix("refrain-").tempdir_in("/dev/shm").unwrap();
    let place = elsewhere.path().join("r.json");
    assert_ne!(elsewhere.path().metadata().unwrap().dev(), home.path().metadata().unwrap().dev());
    for place in [place.to_str().unwrap(), "/dev/null"] {
        home.run(["run", "job", "--out", "out.csv", "--report", place, "--", "sh", "-c", "echo a > $REFRAIN_OUT"])
            .success();
    }
    assert!(fs::read_to_string(place).unwrap().contains("\"published\""));
    let pipe = home.join("pipe");
    Refrain::new("mkfifo", home.path()).run(["pipe"]).success();
    let reader = std::thread::spawn(move || fs::read_to_string(pipe).unwrap());
    home.run(["run", "job", "--out", "out.csv", "--report", "pipe", "--", "true"]).success();
    assert!(reader.join().unwrap().contains("already_published"));
}
