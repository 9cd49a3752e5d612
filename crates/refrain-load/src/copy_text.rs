//! Values in the text format of COPY: tabs between fields, a backslash before what would be read otherwise.
//!
//! Source: <https://www.postgresql.org/docs/current/sql-copy.html>, "Text Format".

/// NULL.
pub(crate) const NULL: &[u8] = b"\\N";

/// A character with the code zero, which no type of PostgreSQL can hold in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Nul;

/// For each byte: nothing, or the letter that stands for it behind a backslash; `NUL` for the byte that cannot be written.
const ESCAPES: [u8; 256] = {
    let mut escapes = [0; 256];
    escapes[b'\\' as usize] = b'\\';
    escapes[b'\t' as usize] = b't';
    escapes[b'\n' as usize] = b'n';
    escapes[b'\r' as usize] = b'r';
    escapes[0] = NUL;
    escapes
};
const NUL: u8 = b'0';

/// Appends a value that is not NULL.
#[inline]
pub(crate) fn push(text: &[u8], out: &mut Vec<u8>) -> Result<(), Nul> {
    let mut start = 0;
    for (place, byte) in text.iter().enumerate() {
        match ESCAPES[usize::from(*byte)] {
            0 => {}
            NUL => return Err(Nul),
            letter => {
                out.extend_from_slice(&text[start..place]);
                out.extend_from_slice(&[b'\\', letter]);
                start = place + 1;
            }
        }
    }
    out.extend_from_slice(&text[start..]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Nul, push};

    #[test]
    fn what_would_be_read_otherwise_is_escaped() {
        let mut out = vec![];
        push("a\tb\\N\r\nü".as_bytes(), &mut out).unwrap();
        assert_eq!(out, "a\\tb\\\\N\\r\\nü".as_bytes());
        assert_eq!(push(b"a\0", &mut out), Err(Nul));
    }
}
