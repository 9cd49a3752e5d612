//! `clock = "logical"`: every program of the command starts with its clock at the logical date.
//!
//! The clock is libfaketime's (<https://github.com/wolfcw/libfaketime>, Debian package `faketime`), loaded into the
//! command's programs through `LD_PRELOAD`. Nothing of Refrain loads it: its own leases, heartbeat and times go on by
//! the host's clock. A statically linked program, and one that asks the kernel without the C library (Go), does not load
//! it either and sees the host's clock.
//!
//! Only the time of day is changed. The monotonic clock is left alone: libfaketime 0.9.10 does not know every call that
//! waits by it (`sem_clockwait`), and with a changed one such a wait would not end.

use crate::environment::Variables;
use crate::process::find_program;
use jiff::Timestamp;
use refrain_core::{Error, ErrorKind, Result};
use std::env;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// The libraries of the package, the one that stands concurrent threads first.
const LIBRARIES: [&str; 2] = ["libfaketimeMT.so.1", "libfaketime.so.1"];

/// What sets the command's clock to begin at `start`, whole seconds.
///
/// # Errors
/// `unsupported` when libfaketime is not installed. The command is not run with another clock instead: what it
/// publishes would be made from the wall clock and be recorded as made from the logical one.
pub(crate) fn variables(start: Timestamp) -> Result<Variables> {
    let mut preload: OsString = library(&env::var_os("PATH").unwrap_or_default())?.into();
    if let Some(others) = env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    Ok(vec![
        ("LD_PRELOAD".into(), preload),
        ("FAKETIME".into(), format!("@{}", start.as_second()).into()),
        // Seconds since 1970: a civil time would be read in the command's own time zone.
        ("FAKETIME_FMT".into(), "%s".into()),
        ("FAKETIME_DONT_FAKE_MONOTONIC".into(), "1".into()),
    ])
}

/// The library of the `faketime` that stands on the search path, wherever that is installed.
fn library(path: &OsStr) -> Result<PathBuf> {
    let missing = || {
        Error::new(ErrorKind::Unsupported, "`clock = \"logical\"` needs libfaketime, which was not found on this host")
            .hint("install it: apt-get install faketime; or remove `clock` from the task: it then sees the wall clock")
    };
    let program = find_program("faketime", path).ok_or_else(missing)?;
    let program = program.canonicalize().map_err(|error| missing().because(error))?;
    let prefix = program.parent().and_then(|bin| bin.parent()).ok_or_else(missing)?;
    let folders = [format!("lib/{}-linux-gnu", env::consts::ARCH), "lib64".to_owned(), "lib".to_owned()];
    let places = LIBRARIES
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| prefix.join(folder).join("faketime").join(name)));
    places.into_iter().find(|place| place.is_file()).ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::{library, variables};
    use jiff::Timestamp;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_library_is_the_one_of_the_program_on_the_path() {
        let prefix = tempfile::tempdir().unwrap();
        let place = |name: &str| prefix.path().join(name);
        for folder in ["bin", "lib/faketime"] {
            std::fs::create_dir_all(place(folder)).unwrap();
        }
        let path = place("bin").into_os_string();
        std::fs::write(place("bin/faketime"), "").unwrap();
        std::fs::set_permissions(place("bin/faketime"), std::fs::Permissions::from_mode(0o755)).unwrap();
        let error = library(&path).unwrap_err();
        assert!(error.hint.unwrap().contains("apt-get install faketime"), "a program without its library");
        for name in ["libfaketime.so.1", "libfaketimeMT.so.1"] {
            std::fs::write(place("lib/faketime").join(name), "").unwrap();
            assert_eq!(library(&path).unwrap().file_name().unwrap(), name);
        }
    }

    #[test]
    fn the_clock_is_told_in_seconds_of_the_epoch() {
        let variables = variables(Timestamp::new(1_742_774_400, 5).unwrap()).unwrap();
        assert!(variables.contains(&("FAKETIME".into(), "@1742774400".into())), "{variables:?}");
    }
}
