//! Makes the client of one bucket: what refrain.toml says wins over the environment, which wins over a profile.

use crate::profile::{Files, Profile};
use crate::settings::leaves_the_machine;
use crate::wire::{Connector, Wire};
use crate::{Address, Scheme, Settings};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, Checksum, S3ConditionalPut};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::client::ClientConfigKey;
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::multipart::MultipartStore;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};
use refrain_core::{Error, Result};
use std::path::PathBuf;
use std::sync::{Arc, Once};
use std::time::Duration;

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(5);

/// How long a connection may be silent while an answer is read.
const SILENCE: Duration = Duration::from_secs(20);

/// The client of one bucket, as the two traits that are used.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) objects: Arc<dyn ObjectStore>,
    pub(crate) parts: Arc<dyn MultipartStore>,
}

impl Client {
    fn of<T: ObjectStore + MultipartStore + 'static>(store: T) -> Self {
        let store = Arc::new(store);
        Self { objects: Arc::clone(&store) as _, parts: store }
    }
}

/// Makes the client. Nothing is sent.
///
/// # Errors
/// `invalid` when the settings contradict each other or lack something.
pub(crate) fn connect(address: &Address, settings: &Settings, wire: &Arc<Wire>) -> Result<Client> {
    install_crypto();
    match address.scheme {
        Scheme::S3 => s3(address, settings, wire),
        Scheme::Gcs => gcs(address, settings, wire),
        Scheme::Azure => azure(address, settings, wire),
    }
}

/// TLS needs to know which of its crypto libraries is meant, once for the process.
fn install_crypto() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Whoever embeds the library may have chosen before.
        drop(rustls::crypto::ring::default_provider().install_default());
    });
}

/// Every request is sent once: a repeat below would hide whether the first was carried out (OBJ-01).
fn never_again() -> RetryConfig {
    RetryConfig { backoff: BackoffConfig::default(), max_retries: 0, retry_timeout: Duration::from_mins(1) }
}

fn options(allow_http: bool) -> ClientOptions {
    ClientOptions::new()
        .with_connect_timeout(CONNECT)
        .with_timeout_disabled()
        .with_read_timeout(SILENCE)
        .with_allow_http(allow_http)
}

fn s3(address: &Address, settings: &Settings, wire: &Arc<Wire>) -> Result<Client> {
    let mut builder = AmazonS3Builder::new();
    for (name, value) in variables(settings, "AWS_") {
        if let Ok(key) = name.parse() {
            builder = builder.with_config(key, value);
        }
    }
    let get = |builder: &AmazonS3Builder, key| builder.get_config_value(&key).filter(|value| !value.is_empty());
    let lacks_keys = get(&builder, AmazonS3ConfigKey::AccessKeyId).is_none();
    if let Some(profile) = profile(settings, lacks_keys)? {
        if let (Some(id), Some(secret)) = (&profile.access_key_id, &profile.secret_access_key) {
            builder = builder.with_access_key_id(id).with_secret_access_key(secret);
            if let Some(token) = &profile.session_token {
                builder = builder.with_token(token);
            }
        }
        if let Some(region) = profile.region.filter(|_| get(&builder, AmazonS3ConfigKey::Region).is_none()) {
            builder = builder.with_region(region);
        }
        if let Some(endpoint) = profile.endpoint.filter(|_| s3_endpoint(&builder).is_none()) {
            builder = builder.with_endpoint(endpoint);
        }
    }
    if let Some(region) = &settings.region {
        builder = builder.with_region(region);
    }
    if let Some(endpoint) = &settings.endpoint {
        builder = builder.with_config(AmazonS3ConfigKey::S3Endpoint, endpoint).with_endpoint(endpoint);
    }
    if settings.virtual_hosted {
        builder = builder.with_virtual_hosted_style_request(true);
    }
    let endpoint = s3_endpoint(&builder);
    let allowed = get(&builder, AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp)).as_deref() == Some("true");
    let http = check_endpoint(endpoint.as_deref(), settings.allow_http || allowed, "AWS_ALLOW_HTTP=true")?;
    let store = builder
        .with_bucket_name(&address.bucket)
        .with_conditional_put(S3ConditionalPut::ETagMatch)
        .with_checksum_algorithm(Checksum::SHA256)
        .with_retry(never_again())
        .with_client_options(options(http))
        .with_http_connector(Connector(Arc::clone(wire)))
        .build()
        .map_err(|error| misconfigured(address, &error))?;
    Ok(Client::of(store))
}

fn s3_endpoint(builder: &AmazonS3Builder) -> Option<String> {
    [AmazonS3ConfigKey::S3Endpoint, AmazonS3ConfigKey::Endpoint]
        .into_iter()
        .find_map(|key| builder.get_config_value(&key).filter(|value| !value.is_empty()))
}

/// The variables of one provider, by their names in its configuration.
fn variables(settings: &Settings, prefix: &str) -> impl Iterator<Item = (String, String)> {
    let all = settings.environment.all().into_iter().filter(move |(name, _)| name.starts_with(prefix));
    all.map(|(name, value)| (name.to_ascii_lowercase(), value))
}

/// The profile that is asked for; the usual one is only asked when the environment has no keys.
fn profile(settings: &Settings, lacks_keys: bool) -> Result<Option<Profile>> {
    let named = settings.profile.clone().or_else(|| settings.environment.get("AWS_PROFILE").filter(|_| lacks_keys));
    if named.is_none() && !lacks_keys {
        return Ok(None);
    }
    let home = settings.environment.get("HOME").map(PathBuf::from).unwrap_or_default().join(".aws");
    let file = |name: &str, usual: &str| settings.environment.get(name).map_or_else(|| home.join(usual), PathBuf::from);
    let files = Files {
        credentials: file("AWS_SHARED_CREDENTIALS_FILE", "credentials"),
        config: file("AWS_CONFIG_FILE", "config"),
    };
    let found = Profile::read(&files, named.as_deref().unwrap_or("default"))?;
    match (named, found) {
        (Some(name), None) => Err(Error::invalid(format!(
            "there is no AWS profile `{name}` in `{}` or `{}`",
            files.credentials.display(),
            files.config.display()
        ))
        .hint("make it with: aws configure --profile NAME")),
        (_, found) => Ok(found),
    }
}

fn gcs(address: &Address, settings: &Settings, wire: &Arc<Wire>) -> Result<Client> {
    let mut builder = GoogleCloudStorageBuilder::new();
    if let Some(path) = settings.environment.get("SERVICE_ACCOUNT") {
        builder = builder.with_service_account_path(path);
    }
    for (name, value) in variables(settings, "GOOGLE_") {
        if let Ok(key) = name.parse() {
            builder = builder.with_config(key, value);
        }
    }
    let emulator = settings.environment.get("STORAGE_EMULATOR_HOST").map(|host| with_scheme(&host));
    if let Some(base) = settings.endpoint.clone().or_else(|| emulator.clone()) {
        builder = builder.with_base_url(&base);
    }
    if emulator.is_some() {
        builder = builder.with_skip_signature(true);
    }
    let endpoint = builder.get_config_value(&GoogleConfigKey::BaseUrl).filter(|value| !value.is_empty());
    let key = GoogleConfigKey::Client(ClientConfigKey::AllowHttp);
    let allowed = builder.get_config_value(&key).as_deref() == Some("true");
    let http = check_endpoint(endpoint.as_deref(), settings.allow_http || allowed, "GOOGLE_ALLOW_HTTP=true")?;
    let store = builder
        .with_bucket_name(&address.bucket)
        .with_retry(never_again())
        .with_client_options(options(http))
        .with_http_connector(Connector(Arc::clone(wire)))
        .build()
        .map_err(|error| misconfigured(address, &error))?;
    Ok(Client::of(store))
}

fn azure(address: &Address, settings: &Settings, wire: &Arc<Wire>) -> Result<Client> {
    let mut builder = MicrosoftAzureBuilder::new();
    for (name, value) in variables(settings, "AZURE_") {
        if let Ok(key) = name.parse() {
            builder = builder.with_config(key, value);
        }
    }
    if let Some(endpoint) = settings.environment.get("IDENTITY_ENDPOINT") {
        builder = builder.with_msi_endpoint(endpoint);
    }
    if let Some(account) = &settings.account {
        builder = builder.with_account(account);
    }
    if let Some(endpoint) = &settings.endpoint {
        builder = builder.with_endpoint(endpoint.clone());
    }
    let get = |key| builder.get_config_value(&key);
    let emulator = get(AzureConfigKey::UseEmulator).as_deref() == Some("true");
    let allowed = get(AzureConfigKey::Client(ClientConfigKey::AllowHttp)).as_deref() == Some("true");
    let endpoint = get(AzureConfigKey::Endpoint).filter(|value| !value.is_empty());
    let http = check_endpoint(endpoint.as_deref(), settings.allow_http || allowed, "AZURE_ALLOW_HTTP=true")?;
    let store = builder
        .with_container_name(&address.bucket)
        .with_retry(never_again())
        .with_client_options(options(http || emulator))
        .with_http_connector(Connector(Arc::clone(wire)))
        .build()
        .map_err(|error| misconfigured(address, &error))?;
    Ok(Client::of(store))
}

/// Whether the endpoint is plain HTTP. It may leave this machine only when somebody said so.
fn check_endpoint(endpoint: Option<&str>, allowed: bool, variable: &str) -> Result<bool> {
    let Some(endpoint) = endpoint else { return Ok(allowed) };
    let is_url =
        reqwest::Url::parse(endpoint).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    if !is_url {
        let shown = refrain_core::without_password(endpoint);
        return Err(Error::invalid(format!("the endpoint `{shown}` is no URL"))
            .hint("write https://HOST, or http://127.0.0.1:PORT for a store on this machine"));
    }
    if leaves_the_machine(endpoint) && !allowed {
        let shown = refrain_core::without_password(endpoint);
        return Err(Error::invalid(format!("`{shown}` is plain HTTP, which everybody between can read and change"))
            .hint(format!(
                "use https, or allow it: {variable}, or `allow_http = true` for the bucket in refrain.toml"
            )));
    }
    Ok(endpoint.starts_with("http://"))
}

fn with_scheme(host: &str) -> String {
    if host.contains("://") { host.to_owned() } else { format!("http://{host}") }
}

fn misconfigured(address: &Address, error: &object_store::Error) -> Error {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    let what = refrain_core::without_password(&cause.to_string());
    Error::invalid(format!("the settings for {address} do not fit: {what}")).hint(match address.scheme {
        Scheme::S3 => "keys of access come as a pair: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile by AWS_PROFILE",
        Scheme::Gcs => "name a service account's file by GOOGLE_APPLICATION_CREDENTIALS",
        Scheme::Azure => {
            "give AZURE_STORAGE_ACCOUNT_NAME (or `account` for the container in refrain.toml) and AZURE_STORAGE_ACCOUNT_KEY"
        }
    })
}
