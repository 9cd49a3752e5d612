//! Run twice, in different circumstances, and compare.

use super::call::{Circumstances, files_in};
use super::control;
use super::pipes;
use super::today::{self, SHIFT, SHIFT_SECONDS};
use super::trials::{Played, Ran, Trials, failure, said};
use super::verdict::{Finding, Kind, Trial};
use refrain::core::{Result, counted};
use refrain::task::CommandClock;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

const NAME: &str = "twice";
/// Between two runs whose clock is not shifted: archives keep times in steps of two seconds.
const GAP: Duration = Duration::from_millis(2100);
/// Where the clock is shifted only the times of files still need to differ, in steps of one second.
pub(super) const SHORT_GAP: Duration = Duration::from_millis(1100);

const IN_PLACE: &str = "what the first run published in its place";

/// Runs the task twice. Nothing when it is not fit to be checked.
pub(super) fn twice(trials: &mut Trials<'_>) -> Ran<Played> {
    trials.progress.step("twice: the first run");
    trials.ground.mark()?;
    let first = match trials.undisturbed("first")? {
        Ok(first) => first,
        Err(failure) => {
            // It may have written its outputs itself, where readers find them.
            trials.note_writes()?;
            return Ok(Err(failure));
        }
    };
    trials.note_writes()?;
    look_behind(trials, &first);
    let hidden = show(trials, &first);
    trials.ground.mark()?;

    let mut varied = Varied::of(trials, &hidden);
    trials.caller.pause(if varied.shifted { SHORT_GAP } else { GAP })?;
    trials.progress.step(&format!("twice: the second run, with {}", varied.list()));
    let second = second_run(trials, &mut varied)?;
    trials.note_writes()?;
    if let Some(second) = second
        && !trials.compare(NAME, &first, &second, Kind::ContentDiffers)?
    {
        control::settle(trials, &first, &varied.circumstances)?;
    }
    today::look(trials, &first);
    trials.done.push(Trial {
        name: NAME,
        count: 2,
        detail: "2 runs".to_owned(),
        varied: varied.names.clone(),
        not_varied: varied.not.clone(),
    });
    pipes::look(trials)?;
    Ok(Ok(first))
}

fn second_run(trials: &mut Trials<'_>, varied: &mut Varied) -> Result<Option<Played>> {
    let stage = trials.stage("the-second-one", true, None)?;
    let mut called = trials.caller.run(&stage, &varied.circumstances)?;
    if !called.published() && varied.shifted {
        let shifted = called;
        varied.without_shift();
        let again = trials.stage("the-second-one-again", true, None)?;
        let plain = trials.caller.run(&again, &varied.circumstances)?;
        if plain.published() {
            let why = said(&shifted.stderr).map(|line| format!(": {line}")).unwrap_or_default();
            varied.not.push(format!("the date: the command fails with another one{why}"));
            return Ok(Some(Played { stage: again, called: plain, shifted: false }));
        }
        called = plain;
    }
    if called.published() {
        return Ok(Some(Played { stage, called, shifted: varied.shifted }));
    }
    let failed = failure(&called);
    let said = said(&failed.stderr).map(|line| format!(": {line}")).unwrap_or_default();
    trials.findings.push(
        Finding::new(Kind::FailsWhenRepeated, NAME, format!("the second run failed: {}{said}", failed.what))
            .because("something that the first run left behind, or the circumstances of the second one")
            .hint("let the command work from its declared inputs and $TMPDIR alone, whatever lies there from before"),
    );
    Ok(None)
}

/// What the run left: processes, files in $TMPDIR.
fn look_behind(trials: &mut Trials<'_>, played: &Played) {
    let left = played.called.report.iter().flat_map(|report| &report.left_behind);
    let commands: Vec<_> = left.map(|process| process.command.clone()).collect();
    if !commands.is_empty() {
        trials.findings.push(
            Finding::new(Kind::LeftProcess, NAME, format!("the command left running: {}", commands.join(", ")))
                .because("it ends before its own child processes do; what they still write is lost, or comes too late")
                .hint("wait for them before the command ends (`wait` in a shell, `join()` elsewhere), and start no daemons"),
        );
    }
    let files = files_in(&played.called.temporary);
    if files > 0 {
        trials.notes.push(format!("the command leaves {} in $TMPDIR", counted(files, "file")));
    }
}

/// Puts the first publication where readers would find it, as it would be when the task is really repeated; of what could
/// not be put there, the outputs and why.
pub(super) fn show(trials: &Trials<'_>, played: &Played) -> Vec<String> {
    let outputs = played.stage.outputs.iter();
    let hidden = outputs.filter_map(|output| {
        let error = trials.ground.show(&output.place, &output.real).err()?;
        Some(format!("`{}`: {error}", output.name))
    });
    hidden.collect()
}

/// What the second run finds different.
#[derive(Debug)]
struct Varied {
    circumstances: Circumstances,
    names: Vec<String>,
    not: Vec<String>,
    shifted: bool,
}

impl Varied {
    /// `hidden` are the outputs that the second run does not find where the first one published them.
    fn of(trials: &Trials<'_>, hidden: &[String]) -> Self {
        let circumstances = Circumstances { env: Vec::new(), label: "-of-the-second-run".to_owned() };
        let mut varied = Self { circumstances, names: Vec::new(), not: Vec::new(), shifted: false };
        if trials.task.clock == CommandClock::Logical {
            varied.names.push("the clock some seconds later (the command's is the logical date)".to_owned());
        } else {
            varied.shift_clock();
        }
        varied.names.extend(["another staging path", "another $TMPDIR", "other ids"].map(str::to_owned));
        if !trials.ground.is_shielded() {
            varied.not.push("a publication in its place: there is no shield".to_owned());
        } else if hidden.is_empty() {
            varied.names.push(IN_PLACE.to_owned());
        } else {
            varied.not.push(format!("{IN_PLACE}: {}", hidden.join(", ")));
        }
        match trials.inputs.reordered {
            Some(true) => varied.names.push("inputs listed in the opposite order".to_owned()),
            Some(false) => {
                varied.not.push("the order in which inputs are listed: they cannot be laid into memory".to_owned());
            }
            None => {}
        }
        if trials.task.inherit_locale {
            varied.inherit();
        }
        varied
    }

    fn shift_clock(&mut self) {
        let Some(library) = libfaketime() else {
            self.names.push("the clock 2 seconds later".to_owned());
            self.not.push("the date: libfaketime is not installed (Debian: apt-get install faketime)".to_owned());
            return;
        };
        self.shifted = true;
        self.names.push(format!("the clock {SHIFT} ahead ({})", library.display()));
        self.circumstances.env.extend(faked(&library, &format!("+{SHIFT_SECONDS}")));
    }

    /// The command does not live with another date: only the time differs then.
    fn without_shift(&mut self) {
        self.shifted = false;
        self.circumstances.env.retain(|(name, _)| name == "TZ" || name == "LC_ALL");
        if let Some(clock) = self.names.first_mut() {
            "the clock some seconds later".clone_into(clock);
        }
    }

    /// The caller's time zone and locale reach the command, so they are part of the circumstances.
    fn inherit(&mut self) {
        let locale = other_locale();
        self.names.push(format!("another time zone, and LC_ALL={}", locale.display()));
        self.circumstances.env.push(("TZ".into(), "<+1330>-13:30".into()));
        self.circumstances.env.push(("LC_ALL".into(), locale));
    }

    fn list(&self) -> String {
        self.names.join(", ")
    }
}

/// What sets another time of day for a command, as faketime(1) writes it; times that are measured stay true.
pub(super) fn faked(library: &Path, time: &str) -> [(OsString, OsString); 4] {
    let set = [
        ("LD_PRELOAD", library.as_os_str().to_owned()),
        ("FAKETIME", time.into()),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".into()),
        ("NO_FAKE_STAT", "1".into()),
    ];
    set.map(|(name, value)| (name.into(), value))
}

/// The library of faketime(1), where its package puts it.
pub(super) fn libfaketime() -> Option<PathBuf> {
    const FILE: &str = "faketime/libfaketime.so.1";
    let multiarch = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten().map(|entry| entry.path());
    let roots = ["/usr/lib", "/usr/lib64", "/usr/local/lib"].map(PathBuf::from).into_iter().chain(multiarch);
    roots.map(|root| root.join(FILE)).find(|library| library.is_file())
}

/// A locale that sorts and counts in another way than the caller's, of those that are installed.
fn other_locale() -> OsString {
    let installed = |name: &&str| Path::new("/usr/lib/locale").join(name).is_dir();
    if let Some(locale) = ["en_US.utf8", "de_DE.utf8", "tr_TR.utf8", "fr_FR.utf8"].iter().find(|name| installed(name)) {
        return (*locale).into();
    }
    let present =
        ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|name| std::env::var(name).ok().filter(|text| !text.is_empty()));
    let utf8 = present.is_some_and(|name| name.to_ascii_lowercase().replace('-', "").ends_with("utf8"));
    if utf8 { "C" } else { "C.UTF-8" }.into()
}
