//! A strict server for Google Cloud Storage: exactly the requests that `object_store` sends, and those of the testkit.
//!
//! There is no emulator of the XML API, which `object_store` speaks. What is asked here and is not known is answered with
//! 501 and printed: a test that relies on it must not pass.
//!
//! Source: <https://cloud.google.com/storage/docs/xml-api/reference-methods>.

mod answer;
mod store;

use super::http::{Request, Response};
use crate::freeze::wait_for_some;
use crate::port::free_port;
use std::collections::HashMap;
use std::io::{self, BufReader};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use store::Store;

/// The server. Its objects stay when it is killed.
#[derive(Debug)]
pub(super) struct Stub {
    port: u16,
    store: Arc<Mutex<Store>>,
    running: Mutex<Option<Running>>,
}

/// One life of it.
#[derive(Debug)]
struct Running {
    connections: Arc<Mutex<Connections>>,
    accepting: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Connections {
    open: HashMap<u64, TcpStream>,
    opened: u64,
    is_closed: bool,
}

impl Stub {
    pub(super) fn start() -> Self {
        let (port, listener) = wait_for_some("a port can be listened at", || {
            let port = free_port();
            TcpListener::bind(("127.0.0.1", port)).ok().map(|listener| (port, listener))
        });
        let stub = Self { port, store: Arc::default(), running: Mutex::default() };
        *locked(&stub.running) = Some(stub.run(listener));
        stub
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Breaks off all connections. A request that was carried out and not answered yet stays carried out.
    pub(super) fn kill(&self) {
        let Some(running) = locked(&self.running).take() else { return };
        {
            let mut connections = locked(&running.connections);
            connections.is_closed = true;
            for connection in connections.open.values() {
                // One that its client has ended has ended.
                let _ended = connection.shutdown(Shutdown::Both);
            }
        }
        // Wakes the thread that accepts; it fails only if that thread is gone.
        let _woken = TcpStream::connect(("127.0.0.1", self.port));
        running.accepting.join().expect("a thread that only accepts");
    }

    pub(super) fn restart(&self) {
        self.kill();
        let listener =
            wait_for_some("the port can be listened at again", || TcpListener::bind(("127.0.0.1", self.port)).ok());
        *locked(&self.running) = Some(self.run(listener));
    }

    fn run(&self, listener: TcpListener) -> Running {
        let connections: Arc<Mutex<Connections>> = Arc::default();
        let (known, store) = (Arc::clone(&connections), Arc::clone(&self.store));
        let accepting = thread::spawn(move || {
            for client in listener.incoming() {
                let mut connections = locked(&known);
                if connections.is_closed {
                    return;
                }
                let Ok(client) = client else { continue };
                let Ok(handle) = client.try_clone() else { continue };
                connections.opened += 1;
                let id = connections.opened;
                connections.open.insert(id, handle);
                drop(connections);
                let (known, store) = (Arc::clone(&known), Arc::clone(&store));
                thread::spawn(move || {
                    // Clients may break off at any time.
                    let _ended = serve(client, &store, &known);
                    locked(&known).open.remove(&id);
                });
            }
        });
        Running { connections, accepting }
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.kill();
    }
}

fn serve(client: TcpStream, store: &Mutex<Store>, known: &Mutex<Connections>) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut writer = client.try_clone()?;
    let mut reader = BufReader::new(client);
    while let Some(request) = Request::read(&mut reader)? {
        let answer = {
            let mut store = locked(store);
            if locked(known).is_closed {
                return Ok(());
            }
            answer::answer(&mut store, &request)
        };
        let answer = if request.method == "HEAD" { answer.without_body() } else { answer };
        if !answer.write(&mut writer)? {
            break;
        }
    }
    Ok(())
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An answer that reports an error, as the XML API does.
fn failure(status: u16, code: &str, message: &str) -> Response {
    let body = format!(
        "<?xml version='1.0' encoding='UTF-8'?><Error><Code>{code}</Code><Message>{}</Message></Error>",
        super::xml::escape(message)
    );
    Response::new(status, body).with("content-type", "application/xml; charset=UTF-8")
}
