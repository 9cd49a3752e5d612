//! What a run would be refused with at the places where it publishes: the look of those who only tell of it.

use crate::boundary::Boundary;
use crate::conclude::refused;
use crate::ids;
use crate::peek::partition_flag;
use crate::plan::Plan;
use refrain_core::{
    ClaimDecision, ClaimRefusal, ClaimRequest, Condition, Error, Head, Holder, Refusal, Result, SlotAddress, Token,
    decide_claim,
};
use std::collections::BTreeSet;

impl Boundary {
    /// Why a run could not publish to its outputs: they are another key's or another store's, or hold what nobody published.
    /// Changes nothing.
    pub(crate) fn foresee_refusals(&self, plan: &Plan) -> Result<Vec<Error>> {
        let mut refusals = Vec::new();
        for output in &plan.outputs {
            let sink = self.sinks.of(&output.slot)?;
            let head = sink.read(&output.slot)?;
            if let Some(error) = head.as_ref().map(|head| self.foresee_claim(plan, &output.slot, head)).transpose()? {
                refusals.extend(error);
            }
            if head.as_ref().is_some_and(|head| head.publication.is_some()) {
                continue;
            }
            if let Some(error) = head.as_ref().and_then(|head| self.foresee_taken(plan, &output.slot, head)) {
                refusals.push(error);
                continue;
            }
            if let Condition::Foreign(what) = sink.condition(&output.slot, head.as_ref())? {
                let at = self.locate(&output.slot);
                let again = format!("refrain run {}{} --adopt", plan.key.task, partition_flag(plan));
                refusals.push(match sink.adoptable(&output.slot) {
                    Ok(()) => {
                        Error::refused(format!("{at} exists and was not published by refrain: {what}")).hint(again)
                    }
                    Err(error) => error,
                });
            }
        }
        Ok(refusals)
    }

    /// That the slot was taken over by a call that published nothing is no leave for another call to replace what stands
    /// there of its former owner.
    pub(crate) fn foresee_taken(&self, plan: &Plan, slot: &SlotAddress, head: &Head) -> Option<Error> {
        head.taken_from.as_ref().filter(|former| former.owner != plan.key)?;
        Some(refused(self, plan, &Refusal::Owner(slot.clone(), Box::new(head.clone().as_seen()))))
    }

    /// 4.1: what is decided of the claim of an attempt that has the lease.
    fn foresee_claim(&self, plan: &Plan, slot: &SlotAddress, head: &Head) -> Result<Option<Error>> {
        let store = self.store.identity()?;
        let request = ClaimRequest {
            owner: plan.key.clone(),
            // The store is asked for a higher token until it is the highest (4.3).
            holder: Holder { store_id: store.store_id, token: Token::new(u64::MAX), attempt: ids::attempt() },
            ancestors: store.ancestors,
            slots: BTreeSet::new(),
            fresh_slot_id: head.slot_id,
            fresh_version: head.version,
            take_over: false,
        };
        let ClaimDecision::Refused(head, why) = decide_claim(Some(head), &request) else { return Ok(None) };
        let (slot, head) = (slot.clone(), Box::new(head));
        let refusal = match why {
            ClaimRefusal::Owner => Refusal::Owner(slot, head),
            ClaimRefusal::ForeignStore => Refusal::ForeignStore(slot, head),
        };
        Ok(Some(refused(self, plan, &refusal)))
    }
}
