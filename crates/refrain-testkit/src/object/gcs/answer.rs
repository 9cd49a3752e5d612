//! Requests and their answers.

use super::failure;
use super::store::{Contents, Object, Store, Upload, etag};
use crate::object::access::{TOKEN, parameters};
use crate::object::http::{Request, Response, decode};
use crate::object::xml::{escape, rows};
use std::collections::BTreeMap;

/// All parts of an upload but the last must have as many bytes.
///
/// Source: <https://cloud.google.com/storage/docs/multipart-uploads>, 5 MiB.
const SMALLEST_PART: usize = 5 << 20;

/// How many entries a listing has unless it is asked for fewer, and at most.
const PAGE: usize = 1000;

const CONDITION: &str = "x-goog-if-generation-match";
const SOURCE: &str = "x-goog-copy-source";

type Query = BTreeMap<String, String>;

/// Carries a request out.
pub(super) fn answer(store: &mut Store, request: &Request) -> Response {
    let carried_out = carry_out(store, request);
    carried_out.unwrap_or_else(|refusal| refusal)
}

fn carry_out(store: &mut Store, request: &Request) -> Result<Response, Response> {
    if request.headers.get("authorization") != Some(&format!("Bearer {TOKEN}")) {
        return Err(failure(401, "AuthenticationRequired", "the request bears no token, or another"));
    }
    let path = request.target.split('?').next().unwrap_or_default().trim_start_matches('/');
    let (name, key) = path.split_once('/').map_or((path, None), |(name, key)| (name, Some(decode(key))));
    let name = decode(name);
    let query: Query = parameters(request.query()).into_iter().collect();
    let names: Vec<&str> = query.keys().map(String::as_str).collect();
    check_headers(request)?;

    if (request.method.as_str(), &key, &names[..]) == ("PUT", &None, &[]) {
        if store.buckets.contains_key(&name) {
            return Err(failure(409, "BucketAlreadyOwnedByYou", "there is such a bucket"));
        }
        store.buckets.insert(name, Contents::default());
        return Ok(Response::new(200, ""));
    }
    if !store.buckets.contains_key(&name) {
        return Err(failure(404, "NoSuchBucket", "The specified bucket does not exist."));
    }
    let mut place = Place { store, name };
    let Some(key) = key else {
        return match (request.method.as_str(), &names[..]) {
            ("GET", ["uploads"]) => Ok(place.list_uploads()),
            ("GET", _) if query.get("list-type").is_some_and(|kind| kind == "2") => place.list(request, &query),
            _ => Err(unknown(request)),
        };
    };
    match (request.method.as_str(), &names[..]) {
        ("PUT", []) if request.headers.get(SOURCE).is_some() => place.copy(request, &key),
        ("PUT", []) => place.put(request, &key),
        ("PUT", ["partNumber", "uploadId"]) => place.put_part(request, &key, &query),
        ("POST", ["uploads"]) => Ok(place.begin(request, &key)),
        ("POST", ["uploadId"]) => place.complete(request, &key, &query["uploadId"]),
        ("DELETE", ["uploadId"]) => place.abort(&key, &query["uploadId"]),
        ("DELETE", []) => place.delete(request, &key),
        ("GET" | "HEAD", [] | ["generation"]) => place.read(request, &key, query.get("generation")),
        _ => Err(unknown(request)),
    }
}

/// A request that the server does not know.
fn unknown(request: &Request) -> Response {
    let text = format!("{} {} {:?}", request.method, request.target, request.headers);
    #[allow(clippy::print_stderr, reason = "whoever reads the test's output must see what was not known")]
    {
        eprintln!("the server for Google Cloud Storage does not know: {text}");
    }
    failure(501, "NotImplemented", &text)
}

/// Conditions that would be passed over must not be: whoever sends them relies on them.
fn check_headers(request: &Request) -> Result<(), Response> {
    let is_read = matches!(request.method.as_str(), "GET" | "HEAD");
    let is_conditional = matches!(request.method.as_str(), "PUT" | "DELETE") && request.query().is_empty();
    let is_known = |name: &str| match name {
        CONDITION => is_conditional,
        SOURCE => request.method == "PUT",
        "x-goog-storage-class" => true,
        "if-match" | "if-none-match" | "if-modified-since" | "if-unmodified-since" | "range" => is_read,
        _ => name.starts_with("x-goog-meta-") || !(name.starts_with("x-") || name.starts_with("if-")),
    };
    if request.headers.0.iter().all(|(name, _)| is_known(&name.to_ascii_lowercase())) {
        Ok(())
    } else {
        Err(unknown(request))
    }
}

/// One bucket, which there is.
struct Place<'a> {
    store: &'a mut Store,
    name: String,
}

impl Place<'_> {
    fn contents(&mut self) -> &mut Contents {
        self.store.buckets.get_mut(&self.name).expect("a bucket that was looked up")
    }

    fn find(&mut self, key: &str) -> Result<Object, Response> {
        let found = self.contents().objects.get(key).cloned();
        found.ok_or_else(|| failure(404, "NoSuchKey", "The specified key does not exist."))
    }

    /// Whether the object is of the generation that the request demands; 0 is that of an object which is not there.
    fn check(&mut self, request: &Request, key: &str) -> Result<(), Response> {
        let Some(wanted) = request.headers.get(CONDITION) else { return Ok(()) };
        let wanted: u64 = wanted.parse().map_err(|_| failure(400, "InvalidArgument", "no number of a generation"))?;
        let found = self.contents().objects.get(key).map_or(0, |object| object.generation);
        if found == wanted {
            return Ok(());
        }
        let message = "At least one of the pre-conditions you specified did not hold.";
        Err(failure(412, "PreconditionFailed", message))
    }

    fn store(&mut self, key: &str, bytes: Vec<u8>, attributes: Vec<(String, String)>) -> Object {
        let object = self.store.object(bytes, attributes);
        self.contents().objects.insert(key.to_owned(), object.clone());
        object
    }

    fn put(&mut self, request: &Request, key: &str) -> Result<Response, Response> {
        if request.headers.get("content-length").is_none() {
            return Err(failure(411, "MissingContentLength", "You must provide the Content-Length HTTP header."));
        }
        self.check(request, key)?;
        let object = self.store(key, request.body.clone(), attributes(request));
        Ok(identified(Response::new(200, ""), &object))
    }

    fn copy(&mut self, request: &Request, key: &str) -> Result<Response, Response> {
        self.check(request, key)?;
        let source = decode(request.headers.get(SOURCE).unwrap_or_default());
        let (bucket, from) = source.trim_start_matches('/').split_once('/').unwrap_or_default();
        if bucket != self.name {
            return Err(unknown(request));
        }
        let found = self.find(from)?;
        let object = self.store(key, found.bytes.to_vec(), found.attributes);
        let body = format!("<CopyObjectResult><ETag>{}</ETag></CopyObjectResult>", escape(&object.etag));
        Ok(identified(xml(&body), &object))
    }

    fn delete(&mut self, request: &Request, key: &str) -> Result<Response, Response> {
        self.check(request, key)?;
        self.find(key)?;
        self.contents().objects.remove(key);
        Ok(Response::new(204, ""))
    }

    fn read(&mut self, request: &Request, key: &str, generation: Option<&String>) -> Result<Response, Response> {
        let object = self.find(key)?;
        if generation.is_some_and(|wanted| *wanted != object.generation.to_string()) {
            return Err(failure(404, "NoSuchKey", "there is another generation of the object"));
        }
        check_reader(request, &object)?;
        let size = object.bytes.len();
        let mut answer = match request.headers.get("range") {
            None => Response::new(200, object.bytes.to_vec()),
            Some(range) => {
                let refused = || failure(416, "InvalidRange", "The requested range cannot be satisfied.");
                let (start, end) = parse_range(range, size).ok_or_else(refused)?;
                let part = Response::new(206, object.bytes[start..end].to_vec());
                part.with("content-range", format!("bytes {start}-{}/{size}", end - 1))
            }
        };
        for (name, value) in &object.attributes {
            answer = answer.with(name, value);
        }
        Ok(identified(answer, &object).with("last-modified", httpdate::fmt_http_date(object.modified)))
    }

    fn list(&mut self, request: &Request, query: &Query) -> Result<Response, Response> {
        let known = ["list-type", "prefix", "delimiter", "continuation-token", "start-after", "max-keys"];
        if query.keys().any(|name| !known.contains(&name.as_str())) {
            return Err(unknown(request));
        }
        let text = |name: &str| query.get(name).map_or("", String::as_str);
        let most = query.get("max-keys").map_or(Ok(PAGE), |most| most.parse()).unwrap_or(PAGE).min(PAGE);
        let after = text("start-after").max(text("continuation-token"));
        let contents = self.contents();
        let page = contents.list(text("prefix"), text("delimiter"), after, most);
        let mut body = String::from("<ListBucketResult>");
        for key in &page.keys {
            let object = &contents.objects[key];
            body.push_str(&format!(
                "<Contents><Key>{}</Key><Generation>{}</Generation><LastModified>{}</LastModified><ETag>{}</ETag><Size>{}</Size></Contents>",
                escape(key),
                object.generation,
                humantime::format_rfc3339_millis(object.modified),
                escape(&object.etag),
                object.bytes.len()
            ));
        }
        for prefix in &page.prefixes {
            body.push_str(&format!("<CommonPrefixes><Prefix>{}</Prefix></CommonPrefixes>", escape(prefix)));
        }
        body.push_str(&format!("<IsTruncated>{}</IsTruncated>", page.last.is_some()));
        if let Some(last) = &page.last {
            body.push_str(&format!("<NextContinuationToken>{}</NextContinuationToken>", escape(last)));
        }
        body.push_str("</ListBucketResult>");
        Ok(xml(&body))
    }

    fn begin(&mut self, request: &Request, key: &str) -> Response {
        let id = format!("upload-{}", self.store.next());
        let upload = Upload { key: key.to_owned(), attributes: attributes(request), parts: BTreeMap::new() };
        self.contents().uploads.insert(id.clone(), upload);
        xml(&format!("<InitiateMultipartUploadResult><UploadId>{id}</UploadId></InitiateMultipartUploadResult>"))
    }

    /// The upload of this id, if it is for this key.
    fn upload(&mut self, key: &str, id: &str) -> Result<&mut Upload, Response> {
        let upload = self.contents().uploads.get_mut(id).filter(|upload| upload.key == key);
        upload.ok_or_else(|| failure(404, "NoSuchUpload", "The requested upload was not found."))
    }

    fn put_part(&mut self, request: &Request, key: &str, query: &Query) -> Result<Response, Response> {
        let upload = self.upload(key, &query["uploadId"])?;
        let number = query["partNumber"].parse().ok().filter(|number| (1..=10_000).contains(number));
        let number = number.ok_or_else(|| failure(400, "InvalidArgument", "no number of a part"))?;
        upload.parts.insert(number, request.body.clone());
        Ok(Response::new(200, "").with("etag", etag(&request.body)))
    }

    fn complete(&mut self, request: &Request, key: &str, id: &str) -> Result<Response, Response> {
        let upload = self.upload(key, id)?;
        let named = rows(&request.body, "Part", ["PartNumber", "ETag"]);
        let mut bytes: Vec<u8> = vec![];
        let mut before = 0;
        for (index, [number, tag]) in named.iter().enumerate() {
            let invalid = || failure(400, "InvalidPart", &format!("part {number} was not uploaded as {tag}"));
            let number: u32 = number.parse().map_err(|_| invalid())?;
            let part = upload.parts.get(&number).filter(|part| etag(part) == *tag).ok_or_else(invalid)?;
            if number <= before {
                return Err(failure(400, "InvalidPartOrder", "The list of parts was not in ascending order."));
            }
            if part.len() < SMALLEST_PART && index + 1 < named.len() {
                return Err(failure(400, "EntityTooSmall", "a part that is not the last has less than 5 MiB"));
            }
            bytes.extend_from_slice(part);
            before = number;
        }
        if named.is_empty() {
            return Err(failure(400, "MalformedCompleteMultipartUploadRequest", "no parts"));
        }
        let attributes = std::mem::take(&mut upload.attributes);
        self.contents().uploads.remove(id);
        let object = self.store(key, bytes, attributes);
        let tag = escape(&object.etag);
        let body = format!("<CompleteMultipartUploadResult><ETag>{tag}</ETag></CompleteMultipartUploadResult>");
        Ok(identified(xml(&body), &object))
    }

    fn abort(&mut self, key: &str, id: &str) -> Result<Response, Response> {
        self.upload(key, id)?;
        self.contents().uploads.remove(id);
        Ok(Response::new(204, ""))
    }

    fn list_uploads(&mut self) -> Response {
        let upload = |(id, upload): (&String, &Upload)| {
            format!("<Upload><Key>{}</Key><UploadId>{id}</UploadId></Upload>", escape(&upload.key))
        };
        let uploads: String = self.contents().uploads.iter().map(upload).collect();
        xml(&format!("<ListMultipartUploadsResult>{uploads}</ListMultipartUploadsResult>"))
    }
}

/// The conditions of GET and HEAD.
fn check_reader(request: &Request, object: &Object) -> Result<(), Response> {
    let has = |tags: &str| tags.split(',').any(|tag| matches!(tag.trim(), "*") || tag.trim() == object.etag);
    let date = |name: &str| request.headers.get(name).and_then(|text| httpdate::parse_http_date(text).ok());
    let changed_after = |date| object.modified > date + std::time::Duration::from_secs(1);
    let fails = request.headers.get("if-match").is_some_and(|tags| !has(tags))
        || date("if-unmodified-since").is_some_and(changed_after);
    if fails {
        return Err(failure(412, "PreconditionFailed", "the object is another"));
    }
    let is_known = request.headers.get("if-none-match").is_some_and(has)
        || date("if-modified-since").is_some_and(|date| !changed_after(date));
    if is_known { Err(Response::new(304, "").without_body()) } else { Ok(()) }
}

/// Where a range begins and ends, the end not included.
fn parse_range(range: &str, size: usize) -> Option<(usize, usize)> {
    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    let (start, end) = match (first, last) {
        ("", count) => (size.saturating_sub(count.parse().ok()?), size),
        (first, "") => (first.parse().ok()?, size),
        (first, last) => (first.parse().ok()?, last.parse::<usize>().ok()?.saturating_add(1).min(size)),
    };
    (start < end).then_some((start, end))
}

/// What the writer says of an object, as its readers are told.
fn attributes(request: &Request) -> Vec<(String, String)> {
    let kept = |name: &str| {
        name.starts_with("x-goog-meta-")
            || matches!(name, "content-type" | "content-encoding" | "content-language" | "content-disposition")
            || matches!(name, "cache-control" | "x-goog-storage-class")
    };
    let headers = request.headers.0.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone()));
    headers.filter(|(name, _)| kept(name)).collect()
}

fn identified(answer: Response, object: &Object) -> Response {
    answer.with("etag", &object.etag).with("x-goog-generation", object.generation.to_string())
}

fn xml(body: &str) -> Response {
    Response::new(200, format!("<?xml version='1.0' encoding='UTF-8'?>{body}"))
        .with("content-type", "application/xml; charset=UTF-8")
}
