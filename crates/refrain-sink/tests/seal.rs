//! Guards, metadata and durability of what a task made.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod support;

use refrain_core::{Error, ErrorKind, Guards, Sink};
use refrain_sink::{LocalKind, LocalSink, provenance_of};
use refrain_testkit::mounts::Mount;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use support::{Content, Home, STRICT, guards};

/// Stages, lets `task` write, and seals with the guards.
fn seal_with(
    home: &Home,
    kind: LocalKind,
    guards: &Guards,
    task: impl FnOnce(&Path),
) -> Result<refrain_core::SealedData, Error> {
    let sink = home.sink(kind);
    let slot = home.slot(&sink, if kind == LocalKind::File { "out" } else { "out/" });
    let staging = home.attempt(1, std::slice::from_ref(&slot)).stage(&sink, &slot);
    let place = staging.path();
    task(&place);
    Ok(sink.seal(staging, guards)?.into_data().unwrap())
}

fn refused(kind: LocalKind, reason: &str, task: impl FnOnce(&Path)) {
    let error = seal_with(&Home::new(), kind, &guards(), task).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Guard, "{error}");
    assert!(error.message.contains(reason), "{error}");
}

#[test]
fn what_is_not_the_declared_output_is_refused() {
    use LocalKind::{Directory, File};
    refused(File, "made no output", |_| {});
    refused(File, "is empty", |place| fs::write(place, "").unwrap());
    refused(File, "made a directory", |place| fs::create_dir(place).unwrap());
    refused(File, "made a symbolic link", |place| symlink("/etc/passwd", place).unwrap());
    refused(File, "outside the declared output `", |place| {
        fs::write(place, "x").unwrap();
        fs::write(place.with_extension("tmp"), "x").unwrap();
    });
    refused(File, "2 names", |place| {
        let other = place.parent().unwrap().parent().unwrap().parent().unwrap().join("other");
        fs::write(&other, "x").unwrap();
        fs::hard_link(other, place).unwrap();
    });
    refused(Directory, "is empty", |place| fs::create_dir(place.join("sub")).unwrap());
    refused(Directory, "made no output", |place| fs::remove_dir(place).unwrap());
    refused(Directory, "made a file", |place| {
        fs::remove_dir(place).unwrap();
        fs::write(place, "x").unwrap();
    });
    refused(Directory, "a named pipe", |place| {
        assert!(Command::new("mkfifo").arg(place.join("p")).status().unwrap().success());
    });
    refused(Directory, "outside the output", |place| {
        let other = place.parent().unwrap().parent().unwrap().parent().unwrap().join("other");
        fs::write(&other, "x").unwrap();
        fs::hard_link(other, place.join("x")).unwrap();
    });
}

#[test]
fn sizes_are_guarded() {
    let home = Home::new();
    let lenient = Guards { allow_empty: true, ..guards() };
    assert_eq!(seal_with(&home, LocalKind::File, &lenient, |it| fs::write(it, "").unwrap()).unwrap().bytes, 0);
    assert_eq!(seal_with(&home, LocalKind::Directory, &lenient, |_| {}).unwrap().files, 0);
    let strict = Guards { min_bytes: Some(4), min_files: Some(2), ..guards() };
    let error = seal_with(&home, LocalKind::Directory, &strict, |it| fs::write(it.join("a"), "xxx").unwrap());
    assert!(error.unwrap_err().message.contains("3 bytes"));
    let error = seal_with(&home, LocalKind::Directory, &strict, |it| fs::write(it.join("a"), "xxxx").unwrap());
    assert!(error.unwrap_err().message.contains("1 file,"));
}

#[test]
fn dir_07_links_that_leave_the_output_are_refused_and_inner_ones_kept() {
    refused(LocalKind::Directory, "absolute", |it| symlink("/precious", it.join("x")).unwrap());
    refused(LocalKind::Directory, "leads out", |it| symlink("../../precious", it.join("x")).unwrap());
    refused(LocalKind::Directory, "leads out", |it| {
        fs::write(it.join("a"), "x").unwrap();
        let name = it.file_name().unwrap().to_str().unwrap();
        symlink(format!("../{name}/a"), it.join("x")).unwrap();
    });
    refused(LocalKind::Directory, "leads nowhere", |it| symlink("missing", it.join("x")).unwrap());
    let home = Home::new();
    let sealed = seal_with(&home, LocalKind::Directory, &guards(), |it| {
        fs::create_dir(it.join("sub")).unwrap();
        fs::write(it.join("a"), "x").unwrap();
        symlink("../a", it.join("sub/x")).unwrap();
    })
    .unwrap();
    assert_eq!((sealed.files, sealed.bytes), (1, 1));
}

#[test]
fn dir_07_discarding_staging_removes_links_and_not_what_they_name() {
    let home = Home::new();
    let precious = home.join("precious");
    fs::create_dir(&precious).unwrap();
    fs::write(precious.join("data"), "x").unwrap();
    for root_is_link in [false, true] {
        let sink = home.directories();
        let slot = home.slot(&sink, "out/");
        let staging = home.attempt(1, std::slice::from_ref(&slot)).stage(&sink, &slot);
        if root_is_link {
            fs::remove_dir(staging.path()).unwrap();
            symlink(&precious, staging.path()).unwrap();
        } else {
            symlink(&precious, staging.path().join("x")).unwrap();
            fs::create_dir(staging.path().join("locked")).unwrap();
            fs::write(staging.path().join("locked/y"), "y").unwrap();
            fs::set_permissions(staging.path().join("locked"), fs::Permissions::from_mode(0o500)).unwrap();
        }
        let staged = sink.staged().unwrap();
        assert_eq!(staged.len(), 1);
        assert_eq!(staged[0].owner.as_ref().unwrap().1, staging.id);
        sink.discard(&staged[0]).unwrap();
        assert_eq!(home.leftovers(), Vec::<String>::new());
        assert!(precious.join("data").exists());
    }
}

#[test]
fn staging_without_a_readable_name_is_kept_and_reported() {
    let home = Home::new();
    let sink = home.files();
    let slot = home.slot(&sink, "out");
    let attempt = home.attempt(1, std::slice::from_ref(&slot));
    attempt.stage(&sink, &slot);
    fs::remove_file(home.slots().join(format!("{}.0.owner", attempt.holder.attempt))).unwrap();
    assert_eq!(sink.staged().unwrap()[0].owner, None);
    assert!(home.directories().staged().unwrap().is_empty(), "it is reported once");
}

#[test]
fn many_slots_make_an_owner_too_long_for_a_link() {
    let home = Home::new();
    let sink = home.files();
    let slots: Vec<_> = (0..40).map(|at| home.slot(&sink, &format!("{at}{}", "x".repeat(150)))).collect();
    let attempt = home.attempt(1, &slots);
    attempt.stage(&sink, &slots[39]);
    assert_eq!(sink.staged().unwrap()[0].owner, Some((slots[39].clone(), attempt.staging_id())));
}

#[test]
fn fs_04_mode_and_group_are_kept() {
    for (kind, spec) in [(LocalKind::File, "dir/out"), (LocalKind::Directory, "dir/out/")] {
        let home = Home::new();
        let sink = home.sink(kind);
        let content = |text| match kind {
            LocalKind::File => Content::File(text),
            LocalKind::Directory => Content::Tree(&[("a", "x")]),
        };
        fs::create_dir(home.join("dir")).unwrap();
        chown(home.join("dir"), None, Some(1234)).unwrap();
        fs::set_permissions(home.join("dir"), fs::Permissions::from_mode(0o2775)).unwrap();
        let slot = home.slot(&sink, spec);
        home.publish(&sink, &slot, 1, &content("one"));
        let fresh = fs::metadata(home.join("dir/out")).unwrap();
        assert_eq!(fresh.gid(), 1234, "{kind:?}: as the kernel gives in a setgid directory");
        let plain = home.join("dir/plain");
        match kind {
            LocalKind::File => fs::write(&plain, "x").unwrap(),
            LocalKind::Directory => {
                fs::create_dir(&plain).unwrap();
                assert_eq!(fs::metadata(home.join("dir/out/a")).unwrap().gid(), 1234);
            }
        }
        assert_eq!(fresh.mode(), fs::metadata(&plain).unwrap().mode(), "{kind:?}: as written straight there");

        let mode = if kind == LocalKind::File { 0o640 } else { 0o2750 };
        chown(home.join("dir/out"), Some(4321), Some(777)).unwrap();
        fs::set_permissions(home.join("dir/out"), fs::Permissions::from_mode(mode)).unwrap();
        let attempt = home.attempt(2, std::slice::from_ref(&slot));
        let request = attempt.prepare(&sink, &slot, &content("two"));
        let staged = home.slots().join(format!("{}.0/out", attempt.holder.attempt));
        for path in [staged, home.join("dir/out")] {
            let metadata = fs::metadata(path).unwrap();
            assert_eq!((metadata.mode() & 0o7777, metadata.uid(), metadata.gid()), (mode, 4321, 777), "{kind:?}");
        }
        assert_eq!(sink.commit(&slot, &request, &STRICT).unwrap(), refrain_core::CommitAnswer::Committed);
        let metadata = fs::metadata(home.join("dir/out")).unwrap();
        assert_eq!((metadata.mode() & 0o7777, metadata.uid(), metadata.gid()), (mode, 4321, 777), "{kind:?}");
    }
}

#[test]
fn the_published_path_says_where_it_came_from() {
    let home = Home::new();
    for (kind, spec) in [(LocalKind::File, "f"), (LocalKind::Directory, "d/")] {
        let sink = home.sink(kind);
        let slot = home.slot(&sink, spec);
        let content = if kind == LocalKind::File { Content::File("x") } else { Content::Tree(&[("a", "x")]) };
        home.publish(&sink, &slot, 1, &content);
        assert_eq!(provenance_of(&sink.target(&slot).unwrap()).unwrap(), Some(guards().provenance));
    }
    fs::write(home.join("plain"), "x").unwrap();
    assert_eq!(provenance_of(&home.join("plain")).unwrap(), None);
    assert_eq!(provenance_of(&home.join("missing")).unwrap_err().kind, ErrorKind::Invalid);
}

#[test]
fn digests_tell_content_names_and_kinds_apart_and_nothing_else() {
    let digest = |task: &dyn Fn(&Path)| {
        seal_with(&Home::new(), LocalKind::Directory, &guards(), |place| task(place)).unwrap().digest
    };
    let plain = digest(&|it| fs::write(it.join("a"), "x").unwrap());
    assert_eq!(plain, digest(&|it| fs::write(it.join("a"), "x").unwrap()));
    let others = [
        digest(&|it| fs::write(it.join("a"), "y").unwrap()),
        digest(&|it| fs::write(it.join("b"), "x").unwrap()),
        digest(&|it| {
            fs::write(it.join("a"), "x").unwrap();
            fs::create_dir(it.join("empty")).unwrap();
        }),
        digest(&|it| {
            fs::write(it.join("a"), "x").unwrap();
            fs::set_permissions(it.join("a"), fs::Permissions::from_mode(0o755)).unwrap();
        }),
        digest(&|it| {
            fs::write(it.join("a"), "x").unwrap();
            symlink("a", it.join("b")).unwrap();
        }),
    ];
    for (at, other) in others.iter().enumerate() {
        assert_ne!(*other, plain, "{at}");
        assert!(others[at + 1..].iter().all(|another| another != other), "{at}");
    }
}

#[test]
fn fs_13_a_failed_fsync_fails_the_attempt_and_says_so() {
    for (kind, name) in [(LocalKind::File, "x"), (LocalKind::Directory, "x/")] {
        let mut mount = Mount::ext4(32);
        {
            let home = Home::at(&mount.path());
            let sink = home.sink(kind);
            let slot = home.slot(&sink, name);
            home.publish(&sink, &slot, 1, &content_of(kind));
            let attempt = home.attempt(2, std::slice::from_ref(&slot));
            attempt.claim(&sink, &slot);
            let staging = attempt.stage(&sink, &slot);
            content_of(kind).write(&staging.path());
            mount.cut();
            let error = sink.seal(staging, &Guards::default()).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Internal, "{error}");
            std::mem::forget(home.dir);
        }
        mount.restore();
    }
}

fn content_of(kind: LocalKind) -> Content<'static> {
    if kind == LocalKind::File { Content::File("x") } else { Content::Tree(&[("a", "x"), ("b/c", "x")]) }
}

#[test]
fn a_full_filesystem_is_named() {
    let home = Home::new();
    let small = Mount::tmpfs(1);
    let sink = LocalSink::new(
        LocalKind::File,
        &home.path(),
        &[small.path().join(".refrain-staging")],
        Arc::new(refrain_core::NoProbe),
    )
    .unwrap();
    let slot = sink.address(small.path().join("x").to_str().unwrap(), Path::new("/")).unwrap();
    sink.preflight(&slot, None, refrain_core::Adopt::Never).unwrap();
    assert!(fs::write(small.path().join("filler"), vec![1_u8; 2 << 20]).is_err());
    let attempt = home.attempt(1, std::slice::from_ref(&slot));
    let error = sink.claim(&slot, &attempt.claim_request()).unwrap_err();
    assert!(error.message.contains(&format!("no space is left on `{}`", small.path().display())), "{error}");
    assert_eq!(error.kind, ErrorKind::Internal);
    fs::remove_file(small.path().join("filler")).unwrap();
    let request = attempt.prepare(&sink, &slot, &Content::File("x"));
    assert_eq!(sink.commit(&slot, &request, &STRICT).unwrap(), refrain_core::CommitAnswer::Committed);
}
