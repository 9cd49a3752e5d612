//! What a failed call means: whether the store refused, cannot be reached, or left it open what it did.

use crate::wire::{Call, Seen};
use crate::{Address, Scheme};
use refrain_core::{Error, ErrorKind};
use std::time::Duration;

/// How a call failed.
#[derive(Debug)]
pub(crate) enum Fault {
    /// There is no such object.
    Missing,
    /// It may have been carried out or not, or may still be.
    Doubt(Error),
    /// It was not carried out and will not be.
    Refused(Error),
}

impl Fault {
    /// As an error, for a call that may be repeated without harm.
    pub(crate) fn into_error(self, address: &Address) -> Error {
        match self {
            Self::Missing => Error::invalid(format!("there is no object {address}")),
            Self::Doubt(error) | Self::Refused(error) => error,
        }
    }
}

/// What a call's error means, given what it saw on the wire.
pub(crate) fn explain(error: &object_store::Error, call: &Call, address: &Address) -> Fault {
    let seen = call.last();
    tracing::debug!(%address, %error, ?seen, "a call failed");
    match seen {
        Some(Seen::Answer { status, code, message }) => answered(error, (status, &code, &message), address),
        Some(Seen::Unreachable { host, why }) => Fault::Refused(unreachable(address, &host, &why)),
        Some(Seen::Silent) => Fault::Doubt(silent(address)),
        None => Fault::Refused(before_sending(error, address)),
    }
}

/// The call took longer than it may.
pub(crate) fn too_late(address: &Address, limit: Duration) -> Fault {
    Fault::Doubt(
        Error::new(ErrorKind::Unavailable, format!("the store of {address} gave no answer within {limit:?}"))
            .hint("repeat the call; if it stays silent, look at the store and the network between"),
    )
}

fn answered(error: &object_store::Error, seen: (u16, &str, &str), address: &Address) -> Fault {
    let (status, code, message) = seen;
    let said = match (code, message) {
        ("", _) => format!("HTTP status {status}"),
        (code, "") => format!("{code} (HTTP status {status})"),
        (code, message) => format!("{code}: {message} (HTTP status {status})"),
    };
    let said = refrain_core::without_password(&said);
    let (store, bucket) = (shown_store(address.scheme), &address.bucket);
    match status {
        404 if matches!(code, "NoSuchBucket" | "ContainerNotFound") => Fault::Refused(
            Error::invalid(format!("there is no bucket `{bucket}` in {store}: {said}"))
                .hint("make the bucket, or mend its name; if it is there, mend the endpoint and the region"),
        ),
        404 => Fault::Missing,
        401 | 403 => Fault::Refused(
            Error::invalid(format!("{store} denies access to {address}: {said}")).hint(
                "the identity in use lacks the right, or its keys are wrong; docs/OBJECTS.md lists the rights that are needed",
            ),
        ),
        301 | 307 | 400 if matches!(code, "AuthorizationHeaderMalformed" | "PermanentRedirect" | "IllegalLocationConstraintException") => {
            Fault::Refused(
                Error::invalid(format!("`{bucket}` is in another region: {said}"))
                    .hint("set AWS_REGION, or `region` for the bucket in refrain.toml"),
            )
        }
        409 | 412 | 429 | 500..=599 => Fault::Doubt(
            Error::new(ErrorKind::Unavailable, format!("{store} could not serve {address}: {said}"))
                .hint("repeat the call in a moment"),
        ),
        // Answered as if all were well, and yet the answer cannot be used.
        200..=299 => Fault::Doubt(Error::new(
            ErrorKind::Unavailable,
            format!("the answer of {store} about {address} cannot be read: {}", plain(error)),
        )),
        _ => Fault::Refused(Error::invalid(format!("{store} refuses {address}: {said}"))),
    }
}

fn unreachable(address: &Address, host: &str, why: &str) -> Error {
    let (store, bucket) = (shown_store(address.scheme), &address.bucket);
    let message =
        format!("cannot connect to {store} for `{bucket}` at {host}: {}", refrain_core::without_password(why));
    Error::new(ErrorKind::Unavailable, message).hint(format!(
        "is it running, and is its endpoint right? it is taken from `endpoint` in refrain.toml or from {}",
        match address.scheme {
            Scheme::S3 => "AWS_ENDPOINT_URL, or `endpoint_url` of the profile",
            Scheme::Gcs => "GOOGLE_BASE_URL",
            Scheme::Azure => "AZURE_STORAGE_ENDPOINT",
        }
    ))
}

fn silent(address: &Address) -> Error {
    Error::new(ErrorKind::Unavailable, format!("the connection to the store of {address} broke before it answered"))
        .hint("repeat the call")
}

/// Nothing was sent for it: most often there are no credentials.
fn before_sending(error: &object_store::Error, address: &Address) -> Error {
    let what = plain(error);
    Error::invalid(format!("cannot ask for {address}: no keys of access were found that fit ({what})")).hint(match address.scheme {
        Scheme::S3 => {
            "give keys of access by AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile by AWS_PROFILE, or run where \
             the machine has an identity"
        }
        Scheme::Gcs => "name a service account's file by GOOGLE_APPLICATION_CREDENTIALS, or run gcloud auth application-default login",
        Scheme::Azure => "give AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY, or AZURE_USE_AZURE_CLI=true",
    })
}

/// The innermost cause: the outer ones repeat it with addresses that may be signed.
fn plain(error: &object_store::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    refrain_core::without_password(&cause.to_string())
}

/// The store for people.
pub(crate) fn shown_store(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::S3 => "the S3 store",
        Scheme::Gcs => "Google Cloud Storage",
        Scheme::Azure => "Azure Blob Storage",
    }
}
