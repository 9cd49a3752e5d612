//! Numbers of things, in words.

use std::fmt::Display;

/// So many of a thing: `1 row`, `2 rows`.
pub fn counted<N: Copy + PartialEq + From<u8> + Display>(number: N, thing: &str) -> String {
    let end = if is_one(number) { "" } else { "s" };
    format!("{number} {thing}{end}")
}

/// The verb that goes with so many things.
pub fn were<N: Copy + PartialEq + From<u8>>(number: N) -> &'static str {
    if is_one(number) { "was" } else { "were" }
}

/// The same, of what is so now.
pub fn are<N: Copy + PartialEq + From<u8>>(number: N) -> &'static str {
    if is_one(number) { "is" } else { "are" }
}

fn is_one<N: Copy + PartialEq + From<u8>>(number: N) -> bool {
    number == N::from(1)
}

#[cfg(test)]
mod tests {
    use super::{are, counted, were};

    #[test]
    fn one_is_told_from_none_and_from_many() {
        let told = [0, 1, 2].map(|number: u64| format!("{} {} {}", counted(number, "key"), were(number), are(number)));
        assert_eq!(told, ["0 keys were are", "1 key was is", "2 keys were are"]);
    }
}
