//! Pairs names that differ by a time, a random id or a temporary name.

use std::collections::BTreeMap;

/// Two names that belong together, as indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Paired {
    pub(crate) left: usize,
    pub(crate) right: usize,
    /// What their names differ by, as it stands in a sentence; nothing when they are the same.
    pub(crate) by: Option<&'static str>,
}

/// The result of pairing two lists of names.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Pairs {
    pub(crate) matched: Vec<Paired>,
    pub(crate) only_left: Vec<usize>,
    pub(crate) only_right: Vec<usize>,
}

/// Pairs equal names first, the n-th with the n-th, then those that are equal but for what a run puts into them.
pub(crate) fn pair(left: &[Vec<u8>], right: &[Vec<u8>]) -> Pairs {
    let mut result =
        Pairs { matched: vec![], only_left: (0..left.len()).collect(), only_right: (0..right.len()).collect() };
    result.match_by(left, right, None, <[u8]>::to_vec);
    result.match_by(left, right, Some("a UUID"), |name| masked(name, &[Mask::Uuid]));
    result.match_by(left, right, Some("a time"), |name| masked(name, &[Mask::Uuid, Mask::Time]));
    result.match_by(left, right, Some("a temporary name"), |name| {
        masked(name, &[Mask::Uuid, Mask::Time, Mask::Temporary])
    });
    result.match_by(left, right, Some("a random or growing part"), |name| {
        masked(name, &[Mask::Uuid, Mask::Time, Mask::Temporary, Mask::Token])
    });
    result.matched.sort_unstable_by_key(|pair| pair.left);
    result
}

impl Pairs {
    fn match_by(
        &mut self,
        left: &[Vec<u8>],
        right: &[Vec<u8>],
        by: Option<&'static str>,
        key: impl Fn(&[u8]) -> Vec<u8>,
    ) {
        let mut waiting: BTreeMap<Vec<u8>, Vec<usize>> = BTreeMap::new();
        for &index in self.only_right.iter().rev() {
            waiting.entry(key(&right[index])).or_default().push(index);
        }
        let mut taken = std::collections::BTreeSet::new();
        let pairs = &mut self.matched;
        self.only_left.retain(|&index| match waiting.get_mut(&key(&left[index])).and_then(Vec::pop) {
            Some(other) => {
                taken.insert(other);
                pairs.push(Paired { left: index, right: other, by });
                false
            }
            None => true,
        });
        self.only_right.retain(|index| !taken.contains(index));
    }
}

/// What is masked in a name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mask {
    Uuid,
    /// Dates with times, seconds since 1970 and the like: eight digits and more, with separators.
    Time,
    /// `tmpab12cd`, `.part.XXXX`: words that begin with `tmp`.
    Temporary,
    /// Words of letters and digits mixed, and numbers of three digits or more.
    Token,
}

fn masked(name: &[u8], masks: &[Mask]) -> Vec<u8> {
    let mut out = vec![];
    let mut rest = name;
    while let Some(first) = rest.first() {
        let length = if first.is_ascii_alphanumeric() { masked_length(rest, masks) } else { None };
        if let Some(length) = length {
            out.push(0);
            rest = &rest[length..];
            continue;
        }
        // A word that is not masked goes on as a whole, so that its tail is not mistaken for another one.
        let word = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count().max(1);
        out.extend_from_slice(&rest[..word]);
        rest = &rest[word..];
    }
    out
}

fn masked_length(rest: &[u8], masks: &[Mask]) -> Option<usize> {
    masks.iter().find_map(|mask| match mask {
        Mask::Uuid => is_uuid(rest).then_some(36),
        Mask::Time => time_length(rest),
        Mask::Temporary => {
            let word = word(rest);
            (word.len() > 3 && word[..3].eq_ignore_ascii_case(b"tmp")).then_some(word.len())
        }
        Mask::Token => {
            let word = word(rest);
            let digits = word.iter().filter(|byte| byte.is_ascii_digit()).count();
            let is_number = digits == word.len() && digits >= 3;
            (is_number || (word.len() >= 6 && digits > 0 && digits < word.len())).then_some(word.len())
        }
    })
}

fn word(rest: &[u8]) -> &[u8] {
    &rest[..rest.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count()]
}

fn is_uuid(rest: &[u8]) -> bool {
    rest.len() >= 36
        && rest[..36].iter().enumerate().all(|(place, byte)| match place {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// The length of a time at the start: digits with `-`, `_`, `:`, `.`, `T` or `Z` among them, ten digits at least.
fn time_length(rest: &[u8]) -> Option<usize> {
    let is_part = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'-' | b'_' | b':' | b'T' | b'Z' | b'+');
    let mut length = rest.iter().take_while(|byte| is_part(**byte)).count();
    while length > 0 && matches!(rest[length - 1], b'-' | b'_' | b':' | b'+') {
        length -= 1;
    }
    let digits = rest[..length].iter().filter(|byte| byte.is_ascii_digit()).count();
    (digits >= 10).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::pair;

    /// What the names differ by; empty when they do not.
    fn by(left: &str, right: &str) -> Option<&'static str> {
        let pairs = pair(&[left.into()], &[right.into()]);
        pairs.matched.first().map(|pair| pair.by.unwrap_or_default())
    }

    #[test]
    fn names_that_a_run_changes_are_paired() {
        assert_eq!(by("a/b.csv", "a/b.csv"), Some(""));
        let spark = [
            "part-00000-6fa459ea-ee8a-4ca4-894e-db77e160355e-c000.snappy.parquet",
            "part-00000-16fd2706-8baf-433b-82eb-8c7fada847da-c000.snappy.parquet",
        ];
        assert_eq!(by(spark[0], spark[1]), Some("a UUID"));
        assert_eq!(by("out_20250324_101500.csv", "out_20250324_101507.csv"), Some("a time"));
        assert_eq!(by("out-2025-03-24T10:15:00Z.csv", "out-2025-03-24T10:15:09Z.csv"), Some("a time"));
        assert_eq!(by("tmpab12/x", "tmpzz/x"), Some("a temporary name"));
        assert_eq!(by("x.4711.csv", "x.9012.csv"), Some("a random or growing part"));
        assert_eq!(by("a.csv", "b.csv"), None);
        assert_eq!(by("part-1.csv", "part-2.csv"), None);
        assert_eq!(by("dt=2025-03-24/x", "dt=2025-03-25/x"), None);
    }

    #[test]
    fn equal_names_go_first_and_in_their_order() {
        let names = |list: &[&str]| list.iter().map(|name| name.as_bytes().to_vec()).collect::<Vec<_>>();
        let pairs = pair(&names(&["a", "tmp12", "a"]), &names(&["tmp99", "a", "a", "z"]));
        let found: Vec<_> = pairs.matched.iter().map(|pair| (pair.left, pair.right)).collect();
        assert_eq!(found, [(0, 1), (1, 0), (2, 2)]);
        assert_eq!((pairs.only_left, pairs.only_right), (vec![], vec![3]));
    }
}
