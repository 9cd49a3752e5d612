//! The only place where this crate draws randomness.

use refrain_core::StoreId;
use std::time::Duration;
use uuid::Uuid;

/// An identity that no store ever had.
pub(crate) fn fresh_store_id() -> StoreId {
    StoreId::from_uuid(Uuid::new_v4())
}

/// What makes two writes of the same content different.
pub(crate) fn fresh_nonce() -> String {
    Uuid::new_v4().simple().to_string()
}

/// Between a half and the whole of it: those who were disturbed at once do not come back at once.
pub(crate) fn jittered(pause: Duration) -> Duration {
    let drawn = u32::from(Uuid::new_v4().as_bytes()[0]);
    pause / 2 + pause * drawn / 510
}
