//! What passes between this process and a store: every request is sent once, and every answer tells the store's clock.

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use jiff::fmt::rfc2822::DateTimeParser;
use jiff::{SignedDuration, Timestamp};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
    ReqwestConnector,
};
use reqwest::Method;
use reqwest::header::{HeaderValue, IF_MATCH, IF_NONE_MATCH};
use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How much of an error's text is read.
const LONGEST_ERROR: usize = 64 * 1024;

tokio::task_local! {
    /// What the call that runs has seen.
    static CALL: Arc<Call>;
}

/// What one call has seen on the wire, and what it adds there.
#[derive(Debug, Default)]
pub(crate) struct Call {
    last: Mutex<Option<Seen>>,
    condition: Option<Condition>,
}

/// A condition for the request that completes an upload in parts, which the client below does not know.
///
/// It is added after the request was signed: a signature for S3 has to cover the host and the `x-amz-` headers, and no
/// others (<https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html>). The client itself
/// sends the conditions of all its writes in that way.
#[derive(Clone, Debug)]
pub(crate) enum Condition {
    /// There is no object.
    Absent,
    /// The object has this entity tag.
    Tag(HeaderValue),
}

/// The end of one request.
#[derive(Clone, Debug)]
pub(crate) enum Seen {
    /// The store answered.
    Answer {
        status: u16,
        /// The code and the message of an error's XML, where there is one.
        code: String,
        message: String,
    },
    /// No connection came about, so that nothing was sent: to which host and port, and why.
    Unreachable { host: String, why: String },
    /// Something was sent, and no answer came.
    Silent,
}

/// What is known of one store.
#[derive(Debug, Default)]
pub(crate) struct Wire {
    clock: Mutex<Option<Reading>>,
    requests: AtomicU64,
}

/// A moment by a store's clock. Answers tell whole seconds and take their time, so that it is known within bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// It is not earlier than this.
    pub earliest: Timestamp,
    /// It is not later than this.
    pub latest: Timestamp,
}

/// The clock of an answer, and when it was asked and heard here, by a clock that goes on while this host sleeps.
#[derive(Clone, Copy, Debug)]
struct Reading {
    date: Timestamp,
    asked: Duration,
    heard: Duration,
}

#[derive(Debug)]
pub(crate) struct Connector(pub(crate) Arc<Wire>);

#[derive(Debug)]
struct Service {
    client: HttpClient,
    wire: Arc<Wire>,
}

impl Call {
    /// A call that completes an upload on a condition.
    pub(crate) fn on(condition: Condition) -> Self {
        Self { condition: Some(condition), ..Self::default() }
    }

    /// Adds the condition of the call around to the request that it is for: the only POST of such a call.
    fn add_condition(request: &mut HttpRequest) {
        let condition = CALL.try_with(|call| call.condition.clone()).unwrap_or_default();
        let Some(condition) = condition.filter(|_| request.method() == Method::POST) else { return };
        match condition {
            Condition::Absent => request.headers_mut().insert(IF_NONE_MATCH, HeaderValue::from_static("*")),
            Condition::Tag(tag) => request.headers_mut().insert(IF_MATCH, tag),
        };
    }

    /// Runs a future whose requests are noted here.
    pub(crate) async fn scope<T>(self: Arc<Self>, future: impl Future<Output = T>) -> T {
        CALL.scope(self, future).await
    }

    /// How the last request ended.
    pub(crate) fn last(&self) -> Option<Seen> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn saw(seen: Seen) {
        // Outside every call there is nobody to tell.
        CALL.try_with(|call| *call.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(seen))
            .unwrap_or_default();
    }
}

impl Wire {
    /// This moment by the store's clock: its last answer's date and the time that has passed here since. Nothing before
    /// the first answer.
    pub(crate) fn moment(&self) -> Option<Moment> {
        let reading = (*self.clock.lock().unwrap_or_else(PoisonError::into_inner))?;
        reading.at(since_boot())
    }

    /// How many requests were sent.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    fn learn(&self, response: &HttpResponse, asked: Duration) {
        let date = response.headers().get("date").and_then(|date| date.to_str().ok());
        let date = date.and_then(|date| DateTimeParser::new().parse_timestamp(date).ok());
        if let Some(date) = date {
            let reading = Reading { date, asked, heard: since_boot() };
            *self.clock.lock().unwrap_or_else(PoisonError::into_inner) = Some(reading);
        }
    }
}

impl Reading {
    /// The date was cut to its second, some time between the question and the answer.
    fn at(&self, now: Duration) -> Option<Moment> {
        let after = |passed: Duration| self.date.checked_add(SignedDuration::try_from(passed).ok()?).ok();
        Some(Moment {
            earliest: after(now.saturating_sub(self.heard))?,
            latest: after(now.saturating_sub(self.asked) + Duration::from_secs(1))?,
        })
    }
}

/// `CLOCK_BOOTTIME`: it goes on while the host sleeps.
fn since_boot() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = ReqwestConnector::default().connect(options)?;
        Ok(HttpClient::new(Service { client, wire: Arc::clone(&self.0) }))
    }
}

#[async_trait]
impl HttpService for Service {
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        if asks_for_credentials(&request) {
            return self.client.execute(request).await;
        }
        Call::add_condition(&mut request);
        self.wire.requests.fetch_add(1, Ordering::Relaxed);
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let host = host_of(&request);
        let asked = since_boot();
        let answered = self.client.execute(request).await;
        let response = answered.inspect_err(|error| {
            tracing::debug!(%method, %path, kind = ?error.kind(), "no answer");
            Call::saw(if error.kind() == HttpErrorKind::Connect {
                Seen::Unreachable { host: host.clone(), why: innermost(error) }
            } else {
                Seen::Silent
            });
        })?;
        self.wire.learn(&response, asked);
        let status = response.status().as_u16();
        tracing::debug!(%method, %path, status, "answered");
        if response.status().is_success() {
            Call::saw(Seen::Answer { status, code: String::new(), message: String::new() });
            return Ok(response);
        }
        let (parts, body) = response.into_parts();
        let text = read(body).await;
        let part = |tag| text_of(&text, tag).unwrap_or_default();
        Call::saw(Seen::Answer { status, code: part("Code"), message: part("Message") });
        Ok(HttpResponse::from_parts(parts, HttpResponseBody::from(Bytes::from(text))))
    }
}

/// Whether a request goes to who gives credentials, and not to the store: its answer says nothing of an object, and its
/// clock is another one.
fn asks_for_credentials(request: &HttpRequest) -> bool {
    const HOSTS: [&str; 6] = [
        "169.254.",
        "metadata.google.internal",
        "oauth2.googleapis.com",
        "sts.",
        "login.microsoftonline.",
        "api.fabric.microsoft.com",
    ];
    let host = request.uri().host().unwrap_or_default();
    HOSTS.iter().any(|start| host.starts_with(start))
}

/// The host and the port of a request, without anything that an address may hold beside them.
fn host_of(request: &HttpRequest) -> String {
    let uri = request.uri();
    let port = uri.port_u16().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}{port}", uri.host().unwrap_or_default())
}

/// What an error comes from in the end, as `connection refused`.
fn innermost(error: &HttpError) -> String {
    let mut inner: &dyn std::error::Error = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

/// The text of an error; what cannot be read of it is left out.
async fn read(body: HttpResponseBody) -> String {
    let mut stream = body.bytes_stream();
    let mut text = Vec::new();
    while let Some(Ok(chunk)) = stream.next().await {
        text.extend_from_slice(&chunk);
        if text.len() > LONGEST_ERROR {
            break;
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// What stands in the first element of this name, which holds no others.
fn text_of(xml: &str, tag: &str) -> Option<String> {
    let after = xml.split_once(&format!("<{tag}>"))?.1;
    Some(after.split_once('<')?.0.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::Reading;
    use std::time::Duration;

    #[test]
    fn a_moment_is_known_within_the_second_and_the_round_trip() {
        let date = "2013-01-01T00:00:10Z".parse().unwrap();
        let reading = Reading { date, asked: Duration::from_secs(100), heard: Duration::from_millis(100_250) };
        let moment = reading.at(Duration::from_millis(103_250)).unwrap();
        assert_eq!(moment.earliest.to_string(), "2013-01-01T00:00:13Z");
        assert_eq!(moment.latest.to_string(), "2013-01-01T00:00:14.25Z");
    }
}
