//! What holds for any content.

use crate::support::{Outputs, only, told};
use proptest::prelude::*;
use refrain_compare::{FindingKind, Options, compare};

fn cell() -> impl Strategy<Value = String> {
    prop_oneof!["[a-c]{0,2}", "-?[0-9]{1,3}(\\.[0-9]{1,2})?", "[ -~äß\n]{0,6}", "2025-03-2[0-9] 10:00:0[0-9]"]
}

fn rows() -> impl Strategy<Value = Vec<Vec<String>>> {
    (1_usize..5).prop_flat_map(|width| prop::collection::vec(prop::collection::vec(cell(), width), 0..20))
}

fn csv(rows: &[Vec<String>], width: usize) -> String {
    let quote = |cell: &String| format!("\"{}\"", cell.replace('"', "\"\""));
    let header: Vec<String> = (0..width).map(|column| format!("c{column}")).collect();
    let lines = rows.iter().map(|row| row.iter().map(quote).collect::<Vec<_>>().join(",") + "\n");
    header.join(",") + "\n" + &lines.collect::<String>()
}

fn check_both_ways(name: &str, left: &[u8], right: &[u8]) {
    let outputs = Outputs::pair(name, left, right);
    let there = outputs.compare();
    let options = Options::default();
    let back = compare(&outputs.right(""), &outputs.left(""), &options).unwrap();
    assert_eq!(there.verdict, back.verdict, "{:?}\n{:?}", told(&there), told(&back));
    assert_eq!(there.is_equal(), left == right);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rows_in_another_order_are_the_same_rows(rows in rows(), seed in any::<prop::sample::Index>()) {
        let width = rows.first().map_or(1, Vec::len);
        let mut other = rows.clone();
        if !other.is_empty() {
            let middle = seed.index(other.len());
            other.rotate_left(middle);
        }
        let (left, right) = (csv(&rows, width), csv(&other, width));
        let outputs = Outputs::pair("a.csv", &left, &right);
        let comparison = outputs.compare_with(&Options { csv_header: Some(true), ..Options::default() });
        if left == right {
            prop_assert!(comparison.is_equal());
        } else {
            prop_assert_eq!(only(&comparison).kind, FindingKind::RowOrder);
            prop_assert!(comparison.is_equivalent());
        }
    }

    #[test]
    fn another_cell_is_another_content(rows in rows(), row in any::<prop::sample::Index>(), column in any::<prop::sample::Index>()) {
        prop_assume!(!rows.is_empty());
        let width = rows[0].len();
        let mut other = rows.clone();
        let (row, column) = (row.index(rows.len()), column.index(width));
        other[row][column].push('x');
        let outputs = Outputs::pair("a.csv", csv(&rows, width), csv(&other, width));
        let comparison = outputs.compare_with(&Options { csv_header: Some(true), ..Options::default() });
        prop_assert!(!comparison.is_equivalent(), "{:?}", told(&comparison));
    }

    #[test]
    fn any_bytes_under_any_name(
        name in prop::sample::select(vec!["a", "a.csv", "a.tsv", "a.jsonl", "a.json", "a.txt", "a.gz", "a.zip", "a.tar"]),
        left in prop::collection::vec(any::<u8>(), 0..200),
        right in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        check_both_ways(name, &left, &right);
    }

    #[test]
    fn any_text_under_any_name(
        name in prop::sample::select(vec!["a", "a.csv", "a.tsv", "a.jsonl", "a.json", "a.txt"]),
        left in "[a-c1-3,;\"\n\r{}\\[\\]: ]{0,60}",
        right in "[a-c1-3,;\"\n\r{}\\[\\]: ]{0,60}",
    ) {
        check_both_ways(name, left.as_bytes(), right.as_bytes());
    }
}

/// Every format with a byte changed somewhere, or its end cut off.
#[test]
fn damage_anywhere_is_survived() {
    let csv = "id,name,at\n1,a,2025-03-24\n2,b,2025-03-25\n".repeat(20);
    for (name, whole) in crate::damaged::samples(&csv) {
        for place in (0..whole.len()).step_by(whole.len() / 40 + 1) {
            let mut damaged = whole.clone();
            damaged[place] ^= 0x55;
            assert!(!Outputs::pair(name, &whole, &damaged).compare().is_equal());
            assert!(!Outputs::pair(name, &whole[..place], &damaged).compare().is_equal());
        }
    }
}
