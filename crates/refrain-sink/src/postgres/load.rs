//! Rows of a file that the task wrote, streamed into the staging table.

use super::catalog::{Target, list};
use super::seal::Found;
use super::stage::{SCOPE_CHECK, Stage};
use refrain_core::{Error, Result, counted};
use refrain_load::{Format, Options, Shape, Source, parse_context};
use refrain_postgres::{Fault, Refusal, Transaction};
use std::path::Path;

/// What other programs write for NULL.
const MEANT_AS_NULL: [&str; 9] = ["NA", "N/A", "NULL", "null", "None", "nan", "NaN", "\\N", "-"];

/// Where the wanted size of a chunk is reached by itself.
const CHUNK: usize = 256 * 1024;

/// Loads a file.
///
/// # Errors
/// `guard` when it is missing, has a column that the table has not, lacks one that the table wants, or has a row that the
/// server refuses: the message names file, line, column and value.
pub(super) fn load(
    transaction: &mut Transaction<'_>,
    stage: &Stage,
    target: &Target,
    path: &Path,
    format: &str,
    null: Option<&str>,
) -> Result<Found, Fault> {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    if !path.exists() {
        return Err(Error::guard(format!("the task made no `{name}` for {}", target.relation))
            .hint("write the file that the environment variable `REFRAIN_OUT` names")
            .into());
    }
    let format = Format::named(format).ok_or_else(|| Error::invalid(format!("`{format}` is no format of rows")))?;
    let shapes = target.columns.iter().map(|column| (column.name.clone(), shape(column.category, &column.data_type)));
    let options = Options { null: null.map(str::to_owned), shapes: shapes.collect(), ..Options::default() };
    let named = |error: Error| error.within(format!("`{name}`"));
    let mut source = refrain_load::open(path, format, &options).map_err(named)?;
    check_columns(&source, stage, target).map_err(named)?;
    let rows = if source.columns().is_empty() {
        drain(&mut source).map_err(named)?
    } else {
        copy(transaction, stage, &mut source, &name)?
    };
    Ok(Found {
        rows,
        bytes: source.bytes(),
        digest: format!("blake3:{}", source.digest().to_hex()),
        columns: columns(&source, stage, target),
    })
}

/// Reads a file without columns to its end, for its digest.
fn drain(source: &mut Source) -> Result<u64> {
    let mut chunk = Vec::new();
    while source.next_chunk(&mut chunk)? {
        chunk.clear();
    }
    Ok(0)
}

fn copy(transaction: &mut Transaction<'_>, stage: &Stage, source: &mut Source, name: &str) -> Result<u64, Fault> {
    let columns = list(source.columns().iter().map(String::as_str));
    let sql = format!("COPY {} ({columns}) FROM STDIN {}", stage.table, source.dialect());
    let mut copy = transaction.copy_in(&sql)?;
    let named = |error: Error| error.within(format!("`{name}`"));
    let refused = |fault: Fault, source: &Source| match fault {
        Fault::Refused(refusal) => row_refused(*refusal, source, stage, name),
        fault => fault,
    };
    loop {
        let mut chunk = Vec::with_capacity(CHUNK + CHUNK / 4);
        let more = source.next_chunk(&mut chunk).map_err(named)?;
        if !chunk.is_empty()
            && let Err(fault) = copy.send(chunk)
        {
            return Err(refused(fault, source));
        }
        if !more {
            break;
        }
    }
    let copied = copy.finish().map_err(|fault| refused(fault, source))?;
    match source.rows() {
        Some(rows) if rows != copied => {
            Err(Error::guard(format!("`{name}` has {}, and the server took {copied}", counted(rows, "row"))).into())
        }
        _ => Ok(copied),
    }
}

/// What the server says of a row, at its place in the file.
fn row_refused(refusal: Refusal, source: &Source, stage: &Stage, name: &str) -> Fault {
    // These are about the row; others are about the server.
    let of_the_row = matches!(refusal.code.get(..2), Some("22" | "23"));
    let context = refusal.context.as_deref().unwrap_or_default();
    let place = parse_context(context, &stage.table.name, source.columns())
        .map(|(line, column)| source.explain(line, column.as_deref()));
    match place {
        Some(place) if of_the_row => {
            let why = if refusal.constraint.as_deref() == Some(SCOPE_CHECK) {
                "the row lies outside the scope of the output (`where`)".to_owned()
            } else {
                refusal.message.clone()
            };
            let error = Error::guard(format!("`{name}`, {place}: {why}"));
            match place.value.filter(|value| refusal.code.starts_with("22") && MEANT_AS_NULL.contains(&value.as_str()))
            {
                Some(value) => {
                    error.hint(format!("if `{value}` stands for NULL in the file: null = \"{value}\"")).into()
                }
                None => error.into(),
            }
        }
        Some(place) => {
            Fault::Refused(Box::new(Refusal { message: format!("`{name}`, {place}: {}", refusal.message), ..refusal }))
        }
        None => Fault::Refused(Box::new(refusal)),
    }
}

fn check_columns(source: &Source, stage: &Stage, target: &Target) -> Result<()> {
    for name in source.columns() {
        let column = target.demand(name, "the file").map_err(|error| error.kind(refrain_core::ErrorKind::Guard))?;
        if column.generated {
            return Err(Error::guard(format!("{} computes the column `{name}` itself", target.relation))
                .hint("leave it out of the file"));
        }
    }
    let absent = |name: &str| !source.columns().iter().any(|column| column == name);
    let lacking: Vec<_> = target
        .stored()
        .filter(|column| absent(&column.name) && !column.may_be_absent(&stage.manner))
        .map(|column| column.name.as_str())
        .collect();
    if lacking.is_empty() || source.columns().is_empty() {
        return Ok(());
    }
    Err(Error::guard(format!("it lacks the columns {}, which {} wants", lacking.join(", "), target.relation))
        .hint(format!("the columns of the file: {}", source.columns().join(", "))))
}

/// The columns that staged rows have: those of the file, and those to which the scope gives a value. Others get theirs from
/// the table.
fn columns(source: &Source, stage: &Stage, target: &Target) -> Vec<String> {
    let fixed = |name: &str| stage.manner.fixed().any(|condition| condition.column == name);
    let has = |name: &str| source.columns().iter().any(|column| column == name) || fixed(name);
    target.stored().map(|column| &column.name).filter(|name| has(name)).cloned().collect()
}

/// What the column takes, by the server's own categories of types
/// (<https://www.postgresql.org/docs/current/catalog-pg-type.html>).
fn shape(category: char, data_type: &str) -> Shape {
    match category {
        'S' => Shape::Text,
        'A' => Shape::Array,
        _ if matches!(data_type, "json" | "jsonb") => Shape::Json,
        _ => Shape::Any,
    }
}
