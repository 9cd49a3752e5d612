//! The seal (PROTOCOL 5.8): guards, metadata, durability, and what was sealed. After it nothing may change.

use super::problem::{look, mount_of, problem};
use super::site::Site;
use super::staging::Owner;
use super::standing::{Depth, Standing};
use super::stat::Stat;
use super::{Identity, LocalKind, durable, provenance};
use refrain_core::{Error, Guards, Result, SealedData, StagingId, counted};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

/// What the seal found in the staged output.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub(crate) digest: String,
    pub(crate) bytes: u64,
    pub(crate) files: u64,
}

impl Measured {
    /// What was sealed.
    pub(crate) fn of(data: &SealedData) -> Self {
        Self { digest: data.digest.clone(), bytes: data.bytes, files: data.files }
    }
}

impl Site<'_> {
    /// What was sealed, and what whoever publishes it should be told.
    ///
    /// # Crash safety
    /// When it returns, the staged output, its names and the head's name are durable.
    pub(crate) fn seal(&self, staging: &StagingId, guards: &Guards) -> Result<(SealedData, Option<String>)> {
        let directory = self.attempt_directory(staging)?;
        let staged = directory.join(self.base_name());
        self.demand_only_declared(&directory)?;
        let stat = look(&staged)?.ok_or_else(|| self.no_output(&staged))?;
        self.demand_kind(&stat)?;
        if stat.fixed || stat.is_mount_point() {
            let what = if stat.fixed { "has the immutable or the append-only attribute" } else { "is a mount point" };
            return Err(Error::guard(format!(
                "the staged output `{}` {what}: it cannot be published",
                staged.display()
            )));
        }
        self.demand_room(&directory)?;
        provenance::attach(&staged, &guards.provenance)
            .map_err(|error| problem("attach the provenance to", &staged, error))?;
        let remark = self.take_over(&staged, &stat)?;
        let measured = match self.kind() {
            LocalKind::File => crate::file::seal(self, &directory, &staged, guards)?,
            LocalKind::Directory => {
                crate::directory::seal(self, &directory, &staged, guards, &Owner::new(self.slot, staging))?
            }
        };
        self.note_edits()?;
        let slots = self.volume.slots();
        durable::sync_directory(&slots).map_err(|error| incomplete(&slots, error))?;
        self.sink.memory().unsynced.remove(&self.head_path());
        let sealed = look(&staged)?.ok_or_else(|| changed(&staged))?;
        let data = SealedData {
            slot: self.slot.clone(),
            staged: self.encode(&staged)?,
            digest: measured.digest,
            bytes: measured.bytes,
            files: measured.files,
            rows: None,
            identity: Identity::of(&sealed).to_string(),
        };
        Ok((data, remark))
    }

    /// 13.2: every entry of the directory that is to be replaced is looked at here, because the commit looks at its root alone
    /// to cost the same for any number of files.
    fn note_edits(&self) -> Result<()> {
        if self.kind() == LocalKind::Directory
            && matches!(self.standing(self.read()?.as_ref(), Depth::Entries)?, Standing::Drifted(..))
        {
            self.sink.memory().edited.insert(self.head_path());
        }
        Ok(())
    }

    fn demand_only_declared(&self, directory: &Path) -> Result<()> {
        const MOST_NAMED: usize = 5;
        let list = || -> io::Result<Vec<String>> {
            let mut others = Vec::new();
            for entry in fs::read_dir(directory)? {
                let name = entry?.file_name();
                if name != self.base_name() {
                    others.push(format!("`{}`", name.display()));
                }
            }
            others.sort();
            Ok(others)
        };
        let others = list().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                Error::guard(format!("the staging directory `{}` was removed while the task ran", directory.display()))
            }
            _ => problem("list", directory, error),
        })?;
        if others.is_empty() {
            return Ok(());
        }
        let named = others.iter().take(MOST_NAMED).cloned().collect::<Vec<_>>().join(", ");
        let more = if others.len() > MOST_NAMED { ", ..." } else { "" };
        Err(Error::guard(format!(
            "the task made files outside the declared output `{}`: {named}{more}",
            self.target.display()
        ))
        .hint("write only to `$REFRAIN_OUT`, and keep temporary files elsewhere, such as in `$TMPDIR`"))
    }

    fn no_output(&self, staged: &Path) -> Error {
        Error::guard(format!("the task made no output for `{}`", self.target.display()))
            .hint(format!("the task must write to the path in `REFRAIN_OUT` (here it was `{}`)", staged.display()))
    }

    fn demand_kind(&self, stat: &Stat) -> Result<()> {
        let wanted = match self.kind() {
            LocalKind::File if stat.is_file() => return Ok(()),
            LocalKind::Directory if stat.is_directory() => return Ok(()),
            LocalKind::File => "a file",
            LocalKind::Directory => "a directory",
        };
        let hint = match self.kind() {
            LocalKind::File if stat.is_directory() => "a directory output is declared with a trailing `/`",
            LocalKind::Directory if stat.is_file() => "a file output is declared without a trailing `/`",
            LocalKind::Directory => "make the directory itself at `$REFRAIN_OUT`",
            LocalKind::File => "write the file itself to `$REFRAIN_OUT`",
        };
        Err(Error::guard(format!(
            "the output for `{}` is declared as {wanted}, and the task made {}",
            self.target.display(),
            stat.noun()
        ))
        .hint(hint))
    }

    /// PROC-08: many programs end well although their last writes failed. On a full filesystem nobody can tell.
    fn demand_room(&self, directory: &Path) -> Result<()> {
        const FULL: u64 = 64 * 1024;
        let state = rustix::fs::statvfs(directory).map_err(|error| problem("look at", directory, error.into()))?;
        // Some blocks are kept for the administrator alone.
        let blocks = if rustix::process::geteuid().is_root() { state.f_bfree } else { state.f_bavail };
        if state.f_blocks == 0 || blocks.saturating_mul(state.f_frsize) >= FULL {
            return Ok(());
        }
        let mount = mount_of(directory);
        Err(Error::guard(format!(
            "the filesystem at `{mount}` is full: the output for `{}` may be cut off, whatever the task says",
            self.target.display()
        ))
        .hint(format!("make room on `{mount}`, then repeat the call")))
    }

    /// The guards on sizes.
    pub(crate) fn demand_size(&self, measured: &Measured, guards: &Guards) -> Result<()> {
        let target = self.target.display();
        let empty = match self.kind() {
            LocalKind::File => measured.bytes == 0,
            LocalKind::Directory => measured.files == 0,
        };
        if empty && !guards.allow_empty {
            return Err(Error::guard(format!("the output for `{target}` is empty"))
                .hint("if an empty output is right, say `allow_empty = true` of it in refrain.toml, or `refrain run --allow-empty`"));
        }
        if let Some(least) = guards.min_bytes.filter(|least| measured.bytes < *least) {
            return Err(Error::guard(format!(
                "the output for `{target}` has {}, and `min_bytes` is {least}",
                counted(measured.bytes, "byte")
            )));
        }
        if let Some(least) = guards.min_files.filter(|least| measured.files < *least) {
            return Err(Error::guard(format!(
                "the output for `{target}` has {}, and `min_files` is {least}",
                counted(measured.files, "file")
            )));
        }
        Ok(())
    }
}

/// PROC-11: what somebody may still write to is not sealed. The command's own processes have ended; whoever else has the file
/// open, a service that the command called for one, gets a moment to close it.
pub(crate) fn demand_unwritten(file: &File, staged: &Path) -> Result<()> {
    const LOOKS: u32 = 100;
    const PAUSE: Duration = Duration::from_millis(10);
    for _ in 0..LOOKS {
        if refrain_writers::is_written(file) != Some(true) {
            return Ok(());
        }
        sleep(PAUSE);
    }
    let staged = staged.display();
    Err(Error::guard(format!(
        "the staged output `{staged}` is still open for writing, by a process that is none of the command's"
    ))
    .hint(format!(
        "let the command wait for whatever writes for it (a container, a service) to close its files; to see what it \
         is: fuser -v {staged}"
    )))
}

/// FS-13: after a failed fsync nobody knows which pages reached the disk, and a second one would not tell. The attempt
/// fails, and its staging is thrown away.
pub(crate) fn incomplete(path: &Path, error: io::Error) -> Error {
    let Error { message, hint, .. } = problem("make durable", path, clone_of(&error));
    let failure = Error::new(
        refrain_core::ErrorKind::Internal,
        format!("{message}: the staged data may be incomplete, and is not used"),
    );
    failure
        .hint(hint.unwrap_or_else(|| "look for errors of the disk in the system's log, then run again".to_owned()))
        .because(error)
}

fn clone_of(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error)
}

/// Somebody still writes.
pub(crate) fn changed(path: &Path) -> Error {
    Error::guard(format!("`{}` changed while it was being sealed", path.display()))
        .hint("a process of the task still writes there: let the task wait for its children before it ends")
}
