//! Copies of what was published, for whoever wants the files: one version of one output, made sure of.

use crate::boundary::Boundary;
use crate::ids;
use crate::plan::Plan;
use refrain_core::{Error, ErrorKind, Generation, Key, Result};
use refrain_sink::{drop_copy, hand_out};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What was copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// The output's name.
    pub output: String,
    /// The version.
    pub version: Generation,
    /// Where it was published.
    pub location: String,
}

impl Boundary {
    /// Copies one version of an output to a path of this machine that must be free: a file, or a directory for an output
    /// that is one, or a prefix. The copy is compared with what was published.
    ///
    /// # Errors
    /// `invalid` when it is not published, the version is not kept, several outputs are meant or the path is taken;
    /// `unsupported` for a table; `corrupt` or `refused` when what stands there is not what was published.
    ///
    /// # Crash safety
    /// The path has the whole copy or nothing. A crash leaves a directory `.NAME.refrain-…` beside it.
    pub fn fetch(&self, key: &Key, output: Option<&str>, version: Option<Generation>, into: &Path) -> Result<Fetched> {
        let name = into.file_name().ok_or_else(|| {
            Error::invalid(format!("`{}` names no file and no directory that could be made", into.display()))
        })?;
        if into.symlink_metadata().is_ok() {
            return Err(Error::invalid(format!("`{}` exists, and nothing is overwritten", into.display()))
                .hint("name a path that is free"));
        }
        let found = self.versions_to_read(&self.plan_to_read(key)?, output, version)?;
        let found = found.into_iter().map(|(output, read)| Ok((output, read?))).collect::<Result<Vec<_>>>()?;
        let [(output, version)] = found.as_slice() else {
            let names: Vec<_> = found.iter().map(|(output, _)| output.name.as_str()).collect();
            return Err(Error::invalid(format!("`{key}` has several outputs, and one is copied at a time"))
                .hint(format!("name one of them after the task: {}", names.join(", "))));
        };
        let location = self.locate(&output.slot);
        if self.sinks.is_table(&output.slot) {
            return Err(Error::new(ErrorKind::Unsupported, format!("{location} is a table, which no files hold"))
                .hint("read it by a query, or copy it out with the database's own tools"));
        }
        let beside = beside(into, name);
        let copied = Self::copy_to(&beside, name, |place| {
            if self.sinks.is_tree(&output.slot) {
                fs::create_dir(place).map_err(|error| Error::io(format!("cannot make `{place}`"), error))?;
            }
            self.sinks.of(&output.slot)?.restore(&output.slot, version.generation, place)
        });
        let copied = copied.and_then(|copy| hand_out(&copy, into));
        // What was made is in the way of nobody; what became of the copy is what counts.
        let dropped = drop_copy(&beside);
        copied?;
        dropped?;
        Ok(Fetched { output: output.name.clone(), version: version.generation, location })
    }

    /// What was published is known by its key; only what never was needs the declaration.
    pub(crate) fn plan_to_read(&self, key: &Key) -> Result<Plan> {
        match (self.store.key(key)?.and_then(|state| state.run), self.home.config.declared(&key.task)) {
            (None, Some(task)) => Plan::new(task, &task.partitions.partition_of_key(&key.partition)?, &self.sinks),
            _ => self.bare_plan(key),
        }
    }

    fn copy_to(beside: &Path, name: &OsStr, copy: impl FnOnce(&str) -> Result<()>) -> Result<PathBuf> {
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => Error::invalid(format!("there is no directory for `{}`", beside.display()))
                .hint("make the directory above first"),
            _ => Error::io(format!("cannot make `{}`", beside.display()), error),
        };
        fs::create_dir(beside).map_err(failed)?;
        let place = beside.join(name);
        let text = place
            .to_str()
            .ok_or_else(|| Error::invalid(format!("the path `{}` is not valid UTF-8", place.display())))?;
        copy(text)?;
        Ok(place)
    }
}

fn beside(into: &Path, name: &OsStr) -> PathBuf {
    let mut hidden = OsStr::new(".").to_owned();
    hidden.push(name);
    hidden.push(format!(".refrain-{}", ids::attempt()));
    into.with_file_name(hidden)
}
