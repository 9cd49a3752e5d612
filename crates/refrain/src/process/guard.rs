//! The guard: when Refrain is killed without a chance to act (`kill -9`, out of memory), its command's tree must die too.
//!
//! The guard is a small shell script in a process group of its own. Its stdin is a pipe whose other end only this process holds, so the kernel
//! itself tells it of our death: the pipe ends without the word `done`. It then kills the command's process group, and by walking
//! `/proc` every process that carries the attempt's marker.
//!
//! It is started before the command and is told the marker at once, so there is no moment with a command and no guard: should we die
//! while the command is being started, the half-started command still holds its copy of the pipe until its program (and with it the marker) is in place.
//!
//! What the guard cannot reach: a process that left the group AND cleared its environment or runs as another user; one that is
//! forked in the instant of the walk is caught by the second pass, its descendants by the next run's [`super::end_by_attempt`]. A program that
//! embeds Refrain and forks without exec hands the pipe to the copy, and the guard then waits for both.

use std::env;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};

use super::leftovers::Known;

/// The low inherited descriptors are closed because a caller's `exec 9>lock` would otherwise be held a moment longer than
/// by us. A plain sh cannot close those above 9; they go with the guard, which ends with us or right after.
/// Nothing here may carry the marker in its environment: the guard must never look like a leftover.
const SCRIPT: &str = r#"
trap '' HUP INT QUIT TERM
exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
IFS= read -r attempt || exit 0
group=
while IFS= read -r line; do
  case $line in
    done) exit 0 ;;
    *) group=$line ;;
  esac
done
[ -n "$group" ] && kill -s KILL -- "-$group"
cd /proc || exit 0
if printf 'x\0' | grep -qzxF x; then
  marked() { grep -lzxF -e "$1" [0-9]*/environ; }
else
  marked() {
    for file in [0-9]*/environ; do
      tr '\0' '\n' <"$file" | grep -qxF -e "$1" && echo "$file"
    done
  }
fi
round=0
clean=0
while [ $round -lt 20 ] && [ $clean -lt 2 ]; do
  round=$((round + 1))
  clean=$((clean + 1))
  for file in $(marked "$VARIABLE=$attempt"); do
    clean=0
    kill -s KILL "${file%%/*}"
  done
  sleep 0.1 || sleep 1
done
"#;

/// A running guard.
#[derive(Debug)]
pub(super) struct Guard {
    process: Option<Child>,
    line: ChildStdin,
}

impl Guard {
    /// Starts the guard of an attempt. Returns as soon as its program is loaded; it reads its orders while the command starts.
    pub(super) fn start(attempt: &str) -> io::Result<Self> {
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", SCRIPT, "refrain-guard"])
            .env_clear()
            .env("PATH", tools())
            .env("VARIABLE", super::ATTEMPT_VARIABLE);
        command.current_dir("/").process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut process = command.spawn()?;
        let Some(mut line) = process.stdin.take() else {
            return Err(io::Error::other("the guard has no stdin"));
        };
        line.write_all(format!("{attempt}\n").as_bytes())?;
        Ok(Self { process: Some(process), line })
    }

    /// The guard's process id.
    pub(super) fn pid(&self) -> Option<i32> {
        self.process.as_ref().and_then(|process| i32::try_from(process.id()).ok())
    }

    /// Names the process group to kill. A guard that somebody ended is no reason to fail: it is the second line of defence.
    pub(super) fn watch(&mut self, group: i32) {
        drop(self.line.write_all(format!("{group}\n").as_bytes()));
    }

    /// Takes the process out, for whoever waits for it; the guard goes on guarding.
    pub(super) fn take_process(&mut self) -> Option<Child> {
        self.process.take()
    }

    /// Tells the guard that nothing is left to guard. It exits silently; if its process was not taken out, that is waited for here.
    pub(super) fn dismiss(mut self) {
        drop(self.line.write_all(b"done\n"));
        if let Some(process) = self.process.take() {
            wait_for(process);
        }
    }
}

/// Waits for a guard's end.
pub(super) fn wait_for(mut guard: Child) {
    drop(guard.wait());
    if let Ok(pid) = i32::try_from(guard.id()) {
        Known::lock().processes.remove(&pid);
    }
}

/// Where the guard's tools are: our own search path, not the command's, and the usual places behind it.
fn tools() -> OsString {
    let mut path = env::var_os("PATH").unwrap_or_default();
    path.push(":/usr/local/bin:/usr/bin:/bin");
    path
}
