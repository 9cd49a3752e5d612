//! Repairs that can be taken out one at a time. A property must break then, or the exploration proves nothing.

/// A repair, by the rule that brings it and the number of the counterexample that it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Switch {
    /// 1.2: one token per attempt (1, 2). Without it a lost answer is resolved with a fresh token.
    OneTokenPerAttempt,
    /// 5.11c: superseded is an answer of its own (3). Without it: "not published".
    SupersededIsNoDenial,
    /// 5.11: a lost answer is resolved by sending again (4). Without it: by reading the head.
    ResolveBySending,
    /// 4.1b: a claim that stands is not fenced by itself (5).
    StandingClaim,
    /// 3.4: a wish to rerun names the generation it replaces (6).
    RerunNamesGeneration,
    /// 7: staging goes by the heads (7). Without it: when the lease is lost and no head shows it.
    StagingGoesByHeads,
    /// 5.11d: a rejection behind the anchor is no denial (8).
    DecidedAtAnchor,
    /// 3.6: the anchor's head is the decision (9, 11). Without it: a record in the store.
    HeadIsDecision,
    /// 5.5: roll forward before anything else (10).
    RollForwardFirst,
    /// 1.3: a new store has a new identity (12).
    StoreIdentity,
    /// 3.4a: the sink outranks the store (13).
    SeenOutranksStore,
    /// 1.1: a run has an identity of its own (14). Without it: its generation is its identity.
    RunIdentity,
    /// 1.5: holders are compared as a whole (15). Without it: by their tokens.
    WholeHolder,
    /// 8.2: only ancestry orders stores (16). Without it: any store is adopted.
    Ancestry,
    /// 2.2: versions never repeat (17). Without it: they are counted per head.
    FreshVersions,
    /// 2.2: heads have identities (18).
    SlotIdentity,
    /// 5.3: a head counts only if its anchor bears it out (19).
    AnchorCheck,
    /// 7.2: one claim on all slots (20). Without it: at the anchor.
    ClaimOnAllSlots,
    /// 4.5: the expected version is never refreshed under way (21).
    IdenticalRequest,
    /// 1.1, 4.1, 5.1: the slot list is the run's and travels in the claim (24). Without it: the configuration's.
    PinnedSlotList,
    /// 4.4: the learn rule (25).
    LearnRule,
    /// 9.3: every lock holder recovers first (26).
    RecoverFirst,
    /// 9.3: recovery syncs the intent that it found before it carries it out.
    RecoverySyncsIntent,
    /// 9.5: recovery goes forward (26). Without it: an intent that is not carried out yet is dropped.
    RedoOnly,
    /// 9.3: recovery knows by the inode whether the rename was done (26). Without it: it exchanges again.
    InodeTest,
    /// 9.4: both directories are synced before the record (26).
    SyncDirectories,
    /// 9.2: a lock that dies with its process and cannot be stolen (26).
    KernelLock,
    /// 9.8: an intent is withdrawn only if the inode shows that nothing moved.
    WithdrawalTested,
    /// 9.8: the withdrawal is synced before anybody is told.
    WithdrawalSynced,
    /// 5.11, 9.6: after a lost answer a failure to ask again is no definite answer.
    DoubtRemains,
}
