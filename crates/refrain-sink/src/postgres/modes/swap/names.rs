//! Names of a partition that is new, and of its indexes: like those of its siblings, and nobody else's.

use super::indexes;
use crate::postgres::catalog::Target;
use crate::postgres::manner::Manner;
use crate::postgres::modes::Work;
use refrain_postgres::{Fault, Relation, Transaction, quote_identifier, quote_literal};

/// The most bytes of a name (<https://www.postgresql.org/docs/current/sql-syntax-lexical.html>).
const LENGTH: usize = 63;

/// How the value of a partition stands in its name.
const WRITINGS: [fn(&str) -> String; 3] = [
    str::to_owned,
    |value| value.replace(|c: char| !c.is_alphanumeric(), "_"),
    |value| value.replace(|c: char| !c.is_alphanumeric(), ""),
];

/// What a value may lose at its end in a name: the first day of a month, the first hour of a day.
const ENDS: [&str; 6] = ["", "-01", "-01-01", " 00:00:00", " 00:00:00+00", ":00:00"];

/// A free name for the partition of the scope.
pub(super) fn partition(
    transaction: &mut Transaction<'_>,
    target: &Target,
    manner: &Manner,
) -> Result<Relation, Fault> {
    let value = manner.scope.first().map(|condition| condition.value.clone()).unwrap_or_default();
    let sql = "SELECT n.nspname::text, c.relname::text, \
                 substring(pg_get_expr(c.relpartbound, c.oid) FROM '^FOR VALUES (?:IN|FROM) \\(''?([^'',)]*)') \
               FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_namespace n ON n.oid = c.relnamespace \
               WHERE i.inhparent = $1::text::oid ORDER BY c.oid::bigint DESC LIMIT 20";
    for row in transaction.query(sql, &[Some(&target.oid)])? {
        let [Some(schema), Some(name), Some(other)] = <[Option<String>; 3]>::try_from(row).unwrap_or_default() else {
            continue;
        };
        if let Some(name) = like(&name, &other, &value) {
            return free(transaction, &schema, &name);
        }
    }
    let whole: Vec<_> = manner.scope.iter().map(|condition| WRITINGS[1](&condition.value)).collect();
    let relation = &target.relation;
    free(transaction, &relation.schema, &format!("{}_{}", relation.name, whole.join("_")))
}

/// The name for a value, made as another value's was.
fn like(name: &str, other: &str, value: &str) -> Option<String> {
    for end in ENDS {
        let (Some(other), Some(value)) = (other.strip_suffix(end), value.strip_suffix(end)) else { continue };
        for write in WRITINGS {
            let (other, value) = (write(other), write(value));
            if !other.is_empty() && !value.is_empty() && name.ends_with(&other) {
                return Some(format!("{}{value}", &name[..name.len() - other.len()]));
            }
        }
    }
    None
}

/// Indexes of the first partition of a scope are named after those of the partitioned table.
pub(super) fn indexes(transaction: &mut Transaction<'_>, work: &Work<'_>, new: &Relation) -> Result<(), Fault> {
    let mut built = indexes::of(transaction, &work.stage.oid)?;
    let parent = &work.target.relation.name;
    for wanted in indexes::of(transaction, &work.target.oid)? {
        let Some(place) = built.iter().position(|index| index.is_like(&wanted)) else { continue };
        let rest = wanted.name.name.strip_prefix(parent.as_str()).filter(|rest| rest.starts_with('_'));
        let name = match rest {
            Some(rest) => format!("{}{rest}", new.name),
            None => format!("{}_{}", new.name, wanted.name.name),
        };
        let name = free(transaction, &new.schema, &name)?;
        let index = built.remove(place);
        transaction.simple(&format!("ALTER INDEX {} RENAME TO {}", index.name, quote_identifier(&name.name)))?;
    }
    Ok(())
}

/// The name itself, or with a number where somebody has it; shortened where it is too long.
fn free(transaction: &mut Transaction<'_>, schema: &str, name: &str) -> Result<Relation, Fault> {
    let mut count = 1u32;
    loop {
        let end = if count == 1 { String::new() } else { format!("_{count}") };
        let mut cut = LENGTH - end.len();
        let digest;
        let tail = if name.len() > cut {
            // Names that differ only in what is cut off stay different.
            digest = format!("_{}", &blake3::hash(name.as_bytes()).to_hex()[..8]);
            cut -= digest.len();
            digest.as_str()
        } else {
            ""
        };
        let candidate = Relation::new(schema, format!("{}{tail}{end}", &name[..name.floor_char_boundary(cut)]));
        let sql = format!(
            "SELECT 1::text WHERE to_regclass({quoted}) IS NOT NULL OR to_regtype({quoted}) IS NOT NULL",
            quoted = quote_literal(&candidate.to_string())
        );
        if transaction.query(&sql, &[])?.is_empty() {
            return Ok(candidate);
        }
        count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::like;

    #[test]
    fn a_partition_is_named_as_its_siblings_are() {
        for (name, other, value, expected) in [
            ("delays_2013_01_01", "2013-01-01", "2013-02-03", Some("delays_2013_02_03")),
            ("delays_p20130101", "2013-01-01", "2013-02-03", Some("delays_p20130203")),
            ("delays_2013_01", "2013-01-01", "2013-02-01", Some("delays_2013_02")),
            ("delays_y2013", "2013-01-01", "2014-01-01", Some("delays_y2014")),
            ("delays_jfk", "jfk", "lga", Some("delays_lga")),
            ("first", "2013-01-01", "2013-02-03", None),
        ] {
            assert_eq!(like(name, other, value).as_deref(), expected, "{name}");
        }
    }
}
