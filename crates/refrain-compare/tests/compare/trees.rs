//! Trees: names, links, modes.

use crate::support::{Outputs, only, told};
use refrain_compare::{FindingKind, Known, Options, Verdict, compare};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

fn write(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

#[test]
fn files_on_one_side_only() {
    let outputs = Outputs::new();
    write(&outputs.left("day/a.csv"), "a\n");
    write(&outputs.left("day/b.csv"), "b\n");
    write(&outputs.right("day/a.csv"), "a\n");
    fs::create_dir(outputs.right("empty")).unwrap();
    let comparison = outputs.compare();
    let expected = [
        (FindingKind::OnlyLeft, "a file only on the left side"),
        (FindingKind::OnlyRight, "an empty directory only on the right side"),
    ];
    assert_eq!(told(&comparison), expected);
    assert_eq!((comparison.files[0].name(), comparison.files[1].name()), ("day/b.csv", "empty"));
    assert_eq!(comparison.equal_files, 1);
}

#[test]
fn names_with_a_uuid_or_a_time_are_paired() {
    let outputs = Outputs::new();
    write(&outputs.left("part-0-6fa459ea-ee8a-4ca4-894e-db77e160355e.csv"), "a,b\n1,2\n");
    write(&outputs.right("part-0-16fd2706-8baf-433b-82eb-8c7fada847da.csv"), "a,b\n1,2\n");
    write(&outputs.left("log_20250324_101500.txt"), "x\n");
    write(&outputs.right("log_20250324_101501.txt"), "x\n");
    let comparison = outputs.compare();
    let expected = [
        (FindingKind::FileName, "the file's name differs by a time"),
        (FindingKind::FileName, "the file's name differs by a UUID"),
    ];
    assert_eq!(told(&comparison), expected);
}

#[test]
fn links_are_compared_and_not_followed() {
    let outputs = Outputs::new();
    write(&outputs.left("a"), "x");
    write(&outputs.right("a"), "x");
    for path in [outputs.left("same"), outputs.right("same")] {
        symlink("a", path).unwrap();
    }
    symlink("/s/1/a", outputs.left("moved")).unwrap();
    symlink("/s/2/a", outputs.right("moved")).unwrap();
    symlink("..", outputs.left("loop")).unwrap();
    symlink("..", outputs.right("loop")).unwrap();
    let known = vec![Known::new("the staging path", "/s/1", "/s/2")];
    let comparison = outputs.compare_with(&Options { known, ..Options::default() });
    assert_eq!(
        only(&comparison).text,
        "the link leads to `/s/1/a` on the left side, `/s/2/a` on the right: contains the staging path"
    );
}

#[test]
fn a_file_and_a_directory() {
    let outputs = Outputs::new();
    write(&outputs.left("a"), "x");
    write(&outputs.right("a/b"), "x");
    let comparison = compare(&outputs.left("a"), &outputs.right("a"), &Options::default()).unwrap();
    assert_eq!(only(&comparison).kind, FindingKind::FileType);
    let comparison = outputs.compare();
    assert_eq!(comparison.verdict, Verdict::ContentDiffers);
}

#[test]
fn modes_are_told_and_are_not_content() {
    let outputs = Outputs::pair("a", "x", "x");
    fs::set_permissions(outputs.left("a"), fs::Permissions::from_mode(0o640)).unwrap();
    fs::set_permissions(outputs.right("a"), fs::Permissions::from_mode(0o644)).unwrap();
    let comparison = outputs.compare();
    assert_eq!(only(&comparison).text, "mode 0640 on the left side, 0644 on the right");
    assert!(comparison.is_equivalent() && !comparison.is_equal());
}

#[test]
fn names_that_are_not_utf_8() {
    let outputs = Outputs::new();
    let name = OsStr::from_bytes(b"a\xff\xfe.csv");
    fs::write(outputs.left("").join(name), "a,b\n1,2\n").unwrap();
    fs::write(outputs.right("").join(name), "a,b\n1,3\n").unwrap();
    let comparison = outputs.compare();
    assert_eq!(only(&comparison).column.as_deref(), Some("b"));
    assert_eq!(comparison.files[0].name(), "a\u{fffd}\u{fffd}.csv");
}

#[test]
fn one_file_takes_its_format_from_the_name_given() {
    let outputs = Outputs::pair("staged", "a\n1\n2\n", "a\n2\n1\n");
    let options = Options { name: Some("out.csv".to_owned()), ..Options::default() };
    let comparison = compare(&outputs.left("staged"), &outputs.right("staged"), &options).unwrap();
    assert!(comparison.is_equivalent());
}

#[test]
fn a_side_that_is_missing_is_an_error_that_names_it() {
    let outputs = Outputs::pair("a", "x", "x");
    let error = compare(&outputs.left("a"), &outputs.right("b"), &Options::default()).unwrap_err();
    assert!(error.to_string().contains("right/b"), "{error}");
}
