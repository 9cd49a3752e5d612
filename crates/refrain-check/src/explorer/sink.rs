//! A sink: one head per slot, changed by the shipped decisions and nothing else.

use super::code::{Code, Request};
use super::intern::Id;
use super::names;
use super::switch::Switch;
use refrain_core::{
    ClaimDecision, ClaimRefusal, ClaimRequest, CommitDecision, CommitRequest, Head, decide_claim, decide_commit,
};

/// What a sink answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum SinkAnswer {
    Claimed,
    ClaimStands,
    ClaimFenced,
    ClaimRefused {
        owner: bool,
    },
    Committed,
    CommitStands,
    /// The sealed data is not there; the head is what it was.
    DataLost,
    Rejected,
}

impl SinkAnswer {
    /// Whether the head is another one now.
    pub(super) fn changes(self) -> bool {
        matches!(self, Self::Claimed | Self::Committed)
    }
}

impl Code {
    /// Carries a request out at a head. `creation` numbers the heads that the sink created at this slot.
    pub(super) fn at_sink(&mut self, head: Id, request: Id, creation: u8) -> (SinkAnswer, Id) {
        let key = (head, request, creation);
        if let Some(known) = self.sink_answers.get(&key) {
            return *known;
        }
        let answer = self.decide(head, request, creation);
        self.sink_answers.insert(key, answer);
        answer
    }

    fn decide(&mut self, head: Id, request: Id, creation: u8) -> (SinkAnswer, Id) {
        let current = self.heads.get(head).cloned();
        match self.requests.get(request).cloned() {
            Some(Request::Claim(_, claim)) => self.claim(head, current.as_ref(), claim, creation),
            Some(Request::Commit(_, commit)) => self.commit(head, current, commit),
            None => (SinkAnswer::Rejected, head),
        }
    }

    fn claim(&mut self, at: Id, head: Option<&Head>, mut request: ClaimRequest, creation: u8) -> (SinkAnswer, Id) {
        if self.config.lacks(Switch::SlotIdentity) {
            request.fresh_slot_id = names::slot_id(0, 0, 0);
        } else if !self.config.late_creation {
            let (process, token) = (names::process_of(request.holder.attempt), request.holder.token.get());
            request.fresh_slot_id = names::slot_id(process, token, creation);
            request.fresh_version = names::claim_version(process, token, creation);
        }
        if self.config.lacks(Switch::FreshVersions) {
            request.fresh_version = names::counted_version(head.map_or(0, |head| names::count_of(head.version)) + 1);
        }
        let standing = super::code::claim_of(head).is_some_and(|claim| claim.holder == request.holder);
        if standing
            && self.config.lacks(Switch::StandingClaim)
            && let Some(head) = head
        {
            return (SinkAnswer::ClaimFenced, self.heads.id(head.clone()));
        }
        match decide_claim(head, &request) {
            ClaimDecision::Accept(mut head) => {
                if self.config.lacks(Switch::PinnedSlotList)
                    && let Some(claim) = &mut head.claim
                {
                    claim.slots.clone_from(&request.slots);
                }
                (SinkAnswer::Claimed, self.heads.id(head))
            }
            ClaimDecision::Standing(_) => (SinkAnswer::ClaimStands, at),
            ClaimDecision::Fenced(_) => (SinkAnswer::ClaimFenced, at),
            ClaimDecision::Refused(_, why) => (SinkAnswer::ClaimRefused { owner: why == ClaimRefusal::Owner }, at),
        }
    }

    fn commit(&mut self, at: Id, head: Option<Head>, mut request: CommitRequest) -> (SinkAnswer, Id) {
        let Some(mut head) = head else { return (SinkAnswer::Rejected, at) };
        let own = super::code::claim_of(Some(&head)).is_some_and(|claim| claim.holder == request.holder);
        if own && self.config.lacks(Switch::IdenticalRequest) {
            request.expected = head.version;
            request.fresh_version = names::refreshed(head.version);
        }
        let claim = head.claim.clone();
        if !self.config.claim_tested
            && let Some(claim) = &mut head.claim
        {
            claim.holder = request.holder;
        }
        match decide_commit(Some(&head), &request) {
            CommitDecision::Accept(mut after) => {
                if let (false, Some(stands), Some(claim)) = (self.config.claim_tested, &claim, &mut after.claim) {
                    claim.holder = stands.holder;
                }
                // Reports read the history, decisions never do (2.1): it would only tell states apart.
                after.history.clear();
                (SinkAnswer::Committed, self.heads.id(*after))
            }
            CommitDecision::Standing(_) => (SinkAnswer::CommitStands, at),
            CommitDecision::Rejected => (SinkAnswer::Rejected, at),
        }
    }
}
