//! What must hold, in words.

use std::fmt;

/// A property of PROTOCOL part II.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Property {
    /// P1: per key and generation one attempt's data becomes visible at a slot, and once.
    OneAttemptPerGeneration,
    /// P2: a commit takes effect only while the committer's own claim is the last one accepted.
    CommitUnderOwnClaim,
    /// P2, claim order: no claim is accepted after one of a later lease.
    ClaimOrder,
    /// P3: a version is replaced only by a strictly later generation.
    GenerationsRise,
    /// P4: visible data is one attempt's complete sealed data.
    SealedData,
    /// P5: answers are true, and "not published" stays true.
    TrueAnswers,
    /// P6: staging that is, or becomes, visible is not deleted.
    StagingKept,
    /// P7: two slots never show different attempts of one generation, and none after a fair attempt.
    SlotsAgree,
    /// P7b: no attempt that is not fenced starts while slots of an earlier decided run are mixed.
    NotOverMixedSlots,
    /// P8: from every state a fair attempt comes to a good end.
    GoodEnd,
    /// P9: attempts of one run use the same pins and slots.
    SamePins,
    /// WISH: one wish to rerun opens one generation at most, and is not answered by the one it wants replaced.
    OneGenerationPerWish,
    /// COLL: nobody settles or releases the lease of another.
    OwnLeaseOnly,
    /// SELF: no attempt is fenced by its own claim.
    NotFencedByItself,
    /// Files: what is visible is durable once somebody was told so.
    DurableWhenTold,
}

impl Property {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::OneAttemptPerGeneration,
        Self::CommitUnderOwnClaim,
        Self::ClaimOrder,
        Self::GenerationsRise,
        Self::SealedData,
        Self::TrueAnswers,
        Self::StagingKept,
        Self::SlotsAgree,
        Self::NotOverMixedSlots,
        Self::GoodEnd,
        Self::SamePins,
        Self::OneGenerationPerWish,
        Self::OwnLeaseOnly,
        Self::NotFencedByItself,
        Self::DurableWhenTold,
    ];
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OneAttemptPerGeneration => "P1 (one attempt per generation)",
            Self::CommitUnderOwnClaim => "P2 (commit under the own claim)",
            Self::ClaimOrder => "P2 (claim order)",
            Self::GenerationsRise => "P3 (generations rise)",
            Self::SealedData => "P4 (sealed data)",
            Self::TrueAnswers => "P5 (true answers)",
            Self::StagingKept => "P6 (staging kept)",
            Self::SlotsAgree => "P7 (slots agree)",
            Self::NotOverMixedSlots => "P7b (not over mixed slots)",
            Self::GoodEnd => "P8 (good end)",
            Self::SamePins => "P9 (same pins)",
            Self::OneGenerationPerWish => "WISH (one generation per wish)",
            Self::OwnLeaseOnly => "COLL (own lease only)",
            Self::NotFencedByItself => "SELF (not fenced by itself)",
            Self::DurableWhenTold => "DURABLE (what was told)",
        })
    }
}
