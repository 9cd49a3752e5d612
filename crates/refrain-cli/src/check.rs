//! `refrain check`: the verdict on a task, for people and for machines.

use crate::args::{CheckArgs, Isolation};
use crate::context::Context;
use crate::output::{self, Loudness, shell_line};
use crate::run::set_params;
use crate::signals;
use refrain::core::Window;
use refrain::report::exit_code;
use refrain::{Error, Home, Result};
use refrain_check::task::{Check, Finding, Outcome, Progress, Request, Verdict, Wanted, Wishes};
use std::sync::atomic::Ordering;

/// A finding, or a task that fails by itself.
const FOUND: u8 = 1;
/// How many undeclared writes are listed; all are in the JSON document.
const MOST_WRITES: usize = 10;
/// How many watched directories are listed.
const MOST_DIRECTORIES: usize = 6;

/// Checks; returns the exit code.
pub(crate) fn check(context: &Context, args: &CheckArgs) -> Result<u8> {
    if let Some(url) = &args.sink {
        return check_sink(context, url);
    }
    let home = context.find_home()?;
    let mut task = home.config.task(args.task.as_deref().unwrap_or_default())?.clone();
    set_params(&mut task, &args.params)?;
    let partition = context.partition(&task, &args.partition)?;
    let none = !(args.trials.twice || args.trials.kill || args.trials.race);
    let seed = args.trials.seed.unwrap_or_else(|| u64::from(context.now().subsec_nanosecond().unsigned_abs()));
    let program = std::env::current_exe().map_err(|error| Error::io("cannot tell where refrain is", error))?;
    let signal = signals::noted()?;
    // No thread was started yet: the shield needs a process that has only one.
    let check = Check::prepare(Request {
        home,
        task,
        partition,
        program,
        wanted: match args.isolation {
            Isolation::Best => Wanted::Best,
            Isolation::Shield => Wanted::Shield,
            Isolation::Copy => Wanted::Copy,
        },
        scratch: args.scratch.as_ref().map(|scratch| context.directory.join(scratch)),
        keep_scratch: args.keep_scratch,
        wishes: Wishes {
            twice: args.trials.twice || none,
            kill: args.trials.kill,
            race: args.trials.race || none,
            moments: args.trials.moments,
            seed,
        },
    })?;
    let interrupted = || signal.load(Ordering::SeqCst) != 0;
    let said = Said(context.loudness >= Loudness::Normal);
    let verdict = match check.run(&said, &interrupted) {
        Err(error) if interrupted() => {
            output::failure(&error, Window::NothingPublished);
            return Ok(u8::try_from(128 + signal.load(Ordering::SeqCst)).unwrap_or(exit_code::FAILED));
        }
        verdict => verdict?,
    };
    if args.json {
        output::data(&crate::json(&verdict)?);
    }
    // The document says all of it.
    if !args.json && (context.loudness >= Loudness::Normal || verdict.result != Outcome::Repeatable) {
        tell(&verdict, context, args);
    }
    Ok(if verdict.result == Outcome::Repeatable { exit_code::PUBLISHED } else { FOUND })
}

struct Said(bool);

impl Progress for Said {
    fn step(&self, what: &str) {
        if self.0 {
            output::say(&format!("check: {what}"));
        }
    }

    fn warn(&self, what: &str) {
        output::say(&format!("warning: {what}"));
    }
}

/// `refrain check --sink`: a bucket may be looked at before there is a home.
fn check_sink(context: &Context, url: &str) -> Result<u8> {
    let home = Home::find_any(context.home.as_deref(), &context.directory)?;
    let place = refrain::prove_sink(home.as_ref(), url)?;
    if context.loudness >= Loudness::Normal {
        output::say(&format!(
            "{place}: conditions are honoured, reads follow writes, and everything that a publication needs is allowed"
        ));
    }
    Ok(exit_code::PUBLISHED)
}

/// The verdict for people.
fn tell(verdict: &Verdict, context: &Context, args: &CheckArgs) {
    for (number, finding) in verdict.findings.iter().enumerate() {
        say(&format!("\n{}", paragraph(number + 1, finding)));
    }
    if let Some(failure) = &verdict.failure {
        say(&format!("\nthe task fails in the scratch copy: {}", failure.what));
        if !failure.hint.is_empty() {
            say(&format!("hint: {}", failure.hint));
        }
        for (name, text) in [("stdout", &failure.stdout), ("stderr", &failure.stderr)] {
            if !text.trim().is_empty() {
                say(&format!("its {name}:\n{}", indented(text.trim_end())));
            }
        }
    }
    if !verdict.findings.is_empty() || verdict.failure.is_some() {
        say("");
    }
    for note in &verdict.notes {
        say(&format!("note: {note}"));
    }
    for trial in &verdict.trials {
        for what in &trial.not_varied {
            say(&format!("note: {}: not tried: {what}", trial.name));
        }
    }
    let directories = &verdict.watched.directories;
    let mut watched: Vec<_> =
        directories.iter().take(MOST_DIRECTORIES).map(|path| path.display().to_string()).collect();
    if directories.len() > MOST_DIRECTORIES {
        watched.push(format!("… ({} in all)", directories.len()));
    }
    let how = if verdict.watched.shielded { "shielded and watched" } else { "watched, not shielded" };
    say(&format!("{how}: {}; {}", watched.join(", "), verdict.watched.limits.join("; ")));
    if args.trials.kill {
        say(&format!("seed: {} (again: {})", verdict.seed, again(context, args, verdict.seed)));
    }
    if let Some(scratch) = &verdict.scratch {
        say(&format!("scratch: {}", scratch.display()));
    }
    let rest = [("--twice", "twice"), ("--kill", "kill"), ("--race", "race")];
    let rest: Vec<_> = rest.iter().filter(|(_, name)| verdict.trials.iter().all(|trial| trial.name != *name)).collect();
    if verdict.result == Outcome::Repeatable && !rest.is_empty() {
        let flags: Vec<_> = rest.iter().map(|(flag, _)| *flag).collect();
        say(&format!("note: there is more to try: {}", flags.join(" ")));
    }
    let key = [verdict.task.as_str(), verdict.partition.as_str()].join(" ");
    say(&format!("{}: {}", key.trim_end(), verdict.sentence()));
}

/// Says it with control characters written out: names and what a task printed may hold some.
fn say(text: &str) {
    let shown = |letter: char| letter == '\n' || letter == '\t' || !letter.is_control();
    let letters =
        text.chars().map(|letter| if shown(letter) { letter.to_string() } else { letter.escape_default().to_string() });
    output::say(&letters.collect::<String>());
}

fn paragraph(number: usize, finding: &Finding) -> String {
    let mut place = String::new();
    if let Some(output) = &finding.output {
        place.push_str(&format!(" output `{output}`"));
    }
    if let Some(file) = &finding.file {
        place.push_str(&format!(", file `{}`", file.replace('\n', "\\n")));
    }
    let mut text = format!(
        "{number}. {}:{place}{} {}",
        finding.kind.name(),
        if place.is_empty() { "" } else { ":" },
        finding.what
    );
    if finding.writes.len() > 1 {
        for write in finding.writes.iter().take(MOST_WRITES) {
            text.push_str(&format!(
                "\n     {} {}",
                write.how.word(),
                write.path.display().to_string().replace('\n', "\\n")
            ));
        }
        if finding.writes.len() > MOST_WRITES {
            text.push_str(&format!("\n     … and {} more (--json lists them)", finding.writes.len() - MOST_WRITES));
        }
    }
    let examples = finding.comparison.iter().flat_map(|comparison| comparison.findings());
    let examples = examples.filter(|(file, _)| finding.file.as_deref().unwrap_or_default() == file.name());
    for (_, found) in examples {
        for example in found.examples.iter().take(2) {
            let side = |side: &Option<String>| side.clone().unwrap_or_else(|| "(nothing)".to_owned());
            text.push_str(&format!("\n     first: {}   second: {}", side(&example.left), side(&example.right)));
        }
    }
    if !finding.cause.is_empty() {
        text.push_str(&format!("\n   cause: {}", finding.cause));
    }
    if !finding.hint.is_empty() {
        text.push_str(&format!("\n   hint: {}", finding.hint));
    }
    text
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

/// The call that kills at the same moments.
fn again(context: &Context, args: &CheckArgs, seed: u64) -> String {
    let mut words = vec!["refrain".to_owned()];
    if let Some(home) = &context.home_flag {
        words.extend(["--home".to_owned(), home.display().to_string()]);
    }
    words.push("check".to_owned());
    words.extend(args.task.clone());
    for (flag, value) in [("--date", &args.partition.date), ("--partition", &args.partition.partition)] {
        words.extend(value.iter().flat_map(|value| [flag.to_owned(), value.clone()]));
    }
    words.extend(args.params.iter().flat_map(|param| ["--param".to_owned(), param.clone()]));
    words.extend(
        ["--kill", "--moments", &args.trials.moments.to_string(), "--seed", &seed.to_string()].map(str::to_owned),
    );
    shell_line(words)
}
