//! Finds out, before the task starts, whether a publication can succeed.

use super::problem::{look, mount_of, problem};
use super::site::Site;
use super::stat::Stat;
use super::volume::nearest_directory;
use super::{LocalKind, durable};
use refrain_core::{Adopt, Error, ErrorKind, Result};
use rustix::fs::Access;
use rustix::io::Errno;

impl Site<'_> {
    pub(crate) fn preflight(&self, adopt: Adopt) -> Result<()> {
        self.volume.demand_local()?;
        self.volume.prepare()?;
        self.demand_writable_parent()?;
        self.demand_outside_of_publications()?;
        let Some(stat) = look(&self.target)? else { return Ok(()) };
        if stat.fixed {
            return Err(self
                .unusable("it has the immutable or the append-only attribute")
                .hint(format!("chattr -i -a {}", self.target.display())));
        }
        self.demand_movable(&stat)?;
        if stat.is_mount_point() {
            return Err(self
                .unusable("something is mounted there, and a mount point cannot be replaced")
                .hint("publish to a directory below it"));
        }
        let published = self.read()?.is_some_and(|head| head.publication.is_some());
        if !published {
            self.demand_adoptable(&stat, adopt)?;
        }
        if self.kind() == LocalKind::File && stat.is_file() && stat.links > 1 && adopt == Adopt::Never {
            return Err(Error::refused(format!(
                "`{}` has {} names (hard links); the others would keep the old content",
                self.target.display(),
                stat.links
            ))
            .hint("remove the other names, or say `--adopt` to part from them"));
        }
        self.demand_exchange(&stat)
    }

    pub(crate) fn adoptable(&self) -> Result<()> {
        let Some(stat) = look(&self.target)? else { return Ok(()) };
        self.demand_adoptable(&stat, Adopt::Foreign)
    }

    /// What stands there must let itself be moved away: rename(2) of a directory writes to it, and a sticky directory
    /// lets only owners move what is theirs.
    fn demand_movable(&self, stat: &Stat) -> Result<()> {
        let user = rustix::process::geteuid().as_raw();
        if user == 0 || stat.uid == user {
            return Ok(());
        }
        let (parent, holding) = nearest_directory(self.parent())?;
        if holding.mode & 0o1000 != 0 && holding.uid != user {
            return Err(self.unusable(&format!(
                "it belongs to another user, and `{}` lets only owners replace what is theirs (sticky)",
                parent.display()
            )));
        }
        if stat.is_directory() && rustix::fs::access(&self.target, Access::WRITE_OK).is_err() {
            return Err(self
                .unusable("it belongs to another user and this one may not write to it")
                .hint(format!("give the user write permission on `{}`", self.target.display())));
        }
        Ok(())
    }

    fn demand_writable_parent(&self) -> Result<()> {
        let (parent, holding) = nearest_directory(self.parent())?;
        if holding.fixed {
            return Err(self
                .unusable(&format!("`{}` has the immutable or the append-only attribute", parent.display()))
                .hint(format!("chattr -i -a {}", parent.display())));
        }
        match rustix::fs::access(&parent, Access::WRITE_OK | Access::EXEC_OK) {
            Ok(()) => Ok(()),
            Err(Errno::ROFS) => Err(Error::invalid(format!(
                "`{}` cannot be published: the filesystem at `{}` is read-only",
                self.target.display(),
                mount_of(&parent)
            ))),
            Err(Errno::ACCESS | Errno::PERM) => Err(Error::invalid(format!(
                "`{}` cannot be published: the directory `{}` is read-only for this user",
                self.target.display(),
                parent.display()
            ))
            .hint(format!("give the user write permission on `{}`", parent.display()))),
            Err(errno) => Err(problem("look at", &parent, errno.into())),
        }
    }

    fn demand_adoptable(&self, stat: &Stat, adopt: Adopt) -> Result<()> {
        match self.kind() {
            LocalKind::File if stat.is_directory() => {
                return Err(self.unusable("it is a directory").hint("a directory output ends with `/`"));
            }
            LocalKind::Directory if stat.is_file() => {
                return Err(self.unusable("it is a file").hint("a file output has no trailing `/`"));
            }
            _ if !stat.is_file() && !stat.is_directory() => {
                return Err(self.unusable(&format!("it is {}", stat.noun())));
            }
            _ => {}
        }
        self.demand_no_slot_inside(stat)?;
        if adopt == Adopt::Foreign {
            return Ok(());
        }
        Err(Error::refused(format!("`{}` exists and was not published by Refrain", self.target.display()))
            .hint("`--adopt` keeps it as version 0 and publishes over it"))
    }

    /// Without an exchange, directories are published by links, and no link can take a directory's place in one step.
    fn demand_exchange(&self, stat: &Stat) -> Result<()> {
        if self.kind() == LocalKind::File || !stat.is_directory() || self.can_exchange()? {
            return Ok(());
        }
        Err(self.directory_in_the_way())
    }

    pub(crate) fn can_exchange(&self) -> Result<bool> {
        let place = self.volume.exchange_trial();
        durable::can_exchange(&place).map_err(|error| problem("try an exchange in", &place, error))
    }

    pub(crate) fn directory_in_the_way(&self) -> Error {
        Error::new(
            ErrorKind::Refused,
            format!(
                "a directory stands at `{}`, and the filesystem at `{}` cannot exchange two directories in one step",
                self.target.display(),
                mount_of(self.parent())
            ),
        )
        .hint("move the directory away yourself; publications there are links to directories")
    }

    fn unusable(&self, why: &str) -> Error {
        Error::invalid(format!("`{}` cannot be a target: {why}", self.target.display()))
    }
}
