//! `refrain compact`: forgets the history of old dates.

use crate::args::CompactArgs;
use crate::context::Context;
use crate::output::{self, Loudness};
use refrain::compact::Compacted;
use refrain::core::counted;
use refrain::{Error, Result, Task};

/// Compacts one task, or every dated one.
pub(crate) fn compact(context: &Context, args: &CompactArgs) -> Result<()> {
    let boundary = context.boundary()?;
    let config = &boundary.home().config;
    let tasks: Vec<&Task> = match &args.task {
        Some(name) => vec![config.task(name)?],
        None => config.tasks.iter().filter(|task| task.partitions.calendar().is_some()).collect(),
    };
    if tasks.is_empty() {
        return Err(Error::invalid("no task of refrain.toml has dates, so there is nothing to compact"));
    }
    for task in tasks {
        tell(context, &boundary.compact(task, &args.before, args.dry_run)?, args.dry_run);
    }
    Ok(())
}

fn tell(context: &Context, compacted: &Compacted, dry_run: bool) {
    if context.loudness >= Loudness::Notes {
        for (key, why) in &compacted.kept {
            output::say(&format!("kept {key}: {why}"));
        }
    }
    if context.loudness < Loudness::Normal {
        return;
    }
    let keys = counted(compacted.keys, "date");
    let verb = if dry_run { "would forget" } else { "forgot" };
    let stands = compacted.watermark.as_ref().map(|watermark| format!("; the watermark is {}", watermark.through));
    let stands = stands.unwrap_or_default();
    output::say(&format!("compact: {}: {verb} {keys}{stands}", compacted.task));
}
