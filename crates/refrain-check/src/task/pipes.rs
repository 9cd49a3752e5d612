//! Failures that a pipe hides: `a | b` in a shell without `pipefail` succeeds when `a` fails.
//!
//! Whether one is hidden is seen by running the command once more with `pipefail` in every shell: bash takes it from
//! `SHELLOPTS` (bash(1)), and behind the shield bash stands in for a `sh` that knows no such option. A part that ends by
//! SIGPIPE because the next one wants no more (`yes | head`) is as it should be.

use super::call::{Called, Circumstances, Exit};
use super::shield::StandIn;
use super::trials::{Trials, failure, said};
use super::verdict::{Finding, Kind};
use refrain::core::Result;
use refrain::process::{find_program, has_pipe};
use refrain::task::CommandLine;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// 128 + SIGPIPE.
const BROKEN_PIPE: i32 = 141;
/// Larger files are no scripts.
const MOST: u64 = 1 << 20;
const SHELLS: &[&str] = &["sh", "bash", "dash", "ash", "ksh", "zsh"];

/// Looks for a hidden failure, if the command has a pipe that could hide one.
pub(super) fn look(trials: &mut Trials<'_>) -> Result<()> {
    let suspects = suspects(trials);
    if suspects.is_empty() {
        return Ok(());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let Some(bash) = find_program("bash", &path) else {
        trials.notes.push(format!("the pipes in {} were not tried: there is no bash", suspects.join(", ")));
        return Ok(());
    };
    trials.progress.step(&format!("twice: once more, with every failure in the pipes of {} told", suspects.join(", ")));
    let strict = run(trials, "pipefail", &bash, true)?;
    if strict.published() || !failed_by_itself(&strict) {
        return Ok(());
    }
    let control = run(trials, "no-pipefail", &bash, false)?;
    if !control.published() {
        trials.notes.push(format!("the pipes in {} could not be tried: {}", suspects.join(", "), control.end()));
        return Ok(());
    }
    let failed = failure(&strict);
    let code = match failed.task_exit {
        Some(Exit::Code(code)) => format!("with exit code {code}"),
        Some(Exit::Signal(signal)) => format!("by signal {signal}"),
        None => "with a failure".to_owned(),
    };
    let said = said(&failed.stderr).map(|line| format!(": {line}")).unwrap_or_default();
    trials.findings.push(
        Finding::new(
            Kind::HiddenFailure,
            "twice",
            format!("a part of a pipe in {} ends {code}, and the command succeeds all the same{said}", suspects.join(" or ")),
        )
        .because("a shell without `pipefail` reports the last part of a pipe alone")
        .hint("put `set -o pipefail` before it under bash; where a failure is meant (`grep` that finds nothing ends with 1), write `|| true` behind that part"),
    );
    Ok(())
}

/// Whether it is the command that failed, and not for a reader that had enough.
fn failed_by_itself(called: &Called) -> bool {
    let exit = called.report.as_ref().and_then(|report| report.task_exit);
    !matches!(exit, None | Some(Exit::Code(0 | BROKEN_PIPE) | Exit::Signal(13)))
}

fn run(trials: &mut Trials<'_>, name: &str, bash: &Path, pipefail: bool) -> Result<Called> {
    trials.ground.reset()?;
    let stage = trials.stage(name, false, None)?;
    let mut circumstances = Circumstances::default();
    if pipefail {
        circumstances.env.push(("SHELLOPTS".into(), "pipefail".into()));
    }
    let shielded = trials.ground.is_shielded();
    let covered = shielded.then(|| StandIn::of(bash, Path::new("/bin/sh"))).flatten();
    if covered.is_none() {
        // At least a `sh` that is looked up by its name.
        let shims = trials.caller.scratch.join("shims");
        let made = fs::create_dir_all(&shims).and_then(|()| match symlink(bash, shims.join("sh")) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
            made => made,
        });
        made.map_err(|error| refrain::Error::io("cannot stand in for sh", error))?;
        let mut path = shims.into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        circumstances.env.push(("PATH".into(), path));
    }
    let called = trials.caller.run(&stage, &circumstances);
    drop(covered);
    called
}

/// The places whose pipes may hide a failure, as they are called in a sentence.
fn suspects(trials: &Trials<'_>) -> Vec<String> {
    let directory = trials.ground.inside(&trials.task.directory);
    let mut suspects = Vec::new();
    let words: Vec<String> = match &trials.task.command {
        Some(CommandLine::Argv(words)) => words.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        Some(CommandLine::Shell(line)) => {
            // The line itself is run with pipefail; a shell inside it is not.
            if SHELLS.iter().any(|shell| line.contains(&format!("{shell} -c")))
                && has_pipe(&line.replace(['\'', '"'], " "))
            {
                suspects.push("a `sh -c` of the command".to_owned());
            }
            line.split_whitespace().map(|word| word.trim_matches(['\'', '"', ';']).to_owned()).collect()
        }
        None => Vec::new(),
    };
    let told = words.iter().any(|word| word.contains("pipefail"));
    if let (Some(CommandLine::Argv(_)), Some(shell), false) = (&trials.task.command, words.first(), told) {
        let shell = Path::new(shell).file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let line =
            words.iter().position(|word| word.starts_with('-') && word.ends_with('c')).and_then(|at| words.get(at + 1));
        if SHELLS.contains(&shell) && line.is_some_and(|line| has_pipe(line)) {
            suspects.push(format!("`{shell} -c`"));
        }
    }
    let named = words.iter().map(|word| directory.join(word));
    let code = trials.task.code.iter().map(|code| trials.ground.inside(&trials.task.base.join(code)));
    let mut scripts: Vec<PathBuf> = named.chain(code).filter(|path| is_suspect(path)).collect();
    scripts.sort();
    scripts.dedup();
    suspects
        .extend(scripts.iter().map(|path| format!("`{}`", path.strip_prefix(&directory).unwrap_or(path).display())));
    suspects
}

/// Whether the file is a shell script with a pipe and without pipefail.
fn is_suspect(path: &Path) -> bool {
    if !fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() <= MOST) {
        return false;
    }
    let Ok(text) = fs::read_to_string(path) else { return false };
    let first = text.lines().next().unwrap_or_default();
    let by_line = first.starts_with("#!")
        && SHELLS.iter().any(|shell| {
            first.ends_with(&format!("/{shell}"))
                || first.contains(&format!("{shell} "))
                || first.ends_with(&format!(" {shell}"))
        });
    let by_name = path.extension().is_some_and(|extension| SHELLS.iter().any(|shell| extension == *shell));
    (by_line || by_name)
        && !text.contains("pipefail")
        && text.lines().any(|line| !line.trim_start().starts_with('#') && has_pipe(line))
}
