//! Object stores, and the proxy in front of them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

use refrain_testkit::freeze::wait_for;
use refrain_testkit::object::{Bucket, Fault, HttpProxy, Kind, Server, When};
use std::thread;

/// A bucket, the proxy in front of its server, and the bucket by way of it.
fn proxied() -> (Bucket, HttpProxy, Bucket) {
    let bucket = Server::shared(Kind::MiniStack).bucket();
    let proxy = HttpProxy::start(bucket.server().port());
    let through = bucket.through(proxy.port());
    (bucket, proxy, through)
}

fn statuses(proxy: &HttpProxy) -> Vec<Option<u16>> {
    proxy.requests().into_iter().map(|exchange| exchange.status).collect()
}

#[test]
fn every_server_keeps_objects_in_buckets_apart_from_each_other() {
    for kind in Kind::ALL {
        let server = Server::shared(kind);
        let (bucket, other) = (server.bucket(), server.bucket());
        let key = "dt=2013-01-01/part 1+ü&.csv";
        assert_eq!(bucket.get(key), None, "{kind}");
        bucket.put(key, b"old");
        bucket.put(key, b"new");
        bucket.put("other", b"");
        assert_eq!(bucket.get(key).as_deref(), Some(&b"new"[..]), "{kind}");
        assert_eq!(bucket.get("other").as_deref(), Some(&b""[..]), "{kind}");
        assert_eq!(bucket.keys(""), [key, "other"], "{kind}");
        assert_eq!(bucket.keys("dt="), [key], "{kind}");
        assert!(other.keys("").is_empty(), "{kind}");
        bucket.delete(key);
        bucket.delete(key);
        assert_eq!(bucket.keys(""), ["other"], "{kind}");
    }
}

#[test]
fn on_every_server_one_of_several_creators_wins() {
    for kind in Kind::ALL {
        let bucket = Server::shared(kind).bucket();
        // SeaweedFS lets racers wait for a second each.
        let racers = if kind == Kind::SeaweedFs { 3 } else { 8 };
        let winners: Vec<usize> = thread::scope(|scope| {
            let race = |racer: usize| {
                let bucket = &bucket;
                scope.spawn(move || bucket.create_object("head", racer.to_string().as_bytes()).then_some(racer))
            };
            let racing: Vec<_> = (0..racers).map(race).collect();
            racing.into_iter().filter_map(|racer| racer.join().unwrap()).collect()
        });
        let [winner] = winners[..] else { panic!("{kind}: {winners:?} won") };
        assert_eq!(bucket.get("head").unwrap(), winner.to_string().into_bytes(), "{kind}");
        assert!(!bucket.create_object("head", b"late"), "{kind}");
    }
}

#[test]
fn what_was_acknowledged_is_there_after_a_kill() {
    for kind in [Kind::MiniStack, Kind::SeaweedFs, Kind::Gcs] {
        let server = Server::start(kind);
        let bucket = server.bucket();
        let port = server.port();
        for number in 0..20 {
            assert!(bucket.create_object(&format!("object-{number}"), b"kept"));
        }
        server.kill();
        assert!(bucket.try_create_object("object-20", b"lost").is_err(), "{kind}");
        server.restart();
        assert_eq!(server.port(), port);
        assert_eq!(bucket.keys("").len(), 20, "{kind}");
        assert!(!bucket.create_object("object-7", b"again"), "{kind}");
        assert_eq!(bucket.get("object-19").as_deref(), Some(&b"kept"[..]), "{kind}");
        server.restart();
        assert_eq!(bucket.keys("").len(), 20, "{kind}");
    }
}

#[test]
fn azurite_starts_again_after_a_kill() {
    let server = Server::start(Kind::Azurite);
    server.kill();
    server.restart();
    let bucket = server.bucket();
    assert!(bucket.create_object("head", b"x"));
    assert_eq!(bucket.keys(""), ["head"]);
}

#[test]
fn uploads_that_were_begun_are_seen_and_are_no_objects() {
    for kind in Kind::ALL {
        let bucket = Server::shared(kind).bucket();
        assert!(bucket.uploads().is_empty(), "{kind}");
        let id = bucket.begin_upload("data/large");
        assert_eq!(bucket.uploads(), [("data/large".to_owned(), id)], "{kind}");
        assert!(bucket.keys("").is_empty(), "{kind}");
    }
}

#[test]
fn long_listings_are_whole() {
    for kind in [Kind::MiniStack, Kind::Gcs] {
        let bucket = Server::shared(kind).bucket();
        let keys: Vec<String> = (0..1100).map(|number| format!("many/{number:04}")).collect();
        for key in &keys {
            bucket.put(key, b"");
        }
        assert_eq!(bucket.keys("many/"), keys, "{kind}");
    }
}

#[test]
fn requests_pass_through_the_proxy_and_are_noted() {
    for kind in Kind::ALL {
        let bucket = Server::shared(kind).bucket();
        let proxy = HttpProxy::start(bucket.server().port());
        let through = bucket.through(proxy.port());
        let large = vec![7; 3 << 20];
        through.put("a b/large", &large);
        assert!(!through.create_object("a b/large", b"x"), "{kind}");
        assert_eq!(through.get("a b/large").unwrap(), large, "{kind}");
        assert_eq!(through.get("absent"), None, "{kind}");
        assert_eq!(through.keys(""), ["a b/large"], "{kind}");
        assert!(through.header("a b/large", "etag").is_some(), "{kind}");
        let seen = proxy.take_requests();
        let methods: Vec<&str> = seen.iter().map(|exchange| exchange.method.as_str()).collect();
        assert_eq!(methods, ["PUT", "PUT", "GET", "GET", "GET", "HEAD"], "{kind}");
        assert!(seen[0].path.ends_with(&format!("/{}/a b/large", bucket.name())), "{kind}: {}", seen[0].path);
        assert_eq!(seen[0].body_bytes, large.len());
        let refused = if kind == Kind::Azurite { 409 } else { 412 };
        assert_eq!(seen[1].status, Some(refused), "{kind}");
        assert_eq!(seen[3].status, Some(404), "{kind}");
        assert!(proxy.requests().is_empty());
    }
}

#[test]
fn a_cut_before_leaves_nothing_and_a_cut_after_leaves_the_object() {
    let (bucket, proxy, through) = proxied();
    proxy.on(When::method("PUT").path("one"), Fault::CutBefore);
    assert!(through.try_create_object("one", b"x").is_err());
    assert_eq!(bucket.get("one"), None);
    assert!(through.create_object("one", b"x"));

    proxy.on(When::method("PUT").path("two"), Fault::CutAfter);
    assert!(through.try_create_object("two", b"x").is_err());
    assert_eq!(bucket.get("two").as_deref(), Some(&b"x"[..]));
    assert!(!through.create_object("two", b"y"));
    assert_eq!(statuses(&proxy), [None, Some(200), None, Some(412)]);
    assert_eq!(proxy.faults(), 2);
}

#[test]
fn torn_uploads_and_answers_leave_no_half_object() {
    let (bucket, proxy, through) = proxied();
    let body = vec![b'x'; 1 << 20];
    proxy.on(When::method("PUT"), Fault::CutUpload);
    assert!(through.try_create_object("key", &body).is_err());
    assert_eq!(bucket.get("key"), None);
    bucket.put("key", &body);
    // An error's answer is one of those that have a body.
    proxy.on(When::method("PUT"), Fault::CutAnswer);
    assert!(through.try_create_object("key", b"").is_err());
    assert_eq!(bucket.get("key").unwrap(), body);
}

#[test]
fn answers_are_made_up_before_and_after_the_request_is_carried_out() {
    let (bucket, proxy, through) = proxied();
    for status in [409, 412] {
        let key = status.to_string();
        proxy.on(When::any(), Fault::AnswerBefore(status));
        assert!(!through.create_object(&key, b"x"));
        assert_eq!(bucket.get(&key), None);
        proxy.on(When::any(), Fault::AnswerAfter(status));
        assert!(!through.create_object(&key, b"x"));
        assert!(bucket.get(&key).is_some());
    }
    assert_eq!(statuses(&proxy), [409, 409, 412, 412].map(Some));
}

#[test]
fn a_request_is_held_before_and_after_it_is_carried_out() {
    let (bucket, proxy, through) = proxied();
    proxy.on(When::any().path("before"), Fault::HoldBefore);
    proxy.on(When::any().path("after"), Fault::HoldAfter);
    thread::scope(|scope| {
        let creators: Vec<_> =
            ["before", "after"].iter().map(|key| scope.spawn(|| through.create_object(key, b"held"))).collect();
        wait_for("both are held", || proxy.held() == 2);
        assert_eq!(bucket.get("before"), None);
        assert!(bucket.get("after").is_some());
        assert!(creators.iter().all(|creator| !creator.is_finished()));
        assert!(through.create_object("another", b"passes"));
        proxy.release();
        assert!(creators.into_iter().all(|creator| creator.join().unwrap()));
    });
    assert_eq!(bucket.get("before").as_deref(), Some(&b"held"[..]));
    assert_eq!(proxy.held(), 0);
}

#[test]
fn of_a_repeated_request_either_answer_is_given() {
    let (bucket, proxy, through) = proxied();
    proxy.on(When::any(), Fault::TwiceFirst);
    assert!(through.create_object("first", b"x"));
    proxy.on(When::any(), Fault::TwiceSecond);
    assert!(!through.create_object("second", b"x"));
    assert_eq!(bucket.keys(""), ["first", "second"]);
}

#[test]
fn a_late_request_arrives_when_it_is_delivered() {
    let (bucket, proxy, through) = proxied();
    proxy.on(When::any().nth(2).each(), Fault::Later);
    assert!(through.create_object("in time", b"x"));
    assert!(through.try_create_object("late", b"old").is_err());
    assert!(through.try_create_object("late too", b"old").is_err());
    assert!(bucket.create_object("late", b"new"));
    assert_eq!(bucket.keys(""), ["in time", "late"]);
    assert_eq!(proxy.late(), 2);
    assert_eq!(proxy.deliver(), [412, 200]);
    assert_eq!(bucket.get("late").as_deref(), Some(&b"new"[..]));
    assert_eq!(bucket.keys(""), ["in time", "late", "late too"]);
    assert!(proxy.deliver().is_empty());
    proxy.forget_rules();
    assert!(through.create_object("after", b"x"));
}

#[test]
fn without_their_conditions_all_creators_win() {
    for kind in [Kind::MiniStack, Kind::SeaweedFs, Kind::Gcs] {
        let bucket = Server::shared(kind).bucket();
        let proxy = HttpProxy::start(bucket.server().port());
        let through = bucket.through(proxy.port());
        proxy.on(When::any().each(), Fault::StripConditions);
        assert!(through.create_object("head", b"one") && through.create_object("head", b"two"), "{kind}");
        assert_eq!(bucket.get("head").as_deref(), Some(&b"two"[..]), "{kind}");
        proxy.forget_rules();
        assert!(!through.create_object("head", b"three"), "{kind}");
    }
}

#[test]
fn rules_are_for_the_requests_that_they_name() {
    let (_, proxy, through) = proxied();
    proxy.on(When::any().header("If-None-Match", "*").nth(2), Fault::AnswerBefore(503));
    proxy.on(When::method("GET").query("list-type"), Fault::AnswerBefore(500));
    through.put("a", b"");
    assert!(through.create_object("b", b""));
    assert!(std::panic::catch_unwind(|| through.create_object("c", b"")).is_err());
    assert_eq!(through.get("a").as_deref(), Some(&b""[..]));
    assert!(std::panic::catch_unwind(|| through.keys("")).is_err());
    assert_eq!(through.keys(""), ["a", "b"]);
    assert_eq!(statuses(&proxy), [200, 200, 503, 200, 500, 200].map(Some));
}

#[test]
fn the_proxy_serves_many_clients_and_outlives_its_server() {
    let server = Server::start(Kind::MiniStack);
    let bucket = server.bucket();
    let proxy = HttpProxy::start(server.port());
    let through = bucket.through(proxy.port());
    thread::scope(|scope| {
        for client in 0..16 {
            let through = &through;
            scope.spawn(move || (0..5).for_each(|number| through.put(&format!("{client}/{number}"), b"x")));
        }
    });
    assert_eq!(bucket.keys("").len(), 80);
    server.kill();
    assert!(through.try_create_object("down", b"").is_err());
    server.restart();
    assert!(through.create_object("up", b""));
    assert_eq!(proxy.requests().len(), 82);
}

#[test]
fn the_dates_of_answers_are_shifted() {
    let (bucket, proxy, through) = proxied();
    bucket.put("key", b"x");
    let date = || httpdate::parse_http_date(&through.header("key", "date").unwrap()).unwrap();
    let before = date();
    proxy.shift_clock(3600);
    let ahead = date().duration_since(before).unwrap().as_secs();
    assert!((3600..3700).contains(&ahead), "{ahead}");
    proxy.shift_clock(-3600);
    assert!(date() < before);
}
