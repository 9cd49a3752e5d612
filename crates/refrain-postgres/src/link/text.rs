//! Connection strings: URLs, and `name=value` texts
//! (<https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNSTRING>).
//!
//! No message of this module quotes what it read but names of parameters: a password that was not escaped could be
//! anywhere.

use super::parameter;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use refrain_core::{Error, Result};

/// What may stand in a URL as it is.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// What a text sets, in its order; a later value replaces an earlier one.
pub(super) type Given = Vec<(&'static str, String)>;

/// What follows the scheme of a URL of a database. Schemes are read whatever their case is, as everywhere in URLs.
pub(super) fn after_scheme(text: &str) -> Option<&str> {
    let (scheme, rest) = text.split_once("://")?;
    ["postgresql", "postgres"].iter().any(|known| scheme.eq_ignore_ascii_case(known)).then_some(rest)
}

/// Reads a connection string.
pub(super) fn read(text: &str) -> Result<Given> {
    if let Some(rest) = after_scheme(text) {
        return url(rest);
    }
    if text.split('=').next().is_some_and(|start| start.contains("://")) {
        return Err(malformed("its scheme is not `postgresql://`"));
    }
    pairs(text)
}

/// A text as a part of a URL.
pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

fn url(rest: &str) -> Result<Given> {
    let mut given = Given::new();
    let mut set = |name, raw: &str| -> Result<()> {
        if !raw.is_empty() {
            given.push((name, decoded(raw)?));
        }
        Ok(())
    };
    let (rest, query) = rest.split_once('?').map_or((rest, ""), |(rest, query)| (rest, query));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let hosts = match authority.split_once('@') {
        None => authority,
        Some((user, hosts)) => {
            let (user, password) = user.split_once(':').unwrap_or((user, ""));
            set("user", user)?;
            set("password", password)?;
            hosts
        }
    };
    if hosts.contains('@') || path.contains('@') {
        return Err(unescaped("it has an `@` where none can be"));
    }
    let (hosts, ports) = places(hosts)?;
    set("host", &hosts)?;
    set("port", &ports)?;
    set("dbname", path)?;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) =
            pair.split_once('=').ok_or_else(|| malformed("a parameter after the `?` has no `=` and no value"))?;
        if value.contains('=') {
            return Err(malformed("a parameter after the `?` has a second `=`; write it as `%3D`"));
        }
        let (name, value) = (decoded(name)?, decoded(value)?);
        // What JDBC calls it.
        if name == "ssl" && value == "true" {
            given.push(("sslmode", "require".to_owned()));
            continue;
        }
        given.push((parameter::named(&name)?.name, value));
    }
    Ok(given)
}

/// The hosts and the ports of an authority, each as a list with commas.
fn places(text: &str) -> Result<(String, String)> {
    let (mut hosts, mut ports) = (vec![], vec![]);
    for place in text.split(',') {
        let (host, port) = match place.strip_prefix('[') {
            Some(bracketed) => {
                let (host, after) =
                    bracketed.split_once(']').ok_or_else(|| malformed("an address in brackets has no closing `]`"))?;
                let port = match after.strip_prefix(':') {
                    Some(port) => port,
                    None if after.is_empty() => "",
                    None => return Err(malformed("something other than `:` follows an address in brackets")),
                };
                (host, port)
            }
            None => place.split_once(':').unwrap_or((place, "")),
        };
        if !port.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(unescaped("what follows a `:` is no number of a port"));
        }
        hosts.push(host);
        ports.push(port);
    }
    let listed = |list: Vec<&str>| if list.iter().all(|one| one.is_empty()) { String::new() } else { list.join(",") };
    Ok((listed(hosts), listed(ports)))
}

fn decoded(text: &str) -> Result<String> {
    let bytes = text.as_bytes();
    for (at, _) in text.match_indices('%') {
        if !bytes.get(at + 1..at + 3).is_some_and(|code| code.iter().all(u8::is_ascii_hexdigit)) {
            return Err(malformed("a `%` is not followed by two hexadecimal digits; a `%` itself is `%25`"));
        }
    }
    let decoded =
        percent_decode_str(text).decode_utf8().map_err(|_| malformed("what its `%` codes say is not UTF-8"))?;
    if decoded.contains('\0') {
        return Err(malformed("`%00` can be nowhere in it"));
    }
    Ok(decoded.into_owned())
}

fn pairs(text: &str) -> Result<Given> {
    let mut given = Given::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let at = text.len() - rest.len() + 1;
        let (name, after) =
            rest.split_once('=').filter(|(name, _)| !name.trim_end().contains(char::is_whitespace)).ok_or_else(
                || malformed(format!("what begins at character {at} has no `=`; a value with a space is in '…'")),
            )?;
        let (value, after) = value(after.trim_start())?;
        let is_after_password = given.iter().any(|(name, _)| *name == "password");
        let parameter = parameter::named(name.trim_end()).map_err(|error| {
            // It may be the rest of a password with a blank in it.
            if is_after_password {
                malformed(format!("what begins at character {at} is no parameter; a value with a space is in '…'"))
            } else {
                error
            }
        })?;
        given.push((parameter.name, value));
        rest = after.trim_start();
    }
    Ok(given)
}

/// A value, and what follows it.
fn value(text: &str) -> Result<(String, &str)> {
    let (quoted, body) = text.strip_prefix('\'').map_or((false, text), |body| (true, body));
    let mut value = String::new();
    let mut characters = body.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            // As libpq has it: a backslash that ends the text stands for nothing.
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            '\'' if quoted => return Ok((value, &body[at + 1..])),
            blank if !quoted && blank.is_whitespace() => return Ok((value, &body[at..])),
            other => value.push(other),
        }
    }
    if quoted { Err(malformed("a value has no closing `'`")) } else { Ok((value, "")) }
}

fn malformed(reason: impl std::fmt::Display) -> Error {
    Error::invalid(format!("the connection string cannot be read: {reason}"))
        .hint("write postgresql://USER@HOST:PORT/DATABASE, or host=HOST dbname=DATABASE user=USER")
}

fn unescaped(reason: &str) -> Error {
    malformed(reason).hint("write `@`, `:`, `/`, `?`, `#` and `%` of a password as %40, %3A, %2F, %3F, %23 and %25")
}

#[cfg(test)]
mod tests {
    use super::{encoded, read};

    fn given(text: &str) -> Vec<(&'static str, String)> {
        read(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[track_caller]
    fn is(text: &str, expected: &[(&str, &str)]) {
        let expected: Vec<_> = expected.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        assert_eq!(given(text), expected, "{text}");
    }

    #[test]
    fn urls_are_read_as_libpq_documents_them() {
        is("postgresql://", &[]);
        is("postgresql://localhost", &[("host", "localhost")]);
        is("postgresql://localhost:5433", &[("host", "localhost"), ("port", "5433")]);
        is("postgres://localhost/mydb", &[("host", "localhost"), ("dbname", "mydb")]);
        is("PostgreSQL://localhost/mydb", &[("host", "localhost"), ("dbname", "mydb")]);
        is("postgresql://user:secret@localhost", &[("user", "user"), ("password", "secret"), ("host", "localhost")]);
        is(
            "postgresql://other@localhost/otherdb?connect_timeout=10&application_name=myapp",
            &[
                ("user", "other"),
                ("host", "localhost"),
                ("dbname", "otherdb"),
                ("connect_timeout", "10"),
                ("application_name", "myapp"),
            ],
        );
        is(
            "postgresql://host1:123,host2:456/somedb?target_session_attrs=any",
            &[("host", "host1,host2"), ("port", "123,456"), ("dbname", "somedb"), ("target_session_attrs", "any")],
        );
        is(
            "postgresql:///mydb?host=localhost&port=5433",
            &[("dbname", "mydb"), ("host", "localhost"), ("port", "5433")],
        );
        is(
            "postgresql://user@localhost:5433/mydb?options=-c%20synchronous_commit%3Doff",
            &[
                ("user", "user"),
                ("host", "localhost"),
                ("port", "5433"),
                ("dbname", "mydb"),
                ("options", "-c synchronous_commit=off"),
            ],
        );
        is("postgresql://[2001:db8::1234]/database", &[("host", "2001:db8::1234"), ("dbname", "database")]);
        is("postgresql://[::1]:77,b", &[("host", "::1,b"), ("port", "77,")]);
        is("postgresql:///dbname?host=/var/lib/postgresql", &[("dbname", "dbname"), ("host", "/var/lib/postgresql")]);
        is("postgresql://%2Fvar%2Flib%2Fpostgresql/dbname", &[("host", "/var/lib/postgresql"), ("dbname", "dbname")]);
        is(
            "postgresql://u:%40%3a%2F@h?ssl=true",
            &[("user", "u"), ("password", "@:/"), ("host", "h"), ("sslmode", "require")],
        );
        is("postgresql://?user=a&password=b", &[("user", "a"), ("password", "b")]);
    }

    #[test]
    fn texts_of_names_and_values_are_read_as_libpq_documents_them() {
        is("", &[]);
        is(
            "host=localhost port=5432 dbname=mydb connect_timeout=10",
            &[("host", "localhost"), ("port", "5432"), ("dbname", "mydb"), ("connect_timeout", "10")],
        );
        is(
            r" host = a  password='it\'s \\ 1' user=o\ b options='' ",
            &[("host", "a"), ("password", r"it's \ 1"), ("user", "o b"), ("options", "")],
        );
    }

    #[test]
    fn what_cannot_be_read_is_refused_without_quoting_it() {
        for (text, reason) in [
            ("postgresql://u:s3cret@x@h/db", "`@` where none can be"),
            ("postgresql://u:s3cret/x@h/db", "`@` where none can be"),
            ("postgresql://u:s3cret", "no number of a port"),
            ("postgresql://u:s3cret%2@h", "two hexadecimal digits"),
            ("postgresql://u:s3cret%ff@h", "not UTF-8"),
            ("postgresql://u:s3cret%00@h", "`%00`"),
            ("postgresql://h?password=s3cret=1", "a second `=`"),
            ("postgresql://h?s3cret", "no `=`"),
            ("postgresql://[::1", "no closing `]`"),
            ("postgresql://[::1]5432", "something other than `:`"),
            ("mysql://u:s3cret@h/db", "its scheme is not"),
            ("jdbc:postgresql://h/db?password=s3cret", "its scheme is not"),
            ("password=my s3cret", "at character 13 has no `=`"),
            ("password='my s3cret", "no closing `'`"),
            ("s3cret", "no `=`"),
            ("pasword=s3cret", "no parameter `pasword`"),
            ("password=my s3cret=1", "at character 13 is no parameter"),
        ] {
            let error = read(text).unwrap_err();
            let shown = format!("{error} {:?} {error:?}", error.hint);
            assert!(shown.contains(reason), "{text}: {shown}");
            assert!(!shown.contains("s3cret"), "{text}: {shown}");
            assert!(error.hint.is_some(), "{text}");
        }
    }

    #[test]
    fn a_part_of_a_url_is_encoded() {
        assert_eq!(encoded("a b/@:é-._~"), "a%20b%2F%40%3A%C3%A9-._~");
    }
}
