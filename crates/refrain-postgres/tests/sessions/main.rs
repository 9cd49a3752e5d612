//! Sessions with real servers, of both versions and behind a pooler.

mod commit;
mod copy;
mod open;
mod pooler;
mod support;
mod tls;
