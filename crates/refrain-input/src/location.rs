//! What a location names: one path, or all files that match a pattern.
//!
//! `*`, `?` and `[` are of the pattern language wherever they stand; a name that has one of them is written `[*]`, `[?]`
//! or `[[]`. So what a location means never depends on what happens to exist.

use crate::pattern::Pattern;
use refrain_core::Result;
use std::path::PathBuf;

/// A location, taken apart.
#[derive(Debug)]
pub(crate) enum Location {
    /// A file or a directory.
    Path(PathBuf),
    /// Files that match.
    Pattern(Pattern),
}

impl Location {
    /// Reads an absolute location.
    ///
    /// # Errors
    /// `invalid` for a malformed pattern.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        match literal(text) {
            Some(path) => Ok(Self::Path(path.into())),
            None => Pattern::parse(text).map(Self::Pattern),
        }
    }
}

/// The text as a location of exactly that name.
///
/// ```
/// assert_eq!(refrain_input::escape("a[1]*.csv"), "a[[]1][*].csv");
/// ```
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        if matches!(char, '*' | '?' | '[') {
            escaped.extend(['[', char, ']']);
        } else {
            escaped.push(char);
        }
    }
    escaped
}

/// The one name that a text matches; nothing for a pattern.
pub(crate) fn literal(text: &str) -> Option<String> {
    let mut name = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['*', '?', '[']) {
        let (before, special) = rest.split_at(at);
        name.push_str(before);
        let escaped = ["[*]", "[?]", "[[]"].into_iter().find(|escaped| special.starts_with(escaped))?;
        name.push_str(&escaped[1..2]);
        rest = &special[escaped.len()..];
    }
    name.push_str(rest);
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_can_be_written_as_a_location_of_itself() {
        for name in ["/a/b.csv", "/a[1]/*?.csv", "/[[]", "/[*]x]", "/ü/{a,b}\\"] {
            assert_eq!(literal(&escape(name)).as_deref(), Some(name));
        }
        assert_eq!(literal("/a/[ab].csv"), None);
        assert_eq!(literal("/a/*.csv"), None);
    }
}
