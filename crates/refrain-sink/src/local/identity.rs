//! How sealed data is recognised before and after its rename (PROTOCOL 9.3).
//!
//! A rename keeps the inode, its time of birth, its size and its time of change. The device number is kept for people
//! to read and is not compared: a loop device or a logical volume may have another one after a reboot, and a false "is
//! not there" would take an unfinished publication for one that landed. An inode number can only be taken for another
//! one's if it was freed and used again; the time of birth tells the two apart.

use super::stat::Stat;
use std::fmt;
use std::str::FromStr;

/// What recognises a file or a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    dev: (u32, u32),
    ino: u64,
    birth: Option<i128>,
    mtime: i128,
}

impl Identity {
    /// The identity of what was looked at.
    pub(crate) fn of(stat: &Stat) -> Self {
        Self { dev: stat.dev, ino: stat.ino, birth: stat.birth, mtime: stat.mtime }
    }

    /// Whether this is the very same inode, changed or not.
    pub(crate) fn is(&self, stat: &Stat) -> bool {
        let born_together = self.birth.is_none() || stat.birth.is_none() || self.birth == stat.birth;
        self.ino == stat.ino && born_together
    }

    /// Whether this is the very same inode and nothing was written to it since.
    pub(crate) fn is_unchanged(&self, stat: &Stat) -> bool {
        self.is(stat) && self.mtime == stat.mtime
    }
}

/// `MAJOR:MINOR:INODE:BIRTH:MTIME`, times in nanoseconds, `-` for an unknown time of birth.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}:", self.dev.0, self.dev.1, self.ino)?;
        match self.birth {
            Some(birth) => write!(f, "{birth}")?,
            None => f.write_str("-")?,
        }
        write!(f, ":{}", self.mtime)
    }
}

impl FromStr for Identity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let mut parts = text.split(':');
            let identity = Self {
                dev: (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?),
                ino: parts.next()?.parse().ok()?,
                birth: match parts.next()? {
                    "-" => None,
                    birth => Some(birth.parse().ok()?),
                },
                mtime: parts.next()?.parse().ok()?,
            };
            parts.next().is_none().then_some(identity)
        };
        parse().ok_or_else(|| format!("`{text}` is not the identity of a file"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_survives_a_rename_and_sees_a_write() {
        let dir = tempfile::tempdir().unwrap();
        let [one, two] = ["one", "two"].map(|name| dir.path().join(name));
        std::fs::write(&one, "x").unwrap();
        let identity = Identity::of(&Stat::of(&one).unwrap().unwrap());
        assert_eq!(identity.to_string().parse::<Identity>(), Ok(identity));
        super::super::durable::move_to_free(&one, &two).unwrap();
        assert!(identity.is_unchanged(&Stat::of(&two).unwrap().unwrap()));
        std::fs::File::options()
            .append(true)
            .open(&two)
            .unwrap()
            .set_modified(std::time::SystemTime::UNIX_EPOCH)
            .unwrap();
        let written = Stat::of(&two).unwrap().unwrap();
        assert!(identity.is(&written) && !identity.is_unchanged(&written));
    }
}
