//! Kill it everywhere, repeat it once, and compare with the undisturbed end.

use super::call::Circumstances;
use super::stage::Stage;
use super::trials::{Played, Ran, Trials, failure, said};
use super::verdict::{Finding, Kind, Trial};
use refrain::core::Result;
use std::collections::BTreeMap;
use std::time::Duration;

const NAME: &str = "kill";

/// Kills at every step of the protocol and `moments` times at some moment of the run.
pub(super) fn kill(trials: &mut Trials<'_>, moments: u32, seed: u64) -> Ran<Played> {
    trials.progress.step("kill: an undisturbed run");
    let (undisturbed, points) = match undisturbed(trials)? {
        Ok(found) => found,
        Err(failure) => return Ok(Err(failure)),
    };
    trials.note_writes()?;
    let mut tally = Tally::default();
    for point in &points {
        trials.progress.step(&format!("kill: at {point} ({} of {})", tally.kills + 1, points.len() + moments as usize));
        let circumstances = at(&format!("{point}=kill"));
        let stage = fresh(trials, tally.kills)?;
        let killed = trials.caller.run(&stage, &circumstances)?;
        if killed.status.success() {
            tally.late += 1;
        }
        repeat(trials, &undisturbed, stage, &format!("at {point}"), &mut tally)?;
    }
    let lasted = undisturbed.called.lasted;
    let mut random = SplitMix(seed);
    for moment in 0..moments {
        let age = spread(lasted, moment, moments, random.next());
        let label = format!("after {} ms", age.as_millis());
        trials.progress.step(&format!("kill: {label} ({} of {})", tally.kills + 1, points.len() + moments as usize));
        let stage = fresh(trials, tally.kills)?;
        let call = trials.caller.start(&stage, &Circumstances::default())?;
        if !trials.caller.kill_at(call, age)? {
            tally.late += 1;
        }
        repeat(trials, &undisturbed, stage, &label, &mut tally)?;
    }
    if tally.differing > 0 && !trials.differ_alone() {
        tally.alone = differ_undisturbed(trials, &undisturbed)?;
    }
    tally.tell(trials);
    trials.done.push(Trial {
        name: NAME,
        count: tally.kills,
        detail: format!("{} kills", tally.kills),
        varied: vec![format!("{} steps of the protocol", points.len()), format!("{moments} moments, seed {seed}")],
        not_varied: (tally.late > 0)
            .then(|| format!("{} of the moments came after the end", tally.late))
            .into_iter()
            .collect(),
    });
    Ok(Ok(undisturbed))
}

/// The end that every other must equal, and the points that a run reaches.
fn undisturbed(trials: &mut Trials<'_>) -> Ran<(Played, Vec<String>)> {
    trials.ground.reset()?;
    trials.ground.mark()?;
    let stage = trials.stage("undisturbed", false, None)?;
    let called = trials.caller.run(&stage, &at("?"))?;
    if !called.published() {
        return Ok(Err(Box::new(failure(&called))));
    }
    let mut times: BTreeMap<&str, u32> = BTreeMap::new();
    let reached = called.stderr.lines().filter_map(|line| line.strip_prefix("reached "));
    let points = reached.map(|name| {
        let count = times.entry(name).or_default();
        *count += 1;
        format!("{name}#{count}")
    });
    let points = points.collect();
    Ok(Ok((Played { stage, called, shifted: false }, points)))
}

fn fresh(trials: &mut Trials<'_>, number: u32) -> Result<Stage> {
    trials.ground.reset()?;
    trials.stage(&format!("kill-{number:03}"), false, None)
}

/// Whether it is not the kills: a second undisturbed run differs as well.
fn differ_undisturbed(trials: &mut Trials<'_>, undisturbed: &Played) -> Result<bool> {
    trials.progress.step("kill: another undisturbed run, because outputs differ");
    trials.ground.reset()?;
    match trials.undisturbed("undisturbed-again")? {
        Ok(again) => Ok(!trials.compare(NAME, undisturbed, &again, Kind::ContentDiffers)?),
        Err(_) => Ok(false),
    }
}

fn at(point: &str) -> Circumstances {
    Circumstances { env: vec![("REFRAIN_CRASH_AT".into(), point.into())], label: String::new() }
}

/// One ordinary call must be enough after any kill.
fn repeat(trials: &mut Trials<'_>, undisturbed: &Played, stage: Stage, place: &str, tally: &mut Tally) -> Result<()> {
    tally.kills += 1;
    let called = trials.caller.run(&stage, &Circumstances::default())?;
    if !called.status.success() {
        let said = said(&called.stderr).map(|line| format!(": {line}")).unwrap_or_default();
        tally.broken.push((place.to_owned(), format!("{}{said}", called.end())));
        return Ok(());
    }
    let played = Played { stage, called, shifted: false };
    let before = trials.findings.len();
    if !trials.compare(NAME, undisturbed, &played, Kind::KillDiffers)? {
        tally.differing += 1;
        // One example is enough.
        let found = trials.findings.split_off(before);
        if tally.example.is_empty() {
            tally.example = found;
            place.clone_into(&mut tally.example_place);
        }
    }
    trials.caller.forget(&played.stage);
    Ok(())
}

#[derive(Debug, Default)]
struct Tally {
    kills: u32,
    late: u32,
    differing: u32,
    /// Whether two undisturbed runs differ.
    alone: bool,
    example: Vec<Finding>,
    example_place: String,
    broken: Vec<(String, String)>,
}

impl Tally {
    fn tell(&mut self, trials: &mut Trials<'_>) {
        if let Some((place, end)) = self.broken.first() {
            let what = format!(
                "after {} of {} kills a repetition does not succeed; killed {place}: {end}",
                self.broken.len(),
                self.kills
            );
            trials.findings.push(
                Finding::new(Kind::KillNotRepaired, NAME, what)
                    .because("something that the killed run left behind")
                    .hint("let the command work from its declared inputs and $TMPDIR alone, whatever lies there from before"),
            );
        }
        if self.differing > 0 && (self.alone || trials.differ_alone()) {
            trials.notes.push(format!(
                "after {} of {} kills the outputs differ, as those of two undisturbed runs do",
                self.differing, self.kills
            ));
            return;
        }
        let always = self.differing == self.kills;
        for mut finding in std::mem::take(&mut self.example) {
            finding.what = format!(
                "after {} of {} kills and a repetition; killed {}: {}",
                self.differing, self.kills, self.example_place, finding.what
            );
            if always && finding.cause.is_empty() {
                "it differs whenever it is killed: two undisturbed runs probably differ too (`--twice`)"
                    .clone_into(&mut finding.cause);
            }
            trials.findings.push(finding);
        }
    }
}

/// A moment in the given part of the run.
fn spread(lasted: Duration, part: u32, parts: u32, random: u64) -> Duration {
    let within = u32::try_from(random >> 44).unwrap_or_default();
    let step = lasted / parts.max(1);
    step * part + step * within / (1 << 20)
}

/// Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014. Any seed will do.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::{SplitMix, spread};
    use std::time::Duration;

    #[test]
    fn moments_are_spread_over_the_whole_run_and_can_be_replayed() {
        let lasted = Duration::from_secs(10);
        let moments = |seed| {
            let mut random = SplitMix(seed);
            (0..10).map(|part| spread(lasted, part, 10, random.next())).collect::<Vec<_>>()
        };
        for (part, moment) in (0..).zip(moments(7)) {
            assert_eq!(moment.as_secs(), part, "{moment:?}");
        }
        assert_eq!(moments(7), moments(7));
        assert_ne!(moments(7), moments(8));
    }
}
