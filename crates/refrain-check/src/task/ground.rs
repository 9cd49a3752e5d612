//! Where a task runs while it is checked: behind a shield, or in a copy.

use super::copied::Copied;
use super::shield::{Place, Shield};
use super::writes::Write;
use refrain::core::{Error, Result};
use serde::Serialize;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// How the real files are kept out of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    /// A shield where the system allows one, else a copy.
    #[default]
    Best,
    /// A shield, or no check at all.
    Shield,
    /// A copy.
    Copy,
}

/// The directories of a task.
#[derive(Debug)]
pub(super) struct Directories {
    pub(super) home: PathBuf,
    /// Where the command runs.
    pub(super) cwd: PathBuf,
    /// Where readers find the outputs.
    pub(super) outputs: Vec<PathBuf>,
    /// Other places that programs like to write to.
    pub(super) others: Vec<PathBuf>,
}

/// What was watched, and how.
#[derive(Clone, Debug, Serialize)]
pub struct Watched {
    /// Whether every write was kept away from the real files.
    pub shielded: bool,
    /// The directories in which every write was seen.
    pub directories: Vec<PathBuf>,
    /// What was not watched or not kept away, and why: a sentence each.
    pub limits: Vec<String>,
}

/// Where the task runs.
#[derive(Debug)]
pub(super) enum Ground {
    Shielded(Shield),
    Copied { copied: Copied, why: String },
}

impl Ground {
    /// Prepares it. The shield needs a process with one thread.
    pub(super) fn prepare(wanted: Wanted, scratch: &Path, directories: &Directories) -> Result<Self> {
        let why = if wanted == Wanted::Copy {
            "a copy was asked for".to_owned()
        } else {
            match Shield::enter(scratch, &places(directories)) {
                Ok(shield) => {
                    // The current directory is still the one below the layers.
                    std::env::set_current_dir(&directories.home)
                        .map_err(|error| failed("enter the home behind the shield", error))?;
                    return Ok(Self::Shielded(shield));
                }
                Err(error) if wanted == Wanted::Shield => {
                    return Err(failed("put a shield around the task", error)
                        .hint("run the check as root or where user namespaces are allowed; without `--isolation shield` a copy is used"));
                }
                Err(error) => format!("there is no shield: {error}"),
            }
        };
        let outside = directories.outputs.iter().filter_map(|output| existing(output)).chain([directories.cwd.clone()]);
        let copied = Copied::make(&directories.home, scratch, outside.collect())?;
        Ok(Self::Copied { copied, why })
    }

    /// Where the command of the task runs.
    pub(super) fn inside(&self, directory: &Path) -> PathBuf {
        match self {
            Self::Shielded(_) => directory.to_owned(),
            Self::Copied { copied, .. } => copied.inside(directory),
        }
    }

    /// Whether the real files cannot be reached.
    pub(super) fn is_shielded(&self) -> bool {
        matches!(self, Self::Shielded(_))
    }

    /// What the task could do to real files.
    pub(super) fn dangers(&self) -> Vec<String> {
        match self {
            Self::Shielded(shield) => shield
                .open
                .iter()
                .map(|(path, why)| format!("real files below `{}` can be written: {why}", path.display()))
                .collect(),
            Self::Copied { why, .. } => vec![format!(
                "the command runs in a copy of the home ({why}): what it writes to absolute paths, it writes to the real files"
            )],
        }
    }

    /// Takes back all writes, where that is possible.
    pub(super) fn reset(&mut self) -> Result<()> {
        match self {
            Self::Shielded(shield) => shield.reset().map_err(|error| failed("renew the shield", error)),
            Self::Copied { .. } => Ok(()),
        }
    }

    /// From now on only later writes are told.
    pub(super) fn mark(&mut self) -> Result<()> {
        match self {
            Self::Shielded(shield) => shield.mark().map_err(|error| failed("look behind the shield", error)),
            Self::Copied { copied, .. } => {
                copied.mark();
                Ok(())
            }
        }
    }

    /// What was written since the last mark.
    pub(super) fn writes(&self) -> Result<Vec<Write>> {
        match self {
            Self::Shielded(shield) => shield.writes().map_err(|error| failed("look behind the shield", error)),
            Self::Copied { copied, .. } => Ok(copied.writes()),
        }
    }

    /// Puts what a run published where readers would find it, so that a task that reads it meets it there.
    pub(super) fn show(&self, published: &Path, place: &Path) -> io::Result<()> {
        let place = self.inside(place);
        if matches!(self, Self::Copied { copied, .. } if copied.watched().iter().any(|real| place.starts_with(real))) {
            return Ok(());
        }
        match fs::symlink_metadata(&place) {
            Ok(found) if found.is_dir() => fs::remove_dir_all(&place)?,
            Ok(_) => fs::remove_file(&place)?,
            Err(_) => {}
        }
        if let Some(parent) = place.parent() {
            fs::create_dir_all(parent)?;
        }
        copy_tree(published, &place)
    }

    pub(super) fn watched(&self) -> Watched {
        match self {
            Self::Shielded(shield) => Watched {
                shielded: true,
                directories: shield.covered().map(Path::to_owned).collect(),
                limits: limits(shield),
            },
            Self::Copied { copied, why } => Watched {
                shielded: false,
                directories: copied.watched().to_vec(),
                limits: vec![
                    format!("the command ran in a copy of the home ({why})"),
                    "absolute paths lead to the real files; files outside these directories are not watched".to_owned(),
                ],
            },
        }
    }
}

/// What the task meets otherwise than it really is, or can really write.
fn limits(shield: &Shield) -> Vec<String> {
    let open = shield.open.iter().map(|(path, why)| format!("`{}` can really be written: {why}", path.display()));
    let refused = shield.refused.iter().map(|(path, why)| format!("`{}` is read-only: {why}", path.display()));
    let always = [
        "files directly in `/` are read-only",
        "/proc, /sys and the devices in /dev are the real ones",
        "services and other machines are not watched",
    ];
    open.chain(refused).chain(shield.unowned.iter().cloned()).chain(always.map(str::to_owned)).collect()
}

fn places(directories: &Directories) -> Vec<Place> {
    let place = |path: &Path, required, whole| Place { path: path.to_owned(), required, whole };
    let work = [&directories.home, &directories.cwd].map(|path| place(path, true, true)).into_iter();
    let above = directories.outputs.iter().filter_map(|output| existing(output));
    let above = above.map(|path| place(&path, true, false));
    let outputs = directories.outputs.iter().map(|path| place(path, false, true));
    work.chain(above).chain(outputs).chain(directories.others.iter().map(|path| place(path, false, false))).collect()
}

/// The nearest directory above a place that exists.
fn existing(place: &Path) -> Option<PathBuf> {
    place.ancestors().skip(1).find(|ancestor| ancestor.is_dir()).map(Path::to_owned)
}

/// Copies a file, a link or a directory.
pub(super) fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(from)?;
    if found.is_symlink() {
        return std::os::unix::fs::symlink(fs::read_link(from)?, to);
    }
    if !found.is_dir() {
        return fs::copy(from, to).map(drop);
    }
    fs::create_dir_all(to)?;
    let mut names: Vec<_> = fs::read_dir(from)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<_>>()?;
    names.sort();
    names.iter().try_for_each(|name| copy_tree(&from.join(name), &to.join(name)))
}

fn failed(action: &str, error: io::Error) -> Error {
    Error::io(format!("cannot {action}"), error)
}
