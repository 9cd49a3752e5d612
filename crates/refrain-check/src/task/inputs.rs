//! The inputs of a check: pinned once, the same content for every run, in two orders of creation.

use super::ground::copy_tree;
use super::shield::MEMORY;
use refrain::Task;
use refrain::core::{AttemptId, Error, Input, NoProbe, Partition, PinMode, PinRequest, Result};
use refrain::task::InputSource;
use refrain_input::LocalInput;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use walkdir::WalkDir;

/// Most that is laid into memory to have it listed in another order.
const MOST_IN_MEMORY: u64 = 256 << 20;

/// An input as the runs of a check read it.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) name: String,
    /// The first run reads it here.
    pub(super) first: PathBuf,
    /// The second run here: the same content at another place.
    pub(super) second: PathBuf,
}

/// All inputs of a task.
#[derive(Debug, Default)]
pub(super) struct Inputs {
    pub(super) held: Vec<Held>,
    /// Whether directories are listed in another order in the second run; `None` when there is none.
    pub(super) reordered: Option<bool>,
}

impl Inputs {
    /// Copies every input into the scratch directory.
    ///
    /// # Errors
    /// Those of the inputs: one that is missing, or cannot be read.
    pub(super) fn hold(
        task: &Task,
        partition: &Partition,
        scratch: &Path,
        shielded: bool,
        owner: AttemptId,
        published: &dyn Fn(&str) -> Result<Option<PathBuf>>,
    ) -> Result<Self> {
        let pins = LocalInput::new(scratch.join("inputs"), Arc::new(NoProbe));
        let mut inputs = Self::default();
        for spec in &task.inputs {
            let (location, mode) = match &spec.source {
                InputSource::Path { location, mode } => {
                    (task.base.join(location.render(partition, &task.params)?), *mode)
                }
                InputSource::Publication(_) => match published(&spec.name)? {
                    Some(place) => (place, PinMode::Copy),
                    // Where a chain starts there is nothing to read, in the scratch home as in the real one.
                    None => continue,
                },
            };
            let name = spec.name.clone();
            if mode == PinMode::Verify {
                // Declared as too large to copy: read where it is, and found if it changes.
                inputs.held.push(Held { name, first: location.clone(), second: location });
                continue;
            }
            let location = location.into_os_string().into_string().map_err(|path| {
                Error::invalid(format!("input `{name}`: the path `{}` is not valid UTF-8", Path::new(&path).display()))
            })?;
            let pin = pins.pin(&PinRequest { name: name.clone(), location, owner, mode, outputs: Vec::new() })?;
            let first = PathBuf::from(pins.open(&pin)?);
            inputs.held.push(again(&name, first, scratch, shielded, &mut inputs.reordered)?);
        }
        Ok(inputs)
    }

    /// What the first or the second run reads.
    pub(super) fn places(&self, second: bool) -> impl Iterator<Item = (&str, &Path)> {
        self.held.iter().map(move |held| (held.name.as_str(), if second { &*held.second } else { &*held.first }))
    }
}

/// Makes the second copy of an input; of a directory in memory where that is possible, because a filesystem in memory
/// lists what was made last first (Linux, fs/libfs.c), and most on disk list by hash whatever the order of creation.
fn again(name: &str, first: PathBuf, scratch: &Path, shielded: bool, reordered: &mut Option<bool>) -> Result<Held> {
    let base = first.file_name().unwrap_or_else(|| "input".as_ref()).to_owned();
    let failed = |error| Error::io(format!("cannot copy the input `{name}`"), error);
    if !first.is_dir() {
        let root = scratch.join("inputs-again").join(name);
        fs::create_dir_all(&root).map_err(failed)?;
        let second = root.join(base);
        copy_tree(&first, &second).map_err(failed)?;
        return Ok(Held { name: name.to_owned(), first, second });
    }
    let in_memory = shielded && bytes_of(&first) <= MOST_IN_MEMORY;
    *reordered = Some(in_memory && reordered.unwrap_or(true));
    let above = if in_memory { scratch.join(MEMORY) } else { scratch.to_owned() };
    let [forwards, root] = ["inputs-first", "inputs-again"].map(|order| above.join(order).join(name));
    fs::create_dir_all(&forwards).and_then(|()| fs::create_dir_all(&root)).map_err(failed)?;
    let (one, other) = (forwards.join(&base), root.join(&base));
    copy_in_order(&first, &one, false).and_then(|()| copy_in_order(&first, &other, true)).map_err(failed)?;
    Ok(Held { name: name.to_owned(), first: one, second: other })
}

fn bytes_of(directory: &Path) -> u64 {
    WalkDir::new(directory).into_iter().flatten().filter_map(|entry| Some(entry.metadata().ok()?.len())).sum()
}

fn copy_in_order(from: &Path, to: &Path, backwards: bool) -> io::Result<()> {
    if !fs::symlink_metadata(from)?.is_dir() {
        return copy_tree(from, to);
    }
    fs::create_dir(to)?;
    let mut names: Vec<_> = fs::read_dir(from)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<_>>()?;
    names.sort();
    if backwards {
        names.reverse();
    }
    names.iter().try_for_each(|name| copy_in_order(&from.join(name), &to.join(name), backwards))
}
