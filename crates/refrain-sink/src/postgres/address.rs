//! The slot of a table: the site (which database), the table, and what of it is replaced.

use super::manner::Manner;
use refrain_core::{Error, Key, Result, SlotAddress};
use refrain_postgres::{Relation, quote_identifier, quote_literal};
use std::fmt::Write;

/// The sink's kind.
pub(super) const KIND: &str = "postgresql";

/// The site of a database in which Refrain has no tables yet: nothing was ever published there.
pub(super) const NO_SITE: &str = "unprepared";

/// A slot's address, taken apart.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place<'a> {
    /// The database's own identity.
    pub(super) site: &'a str,
    /// The slot within the database.
    pub(super) slot: &'a str,
}

/// The address of what a manner replaces. What it adds to, beside rows of others, has a slot for each key.
pub(super) fn address(site: &str, manner: &Manner, key: &Key) -> SlotAddress {
    let mut location = format!("{site}/{}", manner.relation());
    for (index, condition) in manner.scope.iter().enumerate() {
        let joint = if index == 0 { "where" } else { "and" };
        let (column, value) = (quote_identifier(&condition.column), quote_literal(&condition.value));
        let _infallible = write!(location, " {joint} {column} {} {value}", condition.comparison.operator());
    }
    if !manner.owns_scope() {
        let _infallible = write!(location, " key {}", quote_literal(&key.to_string()));
    }
    SlotAddress { sink: KIND.to_owned(), location }
}

/// Takes an address apart.
pub(super) fn place(slot: &SlotAddress) -> Result<Place<'_>> {
    let (site, slot) =
        slot.location.split_once('/').ok_or_else(|| Error::corrupt(format!("`{slot}` is no slot of a table")))?;
    Ok(Place { site, slot })
}

/// Whether two slots of one task meet: one is the whole table of the other, or the other itself. Two scopes of one table
/// meet as well if their columns differ: nobody can say that their rows do not.
pub(super) fn overlap(one: &SlotAddress, other: &SlotAddress) -> bool {
    let (Ok(one), Ok(other)) = (place(one), place(other)) else { return false };
    let ((table, scope), (other_table, other_scope)) = (split(one.slot), split(other.slot));
    one.site == other.site
        && table == other_table
        && (scope.is_empty() || other_scope.is_empty() || scope == other_scope)
}

/// The quoted table and the rest.
fn split(slot: &str) -> (&str, &str) {
    let mut quoted = false;
    for (index, character) in slot.char_indices() {
        match character {
            '"' => quoted = !quoted,
            ' ' if !quoted => return (&slot[..index], &slot[index..]),
            _ => {}
        }
    }
    (slot, "")
}

/// The table of a slot, and the condition that its rows meet, both as a statement needs them; nothing where rows of others
/// meet it too.
pub(super) fn scope_of(slot: &str) -> Option<(&str, &str)> {
    let (table, rest) = split(slot);
    match rest.strip_prefix(" where ") {
        None if rest.is_empty() => Some((table, "true")),
        Some(condition) if !ends_with_key(condition) => Some((table, condition)),
        _ => None,
    }
}

/// Whether a key follows the condition. Neither columns nor values of it are looked into: they are quoted.
fn ends_with_key(condition: &str) -> bool {
    let mut open = None;
    let mut rest = condition;
    while let Some(character) = rest.chars().next() {
        match open {
            None if rest.starts_with(" key ") => return true,
            None if matches!(character, '\'' | '"') => open = Some(character),
            Some(quote) if character == quote => open = None,
            _ => {}
        }
        rest = &rest[character.len_utf8()..];
    }
    false
}

/// A slot for people: names that need no quotes have none.
pub(super) fn shown(slot: &str) -> String {
    let mut shown = String::new();
    let mut rest = slot;
    while let Some(start) = rest.find(['"', '\'']) {
        shown.push_str(&rest[..start]);
        let quote = &rest[start..=start];
        let mut end = start + 1;
        while let Some(next) = rest[end..].find(quote) {
            end += next + 1;
            if !rest[end..].starts_with(quote) {
                break;
            }
            end += 1;
        }
        let quoted = &rest[start..end];
        let name = quoted.trim_matches('"');
        let plain = quote == "\""
            && name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        shown.push_str(if plain { name } else { quoted });
        rest = &rest[end..];
    }
    shown.push_str(rest);
    shown
}

/// The table of a slot, as it is quoted there.
pub(super) fn relation_of(slot: &str) -> &str {
    split(slot).0
}

/// A name that is nobody else's and fits into 63 bytes, for a relation of one attempt at one slot.
pub(super) fn relation_name(prefix: &str, attempt: refrain_core::AttemptId, slot: &SlotAddress) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(attempt.to_string().as_bytes()).update(&[0]).update(slot.location.as_bytes());
    format!("{prefix}_{}", &hasher.finalize().to_hex()[..32])
}

/// The staging table of one attempt at one slot, while it is written.
pub(super) fn stage_of(attempt: refrain_core::AttemptId, slot: &SlotAddress) -> Relation {
    Relation::new("refrain", relation_name("stage", attempt, slot))
}

/// The same once it is sealed: whoever still writes by the former name finds nothing.
pub(super) fn sealed_of(attempt: refrain_core::AttemptId, slot: &SlotAddress) -> Relation {
    Relation::new("refrain", relation_name("sealed", attempt, slot))
}

#[cfg(test)]
mod tests {
    use super::{scope_of, shown};

    #[test]
    fn a_slot_is_taken_apart_whatever_its_names_and_values_hold() {
        for (slot, scope) in [
            ("\"public\".\"t\"", Some(("\"public\".\"t\"", "true"))),
            ("\"a b\".\"c\" where \"dt\" = '1 key 2'", Some(("\"a b\".\"c\"", "\"dt\" = '1 key 2'"))),
            ("\"a\".\"t\" where \"x key y\" = 'it''s' key 'd 1'", None),
            ("\"a\".\"t\" key 'd 1'", None),
        ] {
            assert_eq!(scope_of(slot), scope, "{slot}");
        }
    }

    #[test]
    fn a_slot_is_shown_with_no_more_quotes_than_it_needs() {
        for (slot, text) in [
            ("\"public\".\"delays\" where \"dt\" = '2013-01-01'", "public.delays where dt = '2013-01-01'"),
            ("\"My.S\".\"a\"\"b\" where \"Dt\" = 'it''s \"x\"'", "\"My.S\".\"a\"\"b\" where \"Dt\" = 'it''s \"x\"'"),
        ] {
            assert_eq!(shown(slot), text);
        }
    }
}
