//! `-v` and `REFRAIN_LOG`: every protocol step with its rule number, on stderr.

use crate::output;
use tracing::level_filters::LevelFilter;

/// Starts printing steps if the flag or the variable asks for it; otherwise costs nothing.
pub(crate) fn start(verbose: u8) {
    let asked = std::env::var("REFRAIN_LOG").ok();
    let level = match (verbose, asked.as_deref()) {
        (0, None | Some("")) => return,
        (1, _) => LevelFilter::INFO,
        (2.., _) => LevelFilter::DEBUG,
        (0, Some(text)) => text.parse().unwrap_or_else(|_| {
            output::say(&format!("note: `REFRAIN_LOG` is `{text}`, and not info, debug or trace; taken as info"));
            LevelFilter::INFO
        }),
    };
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_target(false)
        .init();
}
