//! The lease at the store and the claims at the sinks: who may work for the key.

use super::{BEFORE_THE_COMMAND, Driver, Other, PAUSE, stopped_by};
use crate::clock::Stopwatch;
use crate::heartbeat::Heartbeat;
use crate::holder::life_of;
use crate::ids;
use crate::process::{Event, EventReceiver, EventSender, Liveness, end_by_attempt};
use refrain_core::{Acquired, CrashPoint, Error, Lease, LeaseRequest, Refusal, Result, SlotAddress, Token};
use std::sync::Arc;
use std::time::Duration;

impl Driver<'_> {
    /// 5.1
    pub(super) fn acquire(&mut self, sender: &EventSender, events: &EventReceiver) -> Result<()> {
        self.reach(CrashPoint::BeforeAcquire);
        let waiting = Stopwatch::start();
        let mut request = LeaseRequest {
            attempt: self.id,
            process: self.boundary.process.clone(),
            ttl_ms: millis(self.plan.task.lease_ttl),
            dead: None,
        };
        loop {
            let asked = Stopwatch::start();
            let lease = match self.boundary.store.acquire(&self.plan.key, &request)? {
                Acquired::Granted(granted) => {
                    let store = self.boundary.store.identity()?;
                    tracing::info!(rule = "5.1", key = %self.plan.key, token = %granted.token, "leased");
                    if let Some(former) = &granted.unclean {
                        self.end_remains(former);
                    }
                    self.report.token = Some(granted.token);
                    self.machine.acquired(store, &granted);
                    self.at_hand = granted.run;
                    self.forgo()?;
                    self.start_heartbeat(sender, asked)?;
                    self.reach(CrashPoint::AfterAcquire);
                    return Ok(());
                }
                Acquired::Held(lease) => lease,
            };
            if is_dead(&lease) {
                tracing::info!(rule = "3.1", attempt = %lease.attempt, "its process is dead: taking over");
                request.dead = Some((lease.attempt, lease.token));
                continue;
            }
            let wait = self.options.wait.is_some_and(|limit| waiting.elapsed() < limit);
            if !wait {
                self.other = Some(Other::Lease(lease));
                self.machine.held();
                return Ok(());
            }
            if let Some(Event::Signal(signal)) = events.try_next() {
                self.fail(stopped_by(signal, BEFORE_THE_COMMAND));
                return Ok(());
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn forgo(&mut self) -> Result<()> {
        let Some(run) = &self.at_hand else { return Ok(()) };
        for slot in run.slots() {
            if self.boundary.is_forgone(&self.plan.key, run, slot, self.options.adopt)? {
                tracing::info!(rule = "5.2", %slot, "nobody reaches it any more: left alone");
                self.machine.forgo(slot.clone());
            }
        }
        Ok(())
    }

    /// What is left of a dead attempt on this host is ended, so that it does not use what the task needs. A
    /// holder that is only paused keeps its processes: the sink refuses it when it wakes.
    fn end_remains(&mut self, former: &Lease) {
        if !is_dead(former) {
            return;
        }
        match end_by_attempt(&former.attempt.to_string()) {
            Ok(sweep) => self.notes.extend(sweep.ended.iter().map(|process| {
                format!(
                    "ended a process of the dead attempt {}: {} (pid {})",
                    former.attempt, process.command, process.pid
                )
            })),
            Err(error) => tracing::warn!(%error, "cannot look for processes of the dead attempt"),
        }
    }

    /// `asked` began before the lease was asked for.
    fn start_heartbeat(&mut self, sender: &EventSender, asked: Stopwatch) -> Result<()> {
        let Some(holder) = self.machine.holder() else { return Ok(()) };
        let store = Arc::clone(&self.boundary.store);
        let ttl = self.plan.task.lease_ttl;
        let heartbeat = Heartbeat::start(store, self.plan.key.clone(), holder, (ttl, asked), sender.clone())
            .map_err(|error| Error::io("cannot start the heartbeat", error))?;
        self.heartbeat = Some(heartbeat);
        Ok(())
    }

    /// 5.2
    pub(super) fn claim(&mut self, slot: &SlotAddress) -> Result<()> {
        let Some(holder) = self.machine.holder() else {
            self.machine.lease_lost();
            return Ok(());
        };
        let request = refrain_core::ClaimRequest {
            owner: self.plan.key.clone(),
            holder,
            ancestors: self.boundary.store.identity()?.ancestors,
            slots: self.machine.known_slots().clone(),
            fresh_slot_id: ids::slot(),
            fresh_version: ids::version(),
            take_over: self.options.adopt && self.publishes_at(slot),
        };
        self.reach(CrashPoint::BeforeClaim);
        match self.boundary.sinks.of(slot)?.claim(slot, &request)? {
            refrain_core::ClaimAnswer::Claimed(head) => {
                tracing::info!(rule = "5.2", %slot, version = %head.version, "claimed");
                self.machine.claimed(slot, head);
            }
            refrain_core::ClaimAnswer::Fenced(head) => {
                tracing::info!(rule = "4.3", %slot, "fenced by a later claim");
                self.machine.claim_fenced(&head);
                self.other = Some(Other::Head(Box::new(head)));
            }
            refrain_core::ClaimAnswer::Refused(head, refrain_core::ClaimRefusal::Owner)
                if self.recovers || !self.publishes_at(slot) =>
            {
                tracing::info!(rule = "2.4", %slot, owner = %head.owner, "another key publishes there now: left alone");
                self.machine.give_up(slot, head);
            }
            refrain_core::ClaimAnswer::Refused(head, why) => {
                let (slot, head) = (slot.clone(), Box::new(head));
                self.machine.claim_refused(match why {
                    refrain_core::ClaimRefusal::Owner => Refusal::Owner(slot, head),
                    refrain_core::ClaimRefusal::ForeignStore => Refusal::ForeignStore(slot, head),
                });
            }
        }
        self.reach(CrashPoint::AfterClaim);
        Ok(())
    }

    fn publishes_at(&self, slot: &SlotAddress) -> bool {
        self.plan.outputs.iter().any(|output| output.slot == *slot)
    }

    /// 4.3
    pub(super) fn raise(&mut self, floor: Token) -> Result<()> {
        let Some(holder) = self.machine.holder() else {
            self.machine.lease_lost();
            return Ok(());
        };
        match self.boundary.store.raise(&self.plan.key, &holder, floor)? {
            Some(token) => {
                let line = format!(
                    "the state store went backwards: it granted token {}, the sink has {floor}; going on with {token}",
                    holder.token
                );
                // Tokens of two keys do not compare: after `--adopt` a higher one says nothing of the store.
                if !matches!(&self.other, Some(Other::Head(head)) if head.owner != self.plan.key) {
                    tracing::warn!(rule = "4.3", "{line}");
                    self.notes.push(line);
                }
                self.report.token = Some(token);
                self.machine.raised(token);
            }
            None => self.machine.lease_lost(),
        }
        Ok(())
    }
}

fn is_dead(lease: &Lease) -> bool {
    life_of(lease) == Liveness::Dead
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
