//! Messages of HTTP/1.1, read and written whole.

use httparse::Status;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;

/// More headers than any message of an object store has.
const MOST_HEADERS: usize = 128;

/// Names and values, as they were sent.
#[derive(Clone, Debug, Default)]
pub(super) struct Headers(pub(super) Vec<(String, String)>);

impl Headers {
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(header, _)| header.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub(super) fn set(&mut self, name: &str, value: impl Into<String>) {
        self.0.retain(|(header, _)| !header.eq_ignore_ascii_case(name));
        self.0.push((name.to_owned(), value.into()));
    }

    /// Keeps the headers whose name, in lower case, is wanted.
    pub(super) fn retain(&mut self, is_wanted: impl Fn(&str) -> bool) {
        self.0.retain(|(header, _)| is_wanted(&header.to_ascii_lowercase()));
    }

    fn has(&self, name: &str, value: &str) -> bool {
        self.get(name).is_some_and(|values| values.split(',').any(|each| each.trim().eq_ignore_ascii_case(value)))
    }

    /// Sets the length of a body that is not sent in chunks.
    fn measure(&mut self, body: &[u8]) {
        if !self.has("transfer-encoding", "chunked") {
            self.set("content-length", body.len().to_string());
        }
    }

    fn write(&self, first_line: &str) -> Vec<u8> {
        let mut text = format!("{first_line}\r\n");
        for (name, value) in &self.0 {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str("\r\n");
        text.into_bytes()
    }

    /// The body as this message frames it.
    fn frame(&self, body: &[u8]) -> Vec<u8> {
        if !self.has("transfer-encoding", "chunked") {
            return body.to_vec();
        }
        let mut framed = vec![];
        if !body.is_empty() {
            framed.extend_from_slice(format!("{:x}\r\n", body.len()).as_bytes());
            framed.extend_from_slice(body);
            framed.extend_from_slice(b"\r\n");
        }
        framed.extend_from_slice(b"0\r\n\r\n");
        framed
    }
}

#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) method: String,
    /// Path and query, as they were sent.
    pub(super) target: String,
    pub(super) headers: Headers,
    pub(super) body: Vec<u8>,
}

impl Request {
    /// A request without headers but for the length of its body.
    pub(super) fn new(method: &str, target: impl Into<String>, body: &[u8]) -> Self {
        let mut request =
            Self { method: method.to_owned(), target: target.into(), headers: Headers::default(), body: body.to_vec() };
        request.headers.measure(body);
        request
    }

    /// Reads the next request of a connection; nothing when the client is done. A client that asks before it sends the
    /// body is told to go on.
    pub(super) fn read(connection: &mut BufReader<TcpStream>) -> io::Result<Option<Self>> {
        let Some(head) = read_head(connection)? else { return Ok(None) };
        let mut fields = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut parsed = httparse::Request::new(&mut fields);
        demand_whole(parsed.parse(&head))?;
        let mut headers = to_headers(parsed.headers)?;
        let (method, target) =
            (parsed.method.unwrap_or_default().to_owned(), parsed.path.unwrap_or_default().to_owned());
        if headers.has("expect", "100-continue") {
            headers.retain(|name| name != "expect");
            connection.get_ref().write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        let body = if headers.has("transfer-encoding", "chunked") {
            read_chunks(connection)?
        } else {
            read_exactly(connection, length(&headers)?.unwrap_or(0))?
        };
        Ok(Some(Self { method, target, headers, body }))
    }

    /// Its path, decoded.
    pub(super) fn path(&self) -> String {
        decode(self.target.split('?').next().unwrap_or_default())
    }

    /// What follows its `?`, as it was sent.
    pub(super) fn query(&self) -> &str {
        self.target.split_once('?').map_or("", |(_, query)| query)
    }

    fn write(&self) -> Vec<u8> {
        let mut bytes = self.headers.write(&format!("{} {} HTTP/1.1", self.method, self.target));
        bytes.extend_from_slice(&self.headers.frame(&self.body));
        bytes
    }

    /// Sends it to what listens at `port` of 127.0.0.1 and reads the whole answer.
    pub(super) fn send(&self, port: u16) -> io::Result<Response> {
        let mut connection = connect(port)?;
        connection.write_all(&self.write())?;
        Response::read(&mut BufReader::new(connection), &self.method)
    }

    /// Sends it without the second half of its body and breaks off.
    pub(super) fn send_torn(&self, port: u16) -> io::Result<()> {
        let mut connection = connect(port)?;
        let whole = self.write();
        connection.write_all(&whole[..whole.len() - self.body.len().div_ceil(2)])
    }
}

#[derive(Clone, Debug)]
pub(super) struct Response {
    pub(super) status: u16,
    reason: String,
    pub(super) headers: Headers,
    pub(super) body: Vec<u8>,
    /// Whether its body is what was sent until the connection ended.
    is_last: bool,
    /// Whether the headers speak of a body that is not sent, as they do for HEAD.
    is_bare: bool,
}

impl Response {
    /// An answer with the date and the length of its body.
    pub(super) fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        let body = body.into();
        let mut headers = Headers::default();
        headers.set("date", httpdate::fmt_http_date(std::time::SystemTime::now()));
        headers.measure(&body);
        Self { status, reason: String::new(), headers, body, is_last: false, is_bare: false }
    }

    /// The same answer with one header more.
    pub(super) fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.set(name, value);
        self
    }

    /// The same answer to HEAD.
    pub(super) fn without_body(mut self) -> Self {
        self.body.clear();
        self.is_bare = true;
        self
    }

    pub(super) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    fn read(connection: &mut BufReader<TcpStream>, method: &str) -> io::Result<Self> {
        loop {
            let head = read_head(connection)?.ok_or(ErrorKind::UnexpectedEof)?;
            let mut fields = [httparse::EMPTY_HEADER; MOST_HEADERS];
            let mut parsed = httparse::Response::new(&mut fields);
            demand_whole(parsed.parse(&head))?;
            let headers = to_headers(parsed.headers)?;
            let status = parsed.code.unwrap_or_default();
            if (100..200).contains(&status) {
                continue;
            }
            let reason = parsed.reason.unwrap_or_default().to_owned();
            let is_bare = method == "HEAD" || matches!(status, 204 | 304);
            let mut is_last = headers.has("connection", "close");
            let body = if is_bare {
                vec![]
            } else if headers.has("transfer-encoding", "chunked") {
                read_chunks(connection)?
            } else if let Some(length) = length(&headers)? {
                read_exactly(connection, length)?
            } else {
                is_last = true;
                let mut body = vec![];
                connection.read_to_end(&mut body)?;
                body
            };
            return Ok(Self { status, reason, headers, body, is_last, is_bare });
        }
    }

    /// Writes it; returns whether the connection may go on.
    pub(super) fn write(&self, connection: &mut impl Write) -> io::Result<bool> {
        connection.write_all(&self.bytes())?;
        Ok(!self.is_last)
    }

    /// Writes it without the second half of its body.
    pub(super) fn write_torn(&self, connection: &mut impl Write) -> io::Result<()> {
        let whole = self.bytes();
        connection.write_all(&whole[..whole.len() - self.body.len().div_ceil(2)])
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.headers.write(&format!("HTTP/1.1 {} {}", self.status, self.reason));
        if !self.is_bare {
            bytes.extend_from_slice(&self.headers.frame(&self.body));
        }
        bytes
    }
}

/// The bytes behind `%`; what is no UTF-8 then is replaced.
pub(super) fn decode(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}

fn connect(port: u16) -> io::Result<TcpStream> {
    let connection = TcpStream::connect(("127.0.0.1", port))?;
    connection.set_nodelay(true)?;
    Ok(connection)
}

fn invalid(what: impl Into<String>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what.into())
}

/// The lines up to the empty one; nothing at the end of the connection.
fn read_head(connection: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut head = vec![];
    loop {
        let before = head.len();
        if connection.read_until(b'\n', &mut head)? == 0 {
            return if head.is_empty() { Ok(None) } else { Err(ErrorKind::UnexpectedEof.into()) };
        }
        if matches!(&head[before..], b"\r\n" | b"\n") && before > 0 {
            return Ok(Some(head));
        }
    }
}

fn demand_whole(parsed: httparse::Result<usize>) -> io::Result<()> {
    match parsed {
        Ok(Status::Complete(_)) => Ok(()),
        Ok(Status::Partial) => Err(invalid("half a head")),
        Err(error) => Err(invalid(error.to_string())),
    }
}

fn to_headers(parsed: &[httparse::Header<'_>]) -> io::Result<Headers> {
    let text = |value: &[u8]| String::from_utf8(value.to_vec()).map_err(|error| invalid(error.to_string()));
    parsed
        .iter()
        .map(|header| Ok((header.name.to_owned(), text(header.value)?)))
        .collect::<io::Result<_>>()
        .map(Headers)
}

fn length(headers: &Headers) -> io::Result<Option<usize>> {
    let Some(length) = headers.get("content-length") else { return Ok(None) };
    length.parse().map(Some).map_err(|_| invalid(format!("`{length}` is no length")))
}

fn read_exactly(connection: &mut impl Read, length: usize) -> io::Result<Vec<u8>> {
    let mut body = vec![0; length];
    connection.read_exact(&mut body)?;
    Ok(body)
}

fn read_chunks(connection: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = vec![];
    loop {
        let mut line = String::new();
        connection.read_line(&mut line)?;
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16).map_err(|_| invalid(format!("`{size}` is no size of a chunk")))?;
        body.extend(read_exactly(connection, size)?);
        // The end of the chunk, or of the trailers, which nobody here reads.
        loop {
            let mut line = String::new();
            if connection.read_line(&mut line)? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            if line.trim_end().is_empty() {
                break;
            }
        }
        if size == 0 {
            return Ok(body);
        }
    }
}
