//! From strace's lines to calls.

use super::Call;
use std::collections::BTreeMap;

/// One line's call before it is known whose it is.
struct Line {
    thread: u32,
    name: String,
    args: String,
    result: String,
}

/// Returns the first process of the trace and all its finished calls.
pub(super) fn parse(text: &str) -> (u32, Vec<Call>) {
    let lines = join_halves(text);
    let first = text.split_ascii_whitespace().next().and_then(|word| word.parse().ok());
    let first = first.unwrap_or_else(|| panic!("strace recorded nothing:\n{text}"));

    // Who was made by whom, before any call is looked at: a child's first lines may precede its maker's return.
    let mut leaders: BTreeMap<u32, u32> = BTreeMap::new();
    let mut parents: BTreeMap<u32, u32> = BTreeMap::new();
    for line in lines.iter().filter(|line| is_birth(&line.name)) {
        if let Ok(born) = line.result.parse() {
            let kinship = if line.args.contains("CLONE_THREAD") { &mut leaders } else { &mut parents };
            kinship.insert(born, line.thread);
        }
    }
    let leader = |thread: u32| {
        let mut leader = thread;
        while let Some(&above) = leaders.get(&leader) {
            leader = above;
        }
        leader
    };

    let mut programs: BTreeMap<u32, String> = BTreeMap::new();
    let mut calls = vec![];
    for line in lines {
        let pid = leader(line.thread);
        if line.name == "execve" && line.result == "0" {
            programs.insert(pid, base_name(&line.args));
        }
        let mut ancestor = pid;
        while !programs.contains_key(&ancestor)
            && let Some(&parent) = parents.get(&ancestor)
        {
            ancestor = leader(parent);
        }
        let program = programs.get(&ancestor).cloned().unwrap_or_default();
        let Line { thread, name, args, result } = line;
        calls.push(Call { pid, thread, program, name, args, result });
    }
    (first, calls)
}

/// Joins `<unfinished ...>` with `<... resumed>` and splits each call; signals and exits are left out.
fn join_halves(text: &str) -> Vec<Line> {
    let mut begun: BTreeMap<u32, String> = BTreeMap::new();
    let mut lines = vec![];
    for line in text.lines() {
        let Some((thread, rest)) = line.split_once(' ') else { continue };
        let Ok(thread) = thread.parse() else { continue };
        let rest = rest.trim_start();
        let whole = if let Some(start) = rest.strip_suffix("<unfinished ...>") {
            begun.insert(thread, start.trim_end().to_owned());
            continue;
        } else if let Some(end) = rest.strip_prefix("<... ") {
            let end = end.split_once("resumed>").map_or("", |(_, end)| end);
            let start = begun.remove(&thread).unwrap_or_default();
            format!("{start}{end}")
        } else {
            rest.to_owned()
        };
        lines.extend(split(thread, &whole));
    }
    // Calls that never returned, because the process died inside.
    for (thread, start) in begun {
        lines.extend(split(thread, &format!("{start}) = ?")));
    }
    lines
}

/// Splits `name(args) = result`.
fn split(thread: u32, call: &str) -> Option<Line> {
    let (name, rest) = call.split_once('(')?;
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let (args, result) = rest.rsplit_once(" = ").filter(|_| is_name)?;
    let args = args.trim_end().strip_suffix(')').unwrap_or(args);
    Some(Line { thread, name: name.to_owned(), args: args.to_owned(), result: result.trim().to_owned() })
}

fn is_birth(name: &str) -> bool {
    matches!(name, "clone" | "clone3" | "fork" | "vfork")
}

/// The base name of the program in the arguments of `execve`.
fn base_name(args: &str) -> String {
    let path = args.split('"').nth(1).unwrap_or_default();
    path.rsplit('/').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn calls_of_threads_belong_to_their_process_and_halves_are_joined() {
        let text = "\
10  execve(\"/usr/bin/tool\", [\"tool\"], 0x7f /* 3 vars */) = 0
10  clone3({flags=CLONE_VM|CLONE_THREAD, stack=0x7f} => {parent_tid=[11]}, 88) = 11
11  fsync(3</tmp/a = b> <unfinished ...>
10  vfork( <unfinished ...>
12  rename(\"x\", \"y\") = -1 ENOENT (No such file or directory)
10  <... vfork resumed>) = 12
11  <... fsync resumed>) = 0
12  execve(\"/usr/bin/mv\", [\"mv\", \"x\", \"y\"], 0x55 /* 3 vars */) = 0
12  rename(\"x\", \"y\" <unfinished ...>
12  +++ killed by SIGKILL +++
10  --- SIGCHLD {si_signo=SIGCHLD} ---
10  +++ exited with 0 +++
";
        let (first, calls) = parse(text);
        assert_eq!(first, 10);
        let calls: Vec<_> = calls
            .iter()
            .filter(|call| !call.name.starts_with("execve"))
            .map(|call| (call.pid, call.thread, call.program.as_str(), call.name.as_str(), call.result.as_str()))
            .collect();
        assert_eq!(
            calls,
            [
                (10, 10, "tool", "clone3", "11"),
                (12, 12, "tool", "rename", "-1 ENOENT (No such file or directory)"),
                (10, 10, "tool", "vfork", "12"),
                (10, 11, "tool", "fsync", "0"),
                (12, 12, "mv", "rename", "?"),
            ]
        );
    }

    #[test]
    fn an_equals_sign_in_a_path_stays_in_the_arguments() {
        let (_, calls) = parse("7  fsync(3</tmp/dt = 1>)        = 0\n");
        assert_eq!(calls[0].args, "3</tmp/dt = 1>");
        assert_eq!(calls[0].result, "0");
    }
}
