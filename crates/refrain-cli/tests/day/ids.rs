//! DET-08: ids of rows that a repeated run gives again.

use crate::call::{assert_fails, home, run};
use refrain_testkit::program::Home;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_refrain");

fn ids(home: &Home, stdin: &[u8], flags: &[&str]) -> Vec<String> {
    let refrain = home.refrain().stdin(stdin);
    refrain.run([&["id"], flags].concat()).success().stdout.lines().map(str::to_owned).collect()
}

#[test]
fn python_makes_the_same_ids() {
    let home = home();
    let keys = ["2013-01-01/UA/1545", "7", "07", "zwölf Äpfel", " ", "a\tb", "\u{1f600}", "-x"];
    let script = "import sys, uuid\nnames = uuid.UUID('766ef8bb-bb64-5079-8b29-e6d9b81a7155')\n\
                  for key in sys.argv[2:]:\n    print(uuid.uuid5(uuid.uuid5(names, sys.argv[1]), key))\n";
    for name in ["orders", "größe", "daily_delays"] {
        let python = Command::new("python3").args(["-c", script, name]).args(keys).output().unwrap();
        let python = String::from_utf8(python.stdout).unwrap();
        assert_eq!(ids(&home, b"", &[&[name, "--"], &keys[..]].concat()), python.lines().collect::<Vec<_>>());
        assert_eq!(ids(&home, (keys.join("\n") + "\n").as_bytes(), &[name]), python.lines().collect::<Vec<_>>());
        assert_eq!(ids(&home, keys.join("\0").as_bytes(), &["-0", name]), python.lines().collect::<Vec<_>>());
    }
    assert_eq!(ids(&home, b"", &["orders", "2013-01-01/UA/1545"]), ["a7b1a46d-ae9b-53a8-9c98-a256fffe50bb"]);
}

#[test]
fn keys_are_taken_byte_for_byte() {
    let home = home();
    let line = ids(&home, b"a\r\n", &["t"]);
    assert_ne!(line, ids(&home, b"a\n", &["t"]), "a carriage return is part of the key");
    assert_eq!(ids(&home, b"a\nb\0", &["--null", "t"]), ids(&home, b"", &["t", "a\nb"]));
    assert_eq!(ids(&home, b"\xff\n", &["t"]).len(), 1, "not every key is UTF-8");
    assert!(ids(&home, b"", &["t"]).is_empty());
}

#[test]
fn an_empty_name_or_key_is_refused() {
    let home = home();
    assert_fails(&home.run(["id", "", "a"]), &["the name", "is empty"]);
    assert_fails(&home.run(["id", "t", ""]), &["a row key is empty"]);
    let output = home.refrain().stdin("a\nb\n\nc\n").run(["id", "t"]);
    assert_fails(&output, &["row key 3 of standard input"]);
    assert_eq!(output.stdout.lines().count(), 2);
}

#[test]
fn it_needs_no_home_and_answers_each_key_at_once() {
    let nowhere = tempfile::tempdir().unwrap();
    let mut child = Command::new(PROGRAM)
        .args(["id", "t"])
        .current_dir(nowhere.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut asked, answers) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut answers = BufReader::new(answers).lines();
    for key in ["a", "b", "a"] {
        writeln!(asked, "{key}").unwrap();
        assert_eq!(answers.next().unwrap().unwrap().len(), 36, "the answer comes before the next key");
    }
    drop(asked);
    assert!(answers.next().is_none() && child.wait().unwrap().success());
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let line = format!("yes | {PROGRAM} id t | head -n 2; echo ${{PIPESTATUS[1]}}");
    let output = Command::new("bash").args(["-c", &line]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().nth(2), Some("0"), "{output:?}");
}

#[test]
fn det_08_a_rerun_gives_its_rows_the_same_ids_and_times() {
    let home = home();
    let random = "python3 -c 'import uuid; print(uuid.uuid4())' > $REFRAIN_OUT_O";
    let derived = format!(
        "cut -d, -f1 rows.csv | {PROGRAM} id $REFRAIN_TASK | paste -d, - rows.csv > $REFRAIN_OUT_O; date +%F >> $REFRAIN_OUT_O"
    );
    home.write("rows.csv", "1,UA\n2,DL\n");
    let digest = |command: &str| {
        home.config(&format!(
            "[task.job]\npartition = \"daily\"\nclock = \"logical\"\ncommand = {command:?}\nout.o = \"o/{{date}}.csv\"\n"
        ));
        let call = run(&home, &["job", "--date", "2013-01-01", "--rerun"], "").published();
        call.report["outputs"][0]["digest"].as_str().unwrap().to_owned()
    };
    assert_ne!(digest(random), digest(random), "the fault");
    assert_eq!(digest(&derived), digest(&derived));
    let rows = home.read("o/2013-01-01.csv");
    assert!(rows.ends_with(",2,DL\n2013-01-01\n") && rows.lines().count() == 3, "{rows}");
}
