//! The few facts about processes that `/proc` holds.
//!
//! Layout: proc_pid_stat(5), proc_pid_environ(5), proc_tid_children(5).

use std::fs;
use std::io;
use std::path::PathBuf;

use super::ATTEMPT_VARIABLE;
use refrain_writers::is_for_writing;

/// One process at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) pid: i32,
    pub(super) parent: i32,
    pub(super) group: i32,
    /// Clock ticks after boot; with the pid it names one process for as long as the machine is up.
    pub(super) start_ticks: u64,
    /// Ended: only its exit status is left, nothing of it can run or write.
    pub(super) ended: bool,
    /// The short name, up to 15 bytes.
    pub(super) name: String,
}

/// Whether `/proc` shows the processes of this process's own pid namespace. In one that was made without mounting it anew
/// (`unshare --pid --fork` without `--mount-proc`) it shows those of another, where our numbers mean strangers.
pub(super) fn is_ours() -> bool {
    let own = rustix::process::getpid().as_raw_nonzero().get().to_string();
    fs::read_link("/proc/self").is_ok_and(|link| link.as_os_str() == own.as_str())
}

/// Reads the calling process, whatever its number is in `/proc`.
pub(super) fn own_stat() -> io::Result<Stat> {
    read_stat("/proc/self/stat")
}

/// Reads one process.
pub(super) fn stat(pid: i32) -> io::Result<Stat> {
    read_stat(&format!("/proc/{pid}/stat"))
}

fn read_stat(path: &str) -> io::Result<Stat> {
    let text = fs::read(path)?;
    parse_stat(&text).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "unreadable process state"))
}

/// Takes a `stat` line apart. The name may hold blanks and brackets, so the fields are counted from the LAST bracket.
pub(super) fn parse_stat(text: &[u8]) -> Option<Stat> {
    let text = String::from_utf8_lossy(text);
    let (head, tail) = text.rsplit_once(')')?;
    let (pid, name) = head.split_once('(')?;
    let mut fields = tail.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    // Field 22 of the line; the group was field 5.
    let start_ticks = fields.nth(16)?.parse().ok()?;
    Some(Stat {
        pid: pid.trim().parse().ok()?,
        parent,
        group,
        start_ticks,
        ended: matches!(state, "Z" | "X" | "x"),
        name: name.to_owned(),
    })
}

/// Every process that can be seen. Those that end during the walk are left out.
pub(super) fn all() -> io::Result<Vec<Stat>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        if let Ok(stat) = stat(pid) {
            found.push(stat);
        }
    }
    Ok(found)
}

/// The attempt that a process was started for, by the environment it was started with.
///
/// `None` as well where the environment may not be read (another user's process) or was overwritten by the process.
pub(super) fn attempt_of(pid: i32) -> Option<Vec<u8>> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    environment
        .split(|byte| *byte == 0)
        .find_map(|entry| entry.strip_prefix(ATTEMPT_VARIABLE.as_bytes())?.strip_prefix(b"="))
        .map(<[u8]>::to_vec)
}

/// This process's children, ended ones that nobody has waited for included.
///
/// `None` where the kernel does not list them (built without `CONFIG_PROC_CHILDREN`, or a sandbox). The list can miss a child only
/// while another child is being waited for; that other child is then listed instead, so an empty list is certain.
pub(super) fn own_children() -> Option<Vec<i32>> {
    let mut children = Vec::new();
    for task in fs::read_dir("/proc/self/task").ok()? {
        let list = fs::read_to_string(task.ok()?.path().join("children")).ok()?;
        children.extend(list.split_ascii_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
    }
    Some(children)
}

/// The files that a process has open for writing, as far as it may be asked (proc_pid_fd(5), proc_pid_fdinfo(5)).
pub(super) fn written_by(pid: i32) -> Vec<PathBuf> {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    let written = descriptors.flatten().filter_map(|descriptor| {
        let number = descriptor.file_name();
        let about = fs::read_to_string(format!("/proc/{pid}/fdinfo/{}", number.display())).ok()?;
        is_for_writing(&about).then(|| fs::read_link(descriptor.path()).ok())?
    });
    written.collect()
}

/// What a person would recognise the process by: its command line, shortened, else its short name.
pub(super) fn command_line(stat: &Stat) -> String {
    const LIMIT: usize = 160;
    let raw = fs::read(format!("/proc/{}/cmdline", stat.pid)).unwrap_or_default();
    let words: Vec<_> =
        raw.split(|byte| *byte == 0).filter(|word| !word.is_empty()).map(String::from_utf8_lossy).collect();
    if words.is_empty() {
        return stat.name.clone();
    }
    let line = words.join(" ").replace(char::is_control, " ");
    if line.chars().count() <= LIMIT {
        return line;
    }
    line.chars().take(LIMIT).chain("...".chars()).collect()
}
