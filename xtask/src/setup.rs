//! The programs that the tests and benchmarks need, installed with apt-get where they are missing.
//!
//! Nothing is skipped: a program that is missing and cannot be installed ends the run with its name.

mod objects;
mod place;
mod postgres;

use crate::command::{Outcome, cargo, command, is_installed, run, succeeds};

/// A program and the Debian package that brings it.
struct Program {
    name: &'static str,
    package: &'static str,
}

const fn program(name: &'static str, package: &'static str) -> Program {
    Program { name, package }
}

/// What `cargo xtask test` needs.
const FOR_TESTS: &[Program] = &[
    program("cc", "gcc"),
    program("git", "git"),
    program("bash", "bash"),
    program("dash", "dash"),
    program("python3", "python3"),
    program("sqlite3", "sqlite3"),
    program("strace", "strace"),
    program("ps", "procps"),
    program("flock", "util-linux"),
    program("setsid", "util-linux"),
    program("setpriv", "util-linux"),
    program("mount", "mount"),
    program("losetup", "mount"),
    program("mkfs.ext4", "e2fsprogs"),
    program("mkfs.xfs", "xfsprogs"),
    program("xfs_io", "xfsprogs"),
    program("bindfs", "bindfs"),
    program("fusermount3", "fuse3"),
    program("setfattr", "attr"),
    program("faketime", "faketime"),
    program("script", "bsdutils"),
    program("localedef", "libc-bin"),
    program("openssl", "openssl"),
    program("ip", "iproute2"),
    program("ipcrm", "util-linux"),
    program("pgbouncer", "pgbouncer"),
    program("node", "nodejs"),
    program("npm", "npm"),
];

/// What `cargo xtask bench` needs beyond that.
const FOR_BENCHMARKS: &[Program] = &[program("b3sum", "b3sum"), program("time", "time"), program("rclone", "rclone")];

/// What `cargo xtask order` needs.
const FOR_RECORDING: &[Program] = &[program("valgrind", "valgrind"), program("nm", "binutils")];

/// The C headers, which the bundled SQLite is compiled against; a file and not a program.
const C_HEADER: &str = "/usr/include/stdio.h";

/// What locales are made from, for the test that makes one; a file and not a program.
const LOCALE_SOURCE: &str = "/usr/share/i18n/locales/de_DE";

/// Installs what the tests need.
pub(crate) fn for_tests() -> Outcome {
    let mut missing = missing(FOR_TESTS);
    if !std::path::Path::new(C_HEADER).exists() {
        missing.push(("the C library's headers", "libc6-dev"));
    }
    if !std::path::Path::new(LOCALE_SOURCE).exists() {
        missing.push(("the sources of locales", "locales"));
    }
    missing.extend(postgres::missing_package()?);
    install(&missing)?;
    postgres::install_wheel()?;
    objects::install()?;
    for (component, name) in [("fmt", "rustfmt"), ("clippy", "clippy")] {
        if !succeeds(cargo(&[component, "--version"])) {
            return Err(format!("`cargo {component}` is missing; install it with: rustup component add {name}"));
        }
    }
    Ok(())
}

/// Installs what the benchmarks need.
pub(crate) fn for_benchmarks() -> Outcome {
    for_tests()?;
    install(&missing(FOR_BENCHMARKS))
}

/// Installs what recording the calls of the program needs.
pub(crate) fn for_recording() -> Outcome {
    install(&missing(FOR_RECORDING))
}

/// Makes sure that `python3 -m venv` works, which Debian packs apart.
pub(crate) fn python_environments() -> Outcome {
    let mut probe = command("python3");
    probe.args(["-c", "import ensurepip, venv"]);
    if succeeds(probe) { Ok(()) } else { install(&[("python3 -m venv", "python3-venv")]) }
}

fn missing(programs: &[Program]) -> Vec<(&'static str, &'static str)> {
    programs
        .iter()
        .filter(|program| !is_installed(program.name))
        .map(|program| (program.name, program.package))
        .collect()
}

/// Installs the packages of everything in `missing`, which pairs what is wanted with its package.
fn install(missing: &[(&str, &str)]) -> Outcome {
    if missing.is_empty() {
        return Ok(());
    }
    let mut packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
    packages.sort_unstable();
    packages.dedup();
    println!("installing: {}", packages.join(" "));
    let result = apt_get(&packages).and_then(|()| {
        // A package that installed and still did not bring its program is a mistake in the lists above.
        let absent: Vec<_> = missing.iter().filter(|(name, _)| is_program(name) && !is_installed(name)).collect();
        if absent.is_empty() { Ok(()) } else { Err(format!("still missing after the installation: {absent:?}")) }
    });
    result.map_err(|error| {
        let wanted: Vec<_> = missing.iter().map(|(name, package)| format!("  {name} (package {package})")).collect();
        format!(
            "these are missing and could not be installed:\n{}\n{error}\ninstall them as root: apt-get install {}",
            wanted.join("\n"),
            packages.join(" ")
        )
    })
}

fn is_program(name: &str) -> bool {
    !name.contains(' ')
}

fn apt_get(packages: &[&str]) -> Outcome {
    if !is_installed("apt-get") {
        return Err("there is no apt-get here".to_owned());
    }
    let install = || {
        let mut install = command("apt-get");
        install.env("DEBIAN_FRONTEND", "noninteractive");
        install.args(["install", "-y", "-qq", "--no-install-recommends"]).args(packages);
        install
    };
    // The lists of a machine in use are good enough; a fresh one has none and fails at once.
    if run(install()).is_ok() {
        return Ok(());
    }
    let mut update = command("apt-get");
    update.args(["update", "-qq"]);
    run(update)?;
    run(install())
}
