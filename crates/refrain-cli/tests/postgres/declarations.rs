//! A declaration that changes between two calls: what was published before does not stand beside what comes, and a mistake
//! that was mended is forgotten.

use crate::call::NOTHING;
use crate::scene::{APPEND, REPLACE, Scene, TABLE, day, fresh_home, table_at};
use refrain_testkit::postgres::{Server, Version};

const DATE: &str = "2013-01-01";
const PLAIN: &str = "mode = \"append\", from = \"flights.csv\"";
const SWAP: &str = "mode = \"swap-partition\", where = \"dt = {date}\", from = \"flights.csv\"";

impl Scene {
    /// Rows and flights of the table.
    fn whole(&self) -> String {
        self.sql("SELECT count(*), sum(flights) FROM flights")
    }

    /// `run` refuses, having started nothing, and `why` says so before.
    #[track_caller]
    fn refuses(&self, flags: &[&str], phrase: &str) {
        let before = (self.whole(), self.executions());
        let why = self.home.run(["why", "flights", "--date", DATE, "--json"]).success();
        assert!(why.stdout.contains("\"would\": \"refuse\"") && why.stdout.contains(phrase), "{why}");
        let refused = self.run(&[&["--date", DATE], flags].concat()).expect_code(125).says(phrase).says("hint: ");
        crate::call::assert_closes(&refused, NOTHING);
        assert_eq!((self.whole(), self.executions()), before);
    }
}

#[test]
fn another_mode_or_scope_leaves_no_rows_of_the_former_beside_those_that_come() {
    let elsewhere = "mode = \"replace\", where = \"dt = {date} and carrier = 'AA'\", from = \"flights.csv\"";
    for (former, next) in [(REPLACE, APPEND), (REPLACE, PLAIN), (REPLACE, elsewhere), (APPEND, elsewhere)] {
        let scene = Scene::new(Version::V15);
        scene.declare(former);
        scene.run(&["--date", DATE]).success();
        assert_eq!(scene.whole(), day(DATE));
        scene.declare(next);
        scene.refuses(&[], "would stay beside");
        // What is shown to let them go does so.
        let refused = scene.run(&["--date", DATE]).expect_code(125);
        let delete = refused.stderr.lines().find_map(|line| line.split("repeat the call: ").nth(1)).unwrap();
        scene.sql(delete);
        if next != elsewhere {
            scene.run(&["--date", DATE]).success().says("published");
            assert_eq!(scene.whole(), day(DATE));
            scene.run(&["--date", DATE]).success().says("already published");
        }
    }
}

#[test]
fn the_heads_tell_a_store_that_knows_nothing() {
    let scene = Scene::new(Version::V18);
    scene.declare(REPLACE);
    scene.run(&["--date", DATE]).success();
    let other = Scene { home: fresh_home(), database: scene.database };
    other.declare(APPEND);
    other.run(&["--date", DATE, "--adopt"]).expect_code(125).says("would stay beside");
    assert_eq!((other.whole(), other.executions()), (day(DATE), 0));
}

#[test]
fn rows_that_nobody_can_tell_from_others_are_left_to_a_person() {
    let scene = Scene::new(Version::V18);
    scene.declare(PLAIN);
    scene.run(&["--date", DATE]).success();
    scene.declare("mode = \"append\", where = \"dt = {date}\", from = \"flights.csv\"");
    scene.refuses(&[], "nothing tells them from others");
    scene.declare(REPLACE);
    scene.refuses(&[], "nothing tells them from others");
    scene.run(&["--date", DATE, "--adopt"]).success();
    assert_eq!(scene.whole(), day(DATE));
    // Back again: what the append left was decided about then, and the rows of the replacement are told.
    scene.declare(PLAIN);
    scene.refuses(&[], "would stay beside");
}

#[test]
fn an_emptied_ledger_is_not_taken_for_one_without_the_key() {
    for what in [PLAIN, APPEND] {
        let scene = Scene::new(Version::V15);
        scene.declare(what);
        scene.run(&["--date", DATE]).success();
        scene.sql("DELETE FROM refrain.head");
        for flags in [&[][..], &["--rerun"]] {
            scene.refuses(flags, "is lost");
        }
        scene.sql("DELETE FROM flights");
        scene.run(&["--date", DATE, "--adopt"]).success();
        assert_eq!(scene.whole(), day(DATE));
    }
}

#[test]
fn a_column_for_the_run_that_was_declared_later_does_not_hide_the_former_rows() {
    let scene = Scene::new(Version::V15);
    scene.declare(PLAIN);
    scene.run(&["--date", DATE]).success();
    scene.declare(APPEND);
    let rerun = ["--date", DATE, "--rerun"];
    let refused = scene.run(&rerun).expect_code(125).says("without `run_column`");
    assert_eq!(scene.whole(), day(DATE));
    let mark = refused.stderr.lines().find_map(|line| line.split("repeat the call: ").nth(1)).unwrap();
    let mark = mark.split(" WHERE").next().unwrap();
    scene.sql(mark);
    scene.run(&rerun).success();
    assert_eq!(scene.whole(), day(DATE));
    // The column is another one now.
    scene.sql("ALTER TABLE flights ADD COLUMN other text");
    scene.declare(&APPEND.replace("\"run\"", "\"other\""));
    scene.run(&rerun).expect_code(125).says("run_column");
    assert_eq!(scene.whole(), day(DATE));
    scene.sql("DELETE FROM flights");
    scene.run(&[&rerun[..], &["--adopt"]].concat()).success();
    assert_eq!(scene.whole(), day(DATE));
}

#[test]
fn a_key_that_was_tried_against_a_wrong_database_goes_on_at_the_right_one() {
    for dropped in [true, false] {
        let scene = Scene::new(Version::V15);
        let wrong = Server::shared(Version::V15).database();
        wrong.psql(TABLE);
        wrong.psql("ALTER TABLE flights ADD CHECK (flights < 0)");
        scene.declare_at(&wrong.url(), REPLACE, "");
        scene.run(&["--date", DATE]).expect_code(123);
        let kept = (!dropped).then_some(wrong);
        scene.declare(REPLACE);
        scene.home.run(["status"]).success();
        let why = scene.home.run(["why", "flights", "--date", DATE, "--json"]).success();
        assert!(why.stdout.contains("\"would\": \"run\""), "{why}");
        scene.run(&["--date", DATE]).success().says("published");
        scene.run(&["--date", DATE]).success().says("already published");
        assert_eq!(scene.whole(), day(DATE));
        drop(kept);
    }
}

#[test]
fn a_publication_in_a_database_that_is_gone_is_given_up_by_a_person() {
    let scene = Scene::new(Version::V15);
    let gone = Server::shared(Version::V15).database();
    gone.psql(TABLE);
    scene.declare_at(&gone.url(), REPLACE, "");
    scene.run(&["--date", DATE]).success();
    drop(gone);
    scene.declare(REPLACE);
    scene.run(&["--date", DATE]).expect_code(125).says("no database of refrain.toml").says("--adopt");
    scene.run(&["--date", DATE, "--adopt"]).success();
    scene.run(&["--date", DATE]).success().says("already published");
    assert_eq!(scene.whole(), day(DATE));
}

#[test]
fn each_output_is_published_by_the_role_of_its_own_link() {
    let scene = Scene::new(Version::V15);
    let name = scene.database.name();
    scene.sql(&format!(
        "CREATE ROLE first_{name} LOGIN; CREATE ROLE second_{name} LOGIN; ALTER TABLE flights ADD COLUMN who text DEFAULT current_user; \
         CREATE TABLE hubs (LIKE flights INCLUDING DEFAULTS); ALTER TABLE flights OWNER TO first_{name}; ALTER TABLE hubs OWNER TO second_{name}"
    ));
    for role in ["first", "second"] {
        scene.sql(&scene.refrain().run(["sinks", "--sql", &format!("{role}_{name}")]).success().stdout);
    }
    let second = table_at("other", &scene.database.url_as(&format!("second_{name}")), REPLACE)
        .replace("\"flights\"", "\"hubs\"");
    scene.declare_at(&scene.database.url_as(&format!("first_{name}")), REPLACE, &second);
    scene.run(&["--date", DATE]).success();
    let who = scene.sql("SELECT DISTINCT who FROM flights UNION ALL SELECT DISTINCT who FROM hubs");
    assert_eq!(who, format!("first_{name}\nsecond_{name}"));
    scene.home.run(["gc"]).success();
    scene.sql(&format!("DROP OWNED BY first_{name}, second_{name}; DROP ROLE first_{name}; DROP ROLE second_{name}"));
}

#[test]
fn a_replacement_that_failed_and_was_mended_to_an_exchange_of_the_partition_is_published() {
    for version in Version::ALL {
        let scene = Scene::new(version);
        scene.sql("ALTER TABLE flights RENAME TO plain");
        scene.sql("CREATE TABLE flights (LIKE plain) PARTITION BY LIST (dt); ALTER TABLE flights ADD CONSTRAINT no CHECK (flights < 0)");
        scene.declare(REPLACE);
        scene.run(&["--date", DATE]).expect_code(123);
        scene.sql("ALTER TABLE flights DROP CONSTRAINT no");
        // The run goes on, and is staged as it is declared now.
        scene.declare(SWAP);
        scene.run(&["--date", DATE]).success().says("published");
        assert_eq!(scene.whole(), day(DATE));
        assert_eq!(scene.sql("SELECT head::json #>> '{publication,run,generation}' FROM refrain.head"), "1");
        assert_eq!(scene.sql("SELECT count(*) FROM pg_inherits WHERE inhparent = 'flights'::regclass"), "1");
        scene.run(&["--date", DATE]).success().says("already published");
        scene.home.run(["gc"]).success();
        assert_eq!(scene.sql("SELECT count(*) FROM refrain.staging"), "0");
    }
}

#[test]
fn what_path_prints_of_a_table_is_shown() {
    let scene = Scene::new(Version::V15);
    scene.declare(REPLACE);
    scene.run(&["--date", DATE]).success();
    let place = scene.home.run(["path", "flights", "--date", DATE]).success().stdout;
    let shown = scene.home.run(["show", place.trim()]).success();
    assert!(shown.stdout.contains("flights 2013-01-01") && shown.stdout.contains(place.trim()), "{shown}");
    scene.home.run(["show", &place.trim().replace(DATE, "2013-01-02")]).expect_code(125);
}
