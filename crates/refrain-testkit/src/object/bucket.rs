//! A bucket, and raw access to it.

use super::access::{self, ACCOUNT, ACCOUNT_KEY, KEY_ID, REGION, SECRET, TOKEN, encode, encode_key};
use super::http::{Request, Response};
use super::server::Server;
use super::xml::rows;
use std::io;

/// The dialects of the stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    S3,
    Gcs,
    Azure,
}

/// A bucket (with Azure, a container). It keeps its server alive.
///
/// Requests go to the server itself or, after [`Bucket::through`], by way of a proxy; they are the testkit's own and
/// share nothing with the code under test.
#[derive(Clone, Debug)]
pub struct Bucket {
    server: Server,
    name: String,
    port: u16,
}

impl Bucket {
    pub(super) fn create(server: &Server, name: &str) -> Self {
        let bucket = Self { server: server.clone(), name: name.to_owned(), port: server.port() };
        let query = if bucket.dialect() == Dialect::Azure { "restype=container" } else { "" };
        bucket.demand(bucket.request("PUT", None, query, b""));
        bucket
    }

    /// Its name, unique among the buckets that the test process has made.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The server it is a bucket of.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// The same bucket by way of what listens at `port` of 127.0.0.1.
    pub fn through(&self, port: u16) -> Self {
        Self { port, ..self.clone() }
    }

    /// The URL of a key, or of the prefix of keys.
    pub fn url(&self, key: &str) -> String {
        let scheme = match self.dialect() {
            Dialect::S3 => "s3",
            Dialect::Gcs => "gs",
            Dialect::Azure => "az",
        };
        format!("{scheme}://{}/{key}", self.name)
    }

    /// The variables with which programs find the store and are let in.
    pub fn environment(&self) -> Vec<(String, String)> {
        let endpoint = format!("http://127.0.0.1:{}", self.port);
        let variables = match self.dialect() {
            Dialect::S3 => vec![
                ("AWS_ENDPOINT_URL", endpoint),
                ("AWS_ACCESS_KEY_ID", KEY_ID.to_owned()),
                ("AWS_SECRET_ACCESS_KEY", SECRET.to_owned()),
                ("AWS_REGION", REGION.to_owned()),
                ("AWS_DEFAULT_REGION", REGION.to_owned()),
                ("AWS_ALLOW_HTTP", "true".to_owned()),
            ],
            Dialect::Gcs => vec![
                ("GOOGLE_BASE_URL", endpoint),
                ("GOOGLE_BEARER_TOKEN", TOKEN.to_owned()),
                ("GOOGLE_ALLOW_HTTP", "true".to_owned()),
            ],
            Dialect::Azure => vec![
                ("AZURE_STORAGE_ENDPOINT", format!("{endpoint}/{ACCOUNT}")),
                ("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT.to_owned()),
                ("AZURE_STORAGE_ACCOUNT_KEY", ACCOUNT_KEY.to_owned()),
                ("AZURE_ALLOW_HTTP", "true".to_owned()),
            ],
        };
        variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// The object's bytes; nothing when there is none.
    pub fn get(&self, key: &str) -> Option<Vec<u8>> {
        self.find("GET", key).map(|answer| answer.body)
    }

    /// A header of the object, e.g. `etag`.
    pub fn header(&self, key: &str, name: &str) -> Option<String> {
        self.find("HEAD", key)?.headers.get(name).map(str::to_owned)
    }

    /// What the object's metadata say under this name.
    pub fn metadata(&self, key: &str, name: &str) -> Option<String> {
        let prefix = match self.dialect() {
            Dialect::S3 => "x-amz-meta",
            Dialect::Gcs => "x-goog-meta",
            Dialect::Azure => "x-ms-meta",
        };
        self.header(key, &format!("{prefix}-{name}"))
    }

    /// Writes an object, whatever was there.
    pub fn put(&self, key: &str, bytes: &[u8]) {
        self.demand(self.put_request(key, bytes));
    }

    /// Writes an object if there is none; whether the server says that it did.
    pub fn create_object(&self, key: &str, bytes: &[u8]) -> bool {
        self.try_create_object(key, bytes).unwrap_or_else(|error| panic!("no answer: {error}"))
    }

    /// Like [`Self::create_object`], for a connection that may be cut.
    pub fn try_create_object(&self, key: &str, bytes: &[u8]) -> io::Result<bool> {
        let mut request = self.put_request(key, bytes);
        match self.dialect() {
            Dialect::Gcs => request.headers.set("x-goog-if-generation-match", "0"),
            Dialect::S3 | Dialect::Azure => request.headers.set("if-none-match", "*"),
        }
        let answer = self.send(request)?;
        match answer.status {
            // 409 is a collision with one that has not ended yet, or Azure's word for 412.
            409 | 412 => Ok(false),
            _ if answer.is_success() => Ok(true),
            _ => panic!("an object could not be created: {}", describe(&answer)),
        }
    }

    /// Deletes an object, if it is there.
    pub fn delete(&self, key: &str) {
        let answer = self.ask(self.request("DELETE", Some(key), "", b""));
        assert!(answer.is_success() || answer.status == 404, "{key} could not be deleted: {}", describe(&answer));
    }

    /// All keys that begin with `prefix`, in order.
    pub fn keys(&self, prefix: &str) -> Vec<String> {
        match self.dialect() {
            Dialect::Azure => self.blobs(prefix, ""),
            Dialect::S3 | Dialect::Gcs => self.objects(prefix),
        }
    }

    /// The keys and ids of the uploads in parts that were begun and neither completed nor aborted. Azure has no ids, and
    /// knows such an upload only where there is no object yet.
    pub fn uploads(&self) -> Vec<(String, String)> {
        if self.dialect() == Dialect::Azure {
            let whole = self.blobs("", "");
            let begun = self.blobs("", "&include=uncommittedblobs").into_iter().filter(|name| !whole.contains(name));
            return begun.map(|name| (name, String::new())).collect();
        }
        let answer = self.demand(self.request("GET", None, "uploads=", b""));
        rows(&answer.body, "Upload", ["Key", "UploadId"]).into_iter().map(|[key, id]| (key, id)).collect()
    }

    /// Begins an upload in parts, as somebody else might, and leaves it; its id.
    pub fn begin_upload(&self, key: &str) -> String {
        if self.dialect() == Dialect::Azure {
            self.demand(self.request("PUT", Some(key), "comp=block&blockid=MDAwMQ%3D%3D", b"x"));
            return String::new();
        }
        let answer = self.demand(self.request("POST", Some(key), "uploads=", b""));
        let [[id]] = &rows(&answer.body, "InitiateMultipartUploadResult", ["UploadId"])[..] else {
            panic!("no id of an upload: {}", describe(&answer));
        };
        id.clone()
    }

    /// Aborts an upload in parts, as a rule of the bucket does in time.
    pub fn end_upload(&self, key: &str, id: &str) {
        self.demand(self.request("DELETE", Some(key), &format!("uploadId={}", encode(id)), b""));
    }

    fn objects(&self, prefix: &str) -> Vec<String> {
        let mut keys = vec![];
        let mut more = String::new();
        loop {
            let query = format!("list-type=2&prefix={}{more}", encode(prefix));
            let answer = self.demand(self.request("GET", None, &query, b""));
            keys.extend(rows(&answer.body, "Contents", ["Key"]).into_iter().map(|[key]| key));
            match &rows(&answer.body, "ListBucketResult", ["NextContinuationToken"])[..] {
                [[token]] if !token.is_empty() => more = format!("&continuation-token={}", encode(token)),
                _ => return keys,
            }
        }
    }

    fn blobs(&self, prefix: &str, include: &str) -> Vec<String> {
        let mut names = vec![];
        let mut more = String::new();
        loop {
            let query = format!("restype=container&comp=list&prefix={}{include}{more}", encode(prefix));
            let answer = self.demand(self.request("GET", None, &query, b""));
            names.extend(rows(&answer.body, "Blob", ["Name"]).into_iter().map(|[name]| name));
            match &rows(&answer.body, "EnumerationResults", ["NextMarker"])[..] {
                [[marker]] if !marker.is_empty() => more = format!("&marker={}", encode(marker)),
                _ => return names,
            }
        }
    }

    fn dialect(&self) -> Dialect {
        self.server.dialect()
    }

    fn put_request(&self, key: &str, bytes: &[u8]) -> Request {
        let mut request = self.request("PUT", Some(key), "", bytes);
        if self.dialect() == Dialect::Azure {
            request.headers.set("x-ms-blob-type", "BlockBlob");
        }
        request
    }

    fn request(&self, method: &str, key: Option<&str>, query: &str, body: &[u8]) -> Request {
        let account = if self.dialect() == Dialect::Azure { format!("/{ACCOUNT}") } else { String::new() };
        let key = key.map(|key| format!("/{}", encode_key(key))).unwrap_or_default();
        let query = if query.is_empty() { String::new() } else { format!("?{query}") };
        Request::new(method, format!("{account}/{}{key}{query}", self.name), body)
    }

    fn send(&self, mut request: Request) -> io::Result<Response> {
        match self.dialect() {
            Dialect::S3 => access::sign_s3(&mut request, self.port),
            Dialect::Gcs => access::bear(&mut request, self.port),
            Dialect::Azure => access::sign_azure(&mut request, self.port),
        }
        request.send(self.port)
    }

    fn ask(&self, request: Request) -> Response {
        let text = format!("{} {}", request.method, request.target);
        self.send(request).unwrap_or_else(|error| panic!("{text}: no answer: {error}"))
    }

    fn demand(&self, request: Request) -> Response {
        let text = format!("{} {}", request.method, request.target);
        let answer = self.ask(request);
        assert!(answer.is_success(), "{text}: {}", describe(&answer));
        answer
    }

    fn find(&self, method: &str, key: &str) -> Option<Response> {
        // A server may break an answer off while the object is replaced under it; whoever only reads asks again.
        let ask = || self.send(self.request(method, Some(key), "", b""));
        let whole = (0..3).find_map(|_| ask().ok());
        let answer = whole.unwrap_or_else(|| self.ask(self.request(method, Some(key), "", b"")));
        if answer.status == 404 {
            return None;
        }
        assert!(answer.is_success(), "{key} could not be read: {}", describe(&answer));
        Some(answer)
    }
}

fn describe(answer: &Response) -> String {
    format!("{}\n{}", answer.status, String::from_utf8_lossy(&answer.body))
}

/// Whether the server lets a bucket and an object be written, as it does when all its parts have come up.
pub(super) fn takes_writes(dialect: Dialect, port: u16) -> bool {
    let send = |mut request: Request| {
        match dialect {
            Dialect::S3 => access::sign_s3(&mut request, port),
            Dialect::Gcs => access::bear(&mut request, port),
            Dialect::Azure => access::sign_azure(&mut request, port),
        }
        request.send(port).is_ok_and(|answer| answer.is_success() || answer.status == 409)
    };
    match dialect {
        Dialect::Azure => send(Request::new("GET", format!("/{ACCOUNT}?comp=list"), b"")),
        Dialect::S3 | Dialect::Gcs => {
            send(Request::new("PUT", "/readiness", b"")) && send(Request::new("PUT", "/readiness/object", b"written"))
        }
    }
}
