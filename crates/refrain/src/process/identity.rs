//! Which process holds something, told so that a later reader can find out whether it still lives.
//!
//! A pid alone means nothing: it is reused, after a restart or in a container with certainty. A host name alone means nothing either:
//! two machines may share it. So a process is named by boot, pid namespace, pid and start time together.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

use rustix::io::Errno;
use rustix::process::Pid;
use serde::{Deserialize, Serialize};

use super::procfs;

/// Names one process on one machine during one boot.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// `machine-id:...` from `/etc/machine-id`, else `hostname:...`.
    pub host: String,
    /// The name a person knows the host by.
    pub hostname: String,
    /// The kernel's random id of this boot.
    pub boot_id: String,
    /// Inode number of the pid namespace: the same pid in another namespace is another process.
    pub pid_namespace: u64,
    /// Process id within that namespace.
    pub pid: i32,
    /// Start of the process in clock ticks after boot.
    pub start_ticks: u64,
    /// Who started it: the user's name, or `uid N` where the host's own list of users does not know it. Records of
    /// earlier versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// What can be said about a process from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Liveness {
    /// This very process runs.
    Alive,
    /// It has ended, without doubt.
    Dead,
    /// It cannot be seen from here (another host, another container, no permission): only the lease's ttl tells.
    Unknowable,
}

impl ProcessIdentity {
    /// Names the calling process.
    ///
    /// # Errors
    ///
    /// When `/proc` is not mounted or not readable.
    pub fn of_self() -> io::Result<Self> {
        let here = Here::look()?;
        let hostname = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let host = match machine_id() {
            Some(id) => format!("machine-id:{id}"),
            None => format!("hostname:{hostname}"),
        };
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        Ok(Self {
            host,
            hostname,
            boot_id: here.boot_id,
            pid_namespace: here.pid_namespace,
            pid,
            start_ticks: procfs::own_stat()?.start_ticks,
            user: Some(user()),
        })
    }
}

impl fmt::Display for ProcessIdentity {
    /// As in `pid 4711 on etl-1, user root`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pid {} on {}", self.pid, self.hostname)?;
        self.user.as_ref().map_or(Ok(()), |user| write!(f, ", user {user}"))
    }
}

/// Says whether the named process still runs. In doubt the answer is [`Liveness::Unknowable`], never a guess.
pub fn liveness(identity: &ProcessIdentity) -> Liveness {
    Here::look().map_or(Liveness::Unknowable, |here| here.judge(identity))
}

/// Where the question is asked.
#[derive(Debug, Clone)]
struct Here {
    boot_id: String,
    pid_namespace: u64,
}

impl Here {
    fn look() -> io::Result<Self> {
        Ok(Self {
            boot_id: fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned(),
            pid_namespace: fs::metadata("/proc/self/ns/pid")?.ino(),
        })
    }

    /// A store may be shared by many hosts, and each has a boot id of its own: a holder of another boot is one of another
    /// host, as far as anybody can prove. Neither machine ids nor host names are proof; both come with cloned images. For
    /// the embedded store nothing is lost: its clock begins anew with every boot, and a lease of the boot before has ended.
    fn judge(&self, identity: &ProcessIdentity) -> Liveness {
        if !procfs::is_ours() {
            return Liveness::Unknowable;
        }
        let is_here = identity.pid_namespace == self.pid_namespace && identity.boot_id == self.boot_id;
        if !is_here || self.boot_id.is_empty() {
            return Liveness::Unknowable;
        }
        liveness_in_this_boot(identity.pid, identity.start_ticks)
    }
}

fn liveness_in_this_boot(pid: i32, start_ticks: u64) -> Liveness {
    // A record is not trusted: `from_raw` takes no negative number, and 0 would mean our own group.
    let Some(process) = Some(pid).filter(|pid| *pid > 0).and_then(Pid::from_raw) else { return Liveness::Unknowable };
    match procfs::stat(pid) {
        Ok(stat) if stat.ended || stat.start_ticks != start_ticks => Liveness::Dead,
        Ok(_) => Liveness::Alive,
        // `/proc` mounted with hidepid hides living processes of others, so absence is asked for once more.
        Err(_) => match rustix::process::test_kill_process(process) {
            Err(Errno::SRCH) => Liveness::Dead,
            _ => Liveness::Unknowable,
        },
    }
}

/// The name of the real user. Only the host's own list is read: asking a directory service could take seconds.
fn user() -> String {
    let uid = rustix::process::getuid().as_raw().to_string();
    let list = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = list.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        (number == uid && !name.is_empty()).then(|| name.to_owned())
    });
    name.unwrap_or_else(|| format!("uid {uid}"))
}

fn machine_id() -> Option<String> {
    let id = fs::read_to_string("/etc/machine-id").ok()?.trim().to_owned();
    // `uninitialized` is what systemd writes into images before their first start.
    (!id.is_empty() && id != "uninitialized").then_some(id)
}

#[cfg(test)]
#[path = "identity_tests.rs"]
mod tests;
