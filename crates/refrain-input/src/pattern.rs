//! Patterns: `data/*/{date}-*.csv`, once the date is filled in.
//!
//! | written | matches |
//! | --- | --- |
//! | `*`, `?` | any part of a name, one character of a name |
//! | `[ab]`, `[0-9]`, `[!0-9]` | one character of those, one of any others |
//! | `**`, as a whole component | any number of directories; at the end, every file below |
//!
//! As in a shell, a name that begins with a dot is matched only by a component that does.

use crate::listing::{Listing, Walk};
use crate::location::{escape, literal};
use globset::{GlobBuilder, GlobMatcher};
use refrain_core::{Error, Result};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, FileType};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A pattern: a directory that is given, and what must match below it.
#[derive(Debug)]
pub(crate) struct Pattern {
    text: String,
    /// The components before the first that is not a plain name.
    pub(crate) prefix: PathBuf,
    components: Vec<Component>,
}

#[derive(Debug)]
enum Component {
    Name(OsString),
    Names { matcher: GlobMatcher, dotted: bool },
    Directories,
}

/// What was found on the way.
#[derive(Default)]
struct Matches {
    files: BTreeSet<PathBuf>,
    directories: usize,
    followed: BTreeSet<PathBuf>,
}

impl Pattern {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let bad = |reason: &str| Error::invalid(format!("the pattern `{text}` is malformed: {reason}"));
        if text.ends_with('/') {
            return Err(bad("it ends with `/`, and a pattern names files")
                .hint("end it with `/**` for every file below the directories"));
        }
        let mut prefix = PathBuf::from("/");
        let mut components = Vec::new();
        for part in text.split('/').filter(|part| !part.is_empty() && *part != ".") {
            let name = literal(part);
            if components.is_empty()
                && let Some(name) = &name
            {
                prefix.push(name);
                continue;
            }
            components.push(match name {
                Some(name) if name == ".." => return Err(bad("`..` cannot follow a wildcard")),
                Some(name) => Component::Name(name.into()),
                None if part == "**" => Component::Directories,
                None => {
                    // Braces are plain characters of names here: in a template they are placeholders.
                    let plain = part.replace('{', "[{]").replace('}', "[}]");
                    let glob = GlobBuilder::new(&plain).literal_separator(true).backslash_escape(false).build();
                    let glob = glob.map_err(|error| bad(&error.kind().to_string()))?;
                    Component::Names { matcher: glob.compile_matcher(), dotted: part.starts_with('.') }
                }
            });
        }
        Ok(Self { text: text.to_owned(), prefix, components })
    }

    /// The files that match now, with the directories that lead to them.
    ///
    /// # Errors
    /// `invalid` when nothing matches, or something that cannot be pinned does; `internal` when a directory cannot be
    /// listed.
    pub(crate) fn list(&self) -> Result<Listing> {
        let mut found = Matches::default();
        self.descend(&self.prefix, Path::new(""), &self.components, &mut found)?;
        if found.files.is_empty() {
            let error = Error::invalid(format!("no file matches `{}`", self.text));
            let namesake = Path::new(&self.text).exists();
            return Err(match found.directories {
                0 if namesake => error.hint(format!(
                    "something of exactly that name is there; to name it, write `{}`",
                    escape(&self.text)
                )),
                0 => error,
                1 => error.hint(format!("one directory does; `{}/**` is every file in it", self.text)),
                many => error.hint(format!("{many} directories do; `{}/**` is every file in them", self.text)),
            });
        }
        let mut walk = Walk::new(&self.prefix, &self.prefix);
        let mut made = BTreeSet::new();
        for file in &found.files {
            let parents: Vec<_> = file.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty()).collect();
            for parent in parents.into_iter().rev().filter(|parent| made.insert(parent.to_path_buf())) {
                walk.add_directory(parent);
            }
            walk.add_match(file)?;
        }
        walk.followed.extend(found.followed);
        Ok(walk.done())
    }

    fn descend(&self, at: &Path, below: &Path, components: &[Component], found: &mut Matches) -> Result<()> {
        let Some((first, rest)) = components.split_first() else { return Ok(()) };
        match first {
            Component::Name(name) => match fs::symlink_metadata(at.join(name)) {
                Ok(entry) => self.enter(at, below, (name, entry.file_type()), rest, found),
                Err(error) if is_absent(&error) => Ok(()),
                Err(error) => Err(cannot_list(&at.join(name), error)),
            },
            Component::Names { matcher, dotted } => {
                let matches = |name: &OsStr| matcher.is_match(name) && (*dotted || !is_dotted(name));
                for (name, kind) in names(at)?.into_iter().filter(|(name, _)| matches(name)) {
                    self.enter(at, below, (&name, kind), rest, found)?;
                }
                Ok(())
            }
            Component::Directories => {
                self.descend(at, below, rest, found)?;
                for (name, kind) in names(at)?.into_iter().filter(|(name, _)| !is_dotted(name)) {
                    // A link to a directory could lead back up.
                    if kind.is_dir() {
                        self.descend(&at.join(&name), &below.join(&name), components, found)?;
                    } else if rest.is_empty() && !(kind.is_symlink() && at.join(&name).is_dir()) {
                        found.files.insert(below.join(&name));
                    }
                }
                Ok(())
            }
        }
    }

    fn enter(
        &self,
        at: &Path,
        below: &Path,
        (name, kind): (&OsStr, FileType),
        rest: &[Component],
        found: &mut Matches,
    ) -> Result<()> {
        let (place, below) = (at.join(name), below.join(name));
        let is_directory = kind.is_dir() || kind.is_symlink() && place.is_dir();
        if rest.is_empty() {
            if is_directory {
                found.directories += 1;
            } else {
                found.files.insert(below);
            }
            return Ok(());
        }
        if !is_directory {
            return Ok(());
        }
        if kind.is_symlink() {
            found.followed.insert(fs::canonicalize(&place).map_err(|error| cannot_list(&place, error))?);
        }
        self.descend(&place, &below, rest, found)
    }
}

/// The names in a directory, in the order of their bytes; none if there is no directory.
fn names(directory: &Path) -> Result<Vec<(OsString, FileType)>> {
    let list = || -> io::Result<Vec<_>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            names.push((entry.file_name(), entry.file_type()?));
        }
        names.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        Ok(names)
    };
    match list() {
        Err(error) if is_absent(&error) => Ok(Vec::new()),
        listed => listed.map_err(|error| cannot_list(directory, error)),
    }
}

fn is_dotted(name: &OsStr) -> bool {
    name.as_bytes().first() == Some(&b'.')
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn cannot_list(path: &Path, error: io::Error) -> Error {
    Error::io(format!("cannot list `{}`", path.display()), error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listing::Node;

    fn matched(root: &Path, pattern: &str) -> Vec<String> {
        let listing = Pattern::parse(&format!("{}/{pattern}", root.display())).unwrap().list();
        let entries = listing.map(|listing| listing.entries).unwrap_or_default();
        let files = entries.iter().filter(|entry| matches!(entry.node, Node::File { .. }));
        files.map(|entry| entry.path.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn files_that_match_come_in_the_order_of_their_names_bytes() {
        let root = tempfile::tempdir().unwrap();
        for file in ["b/1.csv", "b/2.csv", "a/1.csv", "a/.1.csv", ".h/1.csv", "a/x/1.csv", "a/1.txt", "a/{1}.csv"] {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, file).unwrap();
        }
        let names = |pattern| matched(root.path(), pattern);
        assert_eq!(names("*/1.csv"), ["a/1.csv", "b/1.csv"]);
        assert_eq!(names("*/[12].csv"), ["a/1.csv", "b/1.csv", "b/2.csv"]);
        assert_eq!(names("b/[!1].csv"), ["2.csv"]);
        assert_eq!(names("a/?.*"), ["1.csv", "1.txt"]);
        assert_eq!(names("a/.*"), [".1.csv"]);
        assert_eq!(names(".h/*"), ["1.csv"]);
        assert_eq!(names("a/*{1}*"), ["{1}.csv"], "braces are plain characters");
        assert_eq!(names("**/1.csv"), ["a/1.csv", "a/x/1.csv", "b/1.csv"]);
        assert_eq!(names("a/**"), ["1.csv", "1.txt", "x/1.csv", "{1}.csv"]);
        assert_eq!(names("**/**/1.csv"), ["a/1.csv", "a/x/1.csv", "b/1.csv"], "each once");
        assert_eq!(names("c/*"), Vec::<String>::new());
    }

    #[test]
    fn what_is_no_pattern_of_files_is_refused() {
        for (text, says) in
            [("/a/*/", "`/**`"), ("/a/*/../b", "`..`"), ("/a/[", "malformed"), ("/a/[z-a]", "malformed")]
        {
            let error = Pattern::parse(text).unwrap_err();
            let whole = format!("{error} {}", error.hint.as_deref().unwrap_or_default());
            assert!(whole.contains(says), "{whole}");
        }
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("part-1")).unwrap();
        let error = Pattern::parse(&format!("{}/part-*", root.path().display())).unwrap().list().unwrap_err();
        assert!(error.hint.unwrap().contains("part-*/**"));
    }
}
