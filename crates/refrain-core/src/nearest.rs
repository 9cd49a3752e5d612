//! "Did you mean": the known name nearest to a mistyped one.

/// The known name nearest to `text`, or none when all of them are far from it.
///
/// Near means: at most a third of the letters differ, ASCII case aside.
pub fn nearest<'a>(text: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = text.to_ascii_lowercase();
    known
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(&wanted, &name.to_ascii_lowercase()), name))
        .filter(|(distance, name)| *distance <= name.chars().count().max(wanted.chars().count()).div_ceil(3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
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
}
