//! SQL taken apart as the server's scanner does it, as far as is needed to tell what is text and what is not
//! (<https://www.postgresql.org/docs/current/sql-syntax-lexical.html>, with `standard_conforming_strings` on).

use refrain_core::{Error, Result};

/// A piece of SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token<'t> {
    pub(super) kind: Kind,
    /// As it stands in the text.
    pub(super) text: &'t str,
    /// Where it begins, in bytes.
    pub(super) start: usize,
}

/// What a piece is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// White space or a comment.
    Blank,
    /// A key word or a name without quotes.
    Word,
    /// A name in double quotes.
    Identifier,
    /// A text in quotes of any sort.
    Text,
    /// A number, or the number of a parameter such as `$1`.
    Number,
    /// `:name` or `:'name'`.
    Parameter,
    /// `:"name"`.
    NameParameter,
    /// Anything else: one character, or `::` and `:=`.
    Symbol,
}

/// Where something is in a text, counted from 1; columns are characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) line: usize,
    pub(super) column: usize,
}

impl Place {
    /// The place of a byte.
    pub(super) fn of(text: &str, offset: usize) -> Self {
        let before = &text[..text.floor_char_boundary(offset)];
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Self { line, column }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// Takes SQL apart; the pieces together are the text.
///
/// # Errors
/// `invalid` when a quote or a comment has no end.
pub(super) fn tokens(text: &str) -> Result<Vec<Token<'_>>> {
    let mut scanner = Scanner { text, at: 0, brackets: 0, found: Vec::new() };
    while scanner.at < text.len() {
        scanner.next()?;
    }
    Ok(scanner.found)
}

/// What a quoted name stands for.
pub(super) fn unquoted(identifier: &str) -> String {
    identifier.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(identifier).replace("\"\"", "\"")
}

struct Scanner<'t> {
    text: &'t str,
    at: usize,
    brackets: usize,
    found: Vec<Token<'t>>,
}

impl<'t> Scanner<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn take(&mut self, kind: Kind, length: usize) {
        let text = &self.rest()[..length];
        self.found.push(Token { kind, text, start: self.at });
        self.at += length;
    }

    fn next(&mut self) -> Result<()> {
        let rest = self.rest();
        let first = rest.chars().next().unwrap_or_default();
        match first {
            _ if is_blank(first) => self.take(Kind::Blank, until(rest, |c| !is_blank(c))),
            '-' if rest.starts_with("--") => self.take(Kind::Blank, until(rest, |c| matches!(c, '\n' | '\r'))),
            '/' if rest.starts_with("/*") => {
                let length = comment(rest).ok_or_else(|| self.endless("the comment"))?;
                self.take(Kind::Blank, length);
            }
            '\'' => self.quoted(0, false)?,
            'e' | 'E' if rest[1..].starts_with('\'') => self.quoted(1, true)?,
            'b' | 'B' | 'x' | 'X' | 'n' | 'N' if rest[1..].starts_with('\'') => self.quoted(1, false)?,
            'u' | 'U' if rest[1..].starts_with("&'") => self.quoted(2, false)?,
            'u' | 'U' if rest[1..].starts_with("&\"") => self.identifier(2)?,
            '"' => self.identifier(0)?,
            '$' => self.dollar()?,
            _ if starts_name(first) => self.take(Kind::Word, until(rest, |c| !continues_name(c) && c != '$')),
            '0'..='9' => self.take(Kind::Number, number(rest)),
            ':' => self.colon(),
            _ => {
                match first {
                    '[' => self.brackets += 1,
                    ']' => self.brackets = self.brackets.saturating_sub(1),
                    _ => {}
                }
                self.take(Kind::Symbol, first.len_utf8());
            }
        }
        Ok(())
    }

    /// A text whose quote comes after `prefix` bytes. What follows on another line is part of it.
    fn quoted(&mut self, prefix: usize, escapes: bool) -> Result<()> {
        let rest = self.rest();
        let mut length = prefix;
        loop {
            let body = &rest[length + 1..];
            length += 1 + end_of_quote(body, '\'', escapes).ok_or_else(|| self.endless("the text in quotes"))?;
            let after = &rest[length..];
            let blank = until(after, |c| !is_blank(c));
            if !(after[..blank].contains(['\n', '\r']) && after[blank..].starts_with('\'')) {
                break;
            }
            length += blank;
        }
        self.take(Kind::Text, length);
        Ok(())
    }

    fn identifier(&mut self, prefix: usize) -> Result<()> {
        let body = &self.rest()[prefix + 1..];
        let length = end_of_quote(body, '"', false).ok_or_else(|| self.endless("the name in quotes"))?;
        self.take(Kind::Identifier, prefix + 1 + length);
        Ok(())
    }

    /// `$tag$ … $tag$`, `$1`, or a dollar of its own.
    fn dollar(&mut self) -> Result<()> {
        let rest = self.rest();
        let inner = &rest[1..];
        let digits = until(inner, |c| !c.is_ascii_digit());
        if digits > 0 {
            self.take(Kind::Number, 1 + digits);
            return Ok(());
        }
        let tag = until(inner, |c| !continues_name(c));
        if !inner[tag..].starts_with('$') {
            self.take(Kind::Symbol, 1);
            return Ok(());
        }
        let quote = &rest[..tag + 2];
        let body = &rest[quote.len()..];
        let end = body.find(quote).ok_or_else(|| self.endless(&format!("the text in {quote}")))?;
        self.take(Kind::Text, quote.len() + end + quote.len());
        Ok(())
    }

    /// `::`, `:=`, a parameter, or the colon of a slice.
    fn colon(&mut self) {
        let inner = &self.rest()[1..];
        if inner.starts_with([':', '=']) {
            return self.take(Kind::Symbol, 2);
        }
        for (quote, kind) in [('\'', Kind::Parameter), ('"', Kind::NameParameter)] {
            if let Some(name) = inner.strip_prefix(quote) {
                let length = until(name, |c| !continues_name(c));
                if length > 0 && name[length..].starts_with(quote) {
                    return self.take(kind, length + 3);
                }
            }
        }
        if inner.starts_with(starts_name) && !self.is_of_slice() {
            return self.take(Kind::Parameter, 1 + until(inner, |c| !continues_name(c)));
        }
        self.take(Kind::Symbol, 1);
    }

    /// Whether a colon stands in brackets right after a value: `days[1:last]`.
    fn is_of_slice(&self) -> bool {
        let last = self.found.last();
        let value = last.is_some_and(|token| match token.kind {
            Kind::Word | Kind::Identifier | Kind::Number | Kind::Parameter => true,
            Kind::Symbol => matches!(token.text, ")" | "]"),
            Kind::Blank | Kind::Text | Kind::NameParameter => false,
        });
        self.brackets > 0 && value
    }

    fn endless(&self, what: &str) -> Error {
        let place = Place::of(self.text, self.at);
        Error::invalid(format!("{place}: {what} that begins here has no end"))
    }
}

/// The length of what comes before the first such character.
fn until(text: &str, stop: impl Fn(char) -> bool) -> usize {
    text.find(stop).unwrap_or(text.len())
}

fn is_blank(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\r' | '\u{b}' | '\u{c}')
}

fn starts_name(character: char) -> bool {
    character.is_ascii_alphabetic() || character == '_' || !character.is_ascii()
}

fn continues_name(character: char) -> bool {
    starts_name(character) || character.is_ascii_digit()
}

/// The length of a number, with what may follow its digits. A dot that begins `..` is not part of it.
fn number(text: &str) -> usize {
    let mut length = until(text, |c| !continues_name(c));
    let fraction = text[length..].strip_prefix('.').filter(|after| !after.starts_with('.'));
    if let Some(after) = fraction {
        length += 1 + until(after, |c| !continues_name(c));
    }
    length
}

/// The length of a comment; comments nest.
fn comment(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut at = 0;
    loop {
        let rest = &text[at..];
        let next = rest.find(['/', '*'])?;
        at += next;
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return Some(at);
            }
        } else {
            at += 1;
        }
    }
}

/// The length of what is quoted with the closing quote; two quotes are one.
fn end_of_quote(body: &str, quote: char, escapes: bool) -> Option<usize> {
    let mut characters = body.char_indices().peekable();
    while let Some((index, character)) = characters.next() {
        if escapes && character == '\\' {
            characters.next();
        } else if character == quote && characters.next_if(|(_, next)| *next == quote).is_none() {
            return Some(index + 1);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{Kind, Place, tokens, unquoted};

    fn of(kind: Kind, text: &str) -> Vec<&str> {
        let found = tokens(text).unwrap();
        assert_eq!(found.iter().map(|token| token.text).collect::<String>(), text, "nothing is lost");
        found.into_iter().filter(|token| token.kind == kind).map(|token| token.text).collect()
    }

    #[test]
    fn a_parameter_is_found_where_it_is_none_of_something_else() {
        for (text, parameters) in [
            ("a = :date", vec![":date"]),
            ("a=:date::date", vec![":date"]),
            (":'date'||:a,:b", vec![":'date'", ":a", ":b"]),
            ("a::text, b :: date, f(x := 1, y:=z)", vec![]),
            ("days[1:2], days[1:last], days[a[1]:b], days[(1):b], days[\"x\":b]", vec![]),
            ("ARRAY[:a, :b], days[:a]", vec![":a", ":b", ":a"]),
            ("'a :date' \":date\" -- :date\n /* :date /* :date */ :date */ $$ :date $$ $x$ $$ :date $x$", vec![]),
            ("E'it\\'s :date' 'it''s :date' U&'\\0041 :date' x':date' n':date' e'\\\\' :date", vec![":date"]),
            ("'a\\' :date", vec![":date"]),
            ("E'a'\n  'b\\' :date'", vec![]),
            ("E'a' 'b\\' :date", vec![":date"]),
            ("a$b$:date", vec![":date"]),
            ("$1:date", vec![":date"]),
            ("\u{e9}\u{fc}:date '\u{e9}' :\u{e9}t\u{e9}", vec![":date", ":\u{e9}t\u{e9}"]),
            ("1.5:a 1..:b 0x1F:c 1e-5:d", vec![":a", ":b", ":c", ":d"]),
            (": date :1 :", vec![]),
        ] {
            assert_eq!(of(Kind::Parameter, text), parameters, "{text}");
        }
        assert_eq!(of(Kind::NameParameter, "SELECT :\"date\" FROM \"a\""), [":\"date\""]);
    }

    #[test]
    fn names_in_quotes_are_found_with_their_quotes() {
        let text = "INSERT INTO \"REFRAIN_STAGING\" SELECT 'x\"REFRAIN_STAGING\"', \"a\"\"b\", U&\"d\\0061ta\"";
        assert_eq!(of(Kind::Identifier, text), ["\"REFRAIN_STAGING\"", "\"a\"\"b\"", "U&\"d\\0061ta\""]);
        assert_eq!(unquoted("\"a\"\"b\""), "a\"b");
    }

    #[test]
    fn what_has_no_end_is_refused_with_its_place() {
        for (text, place) in [
            ("a\n  'b", "line 2, column 3"),
            ("\"b", "line 1, column 1"),
            ("/* /* */", "line 1, column 1"),
            ("\u{e9} $x$ $$ $y$", "line 1, column 3"),
            ("E'\\'", "line 1, column 1"),
        ] {
            let error = tokens(text).unwrap_err();
            assert!(error.message.contains(place) && error.message.contains("has no end"), "{text}: {error}");
        }
    }

    #[test]
    fn places_are_counted_in_characters() {
        assert_eq!(Place::of("\u{e9}\u{e9}\nb\u{e9}c", 8), Place { line: 2, column: 3 });
        assert_eq!(Place::of("", 0), Place { line: 1, column: 1 });
    }
}
