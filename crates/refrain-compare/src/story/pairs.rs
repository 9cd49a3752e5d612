//! What a value and its counterpart look like together.

use super::shapes;
use crate::options::Known;

/// The texts of both sides, `None` for a null.
#[derive(Clone, Copy)]
pub(super) struct Texts<'a> {
    pub(super) left: Option<&'a str>,
    pub(super) right: Option<&'a str>,
}

impl<'a> Texts<'a> {
    /// Both texts, when there are two.
    pub(super) fn both(self) -> Option<(&'a str, &'a str)> {
        self.left.zip(self.right)
    }
}

/// Whether the texts are the same once `known` is taken out of them.
pub(super) fn equal_without(left: &str, right: &str, known: &Known) -> bool {
    let says = |text: &str, known: &str| !known.is_empty() && text.contains(known);
    says(left, &known.left)
        && says(right, &known.right)
        && left.replace(&known.left, "\0") == right.replace(&known.right, "\0")
}

/// Whether the texts differ in nothing but letters' case.
pub(super) fn equal_but_case(left: &str, right: &str) -> bool {
    left.eq_ignore_ascii_case(right) || left.to_lowercase() == right.to_lowercase()
}

/// Whether the texts differ in nothing but spaces.
pub(super) fn equal_but_space(left: &str, right: &str) -> bool {
    left.split_whitespace().flat_map(str::bytes).eq(right.split_whitespace().flat_map(str::bytes))
}

/// Whether one side writes the other's number with a decimal comma.
pub(super) fn is_decimal_comma(left: &str, right: &str) -> bool {
    let swapped = |comma: &str, point: &str| {
        let bytes = || comma.bytes();
        bytes().filter(|byte| *byte == b',').count() == 1
            && bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b',' | b'.' | b'-' | b'+' | b'e' | b'E'))
            && shapes::number(&comma.replace('.', "").replace(',', "."))
                .zip(shapes::number(point))
                .is_some_and(|(a, b)| a.to_bits() == b.to_bits())
    };
    swapped(left, right) || swapped(right, left)
}

/// How far apart two numbers are, relative to the larger; 0 for equal ones.
pub(super) fn relative_difference(left: f64, right: f64) -> f64 {
    let largest = left.abs().max(right.abs());
    if largest == 0.0 { 0.0 } else { (left - right).abs() / largest }
}

/// Whether both are lists with the same elements in another order.
pub(super) fn is_other_order(left: &str, right: &str) -> bool {
    if left.len() != right.len() || left.len() < 3 {
        return false;
    }
    let elements = |text: &str| {
        let inside = text.trim().trim_matches(['[', ']', '{', '}', '(', ')']);
        let separator = [',', ';', '|', ' '].into_iter().find(|separator| inside.contains(*separator))?;
        let mut elements: Vec<String> = inside.split(separator).map(|element| element.trim().to_owned()).collect();
        elements.sort_unstable();
        Some(elements)
    };
    elements(left).is_some_and(|elements_left| elements(right).is_some_and(|right| elements_left == right))
}

/// The texts with every address in memory masked.
pub(super) fn without_addresses(text: &str) -> Option<String> {
    let mut masked = String::new();
    let mut rest = text;
    let mut found = false;
    while let Some((before, after)) = rest.split_once("0x") {
        let digits = after.bytes().take_while(u8::is_ascii_hexdigit).count();
        masked.push_str(before);
        masked.push_str("0x");
        if digits >= 6 {
            found = true;
            rest = &after[digits..];
        } else {
            rest = after;
        }
    }
    masked.push_str(rest);
    found.then_some(masked)
}

/// The words in which two texts differ, when they differ in one place and not as a whole.
///
/// A word ends at white space, quotes, brackets, `=`, `,`, `;`, `|`.
pub(super) fn differing_words<'a>(left: &'a str, right: &'a str) -> Option<(&'a str, &'a str)> {
    let is_end = |c: char| c.is_whitespace() || "\"'`<>()[]{}=,;|".contains(c);
    let common = left.char_indices().zip(right.chars()).find(|((_, a), b)| a != b);
    let start = common.map_or(left.len().min(right.len()), |((at, _), _)| at);
    let start = left[..start].rfind(is_end).map_or(0, |at| at + left[at..].chars().next().map_or(1, char::len_utf8));
    let (tail_left, tail_right) = (&left[start..], &right[start..]);
    let same: usize = tail_left
        .chars()
        .rev()
        .zip(tail_right.chars().rev())
        .take_while(|(a, b)| a == b)
        .map(|(c, _)| c.len_utf8())
        .sum();
    let same = same.min(tail_left.len()).min(tail_right.len());
    let end_of = |text: &'a str| {
        let end = text.len() - same;
        text[end..].find(is_end).map_or(text.len(), |at| end + at)
    };
    let words = (&tail_left[..end_of(tail_left)], &tail_right[..end_of(tail_right)]);
    (words != (left, right) && !words.0.is_empty() && !words.1.is_empty()).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::{differing_words, equal_but_space, equal_without, is_decimal_comma, is_other_order, without_addresses};
    use crate::options::Known;

    #[test]
    fn words_that_differ() {
        let words = differing_words("at 2025-01-01T10:00:00Z done", "at 2025-01-01T10:00:05Z done");
        assert_eq!(words, Some(("2025-01-01T10:00:00Z", "2025-01-01T10:00:05Z")));
        assert_eq!(differing_words("pid=17, ok", "pid=9, ok"), Some(("17", "9")));
        assert_eq!(differing_words("abc", "abd"), None);
        assert_eq!(differing_words("ä x1", "ä x2"), Some(("x1", "x2")));
        assert_eq!(differing_words("aé", "aè"), None);
    }

    #[test]
    fn texts_that_are_nearly_equal() {
        assert!(is_decimal_comma("1,5", "1.5") && is_decimal_comma("1.5", "1,5") && !is_decimal_comma("1,6", "1.5"));
        assert!(is_decimal_comma("1.234,5", "1234.5"));
        assert!(is_other_order("[a, b]", "[b, a]") && !is_other_order("[a, b]", "[a, c]"));
        assert!(equal_but_space("a  b", "a b ") && !equal_but_space("a", "b"));
        assert_eq!(without_addresses("<o at 0x7f3a12>").as_deref(), Some("<o at 0x>"));
        assert_eq!(without_addresses("0x1"), None);
        let known = Known::new("the staging path", "/s/1", "/s/2");
        assert!(equal_without("in /s/1/x", "in /s/2/x", &known) && !equal_without("in /s/1/x", "in /s/2/y", &known));
    }
}
