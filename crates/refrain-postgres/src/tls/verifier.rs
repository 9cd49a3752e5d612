//! Whether a server is the one that it says it is, by the rules of libpq.

use super::certificate;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
    verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};
use std::sync::Arc;
use x509_cert::Certificate;
use x509_cert::der::Decode;

/// What is asked of a server's certificate.
#[derive(Debug)]
pub(super) enum Check {
    /// Only that the server has its key.
    Nothing,
    /// That one of the roots certifies it, or is it; and perhaps that it is of the host that was asked for.
    Chain { chain: Arc<WebPkiServerVerifier>, roots: Vec<CertificateDer<'static>>, name: bool },
}

/// Checks a server's certificate, and in any case that the server has its key.
#[derive(Debug)]
pub(super) struct Verifier {
    check: Check,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Verifier {
    pub(super) fn new(check: Check, provider: &CryptoProvider) -> Self {
        Self { check, algorithms: provider.signature_verification_algorithms }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        server: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Check::Chain { chain, roots, name } = &self.check else {
            return Ok(ServerCertVerified::assertion());
        };
        // A certificate that certifies itself says that it is an authority when `openssl req -x509` made it, and webpki
        // takes no authority for a server. Who trusts this very certificate means the server.
        let itself = roots.iter().any(|root| root == certificate);
        let named = if itself {
            let read = read(certificate)?;
            if !certificate::is_of_the_time(&read, now) {
                return Err(CertificateError::Expired.into());
            }
            certificate_names(certificate, server)
        } else {
            // The chain is checked before the name: a wrong name means that the chain is right.
            match chain.verify_server_cert(certificate, others, server, ocsp, now) {
                Ok(_) => Ok(()),
                Err(error) if is_of_the_name(&error) => Err(error),
                Err(error) => return Err(error),
            }
        };
        match named {
            Err(error) if *name && !certificate::is_commonly_named(&read(certificate)?, server) => Err(error),
            _ => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match verify_tls13_signature(message, certificate, signature, &self.algorithms) {
            // `openssl x509 -req` makes certificates of version 1, which webpki does not read; its key can be read.
            Err(Error::InvalidCertificate(CertificateError::Other(_) | CertificateError::BadEncoding))
                if matches!(self.check, Check::Nothing) =>
            {
                let key = certificate::public_key(&read(certificate)?).ok_or(CertificateError::BadEncoding)?;
                let key = SubjectPublicKeyInfoDer::from(key);
                verify_tls13_signature_with_raw_key(message, &key, signature, &self.algorithms)
            }
            verified => verified,
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

fn read(certificate: &CertificateDer<'_>) -> Result<Certificate, Error> {
    Certificate::from_der(certificate).map_err(|_| CertificateError::BadEncoding.into())
}

/// Whether one of the alternative names of the certificate is the server's.
fn certificate_names(certificate: &CertificateDer<'_>, server: &ServerName<'_>) -> Result<(), Error> {
    let parsed = rustls::server::ParsedCertificate::try_from(certificate)?;
    rustls::client::verify_server_name(&parsed, server)
}

fn is_of_the_name(error: &Error) -> bool {
    matches!(
        error,
        Error::InvalidCertificate(CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. })
    )
}

/// Why TLS failed, and what helps.
pub(crate) fn what_failed(error: &Error) -> (String, &'static str) {
    use rustls::AlertDescription as Alert;
    let certificate = |why: &str| format!("the server's certificate {why}");
    match error {
        error if is_of_the_name(error) => (
            certificate("is of another name"),
            "connect by the name that it was issued for, or write sslmode=verify-ca if the name does not matter",
        ),
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => (
            certificate("is certified by none of those that are trusted (sslrootcert)"),
            "ask the server's administrator for its root certificate and name it with sslrootcert=FILE",
        ),
        Error::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => {
            (certificate("has expired"), "have the server's administrator renew it, and look at this machine's clock")
        }
        Error::InvalidCertificate(CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. }) => {
            (certificate("is not valid yet"), "look at the clocks of this machine and of the server")
        }
        Error::InvalidCertificate(CertificateError::Revoked) => {
            (certificate("is revoked (sslcrl)"), "have the server's administrator renew it")
        }
        Error::InvalidCertificate(CertificateError::UnknownRevocationStatus) => (
            certificate("may be revoked: no list of its issuer is in sslcrl"),
            "add the list of every authority between the root and the server",
        ),
        // Its type is webpki's own.
        Error::InvalidCertificate(why) if format!("{why:?}").contains("CaUsedAsEndEntity") => (
            certificate("certifies itself or others, and it is none of those that are trusted (sslrootcert)"),
            "ask the server's administrator for its certificate and name it with sslrootcert=FILE",
        ),
        Error::InvalidCertificate(why) => (
            format!("{}: {why}", certificate("cannot be used")),
            "have it issued as X.509 version 3 for the server's own name, not as an authority",
        ),
        Error::AlertReceived(Alert::CertificateRequired) => {
            ("the server asks for a client certificate".to_owned(), "name it and its key: sslcert=FILE sslkey=FILE")
        }
        Error::AlertReceived(
            Alert::UnknownCA | Alert::BadCertificate | Alert::CertificateUnknown | Alert::CertificateExpired,
        ) => (
            "the server does not accept the client's certificate (sslcert)".to_owned(),
            "have it issued by an authority that the server trusts (ssl_ca_file)",
        ),
        other => (format!("TLS failed: {other}"), "look at the server's log, and at its ssl_min_protocol_version"),
    }
}
