//! A file of SQL: its statements, its parameters, and what stands for the staging table.

use super::tokens::{Kind, Place, Token, tokens, unquoted};
use super::verbs;
use refrain_core::{Error, Result, nearest};
use refrain_postgres::{Relation, quote_identifier, quote_literal};
use std::collections::BTreeMap;

/// The identifier that stands for the staging table.
const STAGING: &str = "REFRAIN_STAGING";

/// Values of parameters by name.
pub type Parameters = BTreeMap<String, String>;

/// Reads a file of SQL that is to fill a staging table. Of the parameters that are offered, returns those that it uses.
///
/// # Errors
/// `invalid` with line and column: an unknown parameter, a command of psql, a statement that would begin or end the
/// transaction, a quote without an end; or no word of the staging table.
pub fn read_sql(file: &str, text: &str, offered: &Parameters) -> Result<Parameters> {
    read(text, offered).map_err(|error| error.within(format!("`{file}`")))
}

fn read(text: &str, offered: &Parameters) -> Result<Parameters> {
    let mut used = Parameters::new();
    let mut fills = false;
    for statement in statements(text)? {
        verbs::refuse(text, &statement)?;
        for token in &statement {
            if let Some(name) = parameter(token) {
                used.insert(name.to_owned(), value(text, token, name, offered)?.to_owned());
            }
            fills |= is_staging(token);
        }
    }
    if fills {
        return Ok(used);
    }
    Err(Error::invalid(format!("it does not write to \"{STAGING}\""))
        .hint(format!("let it fill the staging table, double quotes included: INSERT INTO \"{STAGING}\" SELECT …")))
}

/// One statement, with all filled in.
#[derive(Debug)]
pub(super) struct Statement {
    /// As it is sent.
    pub(super) text: String,
    /// Where it begins in the file, in bytes.
    start: usize,
    /// What was copied from where: offsets in `text` and in the file. A piece that was filled in has no length in the file.
    pieces: Vec<Piece>,
}

#[derive(Debug)]
struct Piece {
    sent: usize,
    original: usize,
    copied: bool,
}

impl Statement {
    /// Where it begins in the file.
    pub(super) fn begins(&self, file: &str) -> Place {
        Place::of(file, self.start)
    }

    /// Where the character is in the file that the server counts as the `position`th, from 1.
    pub(super) fn place(&self, file: &str, position: u32) -> Place {
        let characters = usize::try_from(position).unwrap_or(usize::MAX).saturating_sub(1);
        let offset = self.text.char_indices().nth(characters).map_or(self.text.len(), |(offset, _)| offset);
        let piece = self.pieces.iter().rfind(|piece| piece.sent <= offset);
        let original = piece.map_or(self.start, |piece| {
            if piece.copied { piece.original + (offset - piece.sent) } else { piece.original }
        });
        Place::of(file, original.min(file.len()))
    }
}

/// The statements with the parameters' values and the staging table's name.
///
/// # Errors
/// As [`read_sql`].
pub(super) fn bind(text: &str, values: &Parameters, staging: &Relation) -> Result<Vec<Statement>> {
    read(text, values)?;
    let bound = statements(text)?.into_iter().map(|tokens| {
        let start = tokens.iter().find(|token| token.kind != Kind::Blank).map_or(0, |token| token.start);
        let mut statement = Statement { text: String::new(), start, pieces: Vec::new() };
        for token in tokens {
            let filled = match parameter(&token) {
                Some(name) if token.kind == Kind::NameParameter => {
                    Some(quote_identifier(value(text, &token, name, values)?))
                }
                // A blank before: `SELECT:date`, and a text right after a letter would be one of another sort.
                Some(name) => Some(format!(" {}", quote_literal(value(text, &token, name, values)?))),
                None if is_staging(&token) => Some(staging.to_string()),
                None => None,
            };
            let copied = filled.is_none();
            statement.pieces.push(Piece { sent: statement.text.len(), original: token.start, copied });
            statement.text.push_str(filled.as_deref().unwrap_or(token.text));
        }
        Ok(statement)
    });
    bound.collect()
}

/// The statements that are more than blanks, each without its semicolon.
fn statements(text: &str) -> Result<Vec<Vec<Token<'_>>>> {
    let mut statements = Vec::new();
    let mut current: Vec<Token<'_>> = Vec::new();
    let mut nesting = verbs::Nesting::default();
    for token in tokens(text)? {
        if token.text == ";" && token.kind == Kind::Symbol && nesting.is_none() {
            statements.push(std::mem::take(&mut current));
            nesting = verbs::Nesting::default();
        } else {
            nesting.follow(&token);
            current.push(token);
        }
    }
    statements.push(current);
    statements.retain(|tokens| tokens.iter().any(|token| token.kind != Kind::Blank));
    Ok(statements)
}

fn is_staging(token: &Token<'_>) -> bool {
    token.kind == Kind::Identifier && unquoted(token.text) == STAGING
}

/// The name of a parameter.
fn parameter<'t>(token: &Token<'t>) -> Option<&'t str> {
    match token.kind {
        Kind::Parameter | Kind::NameParameter => Some(token.text.trim_matches([':', '\'', '"'])),
        _ => None,
    }
}

fn value<'v>(text: &str, token: &Token<'_>, name: &str, values: &'v Parameters) -> Result<&'v str> {
    if let Some(value) = values.get(name) {
        return Ok(value);
    }
    let place = Place::of(text, token.start);
    let error = Error::invalid(format!("{place}: there is no parameter `:{name}`"));
    let known = || values.keys().map(String::as_str);
    Err(match (nearest(name, known()), values.is_empty()) {
        (Some(near), _) => error.hint(format!("did you mean `:{near}`?")),
        (None, true) => error.hint("this task has none; declare one: param.NAME = \"…\" is `:param_NAME`"),
        (None, false) => error.hint(format!("there are: :{}", known().collect::<Vec<_>>().join(", :"))),
    })
}

#[cfg(test)]
mod tests {
    use super::{Parameters, bind, read_sql};
    use refrain_postgres::Relation;

    fn values() -> Parameters {
        [("date", "2025-03-24"), ("param_NAME", "it's \\ \u{e9}")].map(|(k, v)| (k.to_owned(), v.to_owned())).into()
    }

    fn bound(text: &str) -> Vec<String> {
        let staging = Relation::new("refrain", "stage_1");
        bind(text, &values(), &staging).unwrap().into_iter().map(|statement| statement.text).collect()
    }

    #[test]
    fn pgs_08_values_are_literals_and_the_staging_table_is_one_name() {
        assert_eq!(
            bound("INSERT INTO \"REFRAIN_STAGING\"\nSELECT :date::date, :'date', :param_NAME -- :nothing\n;\n -- end"),
            [
                "INSERT INTO \"refrain\".\"stage_1\"\nSELECT  '2025-03-24'::date,  '2025-03-24',  E'it''s \\\\ \u{e9}' -- :nothing\n"
            ]
        );
        assert_eq!(
            bound("SELECT:date;;SELECT 'a;b', $$;$$ FROM REFRAIN_STAGING, \"REFRAIN_STAGING\" AS \"refrain_staging\""),
            [
                "SELECT '2025-03-24'".to_owned(),
                "SELECT 'a;b', $$;$$ FROM REFRAIN_STAGING, \"refrain\".\"stage_1\" AS \"refrain_staging\"".to_owned()
            ]
        );
    }

    #[test]
    fn a_place_of_the_server_is_a_place_in_the_file() {
        let text = "-- \u{e9}\nSELECT 1;\nINSERT INTO \"REFRAIN_STAGING\"\n  SELECT :date, :param_NAME, wrong, \u{e9}\u{e9}, x";
        let staging = Relation::new("refrain", "stage_1");
        let statements = bind(text, &values(), &staging).unwrap();
        let second = &statements[1];
        let position = |word: &str| {
            let offset = second.text.find(word).unwrap();
            u32::try_from(second.text[..offset].chars().count() + 1).unwrap()
        };
        assert_eq!(second.place(text, position("wrong")).to_string(), "line 4, column 30");
        assert_eq!(second.place(text, position("x")).to_string(), "line 4, column 41");
        assert_eq!(second.place(text, position("stage_1")).to_string(), "line 3, column 13");
        assert_eq!(second.place(text, 100_000).to_string(), "line 4, column 42");
        assert_eq!(second.begins(text).to_string(), "line 3, column 1");
        assert_eq!(statements[0].begins(text).to_string(), "line 2, column 1");
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_its_place() {
        for (text, said, hint) in [
            ("SELECT :dat FROM \"REFRAIN_STAGING\"", "line 1, column 8: there is no parameter `:dat`", "`:date`"),
            ("SELECT\n :quantity", "line 2, column 2: there is no parameter `:quantity`", ":date, :param_NAME"),
            (
                "SELECT 1 FROM refrain_staging",
                "does not write to \"REFRAIN_STAGING\"",
                "INSERT INTO \"REFRAIN_STAGING\"",
            ),
            ("SELECT '\"REFRAIN_STAGING\"'", "does not write to", "INSERT INTO"),
        ] {
            let error = read_sql("a.sql", text, &values()).unwrap_err();
            assert!(error.message.contains(said) && error.message.contains("`a.sql`"), "{text}: {error}");
            assert!(error.hint.as_deref().unwrap_or_default().contains(hint), "{text}: {:?}", error.hint);
        }
    }

    #[test]
    fn only_what_is_used_is_kept() {
        let used = read_sql("a.sql", "INSERT INTO \"REFRAIN_STAGING\" SELECT :date", &values()).unwrap();
        assert_eq!(used.keys().collect::<Vec<_>>(), ["date"]);
    }
}
