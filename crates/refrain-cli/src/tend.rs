//! Commands that tend a home: make it, settle it, tidy it, publish an earlier version.

use crate::args::{GcArgs, InitArgs, RecoverArgs, RollbackArgs, StoreCommand};
use crate::context::Context;
use crate::output::{self, Loudness};
use crate::signals;
use refrain::core::{Generation, Window, counted};
use refrain::recover::Finding;
use refrain::report::exit_code;
use refrain::{Boundary, Error, Home, Outside, Result, store};
use std::sync::atomic::Ordering;

/// `refrain init`
pub(crate) fn init(context: &Context, args: &InitArgs) -> Result<()> {
    if !args.sink.is_empty() {
        return make_ready(context, &args.sink);
    }
    let directory = context.home.clone().unwrap_or_else(|| context.directory.clone());
    let made = Home::make(&directory)?;
    Boundary::with(Home::find(Some(&directory), &directory)?, Outside::default())?;
    if context.loudness < Loudness::Normal {
        return Ok(());
    }
    if made.is_empty() {
        output::say(&format!("{} is a home already; nothing changed", directory.display()));
        return Ok(());
    }
    for path in made {
        output::say(&format!("made {}", path.display()));
    }
    output::say(
        "next: refrain run NAME --date 2025-03-24 --out 'reports/{date}.csv' -- sh -c 'date > \"$REFRAIN_OUT\"'",
    );
    Ok(())
}

/// `refrain init --sink`
fn make_ready(context: &Context, urls: &[String]) -> Result<()> {
    for url in urls {
        let (place, made) = refrain::make_ready(url)?;
        if context.loudness == Loudness::Normal {
            output::say(&if made {
                format!("made the tables of schema refrain in {place}")
            } else {
                format!("{place} has the tables of schema refrain already; nothing changed")
            });
        }
    }
    Ok(())
}

/// `refrain rollback`
pub(crate) fn rollback(context: &Context, args: &RollbackArgs) -> Result<u8> {
    let boundary = context.boundary()?;
    let key = context.key(&boundary, &args.task, &args.partition)?;
    Context::known_task(&boundary, &args.task)?;
    let events = || signals::Listener::default().attach();
    let conclusion = boundary.rollback(&key, args.to.map(Generation::new), events)?;
    output::conclusion(&conclusion, context.loudness);
    Ok(conclusion.report.exit_code)
}

/// `refrain recover`
pub(crate) fn recover(context: &Context, args: &RecoverArgs) -> Result<u8> {
    let boundary = context.boundary()?;
    let task = args.task.as_deref().map(|task| Context::known_task(&boundary, task)).transpose()?;
    let signal = signals::noted()?;
    let stopped = || signal.load(Ordering::SeqCst);
    let recovered = boundary.recover(task.as_ref(), || stopped() == 0)?;
    if stopped() == 0 && recovered.is_empty() && context.loudness == Loudness::Normal {
        output::say("nothing to recover: the end of every attempt is known");
    }
    let mut code = exit_code::PUBLISHED;
    for one in recovered {
        code = code.max(one.finding.exit_code());
        let line = match &one.finding {
            Finding::Published => "published; whatever was still to follow is finished",
            Finding::Standing(version) => {
                output::say(&format!(
                    "{}: nothing of the attempts was published, and nothing will be; version {version} stands",
                    one.key
                ));
                continue;
            }
            Finding::Sealed(maker) => {
                output::say(&format!(
                    "{}: published what attempt {maker} had sealed; the command was not run",
                    one.key
                ));
                continue;
            }
            Finding::Kept { maker, why, next } => {
                output::say(&format!("{}: not published; what attempt {maker} sealed is kept: {why}", one.key));
                output::say(&format!("  {next}"));
                continue;
            }
            Finding::Refused { maker, error } => {
                output::say(&format!("{}: what attempt {maker} sealed is kept, and cannot be published now", one.key));
                output::failure(error, Window::NothingPublished);
                continue;
            }
            Finding::Replaced => "published, and what another task published has taken its place",
            Finding::NothingPublished => "nothing of the attempts was published, and nothing will be",
            Finding::Running(who) => {
                output::say(&format!("{}: still being run by {who}", one.key));
                continue;
            }
            Finding::Failed(error, window) => {
                output::say(&format!("{}: cannot be settled", one.key));
                output::failure(error, *window);
                continue;
            }
        };
        output::say(&format!("{}: {line}", one.key));
    }
    if stopped() != 0 {
        output::say("stopped by a signal; `refrain recover` settles what is left");
        return Ok(u8::try_from(128 + stopped()).unwrap_or(exit_code::FAILED));
    }
    Ok(code)
}

/// `refrain gc`
pub(crate) fn gc(context: &Context, args: &GcArgs) -> Result<()> {
    let boundary = context.boundary()?;
    let collected = boundary.collect(args.dry_run)?;
    let verb = if args.dry_run { "would remove" } else { "removed" };
    for place in collected.staging.iter().chain(&collected.pins).chain(&collected.versions).chain(&collected.outputs) {
        output::data(&format!("{verb} {place}"));
    }
    if context.loudness >= Loudness::Notes {
        for line in &collected.kept {
            output::say(&format!("kept {line}"));
        }
    }
    if context.loudness == Loudness::Normal {
        output::say(&format!(
            "gc: {verb} {} staging, {}, {}, {} of commands, {} log {}",
            collected.staging.len(),
            counted(collected.pins.len(), "pinned input"),
            counted(collected.versions.len(), "version"),
            counted(collected.outputs.len(), "output"),
            collected.attempts,
            if collected.attempts == 1 { "entry" } else { "entries" }
        ));
    }
    output::all_readable(collected.unreadable)
}

/// `refrain store …`
pub(crate) fn store(context: &Context, command: &StoreCommand) -> Result<()> {
    let home = match command {
        StoreCommand::Sql { role } => {
            output::data(&store::sql_for(role));
            return Ok(());
        }
        _ => context.find_home()?,
    };
    let identity = match command {
        StoreCommand::Sql { .. } => return Ok(()),
        StoreCommand::Copy { places } => return copy(context, &home, places),
        StoreCommand::Init { replaces } => {
            let replaces = replaces
                .iter()
                .map(|text| {
                    text.parse()
                        .map_err(|error| Error::invalid(format!("`{text}` is not the id of a store")).because(error))
                })
                .collect::<Result<_>>()?;
            store::make(&home, replaces)?
        }
        StoreCommand::Restored => store::restored(&home)?,
        StoreCommand::Show => store::identity(&home)?,
        StoreCommand::Join => store::join(&home)?,
    };
    let unreadable = match command {
        StoreCommand::Init { .. } | StoreCommand::Restored => relearn(context)?,
        _ => Vec::new(),
    };
    output::data(&format!("store {}", identity.store_id));
    for ancestor in identity.ancestors {
        output::data(&format!("replaces {ancestor}"));
    }
    output::all_readable(unreadable)
}

/// `refrain store copy`
fn copy(context: &Context, home: &Home, places: &[String]) -> Result<()> {
    let (to, from): (Vec<_>, Vec<_>) =
        places.iter().map(String::as_str).partition(|place| place.contains("://") || store::is_database(place));
    if to.len() > 1 || from.len() > 1 {
        return Err(Error::invalid("a history is copied from one embedded store to one that many hosts share")
            .hint("refrain store copy sqlite postgresql://USER@HOST/DATABASE, or sqlite s3://BUCKET/_refrain/"));
    }
    let store::Moved { copied, setting } = store::copy(home, from.first().copied(), to.first().copied())?;
    output::data(&format!("store {}", copied.identity.store_id));
    for ancestor in &copied.identity.ancestors {
        output::data(&format!("replaces {ancestor}"));
    }
    if context.loudness == Loudness::Normal {
        let (keys, attempts) = (counted(copied.keys, "key"), counted(copied.attempts, "attempt"));
        output::say(&format!("copied {keys} and {attempts}"));
        if let Some(setting) = setting {
            output::say(&format!("now write into refrain.toml of every home that shares it: {setting}"));
        }
    }
    Ok(())
}

/// Tells the store what the heads beside the data know, so that whoever looks next is told the truth. Returns why keys of
/// its own cannot be read.
fn relearn(context: &Context) -> Result<Vec<Error>> {
    let relearned = context.boundary()?.relearn()?;
    for (key, error) in &relearned.unreadable {
        output::say(&format!("`{key}` was not brought back: {}", error.message));
    }
    if relearned.keys > 0 && context.loudness == Loudness::Normal {
        let what = counted(relearned.keys, "publication");
        output::say(&format!("brought back from the heads beside the data: {what}"));
    }
    Ok(relearned.records)
}
