//! Whether what an input names can be what an output is published to, whatever exists now.
//!
//! Locations are languages of paths, and two of them meet if some path is of both: an automaton each, and a search through
//! pairs of their states. Errs on the side of "meets" for a name that begins with a dot.

use crate::location::{escape, literal};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Whether an input can lie in an output's slot, or an output in an input that is a directory. Both are absolute locations,
/// that of a directory output with a `/` at its end, or URLs, those of prefixes with a `/` at their ends; other spellings of the same place, through links and `..`, are the
/// same place.
pub fn meets(input: &str, output: &str) -> bool {
    let slot = |output: &str| {
        let slot = Automaton::of(output);
        if output.ends_with('/') { slot.and_inside() } else { slot }
    };
    if is_url(input) != is_url(output) {
        return false;
    }
    // An object is no directory.
    let may_hold = |input: &str| literal(input).is_some() && (!is_url(input) || input.ends_with('/'));
    let outputs: Vec<_> = spellings(output).iter().map(|output| (slot(output), Automaton::of(output))).collect();
    spellings(input).iter().any(|input| {
        let (input, inside) = (Automaton::of(input), may_hold(input).then(|| Automaton::of(input).and_inside()));
        outputs.iter().any(|(slot, output)| input.meets(slot) || inside.as_ref().is_some_and(|it| it.meets(output)))
    })
}

fn is_url(location: &str) -> bool {
    location.contains("://")
}

/// The location as it is written, without `.` and `..`, and with the links of its fixed part resolved.
fn spellings(location: &str) -> BTreeSet<String> {
    if is_url(location) {
        return BTreeSet::from([location.to_owned()]);
    }
    let parts: Vec<&str> = location.split('/').filter(|part| !part.is_empty()).collect();
    let fixed = parts.iter().take_while(|part| literal(part).is_some()).count();
    let (fixed, rest) = parts.split_at(fixed);
    let fixed: PathBuf = Path::new("/").join(fixed.iter().filter_map(|part| literal(part)).collect::<PathBuf>());
    let mut spellings = BTreeSet::new();
    for follow in [false, true] {
        let mut text = escape(&resolve(&fixed, follow).to_string_lossy());
        for part in rest {
            text.push('/');
            text.push_str(part);
        }
        if location.ends_with('/') {
            text.push('/');
        }
        spellings.insert(text);
    }
    spellings
}

fn resolve(path: &Path, follow: bool) -> PathBuf {
    let mut resolved = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::ParentDir => {
                resolved.pop();
            }
            Component::Normal(name) => {
                resolved.push(name);
                // What does not exist yet, or leads nowhere, is what it says.
                if follow && let Ok(real) = fs::canonicalize(&resolved) {
                    resolved = real;
                }
            }
            _ => {}
        }
    }
    resolved
}

/// A set of bytes.
#[derive(Clone, Copy)]
struct Bytes([u64; 4]);

impl Bytes {
    const ALL: Self = Self([u64::MAX; 4]);

    fn one(byte: u8) -> Self {
        Self([0; 4]).with(byte)
    }

    fn of_names() -> Self {
        Self::ALL.without(b'/')
    }

    fn with(mut self, byte: u8) -> Self {
        if let Some(word) = self.0.get_mut(usize::from(byte / 64)) {
            *word |= 1 << (byte % 64);
        }
        self
    }

    fn without(mut self, byte: u8) -> Self {
        if let Some(word) = self.0.get_mut(usize::from(byte / 64)) {
            *word &= !(1 << (byte % 64));
        }
        self
    }

    fn complement(self) -> Self {
        Self(self.0.map(|word| !word)).without(b'/')
    }

    fn meets(self, other: Self) -> bool {
        self.0.iter().zip(other.0).any(|(one, other)| one & other != 0)
    }
}

/// Where a state leads: for these bytes, or at once.
type Step = (Option<Bytes>, usize);

/// Accepts the paths of a location. It begins in state 0 and ends in the last one.
struct Automaton {
    steps: Vec<Vec<Step>>,
}

impl Automaton {
    fn of(location: &str) -> Self {
        let mut automaton = Self { steps: vec![Vec::new()] };
        for part in location.split('/').filter(|part| !part.is_empty()) {
            automaton.push(Bytes::one(b'/'));
            if part == "**" {
                automaton.push_directories();
            } else {
                automaton.push_name(part);
            }
        }
        automaton
    }

    /// Accepts whatever lies inside these paths as well.
    fn and_inside(mut self) -> Self {
        let end = self.last();
        self.push(Bytes::one(b'/'));
        self.repeat(Bytes::ALL);
        let inside = self.last();
        self.steps.push(Vec::new());
        let last = self.last();
        self.step(inside, None, last);
        self.step(end, None, last);
        self
    }

    fn push_name(&mut self, part: &str) {
        let mut chars = part.char_indices();
        while let Some((at, char)) = chars.next() {
            match char {
                '*' => self.repeat(Bytes::of_names()),
                '?' => self.push_char(Bytes::of_names()),
                '[' => {
                    let rest = part.get(at..).unwrap_or_default();
                    let (set, length) = class(rest);
                    self.push_char(set);
                    for _ in 1..rest.get(..length).unwrap_or_default().chars().count() {
                        chars.next();
                    }
                }
                char => {
                    for byte in char.encode_utf8(&mut [0; 4]).bytes() {
                        self.push(Bytes::one(byte));
                    }
                }
            }
        }
    }

    /// Any number of names with a `/` each; at the end of a pattern, any number and a name.
    fn push_directories(&mut self) {
        let before = self.last() - 1;
        self.repeat(Bytes::ALL);
        let inside = self.last();
        self.steps.push(Vec::new());
        let after = self.last();
        // What follows brings its own `/`.
        self.step(inside, None, after);
        self.step(before, None, after);
    }

    /// One character: a byte, or some for what is not ASCII.
    fn push_char(&mut self, set: Bytes) {
        self.push(set);
        let end = self.last();
        let continued = (0x80..=0xBF).fold(Bytes([0; 4]), Bytes::with);
        self.step(end, Some(continued), end);
    }

    fn push(&mut self, set: Bytes) {
        let from = self.last();
        self.steps.push(Vec::new());
        let to = self.last();
        self.step(from, Some(set), to);
    }

    fn repeat(&mut self, set: Bytes) {
        let at = self.last();
        self.steps.push(Vec::new());
        let to = self.last();
        self.step(at, None, to);
        self.step(to, Some(set), to);
    }

    fn step(&mut self, from: usize, set: Option<Bytes>, to: usize) {
        if let Some(steps) = self.steps.get_mut(from) {
            steps.push((set, to));
        }
    }

    fn last(&self) -> usize {
        self.steps.len() - 1
    }

    fn from(&self, state: usize) -> &[Step] {
        self.steps.get(state).map_or(&[], Vec::as_slice)
    }

    /// Whether some path is accepted by both.
    fn meets(&self, other: &Self) -> bool {
        let mut seen = BTreeSet::from([(0, 0)]);
        let mut open = vec![(0, 0)];
        while let Some((one, two)) = open.pop() {
            if (one, two) == (self.last(), other.last()) {
                return true;
            }
            let mut next = Vec::new();
            for (set, to) in self.from(one) {
                match set {
                    None => next.push((*to, two)),
                    Some(set) => {
                        let common = |step: &&Step| step.0.is_some_and(|other| other.meets(*set));
                        next.extend(other.from(two).iter().filter(common).map(|step| (*to, step.1)));
                    }
                }
            }
            next.extend(other.from(two).iter().filter(|step| step.0.is_none()).map(|step| (one, step.1)));
            open.extend(next.into_iter().filter(|pair| seen.insert(*pair)));
        }
        false
    }
}

/// The bytes of `[…]` at the beginning of a text, and the text's length of it. Of characters that are not ASCII, all are
/// in.
fn class(text: &str) -> (Bytes, usize) {
    let inner = text.get(1..).unwrap_or_default();
    let (negated, skipped) = if inner.starts_with(['!', '^']) { (true, 2) } else { (false, 1) };
    let body = text.get(skipped..).unwrap_or_default();
    // A `]` in the first place is one of the characters.
    let first = body.chars().next().map_or(0, char::len_utf8);
    let Some(end) = body.get(first..).and_then(|rest| rest.find(']')) else { return (Bytes::of_names(), text.len()) };
    let body = body.get(..first + end).unwrap_or_default();
    let length = skipped + body.len() + 1;
    if !body.is_ascii() {
        return (Bytes::of_names(), length);
    }
    let bytes = body.as_bytes();
    let mut set = Bytes([0; 4]);
    let mut at = 0;
    while let Some(low) = bytes.get(at) {
        let high = bytes.get(at + 2).filter(|_| bytes.get(at + 1) == Some(&b'-'));
        set = (*low..=*high.unwrap_or(low)).fold(set, Bytes::with);
        at += if high.is_some() { 3 } else { 1 };
    }
    (if negated { set.complement() } else { set }, length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_meets_an_output_where_some_path_is_of_both() {
        let date = "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]";
        let output = |text: &str| text.replace("DATE", date);
        for (input, out, expected) in [
            ("/w/out.csv", "/w/out.csv", true),
            ("/w", "/w/out.csv", true),
            ("/w/out/part", "/w/out/", true),
            ("/w/out2", "/w/out/", false),
            ("/w/2025-03-23.csv", "/w/DATE.csv", true),
            ("/w/summary.csv", "/w/DATE.csv", false),
            ("/w/2025-03-23.csv", "/w/DATE-clean.csv", false),
            ("/w/2025-03-23-*.csv", "/w/DATE-clean.csv", true),
            ("/w/2025-03-23-raw*.csv", "/w/DATE-clean.csv", false),
            ("/w/*/x.csv", "/w/dt=DATE/", true),
            ("/w/x*/a.csv", "/w/dt=DATE/", false),
            ("/w/**/x.csv", "/w/dt=DATE/", true),
            ("/w/**/x.csv", "/w/zx.csv", false),
            ("/w/**/x.csv", "/w/x.csv", true),
            ("/w/**", "/w/a/b", true),
            ("/w/**", "/v/a/b", false),
            ("/w/dt=2025-01-01/part", "/w/dt=DATE/", true),
            ("/w/*", "/w/a/b", false),
            ("/w/out/part", "/w/out", false),
            ("/w/?.csv", "/w/é.csv", true),
            ("/w/[!a].csv", "/w/a.csv", false),
            ("/w/[]a].csv", "/w/].csv", true),
            ("/w/[*].csv", "/w/a.csv", false),
            ("/w/a/../out.csv", "/w/./out.csv", true),
            ("/w", "/w/DATE/x", true),
            ("/w/a", "/w/DATE/x", false),
            ("s3://w/2025-03-23.csv", "s3://w/DATE.csv", true),
            ("s3://w/x/", "s3://w/x/dt=DATE/", true),
            ("s3://w/x", "s3://w/x/dt=DATE/", false),
            ("s3://w/dt=2025-01-01/part", "s3://w/dt=DATE/", true),
            ("s3://w/", "s3://v/a", false),
            ("/w", "s3://w/a", false),
        ] {
            assert_eq!(meets(input, &output(out)), expected, "{input} and {out}");
        }
    }

    #[test]
    fn links_are_the_place_that_they_lead_to() {
        let root = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(root.path()).unwrap();
        fs::create_dir_all(root.join("real/out")).unwrap();
        std::os::unix::fs::symlink("real", root.join("link")).unwrap();
        let at = |path: &str| format!("{}/{path}", root.display());
        assert!(meets(&at("link/out/part"), &at("real/out/")));
        assert!(meets(&at("link/*/part"), &at("real/out/")));
        assert!(meets(&at("real/out"), &at("link/out/*")));
        assert!(!meets(&at("link/other"), &at("real/out")));
    }
}
