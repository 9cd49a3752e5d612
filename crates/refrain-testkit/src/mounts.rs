//! Small filesystems of every kind that matters to a publication, mounted for one test; and power cuts on them.
//!
//! All of it needs root (or CAP_SYS_ADMIN) and the programs that `cargo xtask test` installs; without them the test
//! fails. A mount lives below a temporary directory of its own and ends with its [`Mount`].

use crate::tool::{attempt, demand, output, tool};
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;
use tempfile::TempDir;

/// How often an unmount is tried while something still holds the filesystem, and the pause between the tries.
const UNMOUNT_TRIES: u32 = 500;
const UNMOUNT_PAUSE: Duration = Duration::from_millis(10);
/// How often it is asked whether an image is free; a neighbour with a mount namespace of its own may take a minute.
const RELEASE_TRIES: u32 = 12_000;

/// A mounted filesystem; dropping it unmounts it and removes everything it stood on.
#[derive(Debug)]
pub struct Mount {
    /// What other mounts this one stands on; dropped after it was unmounted.
    _below: Option<Box<Mount>>,
    directory: TempDir,
    kind: Kind,
    mounted: bool,
}

#[derive(Clone, Debug)]
enum Kind {
    /// A loop-mounted image of `filesystem`, which can lose its power.
    Image {
        filesystem: &'static str,
        options: &'static str,
    },
    Tmpfs,
    Overlay,
    Bindfs,
}

/// ext4 with nothing but the guarantees of the manual: no early write of renamed files (`noauto_da_alloc`), and a
/// journal that commits when asked and not every five seconds, so that what survives a power cut was synced.
const EXT4: Kind = Kind::Image { filesystem: "ext4", options: "loop,noauto_da_alloc,commit=600" };
const XFS: Kind = Kind::Image { filesystem: "xfs", options: "loop" };

impl Mount {
    /// A fresh ext4 of `mebibytes` (16 at least).
    pub fn ext4(mebibytes: u64) -> Self {
        Self::image(EXT4, mebibytes, &["-q", "-F"])
    }

    /// A fresh xfs of `mebibytes`; xfs makes none below 300.
    pub fn xfs(mebibytes: u64) -> Self {
        Self::image(XFS, mebibytes, &["-q", "-f"])
    }

    /// A fresh tmpfs of `mebibytes`: another filesystem than the home's, or one that is soon full.
    pub fn tmpfs(mebibytes: u64) -> Self {
        let mut mount = Self::new(None, Kind::Tmpfs);
        let mut command = tool("mount");
        command.args(["-t", "tmpfs", "-o", &format!("size={mebibytes}m"), "tmpfs"]).arg(mount.path());
        mount.mount_with(command);
        mount
    }

    /// An overlay whose lower layer is what `lower_setup` makes in the directory it is given.
    ///
    /// The rename of a directory of the lower layer gives EXDEV there.
    pub fn overlay(lower_setup: impl FnOnce(&Path)) -> Self {
        let below = Self::ext4(64);
        let [lower, upper, work] = ["lower", "upper", "work"].map(|name| below.path().join(name));
        for layer in [&lower, &upper, &work] {
            fs::create_dir(layer).expect("make a layer of the overlay");
        }
        lower_setup(&lower);
        let options = format!("lowerdir={},upperdir={},workdir={}", lower.display(), upper.display(), work.display());
        let mut mount = Self::new(Some(Box::new(below)), Kind::Overlay);
        let mut command = tool("mount");
        command.args(["-t", "overlay", "-o", &options, "overlay"]).arg(mount.path());
        mount.mount_with(command);
        mount
    }

    /// A FUSE view of `source` that has neither RENAME_EXCHANGE nor O_TMPFILE: a stand-in for poor filesystems.
    pub fn bindfs(source: &Path) -> Self {
        let mut mount = Self::new(None, Kind::Bindfs);
        let mut command = tool("bindfs");
        command.arg(source).arg(mount.path());
        mount.mount_with(command);
        mount
    }

    /// The mount point.
    pub fn path(&self) -> PathBuf {
        self.directory.path().join("mount")
    }

    /// Cuts the power of an image and gives it back: what was not synced is gone, as after a crash of the machine.
    ///
    /// No process may hold files open there; [`Mount::cut`] and [`Mount::restore`] leave room to kill them between.
    pub fn power_cut(&mut self) {
        self.cut();
        self.restore();
    }

    /// Cuts the power: from now on nothing reaches the image and every call that wants to gets EIO.
    ///
    /// FS_IOC_SHUTDOWN without a flush of the log, which xfs_io issues on ext4 as well.
    pub fn cut(&self) {
        let Kind::Image { .. } = self.kind else { panic!("only an image can lose its power, this is {:?}", self.kind) };
        let mut command = tool("xfs_io");
        command.args(["-x", "-c", "shutdown"]).arg(self.path());
        demand(command);
        let probe = File::create(self.path().join(".power-is-cut")).and_then(|file| file.sync_all());
        assert!(probe.is_err(), "the filesystem at {} still writes after the power cut", self.path().display());
    }

    /// Gives the power back: mounts the image as it was at the cut, and lets the filesystem recover.
    pub fn restore(&mut self) {
        self.unmount().unwrap_or_else(|error| panic!("{error}"));
        self.await_release();
        self.mount_image();
    }

    /// Waits until the image is no longer in use. A mount namespace that was made meanwhile holds a copy of the mount, and
    /// mounting the image again while it lives gives back the filesystem without power.
    fn await_release(&self) {
        for _ in 0..RELEASE_TRIES {
            let mut command = tool("losetup");
            command.arg("--associated").arg(self.image_path());
            if output(command).stdout.is_empty() {
                return;
            }
            sleep(UNMOUNT_PAUSE);
        }
        panic!("another mount namespace still holds {}", self.image_path().display());
    }

    /// Makes the filesystem read-only, or writable again.
    pub fn set_read_only(&self, read_only: bool) {
        let mut command = tool("mount");
        command.args(["-o", if read_only { "remount,ro" } else { "remount,rw" }]).arg(self.path());
        demand(command);
    }

    /// Fills the filesystem with one file until no byte more fits, and returns that file.
    pub fn fill(&self) -> PathBuf {
        let path = self.path().join("filler");
        let mut file = File::create(&path).expect("create the filler");
        loop {
            let before = file.metadata().expect("measure the filler").len();
            // Large pieces first; bytes at the end, so that not even a short file fits.
            for piece in [1 << 20, 4096, 1] {
                let zeros = vec![0; piece];
                loop {
                    match file.write_all(&zeros) {
                        Ok(()) => {}
                        Err(error) if error.kind() == ErrorKind::StorageFull => break,
                        Err(error) => panic!("cannot fill {}: {error}", path.display()),
                    }
                }
            }
            // What was reserved for writing out and then not needed is free again after it.
            file.sync_all().expect("write the filler out");
            if file.metadata().expect("measure the filler").len() == before {
                break;
            }
        }
        path
    }

    fn new(below: Option<Box<Mount>>, kind: Kind) -> Self {
        assert!(
            rustix::process::geteuid().is_root(),
            "this test mounts a filesystem, which needs root: run the tests as root"
        );
        let directory =
            tempfile::Builder::new().prefix("refrain-mount-").tempdir().expect("make a temporary directory");
        fs::create_dir(directory.path().join("mount")).expect("make the mount point");
        Self { _below: below, directory, kind, mounted: false }
    }

    fn image(kind: Kind, mebibytes: u64, options: &[&str]) -> Self {
        let Kind::Image { filesystem, .. } = kind else { unreachable!("an image has a filesystem") };
        let mut mount = Self::new(None, kind);
        let image = File::create(mount.image_path()).expect("create the image");
        image.set_len(mebibytes << 20).expect("size the image");
        drop(image);
        let mut command = tool(&format!("mkfs.{filesystem}"));
        command.args(options).arg(mount.image_path());
        demand(command);
        mount.mount_image();
        mount
    }

    fn image_path(&self) -> PathBuf {
        self.directory.path().join("image")
    }

    fn mount_image(&mut self) {
        let Kind::Image { filesystem, options } = self.kind else { panic!("{:?} is no image", self.kind) };
        let mut command = tool("mount");
        command.args(["-t", filesystem, "-o", options]).arg(self.image_path()).arg(self.path());
        self.mount_with(command);
    }

    fn mount_with(&mut self, command: std::process::Command) {
        demand(command);
        self.mounted = true;
    }

    /// Unmounts, waiting a while for processes that were just killed to let go.
    fn unmount(&mut self) -> Result<(), String> {
        let mut last = Ok(());
        for _ in 0..UNMOUNT_TRIES {
            let mut command = tool("umount");
            command.arg(self.path());
            last = attempt(command);
            if last.is_ok() {
                self.mounted = false;
                break;
            }
            sleep(UNMOUNT_PAUSE);
        }
        last.map_err(|error| format!("a process still holds {}: {error}", self.path().display()))
    }
}

impl Drop for Mount {
    #[allow(clippy::print_stderr, reason = "a panic in drop would abort the test run")]
    fn drop(&mut self) {
        if !self.mounted {
            return;
        }
        let mut plain = tool("umount");
        plain.arg(self.path());
        if attempt(plain).is_ok() {
            return;
        }
        let mut lazy = tool("umount");
        lazy.arg("-l").arg(self.path());
        if let Err(error) = attempt(lazy) {
            eprintln!("left mounted: {error}");
        }
    }
}
