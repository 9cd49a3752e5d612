//! Files and directories as inputs.

use crate::copy::copy_path;
use crate::digest::digest_path;
use refrain_core::{AttemptId, Error, Input, PinMode, PinRequest, PinnedInput, Result};
use std::fs;
use std::io::ErrorKind::NotFound;
use std::path::{Path, PathBuf};

/// The directory of the copies, in the state directory; one directory per attempt that made some.
pub const PINS: &str = "pins";

/// The attempt whose copy a run reads; nothing for an input that is not copied.
pub fn owner_of(pin: &PinnedInput) -> Option<AttemptId> {
    let mut parts = Path::new(pin.snapshot.as_deref()?).iter();
    parts.next().filter(|first| *first == PINS)?;
    parts.next()?.to_str()?.parse().ok()
}

/// Pins files and directories below a state directory.
///
/// # Crash safety
/// Copies are not synced: after a power cut a copy may be torn. [`Input::open`] digests a copy before it hands
/// it out, so that a torn copy is refused and never read.
#[derive(Debug)]
pub struct LocalInput {
    state: PathBuf,
}

impl LocalInput {
    /// Keeps copies in `<state>/pins`.
    pub fn new(state: impl Into<PathBuf>) -> Self {
        Self { state: state.into() }
    }

    fn directory_of(&self, owner: AttemptId) -> PathBuf {
        self.state.join(PINS).join(owner.to_string())
    }
}

impl Input for LocalInput {
    fn version(&self, location: &str) -> Result<String> {
        Ok(digest_path(Path::new(location))?.digest)
    }

    fn pin(&self, request: &PinRequest) -> Result<PinnedInput> {
        let source = Path::new(&request.location);
        let (read, snapshot) = match request.mode {
            PinMode::Verify => (source.to_owned(), None),
            PinMode::Copy => {
                let name = source.file_name().unwrap_or_else(|| "input".as_ref());
                let directory = self.directory_of(request.owner).join(&request.name);
                let copy = directory.join(name);
                if !source.exists() {
                    return Err(Error::invalid(format!("the input `{}` does not exist", source.display())));
                }
                fs::create_dir_all(&directory)
                    .map_err(|error| Error::io(format!("cannot make `{}`", directory.display()), error))?;
                copy_path(source, &copy)?;
                let relative = copy.strip_prefix(&self.state).unwrap_or(&copy).to_string_lossy().into_owned();
                (copy, Some(relative))
            }
        };
        let digest = digest_path(&read)?;
        Ok(PinnedInput {
            name: request.name.clone(),
            location: request.location.clone(),
            version: digest.digest,
            bytes: digest.bytes,
            snapshot,
            lineage: None,
        })
    }

    fn open(&self, pin: &PinnedInput) -> Result<String> {
        let path = match &pin.snapshot {
            Some(snapshot) => self.state.join(snapshot),
            None => PathBuf::from(&pin.location),
        };
        let stands = has_version(&path, pin)? || (pin.snapshot.is_some() && copied_again(&path, pin)?);
        if !stands {
            return Err(Error::refused(format!(
                "the pinned version of the input `{}` ({}) is gone: {} is not what the run started with",
                pin.name,
                pin.location,
                if pin.snapshot.is_some() { "the copy that was kept" } else { "the original" },
            ))
            .hint("repeat the command with `--rerun`: it opens a new run that pins the input as it is now"));
        }
        path.into_os_string().into_string().map_err(|path| {
            Error::invalid(format!("the input path `{}` is not valid UTF-8", Path::new(&path).display()))
        })
    }

    fn verify(&self, pin: &PinnedInput) -> Result<()> {
        if pin.snapshot.is_some() {
            return Ok(());
        }
        let now = digest_path(Path::new(&pin.location)).map(|digest| digest.digest);
        if now.is_ok_and(|version| version == pin.version) {
            return Ok(());
        }
        Err(Error::guard(format!("the input `{}` ({}) changed while the task ran", pin.name, pin.location))
            .hint("repeat the command with `--rerun`, or pin a copy of the input instead of verifying it"))
    }

    fn release(&self, owner: AttemptId) -> Result<()> {
        let directory = self.directory_of(owner);
        match fs::remove_dir_all(&directory) {
            Err(error) if error.kind() != NotFound => {
                Err(Error::io(format!("cannot remove `{}`", directory.display()), error))
            }
            _ => Ok(()),
        }
    }
}

fn has_version(path: &Path, pin: &PinnedInput) -> Result<bool> {
    match digest_path(path) {
        Ok(digest) => Ok(digest.digest == pin.version),
        Err(error) if error.kind == refrain_core::ErrorKind::Invalid => Ok(false),
        Err(error) => Err(error),
    }
}

/// A copy that a power cut tore is made again from the original, if that still is what was pinned.
fn copied_again(copy: &Path, pin: &PinnedInput) -> Result<bool> {
    let original = Path::new(&pin.location);
    if !has_version(original, pin)? {
        return Ok(false);
    }
    let failed = |error| Error::io(format!("cannot make the copy `{}` again", copy.display()), error);
    match fs::symlink_metadata(copy) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(copy).map_err(failed)?,
        Ok(_) => fs::remove_file(copy).map_err(failed)?,
        Err(error) if error.kind() == NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    copy.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
    copy_path(original, copy)?;
    has_version(copy, pin)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(name: &str, source: &Path, mode: PinMode) -> PinRequest {
        let location = source.to_str().unwrap().to_owned();
        PinRequest { name: name.to_owned(), location, owner: AttemptId::from_uuid(uuid::Uuid::from_u128(7)), mode }
    }

    #[test]
    fn ledg_10_a_retry_reads_the_pinned_copy_and_not_newer_input() {
        let root = tempfile::tempdir().unwrap();
        let source = root.path().join("day.csv");
        fs::write(&source, "first").unwrap();
        let input = LocalInput::new(root.path().join("state"));
        let pin = input.pin(&request("day", &source, PinMode::Copy)).unwrap();
        fs::write(&source, "second").unwrap();
        assert_eq!(fs::read_to_string(input.open(&pin).unwrap()).unwrap(), "first");
        assert_ne!(input.version(&pin.location).unwrap(), pin.version);
    }

    #[test]
    fn a_torn_copy_is_refused_and_names_the_way_out() {
        let root = tempfile::tempdir().unwrap();
        let source = root.path().join("tree");
        fs::create_dir_all(source.join("a")).unwrap();
        fs::write(source.join("a/x"), "1").unwrap();
        let input = LocalInput::new(root.path().join("state"));
        let pin = input.pin(&request("tree", &source, PinMode::Copy)).unwrap();
        let copy = PathBuf::from(input.open(&pin).unwrap());
        fs::remove_file(copy.join("a/x")).unwrap();
        assert_eq!(PathBuf::from(input.open(&pin).unwrap()), copy, "the original still is what was pinned");
        assert_eq!(fs::read_to_string(copy.join("a/x")).unwrap(), "1");
        fs::remove_file(copy.join("a/x")).unwrap();
        fs::write(source.join("a/x"), "2").unwrap();
        let error = input.open(&pin).unwrap_err();
        assert_eq!(error.kind, refrain_core::ErrorKind::Refused);
        assert!(error.hint.unwrap().contains("--rerun"));
    }

    #[test]
    fn a_verified_input_that_changes_is_a_failed_guard() {
        let root = tempfile::tempdir().unwrap();
        let source = root.path().join("big");
        fs::write(&source, "first").unwrap();
        let input = LocalInput::new(root.path().join("state"));
        let pin = input.pin(&request("big", &source, PinMode::Verify)).unwrap();
        input.verify(&pin).unwrap();
        fs::write(&source, "other").unwrap();
        assert_eq!(input.verify(&pin).unwrap_err().kind, refrain_core::ErrorKind::Guard);
    }
}
