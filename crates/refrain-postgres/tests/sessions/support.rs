//! Links that do not depend on the environment of whoever runs the tests.

use refrain_postgres::{Limits, Link, Session};

/// A link of these words alone, and perhaps of a home directory and variables.
pub(crate) fn link_with(text: &str, variables: &[(&str, &str)]) -> Link {
    Link::resolve(text, &|name| match variables.iter().find(|(known, _)| *known == name) {
        Some((_, value)) => Some(value.into()),
        None => (name == "HOME").then(|| "/nonexistent".into()),
    })
    .unwrap_or_else(|error| panic!("{error}"))
}

/// A link of these words alone.
pub(crate) fn link(text: &str) -> Link {
    link_with(text, &[])
}

/// A session by a URL.
pub(crate) fn open(text: &str) -> Session {
    Session::open(&link(text), "a test").unwrap_or_else(|fault| panic!("{fault}"))
}

/// What a statement selects first.
pub(crate) fn one(session: &mut Session, sql: &str) -> String {
    let mut transaction = session.write(&Limits::default()).unwrap_or_else(|fault| panic!("{fault}"));
    let rows = transaction.query(sql, &[]).unwrap_or_else(|fault| panic!("{fault}"));
    transaction.roll_back().unwrap_or_else(|fault| panic!("{fault}"));
    rows[0][0].clone().unwrap_or_default()
}

/// What `psql` by a URL prints.
pub(crate) fn plain(url: &str, sql: &str) -> String {
    let output = std::process::Command::new("psql")
        .args(["-X", "-At", "-v", "ON_ERROR_STOP=1", "-d", url, "-c", sql])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .output()
        .expect("psql runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}
