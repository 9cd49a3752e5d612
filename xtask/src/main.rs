//! Development tasks of this repository.
fn main() {}
