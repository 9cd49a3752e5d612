//! A proxy in front of a server or a pooler that cuts or holds connections at chosen messages.

use super::database::Database;
use super::wire::{Message, Opening, asks_for_ready, contains, opening};
use std::collections::HashMap;
use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Forwards connections to a port of 127.0.0.1.
///
/// Each cut and each hold is for one message: the first from any client that contains its bytes. The text of a
/// statement, and the values bound to it, are found as they are written. A connection with TLS is forwarded unread, so
/// that only [`Proxy::cut_all`] reaches it. Everything is cut when the value is dropped.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    target: u16,
    state: Mutex<State>,
    released: Condvar,
}

#[derive(Debug, Default)]
struct State {
    rules: Vec<Rule>,
    open: HashMap<u64, [TcpStream; 2]>,
    connections: u64,
    requests: u64,
    cuts: u64,
    held: usize,
    /// Counts the releases; a message is held until the number changes.
    releases: u64,
    is_closed: bool,
}

#[derive(Debug)]
struct Rule {
    needle: Vec<u8>,
    action: Action,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    CutBefore,
    CutAfter,
    Hold,
}

impl Proxy {
    /// A proxy for what listens at `port` on 127.0.0.1.
    pub fn start(port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("listen on 127.0.0.1");
        let own = listener.local_addr().expect("the address of a listener").port();
        let shared = Arc::new(Shared { target: port, state: Mutex::default(), released: Condvar::new() });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || accepting.accept(&listener));
        Self { port: own, shared }
    }

    /// Its own port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL of `database` by way of the proxy, for `postgres`.
    pub fn url(&self, database: &Database) -> String {
        database.url_at(self.port, "postgres")
    }

    /// Cuts the connection whose client sends a message with `needle`, which the server never gets.
    pub fn cut_before(&self, needle: &[u8]) {
        self.add(needle, Action::CutBefore);
    }

    /// Forwards the message with `needle`, waits until the server has answered it, and cuts the connection; the client
    /// gets nothing of the answer.
    pub fn cut_after(&self, needle: &[u8]) {
        self.add(needle, Action::CutAfter);
    }

    /// Keeps the message with `needle`, and what its client sends after it, until [`Self::release`].
    pub fn hold(&self, needle: &[u8]) {
        self.add(needle, Action::Hold);
    }

    /// Forwards what is held, also if its client is gone by now, and forgets holds that met no message.
    pub fn release(&self) {
        let mut state = self.shared.state();
        state.rules.retain(|rule| rule.action != Action::Hold);
        state.releases += 1;
        self.shared.released.notify_all();
    }

    /// Cuts every open connection.
    pub fn cut_all(&self) {
        self.shared.cut_all();
    }

    /// How many messages the clients have sent since the proxy started, those that open connections not counted.
    pub fn requests(&self) -> u64 {
        self.shared.state().requests
    }

    /// How many connections were opened since the proxy started.
    pub fn connections(&self) -> u64 {
        self.shared.state().connections
    }

    /// How many connections [`Self::cut_before`] and [`Self::cut_after`] have cut.
    pub fn cuts(&self) -> u64 {
        self.shared.state().cuts
    }

    /// How many messages are held now.
    pub fn held(&self) -> usize {
        self.shared.state().held
    }

    fn add(&self, needle: &[u8], action: Action) {
        self.shared.state().rules.push(Rule { needle: needle.to_vec(), action });
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.state().is_closed = true;
        self.release();
        self.shared.cut_all();
        // Wakes the thread that accepts; it fails only if that thread is gone.
        let _woken = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn accept(self: Arc<Self>, listener: &TcpListener) {
        for client in listener.incoming() {
            if self.state().is_closed {
                return;
            }
            let Ok(client) = client else { continue };
            let shared = Arc::clone(&self);
            thread::spawn(move || shared.serve(client));
        }
    }

    /// Forwards one connection until either side ends or it is cut.
    fn serve(self: Arc<Self>, client: TcpStream) {
        // A client whose server is gone is dropped, as a client of the server itself would be.
        let Ok(server) = TcpStream::connect(("127.0.0.1", self.target)) else { return };
        let link = Link { client, server, progress: Mutex::default() };
        let Ok(both) = link.both() else { return };
        let id = {
            let mut state = self.state();
            state.connections += 1;
            let id = state.connections;
            state.open.insert(id, both);
            id
        };
        let link = Arc::new(link);
        // Either side may break off at any time.
        let _ended = self.forward(&link);
        link.cut();
        self.state().open.remove(&id);
    }

    fn forward(self: &Arc<Self>, link: &Arc<Link>) -> io::Result<()> {
        link.client.set_nodelay(true)?;
        link.server.set_nodelay(true)?;
        let mut client = BufReader::new(&link.client);
        loop {
            let (kind, bytes) = opening(&mut client)?;
            (&link.server).write_all(&bytes)?;
            match kind {
                Opening::Encryption => {
                    let mut answer = [0];
                    (&link.server).read_exact(&mut answer)?;
                    (&link.client).write_all(&answer)?;
                    if answer != *b"N" {
                        return forward_unread(link);
                    }
                }
                Opening::Cancel => return forward_unread(link),
                Opening::Session => break,
            }
        }
        link.progress().asked = 1;
        let (shared, answers) = (Arc::clone(self), Arc::clone(link));
        thread::spawn(move || {
            let _ended = shared.answers(&answers);
            answers.cut();
        });
        self.requests(link, &mut client)
    }

    /// Forwards what the client sends.
    fn requests(&self, link: &Link, client: &mut impl Read) -> io::Result<()> {
        let mut previous = 0;
        loop {
            let message = Message::read(client)?;
            let action = self.action_for(&message);
            if action == Some(Action::CutBefore) {
                link.cut();
                self.state().cuts += 1;
                return Ok(());
            }
            if action == Some(Action::Hold) {
                self.hold_back();
            }
            {
                let mut progress = link.progress();
                // A server that reads rows for COPY skips the Sync that was sent before them.
                if previous == b'S' && matches!(message.kind(), b'd' | b'c' | b'f') {
                    progress.asked -= 1;
                }
                if action == Some(Action::CutAfter) {
                    progress.cut_at = Some(progress.asked + 1);
                }
                if asks_for_ready(message.kind()) {
                    progress.asked += 1;
                }
            }
            previous = message.kind();
            (&link.server).write_all(message.bytes())?;
        }
    }

    /// Forwards what the server sends, until the answer after which the connection is to be cut.
    fn answers(&self, link: &Link) -> io::Result<()> {
        let mut server = BufReader::new(&link.server);
        loop {
            let message = Message::read(&mut server);
            let mut progress = link.progress();
            let is_withheld = progress.cut_at.is_some_and(|number| number == progress.answered + 1);
            let is_end = message.as_ref().map_or(true, |message| message.kind() == b'Z');
            if is_withheld && is_end {
                link.cut();
                self.state().cuts += 1;
                return Ok(());
            }
            let message = message?;
            progress.answered += u64::from(message.kind() == b'Z');
            drop(progress);
            if !is_withheld {
                (&link.client).write_all(message.bytes())?;
            }
        }
    }

    /// The action for this message, whose rule is used up.
    fn action_for(&self, message: &Message) -> Option<Action> {
        let mut state = self.state();
        state.requests += 1;
        let rule = state.rules.iter().position(|rule| contains(message.bytes(), &rule.needle))?;
        let action = state.rules.remove(rule).action;
        state.held += usize::from(action == Action::Hold);
        Some(action)
    }

    fn hold_back(&self) {
        let state = self.state();
        let now = state.releases;
        let waited = self.released.wait_while(state, |state| state.releases == now);
        waited.unwrap_or_else(PoisonError::into_inner).held -= 1;
    }

    fn cut_all(&self) {
        for stream in self.state().open.values().flatten() {
            // One that is cut already is cut.
            let _cut = stream.shutdown(Shutdown::Both);
        }
    }
}

fn forward_unread(link: &Arc<Link>) -> io::Result<()> {
    let answers = Arc::clone(link);
    thread::spawn(move || {
        let _ended = io::copy(&mut &answers.server, &mut &answers.client);
        answers.cut();
    });
    io::copy(&mut &link.client, &mut &link.server).map(|_| ())
}

/// One connection: its two ends, and how far the conversation is.
#[derive(Debug)]
struct Link {
    client: TcpStream,
    server: TcpStream,
    progress: Mutex<Progress>,
}

/// Answers are counted by their ends, the messages `ReadyForQuery`; the first ends the opening of the session.
#[derive(Debug, Default)]
struct Progress {
    asked: u64,
    answered: u64,
    /// The answer that is not forwarded and at whose end the connection is cut.
    cut_at: Option<u64>,
}

impl Link {
    fn both(&self) -> io::Result<[TcpStream; 2]> {
        Ok([self.client.try_clone()?, self.server.try_clone()?])
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cut(&self) {
        for stream in [&self.client, &self.server] {
            // One that is cut already is cut.
            let _cut = stream.shutdown(Shutdown::Both);
        }
    }
}
