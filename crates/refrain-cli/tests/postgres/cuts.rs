//! PGX-01, PGX-02: connections that are cut, before and after the server got a message, and commits that are none.

use crate::call::run;
use crate::scene::{APPEND, REPLACE, Scene};
use crate::servers::COMMIT;
use crate::watch::Watch;
use refrain_testkit::postgres::{Proxy, Server, Version};

/// A message of each kind that a publication sends.
const MESSAGES: [&str; 13] = [
    "refrain.site",
    "BEGIN",
    "FOR UPDATE",
    "INSERT INTO refrain.head",
    "CREATE TABLE",
    "INSERT INTO refrain.staging",
    "COPY ",
    ",UA,",
    "RENAME TO",
    "UPDATE refrain.staging",
    "DELETE FROM",
    "UPDATE refrain.head",
    COMMIT,
];

fn cut_everywhere(version: Version, what: &str) {
    let scene = Scene::new(version);
    let proxy = Proxy::start(scene.database.server().port());
    scene.declare_at(&proxy.url(&scene.database), what, "");
    let watch = Watch::start(&scene.database);
    let mut cases = vec![];
    for (index, message) in MESSAGES.iter().flat_map(|message| [(message, false), (message, true)]).enumerate() {
        let date = crate::scene::date(index);
        if *message.0 == "DELETE FROM" && !what.contains("run_column") {
            scene.run(&["--date", &date]).success();
        }
        let cuts = proxy.cuts();
        if message.1 {
            proxy.cut_after(message.0.as_bytes());
        } else {
            proxy.cut_before(message.0.as_bytes());
        }
        let call = run(&scene.home, &["flights", "--date", &date, "--rerun"], "").published();
        assert_eq!(proxy.cuts(), cuts + 1, "{message:?}\n{}", call.output);
        assert!(call.report["error"].is_null() && call.report["outputs"][0]["rows"].is_number(), "{}", call.report);
        cases.push((date, format!("cut at {message:?}")));
    }
    watch.end();
    // No cut has cost an execution: none of them was more than a pause.
    assert_eq!(scene.executions(), crate::scene::log(&scene.home).len());
    scene.ends(&cases);
}

#[test]
fn pgx_01_a_replacement_whose_connection_is_cut_at_any_message_is_published_once() {
    cut_everywhere(Version::V15, REPLACE);
}

#[test]
fn pgx_01_an_append_whose_connection_is_cut_at_any_message_is_published_once() {
    cut_everywhere(Version::V18, APPEND);
}

#[test]
fn pgx_02_a_commit_that_the_server_rolls_back_is_never_called_published() {
    let scene = Scene::new(Version::V15);
    scene.declare(REPLACE);
    scene.run(&["--date", "2013-01-01"]).success();
    let before = scene.shown("2013-01-01", "published");
    scene.sql(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not today'; END $$;
         CREATE CONSTRAINT TRIGGER late AFTER INSERT ON flights DEFERRABLE INITIALLY DEFERRED FOR EACH ROW \
         EXECUTE FUNCTION refuse()",
    );
    for flags in [&["flights", "--date", "2013-01-01", "--rerun"][..], &["flights", "--date", "2013-01-02"]] {
        run(&scene.home, flags, "").nothing(125, "error").says("not today");
    }
    assert_eq!(scene.shown("2013-01-01", "refused"), before);
    assert_eq!(scene.shown("2013-01-02", "refused"), None);
    scene.sql("DROP TRIGGER late ON flights");
    scene.run(&["--date", "2013-01-01"]).success();
    scene.run(&["--date", "2013-01-02"]).success();
    scene.ends(&[1, 2].map(|day| (format!("2013-01-0{day}"), "refused at COMMIT".to_owned())));
}

#[test]
fn pgx_01_what_two_servers_committed_is_told_once_whichever_answer_is_lost() {
    let scene = Scene::new(Version::V15);
    let other = Server::shared(Version::V18).database();
    other.psql(crate::scene::TABLE);
    let proxies = [&scene.database, &other].map(|database| Proxy::start(database.server().port()));
    let second = crate::scene::table_at("other", &proxies[1].url(&other), APPEND);
    scene.declare_at(&proxies[0].url(&scene.database), APPEND, &second);
    let mut cases = vec![];
    for (index, cut) in [(0, true), (0, false), (1, true), (1, false)].into_iter().enumerate() {
        let date = crate::scene::date(index);
        let proxy = &proxies[cut.0];
        if cut.1 {
            proxy.cut_after(COMMIT.as_bytes());
        } else {
            proxy.cut_before(COMMIT.as_bytes());
        }
        run(&scene.home, &["flights", "--date", &date], "").published();
        assert_eq!(scene.shown(&date, "one"), crate::scene::shown_in(&other, &date, "other"));
        cases.push((date, format!("{cut:?}")));
    }
    assert_eq!(proxies.iter().map(Proxy::cuts).sum::<u64>(), 4);
    assert_eq!(scene.executions(), 4);
    scene.ends(&cases);
}
