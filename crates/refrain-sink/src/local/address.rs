//! Canonical names of local targets: the same slot whichever way it is spelled.

use super::nested;
use super::problem::problem;
use super::stat::Stat;
use super::volume::{HOME_DIRECTORY, Volume};
use refrain_core::{Error, Result};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// Marks a place inside the home, so that the home can be moved or mounted elsewhere.
const HOME_PREFIX: &str = "home:";

/// Writes a path as it is kept in records: `home:` and the path below the home, or an absolute path.
pub(crate) fn encode(home: &Path, path: &Path) -> Result<String> {
    let text = |path: &Path| {
        path.to_str().map(str::to_owned).ok_or_else(|| {
            Error::invalid(format!("the path `{}` is not valid UTF-8", path.display())).hint(
                "give targets and the home names in UTF-8; the files inside a directory output may have any names",
            )
        })
    };
    match path.strip_prefix(home) {
        Ok(inside) => Ok(format!("{HOME_PREFIX}{}", text(inside)?)),
        Err(_) => text(path),
    }
}

/// Reads what [`encode`] wrote. Nothing when it is not such a text.
pub(crate) fn decode(home: &Path, text: &str) -> Option<PathBuf> {
    let inside_only = |path: &Path| path.components().all(|part| matches!(part, Component::Normal(_)));
    if let Some(inside) = text.strip_prefix(HOME_PREFIX) {
        return inside_only(Path::new(inside)).then(|| home.join(inside));
    }
    let inside = text.strip_prefix('/')?;
    inside_only(Path::new(inside)).then(|| PathBuf::from(text))
}

/// Resolves what a user wrote to the path that a publication replaces.
///
/// Parents are resolved as far as they exist; so is a link in the last place (a publication through a link replaces
/// what the link names), except one that is itself a publication.
pub(crate) fn resolve(spec: &str, base: &Path, home: &Path, volumes: &[Volume]) -> Result<PathBuf> {
    let refuse = |why: &str| Error::invalid(format!("`{spec}` cannot be a target: {why}"));
    if spec.is_empty() || spec.contains('\0') {
        return Err(refuse(if spec.is_empty() { "it is empty" } else { "it holds a NUL byte" }));
    }
    let path = resolve_links(spec, &base.join(spec), volumes)?;
    if path == home {
        return Err(refuse("it is the home itself"));
    }
    if home.starts_with(&path) || volumes.iter().any(|volume| volume.root.starts_with(&path)) {
        return Err(refuse("the home or a staging directory lies inside it"));
    }
    let inside_state = |root: &Path| path.starts_with(root);
    if inside_state(&home.join(HOME_DIRECTORY)) || volumes.iter().any(|volume| inside_state(&volume.root)) {
        return Err(refuse("it lies inside Refrain's own state"));
    }
    if let Some(state) = state_above(&path) {
        return Err(refuse(&format!("it lies inside the state of another home, `{}`", state.display())));
    }
    Ok(path)
}

/// The state of a home that a path lies in.
pub fn state_above(path: &Path) -> Option<&Path> {
    path.ancestors().find(|outer| is_state(outer))
}

/// Whether a directory is the state of a home: that of any home has the heads, or the database, or both.
fn is_state(directory: &Path) -> bool {
    directory.file_name() == Some(OsStr::new(HOME_DIRECTORY))
        && ["slots", "state.db"].iter().any(|part| directory.join(part).exists())
}

fn resolve_links(spec: &str, path: &Path, volumes: &[Volume]) -> Result<PathBuf> {
    let mut resolved = PathBuf::new();
    let mut components = path.components().peekable();
    while let Some(component) = components.next() {
        match component {
            Component::Prefix(_) | Component::CurDir => {}
            Component::RootDir => resolved.push("/"),
            Component::ParentDir => {
                resolved.pop();
            }
            Component::Normal(name) => {
                let last = components.peek().is_none();
                resolved = step(spec, &resolved.join(name), last, volumes)?;
            }
        }
    }
    match resolved.file_name() {
        Some(_) => Ok(resolved),
        None => Err(Error::invalid(format!("`{spec}` cannot be a target: it is the root directory"))),
    }
}

fn step(spec: &str, path: &Path, last: bool, volumes: &[Volume]) -> Result<PathBuf> {
    let Some(stat) = Stat::of(path).map_err(|error| problem("look at", path, error))? else {
        return Ok(path.to_owned());
    };
    if stat.is_link() {
        match version_link(path, volumes) {
            Some(_) if last => return Ok(path.to_owned()),
            Some(version) => return Err(nested::below_version_link(spec, path, &version, volumes)),
            None => {}
        }
        return path.canonicalize().map_err(|error| unresolvable(spec, path, error));
    }
    if !last && !stat.is_directory() {
        return Err(Error::invalid(format!(
            "`{spec}` cannot be a target: nothing can lie below `{}`, which is {}",
            path.display(),
            stat.noun()
        )));
    }
    Ok(path.to_owned())
}

fn unresolvable(spec: &str, link: &Path, error: io::Error) -> Error {
    let to = std::fs::read_link(link).map(|to| to.display().to_string()).unwrap_or_default();
    let why = if error.kind() == io::ErrorKind::NotFound { "which does not exist" } else { "which leads nowhere" };
    Error::invalid(format!("`{spec}` cannot be a target: `{}` is a symbolic link to `{to}`, {why}", link.display()))
        .hint("remove the link, or make what it points to")
        .because(error)
}

/// Where a link that is itself a publication leads: into the versions of a volume. Nothing for other links.
pub(crate) fn version_link(link: &Path, volumes: &[Volume]) -> Option<PathBuf> {
    let destination = std::fs::read_link(link).ok()?;
    let destination = normalised(&link.parent()?.join(destination));
    volumes.iter().any(|volume| destination.starts_with(volume.versions())).then_some(destination)
}

/// Without `.` and `..`, by the letter: right for paths whose parents are no links.
fn normalised(path: &Path) -> PathBuf {
    let mut result = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                result.pop();
            }
            other => result.push(other),
        }
    }
    result
}

/// The path from one directory to another place, by the letter; both absolute and without links.
pub(crate) fn relative(from_directory: &Path, to: &Path) -> PathBuf {
    let from: Vec<_> = from_directory.components().collect();
    let into: Vec<_> = to.components().collect();
    let shared = from.iter().zip(&into).take_while(|(one, other)| one == other).count();
    let mut path: PathBuf = from.iter().skip(shared).map(|_| Component::ParentDir).collect();
    path.extend(into.iter().skip(shared));
    path
}

/// Whether a spec names a directory output.
pub(crate) fn names_directory(spec: &str) -> bool {
    spec.ends_with('/')
}

/// Bytes of a path as ASCII without blanks, for records that hold names of any bytes.
pub(crate) fn escape(path: &OsStr) -> String {
    let mut text = String::with_capacity(path.len());
    for byte in path.as_bytes() {
        if byte.is_ascii_graphic() && *byte != b'%' {
            text.push(char::from(*byte));
        } else {
            text.push('%');
            text.extend([byte >> 4, byte & 15].map(|digit| char::from_digit(digit.into(), 16).unwrap_or('0')));
        }
    }
    text
}
