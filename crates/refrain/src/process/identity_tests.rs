use std::process::{Command, Stdio};

use rustix::process::{Pid, WaitId, WaitIdOptions};

use super::{FIRST_PID_NAMESPACE, Here, Liveness, ProcessIdentity, liveness};
use crate::process::procfs;

fn here() -> Here {
    Here {
        boot_id: "boot-2".to_owned(),
        pid_namespace: FIRST_PID_NAMESPACE,
        hostname: "etl-1".to_owned(),
        machine_id: Some("4711".to_owned()),
    }
}

fn holder_before_restart() -> ProcessIdentity {
    ProcessIdentity {
        host: "machine-id:4711".to_owned(),
        hostname: "etl-1".to_owned(),
        boot_id: "boot-1".to_owned(),
        pid_namespace: FIRST_PID_NAMESPACE,
        // Ours: alive, whatever the answer about the holder is.
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
fn lease_08_changed_boot_id_on_the_same_machine_is_dead() {
    assert_eq!(here().judge(&holder_before_restart()), Liveness::Dead);
}

#[test]
fn lease_08_host_name_or_machine_id_alone_proves_nothing() {
    let holder = holder_before_restart();
    let cases = [
        ("other machine, same name", ProcessIdentity { host: "machine-id:4712".to_owned(), ..holder.clone() }),
        ("image with a baked machine id", ProcessIdentity { hostname: "etl-2".to_owned(), ..holder.clone() }),
        ("name only", ProcessIdentity { host: "hostname:etl-1".to_owned(), ..holder.clone() }),
        ("another container", ProcessIdentity { pid_namespace: FIRST_PID_NAMESPACE - 1, ..holder.clone() }),
        ("no boot id", ProcessIdentity { boot_id: String::new(), ..holder.clone() }),
        ("impossible pid", ProcessIdentity { boot_id: "boot-2".to_owned(), pid: -1, ..holder.clone() }),
    ];
    for (case, identity) in cases {
        assert_eq!(here().judge(&identity), Liveness::Unknowable, "{case}");
    }
    let nameless = Here { machine_id: None, ..here() };
    let by_name = ProcessIdentity { host: "hostname:etl-1".to_owned(), ..holder.clone() };
    assert_eq!(nameless.judge(&by_name), Liveness::Unknowable);
    let container = Here { pid_namespace: FIRST_PID_NAMESPACE - 1, ..here() };
    let in_container = ProcessIdentity { pid_namespace: FIRST_PID_NAMESPACE - 1, ..holder };
    assert_eq!(container.judge(&in_container), Liveness::Unknowable);
}

#[test]
fn process_names_with_brackets_and_blanks_do_not_shift_the_fields() {
    let line = b"42 (a) b (c) Z 7 5 5 0 -1 4 0 0 0 0 0 0 0 0 20 0 1 0 987 0 0\n";
    let stat = procfs::parse_stat(line).unwrap();
    assert_eq!((stat.pid, stat.parent, stat.group, stat.start_ticks, stat.ended), (42, 7, 5, 987, true));
    assert_eq!(stat.name, "a) b (c");
    assert_eq!(procfs::parse_stat(b"42 (a) S 7"), None);
}
