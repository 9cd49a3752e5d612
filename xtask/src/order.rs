//! `cargo xtask order`: which functions a call runs that has nothing to do, and which more one that publishes, written as
//! a linker script that puts each lot side by side.
//!
//! The program is large and a call uses a twentieth of it, which the linker by itself leaves scattered over all of it. The
//! kernel reads a program page by page as it is touched, so the scattering is most of what a call costs that has nothing
//! to do, and a good part of one that publishes a small file (docs/PERFORMANCE.md). A name that is no longer there does no
//! harm, a function that is not listed only costs its page: the list is recorded anew when `cargo xtask bench repeat
//! publish` says so.

use crate::command::{Outcome, build, capture, command, root, target_directory};
use crate::setup;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

const SCRIPT: &str = "crates/refrain-cli/often.ld";

/// A pattern may bring along this much, in bytes, that was not called; one that brings more is replaced by exact names.
const SPARE: u64 = 4096;

/// A task as people declare it.
const CONFIG: &str = r#"
[task.count]
partition = "daily"
command = "date > $REFRAIN_OUT_COUNT"
out.count = "counts/{date}.txt"

[task.split]
partition = "daily"
command = "date > $REFRAIN_OUT_PARTS/date"
in.count = "counts/{date}.txt"
out.parts = "parts/{date}/"
"#;

const BY_HAND: &[&str] =
    &["run", "by-hand", "--date", "2025-01-01", "--out", "out/{date}.txt", "--", "sh", "-c", "date > $REFRAIN_OUT"];
const DECLARED: &[&str] = &["run", "count", "--date", "2025-01-01"];
const DIRECTORY: &[&str] = &["run", "split", "--date", "2025-01-01"];

/// Records the calls and writes the linker script.
pub(crate) fn write() -> Outcome {
    setup::for_recording()?;
    let program = build("refrain", &["--release"])?;
    let home = home()?;
    let functions = functions(&program)?;
    let mut publishing = BTreeSet::new();
    let mut repeating = recorded(&program, &home, &["--version"])?;
    for call in [BY_HAND, DECLARED, DIRECTORY] {
        publishing.append(&mut recorded(&program, &home, call)?);
        repeating.append(&mut recorded(&program, &home, call)?);
        let again = [call, &["--rerun"]].concat();
        publishing.append(&mut recorded(&program, &home, &again)?);
    }
    let repeating = patterns(&repeating, &functions);
    let publishing = patterns(&publishing, &functions);
    let lots =
        [("often", repeating.iter().collect::<Vec<_>>()), ("publishing", publishing.difference(&repeating).collect())];
    fs::write(root().join(SCRIPT), script(&lots)).map_err(|error| format!("cannot write {SCRIPT}: {error}"))?;
    for (name, patterns) in lots {
        println!("{SCRIPT}: {} names in .text.{name}", patterns.len());
    }
    Ok(())
}

/// The linker script that places each lot before all other code.
fn script(lots: &[(&str, Vec<&String>)]) -> String {
    let mut script = HEAD.to_owned();
    for (name, patterns) in lots {
        let _ = writeln!(script, "  .text.{name} :\n  {{\n    *(");
        for pattern in patterns {
            let _ = writeln!(script, "      .text.{pattern}");
        }
        script.push_str("    )\n  }\n");
    }
    script.push_str(FOOT);
    script
}

const HEAD: &str = "\
/* Written by `cargo xtask order`: what a call runs that finds its work already published, side by side, and what more one
   runs that publishes. */
SECTIONS
{
";

const FOOT: &str = "}
INSERT BEFORE .text;
";

/// A new home with its tasks.
fn home() -> Outcome<PathBuf> {
    let home = target_directory().join("order");
    let failed = |error| format!("cannot make {}: {error}", home.display());
    if home.exists() {
        fs::remove_dir_all(&home).map_err(failed)?;
    }
    fs::create_dir_all(&home).map_err(failed)?;
    fs::write(home.join("refrain.toml"), CONFIG).map_err(failed)?;
    Ok(home)
}

/// The functions, as the linker names them, that the program runs when it is called in `home`.
fn recorded(program: &Path, home: &Path, arguments: &[&str]) -> Outcome<BTreeSet<String>> {
    let record = home.join("calls");
    let mut valgrind = command("valgrind");
    valgrind.current_dir(home).args(["--tool=callgrind", "--demangle=no"]);
    valgrind.arg(format!("--callgrind-out-file={}", record.display())).arg(program).args(arguments);
    capture(valgrind)?;
    let text = fs::read_to_string(&record).map_err(|error| format!("cannot read {}: {error}", record.display()))?;
    Ok(text.lines().filter_map(function_of).map(str::to_owned).collect())
}

/// The function that a line of callgrind's output names for the first time: `fn=(12) name`, `cfn=(12) name`.
///
/// The format: valgrind's manual, "Callgrind Format Specification". A recursion is told by `'2` behind the name.
fn function_of(line: &str) -> Option<&str> {
    let (_, name) = line.strip_prefix("fn=(").or_else(|| line.strip_prefix("cfn=("))?.split_once(") ")?;
    Some(name.split_once('\'').map_or(name, |(name, _)| name))
}

/// The program's own functions, with their sizes in bytes.
fn functions(program: &Path) -> Outcome<BTreeMap<String, u64>> {
    let mut nm = command("nm");
    nm.args(["--print-size", "--defined-only"]).arg(program);
    let listing = String::from_utf8_lossy(&capture(nm)?).into_owned();
    Ok(listing.lines().filter_map(function_in).collect())
}

/// The function in a line of nm: `address size type name`.
fn function_in(line: &str) -> Option<(String, u64)> {
    let mut words = line.split_whitespace().skip(1);
    let size = u64::from_str_radix(words.next()?, 16).ok()?;
    matches!(words.next()?, "t" | "T").then_some(())?;
    Some((words.next()?.to_owned(), size))
}

/// The patterns that pick `called` out of `functions`.
///
/// One that holds for every build, unless it is that of a generic function with many more instances than the called ones:
/// then the names are exact, and hold until the compiler or the crate that has the function changes.
fn patterns(called: &BTreeSet<String>, functions: &BTreeMap<String, u64>) -> BTreeSet<String> {
    let mut picked: BTreeMap<String, u64> = BTreeMap::new();
    for (name, size) in functions {
        *picked.entry(lasting(name)).or_default() += size;
    }
    let mut wanted: BTreeMap<String, Vec<(&String, u64)>> = BTreeMap::new();
    for name in called {
        if let Some(size) = functions.get(name) {
            wanted.entry(lasting(name)).or_default().push((name, *size));
        }
    }
    let mut patterns = BTreeSet::new();
    for (pattern, names) in wanted {
        let size: u64 = names.iter().map(|(_, size)| size).sum();
        if picked[&pattern] <= size + SPARE {
            patterns.insert(pattern);
        } else {
            patterns.extend(names.into_iter().map(|(name, _)| name.clone()));
        }
    }
    patterns
}

/// The name without what changes from build to build: hashes, and the marks of the optimiser behind it.
fn lasting(name: &str) -> String {
    let stem = [".llvm.", ".constprop.", ".part.", ".isra.", ".cold"].iter().filter_map(|mark| name.find(mark)).min();
    let (stem, tail) = stem.map_or((name, ""), |end| (&name[..end], "*"));
    if let Some(path) = stem.strip_suffix('E').filter(|_| stem.starts_with("_ZN"))
        && let Some((path, _)) = path.rsplit_once("17h")
    {
        return format!("{path}17h*");
    }
    without_crate_hashes(stem) + tail
}

/// A name in Rust's newer mangling with `*` for the hash of each crate, which stands between `Cs` and the next `_`.
fn without_crate_hashes(name: &str) -> String {
    let mut parts = name.split("Cs");
    let mut lasting = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        lasting.push_str("Cs");
        match part.split_once('_') {
            Some((hash, rest)) if hash.chars().all(|letter| letter.is_ascii_alphanumeric()) => {
                lasting.push_str("*_");
                lasting.push_str(rest);
            }
            _ => lasting.push_str(part),
        }
    }
    lasting
}

#[cfg(test)]
mod tests {
    use super::{function_in, function_of, lasting, patterns};
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn a_function_is_read_where_callgrind_first_names_it() {
        assert_eq!(function_of("fn=(12) sqlite3_exec"), Some("sqlite3_exec"));
        assert_eq!(function_of("cfn=(7) resolve'2"), Some("resolve"));
        assert_eq!(function_of("cfn=(7)"), None);
        assert_eq!(function_of("calls=1 0"), None);
    }

    #[test]
    fn a_function_of_the_listing_has_a_size_and_is_code() {
        let line = |kind| format!("0000000000e0de20 00000000000000a2 {kind} main");
        assert_eq!(function_in(&line("t")), Some(("main".to_owned(), 0xa2)));
        assert_eq!(function_in(&line("d")), None);
        assert_eq!(function_in("0000000000e0de20 t without_size"), None);
    }

    #[test]
    fn what_changes_with_the_build_is_left_out() {
        assert_eq!(lasting("_ZN7refrain5store4open17h0123456789abcdefE"), "_ZN7refrain5store4open17h*");
        assert_eq!(lasting("_RNvNtCsjrHSEGnQ3l9_3std2io4read.llvm.36"), "_RNvNtCs*_3std2io4read*");
        assert_eq!(lasting("yy_reduce.constprop.0"), "yy_reduce*");
        assert_eq!(lasting("sqlite3_exec"), "sqlite3_exec");
    }

    #[test]
    fn one_instance_of_many_is_named_exactly() {
        let name = |hash: u64| format!("_ZN5alloc3vec4drop17h{hash:016x}E");
        let called = BTreeSet::from([name(1)]);
        let few = BTreeMap::from([(name(1), 100), (name(2), 100)]);
        assert_eq!(patterns(&called, &few), BTreeSet::from(["_ZN5alloc3vec4drop17h*".to_owned()]));
        let many: BTreeMap<_, _> = (1..100).map(|hash| (name(hash), 100)).collect();
        assert_eq!(patterns(&called, &many), called);
    }
}
