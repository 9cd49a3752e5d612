//! Partitions of PostgreSQL exchanged: what is kept, what is refused, who waits, and what readers see.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test reports failure by panicking")]

#[path = "support/tables.rs"]
mod tables;

use refrain_core::{Adopt, CommitAnswer, Condition, ErrorKind, Sink};
use refrain_sink::postgres::{Comparison, Manner, Mode, ScopeCondition};
use refrain_testkit::postgres::{Server, Version};
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use tables::{ADOPT, Tables, equals, fails, manner, on_each};

/// Days of delays, two of which have a partition.
const DELAYS: &str = "
    CREATE TABLE delays (dt date NOT NULL, part int NOT NULL, delay int, PRIMARY KEY (dt, part)) PARTITION BY RANGE (dt);
    CREATE TABLE delays_2013_01_01 PARTITION OF delays FOR VALUES FROM ('2013-01-01') TO ('2013-01-02');
    CREATE TABLE delays_2013_01_02 PARTITION OF delays FOR VALUES FROM ('2013-01-02') TO ('2013-01-03');";

fn swap(table: &str, scope: Vec<ScopeCondition>) -> Manner {
    Manner { scope, ..manner(Mode::SwapPartition, table) }
}

fn day(day: &str) -> Manner {
    swap("delays", vec![equals("dt", day)])
}

fn condition(column: &str, comparison: Comparison, value: &str) -> ScopeCondition {
    ScopeCondition { column: column.to_owned(), comparison, value: value.to_owned() }
}

fn rows(count: u32, delay: u32) -> String {
    let mut text = String::from("part,delay\n");
    for part in 0..count {
        writeln!(text, "{part},{delay}").unwrap();
    }
    text
}

fn preflight(tables: &Tables, manner: &Manner) -> refrain_core::Result<()> {
    let attempt = tables.attempt(manner, 1);
    attempt.sink.preflight(&attempt.slot, Some(&manner.write().unwrap()), Adopt::Never)
}

#[test]
fn a_partition_is_exchanged_and_a_new_one_is_named_like_its_siblings() {
    on_each(|version| {
        let tables = Tables::new(version, DELAYS);
        tables.psql("INSERT INTO delays VALUES ('2013-01-02', 1, 77)");
        let schema = tables.schema();
        tables.publish(&day("2013-01-01"), 1, &rows(3, 5)).unwrap();
        tables.publish(&day("2013-01-01"), 2, &rows(2, 6)).unwrap();
        assert_eq!(tables.schema(), schema);
        let all = "SELECT tableoid::regclass, dt, part, delay FROM delays ORDER BY dt, part";
        let old =
            "delays_2013_01_01|2013-01-01|0|6\ndelays_2013_01_01|2013-01-01|1|6\ndelays_2013_01_02|2013-01-02|1|77";
        assert_eq!(tables.psql(all), old);
        tables.publish(&day("2013-02-03"), 1, &rows(1, 7)).unwrap();
        assert_eq!(tables.psql(all), format!("{old}\ndelays_2013_02_03|2013-02-03|0|7"));
        // It is what CREATE TABLE … PARTITION OF would have made.
        tables.psql(
            "CREATE TABLE delays_2013_02_04 PARTITION OF delays FOR VALUES FROM ('2013-02-04') TO ('2013-02-05')",
        );
        let of = |name: &str| {
            let schema = tables.schema();
            let lines = schema.lines().filter(|line| line.contains(name) && !line.starts_with("--"));
            lines.map(|line| line.replace(name, "NAME")).collect::<Vec<_>>().join("\n")
        };
        let made = of("delays_2013_02_04").replace("2013-02-04", "2013-02-03").replace("2013-02-05", "2013-02-04");
        assert_eq!(of("delays_2013_02_03"), made);
        let attempt = tables.attempt(&day("2013-01-01"), 3);
        assert_eq!(attempt.condition(), Condition::Intact);
        let leftovers = "SELECT count(*) FROM pg_class WHERE relnamespace = 'refrain'::regnamespace AND relkind = 'r' AND relname ~ '^(stage|sealed)'";
        assert_eq!(tables.psql(leftovers), "0");
    });
}

#[test]
fn data_05_spk_05_a_scope_that_is_no_partition_is_refused_with_both() {
    on_each(|version| {
        let tables = Tables::new(
            version,
            &format!(
                "{DELAYS}
                 CREATE TABLE months (ts timestamptz NOT NULL, v int) PARTITION BY RANGE (ts);
                 CREATE TABLE months_2013_01 PARTITION OF months FOR VALUES FROM ('2013-01-01 00:00+00') TO ('2013-02-01 00:00+00');
                 CREATE TABLE places (place text, v int) PARTITION BY LIST (place);
                 CREATE TABLE places_east PARTITION OF places FOR VALUES IN ('jfk', 'lga');
                 CREATE TABLE hashed (v int) PARTITION BY HASH (v);
                 CREATE TABLE plain (dt date, part int);
                 CREATE TABLE deep (dt date NOT NULL, c int NOT NULL) PARTITION BY LIST (dt);
                 CREATE TABLE deep_1 PARTITION OF deep FOR VALUES IN ('2013-01-01') PARTITION BY LIST (c);
                 CREATE TABLE deep_1_1 PARTITION OF deep_1 FOR VALUES IN (1);"
            ),
        );
        let at_least = |column: &str, value: &str| condition(column, Comparison::AtLeast, value);
        let less = |column: &str, value: &str| condition(column, Comparison::Less, value);
        let months = |from: &str, to: &str| swap("months", vec![at_least("ts", from), less("ts", to)]);
        let larger = vec![at_least("dt", "2013-01-01"), less("dt", "2013-01-03")];
        for (manner, said) in [
            (
                swap("delays", larger),
                vec!["2013-01-03", "delays_2013_01_01", "FROM ('2013-01-01') TO ('2013-01-02')", "1 more"],
            ),
            (swap("delays", vec![equals("dt", "2013-01-01"), equals("part", "1")]), vec!["part is no column"]),
            (swap("delays", vec![]), vec!["without `where`"]),
            (months("2013-01-01 00:00+00", "2013-01-02 00:00+00"), vec!["2013-01-02", "months_2013_01"]),
            (months("2012-12-31 00:00+00", "2013-01-02 00:00+00"), vec!["2012-12-31", "months_2013_01"]),
            (months("2013-01-02 00:00+00", "2013-01-01 00:00+00"), vec!["no rows"]),
            (swap("months", vec![equals("ts", "2013-01-01 00:00+00")]), vec!["one value", ">= {date_start}"]),
            (swap("places", vec![equals("place", "jfk")]), vec!["'jfk'", "places_east", "IN ('jfk', 'lga')"]),
            (swap("places", vec![at_least("place", "jfk")]), vec!["no ranges"]),
            (swap("hashed", vec![equals("v", "1")]), vec!["HASH"]),
            (swap("plain", vec![equals("dt", "2013-01-01")]), vec!["has no partitions"]),
            (swap("deep", vec![equals("dt", "2013-01-01")]), vec!["deep_1", "has partitions itself"]),
        ] {
            let why = fails(ErrorKind::Invalid, preflight(&tables, &manner));
            assert!(said.iter().all(|part| why.contains(part)), "{why} does not say {said:?}");
        }
        tables
            .publish(&months("2013-01-01 00:00+00", "2013-02-01 00:00+00"), 1, "ts,v\n2013-01-31 23:59+00,1\n")
            .unwrap();
        assert_eq!(tables.psql("SELECT tableoid::regclass, v FROM months"), "months_2013_01|1");
        let level = swap("deep_1", vec![equals("c", "1")]);
        tables.publish(&level, 1, "dt,c\n2013-01-01,1\n").unwrap();
        assert_eq!(tables.psql("SELECT tableoid::regclass, dt FROM deep"), "deep_1_1|2013-01-01");
        let level = swap("deep_1", vec![equals("c", "2")]);
        tables.publish(&level, 1, "dt,c\n2013-01-01,2\n").unwrap();
        assert_eq!(tables.psql("SELECT tableoid::regclass FROM deep WHERE c = 2"), "deep_1_2");
    });
}

#[test]
fn bounds_of_several_columns_are_named_by_values_and_one_range() {
    on_each(|version| {
        let tables = Tables::new(
            version,
            "CREATE TABLE m (c1 date NOT NULL, c2 int NOT NULL, v text) PARTITION BY RANGE (c1, c2);
             CREATE TABLE m1 PARTITION OF m FOR VALUES FROM ('2013-01-01', MINVALUE) TO ('2013-01-02', MINVALUE);
             CREATE TABLE m2 PARTITION OF m FOR VALUES FROM ('2013-01-03', 1) TO ('2013-01-03', 5);
             CREATE TABLE m3 PARTITION OF m FOR VALUES FROM ('2013-01-03', 5) TO ('2013-01-03', MAXVALUE);",
        );
        let whole = swap("m", vec![equals("c1", "2013-01-01")]);
        tables.publish(&whole, 1, "c2,v\n7,a\n").unwrap();
        let third = equals("c1", "2013-01-03");
        let part = swap(
            "m",
            vec![third.clone(), condition("c2", Comparison::Greater, "0"), condition("c2", Comparison::AtMost, "4")],
        );
        tables.publish(&part, 1, "c2,v\n1,b\n").unwrap();
        let open = swap("m", vec![third.clone(), condition("c2", Comparison::AtLeast, "5")]);
        tables.publish(&open, 1, "c2,v\n9,c\n").unwrap();
        let new = swap("m", vec![equals("c1", "2013-01-04"), equals("c2", "7")]);
        tables.publish(&new, 1, "v\nd\n").unwrap();
        assert_eq!(
            tables.psql("SELECT tableoid::regclass, c1, c2, v FROM m ORDER BY v"),
            "m1|2013-01-01|7|a\nm2|2013-01-03|1|b\nm3|2013-01-03|9|c\nm_2013_01_04_7|2013-01-04|7|d"
        );
        let bounds =
            tables.psql("SELECT pg_get_expr(relpartbound, oid) FROM pg_class WHERE relname = 'm_2013_01_04_7'");
        assert_eq!(bounds, "FOR VALUES FROM ('2013-01-04', 7) TO ('2013-01-04', 8)");
        let why = fails(ErrorKind::Invalid, preflight(&tables, &swap("m", vec![third])));
        assert!(why.contains("m2") || why.contains("m3"), "{why}");
    });
}

/// A table with everything that can hang on it and on its partition.
const EVERYTHING: &str = r#"
    DROP ROLE IF EXISTS swap_reader; DROP ROLE IF EXISTS swap_writer; DROP ROLE IF EXISTS swap_owner;
    CREATE ROLE swap_reader; CREATE ROLE swap_writer; CREATE ROLE swap_owner LOGIN;
    GRANT CREATE, USAGE ON SCHEMA public TO swap_owner;
    CREATE SCHEMA refrain; GRANT ALL ON SCHEMA refrain TO swap_owner;
    GRANT CREATE ON DATABASE THIS TO swap_owner;
    SET ROLE swap_owner;
    CREATE TABLE carriers (carrier text PRIMARY KEY);
    INSERT INTO carriers VALUES ('UA'), ('AA');
    CREATE TABLE acl (who text, carrier text);
    CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
    CREATE TABLE "my.delays" (
      id bigint GENERATED ALWAYS AS IDENTITY,
      number serial,
      dt date NOT NULL DEFAULT '2000-01-01',
      carrier text COLLATE "C" NOT NULL REFERENCES carriers,
      "select" int CONSTRAINT positive CHECK ("select" > 0),
      twice int GENERATED ALWAYS AS ("select" * 2) STORED,
      note text DEFAULT 'none',
      old_column int,
      PRIMARY KEY (dt, id), UNIQUE (dt, carrier, "select") DEFERRABLE INITIALLY DEFERRED
    ) PARTITION BY RANGE (dt);
    CREATE INDEX "my index" ON "my.delays" (lower(note));
    CREATE TRIGGER everywhere AFTER INSERT ON "my.delays" FOR EACH ROW EXECUTE FUNCTION noted();
    CREATE TABLE "my.delays ""1""" PARTITION OF "my.delays" FOR VALUES FROM ('2013-01-01') TO ('2013-01-02') WITH (fillfactor = 70);
    ALTER TABLE "my.delays" DROP COLUMN old_column;
    ALTER TABLE "my.delays ""1""" SET (autovacuum_enabled = off, toast.autovacuum_enabled = off);
    ALTER TABLE "my.delays ""1""" ADD CONSTRAINT "only here" CHECK (note <> 'x''y');
    ALTER TABLE "my.delays ""1""" ADD CONSTRAINT "not yet" CHECK (note <> 'z') NOT VALID;
    ALTER TABLE "my.delays ""1""" ADD EXCLUDE USING btree (id WITH =);
    ALTER TABLE "my.delays ""1""" ADD CONSTRAINT "own key" FOREIGN KEY (note) REFERENCES carriers NOT VALID;
    ALTER TABLE "my.delays ""1""" ALTER note SET STORAGE EXTERNAL, ALTER note SET STATISTICS 7, ALTER note SET (n_distinct = 5);
    ALTER TABLE "my.delays ""1""" ALTER note SET COMPRESSION pglz;
    ALTER TABLE "my.delays ""1""" ALTER note SET DEFAULT 'here';
    CREATE UNIQUE INDEX "here only" ON "my.delays ""1""" USING btree (number DESC) INCLUDE (note) WITH (fillfactor = 60) WHERE carrier <> 'XX';
    CREATE INDEX "an expression" ON "my.delays ""1""" ((("select" + 1)));
    ALTER INDEX "an expression" ALTER COLUMN 1 SET STATISTICS 9;
    CREATE UNIQUE INDEX "the identity" ON "my.delays ""1""" (dt, number);
    ALTER TABLE "my.delays ""1""" CLUSTER ON "the identity";
    ALTER TABLE "my.delays ""1""" ALTER number SET NOT NULL, REPLICA IDENTITY USING INDEX "the identity";
    CREATE STATISTICS "of ""both" (dependencies, mcv) ON carrier, note FROM "my.delays ""1""";
    ALTER STATISTICS "of ""both" SET STATISTICS 11;
    CREATE TRIGGER here BEFORE UPDATE OF note ON "my.delays ""1""" FOR EACH ROW WHEN (OLD.note IS DISTINCT FROM NEW.note) EXECUTE FUNCTION noted();
    ALTER TABLE "my.delays ""1""" DISABLE TRIGGER here;
    ALTER TABLE "my.delays ""1""" ENABLE ALWAYS TRIGGER everywhere;
    CREATE RULE ruled AS ON DELETE TO "my.delays ""1""" WHERE old.note = 'kept' DO INSTEAD NOTHING;
    ALTER TABLE "my.delays ""1""" ENABLE ROW LEVEL SECURITY;
    CREATE POLICY mine ON "my.delays ""1""" FOR SELECT TO swap_reader, swap_writer
      USING (EXISTS (SELECT FROM acl WHERE acl.carrier = "my.delays ""1""".carrier AND who = current_user));
    CREATE POLICY "not all" ON "my.delays ""1""" AS RESTRICTIVE FOR INSERT WITH CHECK ("select" < 100);
    GRANT SELECT ON "my.delays ""1""" TO swap_writer WITH GRANT OPTION;
    GRANT INSERT, UPDATE ON "my.delays ""1""" TO swap_writer;
    GRANT SELECT (note, "select") ON "my.delays ""1""" TO swap_reader WITH GRANT OPTION;
    GRANT SELECT ON "my.delays" TO swap_reader;
    COMMENT ON TABLE "my.delays ""1""" IS 'one day''s';
    COMMENT ON COLUMN "my.delays ""1""".note IS 'noted';
    COMMENT ON INDEX "here only" IS 'an index';
    COMMENT ON CONSTRAINT "only here" ON "my.delays ""1""" IS 'a check';
    COMMENT ON CONSTRAINT "own key" ON "my.delays ""1""" IS 'a key';
    COMMENT ON TRIGGER here ON "my.delays ""1""" IS 'a trigger';
    COMMENT ON POLICY mine ON "my.delays ""1""" IS 'a policy';
    COMMENT ON RULE ruled ON "my.delays ""1""" IS 'a rule';
    COMMENT ON STATISTICS "of ""both" IS 'statistics';
    CREATE VIEW above AS SELECT dt, sum("select") AS delay FROM "my.delays" GROUP BY dt;
    CREATE MATERIALIZED VIEW kept AS SELECT * FROM above;
    CREATE TABLE notes (dt date, id bigint, FOREIGN KEY (dt, id) REFERENCES "my.delays");
    ALTER DEFAULT PRIVILEGES FOR ROLE swap_owner GRANT SELECT ON TABLES TO PUBLIC;
    RESET ROLE;"#;

/// Both servers; the roles are the servers' own.
fn everything(version: Version) -> Tables {
    let server = Server::start(version);
    let database = server.database();
    database.psql(&EVERYTHING.replace("THIS", database.name()));
    Tables::at(database, "swap_owner")
}

fn of_everything() -> Manner {
    swap("my.delays", vec![equals("dt", "2013-01-01")])
}

#[test]
fn pgs_01_pgs_02_pgs_05_pgs_08_everything_that_hangs_on_a_partition_stays() {
    on_each(|version| {
        let tables = everything(version);
        let schema = tables.schema();
        let content = "carrier,select,note\nUA,3,UA\nAA,4,\n";
        tables.publish(&of_everything(), 1, content).unwrap();
        assert_eq!(tables.schema(), schema);
        tables.publish(&of_everything(), 2, content).unwrap();
        assert_eq!(tables.schema(), schema);
        let read = "SELECT tableoid::regclass, dt, carrier, \"select\", twice, note, id, number FROM \"my.delays\" ORDER BY carrier";
        let table = "\"my.delays \"\"1\"\"\"";
        assert_eq!(tables.psql(read), format!("{table}|2013-01-01|AA|4|8||4|4\n{table}|2013-01-01|UA|3|6|UA|3|3"));
        assert_eq!(tables.psql("SELECT delay FROM above"), "7");
        // The next id is the next one, for an application too.
        tables.psql("INSERT INTO \"my.delays\" (dt, carrier, \"select\", note) VALUES ('2013-01-01', 'UA', 5, 'UA')");
        assert_eq!(tables.psql("SELECT id, number FROM \"my.delays\" WHERE \"select\" = 5"), "5|5");
        tables
            .database
            .try_psql("INSERT INTO \"my.delays\" (dt, carrier, \"select\") VALUES ('2013-01-01', 'ZZ', 5)")
            .unwrap_err();
        let refers = "BEGIN; INSERT INTO notes VALUES ('2013-01-01', 5); ROLLBACK";
        tables.psql(refers);
        tables.database.try_psql("INSERT INTO notes VALUES ('2013-01-01', 99)").unwrap_err();
    });
}

#[test]
fn rows_that_break_a_key_are_the_outputs_fault() {
    on_each(|version| {
        let tables = everything(version);
        for (content, said) in [
            ("carrier,select\nUA,3\nUA,3\n", "is duplicated"),
            ("carrier,select\nZZ,3\n", "carriers"),
            ("carrier,select\nUA,0\n", "positive"),
            ("dt,carrier,select\n2013-01-02,UA,1\n", "outside the scope"),
        ] {
            let why = fails(ErrorKind::Guard, tables.publish(&of_everything(), 1, content));
            assert!(why.contains(said), "{why}");
        }
    });
}

#[test]
fn pgs_02_what_the_role_may_not_restore_is_refused_before_the_task() {
    on_each(|version| {
        let tables = everything(version);
        for (change, undo, said) in [
            (
                "ALTER TABLE \"my.delays \"\"1\"\"\" OWNER TO postgres",
                "ALTER TABLE \"my.delays \"\"1\"\"\" OWNER TO swap_owner",
                "the owner of \"my.delays",
            ),
            (
                "SET ROLE swap_writer; GRANT SELECT ON \"my.delays \"\"1\"\"\" TO pg_monitor",
                "SET ROLE swap_writer; REVOKE SELECT ON \"my.delays \"\"1\"\"\" FROM pg_monitor",
                "swap_writer has granted",
            ),
            (
                "REVOKE CREATE ON SCHEMA public FROM swap_owner, PUBLIC",
                "GRANT CREATE ON SCHEMA public TO swap_owner",
                "may create nothing in schema public",
            ),
            (
                "REVOKE EXECUTE ON FUNCTION noted() FROM PUBLIC, swap_owner",
                "GRANT EXECUTE ON FUNCTION noted() TO swap_owner",
                "function of its trigger",
            ),
            ("CREATE PUBLICATION told FOR TABLE \"my.delays \"\"1\"\"\"", "DROP PUBLICATION told", "publication told"),
            (
                "ALTER TABLE carriers OWNER TO postgres; REVOKE ALL ON carriers FROM swap_owner",
                "ALTER TABLE carriers OWNER TO swap_owner; GRANT ALL ON carriers TO swap_owner",
                "may not refer to",
            ),
        ] {
            tables.psql(change);
            let why = fails(ErrorKind::Invalid, preflight(&tables, &of_everything()));
            assert!(why.contains(said), "{why}");
            tables.psql(undo);
        }
        preflight(&tables, &of_everything()).unwrap();
    });
}

#[test]
fn pgs_02_a_member_of_the_owner_gives_the_table_back() {
    on_each(|version| {
        let tables = everything(version);
        tables.psql(
            "CREATE ROLE swap_member LOGIN; GRANT swap_owner TO swap_member; GRANT CREATE ON SCHEMA public TO swap_member;
             GRANT ALL ON ALL TABLES IN SCHEMA refrain TO swap_member; GRANT ALL ON SCHEMA refrain TO swap_member",
        );
        let schema = tables.schema();
        let member = Tables::at(tables.database.clone(), "swap_member");
        member.publish(&of_everything(), 1, "carrier,select\nUA,3\n").unwrap();
        assert_eq!(tables.schema(), schema);
    });
}

#[test]
fn pgs_04_what_is_bound_to_the_partition_itself_is_refused_and_never_dropped() {
    on_each(|version| {
        let tables = Tables::new(version, DELAYS);
        for (change, undo, said) in [
            ("CREATE VIEW bound AS SELECT * FROM delays_2013_01_01", "DROP VIEW bound", "view public.bound"),
            (
                "CREATE FUNCTION bound(delays_2013_01_01) RETURNS int LANGUAGE sql AS 'SELECT 1'",
                "DROP FUNCTION bound",
                "function public.bound",
            ),
            (
                "CREATE TABLE bound (dt date, part int, FOREIGN KEY (dt, part) REFERENCES delays_2013_01_01)",
                "DROP TABLE bound",
                "on table public.bound",
            ),
            (
                "INSERT INTO delays VALUES ('2013-01-01', 1, 1);
                 CREATE TABLE bound (dt date, part int, FOREIGN KEY (dt, part) REFERENCES delays);
                 INSERT INTO bound VALUES ('2013-01-01', 1)",
                "DROP TABLE bound; DELETE FROM delays",
                "rows of public.bound refer",
            ),
        ] {
            tables.psql(change);
            let why = fails(ErrorKind::Invalid, preflight(&tables, &day("2013-01-01")));
            assert!(why.contains(said), "{why}");
            preflight(&tables, &day("2013-01-02")).unwrap();
            tables.psql(undo);
        }
        // It appears while the task runs: nothing is published, and nothing is dropped.
        let attempt = tables.attempt(&day("2013-01-01"), 1);
        let request = attempt.prepare(&tables, &rows(1, 1)).unwrap();
        tables.psql("CREATE VIEW bound AS SELECT * FROM delays_2013_01_01");
        let why = fails(ErrorKind::Invalid, attempt.commit(&request));
        assert!(why.contains("bound"), "{why}");
        assert_eq!(tables.psql("SELECT count(*) FROM bound"), "0");
        tables.psql("DROP VIEW bound");
        attempt.commit(&request).unwrap();
    });
}

#[test]
fn pgs_01_a_table_that_was_altered_meanwhile_is_not_exchanged() {
    on_each(|version| {
        let tables = Tables::new(version, DELAYS);
        let attempt = tables.attempt(&day("2013-01-01"), 1);
        let request = attempt.prepare(&tables, &rows(1, 1)).unwrap();
        tables.psql("ALTER TABLE delays_2013_01_01 ADD CONSTRAINT late CHECK (delay < 100)");
        let schema = tables.schema();
        let why = fails(ErrorKind::Invalid, attempt.commit(&request));
        assert!(why.contains("lost: partition constraint late"), "{why}");
        assert_eq!(tables.schema(), schema);
        tables.publish(&day("2013-01-01"), 1, &rows(1, 1)).unwrap();
        assert_eq!(tables.psql("SELECT count(*) FROM delays"), "1");
    });
}

#[test]
fn pgx_10_rows_of_the_scope_in_the_default_partition_are_named_and_can_be_moved() {
    on_each(|version| {
        let tables = Tables::new(version, &format!("{DELAYS} CREATE TABLE rest PARTITION OF delays DEFAULT"));
        tables.publish(&day("2013-01-01"), 1, &rows(2, 1)).unwrap();
        let late = day("2013-03-01");
        let attempt = tables.attempt(&late, 1);
        let request = attempt.prepare(&tables, &rows(3, 2)).unwrap();
        tables.psql("INSERT INTO delays VALUES ('2013-03-01', 7, 7), ('2013-03-02', 8, 8)");
        let schema = tables.schema();
        let why = fails(ErrorKind::Refused, attempt.sink.commit(&attempt.slot, &request, &ADOPT));
        assert!(why.contains("1 row of the scope is in \"public\".\"rest\""), "{why}");
        assert_eq!(tables.schema(), schema);
        let error = preflight(&tables, &late).unwrap_err();
        let hint = error.hint.unwrap();
        let (_, command) = hint.split_once("BEGIN; ").unwrap();
        tables.psql(&format!("BEGIN; {command}"));
        assert_eq!(attempt.sink.commit(&attempt.slot, &request, &ADOPT).unwrap(), CommitAnswer::Committed);
        let found = tables.psql("SELECT tableoid::regclass, dt, count(*) FROM delays GROUP BY 1, 2 ORDER BY 2");
        assert_eq!(found, "delays_2013_01_01|2013-01-01|2\ndelays_2013_03_01|2013-03-01|3\nrest|2013-03-02|1");
    });
}

#[test]
fn pgx_11_what_is_attached_is_logged_and_has_the_rows_that_were_sealed() {
    on_each(|version| {
        let server = Server::start(version);
        let database = server.database();
        database.psql(DELAYS);
        let tables = Tables::at(database, "postgres");
        let attempt = tables.attempt(&day("2013-01-01"), 1);
        let request = attempt.prepare(&tables, &rows(500, 1)).unwrap();
        server.kill();
        server.restart();
        attempt.commit(&request).unwrap();
        server.kill();
        server.restart();
        assert_eq!(tables.psql("SELECT count(*), sum(delay) FROM delays"), "500|500");
        let persistence = "SELECT relpersistence FROM pg_class WHERE relname = 'delays_2013_01_01'";
        assert_eq!(tables.psql(persistence), "p");

        for (harm, said, kind) in [
            ("DELETE FROM STAGE WHERE part = 1", "3 rows were staged", ErrorKind::Guard),
            ("ALTER TABLE STAGE SET UNLOGGED", "UNLOGGED", ErrorKind::Invalid),
        ] {
            let attempt = tables.attempt(&day("2013-01-01"), 2);
            let request = attempt.prepare(&tables, &rows(3, 2)).unwrap();
            let sealed = tables.psql("SELECT name FROM refrain.staging ORDER BY created_at DESC LIMIT 1");
            tables.psql(&harm.replace("STAGE", &format!("refrain.{sealed}")));
            let why = fails(kind, attempt.commit(&request));
            assert!(why.contains(said), "{why}");
        }
        assert_eq!(tables.psql("SELECT count(*), sum(delay) FROM delays"), "500|500");
    });
}

#[test]
fn what_was_changed_by_hand_is_noticed() {
    on_each(|version| {
        let tables = Tables::new(version, DELAYS);
        tables.publish(&day("2013-01-01"), 1, &rows(3, 1)).unwrap();
        let attempt = tables.attempt(&day("2013-01-01"), 2);
        let request = attempt.prepare(&tables, &rows(1, 2)).unwrap();
        assert_eq!(attempt.condition(), Condition::Intact);
        tables.psql("UPDATE delays SET delay = 9 WHERE part = 1");
        assert!(matches!(attempt.condition(), Condition::Drifted(_)));
        fails(ErrorKind::Conflict, attempt.commit(&request));
        tables.psql(
            "BEGIN; CREATE TABLE other (LIKE delays INCLUDING ALL); INSERT INTO other SELECT '2013-01-01', g, 1 FROM generate_series(1, 3) g;
             ALTER TABLE delays DETACH PARTITION delays_2013_01_01; DROP TABLE delays_2013_01_01;
             ALTER TABLE delays ATTACH PARTITION other FOR VALUES FROM ('2013-01-01') TO ('2013-01-02'); COMMIT",
        );
        let condition = attempt.condition();
        assert!(matches!(&condition, Condition::Drifted(why) if why.contains("another")), "{condition:?}");
    });
}

#[test]
fn spk_04_an_empty_result_leaves_an_empty_partition() {
    on_each(|version| {
        let tables = Tables::new(version, DELAYS);
        tables.publish(&day("2013-01-01"), 1, &rows(10, 1)).unwrap();
        fails(ErrorKind::Guard, tables.publish(&day("2013-01-01"), 2, "part,delay\n"));
        assert_eq!(tables.psql("SELECT count(*) FROM delays"), "10");
        let attempt = tables.attempt(&day("2013-01-01"), 2).allow_empty();
        let request = attempt.prepare(&tables, "part,delay\n").unwrap();
        attempt.commit(&request).unwrap();
        assert_eq!(tables.psql("SELECT count(*), to_regclass('delays_2013_01_01') FROM delays"), "0|delays_2013_01_01");
    });
}

#[test]
fn attach_reads_no_row() {
    on_each(|version| {
        let server = Server::with(version, &[("log_min_messages", "debug1")], &[]);
        let database = server.database();
        database.psql(&format!(
            "{DELAYS} CREATE TABLE places (place text NOT NULL, n int, v int) PARTITION BY RANGE (place, n)"
        ));
        let tables = Tables::at(database, "postgres");
        for generation in 1..=2 {
            tables.publish(&day("2013-01-01"), generation, &rows(3, 1)).unwrap();
            tables.publish(&day("2013-05-01"), generation, &rows(3, 1)).unwrap();
            tables.publish(&swap("places", vec![equals("place", "it's")]), generation, "n,v\n1,2\n").unwrap();
            let between = vec![
                equals("place", "b"),
                condition("n", Comparison::AtLeast, "3"),
                condition("n", Comparison::AtMost, "5"),
            ];
            tables.publish(&swap("places", between), generation, "n,v\n5,2\n").unwrap();
        }
        let log = std::fs::read_to_string(server.log()).unwrap();
        let implied = log.matches("is implied by existing constraints").count();
        assert_eq!(implied, 8, "{log}");
    });
}

#[test]
fn pgx_08_readers_pass_between_the_tries_and_the_error_names_who_reads() {
    let tables = Tables::new(Version::V15, DELAYS);
    tables.publish(&day("2013-01-01"), 1, &rows(3, 1)).unwrap();
    let attempt = tables.attempt(&day("2013-01-01"), 2);
    let request = attempt.prepare(&tables, &rows(4, 2)).unwrap();
    let read = "SET statement_timeout = '1s'; SELECT count(*) FROM delays";
    let why = std::thread::scope(|scope| {
        let long = scope.spawn(|| {
            tables.database.try_psql(
                "SET application_name = 'a long report'; BEGIN; SELECT count(*) FROM delays; SELECT pg_sleep(600)",
            )
        });
        let sleeps = "SELECT pid FROM pg_stat_activity WHERE application_name = 'a long report' AND query LIKE '%pg_sleep%' AND state = 'active'";
        tables::until(|| !tables.psql(sleeps).is_empty());
        let commit = scope.spawn(|| attempt.commit(&request));
        tables.until_somebody_waits();
        while !commit.is_finished() {
            assert_eq!(tables.psql(read), "3");
        }
        let why = fails(ErrorKind::Unavailable, commit.join().unwrap());
        let process = tables.psql(sleeps);
        assert!(
            why.contains(&format!("process {process} (application 'a long report', user postgres, active")),
            "{why}"
        );
        assert!(!why.contains("pg_sleep(600)"), "{why}");
        tables.psql(&format!("SELECT pg_terminate_backend({process})"));
        long.join().unwrap().unwrap_err();
        why
    });
    assert!(why.contains("held by"), "{why}");
    // What was staged is there still.
    attempt.commit(&request).unwrap();
    assert_eq!(tables.psql(read), "4");
}

#[test]
fn pgx_14_the_second_publisher_is_told_who_has_the_head() {
    let tables = Tables::new(Version::V18, DELAYS);
    let proxy = refrain_testkit::postgres::Proxy::start(tables.database.server().port());
    let first = tables.attempt_through(&proxy, &day("2013-01-01"), 1);
    let request = first.prepare(&tables, &rows(3, 1)).unwrap();
    // The first one stands still inside its transaction, with the row of the head locked.
    proxy.hold(b"SET LOCAL lock_timeout = 400");
    std::thread::scope(|scope| {
        let frozen = scope.spawn(|| first.commit(&request));
        tables::until(|| proxy.held() > 0);
        let second = tables.attempt(&day("2013-01-01"), 1);
        let why = fails(ErrorKind::Held, second.try_claim());
        let who = format!("application 'refrain attempt {}'", first.holder.attempt);
        assert!(why.contains(&who) && why.contains("idle in transaction"), "{why}");
        proxy.release();
        frozen.join().unwrap().unwrap();
    });
}

#[test]
fn readers_see_the_old_rows_or_the_new_ones() {
    on_each(|version| {
        let tables = Tables::new(version, DELAYS);
        tables.publish(&day("2013-01-01"), 1, &rows(100, 1)).unwrap();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut seen = std::collections::BTreeSet::new();
                while !over.load(Ordering::Relaxed) {
                    let read = "SELECT count(*), sum(delay) FROM delays;".repeat(50);
                    seen.extend(tables.psql(&read).lines().map(str::to_owned));
                }
                seen
            });
            for generation in 2..=12 {
                let count = 100 * u32::try_from(generation).unwrap();
                tables.publish(&day("2013-01-01"), generation, &rows(count, 1)).unwrap();
            }
            over.store(true, Ordering::Relaxed);
            let seen = reader.join().unwrap();
            assert!(seen.len() > 1, "{seen:?}");
            for line in seen {
                let (count, sum) = line.split_once('|').unwrap();
                assert!(count == sum && count.ends_with("00"), "{line}");
            }
        });
    });
}

#[test]
fn two_publishers_at_once_leave_the_rows_of_one_and_no_table_of_the_other() {
    on_each(|version| {
        let tables = Tables::new(version, DELAYS);
        let first = tables.attempt(&day("2013-01-01"), 1);
        let of_first = first.prepare(&tables, &rows(3, 1)).unwrap();
        let second = tables.attempt(&day("2013-01-01"), 1);
        let of_second = second.prepare(&tables, &rows(4, 2)).unwrap();
        // Another partition of the table at the same time.
        let beside = tables.attempt_for("q", &day("2013-01-02"), 1);
        let of_beside = beside.prepare(&tables, &rows(5, 3)).unwrap();
        std::thread::scope(|scope| {
            let first = scope.spawn(|| first.sink.commit(&first.slot, &of_first, &tables::STRICT).unwrap());
            let second = scope.spawn(|| second.commit(&of_second).unwrap());
            let beside = scope.spawn(|| beside.commit(&of_beside).unwrap());
            assert_eq!(first.join().unwrap(), CommitAnswer::Rejected);
            second.join().unwrap();
            beside.join().unwrap();
        });
        assert_eq!(
            tables.psql("SELECT dt, count(*) FROM delays GROUP BY dt ORDER BY dt"),
            "2013-01-01|4\n2013-01-02|5"
        );
        for staged in first.sink.staged().unwrap() {
            first.sink.discard(&staged).unwrap();
        }
        let left = "SELECT count(*) FROM pg_class WHERE relname ~ '^(stage|sealed)_'";
        assert_eq!(tables.psql(left), "0", "PGS-10");
    });
}

#[test]
fn pgs_10_killed_runs_leave_nothing_that_is_in_the_way() {
    on_each(|version| {
        let tables = Tables::new(version, DELAYS);
        for generation in 1..=5 {
            let dead = tables.attempt(&day("2013-01-01"), generation);
            dead.prepare(&tables, &rows(3, 1)).unwrap();
        }
        tables.psql("CREATE TABLE refrain.stage_mine (i int)");
        tables.publish(&day("2013-01-01"), 6, &rows(4, 1)).unwrap();
        let sink = tables.sink();
        for staged in sink.staged().unwrap() {
            sink.discard(&staged).unwrap();
        }
        let left = "SELECT string_agg(relname, ',') FROM pg_class WHERE relnamespace = 'refrain'::regnamespace AND relname ~ '^(stage|sealed)_'";
        assert_eq!(tables.psql(left), "stage_mine");
    });
}
