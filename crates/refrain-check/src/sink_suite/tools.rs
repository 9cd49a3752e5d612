//! An attempt that walks the sink's part of the protocol.

use super::{Content, SinkUnderTest};
use jiff::Timestamp;
use refrain_core::{
    Adopt, AttemptId, ClaimAnswer, ClaimRequest, CommitAnswer, CommitOptions, CommitRequest, Fingerprint, Generation,
    Guards, Head, HeadVersion, Holder, Key, OutputSlot, Publication, RunId, RunRecord, SealedData, Sink, SlotAddress,
    SlotId, StagingId, StoreId, Token,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use uuid::Uuid;

/// Permission to replace the last publication and nothing else.
pub(super) const STRICT: CommitOptions = CommitOptions { adopt: Adopt::Never, overwrite_drift: false };

/// The store whose attempts most cases are about.
pub(super) const STORE: StoreId = StoreId::from_uuid(Uuid::from_u128(0x5_70e));

/// One attempt for a run.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub(super) owner: Key,
    pub(super) holder: Holder,
    pub(super) ancestors: BTreeSet<StoreId>,
    pub(super) run: RunRecord,
}

impl Attempt {
    /// An attempt of this token for this generation, with the slots of its run; the anchor first.
    pub(super) fn new(token: u64, generation: u64, slots: &[&SlotAddress]) -> Self {
        let named = slots.iter().enumerate();
        let outputs =
            named.map(|(index, slot)| OutputSlot { name: format!("out{index}"), slot: (*slot).clone(), manner: None });
        Self {
            owner: Key { task: "daily".parse().expect("a task's name"), partition: "2025-03-24".to_owned() },
            holder: Holder { store_id: STORE, token: Token::new(token), attempt: AttemptId::from_uuid(fresh()) },
            ancestors: BTreeSet::new(),
            run: RunRecord {
                generation: Generation::new(generation),
                run_id: RunId::from_uuid(Uuid::from_u128(u128::from(generation) << 64)),
                inputs: Vec::new(),
                outputs: outputs.collect(),
                restores: None,
            },
        }
    }

    pub(super) fn claim_request(&self) -> ClaimRequest {
        ClaimRequest {
            owner: self.owner.clone(),
            holder: self.holder,
            ancestors: self.ancestors.clone(),
            slots: self.run.slots().cloned().collect(),
            fresh_slot_id: SlotId::from_uuid(fresh()),
            fresh_version: fresh_version(),
            take_over: false,
        }
    }

    /// Claims the slot, which must succeed.
    pub(super) fn claim(&self, sink: &dyn Sink, slot: &SlotAddress) -> Head {
        match sink.claim(slot, &self.claim_request()).expect("claim") {
            ClaimAnswer::Claimed(head) => head,
            other => panic!("{:?} did not get `{slot}`: {other:?}", self.holder),
        }
    }

    pub(super) fn staging_id(&self) -> StagingId {
        StagingId { holder: self.holder, generation: self.run.generation, slots: self.run.slots().cloned().collect() }
    }

    /// Stages and seals this text for the slot.
    pub(super) fn seal(&self, home: &dyn SinkUnderTest, sink: &dyn Sink, slot: &SlotAddress, text: &str) -> SealedData {
        let staging = sink.stage(slot, home.manner(slot).as_deref(), &self.staging_id()).expect("stage");
        home.write(&staging, Content::Text(text));
        sink.seal(staging, &Guards::default()).expect("seal").into_data().expect("what was sealed")
    }

    pub(super) fn commit_request(&self, expected: HeadVersion, data: Vec<SealedData>) -> CommitRequest {
        CommitRequest {
            holder: self.holder,
            expected,
            fresh_version: fresh_version(),
            publication: Publication {
                run: self.run.clone(),
                attempt: self.holder.attempt,
                data,
                fingerprint: Fingerprint { digest: "blake3:00".to_owned(), parts: BTreeMap::new() },
                sealed_at: Timestamp::UNIX_EPOCH,
                edited: false,
                adopts: false,
            },
        }
    }

    /// Claims, stages and seals: everything but the commit.
    pub(super) fn prepare(
        &self,
        home: &dyn SinkUnderTest,
        sink: &dyn Sink,
        slot: &SlotAddress,
        text: &str,
    ) -> CommitRequest {
        let head = self.claim(sink, slot);
        let data = self.seal(home, sink, slot, text);
        self.commit_request(head.version, vec![data])
    }
}

/// Publishes this text as this generation; its token is the generation too.
pub(super) fn publish(home: &dyn SinkUnderTest, slot: &SlotAddress, generation: u64, text: &str) -> Attempt {
    let sink = home.open();
    let attempt = Attempt::new(generation, generation, &[slot]);
    let request = attempt.prepare(home, &*sink, slot, text);
    committed(&*sink, slot, &request);
    assert_eq!(home.visible(slot).as_deref(), Some(text));
    attempt
}

pub(super) fn committed(sink: &dyn Sink, slot: &SlotAddress, request: &CommitRequest) {
    let answer = sink.commit(slot, request, &STRICT).expect("commit");
    assert_eq!(answer, CommitAnswer::Committed, "at `{slot}`");
}

pub(super) fn rejected(sink: &dyn Sink, slot: &SlotAddress, request: &CommitRequest) {
    let answer = sink.commit(slot, request, &STRICT).expect("commit");
    assert_eq!(answer, CommitAnswer::Rejected, "at `{slot}`");
}

pub(super) fn head(sink: &dyn Sink, slot: &SlotAddress) -> Head {
    sink.read(slot).expect("read").unwrap_or_else(|| panic!("`{slot}` has no head"))
}

pub(super) fn fresh_version() -> HeadVersion {
    HeadVersion::from_uuid(fresh())
}

/// An identity that no other case of this process has.
fn fresh() -> Uuid {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    Uuid::from_u128(0xf8e5_0000_0000_0000_0000_0000_0000_0000 | u128::from(NEXT.fetch_add(1, Ordering::Relaxed)))
}
