//! Rows of a scope, or all rows of a table, replaced in place: what hangs on the table stays as it is, and readers see the
//! old rows or the new ones.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test reports failure by panicking")]

#[path = "support/tables.rs"]
mod tables;

use refrain_core::{Adopt, CommitAnswer, ErrorKind, Sink};
use refrain_postgres::{Limits, Relation, Session};
use refrain_sink::postgres::{Comparison, Manner, Mode, ScopeCondition, Source};
use refrain_testkit::postgres::{Proxy, Version};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use tables::{STRICT, Tables, equals, fails, manner, names, on_each, until};

/// No key: nothing but the head keeps two publications apart.
const DELAYS: &str = "CREATE TABLE delays (dt date NOT NULL, part int, content text)";

fn day(day: &str) -> Manner {
    Manner { scope: vec![equals("dt", day)], ..manner(Mode::Replace, "delays") }
}

fn all(table: &str) -> Manner {
    manner(Mode::Table, table)
}

#[test]
fn pgx_04_two_that_replace_one_day_at_once_leave_the_rows_of_one() {
    on_each(|version| {
        for empty in [true, false] {
            let tables = Tables::new(version, DELAYS);
            let day = day("2013-01-01");
            if !empty {
                tables.publish(&day, 1, "part,content\n1,old\n2,old\n").unwrap();
            }
            let proxy = Proxy::start(tables.database.server().port());
            let first = tables.attempt_through(&proxy, &day, 2);
            let request = first.prepare(&tables, "part,content\n1,first\n2,first\n").unwrap();
            proxy.hold(b"INSERT INTO \"public\"");
            let second = tables.attempt(&day, 2);
            std::thread::scope(|scope| {
                // The first has deleted and not yet inserted, as long as the second waits.
                let commit = scope.spawn(|| first.sink.commit(&first.slot, &request, &STRICT));
                until(|| proxy.held() > 0);
                let other = scope.spawn(|| {
                    let request = second.prepare(&tables, "part,content\n1,second\n2,second\n").unwrap();
                    second.sink.commit(&second.slot, &request, &STRICT)
                });
                tables.until_somebody_waits();
                assert_eq!(tables.psql("SELECT count(*) FROM delays"), if empty { "0" } else { "2" });
                proxy.release();
                // The second may have claimed or published before the first could ask what its COMMIT did.
                match commit.join().unwrap() {
                    Ok(answer) => assert_eq!(answer, CommitAnswer::Committed),
                    Err(error) => assert_eq!(error.kind, ErrorKind::Unknown, "{error}"),
                }
                // Its claim came before or after the commit: it is the publication, or none.
                let answer = other.join().unwrap().unwrap();
                assert!(matches!(answer, CommitAnswer::Committed | CommitAnswer::Rejected), "{answer:?}");
            });
            let stand = tables.psql("SELECT count(*), count(DISTINCT content), max(content) FROM delays");
            assert!(stand == "2|1|first" || stand == "2|1|second", "{stand}");
        }
    });
}

#[test]
fn pgx_04_of_two_attempts_without_a_lease_the_later_claim_decides() {
    let tables = Tables::new(Version::V15, DELAYS);
    let day = day("2013-01-01");
    let (first, second) = (tables.attempt(&day, 1), tables.attempt(&day, 1));
    let request = first.prepare(&tables, "part,content\n1,first\n").unwrap();
    let later = second.prepare(&tables, "part,content\n1,second\n").unwrap();
    assert_eq!(first.sink.commit(&first.slot, &request, &STRICT).unwrap(), CommitAnswer::Rejected);
    second.commit(&later).unwrap();
    assert_eq!(first.sink.commit(&first.slot, &request, &STRICT).unwrap(), CommitAnswer::Rejected);
    assert_eq!(tables.psql("SELECT content FROM delays"), "second");
}

#[test]
fn pgx_05_readers_see_old_or_new_also_when_the_connection_is_cut_between_the_statements() {
    on_each(|version| {
        let tables = Tables::new(version, DELAYS);
        let day = day("2013-01-01");
        tables.publish(&day, 1, "part,content\n1,old\n2,old\n3,old\n").unwrap();
        let proxy = Proxy::start(tables.database.server().port());
        let attempt = tables.attempt_through(&proxy, &day, 2);
        let request = attempt.prepare(&tables, "part,content\n1,new\n2,new\n").unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut session = Session::open(&tables.link(), "reader").unwrap();
                let mut seen = Vec::new();
                while !done.load(Ordering::Relaxed) {
                    let mut look = session.write(&Limits::default()).unwrap();
                    let sql = "SELECT count(*)::text || ' ' || min(content) || ' ' || max(content) FROM public.delays";
                    let row = look.query(sql, &[]).unwrap().remove(0).remove(0).unwrap();
                    look.roll_back().unwrap();
                    if seen.last() != Some(&row) {
                        seen.push(row);
                    }
                }
                seen
            });
            proxy.hold(b"INSERT INTO \"public\"");
            let commit = scope.spawn(|| attempt.commit(&request));
            until(|| proxy.held() > 0);
            // As a kill of the publisher would: the server rolls back, and another try is made.
            proxy.cut_all();
            assert_eq!(tables.psql("SELECT count(*), max(content) FROM delays"), "3|old");
            proxy.release();
            commit.join().unwrap().unwrap();
            let ended = "SELECT count(*) FROM delays WHERE content = 'new'";
            until(|| tables.psql(ended) == "2");
            done.store(true, Ordering::Relaxed);
            let seen = reader.join().unwrap();
            assert!(seen.iter().all(|row| row == "3 old old" || row == "2 new new"), "{seen:?}");
        });
    });
}

#[test]
fn pgx_07_a_reader_with_an_older_snapshot_never_sees_an_empty_table() {
    on_each(|version| {
        let tables = Tables::new(version, "CREATE TABLE t (id int, v text); CREATE TABLE other (v int)");
        tables.publish(&all("t"), 1, "id,v\n1,old\n2,old\n").unwrap();
        let counted = |manner: &Manner, generation: u64| {
            let mut session = Session::open(&tables.link(), "reader").unwrap();
            let mut look = session.snapshot(&Limits::default()).unwrap();
            look.query("SELECT count(*)::text FROM public.other", &[]).unwrap();
            tables.publish(manner, generation, "id,v\n1,new\n2,new\n").unwrap();
            let rows = look.query("SELECT count(*)::text FROM public.t", &[]).unwrap();
            look.roll_back().unwrap();
            rows[0][0].clone().unwrap()
        };
        assert_eq!(counted(&all("t"), 2), "2");
        // What is documented of `truncate = true`.
        assert_eq!(counted(&Manner { truncate: true, ..all("t") }, 3), "0");
        assert_eq!(tables.psql("SELECT count(*) FROM t WHERE v = 'new'"), "2");
    });
}

/// A table with everything that a rename would lose.
const DRESSED: &str = "
    CREATE TABLE t (id serial PRIMARY KEY, dt date NOT NULL, v int CHECK (v < 1000), note text DEFAULT 'none',
      twice int GENERATED ALWAYS AS (v * 2) STORED, other int GENERATED BY DEFAULT AS IDENTITY, UNIQUE (dt, v));
    CREATE INDEX by_note ON t (note) WHERE v > 1; ALTER TABLE t ALTER v SET STATISTICS 500; ALTER TABLE t SET (fillfactor = 70);
    COMMENT ON TABLE t IS 'dressed'; CREATE STATISTICS s ON dt, v FROM t;
    CREATE VIEW v AS SELECT dt, sum(v) AS v FROM t GROUP BY dt; CREATE MATERIALIZED VIEW m AS SELECT count(*) AS rows FROM t;
    CREATE FUNCTION f() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM public.t';
    CREATE TABLE child (t int REFERENCES t, dt date, v int, FOREIGN KEY (dt, v) REFERENCES t (dt, v) DEFERRABLE);
    ALTER TABLE t ENABLE ROW LEVEL SECURITY; CREATE POLICY mine ON t USING (v >= 0);
    CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
    CREATE TRIGGER note BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION note();";

#[test]
fn pgs_04_pgs_05_what_hangs_on_the_table_stays_in_each_mode() {
    on_each(|version| {
        let tables = Tables::new(version, DRESSED);
        let schema = tables.schema();
        let rows = |values: &[i32]| {
            let lines = values.iter().map(|v| format!("{v},2013-01-01,{v}\n")).collect::<Vec<_>>().concat();
            format!("id,dt,v\n{lines}")
        };
        let scope = vec![equals("dt", "2013-01-01")];
        let replace = Manner { scope: scope.clone(), ..manner(Mode::Replace, "t") };
        tables.publish(&replace, 1, &rows(&[1, 2])).unwrap();
        tables.psql("INSERT INTO child VALUES (1, '2013-01-01', 1)");
        tables.publish(&replace, 2, &rows(&[1, 3])).unwrap();
        assert_eq!(tables.psql("SELECT v FROM v"), "4");
        assert_eq!(tables.psql("REFRESH MATERIALIZED VIEW m; SELECT rows, f() FROM m"), "2|2");
        assert_eq!(tables.schema(), schema);
        let table = Manner { allow_shrink: true, ..all("t") };
        let adopt = tables.attempt(&table, 1);
        let request = adopt.prepare(&tables, &rows(&[1, 4])).unwrap();
        assert_eq!(adopt.sink.commit(&adopt.slot, &request, &tables::ADOPT).unwrap(), CommitAnswer::Committed);
        assert_eq!(tables.psql("SELECT v FROM v"), "5");
        let merge = Manner { key: names(&["dt", "v"]), ..manner(Mode::Merge, "t") };
        tables.publish(&merge, 1, &rows(&[1, 5])).unwrap();
        let append = tables.attempt_for("q", &manner(Mode::Append, "t"), 1);
        let request = append.prepare(&tables, &rows(&[6])).unwrap();
        append.commit(&request).unwrap();
        assert_eq!(tables.psql("SELECT count(*), sum(twice) FROM t"), "4|32");
        assert_eq!(tables.schema(), schema);
        // Nothing has used the sequences, and they are the table's still.
        tables.psql("TRUNCATE t, child; INSERT INTO t (dt, v) VALUES ('2013-01-02', 9)");
        assert_eq!(tables.psql("SELECT id FROM t"), "1");

        // A row that others refer to cannot go.
        tables.psql("INSERT INTO child VALUES (1)");
        let next = Manner { scope: vec![equals("dt", "2013-01-03")], ..replace };
        tables.publish(&next, 1, "id,dt,v\n7,2013-01-03,1\n").unwrap();
        tables.psql("INSERT INTO child VALUES (7)");
        let why = fails(ErrorKind::Invalid, tables.publish(&next, 2, "id,dt,v\n8,2013-01-03,1\n"));
        assert!(why.contains("child_t_fkey"), "{why}");
        let truncate = Manner { truncate: true, ..all("t") };
        let why = fails(ErrorKind::Invalid, tables.publish(&truncate, 1, "id,dt,v\n8,2013-01-03,1\n"));
        assert!(why.contains("cannot be truncated"), "{why}");
    });
}

#[test]
fn pgs_02_grants_and_owner_stay_when_another_role_publishes() {
    on_each(|version| {
        let sql = "CREATE ROLE publisher LOGIN; CREATE ROLE reader; CREATE ROLE auditor;
             DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO publisher', current_database()); END $$;
             CREATE TABLE t (id int, v text); GRANT SELECT ON t TO reader; GRANT SELECT (id) ON t TO auditor;
             GRANT SELECT, INSERT, DELETE ON t TO publisher; ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO auditor";
        let tables = Tables::of(version, sql, "publisher");
        let granted = "SELECT relowner::regrole, relacl FROM pg_class WHERE relname = 't'
             UNION ALL SELECT attname::text::name, attacl FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0";
        let granted = granted.replace("attname::text::name", "attnum::oid::regrole");
        let (before, schema) = (tables.psql(&granted), tables.schema());
        for generation in 1..=2 {
            tables.publish(&all("t"), generation, "id,v\n1,a\n2,b\n").unwrap();
        }
        assert_eq!(tables.psql(&granted), before);
        assert_eq!(tables.schema(), schema);
        assert_eq!(tables.psql("SET ROLE reader; SELECT count(*) FROM t"), "2");
        let truncate = Manner { truncate: true, ..all("t") };
        let why = fails(ErrorKind::Invalid, tables.publish(&truncate, 3, "id,v\n1,a\n2,b\n"));
        assert!(why.contains("TRUNCATE"), "{why}");
    });
}

#[test]
fn a_role_that_a_policy_hides_rows_from_replaces_nothing() {
    let tables = Tables::of(
        Version::V15,
        "CREATE ROLE hidden_from LOGIN; CREATE TABLE t (id int, v text); INSERT INTO t VALUES (1, 'hidden');
         DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO hidden_from', current_database()); END $$;
         GRANT ALL ON t TO hidden_from; ALTER TABLE t ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON t USING (v <> 'hidden')",
        "hidden_from",
    );
    let why = fails(ErrorKind::Invalid, tables.publish(&all("t"), 1, "id,v\n1,a\n"));
    assert!(why.contains("row-level security"), "{why}");
    assert_eq!(tables.psql("SELECT * FROM t"), "1|hidden");
    // What is added needs to see nothing.
    tables.publish(&manner(Mode::Append, "t"), 1, "id,v\n2,a\n").unwrap();
}

#[test]
fn pgs_07_neither_a_search_path_nor_a_temporary_table_sends_rows_elsewhere() {
    on_each(|version| {
        let sql = "CREATE ROLE elsewhere LOGIN SUPERUSER; CREATE SCHEMA trap; CREATE TABLE trap.t (id int, v text);
             CREATE TABLE t (id int, v text); CREATE FUNCTION trap.count() RETURNS bigint LANGUAGE sql AS 'SELECT 0::bigint';
             CREATE FUNCTION trap.wrong(int, int) RETURNS boolean LANGUAGE sql AS 'SELECT false';
             CREATE OPERATOR trap.= (LEFTARG = int, RIGHTARG = int, FUNCTION = trap.wrong);
             ALTER ROLE elsewhere SET search_path = trap, public;
             DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = trap', current_database()); END $$;";
        let tables = Tables::of(version, sql, "elsewhere");
        let trap = "CREATE TEMP TABLE IF NOT EXISTS t (id int, v text); INSERT INTO \"REFRAIN_STAGING\" VALUES (1, 'a'), (2, 'b')";
        let source = Source::Sql { file: "t.sql".to_owned(), text: trap.to_owned(), values: BTreeMap::new() };
        let shadowed = Manner { source, ..all("t") };
        for generation in 1..=2 {
            // One session: its temporary table is there at the commit.
            tables.publish(&shadowed, generation, "").unwrap();
            assert_eq!(tables.psql("SELECT (SELECT count(*) FROM public.t), (SELECT count(*) FROM trap.t)"), "2|0");
        }
        tables.psql("CREATE UNIQUE INDEX ON public.t (id)");
        let merge = Manner { key: names(&["id"]), ..manner(Mode::Merge, "t") };
        tables.publish(&merge, 1, "id,v\n1,a\n2,c\n3,d\n").unwrap();
        assert_eq!(tables.psql("SELECT id, v FROM public.t ORDER BY v"), "1|a\n2|c\n3|d");
    });
}

#[test]
fn pgs_08_names_of_every_kind_work_in_every_mode() {
    on_each(|version| {
        // One letter composed, and the same decomposed: two tables, and two columns.
        let (composed, decomposed) = ("caf\u{e9}", "cafe\u{301}");
        let schema = "My.Schema";
        let quoted = |name: &str| Relation::new(schema, name).to_string();
        let tables = Tables::new(version, "CREATE SCHEMA \"My.Schema\"");
        for name in ["Order\"x", "a.b", "select", composed, decomposed] {
            let table = quoted(name);
            tables.psql(&format!(
                "CREATE TABLE {table} (\"select\" text, \"{composed}\" int, \"{decomposed}\" int, \"a.b \"\"c\" int PRIMARY KEY, \"run\" uuid)"
            ));
            let header = format!("select,{composed},{decomposed},\"a.b \"\"c\"");
            let key = names(&["a.b \"c"]);
            let of = |mode: Mode| Manner { schema: schema.to_owned(), key: key.clone(), ..manner(mode, name) };
            let replace = Manner { scope: vec![equals("select", "it's \\ \"x\"")], ..of(Mode::Replace) };
            tables.publish(&replace, 1, &format!("{header}\n\"it's \\ \"\"x\"\"\",1,2,3\n")).unwrap();
            let set = vec![(composed.to_owned(), format!("old.\"{composed}\" + new.\"{composed}\""))];
            let merge = Manner { set, exclude: names(&[decomposed]), ..of(Mode::Merge) };
            tables.publish(&merge, 1, &format!("{header}\nx,1,9,3\ny,1,2,4\n")).unwrap();
            let append = Manner { run_column: Some("run".to_owned()), ..of(Mode::Append) };
            tables.publish(&append, 1, &format!("{header}\nz,1,2,5\n")).unwrap();
            let rows =
                tables.psql(&format!("SELECT \"select\", \"{composed}\", \"{decomposed}\" FROM {table} ORDER BY 1"));
            assert_eq!(rows, "x|2|9\ny|1|2\nz|1|2", "{name}");
        }
    });
}

#[test]
fn pgs_10_leftovers_of_dead_attempts_block_nothing_and_a_users_table_is_never_dropped() {
    let tables = Tables::new(Version::V15, DELAYS);
    let day = day("2013-01-01");
    for _ in 0..20 {
        let dead = tables.attempt(&day, 1);
        dead.prepare(&tables, "part,content\n1,dead\n").unwrap();
    }
    tables.publish(&day, 1, "part,content\n1,a\n").unwrap();
    let relations =
        "SELECT count(*) FROM pg_class WHERE relnamespace = 'refrain'::regnamespace AND relname ~ '^(stage|sealed)_'";
    let sink = tables.sink();
    let staged = sink.staged().unwrap();
    assert_eq!((staged.len(), tables.psql(relations)), (20, "20".to_owned()));
    // Somebody has put another table in the place of one.
    let name = tables.psql("SELECT format('%I.%I', 'refrain', name) FROM refrain.staging LIMIT 1");
    tables.psql(&format!(
        "DROP TABLE {name}; CREATE TABLE {name} (mine int); CREATE TABLE refrain.stage_mine (mine int)"
    ));
    for one in &staged {
        sink.discard(one).unwrap();
    }
    assert_eq!(tables.psql("SELECT count(*) FROM refrain.staging"), "0");
    assert_eq!(tables.psql(&format!("SELECT count(*) FROM {name}")), "0");
    assert_eq!(tables.psql(relations), "2", "what somebody else has made");
}

#[test]
fn data_01_data_02_spk_04_no_rows_are_refused_unless_allowed_and_then_published() {
    on_each(|version| {
        let tables = Tables::new(version, DELAYS);
        let (first, second) = (day("2013-01-01"), day("2013-01-02"));
        tables.publish(&first, 1, "part,content\n1,old\n2,old\n").unwrap();
        tables.publish(&second, 1, "part,content\n1,other\n").unwrap();
        let why = fails(ErrorKind::Guard, tables.publish(&first, 2, "part,content\n"));
        assert!(why.contains("no rows") && why.contains("--allow-empty"), "{why}");
        assert_eq!(tables.psql("SELECT count(*) FROM delays"), "3");
        let attempt = tables.attempt(&first, 2).allow_empty();
        let request = attempt.prepare(&tables, "part,content\n").unwrap();
        attempt.commit(&request).unwrap();
        assert_eq!(tables.psql("SELECT content FROM delays"), "other");
        assert_eq!(attempt.sink.read(&attempt.slot).unwrap().unwrap().generation().get(), 2);
    });
}

#[test]
fn data_04_staging_of_an_older_shape_is_never_used() {
    on_each(|version| {
        let tables = Tables::new(version, DELAYS);
        let day = day("2013-01-01");
        let old = tables.attempt(&day, 1);
        let request = old.prepare(&tables, "part,content\n1,old\n").unwrap();
        tables.psql("ALTER TABLE delays DROP content, ADD carrier text NOT NULL DEFAULT 'UA', ALTER part TYPE bigint");
        let why = fails(ErrorKind::Guard, old.commit(&request));
        assert!(why.contains("was altered after the rows were staged"), "{why}");
        assert_eq!(tables.psql("SELECT count(*) FROM delays"), "0");
        let why = fails(ErrorKind::Guard, tables.publish(&day, 1, "part,content\n1,old\n"));
        assert!(why.contains("\"content\""), "{why}");
        tables.publish(&day, 1, "part,carrier\n5000000000,AA\n").unwrap();
        assert_eq!(tables.psql("SELECT part, carrier FROM delays"), "5000000000|AA");
    });
}

#[test]
fn data_05_spk_05_a_part_never_replaces_the_whole() {
    on_each(|version| {
        let tables = Tables::new(version, DELAYS);
        let year = "COPY (SELECT '2013-01-01'::date + n % 365 AS dt, n AS part, 'x' AS content FROM generate_series(0, 729) n) TO STDOUT CSV HEADER";
        let year = tables.psql(year);
        let one_day = "dt,part,content\n2013-06-01,1,y\n";
        let without_scope = manner(Mode::Replace, "delays");
        let why = fails(ErrorKind::Invalid, tables.publish(&without_scope, 1, &year));
        assert!(why.contains("every row") && why.contains("mode = \"table\""), "{why}");
        tables.publish(&all("delays"), 1, &format!("{year}\n")).unwrap();
        let why = fails(ErrorKind::Guard, tables.publish(&all("delays"), 2, one_day));
        assert!(why.contains("1 row would replace all 730 rows") && why.contains("allow_shrink"), "{why}");
        // As many rows, of fewer days.
        let many = (0..730).map(|part| format!("2013-06-01,{part},y\n")).collect::<Vec<_>>().concat();
        let covers = Manner { covers: names(&["dt"]), ..all("delays") };
        let why = fails(ErrorKind::Guard, tables.publish(&covers, 2, &format!("dt,part,content\n{many}")));
        assert!(why.contains("364 values") && why.contains("2013-01-01"), "{why}");
        let month = |column: &str, comparison, value: &str| ScopeCondition {
            column: column.to_owned(),
            comparison,
            value: value.to_owned(),
        };
        let june = vec![month("dt", Comparison::AtLeast, "2013-06-01"), month("dt", Comparison::Less, "2013-07-01")];
        let june = Manner { scope: june, ..manner(Mode::Replace, "delays") };
        let attempt = tables.attempt(&june, 1);
        let why = fails(ErrorKind::Guard, attempt.prepare(&tables, "dt,part,content\n2013-07-01,1,y\n"));
        assert!(why.contains("outside the scope"), "{why}");
        assert_eq!(tables.psql("SELECT count(*), count(DISTINCT dt) FROM delays"), "730|365");
        tables.publish(&Manner { allow_shrink: true, ..all("delays") }, 2, one_day).unwrap();
        assert_eq!(tables.psql("SELECT * FROM delays"), "2013-06-01|1|y");
    });
}

#[test]
fn rows_that_were_there_before_are_replaced_only_on_adoption() {
    let tables = Tables::new(Version::V18, DELAYS);
    tables.psql("INSERT INTO delays VALUES ('2013-01-01', 1, 'by hand')");
    let day = day("2013-01-01");
    let why = fails(ErrorKind::Refused, tables.publish(&day, 1, "part,content\n1,a\n"));
    assert!(why.contains("--adopt"), "{why}");
    let attempt = tables.attempt(&day, 1);
    attempt.sink.preflight(&attempt.slot, Some(&day.write().unwrap()), Adopt::Foreign).unwrap();
}
