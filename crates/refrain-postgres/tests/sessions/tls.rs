//! TLS with real servers and certificates as people make them. The server of version 18 that the set-up installs is built without TLS.

use crate::support::{link_with, one};
use refrain_core::ErrorKind;
use refrain_postgres::Session;
use refrain_testkit::postgres::{Server, Version};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// Keys and certificates.
struct Authority(TempDir);

impl Authority {
    fn new() -> Self {
        let made = Self(tempfile::tempdir().unwrap());
        fs::set_permissions(made.0.path(), fs::Permissions::from_mode(0o755)).unwrap();
        made.root("root");
        made
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn openssl(&self, arguments: &str) {
        let output =
            Command::new("openssl").args(arguments.split(' ')).current_dir(&self.0).output().expect("openssl runs");
        assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// A certificate that certifies itself, as the manual of PostgreSQL has it made; it says that it is an authority.
    fn root(&self, name: &str) {
        self.openssl(&format!(
            "req -new -x509 -nodes -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -days 30 -subj /CN={name} -keyout {name}.key -out {name}.crt"
        ));
    }

    /// A certificate of the root, with an extension or, as `openssl x509 -req` makes them, of version 1.
    fn issue(&self, name: &str, common: &str, extension: Option<&str>) {
        self.openssl(&format!(
            "req -new -nodes -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -subj /CN={common} -keyout {name}.key -out {name}.csr"
        ));
        let mut sign =
            format!("x509 -req -in {name}.csr -days 30 -CA root.crt -CAkey root.key -CAcreateserial -out {name}.crt");
        if let Some(extension) = extension {
            fs::write(self.path("extensions"), format!("{extension}\n")).unwrap();
            sign.push_str(" -extfile extensions");
        }
        self.openssl(&sign);
    }

    /// A server that has this certificate, and asks for passwords by TLS only.
    fn server(&self, version: Version, name: &str, more: &[(&str, &str)]) -> Server {
        let file = |end: &str| self.path(&format!("{name}.{end}")).to_str().unwrap().to_owned();
        let (certificate, key) = (file("crt"), file("key"));
        let mut settings = vec![("ssl", "on"), ("ssl_cert_file", certificate.as_str()), ("ssl_key_file", key.as_str())];
        settings.extend(more);
        let access = [
            "hostssl all asked all scram-sha-256",
            "hostssl all certified all cert",
            "hostnossl all plain all trust",
            "hostssl all plain all reject",
            "hostnossl all all all reject",
        ];
        let server = Server::with(version, &settings, &access);
        server.maintenance().psql(
            "SET password_encryption = 'scram-sha-256'; CREATE ROLE asked LOGIN PASSWORD 's3cret';
             CREATE ROLE certified LOGIN; CREATE ROLE plain LOGIN",
        );
        server
    }

    fn open(&self, server: &Server, user: &str, query: &str) -> Result<Session, refrain_core::Error> {
        let home = self.path("home");
        let text = format!("postgresql://{user}@localhost:{}/postgres?hostaddr=127.0.0.1&{query}", server.port());
        let text = text.replace("DIR", self.0.path().to_str().unwrap());
        let link = link_with(&text, &[("HOME", home.to_str().unwrap())]);
        Session::open(&link, "a test").map_err(|fault| fault.during("connect"))
    }

    #[track_caller]
    fn opens(&self, server: &Server, user: &str, query: &str) -> Session {
        self.open(server, user, query).unwrap_or_else(|error| panic!("{query}: {error} {:?}", error.hint))
    }

    #[track_caller]
    fn refuses(&self, server: &Server, user: &str, query: &str, part: &str) {
        let error = self.open(server, user, query).expect_err(query);
        let shown = format!("{error} | {}", error.hint.as_deref().expect("a hint"));
        assert_eq!(error.kind, ErrorKind::Invalid, "{query}: {shown}");
        assert!(shown.contains(part), "{query}: {shown}");
        assert!(!shown.contains("s3cret"));
    }
}

fn encryption(session: &mut Session) -> String {
    one(session, "SELECT coalesce(version, 'none') FROM pg_catalog.pg_stat_ssl WHERE pid = pg_catalog.pg_backend_pid()")
}

#[test]
fn a_server_that_certifies_itself() {
    let made = Authority::new();
    made.root("localhost");
    let server = made.server(Version::V15, "localhost", &[]);
    for mode in ["allow", "prefer", "require"] {
        assert_eq!(encryption(&mut made.opens(&server, "postgres", &format!("sslmode={mode}"))), "TLSv1.3", "{mode}");
    }
    for mode in ["require", "verify-ca", "verify-full"] {
        let itself = format!("sslmode={mode}&sslrootcert=DIR/localhost.crt");
        assert_eq!(encryption(&mut made.opens(&server, "postgres", &itself)), "TLSv1.3");
        made.refuses(&server, "postgres", &format!("sslmode={mode}&sslrootcert=DIR/root.crt"), "sslrootcert");
    }
    made.refuses(&server, "postgres", "sslmode=disable", "sslmode=require");
    made.refuses(&server, "postgres", "sslmode=verify-ca", "no certificates to verify the server by");
    made.refuses(&server, "postgres", "sslmode=verify-ca&sslrootcert=/none", "there is no `/none`");
    made.refuses(&server, "postgres", "sslrootcert=system", "the server's certificate");
    assert_eq!(encryption(&mut made.opens(&server, "plain", "sslmode=prefer")), "none");
    made.refuses(&server, "plain", "sslmode=require", "pg_hba.conf");
    let bound = made.opens(&server, "asked:s3cret", "sslmode=require&channel_binding=require");
    drop(bound);
    let mut old =
        made.opens(&server, "asked:s3cret", "sslmode=require&ssl_max_protocol_version=TLSv1.2&channel_binding=require");
    assert_eq!(encryption(&mut old), "TLSv1.2");
}

#[test]
fn a_server_that_an_authority_certifies() {
    let made = Authority::new();
    let roots = "sslrootcert=DIR/root.crt";
    made.issue("named", "other", Some("subjectAltName=DNS:localhost"));
    made.issue("common", "localhost", Some("keyUsage=digitalSignature"));
    made.issue("other", "localhost", Some("subjectAltName=DNS:other.example.org"));
    made.issue("first", "localhost", None);
    for name in ["named", "common"] {
        let server = made.server(Version::V15, name, &[]);
        made.opens(&server, "postgres", &format!("sslmode=verify-full&{roots}"));
        made.opens(&server, "postgres", &format!("sslmode=verify-ca&{roots}&ssl_max_protocol_version=TLSv1.2"));
    }
    let server = made.server(Version::V15, "other", &[]);
    made.opens(&server, "postgres", &format!("sslmode=verify-ca&{roots}"));
    made.refuses(&server, "postgres", &format!("sslmode=verify-full&{roots}"), "of another name");
    made.root("stranger");
    // A wrong name does not hide that the chain is wrong, too.
    made.refuses(&server, "postgres", "sslmode=verify-ca&sslrootcert=DIR/stranger.crt", "certified by none");
    made.refuses(&server, "postgres", "sslmode=verify-full&sslrootcert=DIR/stranger.crt", "certified by none");
    // The root where libpq looks for it makes `require` look at it.
    fs::create_dir_all(made.path("home/.postgresql")).unwrap();
    fs::copy(made.path("stranger.crt"), made.path("home/.postgresql/root.crt")).unwrap();
    made.refuses(&server, "postgres", "sslmode=require", "certified by none");
    made.opens(&server, "postgres", "sslmode=prefer");
    fs::remove_file(made.path("home/.postgresql/root.crt")).unwrap();

    let server = made.server(Version::V15, "first", &[]);
    made.opens(&server, "postgres", "sslmode=require");
    made.refuses(&server, "postgres", &format!("sslmode=verify-ca&{roots}"), "X.509 version 3");
}

#[test]
fn a_client_that_an_authority_certifies() {
    let made = Authority::new();
    made.root("localhost");
    made.issue("certified", "certified", Some("extendedKeyUsage=clientAuth"));
    made.root("stranger");
    let root = made.path("root.crt");
    let server = made.server(Version::V15, "localhost", &[("ssl_ca_file", root.to_str().unwrap())]);
    let own = "sslmode=require&sslcert=DIR/certified.crt&sslkey=DIR/certified.key";
    assert_eq!(one(&mut made.opens(&server, "certified", own), "SELECT current_user"), "certified");
    made.refuses(&server, "certified", "sslmode=require", "certificate");
    made.refuses(&server, "certified", &format!("{own}&sslcertmode=disable"), "certificate");
    made.refuses(&server, "certified", "sslmode=require&sslcertmode=require", "sslcert=FILE");
    made.refuses(&server, "certified", "sslmode=require&sslcert=DIR/certified.crt", "not its key");
    made.refuses(
        &server,
        "certified",
        "sslmode=require&sslcert=DIR/stranger.crt&sslkey=DIR/stranger.key",
        "does not accept",
    );
    made.refuses(&server, "certified", "sslmode=require&sslcert=DIR/certified.crt&sslkey=DIR/stranger.key", "sslcert");
    fs::set_permissions(made.path("certified.key"), fs::Permissions::from_mode(0o644)).unwrap();
    made.refuses(&server, "certified", own, "chmod 0600");
    fs::set_permissions(made.path("certified.key"), fs::Permissions::from_mode(0o600)).unwrap();
    made.openssl("pkey -in certified.key -aes256 -passout pass:s3cret -out locked.key");
    made.refuses(&server, "certified", "sslmode=require&sslcert=DIR/certified.crt&sslkey=DIR/locked.key", "passphrase");
    // Where libpq looks for them.
    fs::create_dir_all(made.path("home/.postgresql")).unwrap();
    fs::copy(made.path("certified.crt"), made.path("home/.postgresql/postgresql.crt")).unwrap();
    fs::copy(made.path("certified.key"), made.path("home/.postgresql/postgresql.key")).unwrap();
    made.opens(&server, "certified", "sslmode=require");
}
