//! What a run reads of a bucket, and what it costs to know whether it changed.

use super::{DATE, Scene, fails};
use refrain_testkit::object::{Fault, HttpProxy, Kind, Server, When};
use std::fs;
use std::os::unix::fs::PermissionsExt;

const PART: usize = 2 << 20;

fn a_copy_is_read(kind: Kind) {
    let scene = Scene::new(kind);
    let date = |name: &str| format!("raw/dt={DATE}/{name}");
    scene.bucket.put(&date("b/x.csv"), b"2\n");
    scene.bucket.put(&date("a ü.csv"), b"1\n");
    scene.bucket.put("raw/dt=2013-01-02/z.csv", b"no\n");
    scene.declare(&scene.url("raw/dt={date}/"), "");
    scene.job(&[]).success();
    assert_eq!(scene.published(), "1\n2\n");
    scene.job(&["--if-changed"]).success().says("already published");
    // Written again, with the same content: with S3 nothing tells but the time, and nothing changed.
    if matches!(kind, Kind::MiniStack | Kind::SeaweedFs) {
        scene.bucket.put(&date("b/x.csv"), b"2\n");
        scene.job(&["--if-changed"]).success().says("already published");
    }
    scene.bucket.put(&date("b/x.csv"), b"3\n");
    scene.job(&["--if-changed"]).success();
    assert_eq!(scene.published(), "1\n3\n");
    scene.bucket.put(&date("c.csv"), b"4\n");
    scene.job(&["--if-changed"]).success();
    assert_eq!(scene.published(), "1\n3\n4\n");
    scene.bucket.delete(&date("b/x.csv"));
    scene.job(&["--if-changed"]).success();
    assert_eq!(scene.published(), "1\n4\n");
}

fn one_object_is_read(kind: Kind) {
    let scene = Scene::new(kind);
    scene.bucket.put(&format!("raw/{DATE}.csv"), b"one\n");
    scene.declare(&scene.url("raw/{date}.csv"), "case $REFRAIN_IN_IN in */2013-01-01.csv) ;; *) exit 3 ;; esac");
    scene.job(&[]).success();
    assert_eq!(scene.published(), "one\n");
    scene.job(&["--if-changed"]).success().says("already published");
    scene.bucket.put(&format!("raw/{DATE}.csv"), b"two\n");
    scene.job(&["--if-changed"]).success();
    assert_eq!(scene.published(), "two\n");
}

macro_rules! on_each_server {
    ($($name:ident: $kind:expr;)*) => {
        $(mod $name {
            use super::Kind;

            #[test]
            fn a_copy_of_a_prefix_is_read_and_its_changes_are_noticed() {
                super::a_copy_is_read($kind);
            }

            #[test]
            fn a_copy_of_an_object_is_read_and_its_changes_are_noticed() {
                super::one_object_is_read($kind);
            }
        })*
    };
}

on_each_server! {
    ministack: Kind::MiniStack;
    seaweedfs: Kind::SeaweedFs;
    azurite: Kind::Azurite;
    gcs: Kind::Gcs;
}

#[test]
fn obj_05_a_pin_names_sizes_versions_and_checksums_and_every_attempt_reads_it() {
    let scene = Scene::new(Kind::MiniStack);
    scene.bucket.put(&format!("raw/{DATE}.csv"), b"one\n");
    scene.declare(&scene.url("raw/{date}.csv"), "stat -c %a \"$REFRAIN_IN_IN\" > modes; test -e go || exit 1");
    fails(&scene.job(&[]), &["Nothing was published."]);
    assert_eq!(scene.home.read("modes").trim(), "444");
    let pins = scene.home.join(".refrain/pins");
    let owner = fs::read_dir(pins).unwrap().next().unwrap().unwrap().path();
    let record = fs::read_to_string(owner.join("in/objects")).unwrap();
    let record: serde_json::Value = serde_json::from_str(&record).unwrap();
    assert_eq!(record["objects"][0]["bytes"], 4);
    assert_eq!(record["objects"][0]["digest"], format!("blake3:{}", blake3::hash(b"one\n").to_hex()));
    assert!(record["objects"][0]["e_tag"].is_string(), "{record}");
    // A retry reads what was pinned, whatever is there now.
    scene.bucket.put(&format!("raw/{DATE}.csv"), b"two\n");
    scene.home.write("go", "");
    scene.job(&[]).success();
    assert_eq!(scene.published(), "one\n");
}

#[test]
fn a_copy_that_is_gone_is_fetched_again_or_the_run_is_refused() {
    let scene = Scene::new(Kind::MiniStack);
    let key = format!("raw/{DATE}.csv");
    scene.bucket.put(&key, b"one\n");
    scene.declare(&scene.url("raw/{date}.csv"), "test -e go || exit 1");
    fails(&scene.job(&[]), &["Nothing was published."]);
    let drop_views = || {
        for view in fs::read_dir(scene.home.join(".refrain/views")).unwrap() {
            let view = view.unwrap().path();
            fs::set_permissions(view.join("content"), fs::Permissions::from_mode(0o700)).unwrap();
            fs::remove_dir_all(view).unwrap();
        }
    };
    drop_views();
    scene.bucket.put(&key, b"two\n");
    fails(&scene.job(&[]), &["the pinned version of the input `in`", "changed", "--rerun"]);
    scene.bucket.put(&key, b"one\n");
    scene.home.write("go", "");
    scene.job(&[]).success();
    assert_eq!(scene.published(), "one\n");
}

#[test]
fn what_is_verified_is_read_by_its_url_and_a_change_refuses_the_publication() {
    let scene = Scene::new(Kind::MiniStack);
    scene.bucket.put(&format!("raw/dt={DATE}/a.csv"), b"1\n");
    let input = format!("{{ path = {}, pin = \"verify\" }}", scene.url("raw/dt={date}/"));
    let script = "echo $REFRAIN_IN_IN > url; touch reading; while test -e wait; do sleep 0.05; done; \
                  echo done > \"$REFRAIN_OUT\"; exit 0";
    scene.declare(&input, script);
    scene.job(&[]).success();
    assert_eq!(scene.home.read("url").trim(), scene.bucket.url(&format!("raw/dt={DATE}/")));
    assert_eq!(scene.in_state("views"), 0, "nothing is copied");
    scene.home.write("wait", "");
    fs::remove_file(scene.home.join("reading")).unwrap();
    let running = scene.refrain().spawn(["run", "job", "--date", DATE, "--rerun"]);
    while !scene.home.exists("reading") {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    scene.bucket.put(&format!("raw/dt={DATE}/b.csv"), b"2\n");
    fs::remove_file(scene.home.join("wait")).unwrap();
    fails(&running.wait(), &["changed while the task ran: `b.csv` is new", "Nothing was published."]);
    scene.job(&["--rerun"]).success();
}

#[test]
fn to_know_whether_it_changed_no_content_is_sent_and_what_did_not_change_is_not_fetched_again() {
    let scene = Scene::new(Kind::MiniStack);
    let proxy = HttpProxy::start(Server::shared(Kind::MiniStack).port());
    let scene = scene.through(proxy.port());
    for number in 0..20 {
        scene.bucket.put(&format!("raw/dt={DATE}/{number}.csv"), b"1\n");
    }
    scene.declare(&scene.url("raw/dt={date}/"), "");
    scene.job(&[]).success();
    proxy.take_requests();
    scene.refrain_for("why", "job", &[]).success();
    scene.job(&["--if-changed"]).success();
    let lists = proxy.take_requests();
    assert!(lists.iter().all(|exchange| exchange.query.contains("list-type")), "{lists:?}");
    assert!(lists.len() <= 4, "{lists:?}");
    scene.job(&["--rerun"]).success();
    let gets = proxy.take_requests();
    assert!(gets.iter().all(|exchange| exchange.query.contains("list-type")), "{gets:?}");
}

#[test]
fn an_object_that_is_replaced_while_it_is_fetched_is_not_pinned() {
    let scene = Scene::new(Kind::MiniStack);
    let server = scene.bucket.clone();
    let proxy = HttpProxy::start(Server::shared(Kind::MiniStack).port());
    let scene = scene.through(proxy.port());
    let key = format!("raw/{DATE}.csv");
    server.put(&key, &vec![b'a'; 3 * PART]);
    scene.declare(&scene.url("raw/{date}.csv"), "");
    proxy.on(When::method("GET").path(&key).nth(2), Fault::HoldBefore);
    let running = scene.start_job();
    while proxy.held() == 0 {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    server.put(&key, &vec![b'b'; 3 * PART]);
    proxy.release();
    fails(&running.wait(), &["changed while it was being pinned", "Nothing was published."]);
    assert_eq!(scene.in_state("fetches"), 0);
    scene.job(&[]).success();
    assert_eq!(scene.published(), "b".repeat(3 * PART));
}

#[test]
fn a_fetch_that_was_killed_is_gone_on_with() {
    let scene = Scene::new(Kind::MiniStack);
    let proxy = HttpProxy::start(Server::shared(Kind::MiniStack).port());
    let scene = scene.through(proxy.port());
    let key = format!("raw/{DATE}.csv");
    scene.bucket.put(&key, &vec![b'a'; 4 * PART]);
    scene.declare(&scene.url("raw/{date}.csv"), "");
    proxy.on(When::method("GET").path(&key).nth(4), Fault::HoldBefore);
    let running = scene.start_job();
    while proxy.held() == 0 {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    running.kill();
    proxy.forget_rules();
    proxy.release();
    assert_eq!(scene.in_state("fetches"), 1);
    proxy.take_requests();
    scene.job(&["--wait=2m"]).success();
    let gets =
        proxy.take_requests().into_iter().filter(|exchange| exchange.method == "GET" && exchange.path.contains(&key));
    assert_eq!(gets.count(), 1, "three parts were there");
    assert_eq!(scene.published(), "a".repeat(4 * PART));
    assert_eq!(scene.in_state("fetches"), 0);
}

#[test]
fn what_nobody_goes_on_fetching_is_collected() {
    let scene = Scene::new(Kind::MiniStack);
    let proxy = HttpProxy::start(Server::shared(Kind::MiniStack).port());
    let scene = scene.through(proxy.port());
    scene.bucket.put(&format!("raw/{DATE}.csv"), &vec![b'a'; 2 * PART]);
    scene.declare(&scene.url("raw/{date}.csv"), "");
    proxy.on(When::method("GET").path(DATE).nth(2), Fault::HoldBefore);
    let running = scene.start_job();
    while proxy.held() == 0 {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    scene.refrain().run(["gc"]).success();
    assert_eq!(scene.in_state("fetches"), 1, "it is being fetched");
    running.kill();
    proxy.forget_rules();
    proxy.release();
    scene.refrain().run(["gc", "--dry-run"]).success();
    assert_eq!(scene.in_state("fetches"), 1);
    scene.refrain().run(["gc"]).success();
    assert_eq!(scene.in_state("fetches"), 0);
}
