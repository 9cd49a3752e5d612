//! "Did you mean": the known name nearest to a mistyped one.

/// The known name nearest to `text`, or none when all of them are far from it.
///
/// Near means: it is the only one that `text` abbreviates, or at most a third of the letters differ, ASCII case aside.
pub fn nearest<'a>(text: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = text.to_ascii_lowercase();
    let known: Vec<&str> = known.into_iter().collect();
    let mut long_forms = known.iter().filter(|name| abbreviates(&wanted, &name.to_ascii_lowercase()));
    if let (Some(only), None) = (long_forms.next(), long_forms.next()) {
        return Some(only);
    }
    known
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(&wanted, &name.to_ascii_lowercase()), name))
        .filter(|(distance, name)| *distance <= name.chars().count().max(wanted.chars().count()).div_ceil(3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Whether `short` is `long` with letters left out: three letters at least, of which the first is kept.
fn abbreviates(short: &str, long: &str) -> bool {
    let mut rest = long.chars();
    short.chars().count() >= 3
        && short.chars().next() == long.chars().next()
        && short.chars().all(|letter| rest.any(|candidate| candidate == letter))
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_typing_error_finds_its_name_and_a_stranger_finds_none() {
        let known = ["date", "partition", "param.REGION"];
        assert_eq!(nearest("dat", known), Some("date"));
        assert_eq!(nearest("partiton", known), Some("partition"));
        assert_eq!(nearest("Param.region", known), Some("param.REGION"));
        assert_eq!(nearest("zebra", known), None);
    }

    #[test]
    fn an_abbreviation_finds_its_long_form_unless_it_has_two() {
        assert_eq!(nearest("cmd", ["cwd", "code", "command"]), Some("command"));
        assert_eq!(nearest("part", ["partition", "param"]), Some("partition"));
        assert_eq!(nearest("tim", ["timeout", "timezone"]), None);
        assert_eq!(nearest("dates", ["date", "partition"]), Some("date"));
    }
}
