//! `retry = { attempts = 3, backoff = "10s..5m" }` and `retry_on = [75, "70..79", "timeout"]`.

use super::section::{Section, describe};
use refrain_core::{Error, Passing, Result, RetryOn, RetryPolicy};
use toml::Value;

/// Reads both keys of a task.
pub(super) fn read(section: &mut Section) -> Result<RetryPolicy> {
    let mut policy = RetryPolicy::default();
    if let Some(mut retry) = section.section("retry")? {
        if let Some(attempts) = retry.count("attempts")? {
            if attempts == 0 {
                return Err(Error::invalid(format!(
                    "`{}` must be at least 1, the first attempt",
                    retry.name("attempts")
                )));
            }
            policy.attempts = attempts;
        }
        if let Some(text) = retry.text("backoff")? {
            let parsed = text.parse();
            policy.backoff = parsed.map_err(|error: Error| error.within(format!("`{}`", retry.name("backoff"))))?;
        }
        retry.done()?;
    }
    let name = section.name("retry_on");
    policy.on = match section.take("retry_on") {
        None => None,
        Some(Value::Array(entries)) => {
            Some(RetryOn::new(entries.iter().map(|entry| passing(&name, entry)).collect::<Result<Vec<_>>>()?))
        }
        Some(other) => return Err(section.wrong("retry_on", "a list of exit codes and names", &other)),
    };
    Ok(policy)
}

fn passing(name: &str, entry: &Value) -> Result<Passing> {
    let text = match entry {
        Value::Integer(code) => code.to_string(),
        Value::String(text) => text.clone(),
        other => {
            return Err(Error::invalid(format!("`{name}` holds exit codes and names, not {}", describe(other))));
        }
    };
    text.parse().map_err(|error: Error| error.within(format!("`{name}`")))
}
