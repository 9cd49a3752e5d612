//! The process of a server, its directory and its ports.

use crate::freeze::{self, wait_for};
use crate::place::{Place, base};
use crate::port::free_port;
use crate::start::spawn;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How often a server is started anew when a port was taken.
const MOST_STARTS: usize = 20;

/// How a server is started, and how one sees that it serves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recipe {
    pub(super) name: &'static str,
    /// How many ports it listens at; the first is the one that is spoken to.
    pub(super) ports: usize,
    pub(super) command: fn(&Path, &[u16]) -> Command,
    pub(super) is_ready: fn(u16) -> bool,
}

#[derive(Debug)]
pub(super) struct Process {
    recipe: Recipe,
    place: Place,
    ports: Vec<u16>,
    child: Mutex<Option<Child>>,
}

impl Process {
    pub(super) fn start(recipe: Recipe) -> Self {
        let place = Place::fresh(&base("objects"), |_| {});
        let started = (0..MOST_STARTS).find_map(|_| {
            let ports: Vec<u16> = (0..recipe.ports).map(|_| free_port()).collect();
            launch(recipe, place.path(), &ports).map(|child| (ports, child))
        });
        let (ports, child) = started.unwrap_or_else(|| panic!("{} found no ports of its own", recipe.name));
        Self { recipe, place, ports, child: Mutex::new(Some(child)) }
    }

    pub(super) fn port(&self) -> u16 {
        self.ports[0]
    }

    pub(super) fn pid(&self) -> u32 {
        self.child().as_ref().expect("the server runs").id()
    }

    pub(super) fn kill(&self) {
        if let Some(child) = self.child().take() {
            end(child);
        }
    }

    pub(super) fn restart(&self) {
        self.kill();
        let started = (0..MOST_STARTS).find_map(|_| launch(self.recipe, self.place.path(), &self.ports));
        *self.child() = Some(started.unwrap_or_else(|| panic!("{} found its ports taken", self.recipe.name)));
    }

    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Starts the server and waits until it serves; nothing if a port was taken.
fn launch(recipe: Recipe, directory: &Path, ports: &[u16]) -> Option<Child> {
    let path = directory.join("log");
    let log = File::create(&path).expect("make a server's log");
    let mut command = (recipe.command)(directory, ports);
    command.env("HOME", directory).env("TMPDIR", directory).stdin(Stdio::null());
    command.stdout(log.try_clone().expect("share a server's log")).stderr(log);
    let mut child = spawn(command);
    let mut ended = None;
    wait_for(&format!("{} serves", recipe.name), || {
        ended = child.try_wait().expect("look at a server");
        ended.is_some() || (recipe.is_ready)(ports[0])
    });
    if ended.is_none() {
        return Some(child);
    }
    let said = fs::read(&path).expect("read a server's log");
    let said = String::from_utf8_lossy(&said);
    let is_taken = ["in use", "EADDRINUSE"].iter().any(|text| said.contains(text));
    assert!(is_taken, "{} did not start:\n{said}", recipe.name);
    None
}

/// Kills the server with all its processes and waits until they are gone.
fn end(mut child: Child) {
    // Stopped first, for none may start another meanwhile.
    let members = freeze::stop_tree(child.id());
    for &member in &members {
        let pid = i32::try_from(member).ok().and_then(Pid::from_raw).expect("a process id");
        let _sent_or_gone = kill_process(pid, Signal::KILL);
    }
    child.wait().expect("wait for a killed server");
    wait_for("all processes of a killed server are gone", || !members.iter().any(|&id| freeze::is_alive(id)));
}
