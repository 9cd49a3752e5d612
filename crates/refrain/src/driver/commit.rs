//! The commits at the sinks, and what is asked there when an answer was lost.

use super::{Driver, Other, PAUSE};
use crate::clock::Stopwatch;
use crate::ids;
use crate::process::EventReceiver;
use refrain_core::{
    Adopt, CommitAnswer, CommitOptions, CommitStep, CrashPoint, Error, ErrorKind, Generation, Result, Sink, SlotAddress,
};

/// How often a commit whose answer was lost is sent again before the attempt gives up (5.11).
const RESEND_LIMIT: u32 = 5;

impl Driver<'_> {
    /// 5.5, 5.9: sends the commit, and the identical commit again while its answer is lost (4.5).
    pub(super) fn commit(&mut self, slot: &SlotAddress, step: CommitStep, events: &EventReceiver) -> Result<()> {
        let own = step.publication.attempt == self.id;
        let request = step.request(ids::version());
        let adopt = if self.options.adopt || request.publication.adopts { Adopt::Foreign } else { Adopt::Never };
        let options = CommitOptions { adopt, overwrite_drift: true };
        let sink = self.boundary.sinks.of(slot)?;
        let former = self.machine.heads().get(slot).and_then(|head| head.publication.as_ref());
        let former = former.map(|publication| publication.run.generation);
        let commit = Stopwatch::start();
        let mut answer = sink.commit(slot, &request, &options);
        // An earlier sending may have landed whatever becomes of a later one: only a definite answer ends the doubt.
        let mut doubtful = false;
        for _ in 1..RESEND_LIMIT {
            match &answer {
                Err(error) if doubtful || error.kind == ErrorKind::Unknown => {
                    doubtful = true;
                    tracing::warn!(rule = "5.11", %slot, %error, "the commit's answer was lost: sending it again");
                    std::thread::sleep(PAUSE);
                    answer = sink.commit(slot, &request, &options);
                }
                _ => break,
            }
        }
        self.report.timings_us.commit += commit.micros();
        match answer {
            Ok(CommitAnswer::Committed) => {
                tracing::info!(rule = if own { "5.9" } else { "5.5" }, %slot, "committed");
                self.machine.committed(slot, request.fresh_version);
                if !own {
                    self.carried = Some(request.publication.run.generation);
                }
                self.tell_kept_change(sink, slot, former);
                self.reach(CrashPoint::AfterCommit);
            }
            Ok(CommitAnswer::Rejected) => {
                tracing::info!(rule = "5.11", %slot, "the commit was rejected");
                self.machine.rejected();
            }
            Ok(CommitAnswer::DataLost) if own => {
                let error =
                    Error::guard(format!("the sealed output for {slot} was changed or removed before its commit"));
                self.failure = Some(error.into());
                self.machine.commit_failed();
            }
            Ok(CommitAnswer::DataLost) => self.machine.data_lost(slot),
            Err(error) if doubtful || error.kind == ErrorKind::Unknown => {
                self.failure = Some(error.into());
                self.machine.gave_up();
            }
            Err(error) => {
                self.failure = Some(self.failure_of(error, events));
                self.machine.commit_failed();
            }
        }
        Ok(())
    }

    /// 13.2: what was replaced may not have been what was published. A look that fails changes no answer.
    fn tell_kept_change(&mut self, sink: &dyn Sink, slot: &SlotAddress, former: Option<Generation>) {
        let Some(former) = former.filter(|_| sink.capabilities().keeps_changes) else { return };
        match sink.versions(slot) {
            Ok(versions) => {
                let kept = versions.iter().find(|version| version.edited && version.generation == former);
                self.notes.extend(kept.map(|kept| {
                    let (at, places) = (self.boundary.locate(slot), kept.locations.join(", "));
                    format!("version {former} of {at} was changed by hand after it was published; the changed one is kept: {places}")
                }));
            }
            Err(error) => tracing::warn!(%slot, %error, "what was replaced cannot be looked at"),
        }
    }

    /// 5.11
    pub(super) fn read(&mut self, slot: &SlotAddress) -> Result<()> {
        let sink = self.boundary.sinks.of(slot)?;
        let mut head = sink.read(slot);
        for _ in 1..RESEND_LIMIT {
            if head.is_ok() {
                break;
            }
            std::thread::sleep(PAUSE);
            head = sink.read(slot);
        }
        match head {
            Ok(head) => {
                self.machine.looked(slot, head.as_ref());
                self.other = head.map(|head| Other::Head(Box::new(head)));
            }
            Err(error) => {
                self.failure = Some(error.into());
                self.machine.gave_up();
            }
        }
        Ok(())
    }
}
