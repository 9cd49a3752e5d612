//! A proxy in front of an object store that does to chosen requests what networks and servers do to them.

use super::http::{Headers, Request, Response};
use std::collections::{HashMap, VecDeque};
use std::io::{self, BufReader};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Forwards requests to a port of 127.0.0.1, their headers unchanged.
///
/// Each rule is for the first request that it is meant for, unless it says otherwise; the first of several rules that
/// are meant for a request is carried out. Everything is cut when the value is dropped.
#[derive(Debug)]
pub struct HttpProxy {
    port: u16,
    shared: Arc<Shared>,
}

/// Which requests a rule is meant for: those that have everything that is said.
#[derive(Clone, Debug, Default)]
pub struct When {
    method: Option<String>,
    path: Option<String>,
    query: Option<String>,
    header: Option<(String, String)>,
    earlier: u64,
    is_each: bool,
}

/// What is done to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection is cut; the store never sees the request.
    CutBefore,
    /// The store carries the request out and answers; the client sees the connection end.
    CutAfter,
    /// The store gets half of the body, then both connections end.
    CutUpload,
    /// The client gets half of the answer's body, then its connection ends.
    CutAnswer,
    /// The client gets this status, as an error of the store; the store never sees the request.
    AnswerBefore(u16),
    /// The store carries the request out; the client gets this status, as an error of the store.
    AnswerAfter(u16),
    /// The request is kept until [`HttpProxy::release`] and is carried out then, also if its client is gone.
    HoldBefore,
    /// The store carries the request out; its answer is kept until [`HttpProxy::release`].
    HoldAfter,
    /// The store gets the request twice; the client gets the answer to the first.
    TwiceFirst,
    /// The store gets the request twice; the client gets the answer to the second.
    TwiceSecond,
    /// The connection is cut; the store gets the request when [`HttpProxy::deliver`] says so.
    Later,
    /// The request goes on without its conditions, as if the store ignored them. A store that checks signatures over
    /// them refuses it.
    StripConditions,
}

/// How entity tags look to the client. In conditions they look to the store as it made them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tags {
    /// As the store makes them.
    #[default]
    Own,
    /// Without quotes.
    Bare,
    /// Like those of uploads in parts, which are no digest: `"…-3"`.
    OfParts,
    /// Weak: `W/"…"`.
    Weak,
}

/// A request that came by, and the status that its client was told; none when the connection was cut, or while there is
/// no answer yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Its method.
    pub method: String,
    /// Its path, decoded: bucket and key.
    pub path: String,
    /// What follows the `?`, as it was sent.
    pub query: String,
    /// How many bytes its body has.
    pub body_bytes: usize,
    /// The status that its client was told.
    pub status: Option<u16>,
}

#[derive(Debug)]
struct Shared {
    target: u16,
    state: Mutex<State>,
    released: Condvar,
}

#[derive(Debug, Default)]
struct State {
    rules: Vec<(When, Fault)>,
    exchanges: Vec<Exchange>,
    /// How many came before those.
    taken: usize,
    late: VecDeque<Request>,
    open: HashMap<u64, TcpStream>,
    opened: u64,
    faults: u64,
    held: usize,
    /// Counts the releases; what is held is held until the number changes.
    releases: u64,
    /// How far the store's clock is ahead of what it says.
    ahead_s: i64,
    tags: Tags,
    is_closed: bool,
}

/// What the client gets.
enum Reply {
    Whole(Response),
    Half(Response),
    Nothing,
}

impl When {
    /// Every request.
    pub fn any() -> Self {
        Self::default()
    }

    /// Those with this method.
    pub fn method(method: &str) -> Self {
        Self { method: Some(method.to_owned()), ..Self::default() }
    }

    /// Those whose decoded path contains `text`.
    pub fn path(self, text: &str) -> Self {
        Self { path: Some(text.to_owned()), ..self }
    }

    /// Those whose query contains `text`, which is not decoded.
    pub fn query(self, text: &str) -> Self {
        Self { query: Some(text.to_owned()), ..self }
    }

    /// Those that have the header `name` and whose value of it contains `text`.
    pub fn header(self, name: &str, text: &str) -> Self {
        Self { header: Some((name.to_owned(), text.to_owned())), ..self }
    }

    /// The one of these that is the `number`th from now, counted from 1.
    pub fn nth(self, number: u64) -> Self {
        Self { earlier: number.checked_sub(1).expect("requests are counted from 1"), ..self }
    }

    /// All of these, from the first or, after [`Self::nth`], from that one on.
    pub fn each(self) -> Self {
        Self { is_each: true, ..self }
    }

    fn holds(&self, request: &Request) -> bool {
        let contains = |wanted: &Option<String>, text: &str| wanted.as_ref().is_none_or(|wanted| text.contains(wanted));
        self.method.as_ref().is_none_or(|method| *method == request.method)
            && contains(&self.path, &request.path())
            && contains(&self.query, request.query())
            && self
                .header
                .as_ref()
                .is_none_or(|(name, text)| request.headers.get(name).is_some_and(|value| value.contains(text)))
    }
}

impl HttpProxy {
    /// A proxy for what listens at `port` of 127.0.0.1, now or later.
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

    /// From now on, does `fault` to the requests that `when` means.
    pub fn on(&self, when: When, fault: Fault) {
        self.shared.state().rules.push((when, fault));
    }

    /// Forgets all rules. What is held or late stays so.
    pub fn forget_rules(&self) {
        self.shared.state().rules.clear();
    }

    /// How many faults have begun.
    pub fn faults(&self) -> u64 {
        self.shared.state().faults
    }

    /// Lets go of what is held.
    pub fn release(&self) {
        self.shared.state().releases += 1;
        self.shared.released.notify_all();
    }

    /// How many requests and answers are held now.
    pub fn held(&self) -> usize {
        self.shared.state().held
    }

    /// Sends the store what [`Fault::Later`] kept, in the order in which it came; the statuses of the answers.
    pub fn deliver(&self) -> Vec<u16> {
        let late = std::mem::take(&mut self.shared.state().late);
        let send = |request: Request| request.send(self.shared.target);
        late.into_iter().map(|request| send(request).expect("an answer to a late request").status).collect()
    }

    /// How many requests [`Fault::Later`] keeps now.
    pub fn late(&self) -> usize {
        self.shared.state().late.len()
    }

    /// All requests that came by, in the order in which they came.
    pub fn requests(&self) -> Vec<Exchange> {
        self.shared.state().exchanges.clone()
    }

    /// Forgets the requests that came by so far, and returns them.
    pub fn take_requests(&self) -> Vec<Exchange> {
        let mut state = self.shared.state();
        state.taken += state.exchanges.len();
        std::mem::take(&mut state.exchanges)
    }

    /// Makes the dates of all answers those of a clock that is ahead by `seconds`, or behind.
    pub fn shift_clock(&self, seconds: i64) {
        self.shared.state().ahead_s = seconds;
    }

    /// Makes the entity tags of all answers look otherwise.
    pub fn change_tags(&self, tags: Tags) {
        self.shared.state().tags = tags;
    }

    /// Cuts every open connection.
    pub fn cut_all(&self) {
        self.shared.cut_all();
    }
}

impl Drop for HttpProxy {
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
            thread::spawn(move || {
                // Either side may break off at any time, and the other is cut then.
                let _ended = shared.serve(&client);
                let _cut = client.shutdown(Shutdown::Both);
            });
        }
    }

    /// Carries out the requests of one client until it ends or is cut.
    fn serve(&self, client: &TcpStream) -> io::Result<()> {
        client.set_nodelay(true)?;
        let id = {
            let mut state = self.state();
            state.opened += 1;
            let id = state.opened;
            state.open.insert(id, client.try_clone()?);
            id
        };
        let ended = self.exchange(client);
        self.state().open.remove(&id);
        ended
    }

    fn exchange(&self, mut client: &TcpStream) -> io::Result<()> {
        let mut reader = BufReader::new(client.try_clone()?);
        while let Some(request) = Request::read(&mut reader)? {
            let (number, fault) = self.admit(&request);
            let reply = self.carry_out(request, fault)?;
            if let Reply::Whole(answer) | Reply::Half(answer) = &reply {
                self.note(number, answer.status);
            }
            let goes_on = match reply {
                Reply::Whole(answer) => answer.write(&mut client)?,
                Reply::Half(answer) => answer.write_torn(&mut client).map(|()| false)?,
                Reply::Nothing => false,
            };
            if !goes_on {
                break;
            }
        }
        Ok(())
    }

    /// Notes a request; its number, and what is to be done to it.
    fn admit(&self, request: &Request) -> (usize, Option<Fault>) {
        let mut state = self.state();
        state.exchanges.push(Exchange {
            method: request.method.clone(),
            path: request.path(),
            query: request.query().to_owned(),
            body_bytes: request.body.len(),
            status: None,
        });
        let number = state.taken + state.exchanges.len() - 1;
        let mut chosen = None;
        for (index, (when, _)) in state.rules.iter_mut().enumerate().filter(|(_, (when, _))| when.holds(request)) {
            if when.earlier > 0 {
                when.earlier -= 1;
            } else {
                chosen = chosen.or(Some(index));
            }
        }
        let Some(chosen) = chosen else { return (number, None) };
        state.faults += 1;
        let fault = state.rules[chosen].1;
        if !state.rules[chosen].0.is_each {
            state.rules.remove(chosen);
        }
        (number, Some(fault))
    }

    /// Notes the status of a request, unless the request has been taken.
    fn note(&self, number: usize, status: u16) {
        let mut state = self.state();
        let index = number.checked_sub(state.taken);
        if let Some(exchange) = index.and_then(|index| state.exchanges.get_mut(index)) {
            exchange.status = Some(status);
        }
    }

    fn carry_out(&self, mut request: Request, fault: Option<Fault>) -> io::Result<Reply> {
        let Some(fault) = fault else { return self.forward(&request).map(Reply::Whole) };
        Ok(match fault {
            Fault::CutBefore => Reply::Nothing,
            Fault::CutAfter => {
                self.forward(&request)?;
                Reply::Nothing
            }
            Fault::CutUpload => {
                request.send_torn(self.target)?;
                Reply::Nothing
            }
            Fault::CutAnswer => Reply::Half(self.forward(&request)?),
            Fault::AnswerBefore(status) => Reply::Whole(refusal(status)),
            Fault::AnswerAfter(status) => {
                self.forward(&request)?;
                Reply::Whole(refusal(status))
            }
            Fault::HoldBefore => {
                self.hold();
                Reply::Whole(self.forward(&request)?)
            }
            Fault::HoldAfter => {
                let answer = self.forward(&request)?;
                self.hold();
                Reply::Whole(answer)
            }
            Fault::TwiceFirst => {
                let answer = self.forward(&request)?;
                self.forward(&request)?;
                Reply::Whole(answer)
            }
            Fault::TwiceSecond => {
                self.forward(&request)?;
                Reply::Whole(self.forward(&request)?)
            }
            Fault::Later => {
                self.state().late.push_back(request);
                Reply::Nothing
            }
            Fault::StripConditions => {
                strip(&mut request.headers);
                Reply::Whole(self.forward(&request)?)
            }
        })
    }

    fn forward(&self, request: &Request) -> io::Result<Response> {
        let (ahead_s, tags) = {
            let state = self.state();
            (state.ahead_s, state.tags)
        };
        let mut request = request.clone();
        for name in ["if-match", "if-none-match"] {
            if let Some(tag) = request.headers.get(name).filter(|tag| *tag != "*").map(|tag| tags.own(tag)) {
                request.headers.set(name, tag);
            }
        }
        let mut answer = request.send(self.target)?;
        if let Some(tag) = answer.headers.get("etag").map(|tag| tags.shown(tag)) {
            answer.headers.set("etag", tag);
        }
        let date = answer.headers.get("date").and_then(|date| httpdate::parse_http_date(date).ok());
        if let Some(date) = date.filter(|_| ahead_s != 0) {
            let by = Duration::from_secs(ahead_s.unsigned_abs());
            let shifted = if ahead_s > 0 { date + by } else { date - by };
            answer.headers.set("date", httpdate::fmt_http_date(shifted));
        }
        Ok(answer)
    }

    fn hold(&self) {
        let mut state = self.state();
        if state.is_closed {
            return;
        }
        state.held += 1;
        let now = state.releases;
        let waited = self.released.wait_while(state, |state| state.releases == now);
        waited.unwrap_or_else(PoisonError::into_inner).held -= 1;
    }

    fn cut_all(&self) {
        for stream in self.state().open.values() {
            // One that is cut already is cut.
            let _cut = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Tags {
    fn shown(self, tag: &str) -> String {
        let bare = tag.trim_matches('"');
        match self {
            Self::Own => tag.to_owned(),
            Self::Bare => bare.to_owned(),
            Self::OfParts => format!("\"{bare}-3\""),
            Self::Weak => format!("W/\"{bare}\""),
        }
    }

    fn own(self, tag: &str) -> String {
        let bare = tag.trim_start_matches("W/").trim_matches('"');
        match self {
            Self::Own => tag.to_owned(),
            Self::OfParts => format!("\"{}\"", bare.trim_end_matches("-3")),
            Self::Bare | Self::Weak => format!("\"{bare}\""),
        }
    }
}

/// Removes every condition that S3, Google Cloud Storage and Azure know.
fn strip(headers: &mut Headers) {
    let prefixes = ["if-", "x-goog-if-", "x-amz-copy-source-if-", "x-amz-if-", "x-ms-if-", "x-ms-source-if-"];
    headers.retain(|name| !prefixes.iter().any(|prefix| name.starts_with(prefix)));
}

/// An error as stores answer it.
fn refusal(status: u16) -> Response {
    let code = match status {
        400 => "InvalidRequest",
        403 => "AccessDenied",
        404 => "NoSuchKey",
        409 => "ConditionalRequestConflict",
        412 => "PreconditionFailed",
        429 | 503 => "SlowDown",
        _ => "InternalError",
    };
    let body = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>{code}</Code><Message>made by a test</Message></Error>"
    );
    Response::new(status, body).with("content-type", "application/xml")
}
