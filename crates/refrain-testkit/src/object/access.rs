//! What a raw request must carry to be let in.

use super::http::{Request, decode};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest, Sha256};
use std::time::SystemTime;

/// The keys of the S3 servers.
pub(super) const KEY_ID: &str = "test";
pub(super) const SECRET: &str = "testsecret";
/// Their region.
pub(super) const REGION: &str = "us-east-1";

/// What the server for Google Cloud Storage lets in.
pub(super) const TOKEN: &str = "refrain-test-token";

/// The account of Azurite and its key, which everybody knows.
///
/// Source: <https://learn.microsoft.com/azure/storage/common/storage-use-azurite>, "Well-known storage account and key".
pub(super) const ACCOUNT: &str = "devstoreaccount1";
pub(super) const ACCOUNT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// What stands for itself in a URL.
const UNRESERVED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A part of a path or of a query.
pub(super) fn encode(text: &str) -> String {
    utf8_percent_encode(text, &UNRESERVED).to_string()
}

/// A key as the end of a path.
pub(super) fn encode_key(key: &str) -> String {
    key.split('/').map(encode).collect::<Vec<_>>().join("/")
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

pub(super) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hmac(key: &[u8], text: &str) -> Vec<u8> {
    let mut hmac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length");
    hmac.update(text.as_bytes());
    hmac.finalize().into_bytes().to_vec()
}

/// Signs a request to `port` of 127.0.0.1 whose parameters are encoded as this module does it.
///
/// Source: <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html>.
pub(super) fn sign_s3(request: &mut Request, port: u16) {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string().replace(['-', ':'], "");
    let day = &now[..8];
    let content = sha256(&request.body);
    request.headers.set("host", format!("127.0.0.1:{port}"));
    request.headers.set("x-amz-content-sha256", content.clone());
    request.headers.set("x-amz-date", now.clone());

    let mut parameters: Vec<String> = request.query().split('&').filter(|text| !text.is_empty()).map(to_pair).collect();
    parameters.sort();
    let canonical = format!(
        "{}\n{}\n{}\nhost:127.0.0.1:{port}\nx-amz-content-sha256:{content}\nx-amz-date:{now}\n\n{SIGNED}\n{content}",
        request.method,
        request.target.split('?').next().unwrap_or_default(),
        parameters.join("&"),
    );
    let scope = format!("{day}/{REGION}/s3/aws4_request");
    let text = format!("AWS4-HMAC-SHA256\n{now}\n{scope}\n{}", sha256(canonical.as_bytes()));
    let key = [day, REGION, "s3", "aws4_request"];
    let key = key.iter().fold(format!("AWS4{SECRET}").into_bytes(), |key, part| hmac(&key, part));
    let signature = hex(&hmac(&key, &text));
    let authorization =
        format!("AWS4-HMAC-SHA256 Credential={KEY_ID}/{scope}, SignedHeaders={SIGNED}, Signature={signature}");
    request.headers.set("authorization", authorization);
}

const SIGNED: &str = "host;x-amz-content-sha256;x-amz-date";

fn to_pair(text: &str) -> String {
    if text.contains('=') { text.to_owned() } else { format!("{text}=") }
}

/// Lets a request in to the server for Google Cloud Storage.
pub(super) fn bear(request: &mut Request, port: u16) {
    request.headers.set("host", format!("127.0.0.1:{port}"));
    request.headers.set("authorization", format!("Bearer {TOKEN}"));
}

/// Lets a request in to Azurite by a signature in its query, which is good for everything in the account.
///
/// Source: <https://learn.microsoft.com/rest/api/storageservices/create-account-sas>, version 2019-12-12.
pub(super) fn sign_azure(request: &mut Request, port: u16) {
    const PERMISSIONS: &str = "rwdlac";
    const END: &str = "2099-01-01T00:00:00Z";
    const VERSION: &str = "2019-12-12";
    let text = format!("{ACCOUNT}\n{PERMISSIONS}\nb\nsco\n\n{END}\n\n\n{VERSION}\n");
    let key = BASE64_STANDARD.decode(ACCOUNT_KEY).expect("a key in base 64");
    let signature = encode(&BASE64_STANDARD.encode(hmac(&key, &text)));
    let glue = if request.target.contains('?') { '&' } else { '?' };
    request
        .target
        .push_str(&format!("{glue}sv={VERSION}&ss=b&srt=sco&sp={PERMISSIONS}&se={}&sig={signature}", encode(END)));
    request.headers.set("host", format!("127.0.0.1:{port}"));
    request.headers.set("x-ms-version", VERSION);
}

/// The parameters of a query, decoded.
pub(super) fn parameters(query: &str) -> Vec<(String, String)> {
    let pairs = query.split('&').filter(|text| !text.is_empty());
    pairs
        .map(|text| {
            let (name, value) = text.split_once('=').unwrap_or((text, ""));
            (decode(&name.replace('+', " ")), decode(&value.replace('+', " ")))
        })
        .collect()
}
