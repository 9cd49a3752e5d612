//! Profiles of the AWS command line: `~/.aws/credentials` and `~/.aws/config`
//! (<https://docs.aws.amazon.com/cli/latest/userguide/cli-configure-files.html>).

use ini::{Ini, ParseOption};
use refrain_core::{Error, Result};
use std::fmt;
use std::path::{Path, PathBuf};

/// What a profile gives.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Profile {
    pub(crate) access_key_id: Option<String>,
    pub(crate) secret_access_key: Option<String>,
    pub(crate) session_token: Option<String>,
    pub(crate) region: Option<String>,
    pub(crate) endpoint: Option<String>,
}

/// The files that profiles are in.
pub(crate) struct Files {
    pub(crate) credentials: PathBuf,
    pub(crate) config: PathBuf,
}

impl fmt::Debug for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Profile").field("access_key_id", &self.access_key_id).finish_non_exhaustive()
    }
}

impl Profile {
    /// Reads a profile; nothing when neither file has it.
    ///
    /// # Errors
    /// `invalid` when a file is malformed, or the profile's keys come from where Refrain does not look.
    pub(crate) fn read(files: &Files, name: &str) -> Result<Option<Self>> {
        let in_config = if name == "default" { name.to_owned() } else { format!("profile {name}") };
        let (credentials, config) = (load(&files.credentials)?, load(&files.config)?);
        let sections = [
            credentials.as_ref().and_then(|file| file.section(Some(name))),
            config.as_ref().and_then(|file| file.section(Some(in_config.as_str()))),
        ];
        if sections.iter().all(Option::is_none) {
            return Ok(None);
        }
        let get = |key: &str| sections.iter().flatten().find_map(|section| section.get(key)).map(str::to_owned);
        let profile = Self {
            access_key_id: get("aws_access_key_id"),
            secret_access_key: get("aws_secret_access_key"),
            session_token: get("aws_session_token"),
            region: get("region"),
            endpoint: get("endpoint_url"),
        };
        if profile.access_key_id.is_none() {
            for key in ["credential_process", "sso_session", "sso_start_url", "role_arn"] {
                if get(key).is_some() {
                    return Err(Error::invalid(format!(
                        "the keys of the AWS profile `{name}` come by `{key}`, which is not followed"
                    ))
                    .hint(format!("eval \"$(aws configure export-credentials --profile {name} --format env)\"")));
                }
            }
        }
        Ok(Some(profile))
    }
}

fn load(path: &Path) -> Result<Option<Ini>> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io(format!("cannot read `{}`", path.display()), error)),
    };
    // A secret may hold backslashes and quotes.
    let option = ParseOption { enabled_quote: false, enabled_escape: false, ..ParseOption::default() };
    Ini::load_from_str_opt(&text, option).map(Some).map_err(|error| {
        Error::invalid(format!("`{}`, line {}: the file is malformed", path.display(), error.line + 1))
    })
}

#[cfg(test)]
mod tests {
    use super::{Files, Profile};

    #[test]
    fn keys_and_settings_of_a_profile_come_from_both_files() {
        let directory = tempfile::tempdir().unwrap();
        let files =
            Files { credentials: directory.path().join("credentials"), config: directory.path().join("config") };
        assert_eq!(Profile::read(&files, "lake").unwrap(), None);
        let keys =
            "[default]\naws_access_key_id = D\n[lake]\naws_access_key_id = A\naws_secret_access_key = a\\n\"b/=+c\n";
        std::fs::write(&files.credentials, keys).unwrap();
        std::fs::write(&files.config, "[profile lake]\nregion = eu-west-1\nendpoint_url = http://127.0.0.1:9\n")
            .unwrap();
        let profile = Profile::read(&files, "lake").unwrap().unwrap();
        assert_eq!(profile.secret_access_key.as_deref(), Some("a\\n\"b/=+c"));
        assert_eq!((profile.region.as_deref(), profile.access_key_id.as_deref()), (Some("eu-west-1"), Some("A")));
        assert!(!format!("{profile:?}").contains("b/=+c"));
    }

    #[test]
    fn keys_that_come_another_way_are_told() {
        let directory = tempfile::tempdir().unwrap();
        let files =
            Files { credentials: directory.path().join("credentials"), config: directory.path().join("config") };
        std::fs::write(&files.config, "[profile sso]\nsso_session = x\n").unwrap();
        let error = Profile::read(&files, "sso").unwrap_err();
        assert!(error.message.contains("sso_session") && error.hint.unwrap().contains("export-credentials"));
    }
}
