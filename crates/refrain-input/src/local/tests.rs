//! Pins of every mode, what they notice, and what they must not be fooled by.

use super::*;
use refrain_core::NoProbe;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use tempfile::TempDir;

const VIEWING: [PinMode; 3] = [PinMode::Auto, PinMode::Copy, PinMode::Link];

/// A state directory and a directory of data, on one filesystem.
struct Place {
    root: TempDir,
    input: LocalInput,
}

impl Place {
    fn new() -> Self {
        Self::with(Arc::new(NoProbe))
    }

    fn with(probe: Arc<dyn CrashProbe>) -> Self {
        let root = tempfile::tempdir().unwrap();
        let real = fs::canonicalize(root.path()).unwrap();
        fs::create_dir(real.join("state")).unwrap();
        let input = LocalInput::new(real.join("state"), probe);
        Self { root, input }
    }

    fn at(&self, path: &str) -> PathBuf {
        fs::canonicalize(self.root.path()).unwrap().join(path)
    }

    fn write(&self, path: &str, content: &str) -> PathBuf {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    fn location(&self, path: &str) -> String {
        self.at(path).to_str().unwrap().to_owned()
    }

    fn request(&self, path: &str, mode: PinMode, owner: u128) -> PinRequest {
        let owner = AttemptId::from_uuid(uuid::Uuid::from_u128(owner));
        PinRequest { name: "in".to_owned(), location: self.location(path), owner, mode, outputs: Vec::new() }
    }

    fn pin(&self, path: &str, mode: PinMode) -> Result<PinnedInput> {
        self.input.pin(&self.request(path, mode, 7))
    }

    /// Another process of the same home.
    fn again(&self) -> LocalInput {
        LocalInput::new(self.at("state"), Arc::new(NoProbe))
    }

    fn version(&self, path: &str) -> String {
        self.input.version(&self.location(path)).unwrap()
    }

    fn views(&self) -> Vec<PathBuf> {
        fs::read_dir(self.at("state/views")).map(|list| list.map(|it| it.unwrap().path()).collect()).unwrap_or_default()
    }
}

/// Does something once, when a point is reached.
struct Meanwhile(CrashPoint, Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl CrashProbe for Meanwhile {
    fn reach(&self, point: CrashPoint) {
        if point == self.0
            && let Some(act) = self.1.lock().unwrap().take()
        {
            act();
        }
    }
}

fn make_pipe(at: &Path) {
    rustix::fs::mknodat(rustix::fs::CWD, at, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
}

fn read(place: &str) -> String {
    fs::read_to_string(place).unwrap()
}

#[test]
fn ledg_10_a_retry_reads_the_pinned_view_and_not_newer_input() {
    for mode in [PinMode::Auto, PinMode::Copy] {
        let place = Place::new();
        place.write("day.csv", "first");
        let pin = place.pin("day.csv", mode).unwrap();
        place.write("day.csv", "second");
        for input in [&place.input, &place.again()] {
            assert_eq!(read(&input.open(&pin).unwrap()), "first");
            assert_ne!(input.version(&pin.location).unwrap(), pin.version);
        }
        assert!(place.input.open(&pin).unwrap().ends_with("/day.csv"), "the extension stays");
    }
}

#[test]
fn ledg_10_a_retry_whose_pinned_version_is_gone_is_refused_and_told_which_file_it_was() {
    for mode in [PinMode::Verify, PinMode::Link] {
        for (path, file) in [("day.csv", "day.csv"), ("tree", "tree/a/x"), ("tree/a/*", "tree/a/x")] {
            let place = Place::new();
            place.write(file, "first");
            let pin = place.pin(path, mode).unwrap();
            place.input.open(&pin).unwrap();
            place.write(file, "other");
            let error = place.again().open(&pin).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Refused);
            let name = file.rsplit('/').next().unwrap();
            assert!(error.message.contains(&format!("{name}` changed")), "{mode:?} {path}: {error}");
            assert!(error.hint.unwrap().contains("--rerun"));
        }
    }
}

#[test]
fn a_torn_view_is_made_again_from_an_unchanged_original_and_refused_after_a_change() {
    let place = Place::new();
    place.write("tree/a/x", "1");
    let pin = place.pin("tree", PinMode::Auto).unwrap();
    let view = PathBuf::from(place.input.open(&pin).unwrap());
    let tear = |view: &Path| {
        fs::set_permissions(view.join("a"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::remove_file(view.join("a/x")).unwrap();
    };
    tear(&view);
    let again = PathBuf::from(place.again().open(&pin).unwrap());
    assert_eq!(fs::read_to_string(again.join("a/x")).unwrap(), "1");
    tear(&again);
    place.write("tree/a/x", "2");
    let error = place.again().open(&pin).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused);
    assert!(error.message.contains("`a/x` is gone"), "{error}");
    assert!(error.hint.unwrap().contains("--rerun"));
}

#[test]
fn an_original_that_changes_while_it_is_read_in_place_fails_the_seal_and_is_named() {
    let place = Place::new();
    for file in ["a", "b", "c", "d", "e"] {
        place.write(&format!("tree/{file}"), "first");
    }
    let pin = place.pin("tree", PinMode::Verify).unwrap();
    assert_eq!(place.input.open(&pin).unwrap(), place.location("tree"));
    for file in ["a", "b", "c", "d"] {
        place.write(&format!("tree/{file}"), "other");
    }
    let error = place.input.verify(&pin).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Guard);
    assert!(error.message.ends_with("`a` changed, `b` changed, `c` changed, and 1 more"), "{error}");
}

#[test]
fn the_same_content_written_again_in_place_is_a_change_and_moved_over_is_none() {
    let place = Place::new();
    place.write("day.csv", "same");
    let pin = place.pin("day.csv", PinMode::Verify).unwrap();
    place.write("other.csv", "same");
    fs::rename(place.at("other.csv"), place.at("day.csv")).unwrap();
    place.input.verify(&pin).unwrap();
    let pin = place.pin("day.csv", PinMode::Verify).unwrap();
    place.write("day.csv", "same");
    assert_eq!(place.input.verify(&pin).unwrap_err().kind, ErrorKind::Guard, "readers may have seen it empty");
}

#[test]
fn what_a_command_does_to_its_view_is_noticed_at_the_seal_and_by_the_retry() {
    for mode in VIEWING {
        let place = Place::new();
        place.write("tree/a", "first");
        let pin = place.pin("tree", mode).unwrap();
        let file = Path::new(&place.input.open(&pin).unwrap()).join("a");
        assert!(mode == PinMode::Link || fs::metadata(&file).unwrap().permissions().mode() & 0o222 == 0);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        fs::write(&file, "mine!").unwrap();
        let error = place.input.verify(&pin).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Guard);
        assert!(error.message.contains("`a` changed"), "{error}");
        match place.again().open(&pin) {
            Ok(again) => assert_eq!(read(&format!("{again}/a")), "first"),
            Err(error) => assert_eq!((error.kind, mode), (ErrorKind::Refused, PinMode::Link)),
        }
        if mode != PinMode::Link {
            let other = place.again();
            let pin = other.pin(&place.request("tree", mode, 8)).unwrap();
            assert_eq!(read(&format!("{}/a", other.open(&pin).unwrap())), "first", "another run has a view of its own");
        }
    }
}

#[test]
fn runs_that_read_the_same_content_share_a_view_which_stays_while_one_holds_it() {
    let place = Place::new();
    place.write("tree/a", "first");
    let [one, other] = [1, 2].map(|owner| place.request("tree", PinMode::Auto, owner));
    let pin = place.input.pin(&one).unwrap();
    let second = place.again().pin(&other).unwrap();
    assert_eq!(place.views().len(), 1);
    let sweep = |dry_run| place.input.sweep(&BTreeSet::new(), dry_run).unwrap();
    place.input.release(one.owner).unwrap();
    assert_eq!(sweep(false), Vec::<PathBuf>::new());
    assert_eq!(place.input.sweep(&BTreeSet::from([other.owner]), true).unwrap().len(), 1, "told, not done");
    assert_eq!(read(&format!("{}/a", place.again().open(&second).unwrap())), "first");
    place.input.release(other.owner).unwrap();
    assert_eq!(place.views().len(), 1, "spared for the next run");
    let third = place.again();
    let pinned = third.pin(&one).unwrap();
    assert_eq!(pinned.version, pin.version);
    place.input.release(one.owner).unwrap();
    assert_eq!(sweep(false).len(), 1);
    assert_eq!(place.views(), Vec::<PathBuf>::new());
}

#[test]
fn spare_views_are_bounded() {
    let place = Place::new();
    for day in 0..40_u128 {
        place.write("day.csv", &format!("{day}"));
        let request = place.request("day.csv", PinMode::Auto, day);
        place.input.pin(&request).unwrap();
        place.input.release(request.owner).unwrap();
    }
    assert_eq!(place.views().len(), 16);
}

#[test]
fn a_view_that_is_locked_or_of_a_torn_gc_is_not_taken() {
    let place = Place::new();
    place.write("day.csv", "first");
    place.pin("day.csv", PinMode::Auto).unwrap();
    let [view] = &place.views()[..] else { panic!("one view") };
    let lock = place::lock(view, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    assert!(lock.is_some());
    let other = place.again();
    let pin = other.pin(&place.request("day.csv", PinMode::Auto, 8)).unwrap();
    let read_at = other.open(&pin).unwrap();
    assert!(!Path::new(&read_at).starts_with(view), "{read_at}");
    assert_eq!(read(&read_at), "first");
}

#[test]
fn an_input_that_changes_while_it_is_copied_is_not_pinned() {
    for (point, name) in [(CrashPoint::BeforeKeep, "b"), (CrashPoint::AfterKeep, "a"), (CrashPoint::AfterKeep, "new")] {
        for mode in VIEWING {
            let changed = Arc::new(Mutex::new(PathBuf::new()));
            let act = {
                let changed = Arc::clone(&changed);
                move || fs::write(&*changed.lock().unwrap(), "later").unwrap()
            };
            let place = Place::with(Arc::new(Meanwhile(point, Mutex::new(Some(Box::new(act))))));
            place.write("tree/a", "first");
            place.write("tree/b", "first");
            *changed.lock().unwrap() = place.at(&format!("tree/{name}"));
            let error = place.pin("tree", mode).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Unavailable, "{mode:?} {point} {name}: {error}");
            assert!(error.message.contains(&format!("tree/{name}`")), "{error}");
            assert_eq!(place.views(), Vec::<PathBuf>::new());
            let pin = place.pin("tree", mode).unwrap();
            assert_eq!(read(&format!("{}/{name}", place.input.open(&pin).unwrap())), "later");
        }
    }
}

#[test]
fn a_pipe_a_socket_and_a_link_in_a_circle_are_refused_and_never_waited_for() {
    for what in ["pipe", "socket", "circle"] {
        for mode in PinMode::ALL {
            let place = Place::new();
            place.write("tree/file", "1");
            let make = |at: &Path| match what {
                "pipe" => make_pipe(at),
                "socket" => drop(std::os::unix::net::UnixListener::bind(at).unwrap()),
                _ => symlink(at.file_name().unwrap(), at).unwrap(),
            };
            make(&place.at("tree/odd"));
            make(&place.at("odd"));
            for path in ["odd", "tree", "tree/*"] {
                let error = place.pin(path, mode).unwrap_err();
                assert_eq!(error.kind, ErrorKind::Invalid, "{what} {path}: {error}");
                assert!(error.message.contains("odd`"), "{what} {path}: {error}");
            }
        }
    }
}

#[test]
fn a_file_that_becomes_a_pipe_or_a_circle_is_a_change_at_the_seal() {
    for circle in [false, true] {
        let place = Place::new();
        let file = place.write("tree/file", "1");
        let pin = place.pin("tree", PinMode::Verify).unwrap();
        fs::remove_file(&file).unwrap();
        if circle {
            symlink("file", &file).unwrap();
        } else {
            make_pipe(&file);
        }
        let error = place.input.verify(&pin).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Guard);
        assert!(error.message.contains("file`"), "{error}");
    }
}

#[test]
fn a_file_that_cannot_be_read_fails_the_pin_and_is_named() {
    let place = Place::new();
    // Opens, and fails to read, for everybody.
    symlink("/proc/self/mem", place.at("memory")).unwrap();
    let error = place.pin("memory", PinMode::Auto).unwrap_err();
    assert!(error.message.contains("/mem`"), "{error}");
    assert_eq!(place.views(), Vec::<PathBuf>::new());
}

#[test]
fn a_missing_input_is_named_with_what_leads_nowhere() {
    let place = Place::new();
    symlink("gone", place.at("link")).unwrap();
    for (path, says) in [("gone", "does not exist"), ("link", "leads nowhere"), ("*.csv", "no file matches `")] {
        let error = place.pin(path, PinMode::Auto).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid);
        assert!(error.message.contains(says), "{error}");
    }
}

#[test]
fn names_that_are_no_text_and_links_stay_what_they_are_in_a_view() {
    let place = Place::new();
    let odd = OsString::from_vec(b"sp ace\n\xff".to_vec());
    place.write("tree/sub/file", "inside");
    place.write("outside/file", "outside");
    fs::write(place.at("tree").join(&odd), "odd").unwrap();
    symlink("../tree/sub/file", place.at("tree/up")).unwrap();
    symlink(place.at("tree/sub"), place.at("tree/absolute")).unwrap();
    symlink("nowhere", place.at("tree/dangling")).unwrap();
    symlink("../outside", place.at("tree/out")).unwrap();
    for mode in VIEWING {
        let pin = place.pin("tree", mode).unwrap();
        let view = PathBuf::from(place.input.open(&pin).unwrap());
        assert_eq!(fs::read_to_string(view.join(&odd)).unwrap(), "odd");
        assert_eq!(fs::read_link(view.join("up")).unwrap(), Path::new("sub/file"), "stays inside");
        assert_eq!(fs::read_link(view.join("absolute")).unwrap(), Path::new("sub"), "stays inside");
        assert_eq!(fs::read_link(view.join("dangling")).unwrap(), Path::new("nowhere"));
        assert_eq!(fs::read_to_string(view.join("out/file")).unwrap(), "outside");
        assert!(!view.join("out").is_symlink(), "what lies outside is part of the input");
        assert_eq!(place.version("tree"), pin.version);
        let again = place.again();
        again.open(&pin).unwrap();
        again.verify(&pin).unwrap();
    }
    let before = place.version("tree");
    place.write("outside/file", "changed");
    assert_ne!(place.version("tree"), before);
    symlink(place.at(""), place.at("tree/above")).unwrap();
    let error = place.pin("tree", PinMode::Auto).unwrap_err();
    assert!(error.message.contains("a link to a directory above it"), "{error}");
}

#[test]
fn det_07_the_order_in_which_files_were_made_does_not_change_version_view_or_list() {
    let place = Place::new();
    let mut names: Vec<String> = (0..300).map(|n| format!("{:03}/{n}", n % 7)).collect();
    for name in &names {
        place.write(&format!("one/data/{name}"), name);
    }
    names.reverse();
    names.rotate_left(100);
    for name in &names {
        place.write(&format!("other/data/{name}"), name);
    }
    let [one, other] = ["one/data", "other/data"].map(|path| place.pin(path, PinMode::Auto).unwrap());
    assert_eq!(one.version, other.version);
    assert_eq!(place.views().len(), 1);
    let [one, other] = ["one/data/*/1*", "other/data/*/1*"].map(|path| place.pin(path, PinMode::Verify).unwrap());
    assert_eq!(one.version, other.version);
    let list = record::read(&place.at("state").join(other.snapshot.unwrap())).unwrap();
    assert!(list.entries.is_sorted_by(|one, other| one.path < other.path));
    assert_eq!(list.version().unwrap(), one.version);
}

#[test]
fn a_file_of_a_pattern_that_comes_goes_or_changes_is_a_change() {
    let place = Place::new();
    place.write("data/a/1.csv", "1");
    place.write("data/b/1.csv", "2");
    let versions: Vec<String> = [
        Box::new(|| ()) as Box<dyn Fn()>,
        Box::new(|| drop(place.write("data/c/1.csv", "3"))),
        Box::new(|| fs::remove_file(place.at("data/a/1.csv")).unwrap()),
        Box::new(|| drop(place.write("data/b/1.csv", "4"))),
    ]
    .into_iter()
    .map(|change| {
        change();
        place.version("data/*/1.csv")
    })
    .collect();
    assert_eq!(versions.iter().collect::<BTreeSet<_>>().len(), 4);
    place.write("data/b/2.csv", "not of it");
    assert_eq!(place.version("data/*/1.csv"), versions[3]);
}

#[test]
fn a_change_right_after_a_look_is_always_seen() {
    let place = Place::new();
    for round in 0..200 {
        // As long, and as soon, as the one before.
        place.write("day.csv", &format!("{round:03}"));
        let expected = format!("blake3:{}", blake3::hash(format!("{round:03}").as_bytes()).to_hex());
        assert_eq!(place.version("day.csv"), expected);
    }
}

#[test]
fn a_missing_torn_or_foreign_memory_of_files_is_harmless() {
    let place = Place::new();
    place.write("tree/a", "1");
    place.write("tree/b", "2");
    let version = place.version("tree");
    let seen = place.at("state/seen");
    let files = || fs::read_dir(&seen).unwrap().map(|it| it.unwrap().path()).collect::<Vec<_>>();
    let [file] = &files()[..] else { panic!("one file") };
    let whole = fs::read(file).unwrap();
    let mut listing = Listing::take(&Location::Path(place.at("tree"))).unwrap();
    Seen::of(&place.at("state"), &place.at("tree")).recall(&mut listing);
    assert!(listing.version().is_some(), "it speaks for unchanged files");
    for length in [0, 1, 40, whole.len() / 2, whole.len() - 1] {
        fs::write(file, &whole[..length]).unwrap();
        assert_eq!(place.version("tree"), version);
    }
    let mut damaged = whole.clone();
    damaged[60 + 45] ^= 1;
    fs::write(file, damaged).unwrap();
    assert_eq!(place.version("tree"), version);
    fs::remove_dir_all(&seen).unwrap();
    fs::write(&seen, "a file where the directory should be").unwrap();
    assert_eq!(place.version("tree"), version);
}

#[test]
fn many_who_pin_the_same_input_at_once_get_one_whole_view() {
    let place = Place::new();
    for file in 0..100 {
        place.write(&format!("tree/{file}"), &"x".repeat(file));
    }
    std::thread::scope(|scope| {
        for owner in 0..8 {
            let place = &place;
            scope.spawn(move || {
                let input = place.again();
                let pin = input.pin(&place.request("tree", PinMode::Auto, owner)).unwrap();
                let view = PathBuf::from(input.open(&pin).unwrap());
                assert_eq!(fs::read_dir(view).unwrap().count(), 100);
                input.verify(&pin).unwrap();
            });
        }
    });
    // One who looks while another has just put it may have made a second.
    assert!(place.views().len() <= 2, "{:?}", place.views());
}

#[test]
fn a_link_to_what_the_task_publishes_is_refused() {
    let place = Place::new();
    place.write("out/day.csv", "published");
    fs::create_dir(place.at("tree")).unwrap();
    symlink(place.at("out/day.csv"), place.at("tree/day.csv")).unwrap();
    for path in ["tree", "tree/*.csv"] {
        for mode in PinMode::ALL {
            let outputs = vec![place.location("out/[a-z]*.csv")];
            let error = place.input.pin(&PinRequest { outputs, ..place.request(path, mode, 7) }).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Invalid);
            assert!(error.message.contains("out/day.csv"), "{error}");
        }
    }
}

#[test]
fn second_names_that_files_are_given_meanwhile_are_no_change() {
    use std::sync::atomic::{AtomicBool, Ordering};
    for mode in [PinMode::Auto, PinMode::Copy, PinMode::Link, PinMode::Verify] {
        let place = Place::new();
        let files: Vec<_> = (0..40).map(|number| place.write(&format!("tree/{number}"), "content")).collect();
        let second = place.at("second");
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    for file in &files {
                        fs::hard_link(file, &second).unwrap();
                        fs::remove_file(&second).unwrap();
                    }
                }
            });
            let pins: Vec<_> = (1..9).map(|owner| place.input.pin(&place.request("tree", mode, owner))).collect();
            stop.store(true, Ordering::Relaxed);
            for pin in pins {
                drop(pin.unwrap());
            }
        });
    }
}

#[test]
fn a_file_that_is_written_to_and_dated_back_while_it_is_copied_is_not_pinned() {
    let root = tempfile::tempdir().unwrap();
    let file = fs::canonicalize(root.path()).unwrap().join("data");
    let act = {
        let file = file.clone();
        move || {
            let times = fs::metadata(&file).unwrap().modified().unwrap();
            fs::write(&file, "EVIL").unwrap();
            fs::File::options().write(true).open(&file).unwrap().set_modified(times).unwrap();
        }
    };
    fs::write(&file, "good").unwrap();
    let probe = Meanwhile(CrashPoint::AfterKeep, Mutex::new(Some(Box::new(act))));
    let place = Place::with(Arc::new(probe));
    let request = PinRequest { location: file.to_str().unwrap().to_owned(), ..place.request("", PinMode::Copy, 1) };
    let error = place.input.pin(&request).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
}
