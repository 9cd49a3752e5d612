//! The shipped code, called once per distinct argument: states and values are interned, answers remembered.

use super::config::Config;
use super::hash::SmallMap;
use super::intern::{Id, Interner};
use super::names;
use super::switch::Switch;
use refrain_core::{
    Action, Answer, Attempt, Claim, ClaimRequest, CommitRequest, Fingerprint, Generation, Granted, Head, KeyRecord,
    Publication, Refusal, RunRecord, SealedData, StagingId, StoreIdentity, Token,
};

/// A request to a sink.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Request {
    Claim(u8, ClaimRequest),
    Commit(u8, CommitRequest),
}

/// What a request is, at a glance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestKind {
    pub(super) slot: u8,
    pub(super) sender: usize,
    /// Whose data it would publish; nothing for a claim.
    pub(super) data_of: Option<usize>,
}

/// The next action of a machine, with numbers for values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Acquire,
    Send(Id),
    Raise(Token),
    OpenRun(Option<RunRecord>),
    Read(u8),
    Execute(Id),
    Finish,
    Report(Answer),
}

/// What happened to a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Event {
    Acquired {
        store: u8,
        token: Token,
        run: Id,
    },
    Held,
    Claimed {
        slot: u8,
        head: Id,
    },
    ClaimFenced {
        head: Id,
    },
    ClaimRefused {
        slot: u8,
        head: Id,
        owner: bool,
    },
    Raised(Token),
    LeaseLost,
    Opened {
        run: Id,
    },
    Committed {
        slot: u8,
        head: Id,
    },
    Rejected,
    GaveUp,
    CommitFailed,
    DataLost {
        slot: u8,
    },
    Looked {
        slot: u8,
        head: Id,
    },
    Executed,
    Failed,
    Finished,
    /// Without [`Switch::OneTokenPerAttempt`]: claimed again with a fresh token, and about to commit again.
    StartedOver {
        token: Token,
        slot: u8,
        head: Id,
        run: Id,
    },
}

/// Everything known by number, and the shipped code's answers so far.
#[derive(Debug)]
pub(super) struct Code {
    pub(super) config: Config,
    pub(super) heads: Interner<Head>,
    pub(super) keys: Interner<KeyRecord>,
    pub(super) runs: Interner<RunRecord>,
    pub(super) requests: Interner<Request>,
    pub(super) stagings: Interner<StagingId>,
    /// Head and intent as one record of a head's journal.
    pub(super) records: Interner<(Id, Id)>,
    machines: Interner<Attempt>,
    next: Vec<Next>,
    kinds: Vec<RequestKind>,
    transitions: SmallMap<(Id, Event), Id>,
    pub(super) sink_answers: SmallMap<(Id, Id, u8), (super::sink::SinkAnswer, Id)>,
    pub(super) store_answers: SmallMap<(Id, super::store::StoreCall), (Id, super::store::StoreAnswer)>,
    pub(super) stale: SmallMap<(Id, [Id; 2], u8), bool>,
}

impl Code {
    pub(super) fn new(config: Config) -> Self {
        Self {
            config,
            heads: Interner::default(),
            keys: Interner::default(),
            runs: Interner::default(),
            requests: Interner::default(),
            stagings: Interner::default(),
            records: Interner::default(),
            machines: Interner::default(),
            next: Vec::new(),
            kinds: Vec::new(),
            transitions: SmallMap::default(),
            sink_answers: SmallMap::default(),
            store_answers: SmallMap::default(),
            stale: SmallMap::default(),
        }
    }

    /// The machine of a process that starts.
    pub(super) fn start(&mut self, process: usize) -> Id {
        let Some(plan) = self.config.plan(process) else { return 0 };
        let configured: Vec<_> = plan.outputs.iter().map(|slot| names::address(*slot)).collect();
        let machine = Attempt::new(names::attempt(process), plan.goal, configured);
        self.machine_id(machine)
    }

    pub(super) fn machine(&self, id: Id) -> Option<&Attempt> {
        self.machines.get(id)
    }

    /// What a machine does next; a process without machine does nothing.
    pub(super) fn next(&self, machine: Id) -> Option<&Next> {
        self.next.get((machine as usize).checked_sub(1)?)
    }

    pub(super) fn request(&self, request: Id) -> RequestKind {
        let nothing = RequestKind { slot: 0, sender: 0, data_of: None };
        (request as usize).checked_sub(1).and_then(|at| self.kinds.get(at)).copied().unwrap_or(nothing)
    }

    /// The machine after something happened to it.
    pub(super) fn step(&mut self, machine: Id, event: Event) -> Id {
        if let Some(after) = self.transitions.get(&(machine, event)) {
            return *after;
        }
        let Some(mut attempt) = self.machines.get(machine).cloned() else { return 0 };
        self.tell(&mut attempt, event);
        let after = self.machine_id(attempt);
        self.transitions.insert((machine, event), after);
        after
    }

    fn tell(&mut self, attempt: &mut Attempt, event: Event) {
        let head = |head: Id| self.heads.get(head).cloned();
        match event {
            Event::Acquired { store, token, run } => {
                let granted = Granted { token, run: self.runs.get(run).cloned(), unclean: None };
                attempt.acquired(self.identity(store), &granted);
            }
            Event::Held => attempt.held(),
            Event::Claimed { slot, head: at } => {
                if let Some(head) = head(at) {
                    attempt.claimed(&names::address(slot), head);
                }
            }
            Event::ClaimFenced { head: at } => {
                if let Some(head) = head(at) {
                    attempt.claim_fenced(&head);
                }
            }
            Event::ClaimRefused { slot, head: at, owner } => {
                if let Some(head) = head(at) {
                    attempt.claim_refused(refusal(slot, head, owner));
                }
            }
            Event::Raised(token) => attempt.raised(token),
            Event::LeaseLost => attempt.lease_lost(),
            Event::Opened { run } => {
                if let Some(run) = self.runs.get(run).cloned() {
                    attempt.opened(run);
                }
            }
            Event::Committed { slot, head: at } => {
                if let Some(head) = head(at) {
                    attempt.committed(&names::address(slot), head.version);
                }
            }
            Event::Rejected => attempt.rejected(),
            Event::GaveUp => attempt.gave_up(),
            Event::CommitFailed => attempt.commit_failed(),
            Event::DataLost { slot } => attempt.data_lost(&names::address(slot)),
            Event::Looked { slot, head: at } => attempt.looked(&names::address(slot), head(at).as_ref()),
            Event::Executed => {
                if let Action::Execute(run) = attempt.next()
                    && let Some(holder) = attempt.holder()
                {
                    attempt.executed(publication(names::process_of(holder.attempt), run));
                }
            }
            Event::Failed => attempt.failed(),
            Event::Finished => attempt.finished(),
            Event::StartedOver { token, slot, head: at, run } => {
                attempt.raised(token);
                if let (Some(mut head), Some(run)) = (head(at), self.runs.get(run).cloned())
                    && let Some(holder) = attempt.holder()
                {
                    head.publication = None;
                    attempt.claimed(&names::address(slot), head);
                    attempt.opened(run.clone());
                    attempt.executed(publication(names::process_of(holder.attempt), run));
                }
            }
        }
    }

    fn machine_id(&mut self, machine: Attempt) -> Id {
        let action = machine.next();
        let id = self.machines.id(machine);
        if id as usize > self.next.len() {
            let next = self.next_of(id, action);
            self.next.push(next);
        }
        id
    }

    fn next_of(&mut self, machine: Id, action: Action) -> Next {
        match action {
            Action::Acquire => Next::Acquire,
            Action::Claim(address) => {
                let slot = names::slot_of(&address);
                self.claim_request(machine, slot).map_or(Next::Finish, |claim| Next::Send(self.request_id(claim)))
            }
            Action::Raise(floor) => Next::Raise(floor),
            Action::OpenRun(seen) => Next::OpenRun(seen),
            Action::Commit(address, step) => {
                let (committer, data_of) = (step.holder.attempt, step.publication.attempt);
                let fresh = if self.config.lacks(Switch::FreshVersions) {
                    names::counted_version(names::count_of(step.expected) + 1)
                } else {
                    let token = step.holder.token.get();
                    names::commit_version(names::process_of(committer), token, names::process_of(data_of))
                };
                let request = Request::Commit(names::slot_of(&address), step.request(fresh));
                Next::Send(self.request_id(request))
            }
            Action::Read(address) => Next::Read(names::slot_of(&address)),
            Action::Execute(run) => Next::Execute(self.runs.id(run)),
            Action::Finish => Next::Finish,
            Action::Report(answer) => Next::Report(answer),
        }
    }

    fn claim_request(&self, machine: Id, slot: u8) -> Option<Request> {
        let attempt = self.machines.get(machine)?;
        let holder = attempt.holder()?;
        let process = names::process_of(holder.attempt);
        let ancestors = if self.config.lacks(Switch::Ancestry) {
            [0, 1].map(names::store).into()
        } else {
            self.identity(names::store_index(holder.store_id)).ancestors
        };
        Some(Request::Claim(
            slot,
            ClaimRequest {
                owner: names::key(),
                holder,
                ancestors,
                slots: attempt.known_slots().clone(),
                fresh_slot_id: names::slot_id(process, holder.token.get(), 0),
                fresh_version: names::claim_version(process, holder.token.get(), 0),
                take_over: false,
            },
        ))
    }

    pub(super) fn request_id(&mut self, request: Request) -> Id {
        let kind = match &request {
            Request::Claim(slot, claim) => {
                RequestKind { slot: *slot, sender: names::process_of(claim.holder.attempt), data_of: None }
            }
            Request::Commit(slot, commit) => RequestKind {
                slot: *slot,
                sender: names::process_of(commit.holder.attempt),
                data_of: Some(names::process_of(commit.publication.attempt)),
            },
        };
        let id = self.requests.id(request);
        if id as usize > self.kinds.len() {
            self.kinds.push(kind);
        }
        id
    }

    /// A store's identity: the second is the successor of the first unless they know nothing of each other.
    pub(super) fn identity(&self, store: u8) -> StoreIdentity {
        let successor = store > 0 && self.config.fault != super::Fault::TwoStores;
        if successor && self.config.lacks(Switch::StoreIdentity) {
            return StoreIdentity { store_id: names::store(0), ancestors: [].into() };
        }
        let ancestors = if successor { [names::store(0)].into() } else { [].into() };
        StoreIdentity { store_id: names::store(store), ancestors }
    }

    pub(super) fn generation(&self, run: Id) -> Generation {
        self.runs.get(run).map(|run| run.generation).unwrap_or_default()
    }
}

/// What an attempt seals for a run.
pub(super) fn publication(process: usize, run: RunRecord) -> Publication {
    let data = run
        .slots()
        .map(|slot| SealedData {
            slot: slot.clone(),
            staged: String::new(),
            digest: String::new(),
            bytes: 0,
            files: 0,
            rows: None,
            identity: process.to_string(),
        })
        .collect();
    Publication {
        run,
        attempt: names::attempt(process),
        data,
        fingerprint: Fingerprint { digest: String::new(), parts: [].into() },
        sealed_at: jiff::Timestamp::UNIX_EPOCH,
        edited: false,
        adopts: false,
    }
}

/// The claim in a head, if any.
pub(super) fn claim_of(head: Option<&Head>) -> Option<&Claim> {
    head.and_then(|head| head.claim.as_ref())
}

fn refusal(slot: u8, head: Head, owner: bool) -> Refusal {
    let address = names::address(slot);
    if owner { Refusal::Owner(address, Box::new(head)) } else { Refusal::ForeignStore(address, Box::new(head)) }
}
