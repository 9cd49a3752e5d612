use super::{Background, Story, cut};
use crate::options::Known;
use crate::report::Cause;

fn tell(column: &str, pairs: &[(&str, &str)]) -> (Option<Cause>, String) {
    let known = [Known::new("the staging path", "/s/one", "/s/two")];
    let background = Background { known: &known, host_name: Some("machine-a"), examples: 3 };
    let mut story = Story::new(background);
    for (left, right) in pairs {
        story.add(Some(left.as_bytes()), Some(right.as_bytes()));
    }
    story
        .tell(column, (pairs.len() as u64, pairs.len() as u64))
        .map_or((None, String::new()), |told| (told.cause, told.phrase))
}

fn cause(column: &str, pairs: &[(&str, &str)]) -> Option<Cause> {
    tell(column, pairs).0
}

#[test]
fn det_08_times_and_ids_are_named() {
    let (cause_of, phrase) = tell("loaded_at", &[("2025-03-24T10:00:00.1Z", "2025-03-24T10:00:07Z"); 3]);
    assert_eq!((cause_of, phrase.as_str()), (Some(Cause::WallClock), "looks like a wall-clock time"));
    let uuids = [("6fa459ea-ee8a-4ca4-894e-db77e160355e", "16fd2706-8baf-433b-82eb-8c7fada847da")];
    assert_eq!(tell("id", &uuids).1, "looks like a random UUID");
    let times = [("01890a5d-ac96-774b-bcce-b302099a8057", "01890a5d-ac97-774b-bcce-b302099a8057")];
    assert_eq!(cause("id", &times), Some(Cause::TimeUuid));
    assert_eq!(cause("day", &[("2025-03-24", "2025-03-25")]), Some(Cause::WallClock));
    assert_eq!(cause("at", &[("1742811300", "1742811309")]), Some(Cause::WallClock));
    assert_eq!(cause("line", &[("done at 10:15:00 x", "done at 10:15:09 x")]), Some(Cause::WallClock));
}

#[test]
fn data_of_other_days_is_no_clock() {
    let other = [("2025-03-24T10:00:00Z", "2025-03-24T11:07:00Z"), ("2025-03-25T10:00:00Z", "2025-03-25T09:11:00Z")];
    assert_eq!(cause("departure", &other), None);
}

#[test]
fn det_04_numeric_noise_says_the_largest_difference() {
    let (cause_of, phrase) = tell("sum", &[("0.1", "0.10000000000000002"), ("1.5", "1.5000000000000004")]);
    assert_eq!(cause_of, Some(Cause::NumericNoise));
    assert_eq!(phrase, "numeric noise, largest relative difference 3e-16");
    assert_eq!(cause("sum", &[("0.1", "0.2"), ("1.5", "1.6")]), Some(Cause::Number));
    assert_eq!(
        cause("id", &[("10000000000000", "10000000000001"), ("10000000000000", "10000000000002")]),
        Some(Cause::Number)
    );
}

#[test]
fn det_05_decimal_commas_and_spellings() {
    assert_eq!(cause("x", &[("1,5", "1.5"), ("2,25", "2.25")]), Some(Cause::DecimalComma));
    assert_eq!(cause("x", &[("1.0", "1"), ("1e3", "1000")]), Some(Cause::NumberFormat));
    assert_eq!(cause("x", &[("", "NULL"), ("", "NaN")]), Some(Cause::EmptySpelling));
    assert_eq!(cause("x", &[("True", "true")]), Some(Cause::LetterCase));
    assert_eq!(cause("x", &[("a b", "a  b")]), Some(Cause::Whitespace));
    let zone = [("2025-03-24 10:00:00", "2025-03-24 12:00:00"), ("2025-03-25 10:30:00", "2025-03-25 12:30:00")];
    assert_eq!(cause("x", &zone), Some(Cause::TimeZone));
}

#[test]
fn what_comes_from_the_process_is_named() {
    assert_eq!(cause("pid", &[("411", "977")]), Some(Cause::ProcessId));
    assert_eq!(cause("line", &[("from pid=411", "from pid=977")]), Some(Cause::Number));
    let shifted = [("1", "843"), ("2", "844"), ("3", "845")];
    let (cause_of, phrase) = tell("id", &shifted);
    assert_eq!(cause_of, Some(Cause::Counter));
    assert!(phrase.ends_with("each right value is the left one +842"), "{phrase}");
    assert_eq!(tell("source", &[("/s/one/a.csv", "/s/two/a.csv")]).1, "contains the staging path");
    assert_eq!(cause("source", &[("/tmp/tmpab12/x", "/tmp/tmpcd34/x")]), Some(Cause::TemporaryPath));
    assert_eq!(cause("source", &[("see /tmp/ab12/x now", "see /tmp/cd34/x now")]), Some(Cause::TemporaryPath));
    assert_eq!(cause("source", &[("/home/a/x", "/home/b/x")]), Some(Cause::AbsolutePath));
    assert_eq!(cause("host", &[("worker-1", "worker-2")]), Some(Cause::HostName));
    assert_eq!(cause("x", &[("machine-a", "machine-b")]), Some(Cause::HostName));
    assert_eq!(cause("x", &[("<A object at 0x7f3a1c>", "<A object at 0x7f991c>")]), Some(Cause::MemoryAddress));
    assert_eq!(cause("x", &[("a91bc33de012", "bb01f7a0c2d4")]), Some(Cause::RandomToken));
    assert_eq!(cause("tags", &[("a,b,c", "c,a,b"), ("[x, y]", "[y, x]")]), Some(Cause::ElementOrder));
    let random: Vec<(String, String)> =
        (1..20).map(|i| (format!("0.{}", i * 7919 % 997), format!("0.{}", i * 104_729 % 991))).collect();
    let random: Vec<(&str, &str)> = random.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    assert_eq!(cause("weight", &random), Some(Cause::RandomNumber));
}

#[test]
fn values_without_a_likeness_are_not_explained() {
    assert_eq!(tell("name", &[("blue", "green"), ("red", "7")]), (None, String::new()));
}

#[test]
fn long_and_strange_values_are_cut() {
    assert_eq!(cut("a\u{0}\nb"), "a\\u{0}\\nb");
    assert_eq!(cut(&"x".repeat(200)).len(), 83);
    let mut story = Story::new(Background { known: &[], host_name: None, examples: 1 });
    story.add(Some(&[0xff, 0xfe]), None);
    assert_eq!(story.examples()[0].right.as_deref(), Some("NULL"));
}
