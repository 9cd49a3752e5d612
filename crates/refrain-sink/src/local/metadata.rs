//! Mode, owner and group of a publication (FS-04): those of what it replaces, else those that the kernel would have
//! given had the task written straight to the target.

use super::Stat;
use super::problem::{look, problem};
use super::site::Site;
use super::volume::nearest_directory;
use refrain_core::Result;
use rustix::fs::{AtFlags, CWD, Gid, Mode, Uid};
use rustix::io::Errno;
use std::path::Path;

const SETGID: u32 = 0o2000;

impl Site<'_> {
    /// Gives a fresh directory of the staging what makes the kernel pass the right group on to all that is made in
    /// it. What is not permitted is left out: only a member of a group may give files to it.
    pub(crate) fn inherit_group(&self, directory: &Path) -> Result<()> {
        let parent = nearest_directory(self.parent())?.1;
        let target = Stat::through(&self.target).map_err(|error| problem("look at", &self.target, error))?;
        let model = target.filter(|target| target.is_directory() && target.mode & SETGID != 0);
        let Some(model) = model.or_else(|| (parent.mode & SETGID != 0).then_some(parent)) else {
            return Ok(());
        };
        let Some(own) = look(directory)? else { return Ok(()) };
        let apply = || {
            chown(directory, None, (own.gid != model.gid).then_some(model.gid))?;
            chmod(directory, own.mode | SETGID)
        };
        apply().map_err(|errno| problem("set the group of", directory, errno.into()))
    }

    /// Gives the root of the sealed output the mode, owner and group that it shall have when it is published: there
    /// is no moment at which the target has the wrong ones. An owner or a group that this user may not give is told.
    pub(crate) fn take_over(&self, staged: &Path, stat: &Stat) -> Result<Option<String>> {
        let replaced = Stat::through(&self.target).map_err(|error| problem("look at", &self.target, error))?;
        let replaced = replaced.filter(|replaced| replaced.kind == stat.kind);
        let apply = || match replaced {
            Some(replaced) => {
                let owner = (replaced.uid != stat.uid).then_some(replaced.uid);
                let group = (replaced.gid != stat.gid).then_some(replaced.gid);
                chown(staged, owner, group)?;
                // After the change of owner, which takes setuid and setgid away (chown(2)).
                if owner.is_some() || group.is_some() || replaced.mode != stat.mode {
                    chmod(staged, replaced.mode)?;
                }
                Ok(())
            }
            None => self.group_of_parent(staged, stat),
        };
        apply().map_err(|errno: Errno| problem("set mode and owner of", staged, errno.into()))?;
        let Some(replaced) = replaced.filter(|replaced| (replaced.uid, replaced.gid) != (stat.uid, stat.gid)) else {
            return Ok(None);
        };
        let now = look(staged)?.filter(|now| (now.uid, now.gid) != (replaced.uid, replaced.gid));
        Ok(now.map(|now| {
            format!(
                "`{}` belonged to user {} and group {}, and this user may not give it to them: it belongs to user {} and \
                 group {} from now on",
                self.target.display(),
                replaced.uid,
                replaced.gid,
                now.uid,
                now.gid
            )
        }))
    }

    /// The staging is made with the right group; a task that moved a file there from elsewhere brought another one.
    fn group_of_parent(&self, staged: &Path, stat: &Stat) -> Result<(), Errno> {
        let Ok((_, parent)) = nearest_directory(self.parent()) else { return Ok(()) };
        if parent.mode & SETGID == 0 || parent.gid == stat.gid {
            return Ok(());
        }
        chown(staged, None, Some(parent.gid))?;
        chmod(staged, if stat.is_directory() { stat.mode | SETGID } else { stat.mode })
    }
}

/// Changes what is permitted, owner and group or the group alone.
fn chown(path: &Path, owner: Option<u32>, group: Option<u32>) -> Result<(), Errno> {
    let change = |owner: Option<u32>, group: Option<u32>| {
        if owner.is_none() && group.is_none() {
            return Ok(());
        }
        let (owner, group) = (owner.map(Uid::from_raw), group.map(Gid::from_raw));
        rustix::fs::chownat(CWD, path, owner, group, AtFlags::SYMLINK_NOFOLLOW)
    };
    let refused = |result| matches!(result, Err(Errno::PERM | Errno::INVAL | Errno::OPNOTSUPP));
    let mut result = change(owner, group);
    if refused(result) && owner.is_some() {
        result = change(None, group);
    }
    if refused(result) { Ok(()) } else { result }
}

fn chmod(path: &Path, mode: u32) -> Result<(), Errno> {
    match rustix::fs::chmod(path, Mode::from_raw_mode(mode)) {
        // Filesystems without permission bits, such as vfat.
        Err(Errno::PERM | Errno::OPNOTSUPP) => Ok(()),
        result => result,
    }
}
