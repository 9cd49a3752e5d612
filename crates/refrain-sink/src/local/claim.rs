//! K2: the claim (PROTOCOL 4.1, 9.4).

use super::record::Record;
use super::site::Site;
use refrain_core::{ClaimAnswer, ClaimDecision, ClaimRequest, Result, decide_claim};

impl Site<'_> {
    /// # Crash safety
    /// The claim is one appended line. A power cut may undo it; every process of this host that it fences is gone then
    /// too, and a store that went backwards with it is 4.3.
    pub(crate) fn claim(&self, request: &ClaimRequest) -> Result<ClaimAnswer> {
        let mut locked = self.lock()?;
        let last = locked.journal.last();
        match decide_claim(last.map(|record| &record.head), request) {
            ClaimDecision::Accept(head) => {
                let displaced = last.and_then(|record| record.displaced.clone());
                locked.journal.append(Record::of(head.clone(), displaced))?;
                Ok(ClaimAnswer::Claimed(head))
            }
            ClaimDecision::Standing(head) => Ok(ClaimAnswer::Claimed(head)),
            ClaimDecision::Fenced(head) => Ok(ClaimAnswer::Fenced(head)),
            ClaimDecision::Refused(head, why) => Ok(ClaimAnswer::Refused(head, why)),
        }
    }
}
