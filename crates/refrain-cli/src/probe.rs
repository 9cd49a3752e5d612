//! Lets a test stop the program at a named step: `REFRAIN_CRASH_AT=POINT[#N][=kill|stop]`.
//!
//! `kill` ends this process with SIGKILL when it reaches the point for the N-th time (1 without `#N`), `stop`
//! freezes it with SIGSTOP. `REFRAIN_CRASH_AT=?` prints the names of all points as they are reached.

use refrain::core::{CrashPoint, CrashProbe};
use refrain::process::OwnEnd;
use refrain::{Error, Result};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};

/// The probe that the environment asks for.
#[derive(Debug, Default)]
pub(crate) struct EnvironmentProbe {
    plan: Option<Plan>,
}

#[derive(Debug)]
enum Plan {
    Tell,
    Act { point: CrashPoint, left: AtomicU32, action: OwnEnd },
}

impl EnvironmentProbe {
    pub(crate) fn from_environment() -> Result<Self> {
        let text = std::env::var("REFRAIN_CRASH_AT").ok().filter(|text| !text.is_empty());
        let plan = text.map(|text| parse(&text)).transpose()?;
        Ok(Self { plan })
    }
}

fn parse(text: &str) -> Result<Plan> {
    if text == "?" {
        return Ok(Plan::Tell);
    }
    let (rest, action) = match text.split_once('=') {
        None | Some((_, "kill")) => (text.split('=').next().unwrap_or(text), OwnEnd::Kill),
        Some((rest, "stop")) => (rest, OwnEnd::Stop),
        Some((_, other)) => {
            return Err(Error::invalid(format!("`REFRAIN_CRASH_AT`: `{other}` is not `kill` or `stop`")));
        }
    };
    let (name, times) = rest.split_once('#').unwrap_or((rest, "1"));
    let point = CrashPoint::ALL.iter().copied().find(|point| point.name() == name);
    match (point, times.parse::<NonZeroU32>()) {
        (Some(point), Ok(times)) => Ok(Plan::Act { point, left: AtomicU32::new(times.get()), action }),
        (None, _) => {
            let names: Vec<_> = CrashPoint::ALL.iter().map(|point| point.name()).collect();
            Err(Error::invalid(format!("`REFRAIN_CRASH_AT`: there is no point `{name}`"))
                .hint(format!("points are {}", names.join(", "))))
        }
        (_, Err(_)) => {
            Err(Error::invalid(format!("`REFRAIN_CRASH_AT`: `{times}` is not a number of times, which is 1 or more")))
        }
    }
}

impl CrashProbe for EnvironmentProbe {
    fn reach(&self, point: CrashPoint) {
        match &self.plan {
            Some(Plan::Tell) => crate::output::say(&format!("reached {point}")),
            Some(Plan::Act { point: wanted, left, action })
                if *wanted == point && left.fetch_sub(1, Ordering::SeqCst) == 1 =>
            {
                refrain::process::signal_self(*action);
            }
            Some(Plan::Act { .. }) | None => {}
        }
    }
}
