//! Sessions with real servers, of both versions and behind a pooler.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

mod commit;
mod copy;
mod open;
mod pooler;
mod silent;
mod support;
mod tls;
