//! LEASE-01, LEASE-02: a program that stands still past its lease, in whatever request, is refused by the store when it
//! wakes; and what it had published is not denied.

use crate::call::{Call, finish};
use crate::scene::{Scene, Shape, date, text};
use refrain_testkit::freeze::{state, stop, wait_for, wake};
use refrain_testkit::object::{Fault, HttpProxy, Kind, When};
use refrain_testkit::program::{Refrain, Running};

/// A call that stands still, and where its report will be.
struct Frozen {
    running: (Running, String),
    date: String,
    context: String,
}

fn start(scene: &Scene, refrain: &Refrain, date: &str) -> (Running, String) {
    let report = scene.home.join(format!("frozen-{date}.json")).display().to_string();
    (refrain.spawn(["run", "flights", "--date", date, "--rerun", "--ttl", "1s", "--report", &report]), report)
}

/// Publishes by another attempt what each of the frozen ones wanted to.
fn overtake(scene: &Scene, frozen: &[Frozen]) -> Vec<Call> {
    let calls = frozen.iter().map(|frozen| {
        let call = scene.run(&["--date", &frozen.date, "--wait"]);
        assert_eq!(call.output.code, Some(0), "{}\n{}", frozen.context, call.output);
        call
    });
    calls.collect()
}

/// What a woken call says is true: the head shows it, or it was refused.
#[track_caller]
fn is_true(scene: &Scene, call: &Call, (date, context): (&str, &str)) {
    let published = text(&scene.head(date, context)["attempt"]) == call.text("attempt");
    let outcome = call.text("outcome");
    assert_eq!(published, outcome == "published", "{context}\n{}", call.output);
    if !published {
        assert_eq!((call.output.code, outcome), (Some(121), "fenced"), "{context}\n{}", call.output);
        assert_eq!(call.text("window"), "nothing_published", "{context}");
    }
}

/// Freezes a call in each request of a publication, held on its way to the store or back.
fn hold_everywhere(shape: Shape, fault: Fault, replacing: bool) {
    let scene = Scene::new(Kind::MiniStack, shape);
    let proxy = HttpProxy::start(scene.bucket.server().port());
    let by_proxy = scene.through(&proxy);
    scene.run(&["--date", "2014-01-01"]).published();
    if replacing {
        scene.run(&["--date", "2014-01-02"]).published();
    }
    scene.run_by(&by_proxy, &["--date", "2014-01-02", "--rerun"]).published();
    let requests = proxy.take_requests();
    // Before its claim a call has no part in anything.
    let requests: Vec<_> = requests.iter().enumerate().skip_while(|(_, request)| request.method != "PUT").collect();
    let mut frozen = vec![];
    for (index, request) in requests {
        let date = date(frozen.len());
        if replacing {
            scene.run(&["--date", &date]).published();
        }
        proxy.on(When::any().nth(index as u64 + 1), fault);
        let running = start(&scene, &by_proxy, &date);
        let context = format!("{fault:?} of request {index}, like {} {}", request.method, request.path);
        wait_for(&context, || proxy.held() == frozen.len() + 1);
        stop(running.0.pid());
        // Uploads that are underway beside the held one are of the call that stands still.
        proxy.forget_rules();
        frozen.push(Frozen { running, date, context });
    }
    let overtakers = overtake(&scene, &frozen);
    proxy.release();
    wait_for("nothing is held", || proxy.held() == 0);
    let mut cases = vec![];
    for (frozen, overtaker) in frozen.into_iter().zip(overtakers) {
        let Frozen { running, date, context } = frozen;
        let before = scene.shown(&date, &context);
        wake(running.0.pid());
        is_true(&scene, &finish(running), (&date, &context));
        assert_eq!(scene.shown(&date, &context), before, "{context}");
        if overtaker.text("outcome") == "published" {
            let shown = text(&scene.head(&date, &context)["attempt"]);
            assert_eq!(shown, overtaker.text("attempt"), "{context}: the later publication stands");
        }
        cases.push((date, context));
    }
    scene.repeat_all(&cases);
    scene.ends(&cases);
}

#[test]
fn lease_02_a_request_for_a_new_prefix_that_is_held_past_the_lease_is_refused() {
    hold_everywhere(Shape::Prefix, Fault::HoldBefore, false);
}

#[test]
fn lease_02_a_request_for_a_replaced_object_that_is_held_past_the_lease_is_refused() {
    hold_everywhere(Shape::Object, Fault::HoldBefore, true);
}

#[test]
fn lease_02_an_answer_about_a_replaced_prefix_that_is_held_past_the_lease_changes_nothing() {
    hold_everywhere(Shape::Prefix, Fault::HoldAfter, true);
}

#[test]
fn lease_02_an_answer_about_a_new_object_that_is_held_past_the_lease_changes_nothing() {
    hold_everywhere(Shape::Object, Fault::HoldAfter, false);
}

/// Freezes a call at each point of a publication.
fn freeze_everywhere(kind: Kind, shape: Shape, points: &[&str]) {
    let scene = Scene::new(kind, shape);
    scene.run(&["--date", "2014-01-01"]).published();
    let mut frozen = vec![];
    for (index, point) in points.iter().enumerate() {
        let date = date(index);
        let stopping = scene.refrain().env("REFRAIN_CRASH_AT", format!("{point}=stop"));
        let running = start(&scene, &stopping, &date);
        let context = format!("frozen at {point}");
        wait_for(&context, || state(running.0.pid()) == Some('T'));
        frozen.push(Frozen { running, date, context });
    }
    // Nothing that they may still publish is taken away.
    scene.tell(&["gc"]);
    overtake(&scene, &frozen);
    let mut cases = vec![];
    for Frozen { running, date, context } in frozen {
        let before = scene.shown(&date, &context);
        wake(running.0.pid());
        is_true(&scene, &finish(running), (&date, &context));
        assert_eq!(scene.shown(&date, &context), before, "{context}");
        cases.push((date, context));
    }
    scene.ends(&cases);
}

const POINTS: [&str; 8] = [
    "after-acquire",
    "after-claim",
    "after-open-run",
    "after-task",
    "after-manifest",
    "after-seal",
    "before-commit",
    "after-commit",
];

#[test]
fn lease_01_a_call_that_is_frozen_past_its_lease_is_refused_by_the_bucket() {
    freeze_everywhere(Kind::MiniStack, Shape::Prefix, &POINTS);
    let of_objects = [&POINTS[..], &["after-intent", "before-record", "after-record"]].concat();
    freeze_everywhere(Kind::MiniStack, Shape::Object, &of_objects);
}

#[test]
fn lease_01_a_call_that_is_frozen_with_a_large_object_is_refused_by_the_bucket() {
    let points = ["after-intent", "after-upload-begun", "before-completion", "before-record"];
    freeze_everywhere(Kind::MiniStack, Shape::Large, &points);
    freeze_everywhere(Kind::SeaweedFs, Shape::Large, &["before-completion"]);
}

#[test]
fn lease_01_the_other_stores_refuse_it_too() {
    for kind in [Kind::SeaweedFs, Kind::Azurite, Kind::Gcs] {
        freeze_everywhere(kind, Shape::Object, &["before-commit", "after-intent", "before-record"]);
    }
}

#[test]
fn lease_02_an_object_that_was_published_and_replaced_while_its_call_slept_is_not_denied() {
    let scene = Scene::new(Kind::MiniStack, Shape::Object);
    for point in ["after-intent", "before-record"] {
        let date = if point == "after-intent" { "2013-01-01" } else { "2013-01-02" };
        let stopping = scene.refrain().env("REFRAIN_CRASH_AT", format!("{point}=stop"));
        let running = start(&scene, &stopping, date);
        wait_for(point, || state(running.0.pid()) == Some('T'));
        scene.run(&["--date", date, "--wait"]).already_published();
        let later = scene.run(&["--date", date, "--rerun"]).published();
        wake(running.0.pid());
        let woken = finish(running);
        assert_eq!((woken.output.code, woken.text("outcome")), (Some(121), "superseded"), "{point}\n{}", woken.output);
        assert_eq!(scene.shown(date, point).as_deref(), Some(later.text("attempt")));
    }
}

#[test]
fn tbl_07_gc_takes_nothing_from_an_attempt_that_may_still_publish() {
    for shape in [Shape::Prefix, Shape::Object] {
        let scene = Scene::new(Kind::MiniStack, shape);
        for (index, point) in ["after-manifest", "after-seal", "before-commit"].iter().enumerate() {
            let date = date(index);
            let stopping = scene.refrain().env("REFRAIN_CRASH_AT", format!("{point}=stop"));
            let running = start(&scene, &stopping, &date);
            wait_for(point, || state(running.0.pid()) == Some('T'));
            scene.tell(&["gc"]);
            wake(running.0.pid());
            finish(running).published();
            scene.ends(&[(date, format!("gc at {point}"))]);
        }
    }
}
