//! Tests of the journal.

use super::*;
use crate::local::record::{Displaced, Intent, Layout, VersionLabel};
use refrain_core::{Generation, Head, HeadVersion, Key, SlotId};
use uuid::Uuid;

fn record(number: u128) -> Record {
    Record::of(
        Head {
            slot_id: SlotId::from_uuid(Uuid::from_u128(1)),
            version: HeadVersion::from_uuid(Uuid::from_u128(number)),
            owner: Key { task: "t".parse().unwrap(), partition: String::new() },
            claim: None,
            publication: None,
            history: Vec::new(),
            taken_from: None,
        },
        Some(Displaced {
            staged: "home:.refrain/slots/x.0/y".to_owned(),
            identity: "0:0:0:-:0".to_owned(),
            version: VersionLabel { generation: Generation::new(1), attempt: None, drifted: false, sealed: None },
        }),
    )
}

fn version(contents: &Contents) -> Option<u128> {
    contents.last.as_ref().map(|record| record.head.version.as_uuid().as_u128())
}

/// A journal of three records, and where each ends.
fn three(path: &Path) -> Vec<usize> {
    let mut journal = Journal::open(path).unwrap();
    (1..=3)
        .map(|number| {
            journal.append(record(number)).unwrap();
            usize::try_from(journal.contents.end).unwrap()
        })
        .collect()
}

#[test]
fn ledg_11_a_tail_cut_at_any_byte_is_ignored_and_repaired() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.head");
    let ends = three(&path);
    let whole = std::fs::read(&path).unwrap();
    for length in 0..=whole.len() {
        std::fs::write(&path, &whole[..length]).unwrap();
        let complete = ends.iter().filter(|end| **end <= length).count() as u128;
        assert_eq!(version(&read(&path).unwrap()).unwrap_or_default(), complete, "cut at {length}");
        let mut journal = Journal::open(&path).unwrap();
        journal.append(record(9)).unwrap();
        assert_eq!(version(&read(&path).unwrap()), Some(9), "cut at {length}");
        let text = std::fs::read_to_string(&path).unwrap();
        let lines = text.trim_end_matches('\0');
        assert_eq!(lines.lines().count() as u128, complete + 1, "cut at {length}");
        assert!(lines.ends_with('\n'), "cut at {length}");
    }
}

#[test]
fn a_hole_that_a_power_cut_left_is_no_damage() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.head");
    let ends = three(&path);
    let whole = std::fs::read(&path).unwrap();
    for (from, to, last) in
        [(0, ends[0], 3), (ends[0], ends[1], 3), (ends[0] - 3, ends[1] + 3, 1), (ends[1], ends[2], 2)]
    {
        let mut bytes = whole.clone();
        bytes[from..to].fill(0);
        let first_is_gone = from < ends[0];
        let expected = if last == 1 && first_is_gone { None } else { Some(last) };
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(version(&read(&path).unwrap()), expected, "{from}..{to}");
    }
}

#[test]
fn other_damage_is_reported_with_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.head");
    let ends = three(&path);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[ends[0] + 30] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    for error in [read(&path).unwrap_err(), Journal::open(&path).unwrap_err()] {
        assert_eq!(error.kind, ErrorKind::Corrupt);
        assert!(error.message.contains(&format!("byte {}", ends[0])), "{error}");
        assert!(error.hint.unwrap().contains("--adopt"));
    }
}

#[test]
fn an_unknown_format_is_refused_with_both_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.head");
    let json = br#"{"format":2}"#;
    std::fs::write(&path, format!("{} {}\n", checksum(json), String::from_utf8_lossy(json))).unwrap();
    let error = read(&path).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);
    assert!(error.message.contains("format 2") && error.message.contains("format 1"), "{error}");
}

#[test]
fn a_long_journal_is_rewritten_and_stays_short() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.head");
    for number in 0..500 {
        Journal::open(&path).unwrap().append(record(number)).unwrap();
        assert!(path.metadata().unwrap().len() <= LONGEST + BLOCK);
        assert_eq!(version(&read(&path).unwrap()), Some(number));
    }
    assert_eq!(dir.path().read_dir().unwrap().count(), 1);
}

#[test]
fn no_file_and_an_empty_one_are_no_head() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.head");
    assert_eq!(read(&path).unwrap(), Contents::default());
    let journal = Journal::open(&path).unwrap();
    assert!(journal.is_new() && journal.last().is_none());
    assert!(!Journal::open(&path).unwrap().is_new());
}

/// A record of a commit that is decided.
fn intent(number: u128) -> Record {
    let intent = Intent {
        staged: "home:.refrain/slots/x.0/y".to_owned(),
        identity: "0:0:0:-:0".to_owned(),
        bytes: 1,
        digest: "blake3:0".to_owned(),
        layout: Layout::Real,
        displaced: None,
    };
    Record { intent: Some(intent), displaced: None, ..record(number) }
}

#[test]
fn a_claim_takes_the_room_of_what_follows_and_whoever_opens_the_head_finds_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.head");
    for number in 0..200_u128 {
        Journal::open(&path).unwrap().append(record(3 * number)).unwrap();
        let reserved = path.metadata().unwrap().len();
        assert_eq!(reserved % BLOCK, 0);
        Journal::open(&path).unwrap().append_durably(intent(3 * number + 1)).unwrap();
        assert_eq!(path.metadata().unwrap().len(), reserved, "intent {number}");
        Journal::open(&path).unwrap().append(record(3 * number + 2)).unwrap();
        assert!(path.metadata().unwrap().len() <= reserved, "record {number}");
        assert_eq!(version(&read(&path).unwrap()), Some(3 * number + 2));
    }
}

#[test]
fn what_a_crash_left_in_the_room_goes_before_the_next_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.head");
    let ends = three(&path);
    let mut bytes = std::fs::read(&path).unwrap();
    assert!(bytes.len() > 2 * ends[2], "there is more room than the next line takes");
    bytes[ends[2] + 100..].fill(b'x');
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(version(&read(&path).unwrap()), Some(3));
    let mut journal = Journal::open(&path).unwrap();
    journal.append(record(4)).unwrap();
    assert_eq!(version(&read(&path).unwrap()), Some(4));
    assert!(!std::fs::read_to_string(&path).unwrap().contains("xx"));
}
