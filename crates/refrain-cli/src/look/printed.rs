//! `refrain log --output ID`

use crate::context::Context;
use crate::output;
use refrain::Result;
use std::io::Write;

/// Prints what the command of an attempt printed, byte for byte; whose it is goes to stderr.
pub(crate) fn printed(context: &Context, id: &str) -> Result<()> {
    let (record, text) = context.boundary()?.attempt_with_output(id)?;
    let whose = format!("attempt {} of {}", record.attempt, record.key);
    match text {
        Some(text) => {
            output::say(&format!("{whose}:"));
            let mut stdout = std::io::stdout().lock();
            output::written(stdout.write_all(&text).and_then(|()| stdout.flush()));
        }
        None => output::say(&format!(
            "{whose}: nothing is kept: its command printed nothing, `refrain gc` removed it, or it was run by \
             `refrain run`, whose output is the caller's"
        )),
    }
    Ok(())
}
