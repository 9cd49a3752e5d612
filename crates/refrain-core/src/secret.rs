//! Locations may carry a password, which is never shown.

/// The text with `user:password@` of every URL in it shown as `user:…@`, and `password=…` without what follows.
pub fn without_password(text: &str) -> String {
    without_parameter(&without_authority(text))
}

/// Whether a text that is no URL names a password, as a connection string of names and values does.
pub fn names_password(text: &str) -> bool {
    !text.contains("://") && without_parameter(text) != text
}

/// Hides the values of `password=` and of names that end so, as in the query of a URL or in `name=value` texts, which may
/// have blanks around the `=`.
fn without_parameter(text: &str) -> String {
    const NAME: &str = "password";
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.to_ascii_lowercase().find(NAME) {
        let (before, after) = rest.split_at(at + NAME.len());
        shown.push_str(before);
        rest = after;
        let Some(value) = after.trim_start().strip_prefix('=') else { continue };
        let value = value.trim_start();
        shown.push_str(&after[..after.len() - value.len()]);
        let end = match value.strip_prefix('\'') {
            // A quote that is escaped, or missing, may not end it.
            Some(_) => value.len(),
            None => value.find(|c: char| c == '&' || c.is_whitespace()).unwrap_or(value.len()),
        };
        if end > 0 {
            shown.push('…');
        }
        rest = &value[end..];
    }
    shown.push_str(rest);
    shown
}

fn without_authority(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        shown.push_str(before);
        shown.push_str("://");
        let end = after.find(['/', '?', '#', ' ']).unwrap_or(after.len());
        let (authority, path) = after.split_at(end);
        match authority.rsplit_once('@') {
            None if has_no_port(authority) && path.contains('@') => {
                shown.push('…');
                rest = &path[path.rfind('@').unwrap_or_default()..];
            }
            None => {
                shown.push_str(authority);
                rest = path;
            }
            Some((user, host)) => {
                shown.push_str(user.split(':').next().unwrap_or_default());
                if user.contains(':') {
                    shown.push_str(":…");
                }
                shown.push('@');
                shown.push_str(host);
                rest = path;
            }
        }
    }
    shown.push_str(rest);
    shown
}

/// Whether what follows the colon is no port: then it is the beginning of a password that somebody did not escape.
fn has_no_port(authority: &str) -> bool {
    authority
        .split_once(':')
        .is_some_and(|(_, port)| port.is_empty() || !port.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::{names_password, without_password};

    #[test]
    fn a_password_is_hidden_and_everything_else_is_kept() {
        for (text, shown) in [
            ("postgres://u:secret@h:5432/db?x=1", "postgres://u:…@h:5432/db?x=1"),
            ("postgres://u@h/db", "postgres://u@h/db"),
            ("s3://bucket/prefix/{date}.csv", "s3://bucket/prefix/{date}.csv"),
            ("postgres://u:se/cret@h/db", "postgres://…@h/db"),
            ("postgres://u:a:b@c@h/db", "postgres://u:…@h/db"),
            ("reports/{date}.csv", "reports/{date}.csv"),
            ("http://h:80/a@b", "http://h:80/a@b"),
            ("a://u:1@h b://v:2@i", "a://u:…@h b://v:…@i"),
            ("postgres:///d?password=secret&sslmode=require", "postgres:///d?password=…&sslmode=require"),
            ("host=h password=secret user=u", "host=h password=… user=u"),
            ("password='my secret' user=u", "password=…"),
            ("host = h PASSWORD = secret user = u", "host = h PASSWORD = … user = u"),
            ("passwords/{date}.csv", "passwords/{date}.csv"),
        ] {
            assert_eq!(without_password(text), shown);
        }
    }

    #[test]
    fn a_text_of_names_and_values_is_told_from_a_path() {
        assert!(names_password("dbname=d password=secret") && names_password("Password = 'x y'"));
        for path in ["reports/{date}.csv", "passwords/day=1/", "user=5/a.csv", "postgresql://h/d?password=secret"] {
            assert!(!names_password(path), "{path}");
        }
    }
}
