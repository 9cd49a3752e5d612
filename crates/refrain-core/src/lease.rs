//! The store's record of a key and its rules (PROTOCOL 3). A store loads a [`KeyRecord`], applies one
//! method, and writes the record back, all in one transaction; it adds no rule of its own.

use crate::{AttemptId, Generation, Holder, OutputSlot, PinnedInput, Restores, RunId, RunRecord, StoreId, Token};
use serde::{Deserialize, Serialize};

/// The store's clock at one moment. Moments of different epochs are not comparable.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StoreTime {
    /// Which run of the clock: the boot of the host for an embedded store, the server's name for a remote one.
    pub epoch: String,
    /// Milliseconds within the epoch.
    pub ms: u64,
}

/// A lease as it stands in the store.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Lease {
    /// Who has it.
    pub attempt: AttemptId,
    /// Its fencing token.
    pub token: Token,
    /// When it ends unless it is renewed.
    pub expires: StoreTime,
    /// The holder's process, as JSON that only the supervisor of processes understands.
    pub process: String,
}

/// Everything that the store knows of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KeyRecord {
    /// The highest token ever granted; never goes back (3.1).
    pub last_token: Token,
    /// The lease, if one was granted and not released.
    pub lease: Option<Lease>,
    /// The current run.
    pub run: Option<RunRecord>,
}

/// Asks for the lease of a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LeaseRequest {
    /// The attempt that asks.
    pub attempt: AttemptId,
    /// The asking process, as JSON.
    pub process: String,
    /// How long the lease lasts without renewal, in milliseconds.
    pub ttl_ms: u64,
    /// A holder that was seen to be dead on this host; its lease counts as expired.
    pub dead: Option<(AttemptId, Token)>,
}

/// The lease was granted (3.1).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Granted {
    /// The fencing token.
    pub token: Token,
    /// The key's current run.
    pub run: Option<RunRecord>,
    /// The holder whose lease had not been released, if there was one: its end is not known.
    pub unclean: Option<Lease>,
}

/// The caller is not, or no longer, the holder of the lease (1.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NotHolder;

/// What an attempt wants of the key (3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Want {
    /// Publish the current run, or open the first.
    Continue,
    /// Replace this generation; repeating the wish cannot open a second run.
    Rerun {
        /// The generation to replace.
        from: Generation,
    },
}

/// What a new run would be, should one be opened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RunProposal {
    /// The run's identity.
    pub run_id: RunId,
    /// What it reads.
    pub inputs: Vec<PinnedInput>,
    /// L(run), the anchor first.
    pub outputs: Vec<OutputSlot>,
    /// What is to be published again, for a run that executes nothing.
    pub restores: Option<Restores>,
}

/// Answer of [`KeyRecord::open_run`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenRun {
    /// The run to work for.
    Run(RunRecord),
    /// A run of this generation would be opened: ask again with a proposal.
    Propose(Generation),
}

impl KeyRecord {
    /// Grants the lease if none stands, it expired, it was released, or its holder is dead (3.1).
    /// The same attempt gets the same token again.
    pub fn acquire(&mut self, now: &StoreTime, request: &LeaseRequest) -> Result<Granted, Lease> {
        let mut unclean = None;
        if let Some(lease) = &mut self.lease {
            if lease.attempt == request.attempt {
                lease.expires = now.after(request.ttl_ms);
                return Ok(Granted { token: lease.token, run: self.run.clone(), unclean: None });
            }
            let dead = request.dead == Some((lease.attempt, lease.token));
            if !lease.expired(now) && !dead {
                return Err(lease.clone());
            }
            unclean = Some(lease.clone());
        }
        let token = self.last_token.next();
        self.grant(token, now, request);
        Ok(Granted { token, run: self.run.clone(), unclean })
    }

    fn grant(&mut self, token: Token, now: &StoreTime, request: &LeaseRequest) {
        self.last_token = token;
        self.lease = Some(Lease {
            attempt: request.attempt,
            token,
            expires: now.after(request.ttl_ms),
            process: request.process.clone(),
        });
    }

    /// Extends the holder's lease (3.2). Allowed after its end as long as nobody took it: a laptop that
    /// slept goes on with the same token.
    pub fn renew(&mut self, now: &StoreTime, holder: &Holder, ttl_ms: u64) -> Result<(), NotHolder> {
        self.held_by(holder)?.expires = now.after(ttl_ms);
        Ok(())
    }

    /// Gives the holder a token above `floor`: the store went backwards (3.3, 4.3).
    pub fn raise(&mut self, holder: &Holder, floor: Token) -> Result<Token, NotHolder> {
        let token = self.last_token.max(floor).next();
        self.held_by(holder)?.token = token;
        self.last_token = token;
        Ok(token)
    }

    /// Ends the holder's lease (3.2). Repeating it is harmless.
    pub fn release(&mut self, holder: &Holder) -> Result<(), NotHolder> {
        self.held_by(holder)?;
        self.lease = None;
        Ok(())
    }

    /// Takes a run that a head shows for the current one, as the next attempt would (3.4a); false when the store knows
    /// better, or an attempt is at work on the key.
    pub fn learn(&mut self, shown: &RunRecord) -> bool {
        let learns = self.lease.is_none() && self.is_outranked_by(shown);
        if learns {
            self.run = Some(shown.clone());
        }
        learns
    }

    fn is_outranked_by(&self, seen: &RunRecord) -> bool {
        self.run.as_ref().is_none_or(|current| {
            seen.generation > current.generation
                || (seen.generation == current.generation && seen.run_id != current.run_id)
        })
    }

    /// Returns the run to work for, or opens one (3.4). `seen` is the run with the highest generation among
    /// the claimed heads: the sink outranks the store.
    pub fn open_run(
        &mut self,
        holder: &Holder,
        want: Want,
        seen: Option<&RunRecord>,
        proposal: Option<&RunProposal>,
    ) -> Result<OpenRun, NotHolder> {
        self.held_by(holder)?;
        if let Some(seen) = seen
            && self.is_outranked_by(seen)
        {
            self.run = Some(seen.clone()); // 3.4a
        }
        let next = match (&self.run, want) {
            (None, _) => Generation::default().next(),
            (Some(current), Want::Rerun { from }) if current.generation == from => from.next(),
            (Some(current), _) => return Ok(OpenRun::Run(current.clone())), // 3.4b
        };
        let Some(proposal) = proposal else {
            return Ok(OpenRun::Propose(next));
        };
        let run = RunRecord {
            generation: next,
            run_id: proposal.run_id,
            inputs: proposal.inputs.clone(),
            outputs: proposal.outputs.clone(),
            restores: proposal.restores.clone(),
        };
        self.run = Some(run.clone());
        Ok(OpenRun::Run(run))
    }

    fn held_by(&mut self, holder: &Holder) -> Result<&mut Lease, NotHolder> {
        match &mut self.lease {
            Some(lease) if lease.attempt == holder.attempt && lease.token == holder.token => Ok(lease),
            _ => Err(NotHolder),
        }
    }
}

impl Lease {
    /// Whether the lease ended by the store's clock. A lease of another epoch ended with that epoch.
    pub fn expired(&self, now: &StoreTime) -> bool {
        self.expires.epoch != now.epoch || self.expires.ms <= now.ms
    }

    /// The holder, given the store that granted the lease.
    pub fn holder(&self, store_id: StoreId) -> Holder {
        Holder { store_id, token: self.token, attempt: self.attempt }
    }
}

impl StoreTime {
    /// The moment `ms` milliseconds later.
    #[must_use]
    pub fn after(&self, ms: u64) -> Self {
        Self { epoch: self.epoch.clone(), ms: self.ms.saturating_add(ms) }
    }
}
