//! Extended statistics of a table.

use refrain_postgres::{Fault, Relation, Transaction};

pub(super) struct Statistic {
    pub(super) name: Relation,
    /// What CREATE STATISTICS has between the name and the table.
    pub(super) definition: String,
    /// How much ANALYZE samples, where that was set.
    pub(super) target: Option<String>,
}

/// The extended statistics of a table, in order of their names.
pub(super) fn of(transaction: &mut Transaction<'_>, oid: &str) -> Result<Vec<Statistic>, Fault> {
    let sql = "SELECT n.nspname::text, s.stxname::text, CASE WHEN s.stxstattarget >= 0 THEN s.stxstattarget::text END, \
               format('CREATE STATISTICS %I.%I', n.nspname, s.stxname), \
               format(' FROM %I.%I', m.nspname, c.relname), pg_get_statisticsobjdef(s.oid) \
               FROM pg_statistic_ext s JOIN pg_namespace n ON n.oid = s.stxnamespace \
               JOIN pg_class c ON c.oid = s.stxrelid JOIN pg_namespace m ON m.oid = c.relnamespace \
               WHERE s.stxrelid = $1::text::oid ORDER BY s.stxname";
    let mut found = Vec::new();
    for row in transaction.query(sql, &[Some(oid)])? {
        let [Some(schema), Some(name), target, Some(before), Some(after), Some(whole)] =
            <[Option<String>; 6]>::try_from(row).unwrap_or_default()
        else {
            continue;
        };
        let definition = whole.strip_prefix(&before).and_then(|rest| rest.strip_suffix(&after));
        let Some(definition) = definition else {
            return Err(
                refrain_core::Error::corrupt(format!("cannot read the definition of statistics: {whole}")).into()
            );
        };
        found.push(Statistic { name: Relation::new(schema, name), definition: definition.to_owned(), target });
    }
    Ok(found)
}
