//! Many calls for one key, and a server that dies in the middle.

use crate::scene::{Scene, Shape, date};
use refrain_testkit::freeze::wait_for;
use refrain_testkit::object::{Fault, HttpProxy, Kind, Server, When};
use refrain_testkit::program::Running;

const DATE: &str = "2013-01-01";

/// Starts so many calls at once; one of them executes the task.
fn race(scene: &Scene, racers: usize) {
    let before = scene.executions();
    let calls: Vec<_> = (0..racers).map(|_| scene.refrain().spawn(["run", "flights", "--date", DATE])).collect();
    let ends: Vec<_> = calls.into_iter().map(Running::wait).collect();
    for end in &ends {
        assert!(end.code == Some(120) || end.code == Some(0) && end.stderr.contains("published: "), "{end}");
    }
    let published = ends.iter().filter(|end| end.stderr.starts_with("published: ")).count();
    assert_eq!((scene.executions() - before, published), (1, 1));
}

#[test]
fn obj_02_of_32_racers_one_publishes() {
    for shape in [Shape::Prefix, Shape::Object] {
        let scene = Scene::new(Kind::MiniStack, shape);
        race(&scene, 32);
        scene.ends(&[(DATE.to_owned(), format!("{shape:?} raced"))]);
    }
}

#[test]
fn obj_02_of_racers_at_another_store_one_publishes() {
    let scene = Scene::new(Kind::SeaweedFs, Shape::Both);
    race(&scene, 4);
    scene.ends(&[(DATE.to_owned(), "raced".to_owned())]);
}

#[test]
fn obj_02_homes_that_share_a_bucket_and_no_store_never_publish_over_each_other() {
    let first = Scene::new(Kind::MiniStack, Shape::Both);
    let published = first.run(&["--date", DATE]).published();
    let second = Scene::of(first.bucket.clone(), Shape::Both);
    for flags in [&["--date", DATE][..], &["--date", DATE, "--rerun"]] {
        second.run(flags).nothing(125, "refused").says("this home's store does not replace");
    }
    assert_eq!(first.shown(DATE, "refused").as_deref(), Some(published.text("attempt")));
    second.tell(&["gc"]);
    first.ends(&[(DATE.to_owned(), "two homes".to_owned())]);
}

/// Kills the server when a request of a publication is on its way, and starts it again.
fn kill_the_server(kind: Kind, shape: Shape, requests: &[(&str, &str)]) {
    let server = Server::start(kind);
    let scene = Scene::of(server.bucket(), shape);
    scene.run(&["--date", "2014-01-01"]).published();
    let proxy = HttpProxy::start(server.port());
    let mut cases = vec![];
    for (index, ((method, path), fault)) in
        requests.iter().flat_map(|request| [(request, Fault::HoldBefore), (request, Fault::HoldAfter)]).enumerate()
    {
        let (date, context) = (date(index), format!("the server dies: {fault:?} {method} {path}"));
        let (path, number) = path.split_once('#').unwrap_or((path, "1"));
        // The object itself, not its record.
        let path = if path == "reports/" { scene.at(path) } else { path.to_owned() };
        proxy.on(When::method(method).path(&path).nth(number.parse().unwrap()), fault);
        let report = scene.home.join(format!("{index}.json")).display().to_string();
        let running = scene.through(&proxy).spawn(["run", "flights", "--date", &date, "--report", &report]);
        wait_for(&context, || proxy.held() == 1);
        server.kill();
        proxy.cut_all();
        proxy.release();
        proxy.forget_rules();
        server.restart();
        // It may have had the patience, or have ended with what it could know.
        let ended = running.wait();
        assert!([Some(0), Some(122), Some(125)].contains(&ended.code), "{context}\n{ended}");
        let stands = scene.shown(&date, &context).is_some();
        match ended.code {
            Some(0) => assert!(stands, "{context}\n{ended}"),
            Some(125) => assert!(!stands, "{context}\n{ended}"),
            _ => {}
        }
        let again = scene.run(&["--date", &date]);
        assert_eq!(again.output.code, Some(0), "{context}\n{}", again.output);
        cases.push((date, context));
    }
    scene.ends(&cases);
}

#[test]
fn obj_01_a_server_that_is_killed_in_the_middle_loses_and_doubles_nothing() {
    kill_the_server(Kind::MiniStack, Shape::Prefix, &[("GET", "/slot/"), ("PUT", "/data/"), ("PUT", "/slot/#2")]);
    kill_the_server(Kind::MiniStack, Shape::Object, &[("PUT", "/slot/#2"), ("PUT", "reports/"), ("PUT", "/slot/#3")]);
}

#[test]
fn obj_01_another_server_that_is_killed_in_the_middle_loses_and_doubles_nothing() {
    kill_the_server(Kind::SeaweedFs, Shape::Both, &[("PUT", "/slot/delays#2"), ("PUT", "reports/")]);
}
