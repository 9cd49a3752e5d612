use std::process::{Command, Stdio};

use rustix::process::{Pid, WaitId, WaitIdOptions};

use super::{Here, Liveness, ProcessIdentity, liveness};
use crate::process::procfs;

const NAMESPACE: u64 = 0xEFFF_FFFC;

fn here() -> Here {
    Here { boot_id: "boot-2".to_owned(), pid_namespace: NAMESPACE }
}

/// A process that is not there, of this boot.
fn ended_holder() -> ProcessIdentity {
    ProcessIdentity {
        host: "machine-id:4711".to_owned(),
        hostname: "etl-1".to_owned(),
        boot_id: "boot-2".to_owned(),
        pid_namespace: NAMESPACE,
        // Ours: alive, but not since the first tick.
        pid: i32::try_from(std::process::id()).unwrap(),
        start_ticks: 1,
        user: None,
    }
}

#[test]
fn the_calling_process_is_alive_and_survives_its_record() {
    let identity = ProcessIdentity::of_self().unwrap();
    let text = serde_json::to_string(&identity).unwrap();
    let read_back: ProcessIdentity = serde_json::from_str(&text).unwrap();
    assert_eq!(read_back, identity);
    assert_eq!(liveness(&read_back), Liveness::Alive);
}

#[test]
fn lease_08_pid_of_a_live_unrelated_process_is_dead() {
    let mut sleeper = Command::new("sleep").arg("300").stdout(Stdio::null()).spawn().unwrap();
    let pid = i32::try_from(sleeper.id()).unwrap();
    let of_sleeper = ProcessIdentity {
        pid,
        start_ticks: procfs::stat(pid).unwrap().start_ticks,
        ..ProcessIdentity::of_self().unwrap()
    };
    assert_eq!(liveness(&of_sleeper), Liveness::Alive);
    let reused = ProcessIdentity { start_ticks: of_sleeper.start_ticks - 1, ..of_sleeper.clone() };
    assert_eq!(liveness(&reused), Liveness::Dead);
    sleeper.kill().unwrap();

    let child = Pid::from_raw(pid).unwrap();
    rustix::process::waitid(WaitId::Pid(child), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
    assert_eq!(liveness(&of_sleeper), Liveness::Dead, "ended, not yet waited for");
    sleeper.wait().unwrap();
    assert_eq!(liveness(&of_sleeper), Liveness::Dead, "gone");
}

#[test]
fn lease_08_only_a_process_of_this_boot_and_pid_namespace_is_known_to_be_dead() {
    let holder = ended_holder();
    assert_eq!(here().judge(&holder), Liveness::Dead);
    let cases = [
        // The same machine after a restart, or a clone of it that runs beside it: nobody can tell which.
        ("another boot", ProcessIdentity { boot_id: "boot-1".to_owned(), ..holder.clone() }),
        ("another container", ProcessIdentity { pid_namespace: NAMESPACE - 1, ..holder.clone() }),
        ("no boot id", ProcessIdentity { boot_id: String::new(), ..holder.clone() }),
        ("impossible pid", ProcessIdentity { pid: -1, ..holder.clone() }),
    ];
    for (case, identity) in cases {
        assert_eq!(here().judge(&identity), Liveness::Unknowable, "{case}");
    }
    let nameless = Here { boot_id: String::new(), ..here() };
    assert_eq!(nameless.judge(&ProcessIdentity { boot_id: String::new(), ..holder }), Liveness::Unknowable);
}

#[test]
fn process_names_with_brackets_and_blanks_do_not_shift_the_fields() {
    let line = b"42 (a) b (c) Z 7 5 5 0 -1 4 0 0 0 0 0 0 0 0 20 0 1 0 987 0 0\n";
    let stat = procfs::parse_stat(line).unwrap();
    assert_eq!((stat.pid, stat.parent, stat.group, stat.start_ticks, stat.ended), (42, 7, 5, 987, true));
    assert_eq!(stat.name, "a) b (c");
    assert_eq!(procfs::parse_stat(b"42 (a) S 7"), None);
}
