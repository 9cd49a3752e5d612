//! `out.NAME = { to = "postgresql://…", table = "…" }`: a table of a database.

use super::expand::expand;
use super::section::{Section, describe};
use crate::table::{Details, SourceSpec, TableSpec, parse_scope};
use refrain_core::{Error, Result, nearest};
use refrain_load::Format;
use refrain_postgres::{Link, Relation};
use refrain_sink::postgres::Mode;
use std::path::Path;
use toml::Value;

/// The keys of a table that a URL can have.
const KEYS: [&str; 16] = [
    "table",
    "mode",
    "where",
    "from",
    "sql",
    "format",
    "null",
    "key",
    "exclude",
    "order_by",
    "delete_missing",
    "set_again",
    "run_column",
    "covers",
    "allow_shrink",
    "truncate",
];

type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The keys that only a table has.
pub(super) const OWN: [&str; 2] = ["to", "table"];

/// The keys of other outputs that go with a table, too, and the one that is a table itself.
const COMMON: [&str; 6] = ["set", "min_rows", "min_bytes", "check", "allow_empty", "stdout"];

/// Takes what is declared of a table; what is declared of every output stays.
pub(super) fn read(section: &mut Section, lookup: Lookup<'_>) -> Result<TableSpec> {
    section.refuse_others(&[&["to"][..], &KEYS, &COMMON].concat())?;
    let link = link(section, lookup)?;
    let relation = match section.text("table")? {
        Some(text) => {
            let text = expand(&section.name("table"), &text, lookup)?;
            Relation::parse(&text).map_err(|error| error.within(format!("`{}`", section.name("table"))))?
        }
        None => {
            return Err(Error::invalid(format!("`{}` is missing", section.name("table")))
                .hint("name the table: table = \"public.delays\""));
        }
    };
    let scope = match section.text("where")? {
        Some(text) => {
            let text = expand(&section.name("where"), &text, lookup)?;
            parse_scope(&text).map_err(|error| error.within(format!("`{}`", section.name("where"))))?
        }
        None => Vec::new(),
    };
    let mode = mode(section)?;
    let source = source(section, lookup)?;
    let details = Details {
        key: list(section, "key")?,
        exclude: list(section, "exclude")?,
        set: set(section)?,
        order_by: list(section, "order_by")?,
        delete_missing: section.flag("delete_missing")?.unwrap_or(false),
        set_again: section.flag("set_again")?.unwrap_or(false),
        run_column: section.text("run_column")?,
        covers: list(section, "covers")?,
        allow_shrink: section.flag("allow_shrink")?.unwrap_or(false),
        truncate: section.flag("truncate")?.unwrap_or(false),
    };
    let spec = TableSpec { link, relation, mode, scope, source, details };
    check(section, &spec)?;
    Ok(spec)
}

/// Reads a table from a URL, as the command line has it: `postgresql://host/database?table=…&mode=…`; what is no key of a
/// table is left to the connection.
///
/// # Errors
/// As for the file, the keys named as parameters of the URL.
pub fn table_from_url(url: &str) -> Result<TableSpec> {
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    let decoded = |text: &str| {
        let text = text.replace('+', " ");
        let decoded = percent_encoding::percent_decode_str(&text).decode_utf8().map(std::borrow::Cow::into_owned);
        decoded.map_err(|_| Error::invalid("a parameter of the URL is not valid UTF-8 once it is decoded"))
    };
    let mut table = toml::Table::new();
    let mut connection = Vec::new();
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        if !KEYS.contains(&key) {
            connection.push(parameter);
            continue;
        }
        // The shell has filled in what is to be filled in.
        let text = decoded(value)?.replace('$', "$$");
        let value = match key {
            "delete_missing" | "set_again" | "allow_shrink" | "truncate" => Value::Boolean(text != "false"),
            "key" | "exclude" | "order_by" | "covers" => {
                Value::Array(text.split(',').map(|item| Value::String(item.trim().to_owned())).collect())
            }
            _ => Value::String(text),
        };
        if table.insert(key.to_owned(), value).is_some() {
            return Err(Error::invalid(format!("`{key}` is given twice in the URL of a table")));
        }
    }
    let to = if connection.is_empty() { base.to_owned() } else { format!("{base}?{}", connection.join("&")) };
    table.insert("to".to_owned(), Value::String(to.replace('$', "$$")));
    let mut section = Section::new("", table);
    let spec = read(&mut section, &|_| None).map_err(as_parameters)?;
    section.done()?;
    Ok(spec)
}

/// What is wrong where each partition would replace the rows of the others.
pub(super) fn one_for_all(error: Error) -> Error {
    match &error.hint {
        Some(hint) if hint.starts_with("add ") => error.hint(
            "say which rows one partition has: mode = \"replace\", where = \"dt = {date}\"; or let the task have no `partition`",
        ),
        _ => error,
    }
}

/// A hint that shows lines of the file shows, too, what they are in a URL.
fn as_parameters(error: Error) -> Error {
    match &error.hint {
        Some(hint) if hint.contains(" = \"") => {
            let hint = format!("{hint}; in a URL, KEY = \"VALUE\" is ?KEY=VALUE, and &KEY=VALUE for further ones");
            error.hint(hint)
        }
        _ => error,
    }
}

fn link(section: &mut Section, lookup: Lookup<'_>) -> Result<Link> {
    let key = section.name("to");
    let Some(text) = section.text("to")? else {
        return Err(Error::invalid(format!("`{key}` is missing"))
            .hint("say which database holds the table: to = \"postgresql://host/database\""));
    };
    let text = expand(&key, &text, lookup)?;
    if !Link::is_one(&text) {
        return Err(Error::invalid(format!("`{key}` names no database that this build publishes to"))
            .hint("write postgresql://USER@HOST:PORT/DATABASE; `refrain sinks` lists the sinks of this build"));
    }
    Link::parse(&text).map_err(|error| error.within(format!("`{key}`")))
}

fn mode(section: &mut Section) -> Result<Mode> {
    let key = section.name("mode");
    let names = Mode::ALL.map(Mode::name);
    let Some(name) = section.text("mode")? else {
        return Err(Error::invalid(format!("`{key}` is missing")).hint(format!(
            "say what becomes of the rows that are there: one of \"{}\" (docs/POSTGRESQL.md)",
            names.join("\", \"")
        )));
    };
    Mode::ALL.into_iter().find(|mode| mode.name() == name).ok_or_else(|| {
        let error = Error::invalid(format!("`{key}` must be one of \"{}\", not \"{name}\"", names.join("\", \"")));
        match nearest(&name, names) {
            Some(known) => error.hint(format!("did you mean \"{known}\"?")),
            None => error,
        }
    })
}

fn source(section: &mut Section, lookup: Lookup<'_>) -> Result<SourceSpec> {
    let (from, sql) = (section.text("from")?, section.text("sql")?);
    let (format, null) = (section.text("format")?, section.text("null")?);
    match (from, sql) {
        (Some(_), Some(_)) => Err(Error::invalid(format!("`{}` stands beside `sql`", section.name("from")))
            .hint("rows come from a file that the command writes, or from SQL: leave one of them away")),
        (Some(name), None) => {
            let key = section.name("from");
            let name = expand(&key, &name, lookup)?;
            let format = format_of(section, &name, format)?;
            if name.contains('/') || Path::new(&name).file_name().is_none() {
                return Err(Error::invalid(format!("`{key}` is the base name of the file that the command writes"))
                    .hint("write a name such as \"delays.csv\"; the command finds its place in $REFRAIN_OUT"));
            }
            Ok(SourceSpec::File { name, format, null })
        }
        (None, sql) => {
            if let Some(key) = [("format", format.is_some()), ("null", null.is_some())].iter().find(|(_, is)| *is) {
                return Err(Error::invalid(format!("`{}` is for a file (`from`)", section.name(key.0))));
            }
            Ok(match sql {
                Some(file) => SourceSpec::Sql { file: expand(&section.name("sql"), &file, lookup)? },
                None => SourceSpec::Direct,
            })
        }
    }
}

fn format_of(section: &Section, name: &str, declared: Option<String>) -> Result<String> {
    let names = || Format::ALL.map(Format::name).join("\", \"");
    let found = match &declared {
        Some(declared) => Format::named(declared),
        None => Format::of(name),
    };
    match found {
        Some(format) => Ok(format.name().to_owned()),
        None => Err(Error::invalid(match declared {
            Some(declared) => {
                format!("`{}` must be one of \"{}\", not \"{declared}\"", section.name("format"), names())
            }
            None => format!("`{}` = \"{name}\" does not tell its format", section.name("from")),
        })
        .hint(format!("add `format`: one of \"{}\"", names()))),
    }
}

/// A text or a list of texts.
fn list(section: &mut Section, key: &str) -> Result<Vec<String>> {
    match section.take(key) {
        None => Ok(Vec::new()),
        Some(Value::String(one)) => Ok(vec![one]),
        Some(Value::Array(items)) => items
            .into_iter()
            .map(|item| match item {
                Value::String(text) => Ok(text),
                other => Err(section.wrong(key, "a list of texts", &other)),
            })
            .collect(),
        Some(other) => Err(section.wrong(key, "a text or a list of texts", &other)),
    }
}

fn set(section: &mut Section) -> Result<Vec<(String, String)>> {
    let Some(set) = section.section("set")? else { return Ok(Vec::new()) };
    let name = set.name("");
    set.entries()
        .map(|(column, value)| match value {
            Value::String(expression) => Ok((column, expression)),
            other => Err(Error::invalid(format!("`{name}{column}` must be a text, not {}", describe(&other)))),
        })
        .collect()
}

/// What fits no mode.
fn check(section: &Section, spec: &TableSpec) -> Result<()> {
    let details = &spec.details;
    let merge = spec.mode == Mode::Merge;
    let only = [
        ("key", !details.key.is_empty(), merge, "merge"),
        ("exclude", !details.exclude.is_empty(), merge, "merge"),
        ("set", !details.set.is_empty(), merge, "merge"),
        ("order_by", !details.order_by.is_empty(), merge, "merge"),
        ("delete_missing", details.delete_missing, merge, "merge"),
        ("set_again", details.set_again, merge, "merge"),
        ("run_column", details.run_column.is_some(), spec.mode == Mode::Append, "append"),
        ("truncate", details.truncate, spec.mode == Mode::Table, "table"),
    ];
    if let Some((key, _, _, mode)) = only.iter().find(|(_, given, fits, _)| *given && !fits) {
        return Err(Error::invalid(format!("`{}` is for `mode = \"{mode}\"`", section.name(key))));
    }
    let scoped = !spec.scope.is_empty();
    match spec.mode {
        Mode::Replace | Mode::SwapPartition if !scoped => {
            Err(Error::invalid(format!("`{}` is missing: which rows belong to one partition?", section.name("where")))
                .hint("write where = \"dt = {date}\"; to replace the whole table: mode = \"table\""))
        }
        Mode::Table if scoped => {
            Err(Error::invalid(format!("`{}` does not go with `mode = \"table\"`", section.name("where")))
                .hint("to replace the rows of the scope: mode = \"replace\""))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::table_from_url;

    #[test]
    fn a_table_is_read_from_a_url() {
        let url = "postgresql://u:s%24cret@h:5433/db?connect_timeout=3&table=mart.delays&mode=merge&key=dt,carrier\
                   &where=dt+%3D+%7Bdate%7D&from=a.csv&delete_missing=true";
        let spec = table_from_url(url).unwrap();
        assert_eq!(spec.link.to_string(), "postgresql://h:5433/db");
        assert_eq!(spec.relation.to_string(), "\"mart\".\"delays\"");
        assert_eq!((spec.details.key.len(), spec.scope.len(), spec.details.delete_missing), (2, 1, true));
        assert_eq!(spec.file(), Some("a.csv"));
    }

    #[test]
    fn what_a_url_lacks_is_named() {
        let said = |url: &str| table_from_url(url).unwrap_err().to_string();
        assert!(said("postgresql://h/db").contains("`table` is missing"));
        assert!(said("postgresql://h/db?table=t").contains("`mode` is missing"));
        assert!(said("postgresql://h/db?table=t&mode=replac").contains("replac"));
        let hint = table_from_url("postgresql://h/db?table=t&mode=replace").unwrap_err().hint.unwrap();
        assert!(hint.contains("where = \"dt = {date}\"") && hint.contains("&KEY=VALUE"), "{hint}");
        assert!(said("postgresql://u:hush@h/db?table=t&tabel=x&mode=table").contains("tabel"));
        assert!(!said("postgresql://u:hush@h/db?tabel=x&table=t&mode=table").contains("hush"));
    }
}
