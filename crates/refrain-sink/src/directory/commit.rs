//! How a directory becomes visible.

use crate::local::{Intent, Layout, Site, Stat, Surprise, VersionLabel, durable, has_label, relative, write_label};
use refrain_core::Result;
use std::fs;
use std::io;
use std::path::Path;

/// Directories bear the target's name themselves where two names can be exchanged; elsewhere a link does (DIR-04). A
/// slot that has a link keeps it.
pub(crate) fn layout(site: &Site<'_>, standing: Option<&Stat>, version: &Path) -> Result<Layout> {
    let link = match standing {
        Some(stat) if stat.is_directory() => false,
        Some(stat) if stat.is_link() && site.version_link().is_some() => true,
        _ => !site.can_exchange()?,
    };
    Ok(if link { Layout::Link { version: site.encode(version)? } } else { Layout::Real })
}

/// Moves the data among the versions, and renames a fresh link over the old one.
pub(crate) fn switch_link(
    site: &Site<'_>,
    staged: &Path,
    version: &Path,
    intent: &Intent,
    surprise: Surprise,
) -> io::Result<()> {
    let standing = Stat::of(&site.target)?;
    if standing.is_some_and(|standing| standing.is_directory()) {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    if standing.is_some() && intent.displaced.is_none() && surprise == Surprise::Refuse {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    if Stat::of(version)?.is_none() {
        site.make_version_directory(version)?;
        durable::while_movable(staged, version, || durable::replace(staged, version))?;
        // Before a link names it: a power cut must not leave a link to nothing.
        version.parent().map_or(Ok(()), durable::sync_directory)?;
    }
    if Stat::of(staged)?.is_some_and(|staged| staged.is_directory()) {
        // Something else lies at the version's place.
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    // The staging place is free now; what a crash left there is such a link too.
    durable::remove(staged)?;
    durable::symlink(&link_text(site, version), staged)?;
    if let Some(standing) = standing {
        keep_link(site, &standing, intent)?;
    }
    durable::replace(staged, &site.target)
}

/// Within the home links are relative, so that the home can be moved.
fn link_text(site: &Site<'_>, version: &Path) -> std::path::PathBuf {
    let home = site.home();
    if site.target.starts_with(home) && version.starts_with(home) {
        relative(site.parent(), version)
    } else {
        version.to_owned()
    }
}

/// What was published lies among the versions already and is only labelled. What else stands at the target gets a
/// second name there, unless it is a link to something that is kept in any case.
fn keep_link(site: &Site<'_>, standing: &Stat, intent: &Intent) -> io::Result<()> {
    let label = site.label_of(intent.displaced.as_ref(), &site.target, standing);
    let shown = if standing.is_link() { site.version_link() } else { None };
    let published = label.attempt.map(|attempt| site.version_place(label.generation, attempt));
    if let Some(published) = published
        && Stat::of(&published)?.is_some()
        && let Some(directory) = published.parent()
    {
        if shown.as_ref() == Some(&published) {
            return write_label(directory, intent.displaced.as_ref().map_or(&label, |displaced| &displaced.version));
        }
        // Only the link was changed.
        write_label(directory, &VersionLabel { drifted: false, ..label.clone() })?;
    }
    match shown.as_deref().and_then(Path::parent) {
        Some(directory) if Stat::of(directory)?.is_some() && !has_label(directory)? => write_label(directory, &label),
        Some(_) => Ok(()),
        None => site.keep_as(&label, |place| durable::link(&site.target, place)),
    }
}

/// Copies a tree into an empty directory. Links are copied as links.
pub(crate) fn copy(from: &Path, into: &Path) -> io::Result<()> {
    let from = from.canonicalize()?;
    copy_tree(&from, into)?;
    fs::set_permissions(into, fs::metadata(&from)?.permissions())
}

fn copy_tree(from: &Path, into: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, copy) = (entry.path(), into.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_symlink() {
            durable::symlink(&fs::read_link(&source)?, &copy)?;
        } else if kind.is_dir() {
            fs::create_dir(&copy)?;
            copy_tree(&source, &copy)?;
            fs::set_permissions(&copy, entry.metadata()?.permissions())?;
        } else if kind.is_file() {
            fs::copy(&source, &copy)?;
        } else {
            // The copy of a pipe would wait for a writer for ever.
            return Err(io::Error::other(format!("`{}` is neither a file nor a directory", source.display())));
        }
    }
    Ok(())
}
