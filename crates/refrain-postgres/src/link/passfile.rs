//! The password file (<https://www.postgresql.org/docs/current/libpq-pgpass.html>).

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// What a line is looked up by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'w> {
    /// `localhost` for a socket in a default directory.
    pub(crate) host: &'w str,
    pub(crate) port: u16,
    pub(crate) database: &'w str,
    pub(crate) user: &'w str,
}

/// The lines of a password file.
#[derive(Default)]
pub(crate) struct Passwords {
    content: String,
    ignored: Option<String>,
}

impl Passwords {
    /// Reads a password file. One that others may read is ignored, as libpq ignores it; a missing one is none.
    pub(crate) fn read(place: &Path) -> Self {
        let ignored = |why: String| {
            tracing::warn!("the password file `{}` is ignored: {why}", place.display());
            Self { content: String::new(), ignored: Some(format!("`{}` was ignored: {why}", place.display())) }
        };
        let mut content = String::new();
        let read = File::open(place).and_then(|mut file| {
            let metadata = file.metadata()?;
            if !metadata.is_file() {
                return Ok(Some("it is no file".to_owned()));
            }
            let mode = metadata.permissions().mode() & 0o777;
            if mode & 0o077 != 0 {
                return Ok(Some(format!("its mode is {mode:04o}, others may read it; `chmod 0600` it")));
            }
            file.read_to_string(&mut content)?;
            Ok(None)
        });
        match read {
            Ok(None) => Self { content, ignored: None },
            Ok(Some(why)) => ignored(why),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::default(),
            Err(error) => ignored(error.to_string()),
        }
    }

    /// Why the file was not read, though it is there.
    pub(crate) fn ignored(&self) -> Option<&str> {
        self.ignored.as_deref()
    }

    /// The password of the first line that fits, and the number of the line.
    pub(crate) fn find(&self, wanted: Wanted<'_>) -> Option<(String, usize)> {
        let port = wanted.port.to_string();
        let lines = self.content.lines().enumerate().filter(|(_, line)| !line.starts_with('#'));
        for (index, line) in lines {
            let mut rest = line.trim_end_matches('\r');
            let fits = [wanted.host, &port, wanted.database, wanted.user].into_iter().all(|value| {
                let (field, after) = field(rest);
                rest = after.unwrap_or_default();
                // A `*` that was escaped is none.
                after.is_some() && (field.raw == "*" || field.value == value)
            });
            if fits {
                return Some((unescaped(rest), index + 1)).filter(|(password, _)| !password.is_empty());
            }
        }
        None
    }
}

struct Field<'l> {
    raw: &'l str,
    value: String,
}

/// The first field of a line, and what follows its colon.
fn field(line: &str) -> (Field<'_>, Option<&str>) {
    let mut escaped = false;
    let end = line.bytes().position(|byte| {
        let ends = byte == b':' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    });
    let (raw, after) = match end {
        Some(end) => (&line[..end], Some(&line[end + 1..])),
        None => (line, None),
    };
    (Field { raw, value: unescaped(raw) }, after)
}

fn unescaped(text: &str) -> String {
    let mut characters = text.chars();
    let mut value = String::with_capacity(text.len());
    while let Some(character) = characters.next() {
        value.push(if character == '\\' { characters.next().unwrap_or('\\') } else { character });
    }
    value
}

#[cfg(test)]
mod tests {
    use super::{Passwords, Wanted};
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt;

    const WANTED: Wanted<'_> = Wanted { host: "db.example.org", port: 5432, database: "mart", user: "etl" };

    #[track_caller]
    fn finds(content: &str, wanted: Wanted<'_>, password: Option<(&str, usize)>) {
        let passwords = Passwords { content: content.to_owned(), ignored: None };
        assert_eq!(passwords.find(wanted), password.map(|(password, line)| (password.to_owned(), line)), "{content}");
    }

    #[test]
    fn the_first_line_that_fits_counts() {
        finds("", WANTED, None);
        finds("#*:*:*:*:no\n\ndb.example.org:5432:mart:etl:one\n*:*:*:*:two", WANTED, Some(("one", 3)));
        finds("other:*:*:*:no\n*:5433:*:*:no\n*:*:mart:*:any\r\n", WANTED, Some(("any", 3)));
        finds("*:*:*:*:with\\:colon:and\\\\slash", WANTED, Some(("with:colon:and\\slash", 1)));
        finds("*:*:*:etl", WANTED, None);
        finds("*:*:*:*:", WANTED, None);
        finds("\\*:*:*:*:no", WANTED, None);
        finds("\\:\\:1:5432:a\\\\b:*:six", Wanted { host: "::1", database: "a\\b", ..WANTED }, Some(("six", 1)));
    }

    #[test]
    fn a_file_that_others_may_read_is_ignored_and_it_is_said() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("pass");
        assert!(Passwords::read(&place).ignored().is_none());
        write(&place, "*:*:*:*:secret\n").unwrap();
        set_permissions(&place, Permissions::from_mode(0o640)).unwrap();
        let passwords = Passwords::read(&place);
        assert!(passwords.find(WANTED).is_none());
        assert!(passwords.ignored().unwrap().contains("0640"), "{:?}", passwords.ignored());
        set_permissions(&place, Permissions::from_mode(0o600)).unwrap();
        assert_eq!(Passwords::read(&place).find(WANTED).unwrap().0, "secret");
        assert!(Passwords::read(directory.path()).ignored().unwrap().contains("no file"));
    }
}
