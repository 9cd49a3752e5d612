//! Ports that nobody listens at.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};

/// Below the range from which the kernel takes the ports of outgoing connections, so that a server that is killed finds
/// its port free when it starts again.
const FIRST: u32 = 12_000;
const COUNT: u32 = 20_000;

/// A port of 127.0.0.1 that is free now; whoever binds it must be ready to lose it to another process and ask again.
pub(crate) fn free_port() -> u16 {
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    // Processes that run at the same time start at places far apart.
    let start = std::process::id().wrapping_mul(7_919);
    let free = (0..COUNT).find_map(|_| {
        let step = TAKEN.fetch_add(1, Ordering::Relaxed);
        let port = u16::try_from(FIRST + start.wrapping_add(step) % COUNT).ok()?;
        TcpListener::bind(("127.0.0.1", port)).ok().map(|_| port)
    });
    free.expect("a free port")
}
