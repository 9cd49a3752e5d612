//! Archives: their members, and what differs beside the members' content.

use crate::error::Error;
use crate::names::{self, Pairs};
use crate::options::Options;
use crate::report::{Finding, FindingKind, Format};
use crate::rows::{Side, Stop};
use crate::unpack::{Failed, copy};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::Xxh3;

/// Members that are listed, at most.
const MOST_MEMBERS: usize = 1_000_000;

/// What an archive says of a member, and a digest of what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) name: Vec<u8>,
    kind: u8,
    link: Vec<u8>,
    time: String,
    owner: String,
    mode: Option<u32>,
    digest: u128,
}

impl Member {
    pub(crate) fn shown(&self) -> String {
        String::from_utf8_lossy(&self.name).into_owned()
    }

    fn has_same_content(&self, other: &Self) -> bool {
        self.kind == other.kind && self.link == other.link && self.digest == other.digest
    }
}

/// The members of both archives and how they belong together.
pub(crate) struct Listed {
    pub(crate) left: Vec<Member>,
    pub(crate) right: Vec<Member>,
    pub(crate) pairs: Pairs,
}

/// Reads both archives once.
pub(crate) fn list_both(left: &Path, right: &Path, format: Format) -> Result<Listed, (Side, Stop)> {
    let (left, right) = crate::rows::both(|| list(left, format), || list(right, format))?;
    let members = |members: &[Member]| members.iter().map(|member| member.name.clone()).collect::<Vec<_>>();
    let pairs = names::pair(&members(&left), &members(&right));
    Ok(Listed { left, right, pairs })
}

fn broken(error: impl std::fmt::Display) -> Stop {
    Stop::Broken(error.to_string())
}

fn digest(from: &mut dyn Read) -> io::Result<u128> {
    let mut hasher = Xxh3::new();
    let mut buffer = vec![0; 32 << 10];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(hasher.digest128()),
            count => hasher.update(&buffer[..count]),
        }
    }
}

fn list(path: &Path, format: Format) -> Result<Vec<Member>, Stop> {
    let mut members = vec![];
    each(path, format, &mut |member, content| {
        let digest = digest(content).map_err(broken)?;
        members.push(Member { digest, ..member });
        if members.len() > MOST_MEMBERS {
            Err(Stop::Broken(format!("more than {MOST_MEMBERS} members")))
        } else {
            Ok(())
        }
    })?;
    Ok(members)
}

/// Writes the members of those indices to files.
pub(crate) fn extract(
    path: &Path,
    format: Format,
    wanted: &BTreeMap<usize, PathBuf>,
    options: &Options,
) -> Result<(), Stop> {
    let (mut index, mut left) = (0, options.unpack_bytes);
    each(path, format, &mut |_, content| {
        if let Some(target) = wanted.get(&index) {
            left -= copy(content, target, left, options).map_err(|failed| match failed {
                Failed::TooLarge => Stop::Broken(format!("it unpacks to more than {} bytes", options.unpack_bytes)),
                Failed::Broken(error) => broken(error),
                Failed::NoRoom(error) => Stop::Fatal(error),
            })?;
        }
        index += 1;
        Ok(())
    })
}

type VisitMember<'a> = dyn FnMut(Member, &mut dyn Read) -> Result<(), Stop> + 'a;

fn each(path: &Path, format: Format, visit: &mut VisitMember<'_>) -> Result<(), Stop> {
    let file = BufReader::with_capacity(128 << 10, File::open(path).map_err(Error::read(path))?);
    if format == Format::Tar { each_of_tar(file, visit) } else { each_of_zip(file, visit) }
}

fn each_of_tar(file: BufReader<File>, visit: &mut VisitMember<'_>) -> Result<(), Stop> {
    for entry in tar::Archive::new(file).entries().map_err(broken)? {
        let mut entry = entry.map_err(broken)?;
        let header = entry.header();
        let part = |part: Option<&[u8]>| String::from_utf8_lossy(part.unwrap_or_default()).into_owned();
        let owner = format!(
            "{}:{} {}:{}",
            header.uid().unwrap_or_default(),
            header.gid().unwrap_or_default(),
            part(header.username_bytes()),
            part(header.groupname_bytes())
        );
        let member = Member {
            name: entry.path_bytes().into_owned(),
            kind: header.entry_type().as_byte(),
            link: entry.link_name_bytes().unwrap_or_default().into_owned(),
            time: header.mtime().unwrap_or_default().to_string(),
            owner,
            mode: header.mode().ok(),
            digest: 0,
        };
        visit(member, &mut entry)?;
    }
    Ok(())
}

fn each_of_zip(file: BufReader<File>, visit: &mut VisitMember<'_>) -> Result<(), Stop> {
    let mut archive = zip::ZipArchive::new(file).map_err(broken)?;
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).map_err(broken)?;
        let member = Member {
            name: entry.name_raw().to_vec(),
            kind: if entry.is_dir() { b'5' } else { b'0' },
            link: vec![],
            time: entry.last_modified().map(|time| time.to_string()).unwrap_or_default(),
            owner: String::new(),
            mode: entry.unix_mode(),
            digest: 0,
        };
        visit(member, &mut entry)?;
    }
    Ok(())
}

impl Listed {
    /// The pairs whose content differs, as indices of both sides.
    pub(crate) fn differing(&self) -> Vec<(usize, usize)> {
        let pairs =
            self.pairs.matched.iter().filter(|pair| !self.left[pair.left].has_same_content(&self.right[pair.right]));
        pairs.map(|pair| (pair.left, pair.right)).collect()
    }

    /// What differs beside the content of members.
    pub(crate) fn findings(&self, format: Format) -> Vec<Finding> {
        let mut findings = vec![];
        let sides = [
            (&self.pairs.only_left, &self.left, FindingKind::OnlyLeft, "left"),
            (&self.pairs.only_right, &self.right, FindingKind::OnlyRight, "right"),
        ];
        for (indices, members, kind, side) in sides {
            for index in indices {
                let name = members[*index].shown();
                let text = format!("member `{name}` is only on the {side} side");
                let mut finding = Finding::new(kind, true, text);
                finding.place = Some(name);
                findings.push(finding);
            }
        }
        for pair in &self.pairs.matched {
            if let Some(by) = pair.by {
                let (left, right) = (self.left[pair.left].shown(), self.right[pair.right].shown());
                let text = format!("the names of members `{left}` and `{right}` differ by {by}");
                findings
                    .push(Finding::new(FindingKind::FileName, true, text).hint("Name members after what they hold."));
            }
        }
        let total = self.pairs.matched.len() as u64;
        let mut count = |kind, what: &str, hint: &str, differs: &dyn Fn(&Member, &Member) -> bool| {
            let pairs = self.pairs.matched.iter().map(|pair| (&self.left[pair.left], &self.right[pair.right]));
            let differing = pairs.filter(|(left, right)| differs(left, right)).count() as u64;
            if differing > 0 {
                let text = format!("the {} header's {what} differs in {differing} of {total} members", format.name());
                findings.push(Finding::new(kind, false, text).counts(differing, total).hint(hint));
            }
        };
        count(FindingKind::MemberTime, "time", "Set the times (`tar --mtime=@0`, `SOURCE_DATE_EPOCH`).", &|a, b| {
            a.time != b.time
        });
        count(
            FindingKind::MemberOwner,
            "owner",
            "Set the owner (`tar --owner=0 --group=0 --numeric-owner`).",
            &|a, b| a.owner != b.owner,
        );
        count(FindingKind::MemberMode, "mode", "Set the modes (`tar --mode=...`), or the umask.", &|a, b| {
            a.mode != b.mode
        });
        if !self.pairs.matched.is_sorted_by_key(|pair| pair.right) {
            let text = "the same members in another order";
            findings
                .push(Finding::new(FindingKind::MemberOrder, false, text).hint("Sort the names (`tar --sort=name`)."));
        }
        findings
    }
}
