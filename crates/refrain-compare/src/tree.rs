//! Directory trees: their entries, paired by name.

use crate::error::{Error, Result};
use crate::file::{self, Files};
use crate::names;
use crate::options::Options;
use crate::report::{Comparison, FileComparison, Finding, FindingKind, Format, Verdict};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use walkdir::WalkDir;

/// One entry below a tree's root.
struct Entry {
    /// Below the root; empty for an output that is one file.
    name: Vec<u8>,
    path: PathBuf,
    kind: Kind,
    mode: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    File,
    EmptyDirectory,
    Link,
    Special,
}

impl Kind {
    fn format(self) -> Format {
        match self {
            Self::File => Format::Bytes,
            Self::EmptyDirectory => Format::Directory,
            Self::Link => Format::Link,
            Self::Special => Format::Special,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::File => "a file",
            Self::EmptyDirectory => "an empty directory",
            Self::Link => "a symbolic link",
            Self::Special => "a socket, pipe or device",
        }
    }
}

/// Compares two outputs, each a file or a tree.
pub(crate) fn compare(left: &Path, right: &Path, options: &Options) -> Result<Comparison> {
    let is_directory =
        |path: &Path| std::fs::metadata(path).map(|metadata| metadata.is_dir()).map_err(Error::read(path));
    let (entries_left, entries_right) = match (is_directory(left)?, is_directory(right)?) {
        (true, true) => (entries(left)?, entries(right)?),
        (false, false) => (single(left)?, single(right)?),
        (is_left, _) => {
            let name = |is_directory| if is_directory { "a directory" } else { "a file" };
            let text = format!("{} on the left side, {} on the right", name(is_left), name(!is_left));
            let finding = Finding::new(FindingKind::FileType, true, text);
            return Ok(Comparison::of(0, vec![pair_of(Some(""), Some(""), vec![Format::Directory], vec![finding])]));
        }
    };
    compare_entries(&entries_left, &entries_right, options)
}

fn compare_entries(left: &[Entry], right: &[Entry], options: &Options) -> Result<Comparison> {
    let list = |entries: &[Entry]| entries.iter().map(|entry| entry.name.clone()).collect::<Vec<_>>();
    let pairs = names::pair(&list(left), &list(right));
    let (mut equal, mut files) = (0, vec![]);
    for pair in &pairs.matched {
        let (from, to) = (&left[pair.left], &right[pair.right]);
        let (formats, mut findings) = compare_pair(from, to, options)?;
        if let Some(by) = pair.by {
            let text = format!("the file's name differs by {by}");
            let hint = "Name files after what they hold, not after the run.";
            findings.insert(0, Finding::new(FindingKind::FileName, true, text).hint(hint));
        }
        if findings.is_empty() {
            equal += 1;
        } else {
            files.push(pair_of(Some(&shown(from)), Some(&shown(to)), formats, findings));
        }
    }
    for (indices, entries, is_left) in [(&pairs.only_left, left, true), (&pairs.only_right, right, false)] {
        for entry in indices.iter().map(|index| &entries[*index]) {
            let (side, kind) =
                if is_left { ("left", FindingKind::OnlyLeft) } else { ("right", FindingKind::OnlyRight) };
            let finding = Finding::new(kind, true, format!("{} only on the {side} side", entry.kind.name()));
            let name = shown(entry);
            let (from, to) = if is_left { (Some(name.as_str()), None) } else { (None, Some(name.as_str())) };
            files.push(pair_of(from, to, vec![], vec![finding]));
        }
    }
    files.sort_by(|a, b| a.name().cmp(b.name()));
    Ok(Comparison::of(equal, files))
}

fn pair_of(left: Option<&str>, right: Option<&str>, formats: Vec<Format>, findings: Vec<Finding>) -> FileComparison {
    let is_different = findings.iter().any(|finding| finding.is_content);
    let verdict = if is_different { Verdict::ContentDiffers } else { Verdict::ContentEqual };
    FileComparison { left: left.map(str::to_owned), right: right.map(str::to_owned), formats, verdict, findings }
}

fn shown(entry: &Entry) -> String {
    String::from_utf8_lossy(&entry.name).into_owned()
}

fn compare_pair(left: &Entry, right: &Entry, options: &Options) -> Result<(Vec<Format>, Vec<Finding>)> {
    let mut findings = vec![];
    if left.kind != right.kind {
        let text = format!("{} on the left side, {} on the right", left.kind.name(), right.kind.name());
        findings.push(Finding::new(FindingKind::FileType, true, text));
        return Ok((vec![left.kind.format()], findings));
    }
    let mut formats = vec![left.kind.format()];
    match left.kind {
        Kind::File => {
            let name = |entry: &Entry| match (&options.name, entry.name.is_empty()) {
                (Some(name), true) => name.clone(),
                (None, true) => {
                    entry.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
                }
                (_, false) => shown(entry),
            };
            let (left_name, right_name) = (name(left), name(right));
            let files = Files { left: &left.path, right: &right.path, left_name: &left_name, right_name: &right_name };
            let contents = file::compare(files, options, 0)?;
            findings = contents.findings;
            if !contents.formats.is_empty() {
                formats = contents.formats;
            }
        }
        Kind::Link => findings.extend(compare_links(&left.path, &right.path, options)?),
        Kind::EmptyDirectory | Kind::Special => {}
    }
    if left.mode != right.mode && left.kind != Kind::Link {
        let text = format!("mode {:04o} on the left side, {:04o} on the right", left.mode, right.mode);
        findings.push(Finding::new(FindingKind::FileMode, false, text).hint("Set the umask, or the mode."));
    }
    Ok((formats, findings))
}

fn compare_links(left: &Path, right: &Path, options: &Options) -> Result<Option<Finding>> {
    let read = |path: &Path| std::fs::read_link(path).map_err(Error::read(path));
    let (from, to) = (read(left)?, read(right)?);
    if from == to {
        return Ok(None);
    }
    let (from, to) = (from.to_string_lossy(), to.to_string_lossy());
    let mut finding = Finding::new(
        FindingKind::LinkTarget,
        true,
        format!("the link leads to `{from}` on the left side, `{to}` on the right"),
    );
    if let Some(known) = options.known.iter().find(|known| from.contains(&known.left) && to.contains(&known.right)) {
        finding.text += &format!(": contains {}", known.what);
    }
    Ok(Some(finding.hint("Link relative to the output.").example(Some(from.into_owned()), Some(to.into_owned()))))
}

fn single(path: &Path) -> Result<Vec<Entry>> {
    let metadata = std::fs::metadata(path).map_err(Error::read(path))?;
    let kind = if metadata.is_file() { Kind::File } else { Kind::Special };
    Ok(vec![Entry { name: vec![], path: path.to_owned(), kind, mode: metadata.permissions().mode() & 0o7777 }])
}

/// Everything below `root` but directories that hold something.
fn entries(root: &Path) -> Result<Vec<Entry>> {
    let mut entries = vec![];
    for entry in WalkDir::new(root).min_depth(1).sort_by_file_name() {
        let failed = |error: walkdir::Error| {
            let path = error.path().unwrap_or(root).to_owned();
            Error::Read { path, source: error.into_io_error().unwrap_or_else(|| io::Error::other("a loop of links")) }
        };
        let entry = entry.map_err(failed)?;
        let kind = match entry.file_type() {
            kind if kind.is_dir() => {
                let mut inside = std::fs::read_dir(entry.path()).map_err(Error::read(entry.path()))?;
                if inside.next().is_some() {
                    continue;
                }
                Kind::EmptyDirectory
            }
            kind if kind.is_symlink() => Kind::Link,
            kind if kind.is_file() => Kind::File,
            _ => Kind::Special,
        };
        let below = entry.path().strip_prefix(root).unwrap_or(entry.path());
        let mode = entry.metadata().map_err(failed)?.permissions().mode() & 0o7777;
        entries.push(Entry { name: below.as_os_str().as_bytes().to_vec(), path: entry.path().to_owned(), kind, mode });
    }
    Ok(entries)
}
