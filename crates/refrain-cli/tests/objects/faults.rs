//! OBJ-01, OBJ-02, TBL-01: what networks and stores do to each request of a publication. The call ends as if nothing had
//! been, and a request that is carried out late changes nothing.

use crate::scene::{Scene, Shape, date};
use refrain_testkit::object::{Exchange, Fault, HttpProxy, Kind, When};

/// What is done to one request, with the publication going on.
const FAULTS: [Fault; 9] = [
    Fault::CutBefore,
    Fault::CutAfter,
    Fault::CutAnswer,
    Fault::AnswerBefore(503),
    Fault::AnswerAfter(503),
    Fault::AnswerAfter(409),
    Fault::AnswerAfter(412),
    Fault::TwiceFirst,
    Fault::TwiceSecond,
];

/// Those after which it is open what the store did.
const DOUBTS: [Fault; 4] = [Fault::CutBefore, Fault::CutAfter, Fault::AnswerAfter(412), Fault::TwiceSecond];

/// The requests of one publication; with `replacing`, over one that stands.
fn requests(scene: &Scene, proxy: &HttpProxy, replacing: bool) -> Vec<Exchange> {
    // The first publication tries the bucket out.
    scene.run(&["--date", "2014-01-01"]).published();
    if replacing {
        scene.run(&["--date", "2014-01-02"]).published();
    }
    proxy.take_requests();
    let by_proxy = scene.through(proxy);
    scene.run_by(&by_proxy, &["--date", "2014-01-02", "--rerun"]).published();
    let requests = proxy.take_requests();
    assert!(requests.iter().all(|request| request.status.is_some_and(|status| status < 300 || status == 404)));
    requests
}

/// Does each of the faults to each request of a publication.
fn fault_everywhere(kind: Kind, shape: Shape, replacing: bool, faults: &[Fault]) {
    let scene = Scene::new(kind, shape);
    let proxy = HttpProxy::start(scene.bucket.server().port());
    let by_proxy = scene.through(&proxy);
    let requests = requests(&scene, &proxy, replacing);
    let mut cases = vec![];
    for fault in faults {
        for (index, request) in requests.iter().enumerate() {
            let date = date(cases.len());
            let context = format!("{fault:?} of request {index}, like {} {}", request.method, request.path);
            if replacing {
                scene.run(&["--date", &date]).published();
            }
            let (executions, before) = (scene.executions(), proxy.faults());
            proxy.on(When::any().nth(index as u64 + 1), *fault);
            let call = scene.run_by(&by_proxy, &["--date", &date, "--rerun"]);
            assert_eq!(proxy.faults(), before + 1, "{context}");
            assert_eq!(call.output.code, Some(0), "{context}\n{}", call.output);
            let call = call.published();
            assert_eq!(scene.executions(), executions + 1, "{context}");
            assert_eq!(scene.head(&date, &context)["attempt"], call.text("attempt"), "{context}");
            cases.push((date, context));
        }
    }
    scene.repeat_all(&cases);
    scene.ends(&cases);
}

#[test]
fn obj_01_a_new_prefix_is_published_once_whatever_is_done_to_a_request() {
    fault_everywhere(Kind::MiniStack, Shape::Prefix, false, &FAULTS);
}

#[test]
fn obj_01_a_replaced_prefix_is_published_once_whatever_is_done_to_a_request() {
    fault_everywhere(Kind::MiniStack, Shape::Prefix, true, &DOUBTS);
}

#[test]
fn obj_01_a_new_object_is_published_once_whatever_is_done_to_a_request() {
    fault_everywhere(Kind::MiniStack, Shape::Object, false, &FAULTS);
}

#[test]
fn obj_01_a_replaced_object_is_published_once_whatever_is_done_to_a_request() {
    fault_everywhere(Kind::MiniStack, Shape::Object, true, &DOUBTS);
}

#[test]
fn obj_01_two_outputs_are_published_once_whatever_is_done_to_a_request() {
    fault_everywhere(Kind::MiniStack, Shape::Both, true, &[Fault::CutAfter, Fault::AnswerAfter(412)]);
}

/// Cuts each request, which the store gets after a successor has published.
fn late_everywhere(shape: Shape) {
    let scene = Scene::new(Kind::MiniStack, shape);
    let proxy = HttpProxy::start(scene.bucket.server().port());
    let by_proxy = scene.through(&proxy);
    let requests = requests(&scene, &proxy, true);
    let mut cases = vec![];
    for (index, request) in requests.iter().enumerate() {
        let date = date(index);
        let context = format!("request {index} comes late, like {} {}", request.method, request.path);
        scene.run(&["--date", &date]).published();
        proxy.on(When::any().nth(index as u64 + 1), Fault::Later);
        scene.run_by(&by_proxy, &["--date", &date, "--rerun"]).published();
        assert_eq!(proxy.late(), 1, "{context}");
        let successor = scene.run(&["--date", &date, "--rerun"]).published();
        let status = proxy.deliver();
        assert_eq!(scene.shown(&date, &context).as_deref(), Some(successor.text("attempt")), "{context}: {status:?}");
        // And the version before it is still one.
        let kept = scene.tell(&["path", "flights", "--date", &date, "--version", "2"]).stdout;
        let parts = if shape == Shape::Prefix { crate::scene::PARTS } else { 1 };
        assert_eq!(kept.lines().filter(|place| scene.read(place).is_some()).count(), parts, "{context}: {kept}");
        cases.push((date, context));
    }
    scene.repeat_all(&cases);
    scene.ends(&cases);
}

#[test]
fn tbl_01_a_request_for_a_prefix_that_lands_after_a_successor_changes_nothing() {
    late_everywhere(Shape::Prefix);
}

#[test]
fn tbl_01_a_request_for_an_object_that_lands_after_a_successor_changes_nothing() {
    late_everywhere(Shape::Object);
}
