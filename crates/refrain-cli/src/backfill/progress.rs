//! What is seen of a backfill while it works: a bar on a terminal, one line for each date in a log.
//!
//! The bar has no colours, so that nothing depends on them.

use super::tally::Tally;
use super::worker::Ended;
use crate::output::{self, Loudness};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use refrain::core::Outcome;
use std::fmt::Write;
use std::io::IsTerminal;
use std::time::Duration;

const TEMPLATE: &str = "{msg} [{bar:20}] {pos}/{len}, {rate}, {eta} left";
/// How often the time that is left is shown anew while no date ends.
const TICK: Duration = Duration::from_secs(1);

/// Where it is shown, and how much.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    loudness: Loudness,
}

impl Progress {
    pub(super) fn new(dates: usize, loudness: Loudness) -> Self {
        let dumb = std::env::var_os("TERM").is_none_or(|name| name.is_empty() || name == "dumb");
        let wanted = loudness == Loudness::Normal && std::io::stderr().is_terminal() && !dumb;
        Self { bar: wanted.then(|| bar(dates as u64)).flatten(), loudness }
    }

    /// A date ended. On a terminal the bar counts it, and only what went wrong is a line of its own.
    pub(super) fn ended(&self, ended: &Ended) {
        if self.loudness >= Loudness::Notes {
            ended.notes.iter().for_each(|note| self.line(&format!("note: {note}")));
        }
        let well = matches!(ended.outcome, Outcome::Published | Outcome::AlreadyPublished);
        if !well || self.bar.is_none() && self.loudness == Loudness::Normal {
            self.line(&ended.line);
        }
    }

    /// Something that a person should know.
    pub(super) fn note(&self, line: &str) {
        if self.loudness >= Loudness::Notes {
            self.line(line);
        }
    }

    /// Shows the counts.
    pub(super) fn show(&self, tally: &Tally) {
        if let Some(bar) = &self.bar {
            bar.set_position(tally.settled());
            bar.set_message(tally.counts());
        }
    }

    /// Takes the bar away; what was counted is told in a line that stays.
    pub(super) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn line(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| output::say(line)),
            None => output::say(line),
        }
    }
}

/// Nothing if the template is not understood, which a test excludes.
fn bar(dates: u64) -> Option<ProgressBar> {
    let bar = ProgressBar::with_draw_target(Some(dates), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template(TEMPLATE).ok()?.progress_chars("##-");
    bar.set_style(style.with_key("rate", rate));
    bar.set_message(Tally::default().counts());
    bar.enable_steady_tick(TICK);
    Some(bar)
}

/// Dates a second; a slow task's a minute or an hour, so that it is never nought.
fn rate(state: &ProgressState, text: &mut dyn Write) {
    let per_second = state.per_sec();
    let (number, unit) = match per_second {
        fast if fast >= 1.0 => (fast, "s"),
        slow if slow * 60.0 >= 1.0 => (slow * 60.0, "min"),
        slower => (slower * 3600.0, "h"),
    };
    // Nobody can be told that the bar cannot be drawn.
    let _drawn = write!(text, "{number:.1}/{unit}");
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_template_is_understood() {
        assert!(super::bar(3).is_some());
    }
}
