//! Sealing a directory.

use super::manifest::{self, Comparison, Strictness};
use super::walk::{Entry, Go, walk};
use crate::local::{
    Measured, Owner, Site, Stat, changed, demand_unwritten, digest_text, durable, incomplete, look, manifest_path,
    problem,
};
use refrain_core::{Error, Guards, Result};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::thread;

/// Up to so many files and directories are made durable one by one; more with one call for the whole filesystem.
const MOST_SINGLE: usize = 48;

/// What the first look at the staged tree found.
#[derive(Debug, Default)]
struct Survey {
    bytes: u64,
    files: u64,
    /// Files and directories, of many only the first.
    to_sync: Vec<(PathBuf, bool)>,
    /// For each inode with several names: how many it has, how many of them were seen, and one of them.
    linked: HashMap<(u32, u32, u64), (u32, u32, PathBuf)>,
}

/// Checks, hashes and makes durable the staged tree, and writes its manifest.
pub(crate) fn seal(
    site: &Site<'_>,
    directory: &Path,
    staged: &Path,
    guards: &Guards,
    owner: &Owner,
) -> Result<Measured> {
    let survey = survey(site, staged)?;
    let measured = Measured { digest: String::new(), bytes: survey.bytes, files: survey.files };
    site.demand_size(&measured, guards)?;
    let witness = site.take_witness(staged);
    let path = manifest_path(directory);
    // Writing back and hashing need different parts of the machine.
    let (written, synced) = thread::scope(|scope| {
        let sync = scope.spawn(|| sync(&survey, staged, witness));
        let written = manifest::write(staged, &path, owner, &demand_unwritten);
        let synced = sync.join().unwrap_or_else(|_| Err((staged.to_owned(), io::Error::other("a thread ended early"))));
        (written, synced)
    });
    synced.map_err(|(path, error)| incomplete(&path, error))?;
    let (hash, list) = written?;
    durable::sync_file(&list).map_err(|error| incomplete(&path, error))?;
    durable::sync_directory(directory).map_err(|error| incomplete(directory, error))?;
    match manifest::compare(staged, &path, Strictness::Untouched)? {
        Comparison::Same => Ok(Measured { digest: digest_text(&hash), ..measured }),
        Comparison::Differs(difference) => Err(changed(staged).because(difference)),
        Comparison::NoManifest => Err(changed(&path)),
    }
}

fn survey(site: &Site<'_>, staged: &Path) -> Result<Survey> {
    let mut survey = Survey::default();
    let root = look(staged)?.ok_or_else(|| changed(staged))?;
    let real = staged.canonicalize().map_err(|error| problem("look at", staged, error))?;
    survey.to_sync.push((staged.to_owned(), true));
    walk(staged, &mut |entry| {
        survey.add(site, &root, &real, entry)?;
        Ok(Go::On)
    })?;
    if let Some((links, seen, name)) = survey.linked.values().find(|(links, seen, _)| seen < links) {
        return Err(refuse(site, name, &format!(
            "has {links} names (hard links), {} of them outside the output: a write there would change the publication",
            links - seen
        ))
        .hint("copy the file into the output instead of linking it"));
    }
    Ok(survey)
}

impl Survey {
    fn add(&mut self, site: &Site<'_>, root: &Stat, real: &Path, entry: Entry) -> Result<()> {
        let stat = entry.stat;
        if !stat.same_mount(root) {
            return Err(refuse(site, &entry.path, "lies on another filesystem: something is mounted in the output"));
        }
        if stat.is_link() {
            return demand_inner_link(site, real, &entry);
        }
        if !stat.is_file() && !stat.is_directory() {
            return Err(refuse(
                site,
                &entry.path,
                &format!("is {}; an output holds files and directories", stat.noun()),
            ));
        }
        if stat.is_file() {
            self.bytes += stat.size;
            self.files += 1;
            if stat.links > 1 {
                let linked = self.linked.entry((stat.dev.0, stat.dev.1, stat.ino));
                linked.or_insert((stat.links, 0, entry.path)).1 += 1;
            }
        }
        if self.to_sync.len() <= MOST_SINGLE {
            self.to_sync.push((entry.place, stat.is_directory()));
        }
        Ok(())
    }
}

/// DIR-07: a link stays only if it means the same wherever the output is moved to.
fn demand_inner_link(site: &Site<'_>, real: &Path, entry: &Entry) -> Result<()> {
    let text = fs::read_link(&entry.place).map_err(|error| problem("read the link", &entry.place, error))?;
    let refused = |why: &str| {
        Err(refuse(site, &entry.path, &format!("is a symbolic link to `{}`, {why}", text.display()))
            .hint("link within the output by relative paths, or copy what the link names"))
    };
    let mut depth = entry.path.components().count().saturating_sub(1);
    for component in text.components() {
        match component {
            Component::Normal(_) => depth += 1,
            Component::CurDir => {}
            Component::ParentDir if depth > 0 => depth -= 1,
            Component::ParentDir => return refused("which leads out of the output"),
            Component::RootDir | Component::Prefix(_) => return refused("which is an absolute path"),
        }
    }
    match entry.place.canonicalize() {
        Ok(destination) if destination.starts_with(real) => Ok(()),
        Ok(_) => refused("which leads out of the output"),
        Err(_) => refused("which leads nowhere"),
    }
}

fn refuse(site: &Site<'_>, path: &Path, why: &str) -> Error {
    Error::guard(format!("in the output for `{}`, `{}` {why}", site.target.display(), path.display()))
}

/// Makes the tree durable: files before the directories that name them, the deepest first.
fn sync(survey: &Survey, staged: &Path, witness: Option<File>) -> Result<(), (PathBuf, io::Error)> {
    if survey.to_sync.len() <= MOST_SINGLE {
        return sync_singly(&survey.to_sync);
    }
    if reports_lost_writes() {
        let witness = witness.map_or_else(|| durable::open_directory(staged), Ok);
        return witness.and_then(durable::sync_filesystem).map_err(|error| (staged.to_owned(), error));
    }
    let mut all = vec![(staged.to_owned(), true)];
    walk(staged, &mut |entry| {
        if !entry.stat.is_link() {
            all.push((entry.place, entry.stat.is_directory()));
        }
        Ok(Go::On)
    })
    .map_err(|error| (staged.to_owned(), io::Error::other(error)))?;
    sync_singly(&all)
}

fn sync_singly(paths: &[(PathBuf, bool)]) -> Result<(), (PathBuf, io::Error)> {
    let of_kind = |directories: bool| paths.iter().filter(move |(_, directory)| *directory == directories);
    for (path, _) in of_kind(false) {
        durable::open_file(path).and_then(|file| durable::sync_file(&file)).map_err(|error| (path.clone(), error))?;
    }
    for (path, _) in of_kind(true).rev() {
        durable::sync_directory(path).map_err(|error| (path.clone(), error))?;
    }
    Ok(())
}

/// Since Linux 5.8 syncfs(2) reports failed writeback; before, it said that all is well.
fn reports_lost_writes() -> bool {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (5, 8)
}
