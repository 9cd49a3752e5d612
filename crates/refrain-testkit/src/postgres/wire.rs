//! As much of PostgreSQL's protocol as tells where a message begins and ends.
//!
//! Source: PostgreSQL's documentation, "Frontend/Backend Protocol", "Message Formats".

use std::io::{self, Read};

/// A message with a kind, as both sides send them once a session is open.
#[derive(Debug)]
pub(super) struct Message(Vec<u8>);

impl Message {
    /// Reads one whole message.
    pub(super) fn read(from: &mut impl Read) -> io::Result<Self> {
        let mut bytes = vec![0; 5];
        from.read_exact(&mut bytes)?;
        read_body(from, bytes, 1).map(Self)
    }

    /// The letter that tells what it is.
    pub(super) fn kind(&self) -> u8 {
        self.0[0]
    }

    /// The message as it was sent.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// What the first messages of a connection, which have no kind, are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opening {
    /// A question for encryption, which the server answers with one byte.
    Encryption,
    /// A request to cancel a statement of another connection; nothing follows.
    Cancel,
    /// The start of a session.
    Session,
}

/// Reads one message of those that open a connection.
pub(super) fn opening(from: &mut impl Read) -> io::Result<(Opening, Vec<u8>)> {
    let mut bytes = vec![0; 4];
    from.read_exact(&mut bytes)?;
    let bytes = read_body(from, bytes, 0)?;
    let kind = match bytes.get(4..8) {
        Some([0x04, 0xd2, 0x16, 0x2e]) => Opening::Cancel,
        Some([0x04, 0xd2, 0x16, 0x2f | 0x30]) => Opening::Encryption,
        _ => Opening::Session,
    };
    Ok((kind, bytes))
}

/// Whether the server ends its answer to a message of this kind with `ReadyForQuery`: Query, Sync, `FunctionCall`.
pub(super) fn asks_for_ready(kind: u8) -> bool {
    matches!(kind, b'Q' | b'S' | b'F')
}

/// Whether `needle` is in `bytes`.
pub(super) fn contains(bytes: &[u8], needle: &[u8]) -> bool {
    bytes.windows(needle.len()).any(|window| window == needle)
}

/// Reads the rest of a message whose length, itself included, stands at `at` of its `head`.
fn read_body(from: &mut impl Read, mut head: Vec<u8>, at: usize) -> io::Result<Vec<u8>> {
    let length = u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let total = at + usize::try_from(length).map_err(io::Error::other)?;
    let known = head.len();
    head.resize(total.max(known), 0);
    from.read_exact(&mut head[known..])?;
    Ok(head)
}
