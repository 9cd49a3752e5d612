//! Which partition a scope names: the one whose bounds are the scope, neither less nor more. Everything else that a scope
//! could be is refused, since rows beside it would vanish (DATA-05, SPK-05), or rows of it would have no place.

use super::extent::{Bounds, Extent, Key, Strategy};
use crate::postgres::catalog::Target;
use crate::postgres::manner::Manner;
use crate::postgres::scope;
use refrain_core::Error;
use refrain_postgres::{Fault, Relation, Transaction};
use serde_json::Value;

/// The place of a scope in a partitioned table.
#[derive(Debug)]
pub(super) struct Named {
    /// The partition that stands there; nothing while there is none.
    pub(super) standing: Option<Leaf>,
    /// The partition for all rows that no other takes.
    pub(super) rest: Option<Leaf>,
    /// `FOR VALUES …`, as ATTACH needs it.
    pub(super) bounds: String,
    /// The columns of the partition key.
    pub(super) keys: Vec<Key>,
}

/// A table with its number in the catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Leaf {
    pub(super) relation: Relation,
    pub(super) oid: String,
}

/// A partition that may have rows of the scope.
struct Candidate {
    leaf: Leaf,
    kind: String,
    bounds: String,
}

/// Finds the place of the manner's scope.
///
/// # Errors
/// `invalid` when the table has no partitions of which one can be named, or the scope is another set of rows than a
/// partition: both are named.
pub(super) fn find(transaction: &mut Transaction<'_>, target: &Target, manner: &Manner) -> Result<Named, Fault> {
    let (strategy, keys, rest) = partitioning(transaction, target)?;
    let condition = scope::condition(target, manner, "")?;
    let extent = Extent::of_scope(target, manner, strategy, &keys)
        .map_err(|why| unfit(target, &condition, strategy, &keys, &why))?;
    if let (Some(lower), Some(upper)) = (&extent.lower, &extent.upper)
        && !holds(transaction, &format!("{lower} < {upper}"))?
    {
        return Err(unfit(target, &condition, strategy, &keys, "it has no rows").into());
    }
    let mut others = Vec::new();
    for candidate in candidates(transaction, target, &condition)? {
        if rest.as_ref().is_some_and(|rest| rest.oid == candidate.leaf.oid) {
            continue;
        }
        let bounds = Bounds::parse(&candidate.bounds);
        let same = match bounds.as_ref().and_then(|bounds| Extent::of_bounds(bounds, strategy, &keys)) {
            Some(other) => match extent.is(&other) {
                Some(question) => holds(transaction, &question)?,
                None => false,
            },
            None => false,
        };
        if same {
            demand_table(target, &candidate)?;
            return Ok(Named { standing: Some(candidate.leaf), rest, bounds: candidate.bounds, keys });
        }
        others.push(candidate);
    }
    match others.first() {
        None => Ok(Named { standing: None, rest, bounds: extent.bounds(strategy, keys.len()), keys }),
        Some(other) => Err(Error::invalid(format!(
            "`where` ({condition}) is not what a partition of {} holds: rows of it belong to {} {}{}",
            target.relation,
            other.leaf.relation,
            other.bounds,
            match others.len() {
                1 => String::new(),
                count => format!(" and to {} more", count - 1),
            }
        ))
        .hint("let `where` name one whole partition; to replace other rows: mode = \"replace\"")
        .into()),
    }
}

fn unfit(target: &Target, condition: &str, strategy: Strategy, keys: &[Key], why: &str) -> Error {
    let names = keys.iter().map(|key| key.name.as_str()).collect::<Vec<_>>().join(", ");
    Error::invalid(format!(
        "`where` ({condition}) names no partition of {}, which has partitions by {} ({names}): {why}",
        target.relation,
        strategy.name()
    ))
    .hint(strategy.hint())
}

/// What a swap can replace: a table of rows.
fn demand_table(target: &Target, candidate: &Candidate) -> Result<(), Error> {
    let relation = &candidate.leaf.relation;
    match candidate.kind.as_str() {
        "r" => Ok(()),
        "p" => Err(Error::invalid(format!("the partition {relation} of {} has partitions itself", target.relation))
            .hint(format!("publish its partitions: table = '{relation}'"))),
        _ => Err(Error::invalid(format!("the partition {relation} of {} is a foreign table", target.relation))
            .hint("use mode = \"replace\"")),
    }
}

/// How the table is partitioned, and its DEFAULT partition.
fn partitioning(
    transaction: &mut Transaction<'_>,
    target: &Target,
) -> Result<(Strategy, Vec<Key>, Option<Leaf>), Fault> {
    if !target.partitioned {
        return Err(Error::invalid(format!("{} has no partitions", target.relation))
            .hint("use mode = \"replace\", or create the table with PARTITION BY")
            .into());
    }
    let sql = "SELECT p.partstrat::text, a.attname::text, d.oid::text, n.nspname::text, d.relname::text \
               FROM pg_partitioned_table p \
               CROSS JOIN LATERAL unnest(p.partattrs::int2[]) WITH ORDINALITY AS k(attnum, place) \
               LEFT JOIN pg_attribute a ON a.attrelid = p.partrelid AND a.attnum = k.attnum AND k.attnum > 0 \
               LEFT JOIN pg_class d ON d.oid = p.partdefid AND p.partdefid <> 0 \
               LEFT JOIN pg_namespace n ON n.oid = d.relnamespace \
               WHERE p.partrelid = $1::text::oid ORDER BY k.place";
    let rows = transaction.query(sql, &[Some(&target.oid)])?;
    let strategy = match rows.first().and_then(|row| row.first()?.as_deref()) {
        Some("l") => Strategy::List,
        Some("r") => Strategy::Range,
        _ => {
            return Err(Error::invalid(format!("{} has partitions by HASH, which no `where` names", target.relation))
                .hint("use mode = \"replace\"")
                .into());
        }
    };
    let mut keys = Vec::new();
    let mut rest = None;
    for row in rows {
        let [_, name, oid, schema, default] = <[Option<String>; 5]>::try_from(row).unwrap_or_default();
        let Some(name) = name else {
            return Err(Error::invalid(format!(
                "{} has partitions by an expression, which no `where` names",
                target.relation
            ))
            .hint("use mode = \"replace\"")
            .into());
        };
        let data_type = target.demand(&name, "its partition key")?.data_type.clone();
        keys.push(Key { name, data_type });
        if let (Some(oid), Some(schema), Some(name)) = (oid, schema, default) {
            rest = Some(Leaf { relation: Relation::new(schema, name), oid });
        }
    }
    Ok((strategy, keys, rest))
}

/// The partitions directly below the table that may have rows of the scope: those that the planner would read.
fn candidates(transaction: &mut Transaction<'_>, target: &Target, condition: &str) -> Result<Vec<Candidate>, Fault> {
    let plan = transaction.simple(&format!(
        "SET LOCAL enable_partition_pruning = on; SET LOCAL constraint_exclusion = off; \
         EXPLAIN (VERBOSE, COSTS OFF, FORMAT JSON) SELECT 1 FROM {} WHERE {condition}",
        target.relation
    ))?;
    let text = plan.into_iter().next_back().and_then(|row| row.into_iter().next().flatten()).unwrap_or_default();
    let plan: Value = serde_json::from_str(&text)
        .map_err(|error| Error::corrupt("cannot read the server's plan of a query").because(error))?;
    let mut scanned = Vec::new();
    relations(&plan, &mut scanned);
    let sql = "SELECT c.oid::text, m.nspname::text, c.relname::text, c.relkind::text, pg_get_expr(c.relpartbound, c.oid) \
               FROM pg_class s JOIN pg_namespace n ON n.oid = s.relnamespace \
               CROSS JOIN LATERAL pg_partition_ancestors(s.oid) AS up(relid) \
               JOIN pg_inherits i ON i.inhrelid = up.relid AND i.inhparent = $3::text::oid \
               JOIN pg_class c ON c.oid = up.relid JOIN pg_namespace m ON m.oid = c.relnamespace \
               WHERE n.nspname = $1 AND s.relname = $2";
    let mut found: Vec<Candidate> = Vec::new();
    for (schema, name) in scanned {
        for row in transaction.query(sql, &[Some(&schema), Some(&name), Some(&target.oid)])? {
            let Ok([Some(oid), Some(schema), Some(name), Some(kind), Some(bounds)]) =
                <[Option<String>; 5]>::try_from(row)
            else {
                continue;
            };
            if found.iter().all(|candidate| candidate.leaf.oid != oid) {
                found.push(Candidate { leaf: Leaf { relation: Relation::new(schema, name), oid }, kind, bounds });
            }
        }
    }
    Ok(found)
}

/// The relations that a plan reads (<https://www.postgresql.org/docs/current/sql-explain.html>).
fn relations(plan: &Value, into: &mut Vec<(String, String)>) {
    match plan {
        Value::Object(node) => {
            if let (Some(Value::String(schema)), Some(Value::String(name))) =
                (node.get("Schema"), node.get("Relation Name"))
            {
                into.push((schema.clone(), name.clone()));
            }
            node.values().for_each(|value| relations(value, into));
        }
        Value::Array(nodes) => nodes.iter().for_each(|value| relations(value, into)),
        _ => {}
    }
}

fn holds(transaction: &mut Transaction<'_>, question: &str) -> Result<bool, Fault> {
    let rows = transaction.query(&format!("SELECT ({question})::text"), &[])?;
    Ok(rows.first().and_then(|row| row.first()?.as_deref()) == Some("true"))
}
