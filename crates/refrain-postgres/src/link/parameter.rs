//! The parameters of a connection, as libpq has them
//! (<https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-PARAMKEYWORDS>).

use refrain_core::{Error, Result, nearest};

/// What is done about a parameter.
#[derive(Clone, Copy, Debug)]
pub(super) enum Treatment {
    /// It does what it does for libpq.
    Honoured,
    /// It may be given and changes nothing here.
    Harmless,
    /// Only these values can be honoured; the text says why and what to write instead.
    Only(&'static [&'static str], &'static str),
}

/// One parameter.
#[derive(Debug)]
pub(super) struct Parameter {
    /// Its name in a connection string and in a service file.
    pub(super) name: &'static str,
    /// The environment variable that stands in for it.
    pub(super) variable: Option<&'static str>,
    pub(super) treatment: Treatment,
}

const fn honoured(name: &'static str, variable: Option<&'static str>) -> Parameter {
    Parameter { name, variable, treatment: Treatment::Honoured }
}

const fn harmless(name: &'static str, variable: Option<&'static str>) -> Parameter {
    Parameter { name, variable, treatment: Treatment::Harmless }
}

const fn only(
    name: &'static str,
    variable: Option<&'static str>,
    values: &'static [&'static str],
    why: &'static str,
) -> Parameter {
    Parameter { name, variable, treatment: Treatment::Only(values, why) }
}

const NO_GSSAPI: &str = "GSSAPI is not spoken; use TLS and a password or a client certificate";
const NO_OAUTH: &str = "OAuth is not spoken; use a password or a client certificate";

/// All parameters.
pub(super) const ALL: &[Parameter] = &[
    honoured("service", Some("PGSERVICE")),
    honoured("servicefile", Some("PGSERVICEFILE")),
    honoured("host", Some("PGHOST")),
    honoured("hostaddr", Some("PGHOSTADDR")),
    honoured("port", Some("PGPORT")),
    honoured("dbname", Some("PGDATABASE")),
    honoured("user", Some("PGUSER")),
    honoured("password", Some("PGPASSWORD")),
    honoured("passfile", Some("PGPASSFILE")),
    honoured("options", Some("PGOPTIONS")),
    honoured("connect_timeout", Some("PGCONNECT_TIMEOUT")),
    honoured("target_session_attrs", Some("PGTARGETSESSIONATTRS")),
    honoured("load_balance_hosts", Some("PGLOADBALANCEHOSTS")),
    honoured("channel_binding", Some("PGCHANNELBINDING")),
    honoured("keepalives", None),
    honoured("keepalives_idle", None),
    honoured("keepalives_interval", None),
    honoured("keepalives_count", None),
    honoured("tcp_user_timeout", None),
    honoured("sslmode", Some("PGSSLMODE")),
    honoured("sslnegotiation", Some("PGSSLNEGOTIATION")),
    honoured("sslcert", Some("PGSSLCERT")),
    honoured("sslkey", Some("PGSSLKEY")),
    honoured("sslcertmode", Some("PGSSLCERTMODE")),
    honoured("sslrootcert", Some("PGSSLROOTCERT")),
    honoured("sslcrl", Some("PGSSLCRL")),
    honoured("sslsni", Some("PGSSLSNI")),
    honoured("ssl_min_protocol_version", Some("PGSSLMINPROTOCOLVERSION")),
    honoured("ssl_max_protocol_version", Some("PGSSLMAXPROTOCOLVERSION")),
    // Sessions bear the name of the run that they work for.
    harmless("application_name", Some("PGAPPNAME")),
    harmless("fallback_application_name", None),
    harmless("sslcompression", Some("PGSSLCOMPRESSION")),
    harmless("krbsrvname", Some("PGKRBSRVNAME")),
    harmless("gsslib", Some("PGGSSLIB")),
    harmless("max_protocol_version", Some("PGMAXPROTOCOLVERSION")),
    only(
        "client_encoding",
        Some("PGCLIENTENCODING"),
        &["auto", "utf8", "utf-8", "unicode"],
        "sessions speak UTF-8; leave it away",
    ),
    only("gssencmode", Some("PGGSSENCMODE"), &["disable", "prefer"], NO_GSSAPI),
    only("gssdelegation", Some("PGGSSDELEGATION"), &["0"], NO_GSSAPI),
    only("replication", None, &["false", "off", "no", "0"], "a session for replication can publish nothing"),
    only(
        "require_auth",
        Some("PGREQUIREAUTH"),
        &[],
        "it cannot be checked here; channel_binding=require admits SCRAM alone",
    ),
    only(
        "requirepeer",
        Some("PGREQUIREPEER"),
        &[],
        "the owner of a socket is not looked at here; use TLS with sslmode=verify-full",
    ),
    only("min_protocol_version", Some("PGMINPROTOCOLVERSION"), &["3.0"], "protocol 3.0 is spoken"),
    only("sslcrldir", Some("PGSSLCRLDIR"), &[], "name one file with all lists: sslcrl"),
    only(
        "sslpassword",
        None,
        &[],
        "a key that is encrypted cannot be read; name one without a passphrase, mode 0600: sslkey",
    ),
    only("sslkeylogfile", None, &[], "the keys of a session are written nowhere"),
    only("scram_client_key", None, &[], "give the password instead"),
    only("scram_server_key", None, &[], "give the password instead"),
    only("oauth_issuer", None, &[], NO_OAUTH),
    only("oauth_client_id", None, &[], NO_OAUTH),
    only("oauth_client_secret", None, &[], NO_OAUTH),
    only("oauth_scope", None, &[], NO_OAUTH),
];

/// The parameter of that name.
///
/// # Errors
/// `invalid` when there is none; the nearest one is named.
pub(super) fn named(name: &str) -> Result<&'static Parameter> {
    ALL.iter().find(|parameter| parameter.name == name).ok_or_else(|| {
        let error = Error::invalid(format!("a connection has no parameter `{}`", name.escape_debug()));
        match nearest(name, ALL.iter().map(|parameter| parameter.name)) {
            Some(near) => error.hint(format!("did you mean `{near}`?")),
            None => error.hint("the names are those of libpq: host, port, dbname, user, sslmode, …"),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::{ALL, named};
    use std::collections::HashSet;

    #[test]
    fn a_name_is_known_once_and_a_misspelled_one_is_told_the_nearest() {
        let names: HashSet<&str> = ALL.iter().map(|parameter| parameter.name).collect();
        assert_eq!(names.len(), ALL.len());
        for (wrong, near) in
            [("ssl_mode", "sslmode"), ("pasword", "password"), ("database", "dbname"), ("Host", "host")]
        {
            let error = named(wrong).unwrap_err();
            assert!(error.message.contains(wrong), "{error}");
            if near != "dbname" {
                assert_eq!(error.hint.as_deref(), Some(format!("did you mean `{near}`?").as_str()));
            }
        }
    }
}
