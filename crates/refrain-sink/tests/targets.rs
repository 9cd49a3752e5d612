//! Which targets are taken, under which name, and which are refused before a task starts.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod support;

use refrain_core::{Adopt, CommitAnswer, Condition, ErrorKind, Sink};
use refrain_sink::{LocalKind, LocalSink};
use refrain_testkit::mounts::Mount;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;
use support::{ADOPT, Content, Home, STRICT};

#[test]
fn a_slot_has_one_name_however_it_is_spelled() {
    let home = Home::new();
    let files = home.files();
    fs::create_dir_all(home.join("real/deep")).unwrap();
    symlink("real", home.join("alias")).unwrap();
    fs::write(home.join("real/x.csv"), "x").unwrap();
    symlink("x.csv", home.join("real/link.csv")).unwrap();
    let expected = home.slot(&files, "real/x.csv");
    assert_eq!(expected.location, "home:real/x.csv");
    for spec in
        ["./real/x.csv", "alias/x.csv", "real/deep/../x.csv", "alias/deep/../x.csv", "real//x.csv", "real/link.csv"]
    {
        assert_eq!(home.slot(&files, spec), expected, "{spec}");
    }
    assert_eq!(files.address("x.csv", &home.join("alias")).unwrap(), expected);
    assert_eq!(files.address(home.join("real/x.csv").to_str().unwrap(), Path::new("/")).unwrap(), expected);
    assert_eq!(home.slot(&files, "not/there/yet.csv").location, "home:not/there/yet.csv");
    assert_eq!(home.slot(&home.directories(), "real/deep/").location, "home:real/deep");
}

#[test]
fn targets_that_cannot_be_are_refused_by_name() {
    let home = Home::new();
    let (files, directories) = (home.files(), home.directories());
    symlink("nowhere", home.join("dangling")).unwrap();
    symlink("loop", home.join("loop")).unwrap();
    fs::write(home.join("file"), "x").unwrap();
    let refused: &[(&LocalSink, &str, &str)] = &[
        (&files, "", "empty"),
        (&files, "dir/", "names a directory"),
        (&directories, "file", "names a file"),
        (&directories, "./", "home itself"),
        (&directories, "../", "lies inside it"),
        (&directories, "/", "root"),
        (&files, ".refrain/x", "Refrain's own state"),
        (&directories, ".refrain/", "lies inside"),
        (&files, "dangling", "does not exist"),
        (&files, "loop", "leads nowhere"),
        (&files, "file/x", "nothing can lie below"),
        (&files, "other/.refrain/x", "state of another home"),
        (&directories, "other/.refrain/deep/x/", "state of another home"),
    ];
    fs::create_dir_all(home.join("other/.refrain/slots")).unwrap();
    fs::create_dir_all(home.join("none/.refrain")).unwrap();
    assert_eq!(home.slot(&files, "none/.refrain/x").location, "home:none/.refrain/x", "no home's");
    for (sink, spec, reason) in refused {
        let error = sink.address(spec, &home.path()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid, "{spec}");
        assert!(error.message.contains(reason), "`{spec}`: {error}");
    }
}

#[test]
fn one_target_inside_another_is_told() {
    let home = Home::new();
    let (files, directories) = (home.files(), home.directories());
    let outer = home.slot(&directories, "out/");
    let inner = home.slot(&files, "out/x");
    let beside = home.slot(&files, "out.csv");
    assert!(files.contains(&outer, &inner) && !files.contains(&inner, &outer) && !files.contains(&outer, &beside));
}

#[test]
fn a_moved_home_keeps_its_heads() {
    let home = Home::new();
    let slot = home.slot(&home.files(), "x");
    home.publish(&home.files(), &slot, 1, &Content::File("x"));
    let elsewhere = tempfile::tempdir().unwrap();
    let moved = elsewhere.path().join("moved");
    let copied = std::process::Command::new("cp").arg("-a").arg(home.path()).arg(&moved).status().unwrap();
    assert!(copied.success());
    let sink = LocalSink::new(LocalKind::File, &moved, &[], Arc::new(refrain_core::NoProbe)).unwrap();
    assert_eq!(sink.address("x", &moved).unwrap(), slot);
    let head = sink.read(&slot).unwrap();
    assert!(head.is_some());
    assert_eq!(sink.condition(&slot, head.as_ref()).unwrap(), Condition::Intact, "other inodes, the same content");
}

#[test]
fn what_stands_at_the_target_is_refused_or_adopted_as_version_0() {
    for (kind, spec) in [(LocalKind::File, "x"), (LocalKind::Directory, "x/")] {
        let home = Home::new();
        let sink = home.sink(kind);
        let content = match kind {
            LocalKind::File => Content::File("new"),
            LocalKind::Directory => Content::Tree(&[("new", "new")]),
        };
        match kind {
            LocalKind::File => fs::write(home.join("x"), "foreign").unwrap(),
            LocalKind::Directory => {
                fs::create_dir(home.join("x")).unwrap();
                fs::write(home.join("x/foreign"), "foreign").unwrap();
            }
        }
        let slot = home.slot(&sink, spec);
        let error = sink.preflight(&slot, None, Adopt::Never).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Refused);
        assert!(error.hint.unwrap().contains("--adopt"));
        sink.preflight(&slot, None, Adopt::Foreign).unwrap();
        let attempt = home.attempt(1, std::slice::from_ref(&slot));
        let request = attempt.prepare(&sink, &slot, &content);
        assert!(matches!(sink.condition(&slot, None).unwrap(), Condition::Foreign(_)));
        assert_eq!(sink.commit(&slot, &request, &STRICT).unwrap_err().kind, ErrorKind::Conflict);
        assert_eq!(sink.commit(&slot, &request, &ADOPT).unwrap(), CommitAnswer::Committed);
        let versions = sink.versions(&slot).unwrap();
        assert_eq!(versions[1].generation.get(), 0);
        let kept = Path::new(&versions[1].locations[0]).join(if kind == LocalKind::File { "" } else { "foreign" });
        let kept = kept.to_str().unwrap().trim_end_matches('/').to_owned();
        assert_eq!(fs::read_to_string(kept).unwrap(), "foreign");
    }
}

#[test]
fn special_files_and_wrong_kinds_are_refused_before_the_task() {
    let home = Home::new();
    let (files, directories) = (home.files(), home.directories());
    fs::create_dir(home.join("dir")).unwrap();
    fs::write(home.join("file"), "x").unwrap();
    assert!(std::process::Command::new("mkfifo").arg(home.join("fifo")).status().unwrap().success());
    for (sink, spec, reason) in
        [(&files, "dir", "a directory"), (&files, "fifo", "named pipe"), (&directories, "file/", "a file")]
    {
        let error = sink.preflight(&home.slot(sink, spec), None, Adopt::Foreign).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid);
        assert!(error.message.contains(reason), "{spec}: {error}");
    }
}

#[test]
fn fs_05_another_filesystem_is_refused_or_has_its_own_staging() {
    let home = Home::new();
    let other = Mount::tmpfs(8);
    let target = other.path().join("x.csv");
    let files = home.files();
    let slot = files.address(target.to_str().unwrap(), Path::new("/")).unwrap();
    let error = files.preflight(&slot, None, Adopt::Never).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.hint.unwrap().contains(&format!("staging = [\"{}/.refrain-staging\"]", other.path().display())));

    let volume = other.path().join(".refrain-staging");
    let sink =
        LocalSink::new(LocalKind::File, &home.path(), std::slice::from_ref(&volume), Arc::new(refrain_core::NoProbe))
            .unwrap();
    sink.preflight(&slot, None, Adopt::Never).unwrap();
    assert_eq!(fs::metadata(&volume).unwrap().permissions().mode() & 0o777, 0o700);
    home.publish(&sink, &slot, 1, &Content::File("one"));
    home.publish(&sink, &slot, 2, &Content::File("two"));
    assert_eq!(fs::read_to_string(&target).unwrap(), "two");
    assert_eq!(sink.versions(&slot).unwrap().len(), 2);
}

#[test]
fn fs_07_names_of_255_bytes_are_published() {
    let home = Home::new();
    for name in ["x".repeat(255), format!("{}x", "\u{00fc}".repeat(127)), "\u{6f22}".repeat(85)] {
        assert_eq!(name.len(), 255);
        let (files, directories) = (home.files(), home.directories());
        let slot = home.slot(&files, &name);
        home.publish(&files, &slot, 1, &Content::File("one"));
        home.publish(&files, &slot, 2, &Content::File("two"));
        assert_eq!(fs::read_to_string(home.join(&name)).unwrap(), "two");
        fs::create_dir_all(home.join("d")).unwrap();
        let slot = home.slot(&directories, &format!("d/{name}/"));
        home.publish(&directories, &slot, 1, &Content::Tree(&[("a", "one")]));
        home.publish(&directories, &slot, 2, &Content::Tree(&[("a", "two")]));
        assert_eq!(fs::read_to_string(home.join("d").join(&name).join("a")).unwrap(), "two");
    }
}

#[test]
fn fs_08_other_names_of_the_target_are_never_written_through() {
    let home = Home::new();
    let files = home.files();
    let slot = home.slot(&files, "out.csv");
    home.publish(&files, &slot, 1, &Content::File("one"));
    fs::hard_link(home.join("out.csv"), home.join("mirror.csv")).unwrap();
    let error = files.preflight(&slot, None, Adopt::Never).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused);
    assert!(error.message.contains("2 names"), "{error}");
    files.preflight(&slot, None, Adopt::Foreign).unwrap();
    home.publish(&files, &slot, 2, &Content::File("two"));
    assert_eq!(fs::read_to_string(home.join("mirror.csv")).unwrap(), "one");
    assert_eq!(fs::metadata(home.join("out.csv")).unwrap().nlink(), 1);
}

#[test]
fn a_publication_through_a_link_stands_at_its_destination() {
    let home = Home::new();
    let files = home.files();
    let slot = home.slot(&files, "real.csv");
    home.publish(&files, &slot, 1, &Content::File("one"));
    symlink("real.csv", home.join("link.csv")).unwrap();
    let through = home.slot(&files, "link.csv");
    assert_eq!(through, slot);
    home.publish(&files, &through, 2, &Content::File("two"));
    assert!(home.join("link.csv").is_symlink());
    assert_eq!(fs::read_to_string(home.join("real.csv")).unwrap(), "two");
}

#[test]
fn a_read_only_target_is_told_before_the_task() {
    let home = Home::new();
    let small = Mount::tmpfs(4);
    let sink = LocalSink::new(
        LocalKind::File,
        &home.path(),
        &[small.path().join(".refrain-staging")],
        Arc::new(refrain_core::NoProbe),
    )
    .unwrap();
    let slot = sink.address(small.path().join("x").to_str().unwrap(), Path::new("/")).unwrap();
    sink.preflight(&slot, None, Adopt::Never).unwrap();
    let remount = std::process::Command::new("mount").args(["-o", "remount,ro"]).arg(small.path()).status().unwrap();
    assert!(remount.success());
    let error = sink.preflight(&slot, None, Adopt::Never).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.message.contains("read-only"), "{error}");
}
