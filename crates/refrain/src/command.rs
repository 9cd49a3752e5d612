//! Runs a task's command inside the boundary.

use crate::attempt::Work;
use crate::boundary::{Boundary, Options};
use crate::clock::Stopwatch;
use crate::driver::{BEFORE_THE_COMMAND, Failure, stopped_by};
use crate::environment::{environment, of_an_outer_task};
use crate::output_log::OutputLog;
use crate::process::{
    CommandSpec, Ended, Event, EventReceiver, EventSender, Leftover, Program, SpawnError, StdoutTarget, TaskExit, Why,
    signal_name, spawn, supervise,
};
use crate::report::{Conclusion, LeftBehindReport, TaskExitReport, exit_code};
use crate::task::{CommandClock, CommandLine, Task};
use refrain_core::{CrashPoint, Error, ErrorKind, Partition, Result, TaskEnd};
use refrain_input::stat_digest;
use std::fs::File;
use std::path::PathBuf;

/// Where the command's standard output goes when it is no output of the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stdout {
    /// To this program's own.
    Inherit,
    /// To this program's stderr: stdout carries the report.
    Stderr,
    /// Nobody watches: both streams go into the attempt's output in the home, and stdin is empty.
    Kept,
}

impl Boundary {
    /// Runs the task's command for one partition and publishes what it wrote.
    ///
    /// `events` makes the channel through which signals and other events that should end the command come in; it is
    /// called only when there is something to run. `|| Ok(channel())` with [`channel`](crate::process::channel) will do where none
    /// should; a program that makes several attempts takes those of a [`Relay`](crate::process::Relay).
    ///
    /// # Errors
    /// As [`Boundary::begin`].
    pub fn run(
        &self,
        task: &Task,
        partition: &Partition,
        options: &Options,
        stdout: Stdout,
        events: impl FnOnce() -> Result<(EventSender, EventReceiver)>,
    ) -> Result<Conclusion> {
        if task.command.is_none() && !task.is_all_sql() {
            return Err(Error::invalid(format!("the task `{}` has no command", task.name)).hint(format!(
                "add `command = \"…\"` to [task.{0}], or give one: refrain run {0} … -- COMMAND",
                task.name
            )));
        }
        if task.outputs.is_empty() {
            return Err(Error::invalid(format!("the task `{}` has no output", task.name))
                .hint(format!("say what it publishes: refrain run {} --out FILE … -- COMMAND", task.name)));
        }
        task.demand_one_stdout()?;
        Ok(match self.start(task, partition, options, events)? {
            Ok(work) => execute(work, task.command.clone(), stdout),
            Err(conclusion) => *conclusion,
        })
    }
}

/// 5.7 and 5.8: the command, then the checks, then the publication.
fn execute(mut work: Work<'_>, command: Option<CommandLine>, stdout: Stdout) -> Conclusion {
    if let Some(Event::Signal(signal)) = work.events.try_next() {
        return work.abandon(stopped_by(signal, BEFORE_THE_COMMAND));
    }
    let Some(command) = command else { return work.publish() };
    let log = match stdout {
        Stdout::Kept => match OutputLog::open(work.driver.boundary, &work.driver.plan.key.task, work.driver.id) {
            Ok(log) => Some(log),
            Err(error) => return work.abandon(Error::io("cannot keep the command's output", error).into()),
        },
        Stdout::Inherit | Stdout::Stderr => None,
    };
    let step = command_and_checks(&mut work, command, stdout, log.as_ref());
    work.driver.notes.extend(log.and_then(OutputLog::close));
    match step {
        Ok(Step::Publish) => work.publish(),
        Ok(Step::LeaseLost) => work.lease_lost(),
        Err(failure) => work.abandon(failure),
    }
}

/// How it goes on after the command and its checks.
enum Step {
    Publish,
    LeaseLost,
}

fn command_and_checks(
    work: &mut Work<'_>,
    command: CommandLine,
    stdout: Stdout,
    log: Option<&OutputLog>,
) -> Result<Step, Failure> {
    let watch = Stopwatch::start();
    let ended = start(work, command, stdout, log)?;
    work.driver.report.timings_us.task = watch.micros();
    work.driver.report.task_exit = Some(match ended.exit {
        TaskExit::Code(code) => TaskExitReport::Code(code),
        TaskExit::Signal(signal) => TaskExitReport::Signal(signal),
    });
    work.driver.report.task_end = match (ended.why, ended.exit) {
        (Why::TimedOut, _) => Some(TaskEnd::TimedOut),
        (Why::Exited, TaskExit::Signal(signal)) => Some(TaskEnd::Signal(signal)),
        (Why::Exited, TaskExit::Code(code)) => (code != 0).then_some(TaskEnd::Code(code)),
        (Why::Signalled(_) | Why::LeaseLost, _) => None,
    };
    work.driver.reach(CrashPoint::AfterTask);
    note_leftovers(work, &ended.leftovers);
    if ended.why == Why::LeaseLost {
        return Ok(Step::LeaseLost);
    }
    if let Some(failure) = failure_of(work, "command", &ended) {
        return Err(failure);
    }
    checks(work, log)
}

fn start(work: &mut Work<'_>, command: CommandLine, stdout: Stdout, log: Option<&OutputLog>) -> Result<Ended, Failure> {
    let target = stdout_target(work, stdout)?;
    let program = match command {
        CommandLine::Shell(line) => Program::Shell(line),
        CommandLine::Argv(words) => Program::Argv(words),
    };
    let task = &work.driver.plan.task;
    let mut spec = CommandSpec::new(program, &task.directory, work.driver.id.to_string());
    spec.env = environment(work)?;
    spec.stdout = target;
    spec.timeout = task.timeout;
    spec.grace = task.grace;
    spec.sole_parent = work.driver.boundary.outside.sole_parent;
    spec.outputs = work.outputs.iter().map(|output| as_the_kernel_names(output.staging.path())).collect();
    supervised(work, spec, log)
}

/// The path without symbolic links on the way to it, as a descriptor's link in `/proc` shows it; a file is not there yet.
fn as_the_kernel_names(path: PathBuf) -> PathBuf {
    let resolved = path.parent().and_then(|parent| Some(parent.canonicalize().ok()?.join(path.file_name()?)));
    resolved.unwrap_or(path)
}

fn supervised(work: &mut Work<'_>, mut spec: CommandSpec, log: Option<&OutputLog>) -> Result<Ended, Failure> {
    spec.log =
        log.map(OutputLog::writer).transpose().map_err(|error| Error::io("cannot keep the command's output", error))?;
    spec.env_remove = of_an_outer_task(work.driver.plan.task.inherit_locale);
    let running = spawn(spec).map_err(|error| spawn_failure(&error))?;
    work.driver.notes.extend(running.warnings().iter().map(ToString::to_string));
    supervise(running, &work.events).map_err(|error| Error::io("cannot watch the command", error).into())
}

fn stdout_target(work: &Work<'_>, stdout: Stdout) -> Result<StdoutTarget, Failure> {
    let captured = work.driver.plan.outputs.iter().find(|output| output.spec.stdout);
    let Some(captured) = captured else {
        return Ok(match stdout {
            Stdout::Inherit => StdoutTarget::Inherit,
            Stdout::Stderr | Stdout::Kept => StdoutTarget::Stderr,
        });
    };
    let Some(output) = work.outputs.iter().find(|output| output.name == captured.spec.name) else {
        return Err(Error::new(ErrorKind::Internal, "the output of --stdout has no staging place").into());
    };
    let path = output.staging.path();
    let file = File::create(&path).map_err(|error| Error::io(format!("cannot create `{}`", path.display()), error))?;
    Ok(StdoutTarget::File(file))
}

fn spawn_failure(error: &SpawnError) -> Failure {
    let exit_code = error.exit_code();
    let kind = if exit_code == exit_code::FAILED { ErrorKind::Internal } else { ErrorKind::Invalid };
    Failure { error: Error::new(kind, error.to_string()), exit_code: Some(exit_code), stopped_by: None }
}

fn note_leftovers(work: &mut Work<'_>, leftovers: &[Leftover]) {
    for process in leftovers {
        let left = LeftBehindReport { pid: process.pid, command: process.command.clone() };
        work.driver.report.left_behind.push(left);
        work.driver
            .notes
            .push(format!("ended a process that the command left behind: {} (pid {})", process.command, process.pid));
    }
}

/// Why the end of the command, or of the check that `what` names, forbids a publication, if it does.
fn failure_of(work: &Work<'_>, what: &str, ended: &Ended) -> Option<Failure> {
    let key = &work.driver.plan.key;
    let failed = |kind, message: String, exit_code| {
        let stopped_by = match ended.why {
            Why::Signalled(signal) => Some(signal),
            _ => None,
        };
        Some(Failure { error: Error::new(kind, message), exit_code, stopped_by })
    };
    if ended.why == Why::TimedOut {
        let limit = work.driver.plan.task.timeout.map(refrain_core::format_duration).unwrap_or_default();
        return failed(
            ErrorKind::TimedOut,
            format!("the {what} of `{key}` ran longer than its time limit of {limit}"),
            None,
        );
    }
    if let Why::Signalled(signal) = ended.why {
        let code = u8::try_from(128 + signal).ok();
        return failed(
            ErrorKind::TaskFailed,
            format!("the {what} of `{key}` was ended because refrain got {}", signal_name(signal)),
            code,
        );
    }
    match ended.exit {
        TaskExit::Code(0) => {}
        TaskExit::Code(code) => {
            let message = format!("the {what} of `{key}` failed with exit code {code}");
            return failed(ErrorKind::TaskFailed, message, u8::try_from(code).ok())
                .map(|failure| cure(failure, work, ended.exit));
        }
        TaskExit::Signal(signal) => {
            let message = format!("the {what} of `{key}` was ended by {}", signal_name(signal));
            return failed(ErrorKind::TaskFailed, message, u8::try_from(128 + signal).ok())
                .map(|failure| cure(failure, work, ended.exit));
        }
    }
    if let Some(survivor) = ended.survivors.first() {
        let message = format!(
            "a process of the {what} cannot be ended and may still write: {} (pid {})",
            survivor.command, survivor.pid
        );
        return failed(ErrorKind::Guard, message, None);
    }
    if let Some(writer) = ended.leftovers.iter().find(|process| process.writes) {
        let message = format!(
            "a process that the command of `{key}` left behind was still writing to its output {} later: {} (pid {})",
            refrain_core::format_duration(work.driver.plan.task.grace),
            writer.command,
            writer.pid
        );
        let hint = "let the command wait for it, or send what it writes elsewhere (`> /dev/null`)";
        return failed(ErrorKind::Guard, message, None)
            .map(|failure| Failure { error: failure.error.hint(hint), ..failure });
    }
    None
}

/// What a shell answers when SIGPIPE ended the program that its own answer is taken from.
const SIGPIPE_IN_A_SHELL: i32 = 128 + 13;

/// Says what may be behind the end of a command that gives no reason itself.
fn cure(mut failure: Failure, work: &Work<'_>, exit: TaskExit) -> Failure {
    let hint = if exit == TaskExit::Code(SIGPIPE_IN_A_SHELL) {
        "141 is 128 + SIGPIPE: a program of a pipe was ended because the next one had read enough (head, grep -q), and \
         `pipefail`, which refrain's shell has set, counts that as a failure. Let the next one read all: \
         `sort … | sed -n 1,3p`, `awk 'NR <= 3'`; or allow it: `{ sort … || [ $? = 141 ]; } | head -3`"
    } else if work.driver.plan.task.clock == CommandClock::Logical {
        "the command ran with `clock = \"logical\"`, by libfaketime, whose version 0.9.10 lets time.sleep of Python 3.11 and \
         later fail with \"Invalid argument\": if that was it, put `FAKETIME_DONT_FAKE_MONOTONIC=0` in front of the \
         program, unless it waits with a limit (docs/CONFIG.md, \"The logical clock\")"
    } else {
        return failure;
    };
    failure.error = failure.error.hint(hint);
    failure
}

/// The declared checks, on the staged outputs, before they are sealed.
fn checks(work: &mut Work<'_>, log: Option<&OutputLog>) -> Result<Step, Failure> {
    let checks: Vec<_> = work
        .driver
        .plan
        .outputs
        .iter()
        .filter_map(|output| Some((output.spec.name.clone(), output.spec.check.clone()?)))
        .collect();
    for (name, line) in checks {
        let Some(output) = work.outputs.iter().find(|output| output.name == name) else { continue };
        let place = output.staging.place.clone();
        let output_path = output.staging.path();
        let task = &work.driver.plan.task;
        let mut spec = CommandSpec::new(Program::Shell(line.clone()), &task.directory, work.driver.id.to_string());
        spec.env = environment(work)?;
        spec.env.push(("REFRAIN_CHECK".into(), place.into()));
        spec.stdout = StdoutTarget::Stderr;
        spec.timeout = task.timeout;
        spec.grace = task.grace;
        spec.sole_parent = work.driver.boundary.outside.sole_parent;
        let before = stat_digest(&output_path)?;
        let ended = supervised(work, spec, log)?;
        if ended.why == Why::LeaseLost {
            return Ok(Step::LeaseLost);
        }
        if stat_digest(&output_path)? != before {
            return Err(Error::guard(format!("output `{name}`: its check changed it: {line}"))
                .hint("a check may only look; let the command itself write what is published")
                .into());
        }
        if ended.why == Why::Exited && ended.exit != TaskExit::Code(0) {
            let how = match ended.exit {
                TaskExit::Code(code) => format!("failed with exit code {code}"),
                TaskExit::Signal(signal) => format!("was ended by {}", signal_name(signal)),
            };
            let failure = Error::guard(format!("output `{name}`: its check {how}: {line}")).into();
            return Err(cure(failure, work, ended.exit));
        }
        if ended.why == Why::TimedOut {
            work.driver.report.task_end = Some(TaskEnd::TimedOut);
        }
        if let Some(failure) = failure_of(work, &format!("check of the output `{name}`"), &ended) {
            return Err(failure);
        }
    }
    Ok(Step::Publish)
}
