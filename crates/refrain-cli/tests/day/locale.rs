//! DET-05: the caller's locale and time zone do not decide what a task writes.

use crate::call::{home, run_as};
use refrain_testkit::program::{Home, Refrain};
use std::process::Command;

/// A German locale in the home, for the system's own list may have none.
fn german(home: &Home) -> Refrain {
    let place = home.join("locales");
    std::fs::create_dir_all(&place).unwrap();
    let made = Command::new("localedef").args(["-i", "de_DE", "-f", "UTF-8"]).arg(place.join("de_DE.UTF-8")).output();
    let made = made.unwrap();
    assert!(place.join("de_DE.UTF-8").is_dir(), "localedef: {}", String::from_utf8_lossy(&made.stderr));
    home.refrain().env("LOCPATH", &place).env("LC_ALL", "de_DE.UTF-8").env("TZ", "Europe/Berlin")
}

const SCRIPT: &str = "printf 'b\\nA\\na\\nB\\n' | sort > $REFRAIN_OUT; env printf '%.1f\\n' 1 >> $REFRAIN_OUT; \
                      date -d @0 +%H >> $REFRAIN_OUT; python3 -c 'print(hash(\"a\"))' >> $REFRAIN_OUT";

#[test]
fn det_05_the_locale_of_the_caller_changes_no_byte() {
    let home = home();
    let german = german(&home);
    let plain = home.refrain().env("LC_ALL", "C").env("TZ", "UTC");
    let utf8 =
        home.refrain().env("LC_ALL", "C.UTF-8").env("LANG", "C").env("TZ", "Asia/Tokyo").env("PYTHONHASHSEED", "9");
    let digest = |caller: &Refrain, more: &[&str]| {
        let flags = [&["job", "--date", "2025-03-24", "--rerun", "--out", "o/{date}.txt"], more].concat();
        run_as(&home, caller, &flags, SCRIPT).published();
        home.read("o/2025-03-24.txt")
    };
    let expected = digest(&plain, &[]);
    assert!(expected.starts_with("A\nB\na\nb\n1.0\n00\n"), "{expected}");
    assert_eq!(digest(&german, &[]), expected);
    assert_eq!(digest(&utf8, &[]), expected);
    let inherited = digest(&german, &["--inherit-locale"]);
    assert!(inherited.starts_with("a\nA\nb\nB\n1,0\n01\n"), "the fault, on request: {inherited}");
}
