//! TLS as libpq does it (<https://www.postgresql.org/docs/current/libpq-ssl.html>), by rustls.
//!
//! Nothing of it is touched before a connection that may be encrypted is opened.

mod certificate;
mod verifier;

pub(crate) use verifier::what_failed;

use crate::link::{CertificateMode, Mode, Named, Roots, Tls, Versions};
use refrain_core::{Error, Result};
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use tokio_postgres_rustls::MakeRustlsConnect;
use verifier::{Check, Verifier};

/// What a server may be asked for since version 17 (<https://www.postgresql.org/docs/current/protocol-flow.html>).
const PROTOCOL: &[u8] = b"postgresql";

/// Makes what encrypts a connection.
///
/// # Errors
/// `invalid` when a file of certificates or keys is missing or cannot be used.
pub(crate) fn connector(tls: &Tls) -> Result<MakeRustlsConnect> {
    let provider = Arc::new(ring::default_provider());
    let versions: &[&SupportedProtocolVersion] = match tls.versions {
        Versions::Both => &[&TLS13, &TLS12],
        Versions::Only12 => &[&TLS12],
        Versions::Only13 => &[&TLS13],
    };
    let verifier = Verifier::new(check(tls, &provider)?, &provider);
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .map_err(|error| Error::invalid("TLS cannot be spoken").because(error))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match own_certificate(tls)? {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => builder.with_client_auth_cert(chain, key).map_err(|error| {
            Error::invalid("the client's certificate and its key (sslcert, sslkey) cannot be used").because(error)
                .hint("give the key of this very certificate: `openssl x509 -noout -pubkey -in CERT`, `openssl pkey -pubout -in KEY`")
        })?,
    };
    config.enable_sni = tls.indicated;
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(MakeRustlsConnect::new(config))
}

/// What is asked of the server's certificate. `require` alone asks nothing, but where there is a file of roots it is as
/// `verify-ca`, as for libpq.
fn check(tls: &Tls, provider: &Arc<CryptoProvider>) -> Result<Check> {
    let roots = match &tls.roots {
        _ if tls.mode < Mode::Require => return Ok(Check::Nothing),
        Roots::System => of_the_system()?,
        Roots::File(file) => match present(file, "sslrootcert")? {
            Some(place) => certificates(place, "sslrootcert")?,
            None if tls.mode == Mode::Require => return Ok(Check::Nothing),
            None => {
                let place = match file {
                    Named::Usual(place) => format!(": there is no `{}`", place.display()),
                    _ => String::new(),
                };
                return Err(Error::invalid(format!("there are no certificates to verify the server by{place}")).hint(
                    "name a file of them with sslrootcert=FILE, or write sslrootcert=system for those of the machine",
                ));
            }
        },
    };
    let mut store = RootCertStore::empty();
    let (added, _) = store.add_parsable_certificates(roots.iter().cloned());
    if added == 0 {
        return Err(Error::invalid("none of the certificates to verify the server by (sslrootcert) can be used"));
    }
    let mut builder = WebPkiServerVerifier::builder_with_provider(Arc::new(store), Arc::clone(provider));
    if let Some(place) = present(&tls.revoked, "sslcrl")? {
        builder = builder.with_crls(in_pem::<CertificateRevocationListDer<'static>>(place, "sslcrl")?);
    }
    let chain = builder
        .build()
        .map_err(|error| Error::invalid("the lists of revoked certificates (sslcrl) cannot be used").because(error))?;
    Ok(Check::Chain { chain, roots, name: tls.mode == Mode::VerifyFull })
}

fn of_the_system() -> Result<Vec<CertificateDer<'static>>> {
    let found = rustls_native_certs::load_native_certs();
    if found.certs.is_empty() {
        let why: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
        return Err(Error::invalid(
            format!("the machine has no certificates that it trusts {}", why.join("; ")).trim_end(),
        )
        .hint("install them (`apt-get install ca-certificates`), or name a file with sslrootcert=FILE"));
    }
    Ok(found.certs)
}

/// The client's certificate with those that certify it, and its key.
fn own_certificate(tls: &Tls) -> Result<Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>> {
    if tls.certificate_mode == CertificateMode::Disable {
        return Ok(None);
    }
    let Some(place) = present(&tls.certificate, "sslcert")? else {
        return match tls.certificate_mode {
            CertificateMode::Require => Err(Error::invalid("sslcertmode=require, but there is no certificate")
                .hint("name it and its key: sslcert=FILE sslkey=FILE")),
            _ => Ok(None),
        };
    };
    let chain = certificates(place, "sslcert")?;
    let Some(place) = present(&tls.key, "sslkey")? else {
        return Err(Error::invalid(format!("there is a certificate `{}`, but not its key", place.display()))
            .hint("name the key with sslkey=FILE, or write sslcertmode=disable"));
    };
    let metadata = place.metadata().map_err(|error| unreadable(place, "sslkey").because(error))?;
    // As libpq has it: the group may read a key that belongs to root.
    let others = if metadata.uid() == 0 { 0o037 } else { 0o077 };
    if metadata.mode() & others != 0 {
        return Err(Error::invalid(format!("others may read the key `{}` (sslkey)", place.display()))
            .hint(format!("`chmod 0600 {}`", place.display())));
    }
    let key = PrivateKeyDer::from_pem_file(place).map_err(|error| {
        unreadable(place, "sslkey")
            .because(error)
            .hint("it must be PEM and without a passphrase; `openssl pkey -in KEY -out NEW` takes one away")
    })?;
    Ok(Some((chain, key)))
}

/// The file, when there is one.
fn present<'f>(file: &'f Named, parameter: &str) -> Result<Option<&'f Path>> {
    match file {
        Named::Nothing => Ok(None),
        Named::Given(place) if place.exists() => Ok(Some(place)),
        Named::Given(place) => Err(Error::invalid(format!("there is no `{}` ({parameter})", place.display()))
            .hint(format!("name a file that is there, or leave {parameter} away"))),
        Named::Usual(place) => Ok(Some(place.as_path()).filter(|place| place.exists())),
    }
}

fn certificates(place: &Path, parameter: &str) -> Result<Vec<CertificateDer<'static>>> {
    in_pem(place, parameter)
}

fn in_pem<T: PemObject>(place: &Path, parameter: &str) -> Result<Vec<T>> {
    let read: Vec<T> = T::pem_file_iter(place)
        .and_then(Iterator::collect::<Result<_, pem::Error>>)
        .map_err(|error| unreadable(place, parameter).because(error))?;
    if read.is_empty() {
        return Err(unreadable(place, parameter).hint("it must be PEM: -----BEGIN …"));
    }
    Ok(read)
}

fn unreadable(place: &Path, parameter: &str) -> Error {
    Error::invalid(format!("`{}` ({parameter}) cannot be read", place.display()))
}
