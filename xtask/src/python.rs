//! Python packages that the tests and benchmarks need, each in an environment of its own.

use crate::command::{Outcome, command, run, succeeds, target_directory};
use crate::setup;
use std::path::PathBuf;

/// Installs `package`, which has the module `module`, below the build directory, once. Returns the Python that has it.
pub(crate) fn with_package(module: &str, package: &str) -> Outcome<PathBuf> {
    let environment = target_directory().join(format!("python-{module}"));
    let python = environment.join("bin/python");
    let mut probe = command(&python);
    probe.args(["-c", &format!("import {module}")]);
    if python.exists() && succeeds(probe) {
        return Ok(python);
    }
    setup::python_environments()?;
    let mut make = command("python3");
    make.args(["-m", "venv", "--clear"]).arg(&environment);
    run(make)?;
    let mut install = command(&python);
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", package]);
    run(install).map_err(|error| format!("{package} could not be installed: {error}"))?;
    Ok(python)
}
