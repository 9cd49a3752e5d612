//! The mounts are what they claim to be, and a power cut really loses what was not synced.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

use refrain_testkit::mounts::Mount;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::Path;

fn sync(path: &Path) {
    File::open(path).unwrap().sync_all().unwrap();
}

fn write_synced(path: &Path, content: &str) {
    fs::write(path, content).unwrap();
    sync(path);
}

/// Publishes in the right way, and in each wrong way, then loses the power.
fn publish_and_cut(mount: &mut Mount) {
    let at = mount.path().join("w");
    fs::create_dir(&at).unwrap();
    write_synced(&at.join("replaced"), "old");
    write_synced(&at.join("undone"), "old");
    sync(&at);
    sync(&mount.path());

    write_synced(&at.join("tmp"), "synced");
    fs::rename(at.join("tmp"), at.join("right")).unwrap();
    sync(&at);
    // Synced itself, but not its directory.
    write_synced(&at.join("tmp-of-undone"), "new");
    fs::rename(at.join("tmp-of-undone"), at.join("undone")).unwrap();
    // Never synced.
    fs::write(at.join("never"), "never").unwrap();
    fs::write(at.join("tmp-of-replaced"), "new").unwrap();
    fs::rename(at.join("tmp-of-replaced"), at.join("replaced")).unwrap();

    mount.power_cut();
    assert_eq!(fs::read_to_string(at.join("right")).unwrap(), "synced", "what was synced survives");
    assert_eq!(fs::read_to_string(at.join("undone")).unwrap(), "old", "a rename without a directory sync is undone");
    assert_eq!(fs::read_to_string(at.join("replaced")).unwrap(), "old");
    assert!(!at.join("never").exists(), "what was never synced is gone");
}

#[test]
fn a_power_cut_on_ext4_loses_what_was_not_synced() {
    publish_and_cut(&mut Mount::ext4(64));
}

#[test]
fn a_power_cut_on_xfs_loses_what_was_not_synced() {
    publish_and_cut(&mut Mount::xfs(320));
}

#[test]
fn ext4_shows_an_empty_file_when_only_the_rename_was_synced() {
    let mut mount = Mount::ext4(64);
    let [temporary, target] = ["tmp", "target"].map(|name| mount.path().join(name));
    write_synced(&target, "old");
    sync(&mount.path());
    fs::write(&temporary, "new").unwrap();
    fs::rename(&temporary, &target).unwrap();
    // Another file's sync commits the journal, and with it the rename, before the data is written (FS-01).
    write_synced(&mount.path().join("other"), "other");
    mount.power_cut();
    assert_eq!(fs::read_to_string(&target).unwrap(), "", "the harsh mount options lost their effect");
}

#[test]
fn between_the_cut_and_the_restore_every_write_fails() {
    let mut mount = Mount::ext4(64);
    write_synced(&mount.path().join("kept"), "kept");
    sync(&mount.path());
    mount.cut();
    let error = fs::write(mount.path().join("late"), "late").unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::IO.raw_os_error()));
    mount.restore();
    assert!(mount.path().join("kept").exists());
    write_synced(&mount.path().join("late"), "late");
}

#[test]
fn bindfs_knows_no_exchange() {
    let source = tempfile::tempdir().unwrap();
    let mount = Mount::bindfs(source.path());
    let [one, two] = ["one", "two"].map(|name| mount.path().join(name));
    for directory in [&one, &two] {
        fs::create_dir(directory).unwrap();
    }
    assert_eq!(renameat_with(CWD, &one, CWD, &two, RenameFlags::EXCHANGE), Err(Errno::INVAL));
    let free = mount.path().join("free");
    assert_eq!(renameat_with(CWD, &one, CWD, &free, RenameFlags::NOREPLACE), Err(Errno::INVAL));
    assert!(source.path().join("one").is_dir());
}

#[test]
fn tmpfs_fills_up_and_is_another_filesystem() {
    let mount = Mount::tmpfs(1);
    let elsewhere = tempfile::NamedTempFile::new().unwrap();
    let error = fs::rename(elsewhere.path(), mount.path().join("moved")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CrossesDevices);

    let filler = mount.fill();
    let mut file = File::create(mount.path().join("more")).unwrap();
    assert_eq!(file.write_all(b"x").unwrap_err().kind(), ErrorKind::StorageFull);
    fs::remove_file(filler).unwrap();
    file.write_all(b"x").unwrap();
}

#[test]
fn ext4_fills_up_to_the_last_byte() {
    let mount = Mount::ext4(16);
    mount.fill();
    let written = File::create(mount.path().join("more")).and_then(|mut file| file.write_all(b"x"));
    assert_eq!(written.unwrap_err().kind(), ErrorKind::StorageFull);
}

#[test]
fn a_directory_of_the_lower_layer_cannot_be_renamed_on_overlay() {
    let mount = Mount::overlay(|lower| {
        fs::create_dir(lower.join("old")).unwrap();
        fs::write(lower.join("old/part"), "lower").unwrap();
    });
    assert_eq!(fs::read_to_string(mount.path().join("old/part")).unwrap(), "lower");
    let error = fs::rename(mount.path().join("old"), mount.path().join("new")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CrossesDevices);
}

#[test]
fn xfs_answers_a_rename_over_a_full_directory_in_its_own_way() {
    let mount = Mount::xfs(320);
    for directory in ["one", "two"] {
        fs::create_dir(mount.path().join(directory)).unwrap();
        fs::write(mount.path().join(directory).join("part"), "").unwrap();
    }
    let error = fs::rename(mount.path().join("one"), mount.path().join("two")).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::EXIST.raw_os_error()));
}

#[test]
fn a_read_only_filesystem_refuses_root_too() {
    let mount = Mount::tmpfs(1);
    mount.set_read_only(true);
    assert_eq!(fs::write(mount.path().join("f"), "").unwrap_err().kind(), ErrorKind::ReadOnlyFilesystem);
    mount.set_read_only(false);
    fs::write(mount.path().join("f"), "").unwrap();
}

#[test]
fn dropping_a_mount_unmounts_it_even_while_a_file_is_open() {
    let mount = Mount::tmpfs(1);
    let path = mount.path();
    let open = File::create(path.join("open")).unwrap();
    drop(mount);
    drop(open);
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains(&*path.to_string_lossy()));
    assert!(!path.exists());
}
