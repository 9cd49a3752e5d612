//! A store: the shipped record of the key and its rules, on a clock that stands still. That a lease ended is
//! said by whoever takes it, at any time.

use super::code::{Code, Next};
use super::intern::Id;
use super::names;
use super::switch::Switch;
use refrain_core::{Generation, Holder, KeyRecord, LeaseRequest, OpenRun, RunRecord, StoreTime, Token, Want};

/// A call to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum StoreCall {
    /// `end`: the present lease counts as ended.
    Acquire {
        process: usize,
        end: bool,
    },
    Raise {
        machine: Id,
        floor: Token,
    },
    OpenRun {
        machine: Id,
        process: usize,
        propose: bool,
    },
    Release {
        machine: Id,
    },
    /// Every lease is void (8.1).
    Void,
}

/// What the store answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum StoreAnswer {
    Granted {
        token: Token,
        run: Id,
    },
    Held,
    Raised(Token),
    NotHolder,
    Run {
        run: Id,
        opened: Option<Generation>,
    },
    Propose,
    Done,
    /// Without [`Switch::WholeHolder`]: the lease of this process ended by somebody else's word.
    EndedForeign(usize),
}

impl Code {
    /// The record of a key that the store never saw.
    pub(super) fn empty_record(&mut self) -> Id {
        self.keys.id(KeyRecord::default())
    }

    /// Calls the store: its record afterwards and its answer.
    pub(super) fn at_store(&mut self, record: Id, call: StoreCall) -> (Id, StoreAnswer) {
        if let Some(known) = self.store_answers.get(&(record, call)) {
            let (after, answer) = *known;
            return (after, answer);
        }
        let mut key = self.keys.get(record).cloned().unwrap_or_default();
        let answer = self.call(&mut key, call);
        let after = self.keys.id(key);
        self.store_answers.insert((record, call), (after, answer));
        (after, answer)
    }

    /// The process that has the lease.
    pub(super) fn lease_of(&self, record: Id) -> Option<usize> {
        self.keys.get(record)?.lease.as_ref().map(|lease| names::process_of(lease.attempt))
    }

    fn call(&mut self, key: &mut KeyRecord, call: StoreCall) -> StoreAnswer {
        match call {
            StoreCall::Acquire { process, end } => self.acquire(key, process, end),
            StoreCall::Raise { machine, floor } => {
                let Some(holder) = self.holder(machine) else { return StoreAnswer::NotHolder };
                key.raise(&holder, floor).map_or(StoreAnswer::NotHolder, StoreAnswer::Raised)
            }
            StoreCall::OpenRun { machine, process, propose } => self.open_run(key, machine, process, propose),
            StoreCall::Release { machine } => {
                let Some(holder) = self.holder(machine) else { return StoreAnswer::NotHolder };
                self.release(key, &holder)
            }
            StoreCall::Void => {
                key.lease = None;
                StoreAnswer::Done
            }
        }
    }

    fn holder(&self, machine: Id) -> Option<Holder> {
        self.machine(machine)?.holder()
    }

    fn acquire(&mut self, key: &mut KeyRecord, process: usize, end: bool) -> StoreAnswer {
        let dead = key.lease.as_ref().filter(|_| end).map(|lease| (lease.attempt, lease.token));
        let request = LeaseRequest { attempt: names::attempt(process), process: String::new(), ttl_ms: 1, dead };
        match key.acquire(&StoreTime { epoch: String::new(), ms: 0 }, &request) {
            Ok(granted) => {
                let run = granted.run.filter(|_| !self.config.lacks(Switch::PinnedSlotList));
                StoreAnswer::Granted { token: granted.token, run: run.map_or(0, |run| self.runs.id(run)) }
            }
            Err(_) => StoreAnswer::Held,
        }
    }

    fn open_run(&mut self, key: &mut KeyRecord, machine: Id, process: usize, propose: bool) -> StoreAnswer {
        let (Some(holder), Some(plan)) = (self.holder(machine), self.config.plan(process).cloned()) else {
            return StoreAnswer::NotHolder;
        };
        let Some(Next::OpenRun(seen)) = self.next(machine).cloned() else { return StoreAnswer::NotHolder };
        let seen = seen.filter(|_| !self.config.lacks(Switch::SeenOutranksStore));
        let current = key.run.as_ref().map(|run| run.generation);
        let want = match (plan.want, current) {
            (Want::Rerun { .. }, Some(from)) if self.config.lacks(Switch::RerunNamesGeneration) => Want::Rerun { from },
            (want, _) => want,
        };
        let next = proposed(key, &holder, want, seen.as_ref());
        let proposal = next.filter(|_| propose).map(|next| {
            let mut proposal = names::proposal(process, next.get(), &plan.outputs);
            if self.config.lacks(Switch::RunIdentity) {
                proposal.run_id = names::run(0, next.get());
            }
            proposal
        });
        match key.open_run(&holder, want, seen.as_ref(), proposal.as_ref()) {
            Ok(OpenRun::Run(run)) => {
                let opened = proposal.map(|_| run.generation);
                StoreAnswer::Run { run: self.run_id(run, &plan.outputs), opened }
            }
            Ok(OpenRun::Propose(_)) => StoreAnswer::Propose,
            Err(_) => StoreAnswer::NotHolder,
        }
    }

    fn run_id(&mut self, mut run: RunRecord, configured: &[u8]) -> Id {
        if self.config.lacks(Switch::PinnedSlotList) {
            run.outputs = names::outputs(configured);
        }
        self.runs.id(run)
    }

    fn release(&self, key: &mut KeyRecord, holder: &Holder) -> StoreAnswer {
        if self.config.lacks(Switch::WholeHolder)
            && let Some(lease) = &key.lease
            && lease.token == holder.token
        {
            let ended = names::process_of(lease.attempt);
            key.lease = None;
            return if ended == names::process_of(holder.attempt) {
                StoreAnswer::Done
            } else {
                StoreAnswer::EndedForeign(ended)
            };
        }
        let holds = key.lease.as_ref().map(|lease| names::process_of(lease.attempt));
        match key.release(holder) {
            Ok(()) if holds != Some(names::process_of(holder.attempt)) => {
                StoreAnswer::EndedForeign(holds.unwrap_or_default())
            }
            Ok(()) => StoreAnswer::Done,
            Err(_) => StoreAnswer::NotHolder,
        }
    }
}

/// The generation that a proposal would open, if one is called for.
fn proposed(key: &KeyRecord, holder: &Holder, want: Want, seen: Option<&RunRecord>) -> Option<Generation> {
    match key.clone().open_run(holder, want, seen, None) {
        Ok(OpenRun::Propose(next)) => Some(next),
        _ => None,
    }
}
