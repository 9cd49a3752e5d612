//! A walk through a directory in one fixed order, without following links and without keeping the tree in memory.

use crate::local::{Stat, problem};
use refrain_core::Result;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// One entry below the root.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Path below the root.
    pub(crate) path: PathBuf,
    /// The whole path.
    pub(crate) place: PathBuf,
    pub(crate) stat: Stat,
}

/// Whether a walk goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Go {
    On,
    Stop,
}

/// Visits every entry: within a directory in the order of the names' bytes, a directory before what is in it. That is
/// the order of [`Path`]s too.
pub(crate) fn walk(root: &Path, visit: &mut dyn FnMut(Entry) -> Result<Go>) -> Result<Go> {
    descend(root, Path::new(""), visit)
}

fn descend(directory: &Path, below: &Path, visit: &mut dyn FnMut(Entry) -> Result<Go>) -> Result<Go> {
    let names = || -> io::Result<Vec<_>> {
        let mut names = fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()?;
        names.sort();
        Ok(names)
    };
    for name in names().map_err(|error| problem("list", directory, error))? {
        let (path, place) = (below.join(&name), directory.join(&name));
        // What vanishes between the list and the look is found missing by whoever compares.
        let Some(stat) = Stat::of(&place).map_err(|error| problem("look at", &place, error))? else { continue };
        let inner = stat.is_directory().then(|| (place.clone(), path.clone()));
        if visit(Entry { path, place, stat })? == Go::Stop {
            return Ok(Go::Stop);
        }
        if let Some((place, path)) = inner
            && descend(&place, &path, visit)? == Go::Stop
        {
            return Ok(Go::Stop);
        }
    }
    Ok(Go::On)
}
