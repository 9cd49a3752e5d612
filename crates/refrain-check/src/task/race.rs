//! Started many times at once: one executes and publishes, the others say who does.

use super::call::{Called, Circumstances};
use super::trials::{Played, Ran, Trials, failure};
use super::verdict::{Finding, Kind, Trial};
use refrain::core::Result;

const NAME: &str = "race";
/// How many starts there are at once.
const STARTS: usize = 8;

/// Starts it [`STARTS`] times at once; `undisturbed` is what must come of it.
pub(super) fn race(trials: &mut Trials<'_>, undisturbed: Option<&Played>) -> Ran<()> {
    trials.progress.step(&format!("race: {STARTS} starts at once"));
    trials.ground.reset()?;
    trials.ground.mark()?;
    let stage = trials.stage("race", false, None)?;
    let circumstances = Circumstances::default();
    let calls: Vec<_> = (0..STARTS).map(|_| trials.caller.start(&stage, &circumstances)).collect::<Result<_>>()?;
    let ended: Vec<_> = calls.into_iter().map(|call| trials.caller.finish(call)).collect::<Result<_>>()?;
    trials.note_writes()?;
    let count = |outcome: &str| ended.iter().filter(|called| called.outcome() == outcome).count();
    let executed = ended.iter().filter(|called| called.executed()).count();
    let (published, held, already) = (count("published"), count("held"), count("already_published"));
    let other = |called: &&Called| !["held", "already_published"].contains(&called.outcome());
    if let (0, Some(failed)) = (published, ended.iter().find(other)) {
        return Ok(Err(Box::new(failure(failed))));
    }
    let detail = format!("{STARTS} at once");
    if executed != 1 || published != 1 || held + already != STARTS - 1 {
        let others: Vec<_> = ended.iter().filter(|called| !called.status.success()).map(Called::end).collect();
        let what = format!(
            "of {STARTS} starts at once {executed} executed the command, {published} published, {held} were held and {already} found it published: {}",
            others.join("; ")
        );
        trials.findings.push(
            Finding::new(Kind::RaceNotOne, NAME, what)
                .hint("this is Refrain's own promise: please report it with the output of `refrain check --race --json --keep-scratch`"),
        );
    }
    if let (Some(undisturbed), Some(winner)) = (undisturbed, ended.into_iter().find(Called::published)) {
        // What two runs alone differ in is told already.
        if !trials.differ_alone() {
            trials.compare(
                NAME,
                undisturbed,
                &Played { stage, called: winner, shifted: false },
                Kind::ContentDiffers,
            )?;
        }
    }
    trials.done.push(Trial {
        name: NAME,
        count: u32::try_from(STARTS).unwrap_or(u32::MAX),
        detail,
        varied: vec![format!("1 executed and published, {held} held, {already} already published")],
        not_varied: Vec::new(),
    });
    Ok(Ok(()))
}
