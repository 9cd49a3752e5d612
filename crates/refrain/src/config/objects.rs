//! How buckets are reached: `[objects."s3://lake"]`.

use super::expand::expand;
use super::section::{Section, describe};
use refrain_core::{Error, Result, nearest};
use refrain_object::{Address, Settings};

/// The buckets of a configuration, with their settings.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    declared: Vec<(Address, Settings)>,
}

impl Objects {
    /// How the bucket of an address is reached; a bucket that is not declared is reached as the environment says.
    pub fn settings(&self, address: &Address) -> Settings {
        let declared = self.declared.iter().find(|(bucket, _)| bucket.contains(address));
        declared.map(|(_, settings)| settings.clone()).unwrap_or_default()
    }

    /// The buckets that are declared.
    pub fn declared(&self) -> impl Iterator<Item = (&Address, &Settings)> {
        self.declared.iter().map(|(bucket, settings)| (bucket, settings))
    }

    /// Refuses the declaration of a bucket that nothing uses, when it has nearly the name of one that is used and not
    /// declared: that would be reached in another way than its user thinks. One that is far from all others may be for the
    /// command line.
    pub(super) fn refuse_misspelled(&self, used: &[Address]) -> Result<()> {
        let is_declared = |bucket: &Address| self.declared.iter().any(|(declared, _)| declared == bucket);
        let undeclared: Vec<_> = used.iter().filter(|bucket| !is_declared(bucket)).collect();
        for (bucket, _) in self.declared.iter().filter(|(bucket, _)| !used.contains(bucket)) {
            let same_store = undeclared.iter().filter(|other| other.scheme == bucket.scheme);
            let same_name = undeclared.iter().find(|other| other.bucket == bucket.bucket);
            let Some(near) = nearest(&bucket.bucket, same_store.map(|other| other.bucket.as_str()))
                .map(|name| format!("{}://{name}", bucket.scheme.name()))
                .or_else(|| same_name.map(|other| format!("{}://{}", other.scheme.name(), other.bucket)))
            else {
                continue;
            };
            let declared = format!("{}://{}", bucket.scheme.name(), bucket.bucket);
            return Err(Error::invalid(format!(
                "no output, input or store uses the bucket of `objects.\"{declared}\"`"
            ))
            .hint(format!(
                "did you mean `objects.\"{near}\"`? If both are meant, declare that one, too: [objects.\"{near}\"]"
            )));
        }
        Ok(())
    }

    pub(super) fn read(section: Option<Section>, lookup: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let mut declared = Vec::new();
        for (name, value) in section.into_iter().flat_map(Section::entries) {
            let toml::Value::Table(table) = value else {
                return Err(Error::invalid(format!("`objects.\"{name}\"` must be a table, not {}", describe(&value)))
                    .hint("begin it with a line [objects.\"s3://BUCKET\"]"));
            };
            let path = format!("objects.\"{name}\"");
            let within = |error: Error| error.within(format!("`{path}`"));
            let bucket = Address::parse(&name).map_err(within)?;
            if !bucket.key.is_empty() {
                return Err(Error::invalid(format!("`{path}` names more than a bucket")).hint(format!(
                    "write [objects.\"{}://{}\"]",
                    bucket.scheme.name(),
                    bucket.bucket
                )));
            }
            let settings = one(Section::new(path.clone(), table), &bucket, lookup)?;
            declared.push((bucket, settings));
        }
        Ok(Self { declared })
    }
}

fn one(mut section: Section, bucket: &Address, lookup: &dyn Fn(&str) -> Option<String>) -> Result<Settings> {
    let mut text = |key: &str| {
        let value = section.text(key)?;
        value.map(|value| expand(&section.name(key), &value, lookup)).transpose()
    };
    let (endpoint, region, profile, account) = (text("endpoint")?, text("region")?, text("profile")?, text("account")?);
    let area = text("area")?.map(|area| area_of(&area, bucket)).transpose();
    let area = area.map_err(|error| error.within(format!("`{}`", section.name("area"))))?;
    let settings = Settings {
        endpoint,
        region,
        profile,
        account,
        allow_http: section.flag("allow_http")?.unwrap_or_default(),
        virtual_hosted: section.flag("virtual_hosted")?.unwrap_or_default(),
        area,
        ..Settings::default()
    };
    section.done()?;
    Ok(settings)
}

fn area_of(text: &str, bucket: &Address) -> Result<Address> {
    let area =
        if Address::is_one(text) { Address::parse(text)? } else { Address::parse(&bucket.join(text).to_string())? };
    if !bucket.contains(&area) || area.key.is_empty() || !area.is_prefix() {
        return Err(Error::invalid(format!("{area} is no prefix within the bucket {bucket}"))
            .hint("write area = \"team/_refrain/\"; readers that list must not look there"));
    }
    Ok(area)
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use refrain_object::Address;
    use std::path::Path;

    #[test]
    fn a_bucket_is_reached_as_it_is_declared() {
        let text =
            "[objects.\"s3://lake\"]\nendpoint = \"${LAKE}\"\nregion = \"r\"\narea = \"team/x/\"\nallow_http = true\n";
        let lookup = |name: &str| (name == "LAKE").then(|| "http://10.0.0.1:9".to_owned());
        let config = Config::parse(text, Path::new("/home"), &lookup).unwrap();
        let address = Address::parse("s3a://lake/a/b").unwrap();
        let settings = config.objects.settings(&address);
        assert_eq!(settings.endpoint.as_deref(), Some("http://10.0.0.1:9"));
        assert_eq!(settings.area(&address).to_string(), "s3://lake/team/x/");
        let other = Address::parse("s3://other/a").unwrap();
        assert_eq!(config.objects.settings(&other).area(&other).to_string(), "s3://other/_refrain/");
    }

    #[test]
    fn what_is_no_bucket_is_refused_with_its_place() {
        for (text, part) in [
            ("[objects.\"s3://lake/x/\"]\n", "more than a bucket"),
            ("[objects.lake]\n", "no URL"),
            ("[objects.\"s3://lake\"]\narea = \"/\"\n", "area"),
            ("[objects.\"s3://lake\"]\nendpiont = \"x\"\n", "endpiont"),
            ("[objects]\n\"s3://lake\" = 1\n", "must be a table"),
        ] {
            let error = Config::parse(text, Path::new("/home"), &|_| None).unwrap_err();
            assert!(error.message.contains(part), "{text}: {error}");
        }
    }
}
