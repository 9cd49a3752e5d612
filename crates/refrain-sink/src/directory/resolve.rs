//! Whether a directory is what was sealed.

use super::manifest::{self, Comparison, Strictness};
use crate::local::{Depth, Site, Stat, digest_text, identity_of, look, manifest_path};
use refrain_core::{Publication, Result, SealedData};
use std::path::Path;

/// What differs between the target and what was published there; nothing when it is the same.
pub(crate) fn difference(
    site: &Site<'_>,
    publication: &Publication,
    data: &SealedData,
    stat: &Stat,
    depth: Depth,
) -> Result<Option<String>> {
    let target = site.target.display();
    if !stat.is_link() {
        return tree_difference(site, data, &site.target, stat, depth);
    }
    let version = site.version_place(publication.run.generation, publication.attempt);
    match site.version_link() {
        Some(shown) if shown == version => match look(&version)? {
            Some(stat) => tree_difference(site, data, &version, &stat, depth),
            None => Ok(Some(format!("`{target}` is a link to `{}`, which is gone", version.display()))),
        },
        Some(shown) => Ok(Some(format!("`{target}` is a link to `{}`", shown.display()))),
        None => Ok(Some(format!("`{target}` is a symbolic link"))),
    }
}

/// FS-14: whoever commits what another attempt sealed makes sure that all of it is still there.
pub(crate) fn staged_difference(
    site: &Site<'_>,
    data: &SealedData,
    staged: &Path,
    stat: &Stat,
) -> Result<Option<String>> {
    tree_difference(site, data, staged, stat, Depth::Entries)
}

fn tree_difference(
    site: &Site<'_>,
    data: &SealedData,
    root: &Path,
    stat: &Stat,
    depth: Depth,
) -> Result<Option<String>> {
    if !stat.is_directory() {
        return Ok(Some(format!("`{}` is {}", root.display(), stat.noun())));
    }
    if depth == Depth::Root && identity_of(data)?.is_unchanged(stat) {
        return Ok(None);
    }
    let manifest = site.staging_directory(&data.staged).map(|directory| manifest_path(&directory));
    let compared = match manifest {
        Some(manifest) => manifest::compare(root, &manifest, Strictness::SameContent)?,
        None => Comparison::NoManifest,
    };
    match compared {
        Comparison::Same => return Ok(None),
        Comparison::Differs(difference) => return Ok(Some(format!("in `{}`, {difference}", root.display()))),
        Comparison::NoManifest => {}
    }
    // Without a whole manifest only the content can tell.
    let hash = manifest::digest(root, manifest::AS_IT_IS, &mut |_| Ok(()))?;
    let same = digest_text(&hash) == data.digest;
    Ok((!same).then(|| format!("the content of `{}` differs from what was published", root.display())))
}
