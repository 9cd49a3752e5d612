use super::{Host, Keepalive, Link, Mode, Named, Place, Roots, Timeout};
use refrain_core::Error;
use std::ffi::OsString;
use std::fs::{create_dir, write};
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

/// A home directory of its own, and variables.
struct Machine {
    home: TempDir,
    variables: Vec<(&'static str, String)>,
}

impl Machine {
    fn new(variables: &[(&'static str, &str)]) -> Self {
        let variables = variables.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        Self { home: tempfile::tempdir().unwrap(), variables }
    }

    fn try_link(&self, text: &str) -> Result<Link, Error> {
        Link::resolve(text, &|name| match name {
            "HOME" => Some(self.home.path().into()),
            "PGSYSCONFDIR" => Some(self.home.path().join("system").into()),
            _ => self.variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value)),
        })
    }

    fn link(&self, text: &str) -> Link {
        self.try_link(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }
}

fn link(text: &str) -> Link {
    Machine::new(&[]).link(text)
}

#[track_caller]
fn refused(text: &str, parts: &[&str]) {
    let error = Machine::new(&[]).try_link(text).expect_err(text);
    let shown = format!("{error} {}", error.hint.as_deref().unwrap_or_default());
    for part in parts {
        assert!(shown.contains(part), "{text}: {shown}");
    }
}

fn named(host: &str, port: u16) -> Place {
    Place { host: Host::Named(host.to_owned(), None), port }
}

#[test]
fn the_text_goes_before_the_service_and_the_service_before_the_environment() {
    let machine = Machine::new(&[
        ("PGSERVICE", "mart"),
        ("PGHOST", "of-environment"),
        ("PGPORT", "1"),
        ("PGUSER", "of-environment"),
        ("PGDATABASE", "of-environment"),
        ("PGPASSWORD", "of-environment"),
        ("PGSSLMODE", "require"),
        ("PGCONNECT_TIMEOUT", "7"),
        ("PGOPTIONS", "-c a=b"),
    ]);
    write(
        machine.home.path().join(".pg_service.conf"),
        "# services\n[other]\nhost=other\n[mart]\nhost=of-service\nport=2\nuser = of-service\n\n[last]\nhost=last\n",
    )
    .unwrap();
    let link = machine.link("postgresql:///?host=of-text");
    let settings = link.settings();
    assert_eq!(settings.places, [named("of-text", 2)]);
    assert_eq!((link.user(), link.database()), ("of-service", "of-environment"));
    assert_eq!(settings.password, Some(("of-environment".to_owned(), "PGPASSWORD".to_owned())));
    assert_eq!(settings.tls.mode, Mode::Require);
    assert_eq!(settings.timeout, Timeout::Each(Duration::from_secs(7)));
    assert_eq!(settings.options.as_deref(), Some("-c a=b"));
    assert_eq!(machine.link("service=other").settings().places, [named("other", 1)]);
    let error = machine.try_link("service=none").unwrap_err();
    assert!(error.message.contains("there is no service `none`") && error.message.contains("system"), "{error}");
}

#[test]
fn a_service_of_the_machine_is_found_after_the_users_own() {
    let machine = Machine::new(&[]);
    create_dir(machine.home.path().join("system")).unwrap();
    write(machine.home.path().join("system/pg_service.conf"), "[a]\nhost=machine\n[b]\nhots=x\n[c]\nservice=a\n")
        .unwrap();
    assert_eq!(machine.link("service=a").settings().places, [named("machine", 5432)]);
    let error = machine.try_link("service=b").unwrap_err();
    assert!(error.message.contains("line 4") && error.message.contains("`hots`"), "{error}");
    assert!(machine.try_link("service=c").unwrap_err().message.contains("line 6"));
    let own = machine.home.path().join("own.conf");
    let error = machine.try_link(&format!("service=a servicefile={}", own.display())).unwrap_err();
    assert!(error.message.contains("own.conf"), "{error}");
    write(&own, "[a]\nhost=own\n").unwrap();
    assert_eq!(
        machine.link(&format!("service=a servicefile={}", own.display())).settings().places,
        [named("own", 5432)]
    );
}

#[test]
fn what_nobody_says_is_what_is_usual() {
    let machine = Machine::new(&[]);
    let link = machine.link("");
    let settings = link.settings();
    let me = super::environment::user_name().unwrap();
    assert_eq!((link.user(), link.database()), (me.as_str(), me.as_str()));
    assert_eq!(settings.places, [Place { host: Host::Default, port: 5432 }]);
    assert_eq!(settings.passfile, Some(machine.home.path().join(".pgpass")));
    assert_eq!(settings.tls.mode, Mode::Prefer);
    assert_eq!(settings.tls.roots, Roots::File(Named::Usual(machine.home.path().join(".postgresql/root.crt"))));
    assert_eq!(settings.timeout, Timeout::Together(Duration::from_secs(10)));
    assert_eq!(settings.unacknowledged, Some(Duration::from_secs(30)));
    assert_eq!(
        settings.keepalive,
        Some(Keepalive { idle: Duration::from_secs(15), interval: Duration::from_secs(5), count: 3 })
    );
    let off = machine.link("keepalives=0 tcp_user_timeout=0 connect_timeout=0 passfile=/p");
    assert_eq!(off.settings().keepalive, None);
    assert_eq!(off.settings().unacknowledged, None);
    assert_eq!(off.settings().timeout, Timeout::Never);
    assert_eq!(off.settings().passfile, Some(PathBuf::from("/p")));
}

#[test]
fn hosts_addresses_and_ports_go_together() {
    assert_eq!(
        link("postgresql://a,b:7,[::1]/d").settings().places,
        [named("a", 5432), named("b", 7), named("::1", 5432)]
    );
    assert_eq!(link("host=a,b port=9").settings().places, [named("a", 9), named("b", 9)]);
    assert_eq!(
        link("host=a,/run/x port=1,").settings().places,
        [named("a", 1), Place { host: Host::Directory(PathBuf::from("/run/x")), port: 5432 }]
    );
    assert_eq!(
        link("host=a,b hostaddr=127.0.0.1,").settings().places,
        [Place { host: Host::Named("a".to_owned(), Some([127, 0, 0, 1].into())), port: 5432 }, named("b", 5432)]
    );
    refused("host=a,b port=1,2,3", &["3 ports are given for 2 hosts"]);
    refused("host=a,b hostaddr=127.0.0.1", &["1 addresses"]);
    refused("host=a hostaddr=b", &["no IP address"]);
    refused("host=a port=0", &["`0` is no number of a port"]);
    refused("host=@abstract", &["abstract"]);
}

#[test]
fn values_that_cannot_be_honoured_are_refused_and_harmless_ones_are_not() {
    link(
        "gssencmode=prefer krbsrvname=x gsslib=gssapi application_name=a client_encoding=UTF8 replication=false sslcompression=0 max_protocol_version=3.2",
    );
    refused("gssencmode=require", &["`gssencmode` of the connection string", "GSSAPI"]);
    refused("require_auth=scram-sha-256", &["channel_binding=require"]);
    refused("sslpassword=secret", &["passphrase"]);
    refused("replication=database", &["replication"]);
    refused("client_encoding=latin1", &["UTF-8"]);
    refused("sslmode=verify_full", &["did you mean `verify-full`?"]);
    refused("sslmode=verify-ca sslrootcert=system", &["sslmode=verify-full"]);
    refused("sslnegotiation=direct", &["sslmode=require"]);
    refused("ssl_max_protocol_version=TLSv1.1", &["no version of TLS is left"]);
    refused("connect_timeout=soon", &["connect_timeout", "no whole number"]);
    refused("postgresql://h?ssl_mode=require", &["`ssl_mode`", "did you mean `sslmode`?"]);
    assert_eq!(link("sslrootcert=system").settings().tls.mode, Mode::VerifyFull);
}

#[test]
fn pgx_16_a_link_to_a_standby_is_refused() {
    for text in ["target_session_attrs=standby", "postgresql://h?target_session_attrs=read-only"] {
        refused(text, &["decided on the primary"]);
    }
    link("target_session_attrs=any");
    link("target_session_attrs=prefer-standby");
}

#[test]
fn a_link_shows_where_and_never_who() {
    for (text, shown) in [
        ("postgresql://u:s3cret@h/db", "postgresql://h:5432/db"),
        ("postgresql://u:s3cret@h:1,[::1]:2/db?password=s3cret", "postgresql://h:1,[::1]:2/db"),
        ("host=/run/x port=5433 dbname=db user=u password=s3cret", "postgresql:///db?host=/run/x&port=5433"),
        ("dbname=db", "postgresql:///db"),
    ] {
        let link = link(text);
        assert_eq!(link.to_string(), shown);
        assert_eq!(format!("{link:?}"), format!("Link({shown})"));
    }
}

#[test]
fn the_url_for_a_task_is_whole() {
    for (text, url) in [
        ("postgres://u:s3cret@h/db?sslmode=require", "postgresql://u:s3cret@h/db?sslmode=require"),
        ("postgresql:///db", "postgresql:///db"),
        (
            "host=h user=u password='a b@c' dbname=d/b sslmode=require application_name=x",
            "postgresql://u:a%20b%40c@h:5432/d%2Fb?sslmode=require&application_name=x",
        ),
        ("host=/run/x port=5433 user=u dbname=db", "postgresql://u@/db?host=%2Frun%2Fx&port=5433"),
    ] {
        assert_eq!(link(text).secret_url(), url);
    }
    // What it says is what was said.
    let again = link(link("host=a,b port=1,2 user=u password='p@:/' dbname=d options='-c x=y'").secret_url());
    assert_eq!(again.settings().places, [named("a", 1), named("b", 2)]);
    assert_eq!(again.settings().password.as_ref().unwrap().0, "p@:/");
    assert_eq!(again.settings().options.as_deref(), Some("-c x=y"));
}
