//! The run to work for: opened with its inputs pinned, or found.

use super::Driver;
use crate::clock::Stopwatch;
use crate::compact;
use crate::ids;
use crate::places;
use crate::plan::PlannedSource;
use refrain_core::{
    CrashPoint, Error, ErrorKind, Input, OpenRun, OutputSlot, PinRequest, Result, RunProposal, RunRecord, Want,
};

impl Driver<'_> {
    /// 5.4
    pub(super) fn open_run(&mut self, seen: Option<&RunRecord>) -> Result<()> {
        let Some(holder) = self.machine.holder() else {
            self.machine.lease_lost();
            return Ok(());
        };
        self.reach(CrashPoint::BeforeOpenRun);
        let open = |proposal: Option<&RunProposal>| {
            self.boundary.store.open_run(&self.plan.key, &holder, self.want, seen, proposal)
        };
        let mut answer = open(None)?;
        if matches!(answer, Some(OpenRun::Propose(_))) && self.recovers {
            self.machine.stood_down();
            return Ok(());
        }
        if let Some(OpenRun::Propose(generation)) = answer {
            self.demand_above_watermark()?;
            tracing::info!(rule = "1.1", %generation, "opening a run");
            self.opened = true;
            let pinning = Stopwatch::start();
            let proposal = self.propose(self.plan.slots())?;
            self.report.timings_us.pin = pinning.micros();
            answer = open(Some(&proposal))?;
        }
        match answer {
            Some(OpenRun::Run(run)) => {
                tracing::info!(rule = "5.4", run = %run.run_id, generation = %run.generation, "run");
                self.report.show_run(&run);
                self.machine.opened(run);
            }
            Some(OpenRun::Propose(_)) => {
                return Err(Error::new(ErrorKind::Internal, "the store asked twice for a proposal"));
            }
            None => self.machine.lease_lost(),
        }
        self.reach(CrashPoint::AfterOpenRun);
        Ok(())
    }

    /// 12.3: neither the store nor a head knows a run of the key. This attempt has the lease, so that nobody folds the key
    /// from now on.
    fn demand_above_watermark(&self) -> Result<()> {
        if self.want != Want::Continue {
            return Ok(());
        }
        match self.boundary.folded(&self.plan, None)? {
            Some(watermark) => Err(compact::refuse(&self.plan, &watermark)),
            None => Ok(()),
        }
    }

    fn propose(&self, outputs: Vec<OutputSlot>) -> Result<RunProposal> {
        let run_id = ids::run();
        let mut inputs = Vec::new();
        self.boundary
            .refuse_unreadable(&self.plan)
            .map_err(|(input, error)| error.within(format!("input `{input}` of `{}`", self.plan.key)))?;
        for input in &self.plan.inputs {
            let pin = match &input.source {
                PlannedSource::Path { location, mode } => {
                    let (name, location) = (input.name.clone(), location.clone());
                    let outputs = places::published(&self.plan)?.into_iter().map(|(_, location)| location).collect();
                    self.boundary.inputs.pin(&PinRequest { name, location, owner: self.id, mode: *mode, outputs })
                }
                PlannedSource::Publication(reference) => {
                    self.boundary.pin_publications(&self.plan, &input.name, reference, self.id)
                }
            };
            let pin = pin.map_err(|error| self.boundary.lacking(&self.plan, input, error));
            inputs.push(pin.map_err(|error| error.within(format!("input `{}` of `{}`", input.name, self.plan.key)))?);
        }
        self.reach(CrashPoint::AfterPin);
        Ok(RunProposal { run_id, inputs, outputs, restores: self.restored()? })
    }
}
