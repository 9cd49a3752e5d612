//! The object stores as `object_store` sees them: the variables of a bucket lead to it, and the testkit's own server for
//! Google Cloud Storage answers everything that the client asks.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

use bytes::Bytes;
use futures_util::TryStreamExt;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, CopyMode, CopyOptions, Error, GetOptions, ObjectStore, ObjectStoreExt, PutMode, PutOptions,
    UpdateVersion,
};
use refrain_testkit::object::{Bucket, Kind, Server};

trait Client: ObjectStore + MultipartStore {}
impl<T: ObjectStore + MultipartStore> Client for T {}

fn client(bucket: &Bucket) -> Box<dyn Client> {
    // Another test of this process may have done so.
    drop(rustls::crypto::ring::default_provider().install_default());
    let variables = bucket.environment().into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value));
    macro_rules! build {
        ($builder:expr) => {
            Box::new(
                variables
                    .fold($builder, |builder, (name, value)| builder.with_config(name.parse().unwrap(), value))
                    .build()
                    .unwrap(),
            )
        };
    }
    match bucket.server().kind() {
        Kind::MiniStack | Kind::SeaweedFs => build!(AmazonS3Builder::new().with_bucket_name(bucket.name())),
        Kind::Gcs => build!(GoogleCloudStorageBuilder::new().with_bucket_name(bucket.name())),
        Kind::Azurite => build!(MicrosoftAzureBuilder::new().with_container_name(bucket.name())),
    }
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn for_each_kind(test: &impl AsyncFn(Kind, &Bucket, &dyn Client)) {
    for kind in Kind::ALL {
        let bucket = Server::shared(kind).bucket();
        let client = client(&bucket);
        run(test(kind, &bucket, &*client));
    }
}

#[test]
fn conditional_writes_are_kept_apart_by_version() {
    for_each_kind(&async |kind, bucket, client| {
        let key = Path::from("head/a b.json");
        let put = async |mode: PutMode, bytes: &'static str| client.put_opts(&key, bytes.into(), mode.into()).await;
        let first = put(PutMode::Create, "1").await.unwrap();
        assert!(matches!(put(PutMode::Create, "x").await, Err(Error::AlreadyExists { .. })), "{kind}");
        let first = UpdateVersion::from(first);
        let second = put(PutMode::Update(first.clone()), "2").await.unwrap();
        let stale = put(PutMode::Update(first), "x").await;
        assert!(matches!(stale, Err(Error::Precondition { .. })), "{kind}: {stale:?}");
        put(PutMode::Update(second.into()), "3").await.unwrap();
        assert_eq!(bucket.get("head/a b.json").as_deref(), Some(&b"3"[..]), "{kind}");
    });
}

#[test]
fn objects_are_read_whole_in_part_and_by_their_head() {
    for_each_kind(&async |kind, bucket, client| {
        let key = Path::from("data/1.csv");
        let mut attributes = Attributes::new();
        attributes.insert(Attribute::Metadata("run".into()), "r1".into());
        let options = PutOptions { attributes, ..PutOptions::default() };
        client.put_opts(&key, "0123456789".into(), options).await.unwrap();
        assert_eq!(bucket.metadata("data/1.csv", "run").as_deref(), Some("r1"), "{kind}");
        let whole = client.get(&key).await.unwrap();
        assert_eq!(whole.attributes.get(&Attribute::Metadata("run".into())).unwrap().as_ref(), "r1", "{kind}");
        assert_eq!(whole.bytes().await.unwrap(), Bytes::from("0123456789"), "{kind}");
        assert_eq!(client.get_range(&key, 3..5).await.unwrap(), Bytes::from("34"), "{kind}");
        let head = client.head(&key).await.unwrap();
        assert_eq!((head.size, head.location), (10, key.clone()), "{kind}");
        let known = GetOptions { if_none_match: head.e_tag.clone(), ..GetOptions::default() };
        assert!(matches!(client.get_opts(&key, known).await, Err(Error::NotModified { .. })), "{kind}");
        let same = GetOptions { if_match: head.e_tag, ..GetOptions::default() };
        client.get_opts(&key, same).await.unwrap();
        let other = GetOptions { if_match: Some("\"other\"".to_owned()), ..GetOptions::default() };
        assert!(matches!(client.get_opts(&key, other).await, Err(Error::Precondition { .. })), "{kind}");
        client.delete(&key).await.unwrap();
        assert!(matches!(client.head(&key).await, Err(Error::NotFound { .. })), "{kind}");
    });
}

#[test]
fn listings_have_prefixes_and_pages() {
    for_each_kind(&async |kind, bucket, client| {
        let keys = ["a/1", "a/2", "a/b/3", "a/c&d/4", "e"];
        for key in keys {
            bucket.put(key, b"x");
        }
        let list = async |prefix: &str| {
            let found: Vec<_> = client.list(Some(&Path::from(prefix))).try_collect().await.unwrap();
            found.into_iter().map(|meta| meta.location.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(list("a").await, keys[..4], "{kind}");
        assert!(list("nothing").await.is_empty(), "{kind}");
        let level = client.list_with_delimiter(Some(&Path::from("a"))).await.unwrap();
        let objects: Vec<_> = level.objects.iter().map(|meta| meta.location.as_ref()).collect();
        assert_eq!(objects, ["a/1", "a/2"], "{kind}");
        assert_eq!(level.common_prefixes, ["a/b", "a/c&d"].map(|prefix| Path::parse(prefix).unwrap()), "{kind}");
        let after: Vec<_> = client.list_with_offset(None, &Path::from("a/2")).try_collect().await.unwrap();
        assert_eq!(after.len(), 3, "{kind}");
    });
}

#[test]
fn uploads_in_parts_become_objects_when_they_are_completed() {
    for_each_kind(&async |kind, bucket, client| {
        let key = Path::from("data/large");
        let id = client.create_multipart(&key).await.unwrap();
        let first = client.put_part(&key, &id, 0, vec![b'x'; 5 << 20].into()).await.unwrap();
        let second = client.put_part(&key, &id, 1, "end".into()).await.unwrap();
        assert_eq!(bucket.get("data/large"), None, "{kind}");
        client.complete_multipart(&key, &id, vec![first, second]).await.unwrap();
        assert_eq!(bucket.get("data/large").unwrap().len(), (5 << 20) + 3, "{kind}");
        assert!(bucket.uploads().is_empty(), "{kind}");

        let id = client.create_multipart(&key).await.unwrap();
        client.put_part(&key, &id, 0, "x".into()).await.unwrap();
        client.abort_multipart(&key, &id).await.unwrap();
        assert!(bucket.uploads().is_empty(), "{kind}");
    });
}

#[test]
fn objects_are_copied() {
    for_each_kind(&async |kind, bucket, client| {
        bucket.put("from/a b", b"x");
        let (from, to) = (Path::from("from/a b"), Path::from("to"));
        client.copy(&from, &to).await.unwrap();
        assert_eq!(bucket.get("to").as_deref(), Some(&b"x"[..]), "{kind}");
        if kind == Kind::Gcs || kind == Kind::Azurite {
            let again = CopyOptions { mode: CopyMode::Create, ..CopyOptions::default() };
            let refused = client.copy_opts(&from, &to, again).await;
            assert!(matches!(refused, Err(Error::AlreadyExists { .. })), "{kind}: {refused:?}");
        }
    });
}

#[test]
fn what_the_server_of_our_own_does_not_know_it_refuses() {
    let bucket = Server::shared(Kind::Gcs).bucket();
    let curl = |arguments: &[&str]| {
        let mut curl = std::process::Command::new("python3");
        let script = "import sys,urllib.request,urllib.error\n\
            r=urllib.request.Request(sys.argv[1],method=sys.argv[2],data=b'x')\n\
            [r.add_header(*h.split(': ',1)) for h in sys.argv[3:]]\n\
            try: print(urllib.request.urlopen(r).status)\n\
            except urllib.error.HTTPError as e: print(e.code)";
        let url = format!("http://127.0.0.1:{}/{}/{}", bucket.server().port(), bucket.name(), arguments[0]);
        curl.args(["-c", script, &url]).args(&arguments[1..]).env("no_proxy", "*");
        String::from_utf8(curl.output().unwrap().stdout).unwrap().trim_end().to_owned()
    };
    let token = "Authorization: Bearer refrain-test-token";
    assert_eq!(curl(&["key", "PUT", token]), "200");
    assert_eq!(curl(&["key", "PUT"]), "401");
    assert_eq!(curl(&["key", "PUT", token, "If-None-Match: *"]), "501");
    assert_eq!(curl(&["key", "PUT", token, "x-goog-if-metageneration-match: 1"]), "501");
    assert_eq!(curl(&["key", "PUT", token, "x-goog-if-generation-match: 0"]), "412");
    assert_eq!(curl(&["key?acl", "PUT", token]), "501");
    assert_eq!(curl(&["key", "PATCH", token]), "501");
    assert_eq!(bucket.get("key").as_deref(), Some(&b"x"[..]));
}
