//! The object stores of the tests: two from Python packages, one from a package of Node.js.

use super::place::{is_there, replace};
use super::python_environments;
use crate::command::{Outcome, command, run, succeeds};
use refrain_testkit::object;
use std::path::Path;

/// Puts the servers where the tests find them.
pub(super) fn install() -> Outcome {
    install_once(object::python_directory(), &object::PYTHON_PACKAGES.join(" and "), has_python, |staged| {
        python_environments()?;
        let mut make = command("python3");
        make.args(["-m", "venv"]).arg(staged);
        run(make)?;
        // The scripts beside it name the place that it is moved away from; the Python itself does not.
        let mut install = command(staged.join("bin/python"));
        install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(object::PYTHON_PACKAGES);
        run(install)
    })?;
    install_once(object::azurite_directory(), object::AZURITE_PACKAGE, has_azurite, |staged| {
        let mut install = command("npm");
        install.args(["install", "--silent", "--no-audit", "--no-fund", "--prefix"]).arg(staged);
        install.arg(object::AZURITE_PACKAGE);
        run(install)
    })
}

fn install_once(directory: &Path, what: &str, is_whole: fn() -> bool, fill: impl FnOnce(&Path) -> Outcome) -> Outcome {
    if is_there(directory)? && is_whole() {
        return Ok(());
    }
    println!("installing: {what}");
    replace(directory, fill).map_err(|error| format!("{what} could not be installed: {error}"))?;
    if is_whole() { Ok(()) } else { Err(format!("{what} does not run on this machine")) }
}

fn has_python() -> bool {
    let mut ministack = command(object::python());
    ministack.args(["-c", "import ministack"]);
    let mut weed = command(object::weed());
    weed.arg("version");
    succeeds(ministack) && succeeds(weed)
}

fn has_azurite() -> bool {
    let mut azurite = command("node");
    azurite.arg(object::azurite()).arg("--version");
    succeeds(azurite)
}
