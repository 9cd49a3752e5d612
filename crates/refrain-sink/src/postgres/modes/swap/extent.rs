//! Sets of rows that are both a scope and the bounds of a partition: some leading columns of the key have one value each,
//! the next one lies between two, and the others are free.

use crate::postgres::catalog::Target;
use crate::postgres::manner::{Comparison, Manner};
use refrain_postgres::quote_literal;

/// How a table is partitioned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strategy {
    List,
    Range,
}

impl Strategy {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::List => "LIST",
            Self::Range => "RANGE",
        }
    }

    /// What a scope looks like.
    pub(super) fn hint(self) -> &'static str {
        match self {
            Self::List => "name the one value of the partition: where = \"dt = {date}\"",
            Self::Range => {
                "name the bounds of the partition: where = \"ts >= {date_start} AND ts < {date_end}\", or \"dt = {date}\" for one day"
            }
        }
    }
}

/// A column of the partition key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) name: String,
    pub(super) data_type: String,
}

impl Key {
    /// Whether each value has a next one, which is one more: only then a value is a range, and `<=` is `<`.
    fn is_discrete(&self) -> bool {
        matches!(self.data_type.as_str(), "date" | "smallint" | "integer" | "bigint")
    }

    fn value(&self, literal: &str) -> String {
        format!("CAST({literal} AS {})", self.data_type)
    }

    fn next(&self, value: &str) -> Option<String> {
        self.is_discrete().then(|| format!("CAST({value} + 1 AS {})", self.data_type))
    }
}

/// One end of a range, as the catalog has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Datum {
    Minimum,
    Maximum,
    /// A literal.
    Value(String),
}

/// The bounds of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Bounds {
    List(Vec<Datum>),
    Range(Vec<Datum>, Vec<Datum>),
}

impl Bounds {
    /// Reads what `pg_get_expr` makes of `relpartbound`; nothing for the DEFAULT partition.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("FOR VALUES ")?;
        if let Some(rest) = rest.strip_prefix("IN ") {
            return Some(Self::List(datums(rest)?.0));
        }
        let (lower, rest) = datums(rest.strip_prefix("FROM ")?)?;
        Some(Self::Range(lower, datums(rest.strip_prefix(" TO ")?)?.0))
    }
}

/// A list in parentheses, and what follows it.
fn datums(text: &str) -> Option<(Vec<Datum>, &str)> {
    let mut rest = text.strip_prefix('(')?;
    let mut datums = Vec::new();
    loop {
        let end = literal_end(rest)?;
        datums.push(match &rest[..end] {
            "MINVALUE" => Datum::Minimum,
            "MAXVALUE" => Datum::Maximum,
            literal => Datum::Value(literal.to_owned()),
        });
        match rest[end..].strip_prefix(", ") {
            Some(more) => rest = more,
            None => return Some((datums, rest[end..].strip_prefix(')')?)),
        }
    }
}

fn literal_end(text: &str) -> Option<usize> {
    let escapes = text.starts_with('E');
    let quote = usize::from(escapes);
    if !text[quote..].starts_with('\'') {
        return text.find([',', ')']);
    }
    let mut characters = text[quote + 1..].char_indices().peekable();
    while let Some((index, character)) = characters.next() {
        match character {
            '\\' if escapes => drop(characters.next()),
            '\'' if characters.peek().is_some_and(|(_, next)| *next == '\'') => drop(characters.next()),
            '\'' => return Some(quote + 1 + index + 1),
            _ => {}
        }
    }
    None
}

/// A set of rows. Values are SQL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Extent {
    /// The values of the leading columns.
    pub(super) equal: Vec<String>,
    /// What the next column is at least.
    pub(super) lower: Option<String>,
    /// What the next column is less than.
    pub(super) upper: Option<String>,
}

impl Extent {
    /// The rows of a scope.
    ///
    /// # Errors
    /// Why no bounds can say the same.
    pub(super) fn of_scope(target: &Target, manner: &Manner, strategy: Strategy, keys: &[Key]) -> Result<Self, String> {
        if let Some(other) = manner.scope.iter().find(|one| keys.iter().all(|key| key.name != one.column)) {
            return Err(format!("{} is no column of the partition key of {}", other.column, target.relation));
        }
        let mut extent = Self::default();
        let mut open = true;
        for key in keys {
            let conditions: Vec<_> = manner.scope.iter().filter(|one| one.column == key.name).collect();
            if conditions.is_empty() {
                open = false;
                continue;
            }
            if !open {
                return Err(format!("the columns before {} have no single value", key.name));
            }
            for condition in conditions {
                let value = key.value(&quote_literal(&condition.value));
                let place = match condition.comparison {
                    Comparison::Equal => {
                        extent.equal.push(value);
                        continue;
                    }
                    Comparison::AtLeast => (&mut extent.lower, Some(value)),
                    Comparison::Greater => (&mut extent.lower, key.next(&value)),
                    Comparison::Less => (&mut extent.upper, Some(value)),
                    Comparison::AtMost => (&mut extent.upper, key.next(&value)),
                };
                let (end, Some(value)) = place else {
                    return Err(format!(
                        "a range of {} contains its lower bound and not its upper one: write >= and <",
                        key.data_type
                    ));
                };
                if end.replace(value).is_some() {
                    return Err(format!("{} has two bounds on one side", key.name));
                }
                open = false;
            }
        }
        let ranged = extent.lower.is_some() || extent.upper.is_some();
        let columns = extent.equal.len() + usize::from(ranged);
        let named = keys.iter().filter(|key| manner.scope.iter().any(|one| one.column == key.name)).count();
        match strategy {
            _ if columns == 0 => Err("it names no column of the partition key".to_owned()),
            _ if columns != named => Err("a column has both one value and a range, or two values".to_owned()),
            Strategy::List if ranged => Err("a list has values and no ranges".to_owned()),
            Strategy::List => Ok(extent),
            Strategy::Range => {
                let extent = extent.normal(keys);
                if extent.equal.len() == keys.len() {
                    return Err(format!("one value of {} is no range", keys[keys.len() - 1].data_type));
                }
                Ok(extent)
            }
        }
    }

    /// The rows of a partition; nothing where no scope can say the same.
    pub(super) fn of_bounds(bounds: &Bounds, strategy: Strategy, keys: &[Key]) -> Option<Self> {
        match (bounds, strategy) {
            (Bounds::List(values), Strategy::List) => match (values.as_slice(), keys) {
                // NULL equals nothing, whatever it is cast to.
                ([Datum::Value(literal)], [key]) => Some(Self { equal: vec![key.value(literal)], ..Self::default() }),
                _ => None,
            },
            (Bounds::Range(lower, upper), Strategy::Range) => Self::of_range(lower, upper, keys),
            _ => None,
        }
    }

    fn of_range(lower: &[Datum], upper: &[Datum], keys: &[Key]) -> Option<Self> {
        let mut extent = Self::default();
        let mut ends = lower.iter().zip(upper).zip(keys);
        for ((low, high), key) in ends.by_ref() {
            if let (Datum::Value(literal), true) = (low, low == high) {
                extent.equal.push(key.value(literal));
                continue;
            }
            let place = extent.equal.len() + 1;
            extent.lower = end(low, &lower[place..], key).ok()?;
            extent.upper = end(high, &upper[place..], key).ok()?;
            return Some(extent.normal(keys));
        }
        None
    }

    /// One way to say what can be said in two.
    fn normal(mut self, keys: &[Key]) -> Self {
        if self.lower.is_none()
            && self.upper.is_none()
            && let Some(value) = self.equal.last()
            && let Some(next) = keys[self.equal.len() - 1].next(value)
        {
            self.lower = self.equal.pop();
            self.upper = Some(next);
        }
        self
    }

    /// The question whose answer tells whether two are the same rows; nothing where they cannot be.
    pub(super) fn is(&self, other: &Self) -> Option<String> {
        let ends = |extent: &Self| (extent.equal.len(), extent.lower.is_some(), extent.upper.is_some());
        if ends(self) != ends(other) {
            return None;
        }
        let ours = self.equal.iter().chain(&self.lower).chain(&self.upper);
        let theirs = other.equal.iter().chain(&other.lower).chain(&other.upper);
        Some(ours.zip(theirs).map(|(one, other)| format!("{one} = {other}")).collect::<Vec<_>>().join(" AND "))
    }

    /// `FOR VALUES …`
    pub(super) fn bounds(&self, strategy: Strategy, columns: usize) -> String {
        if strategy == Strategy::List {
            return format!("FOR VALUES IN ({})", self.equal.join(", "));
        }
        let side = |end: Option<&String>, open: &'static str| {
            let mut values: Vec<&str> = self.equal.iter().map(String::as_str).collect();
            values.push(end.map_or(open, String::as_str));
            // What follows a value is the least, so that the bound is the value itself.
            values.resize(columns, if end.is_some() { "MINVALUE" } else { open });
            values.join(", ")
        };
        format!(
            "FOR VALUES FROM ({}) TO ({})",
            side(self.lower.as_ref(), "MINVALUE"),
            side(self.upper.as_ref(), "MAXVALUE")
        )
    }
}

/// One end of the range of a column, given what the further columns have there: all the least (the value is the end) or all
/// the greatest (the value is the last before it). Nothing where it is open.
fn end(datum: &Datum, further: &[Datum], key: &Key) -> Result<Option<String>, FurtherColumnsMatter> {
    let Datum::Value(literal) = datum else { return Ok(None) };
    let value = key.value(literal);
    if further.iter().all(|datum| *datum == Datum::Minimum) {
        return Ok(Some(value));
    }
    let next = further.iter().all(|datum| *datum == Datum::Maximum).then(|| key.next(&value)).flatten();
    next.map(Some).ok_or(FurtherColumnsMatter)
}

struct FurtherColumnsMatter;

#[cfg(test)]
mod tests {
    use super::{Bounds, Datum, Extent, Key, Strategy};

    fn keys(types: &[&str]) -> Vec<Key> {
        let key =
            |(index, data_type): (usize, &&str)| Key { name: format!("c{index}"), data_type: (*data_type).to_owned() };
        types.iter().enumerate().map(key).collect()
    }

    fn extent(bounds: &str, types: &[&str]) -> Option<Extent> {
        Extent::of_bounds(&Bounds::parse(bounds).unwrap(), Strategy::Range, &keys(types))
    }

    #[test]
    fn bounds_are_read_as_the_server_writes_them() {
        let value = |text: &str| Datum::Value(text.to_owned());
        let list = Bounds::parse("FOR VALUES IN ('it''s, (a)', E'b\\\\''', 3, NULL)");
        let values = ["'it''s, (a)'", "E'b\\\\'''", "3", "NULL"].map(value).to_vec();
        assert_eq!(list, Some(Bounds::List(values)));
        let range = Bounds::parse("FOR VALUES FROM ('2013-01-01', MINVALUE) TO ('2013-01-02', MAXVALUE)");
        let (low, high) = ([value("'2013-01-01'"), Datum::Minimum], [value("'2013-01-02'"), Datum::Maximum]);
        assert_eq!(range, Some(Bounds::Range(low.to_vec(), high.to_vec())));
        assert_eq!(Bounds::parse("DEFAULT"), None);
    }

    #[test]
    fn bounds_that_are_the_same_rows_are_one_extent() {
        let one = extent("FOR VALUES FROM (7, MINVALUE) TO (8, MINVALUE)", &["integer", "text"]).unwrap();
        let other = extent("FOR VALUES FROM (7, MINVALUE) TO (7, MAXVALUE)", &["integer", "text"]).unwrap();
        assert!(one.is(&other).is_some());
        assert_eq!(one.lower, other.lower);
        let within = extent("FOR VALUES FROM (7, 'a') TO (7, 'c')", &["integer", "text"]).unwrap();
        assert_eq!((within.equal.len(), within.is(&one)), (1, None));
    }

    #[test]
    fn bounds_that_no_scope_can_say_are_no_extent() {
        assert_eq!(extent("FOR VALUES FROM (7, 'a') TO (9, 'c')", &["integer", "text"]), None);
        assert_eq!(extent("FOR VALUES FROM ('a', 1) TO ('b', MAXVALUE)", &["text", "integer"]), None);
    }

    #[test]
    fn an_extent_is_said_as_bounds() {
        let extent = Extent { equal: vec!["1".into()], lower: Some("2".into()), upper: Some("3".into()) };
        assert_eq!(extent.bounds(Strategy::Range, 3), "FOR VALUES FROM (1, 2, MINVALUE) TO (1, 3, MINVALUE)");
        let open = Extent { equal: vec!["'a'".into()], ..Extent::default() };
        assert_eq!(open.bounds(Strategy::Range, 2), "FOR VALUES FROM ('a', MINVALUE) TO ('a', MAXVALUE)");
    }
}
