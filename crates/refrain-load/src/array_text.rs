//! Elements of array literals: in double quotes, with a backslash before quotes and backslashes.
//!
//! Source: <https://www.postgresql.org/docs/current/arrays.html>, "Array Input and Output Syntax".

/// NULL.
pub(crate) const NULL: &[u8] = b"NULL";

/// Appends an element that is not NULL and no number.
pub(crate) fn push(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in text {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    out.push(b'"');
}
