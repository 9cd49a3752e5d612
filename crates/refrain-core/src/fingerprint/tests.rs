//! The encoding is a contract: other languages compute the same digests.

use super::{DifferenceKind, Fingerprint, FingerprintBuilder, Value, differences};
use crate::{Calendar, Grain};
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap};

fn text(text: &str) -> Value {
    Value::from(text)
}

fn example() -> FingerprintBuilder {
    Fingerprint::builder()
        .command(&["python3", "delays.py"])
        .code("delays.py", "blake3:aa")
        .param("REGION", "EU")
        .input("flights", "v7")
        .output("report", "reports/{date}.csv")
}

#[test]
fn the_encoding_is_as_documented() {
    let size = |n: u8| [0, 0, 0, 0, 0, 0, 0, n];
    assert_eq!(Value::Null.encode(), [0]);
    assert_eq!(Value::Bool(true).encode(), [1, 1]);
    assert_eq!(Value::Integer(-2).encode(), [2, 255, 255, 255, 255, 255, 255, 255, 254]);
    assert_eq!(text("a\u{e9}").encode(), [&[3][..], &size(3), b"a\xc3\xa9"].concat());
    assert_eq!(Value::Bytes(vec![7]).encode(), [&[4][..], &size(1), &[7]].concat());
    assert_eq!(Value::List(vec![Value::Null]).encode(), [&[5][..], &size(1), &[0]].concat());
    let map = Value::Map(BTreeMap::from([("k".to_owned(), Value::Null)]));
    assert_eq!(map.encode(), [&[6][..], &size(1), &[3], &size(1), b"k", &[0]].concat());
}

#[test]
fn the_digest_does_not_drift() {
    // A change here renames every publication ever made: it needs a new version of the encoding.
    let digest = example().build().digest;
    assert_eq!(digest, "blake3:53a64478d4f9a04489418f8b7f5289ea8e748da7687c5f7be3aa8e669d5a6780");
}

#[test]
fn values_that_look_alike_differ() {
    let list = |items: &[&str]| Value::List(items.iter().map(|item| text(item)).collect());
    let alike = [
        Value::Integer(1),
        text("1"),
        text("1.0"),
        text("01"),
        Value::Bool(true),
        text("true"),
        Value::Null,
        text("null"),
        text(""),
        Value::Bytes(vec![]),
        Value::Bytes(b"1".to_vec()),
        text("hex:31"),
        list(&[]),
        list(&["1"]),
        list(&["1", ""]),
        list(&["ab", "c"]),
        list(&["a", "bc"]),
        text("[\"1\"]"),
        Value::Map(BTreeMap::new()),
        Value::Map(BTreeMap::from([("1".to_owned(), Value::Null)])),
        text("caf\u{e9}"),
        text("cafe\u{301}"),
        text("1 "),
        text("-0.0"),
        text("0.0"),
    ];
    for (index, left) in alike.iter().enumerate() {
        for right in &alike[index + 1..] {
            let [left_print, right_print] =
                [left, right].map(|value| Fingerprint::builder().param("P", value.clone()).build());
            assert_ne!(left_print.digest, right_print.digest, "{left} {right}");
            assert_ne!(left_print.parts, right_print.parts, "{left} {right}");
        }
    }
}

#[test]
fn a_part_cannot_pose_as_another() {
    let base = example().build();
    let others = [
        example().shell("python3 delays.py"),
        example().command(&["python3 delays.py"]),
        example().command(&["python3", "delays.py", ""]),
        example().param("REGION2", "EU"),
        example().input("REGION", "EU"),
        example().code("delays.py", "blake3:ab"),
        example().calendar(&Calendar::utc(Grain::Daily)),
    ];
    let mut digests: Vec<String> = others.into_iter().map(|builder| builder.build().digest).collect();
    digests.push(base.digest);
    digests.sort();
    digests.dedup();
    assert_eq!(digests.len(), 8);
    let [utc, berlin] = ["UTC", "Europe/Berlin"]
        .map(|zone| example().calendar(&Calendar::new(Grain::Daily, zone).unwrap()).build().digest);
    assert_ne!(utc, berlin);
}

#[test]
fn the_order_of_the_calls_does_not_matter() {
    let reversed = Fingerprint::builder()
        .output("report", "reports/{date}.csv")
        .input("flights", "v7")
        .param("REGION", "EU")
        .code("delays.py", "blake3:aa")
        .command(&["python3", "delays.py"]);
    assert_eq!(reversed.build(), example().build());
    let parts: Vec<_> = example().build().parts.into_keys().collect();
    assert_eq!(parts, ["code:delays.py", "command", "input:flights", "output:report", "param:REGION"]);
}

#[test]
fn differences_are_told_in_words() {
    let old = example().param("GONE", 1).build();
    let new = example().code("delays.py", "blake3:bb").param("REGION", "US").shell("make").input("carriers", "v1");
    let found = differences(&old, &new.build());
    let told: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "code `delays.py` changed",
            "the command changed",
            "input `carriers` is new",
            "parameter `GONE` is declared no more",
            "parameter `REGION` changed"
        ]
    );
    let region = &found[4];
    assert_eq!((region.old.as_deref(), region.new.as_deref()), (Some("\"EU\""), Some("\"US\"")));
    assert_eq!((found[2].kind, found[2].old.clone()), (DifferenceKind::Added, None));
    assert_eq!((found[3].kind, found[3].new.clone()), (DifferenceKind::Removed, None));
}

#[test]
fn a_long_value_is_kept_as_its_digest() {
    let [left, right] = ["a", "b"].map(|last| {
        Fingerprint::builder().param("P", format!("{}{last}", "x".repeat(500))).build().parts["param:P"].clone()
    });
    assert!(left.starts_with("blake3:") && left.len() == 71 && left != right);
}

#[test]
fn json_is_taken_without_fractions() {
    let json = serde_json::json!({"b": [1, "1", null, true], "a": {}});
    assert_eq!(Value::from_json(&json).unwrap().to_string(), r#"{"a":{},"b":[1,"1",null,true]}"#);
    for refused in [serde_json::json!(1.5), serde_json::json!([1.0]), serde_json::json!(u64::MAX)] {
        assert!(Value::from_json(&refused).unwrap_err().hint.unwrap().starts_with("give it as text"));
    }
}

#[test]
fn a_fingerprint_is_read_back_as_it_was_written() {
    let fingerprint = example().build();
    let json = serde_json::to_string(&fingerprint).unwrap();
    assert_eq!(serde_json::from_str::<Fingerprint>(&json).unwrap(), fingerprint);
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        (-2_i64..3).prop_map(Value::Integer),
        "[01a\"\\\\\u{1}]{0,3}".prop_map(Value::Text),
        proptest::collection::vec(0_u8..3, 0..3).prop_map(Value::Bytes),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::List),
            proptest::collection::btree_map("[ab]{0,2}", inner, 0..3).prop_map(Value::Map),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Small values, so that many of a sample are near one another.
    #[test]
    fn different_values_have_different_bytes_and_summaries(values in proptest::collection::vec(any_value(), 100)) {
        let (mut by_bytes, mut by_summary) = (HashMap::new(), HashMap::new());
        for value in &values {
            prop_assert_eq!(*by_bytes.entry(value.encode()).or_insert(value), value);
            prop_assert_eq!(*by_summary.entry(value.summary()).or_insert(value), value);
        }
    }

    #[test]
    fn no_encoding_begins_with_another(left in any_value(), right in any_value()) {
        prop_assume!(left != right);
        prop_assert!(!left.encode().starts_with(&right.encode()));
    }

    #[test]
    fn no_differences_means_one_digest(
        left in proptest::collection::btree_map("[ab]", any_value(), 0..3),
        right in proptest::collection::btree_map("[ab]", any_value(), 0..3),
    ) {
        let build = |params: BTreeMap<String, Value>| {
            params.into_iter().rev().fold(Fingerprint::builder(), |all, (name, value)| all.param(&name, value)).build()
        };
        let (left, right) = (build(left), build(right));
        prop_assert_eq!(differences(&left, &right).is_empty(), left.digest == right.digest);
    }
}
