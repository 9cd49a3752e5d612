//! The words and the protocol of Refrain as code that does no input or output.
