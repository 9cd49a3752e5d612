//! What is looked up in a server's certificate where webpki looks otherwise than libpq.

use rustls::pki_types::{ServerName, UnixTime};
use x509_cert::Certificate;
use x509_cert::der::Encode;
use x509_cert::der::oid::db::rfc4519::COMMON_NAME;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

/// Whether the time is within those of the certificate.
pub(super) fn is_of_the_time(certificate: &Certificate, now: UnixTime) -> bool {
    let validity = &certificate.tbs_certificate.validity;
    let times = validity.not_before.to_unix_duration().as_secs()..=validity.not_after.to_unix_duration().as_secs();
    times.contains(&now.as_secs())
}

/// The public key, as its holder signs with it.
pub(super) fn public_key(certificate: &Certificate) -> Option<Vec<u8>> {
    certificate.tbs_certificate.subject_public_key_info.to_der().ok()
}

/// Whether the common name is that of the server: asked only where the certificate has no alternative name of the
/// server's kind (RFC 6125, 6.4.4; libpq's `pgtls_verify_peer_name_matches_certificate_guts`).
pub(super) fn is_commonly_named(certificate: &Certificate, server: &ServerName<'_>) -> bool {
    let alternatives = match certificate.tbs_certificate.get::<SubjectAltName>() {
        Ok(alternatives) => alternatives.map_or_else(Vec::new, |(_, SubjectAltName(names))| names),
        Err(_) => return false,
    };
    let of_the_kind = alternatives.iter().any(|name| {
        matches!(
            (name, server),
            (GeneralName::DnsName(_), ServerName::DnsName(_)) | (GeneralName::IpAddress(_), ServerName::IpAddress(_))
        )
    });
    !of_the_kind && common_name(certificate).is_some_and(|name| matches(&name, &server.to_str()))
}

/// The first common name of the subject.
pub(super) fn common_name(certificate: &Certificate) -> Option<String> {
    let mut attributes = certificate.tbs_certificate.subject.0.iter().flat_map(|names| names.0.iter());
    let name = attributes.find(|attribute| attribute.oid == COMMON_NAME)?;
    String::from_utf8(name.value.value().to_vec()).ok().filter(|name| !name.contains('\0'))
}

/// Whether a name of a certificate, which may begin with `*.`, is that of a host.
fn matches(pattern: &str, host: &str) -> bool {
    let same = pattern.eq_ignore_ascii_case(host);
    let wild = pattern.strip_prefix("*.").zip(host.split_once('.')).is_some_and(|(domain, (label, rest))| {
        !label.is_empty() && domain.contains('.') && domain.eq_ignore_ascii_case(rest)
    });
    same || wild
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_star_stands_for_one_label() {
        assert!(matches("db.example.org", "DB.example.org"));
        assert!(matches("*.example.org", "db.example.org"));
        for (pattern, host) in [
            ("*.example.org", "a.db.example.org"),
            ("*.example.org", "example.org"),
            ("*.example.org", ".example.org"),
            ("*", "db"),
            ("*.org", "example.org"),
            ("db.*.org", "db.example.org"),
            ("db.example.org", "db.example.org.evil"),
        ] {
            assert!(!matches(pattern, host), "{pattern} {host}");
        }
    }
}
