//! What the statements of a task may be.

use super::tokens::{Kind, Place, Token};
use refrain_core::{Error, Result};

/// Refuses what would begin or end the transaction, outlive it, or speak to a client.
///
/// # Errors
/// `invalid` with line and column.
pub(super) fn refuse(text: &str, tokens: &[Token<'_>]) -> Result<()> {
    if let Some(token) = tokens.iter().find(|token| token.text == "\\" && token.kind == Kind::Symbol) {
        let rest = &text[token.start + 1..];
        let end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        return Err(Error::invalid(format!(
            "{}: `\\{}` is a command of psql, and this is read by the server",
            Place::of(text, token.start),
            &rest[..end]
        ))
        .hint("write it as SQL; or let the task be the psql script: a command that fills the table of $REFRAIN_OUT"));
    }
    let meaningful: Vec<_> = tokens.iter().filter(|token| token.kind != Kind::Blank).collect();
    let Some(first) = meaningful.first() else { return Ok(()) };
    let words: Vec<String> = meaningful
        .iter()
        .map(|token| if token.kind == Kind::Word { token.text.to_ascii_uppercase() } else { String::new() })
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let place = Place::of(text, first.start);
    let refused = |verb: &str, why: &str, hint: &str| Err(Error::invalid(format!("{place}: {verb} {why}")).hint(hint));
    let of_transactions = "is not for this SQL: it runs in one transaction, which Refrain begins and ends";
    match words.as_slice() {
        // To a savepoint of its own.
        ["ROLLBACK", "TO", ..] | ["ROLLBACK", "WORK" | "TRANSACTION", "TO", ..] => Ok(()),
        [verb @ ("BEGIN" | "START" | "COMMIT" | "END" | "ROLLBACK" | "ABORT"), ..] => {
            refused(verb, of_transactions, "leave it out")
        }
        ["PREPARE", "TRANSACTION", ..] => refused("PREPARE TRANSACTION", of_transactions, "leave it out"),
        ["SET", "TRANSACTION", ..] | ["SET", "LOCAL", "TRANSACTION", ..] => {
            refused("SET TRANSACTION", of_transactions, "leave it out: the transaction is REPEATABLE READ")
        }
        ["SET", "SESSION", "CHARACTERISTICS", ..] => {
            refused("SET SESSION CHARACTERISTICS", of_transactions, "leave it out")
        }
        ["PREPARE", ..] => refused(
            "PREPARE",
            "is not for this SQL: a prepared statement outlives the transaction",
            "write the statement itself, or a function in schema pg_temp",
        ),
        ["COPY", ..] if words.iter().any(|word| matches!(*word, "STDIN" | "STDOUT")) => refused(
            "COPY",
            "from STDIN or to STDOUT is not for this SQL: nobody stands at the other end",
            "let Refrain load a file: from = \"FILE.csv\"; or write INSERT … VALUES",
        ),
        _ => Ok(()),
    }
}

/// How deep in something a semicolon ends no statement: parentheses, and bodies of functions that are SQL
/// (`BEGIN ATOMIC … END`, since version 14).
#[derive(Debug, Default)]
pub(super) struct Nesting {
    parentheses: usize,
    blocks: usize,
    words: Vec<String>,
}

/// So many words tell that a function is made: CREATE OR REPLACE FUNCTION.
const TELLING: usize = 4;

impl Nesting {
    pub(super) fn is_none(&self) -> bool {
        self.parentheses == 0 && self.blocks == 0
    }

    pub(super) fn follow(&mut self, token: &Token<'_>) {
        match (token.kind, token.text) {
            (Kind::Symbol, "(") => self.parentheses += 1,
            (Kind::Symbol, ")") => self.parentheses = self.parentheses.saturating_sub(1),
            (Kind::Word, word) => self.word(&word.to_ascii_uppercase()),
            _ => {}
        }
    }

    fn word(&mut self, word: &str) {
        if self.makes_function() {
            match word {
                "BEGIN" => self.blocks += 1,
                "CASE" if self.blocks > 0 => self.blocks += 1,
                "END" => self.blocks = self.blocks.saturating_sub(1),
                _ => {}
            }
        }
        if self.words.len() < TELLING {
            self.words.push(word.to_owned());
        }
    }

    fn makes_function(&self) -> bool {
        let words: Vec<_> = self.words.iter().map(String::as_str).collect();
        matches!(
            words.as_slice(),
            ["CREATE", "FUNCTION" | "PROCEDURE", ..] | ["CREATE", "OR", "REPLACE", "FUNCTION" | "PROCEDURE", ..]
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::script::{Parameters, read_sql};

    fn refused(text: &str) -> Option<String> {
        let text = format!("SELECT 1 FROM \"REFRAIN_STAGING\";\n {text}");
        read_sql("a.sql", &text, &Parameters::new()).err().map(|error| error.message)
    }

    #[test]
    fn what_would_end_the_transaction_is_refused_by_name_and_line() {
        for (text, verb) in [
            ("BEGIN", "BEGIN"),
            ("begin isolation level serializable;", "BEGIN"),
            ("START TRANSACTION", "START"),
            ("/* x */ commit", "COMMIT"),
            ("END", "END"),
            ("ROLLBACK", "ROLLBACK"),
            ("ROLLBACK WORK", "ROLLBACK"),
            ("ROLLBACK AND CHAIN", "ROLLBACK"),
            ("ROLLBACK PREPARED 'x'", "ROLLBACK"),
            ("ABORT", "ABORT"),
            ("PREPARE TRANSACTION 'x'", "PREPARE TRANSACTION"),
            ("PREPARE x AS SELECT 1", "PREPARE"),
            ("SET TRANSACTION ISOLATION LEVEL READ COMMITTED", "SET TRANSACTION"),
            ("SET LOCAL TRANSACTION READ ONLY", "SET TRANSACTION"),
            ("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", "SET SESSION CHARACTERISTICS"),
            ("COPY x FROM STDIN", "COPY"),
            ("COPY (SELECT 1) TO stdout", "COPY"),
            ("\\copy x from 'y'", "`\\copy`"),
            ("SELECT 1 \\gexec", "`\\gexec`"),
            ("CREATE FUNCTION f() RETURNS int AS $$ SELECT 1; $$ LANGUAGE sql; COMMIT", "COMMIT"),
            ("SELECT CASE WHEN true THEN 1 END; COMMIT", "COMMIT"),
        ] {
            let said = refused(text).unwrap_or_default();
            assert!(said.contains("line 2") && said.contains(verb), "{text}: {said}");
        }
    }

    #[test]
    fn what_only_looks_like_it_is_not() {
        for text in [
            "SAVEPOINT a; ROLLBACK TO a; rollback work to savepoint a; RELEASE a",
            "DO $$ BEGIN NULL; END $$",
            "CREATE TEMP TABLE commit (\"end\" int)",
            "COPY x FROM '/srv/x.csv'",
            "SET LOCAL work_mem = '1GB'",
            "CREATE FUNCTION pg_temp.f() RETURNS int LANGUAGE sql BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; SELECT 2; END",
            "CREATE OR REPLACE PROCEDURE pg_temp.p() BEGIN ATOMIC INSERT INTO x VALUES (1); END",
            "SELECT '\\d', 'COMMIT; BEGIN', E'\\n'",
            "CREATE RULE r AS ON INSERT TO x DO ALSO (INSERT INTO y VALUES (1); INSERT INTO z VALUES (1))",
        ] {
            assert_eq!(refused(text), None, "{text}");
        }
    }
}
