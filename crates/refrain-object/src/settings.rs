//! How a bucket is reached, as refrain.toml says; what it does not say comes from the usual variables of the environment.

use crate::Address;
use std::collections::BTreeMap;
use std::fmt;

/// How a bucket is reached. Everything may be left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Where the store answers, for one that is not the provider's own.
    pub endpoint: Option<String>,
    /// The region (S3).
    pub region: Option<String>,
    /// The profile of the AWS command line whose keys and endpoint are used (S3).
    pub profile: Option<String>,
    /// The storage account (Azure).
    pub account: Option<String>,
    /// Whether what is sent may be read by everybody between: plain HTTP to another machine.
    pub allow_http: bool,
    /// Whether the bucket's name is part of the host's name (S3).
    pub virtual_hosted: bool,
    /// Where Refrain keeps heads, plans and versions of this bucket; `_refrain/` at its root unless it is said.
    pub area: Option<Address>,
    /// The variables of the environment; this process's own unless it is said.
    pub environment: Environment,
}

/// Variables of an environment. Their values may be secrets and are never shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment(Option<BTreeMap<String, String>>);

impl Environment {
    /// These variables, instead of the process's own.
    pub fn of(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(Some(variables.into_iter().collect()))
    }

    /// The value of a variable; nothing when it is not set, or empty.
    #[allow(clippy::disallowed_methods, reason = "the variables that the providers' own programs read")]
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        let value = match &self.0 {
            Some(variables) => variables.get(name).cloned(),
            None => std::env::var(name).ok(),
        };
        value.filter(|value| !value.is_empty())
    }

    /// All that are text.
    #[allow(clippy::disallowed_methods, reason = "the variables that the providers' own programs read")]
    pub(crate) fn all(&self) -> Vec<(String, String)> {
        match &self.0 {
            Some(variables) => variables.clone().into_iter().collect(),
            None => std::env::vars_os()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
                .collect(),
        }
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Option<Vec<_>> = self.0.as_ref().map(|variables| variables.keys().collect());
        f.debug_tuple("Environment").field(&names).finish()
    }
}

impl Settings {
    /// Where Refrain keeps what it needs in the bucket of this address.
    pub fn area(&self, of: &Address) -> Address {
        self.area.clone().unwrap_or_else(|| of.at("_refrain/"))
    }
}

/// Whether plain HTTP to this endpoint leaves the machine.
pub(crate) fn leaves_the_machine(endpoint: &str) -> bool {
    let Some(rest) = endpoint.strip_prefix("http://") else { return false };
    let host = rest.split('/').next().unwrap_or_default();
    let host = host
        .strip_prefix('[')
        .map_or_else(|| host.split(':').next().unwrap_or_default(), |six| six.split(']').next().unwrap_or_default());
    let loopback = host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    !loopback && host != "localhost"
}

#[cfg(test)]
mod tests {
    use super::leaves_the_machine;

    #[test]
    fn plain_http_is_for_this_machine() {
        for (endpoint, leaves) in [
            ("http://127.0.0.1:9000", false),
            ("http://localhost:9000/x", false),
            ("http://[::1]:9000", false),
            ("https://s3.example.com", false),
            ("http://s3.example.com", true),
            ("http://10.0.0.1:9000", true),
        ] {
            assert_eq!(leaves_the_machine(endpoint), leaves, "{endpoint}");
        }
    }
}
