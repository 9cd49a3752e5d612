//! Service files: named groups of parameters (<https://www.postgresql.org/docs/current/libpq-pgservice.html>).

use super::environment::{Environment, path, text};
use super::parameter;
use super::text::Given;
use refrain_core::{Error, Result};
use std::io;
use std::path::{Path, PathBuf};

/// Where the services of the whole machine are, as Debian builds libpq.
const OF_THE_MACHINE: &str = "/etc/postgresql-common";

/// Looks a service up, first in the user's file, then in the machine's. Returns what it sets and where it stands.
///
/// # Errors
/// `invalid` when it is in neither file, or cannot be read.
pub(super) fn look_up(
    service: &str,
    file: Option<&str>,
    home: Option<&Path>,
    environment: &Environment<'_>,
) -> Result<(Given, PathBuf)> {
    let own = file.map(PathBuf::from).or_else(|| home.map(|home| home.join(".pg_service.conf")));
    let directory = path(environment, "PGSYSCONFDIR")?.unwrap_or_else(|| PathBuf::from(OF_THE_MACHINE));
    let mut looked = vec![];
    for (place, required) in
        own.map(|own| (own, file.is_some())).into_iter().chain([(directory.join("pg_service.conf"), false)])
    {
        match std::fs::read_to_string(&place) {
            Ok(content) => {
                if let Some(given) = read(&content, service, &place)? {
                    return Ok((given, place));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound && !required => {}
            Err(error) => {
                return Err(Error::invalid(format!("the service file `{}` cannot be read", place.display()))
                    .because(error)
                    .hint("it is named by PGSERVICEFILE or `servicefile`"));
            }
        }
        looked.push(place);
    }
    let looked: Vec<String> = looked.iter().map(|place| format!("`{}`", place.display())).collect();
    Err(Error::invalid(format!("there is no service `{service}`: looked into {}", looked.join(" and ")))
        .hint(format!("write a section [{service}] with host=, dbname=, user= into one of them")))
}

/// What a file sets for a service; nothing when it does not have it.
fn read(content: &str, service: &str, place: &Path) -> Result<Option<Given>> {
    let mut given: Option<Given> = None;
    for (index, line) in content.lines().enumerate() {
        let wrong = |reason: String| Error::invalid(format!("`{}`, line {}: {reason}", place.display(), index + 1));
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(header) = line.strip_prefix('[') {
            if given.is_some() {
                break;
            }
            if header.strip_suffix(']') == Some(service) {
                given = Some(Given::new());
            }
            continue;
        }
        let Some(given) = &mut given else { continue };
        if line.starts_with("ldap:") {
            return Err(wrong("a directory service (LDAP) is not asked; write host= and dbname= here".to_owned()));
        }
        let (name, value) = line.split_once('=').ok_or_else(|| wrong("it has no `=`".to_owned()))?;
        let parameter = parameter::named(name.trim_end())
            .map_err(|error| error.within(wrong(String::new()).message.trim_end_matches(": ")))?;
        if matches!(parameter.name, "service" | "servicefile") {
            return Err(wrong("a service cannot name another one".to_owned()));
        }
        // As libpq has it: the first one of a section counts.
        if !given.iter().any(|(known, _)| *known == parameter.name) {
            given.push((parameter.name, value.trim_start().to_owned()));
        }
    }
    Ok(given)
}

/// The name of a service and of its file, as the environment has them.
pub(super) fn of_environment(environment: &Environment<'_>) -> Result<(Option<String>, Option<String>)> {
    Ok((text(environment, "PGSERVICE")?, text(environment, "PGSERVICEFILE")?))
}
