//! A full disk, a power cut, and inputs that become something else.

use crate::call::{names, run};
use crate::{MODES, declare};
use refrain_testkit::mounts::Mount;
use refrain_testkit::program::Home;
use std::fs;
use std::process::Command;

const BIN: &str = env!("CARGO_BIN_EXE_refrain");

#[test]
fn a_disk_that_is_full_while_an_input_is_copied_publishes_nothing_and_leaves_no_part() {
    let data = Mount::tmpfs(32);
    for file in 0..8 {
        fs::write(data.path().join(format!("{file}")), vec![b'x'; 1 << 20]).unwrap();
    }
    let small = Mount::tmpfs(4);
    let home = Home::at(BIN, small.path().join("home"));
    declare(&home, &data.path().display().to_string(), "auto", "");
    for _ in 0..2 {
        let call = run(&home, &["job"], "").nothing(125, "error");
        call.says("cannot copy the input").says("`pin = \"verify\"`");
        assert_eq!(names(&home.join(".refrain/views")), Vec::<String>::new());
    }
    let used = Command::new("du").args(["-sk"]).arg(home.join(".refrain/pins")).output().unwrap().stdout;
    let used = String::from_utf8_lossy(&used).split_whitespace().next().unwrap().parse::<u64>().unwrap();
    assert!(used < 100, "{used} KiB of copies are left");
    for file in 1..8 {
        fs::remove_file(data.path().join(format!("{file}"))).unwrap();
    }
    run(&home, &["job"], "").published();
    assert_eq!(home.read("out.txt").len(), 1 << 20);
}

#[test]
fn an_original_that_becomes_a_pipe_a_circle_or_goes_is_told_and_never_waited_for() {
    for (change, says) in [
        ("rm data/a; mkfifo data/a", "neither a file"),
        ("rm data/a; ln -s a data/a", "leads to itself"),
        ("rm -r data", "does not exist"),
        ("rm -r data; echo x > data", "changed"),
    ] {
        for path in ["data", "data/*"] {
            let home = crate::call::home();
            home.write("data/a", "a1\n");
            home.write("data/b", "b1\n");
            declare(&home, path, "verify", "test -e go || exit 3");
            run(&home, &["job"], "").nothing(3, "task_failed");
            home.write("go", "");
            assert!(Command::new("sh").arg("-c").arg(change).current_dir(home.path()).status().unwrap().success());
            let says = if path == "data" || !change.starts_with("rm -r") { says } else { "no file matches" };
            run(&home, &["job"], "").nothing(125, "refused").says(says).says("--rerun");
            let call = run(&home, &["job", "--rerun"], "");
            if change.ends_with("> data") && path == "data" {
                call.published();
            } else {
                call.nothing(125, "error").says(says);
            }
        }
    }
}

#[test]
fn pins_that_a_power_cut_tore_are_read_whole_or_refused() {
    for pin in MODES {
        for changed in [false, true] {
            let mut disk = Mount::ext4(64);
            let home = Home::at(BIN, disk.path().join("home"));
            for part in 0..20 {
                home.write(format!("data/{part:02}"), format!("{part}\n").repeat(1000));
            }
            let whole: String = (0..20).map(|part| format!("{part}\n").repeat(1000)).collect();
            declare(&home, "data/", pin, "test -e go || exit 3");
            assert!(Command::new("sync").arg("-f").arg(disk.path()).status().unwrap().success());
            run(&home, &["job"], "").nothing(3, "task_failed");
            disk.power_cut();
            home.write("go", "");
            if changed {
                home.write("data/00", "changed\n");
            }
            let call = run(&home, &["job"], "");
            if call.output.code == Some(0) {
                let out = home.read("out.txt");
                // A run that did not reach the disk pins what is there now.
                assert!(out == whole || changed && out.starts_with("changed\n"), "{pin}: {} bytes", out.len());
            } else {
                assert!(changed, "{pin}: {}", call.output);
                call.nothing(125, "refused").says("--rerun");
                run(&home, &["job", "--rerun"], "").published();
                assert!(home.read("out.txt").starts_with("changed\n"));
            }
        }
    }
}
