//! How a bucket is reached, as refrain.toml says; what it does not say comes from the usual variables of the environment.

use crate::Address;

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
