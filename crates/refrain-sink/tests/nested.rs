//! Slots inside one another: a directory is published whole and would take the inner one with it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod support;

use refrain_core::{Adopt, Error, ErrorKind, Sink, SlotAddress};
use refrain_sink::LocalSink;
use refrain_testkit::mounts::Mount;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use support::{ADOPT, Content, Home, OVERWRITE};

const TREE: Content<'_> = Content::Tree(&[("a", "1"), ("sub/b", "1")]);

fn refused(sink: &LocalSink, slot: &SlotAddress, adopt: Adopt) -> Error {
    let error = sink.preflight(slot, None, adopt).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused, "{error}");
    error
}

#[test]
fn nothing_is_published_inside_a_published_directory() {
    let home = Home::new();
    let (files, directories) = (home.files(), home.directories());
    let outer = home.slot(&directories, "data/tree/");
    directories.preflight(&outer, None, Adopt::Never).unwrap();
    files.preflight(&home.slot(&files, "data/tree/in.txt"), None, Adopt::Never).unwrap();
    home.publish(&directories, &outer, 1, &TREE);
    symlink("data/tree", home.join("alias")).unwrap();
    for spec in ["data/tree/in.txt", "data/tree/sub/deep/in.txt", "alias/in.txt", "data/../alias/sub/in.txt"] {
        for adopt in [Adopt::Never, Adopt::Foreign] {
            let error = refused(&files, &home.slot(&files, spec), adopt);
            assert!(error.message.contains(&format!("inside `{}`", home.join("data/tree").display())), "{error}");
            assert!(error.message.contains("by `t`"), "the key that owns it: {error}");
            let hint = error.hint.unwrap();
            assert!(hint.contains("publish it outside of") && hint.contains(".head` away"), "{hint}");
        }
    }
    for spec in ["data/tree/sub/", "data/tree/new/", "alias/sub/"] {
        refused(&directories, &home.slot(&directories, spec), Adopt::Foreign);
    }
    // Beside it, above it in name only, and the directory itself.
    files.preflight(&home.slot(&files, "data/tree.txt"), None, Adopt::Never).unwrap();
    directories.preflight(&home.slot(&directories, "data/other/"), None, Adopt::Never).unwrap();
    directories.preflight(&outer, None, Adopt::Never).unwrap();
    home.publish(&directories, &outer, 2, &TREE);
    // What was published there is gone, and may come back.
    fs::remove_dir_all(home.join("data")).unwrap();
    refused(&files, &home.slot(&files, "data/tree/in.txt"), Adopt::Never);
}

#[test]
fn the_head_of_a_directory_that_nobody_publishes_any_more_can_be_moved_away() {
    let home = Home::new();
    let (files, directories) = (home.files(), home.directories());
    home.publish(&directories, &home.slot(&directories, "tree/"), 1, &TREE);
    let inner = home.slot(&files, "tree/in.txt");
    let hint = refused(&files, &inner, Adopt::Never).hint.unwrap();
    let head = hint.split('`').find(|part| Path::new(part).extension().is_some_and(|it| it == "head")).unwrap();
    fs::rename(head, home.join("old.head")).unwrap();
    files.preflight(&inner, None, Adopt::Never).unwrap();
}

#[test]
fn nothing_is_published_inside_a_link_to_a_version() {
    let below = tempfile::tempdir().unwrap();
    let mount = Mount::bindfs(below.path());
    let home = Home::at(&mount.path());
    home.publish(&home.directories(), &home.slot(&home.directories(), "tree/"), 1, &TREE);
    for spec in ["tree/in.txt", "tree/sub/in.txt"] {
        let error = home.files().address(spec, &home.path()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid);
        assert!(error.message.contains("inside") && error.message.contains("published whole by `t`"), "{error}");
    }
    drop(home);
    drop(mount);
}

#[test]
fn a_directory_that_others_publish_into_is_not_adopted() {
    // The second is too large to look at every entry.
    for others in [3, 10_500] {
        let home = Home::new();
        let (files, directories) = (home.files(), home.directories());
        let inner = home.slot(&files, "tree/sub/z.txt");
        home.publish(&files, &inner, 1, &Content::File("precious"));
        home.publish(&files, &home.slot(&files, "beside.txt"), 1, &Content::File("x"));
        for at in 0..others {
            fs::write(home.join(&format!("tree/{at}")), "").unwrap();
        }
        let outer = home.slot(&directories, "tree/");
        for adopt in [Adopt::Never, Adopt::Foreign] {
            let error = refused(&directories, &outer, adopt);
            assert!(error.message.contains("tree/sub/z.txt` is published by `t`"), "{error}");
            assert!(!format!("{error:?}").contains("--adopt"), "{error:?}");
        }
        // It may come between the preflight and the commit.
        let request = home.attempt(1, std::slice::from_ref(&outer)).prepare(&directories, &outer, &TREE);
        let error = directories.commit(&outer, &request, &ADOPT).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Refused, "{error}");
        assert_eq!(fs::read_to_string(home.join("tree/sub/z.txt")).unwrap(), "precious");
        // What was removed by hand is not lost by it.
        fs::remove_file(home.join("tree/sub/z.txt")).unwrap();
        directories.preflight(&outer, None, Adopt::Foreign).unwrap();
    }
}

#[test]
fn an_inner_slot_that_came_before_this_was_refused_is_not_overwritten_with_drift() {
    let home = Home::new();
    let (files, directories) = (home.files(), home.directories());
    let outer = home.slot(&directories, "tree/");
    home.publish(&directories, &outer, 1, &TREE);
    // Without the preflight.
    home.publish(&files, &home.slot(&files, "tree/in.txt"), 1, &Content::File("precious"));
    let request = home.attempt(2, std::slice::from_ref(&outer)).prepare(&directories, &outer, &TREE);
    let error = directories.commit(&outer, &request, &OVERWRITE).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused, "{error}");
    assert_eq!(fs::read_to_string(home.join("tree/in.txt")).unwrap(), "precious");
}
