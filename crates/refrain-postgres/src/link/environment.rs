//! What the environment says, and who calls.

use nix::unistd::{User, geteuid};
use refrain_core::{Error, Result};
use std::ffi::OsString;
use std::path::PathBuf;

/// The environment: the value of a variable.
pub type Environment<'e> = dyn Fn(&str) -> Option<OsString> + 'e;

/// The environment of this process. Nothing else of this crate reads it.
pub(super) fn of_this_process(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// A variable as text; nothing when it is empty.
pub(super) fn text(environment: &Environment<'_>, name: &str) -> Result<Option<String>> {
    match environment(name).map(OsString::into_string) {
        Some(Ok(value)) => Ok(Some(value).filter(|value| !value.is_empty())),
        Some(Err(_)) => Err(Error::invalid(format!("the environment variable {name} is not UTF-8"))),
        None => Ok(None),
    }
}

/// A variable as a path; nothing when it is empty.
pub(super) fn path(environment: &Environment<'_>, name: &str) -> Result<Option<PathBuf>> {
    Ok(text(environment, name)?.map(PathBuf::from))
}

/// The home directory: `HOME`, or what the system has for the user, as libpq looks for it.
pub(super) fn home(environment: &Environment<'_>) -> Result<Option<PathBuf>> {
    Ok(path(environment, "HOME")?.or_else(|| user_entry().map(|user| user.dir)))
}

/// The name that the system has for the effective user.
pub(super) fn user_name() -> Option<String> {
    user_entry().map(|user| user.name)
}

fn user_entry() -> Option<User> {
    User::from_uid(geteuid()).ok().flatten()
}
