//! What the command finds in its environment.

use crate::attempt::Work;
use crate::logical_clock;
use crate::process::ATTEMPT_VARIABLE;
use crate::task::CommandClock;
use refrain_core::{AttemptId, Generation, Key, Partition, Result, RunId, Token, Value};
use std::collections::BTreeMap;
use std::ffi::OsString;

/// Names and values.
pub(crate) type Variables = Vec<(OsString, OsString)>;

const DATE_EPOCH: &str = "SOURCE_DATE_EPOCH";

/// What only a task finds, and only by the attempt that runs it; one of each output, input and parameter is named after these
/// beginnings. Everything else that begins with `REFRAIN_` is the caller's.
const GIVEN: [&str; 12] = [
    "REFRAIN_TASK",
    "REFRAIN_PARTITION",
    "REFRAIN_DATE",
    "REFRAIN_DATE_START",
    "REFRAIN_DATE_END",
    "REFRAIN_RUN",
    ATTEMPT_VARIABLE,
    "REFRAIN_TOKEN",
    "REFRAIN_SEED",
    "REFRAIN_IDEMPOTENCY_KEY",
    "REFRAIN_OUT",
    "REFRAIN_CHECK",
];
const GIVEN_BY_NAME: [&str; 3] = ["REFRAIN_OUT_", "REFRAIN_IN_", "REFRAIN_PARAM_"];

/// What this process finds because it is run by a task itself. A command that found it would write to the outputs of that task, or
/// read its inputs, or take its date for its own unless that is what its task asks for.
pub(crate) fn of_an_outer_task(inherit_locale: bool) -> Vec<OsString> {
    let other_date = !inherit_locale && std::env::var_os(ATTEMPT_VARIABLE).is_some();
    let given = |name: &str| {
        GIVEN.contains(&name)
            || GIVEN_BY_NAME.iter().any(|start| name.starts_with(start))
            || other_date && name == DATE_EPOCH
    };
    std::env::vars_os().map(|(name, _)| name).filter(|name| name.to_str().is_some_and(given)).collect()
}

/// What an attempt is told about itself, by variables or by [`Attempt`](crate::Attempt).
#[derive(Debug)]
pub(crate) struct Given {
    pub(crate) key: Key,
    pub(crate) partition: Partition,
    pub(crate) params: BTreeMap<String, String>,
    pub(crate) run: RunId,
    pub(crate) generation: Generation,
    pub(crate) attempt: AttemptId,
    pub(crate) token: Token,
    pub(crate) seed: u32,
    pub(crate) idempotency_key: String,
}

impl Given {
    pub(crate) fn to(work: &Work<'_>) -> Self {
        let plan = &work.driver.plan;
        Self {
            key: plan.key.clone(),
            partition: plan.partition.clone(),
            params: plan.task.params.clone(),
            run: work.run.run_id,
            generation: work.run.generation,
            attempt: work.driver.id,
            token: work.driver.report.token.unwrap_or_default(),
            seed: seed(&plan.key),
            idempotency_key: idempotency_key(work.run.run_id),
        }
    }
}

/// The variables of DESIGN section 4, and those that make equal input give equal bytes.
///
/// # Errors
/// `unsupported` when the command's clock cannot be set.
pub(crate) fn environment(work: &Work<'_>) -> Result<Variables> {
    let plan = &work.driver.plan;
    let given = Given::to(work);
    let mut env: Vec<(String, String)> = vec![
        ("REFRAIN_TASK".into(), given.key.task.to_string()),
        ("REFRAIN_PARTITION".into(), given.key.partition),
        ("REFRAIN_RUN".into(), given.run.to_string()),
        (ATTEMPT_VARIABLE.into(), given.attempt.to_string()),
        ("REFRAIN_TOKEN".into(), given.token.to_string()),
        ("REFRAIN_SEED".into(), given.seed.to_string()),
        ("REFRAIN_IDEMPOTENCY_KEY".into(), given.idempotency_key),
    ];
    if !plan.task.inherit_locale {
        for (name, value) in [("TZ", "UTC"), ("LC_ALL", "C.UTF-8"), ("PYTHONHASHSEED", "0")] {
            env.push((name.into(), value.into()));
        }
    }
    if let Some(interval) = &given.partition.interval {
        env.push(("REFRAIN_DATE".into(), interval.key.clone()));
        env.push(("REFRAIN_DATE_START".into(), interval.start.to_string()));
        env.push(("REFRAIN_DATE_END".into(), interval.end.to_string()));
        if !plan.task.inherit_locale {
            env.push((DATE_EPOCH.into(), interval.start.as_second().to_string()));
        }
    }
    // What the command's standard output becomes is not for the command to write.
    let captured = |name: &str| plan.outputs.iter().any(|output| output.spec.stdout && output.spec.name == name);
    let written = work.outputs.iter().filter(|output| !captured(&output.name)).count();
    for output in &work.outputs {
        let variable = format!("REFRAIN_OUT_{}", variable_part(&output.name));
        if written == 1 && !captured(&output.name) || work.outputs.len() == 1 {
            env.push(("REFRAIN_OUT".into(), output.staging.place.clone()));
        }
        env.extend(output.staging.extra.iter().map(|(suffix, value)| (format!("{variable}_{suffix}"), value.clone())));
        env.push((variable, output.staging.place.clone()));
    }
    for (name, place) in &work.inputs {
        env.push((format!("REFRAIN_IN_{}", variable_part(name)), place.clone()));
    }
    for (name, value) in given.params {
        env.push((format!("REFRAIN_PARAM_{}", variable_part(&name)), value));
    }
    let mut env: Variables = env.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
    if let (CommandClock::Logical, Some(interval)) = (plan.task.clock, &given.partition.interval) {
        env.extend(logical_clock::variables(interval.start)?);
    }
    Ok(env)
}

/// A name as part of a variable's name: upper case, everything but letters and digits as `_`.
pub(crate) fn variable_part(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect()
}

/// The same number for every attempt of the key, in every home: for tasks that need pseudo-random numbers.
fn seed(key: &Key) -> u32 {
    let digest = digest(&[("task", key.task.as_str()), ("partition", &key.partition)]);
    let [a, b, c, d, ..] = *digest.as_bytes();
    // Within 31 bits: some generators take no more.
    u32::from_le_bytes([a, b, c, d]) >> 1
}

/// The same text for every attempt of the run: for services that drop repeated requests.
fn idempotency_key(run: RunId) -> String {
    digest(&[("run", &run.to_string())]).to_hex()[..32].to_owned()
}

fn digest(parts: &[(&str, &str)]) -> blake3::Hash {
    let map: BTreeMap<_, _> = parts.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value))).collect();
    blake3::hash(&Value::Map(map).encode())
}
