//! Merges into tables of PostgreSQL: what is touched, what is refused, and that nothing is counted twice.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test reports failure by panicking")]

#[path = "support/tables.rs"]
mod tables;

use refrain_core::{Adopt, Condition, ErrorKind, Sink};
use refrain_sink::postgres::{Manner, Mode, Source};
use refrain_testkit::postgres::Version;
use tables::{Tables, equals, fails, manner, names, on_each};

/// A table in which everything is wanted: keys, defaults, a trigger that says when a row was changed.
const PEOPLE: &str = "
    CREATE TABLE people (id int PRIMARY KEY, name text, email text UNIQUE, hits int NOT NULL DEFAULT 0,
      loaded_at timestamptz, changes int NOT NULL DEFAULT 0);
    CREATE FUNCTION count_change() RETURNS trigger LANGUAGE plpgsql AS
      'BEGIN NEW.changes := OLD.changes + 1; RETURN NEW; END';
    CREATE TRIGGER changed BEFORE UPDATE ON people FOR EACH ROW EXECUTE FUNCTION count_change();";

fn merge(table: &str) -> Manner {
    manner(Mode::Merge, table)
}

#[test]
fn ups_05_equal_rows_are_not_touched_and_nulls_count() {
    on_each(|version| {
        let tables = Tables::new(version, PEOPLE);
        tables.psql("INSERT INTO people (id, name) VALUES (1, 'a'), (2, NULL), (3, 'c'), (4, 'untouched')");
        let xmin = |id: u32| tables.psql(&format!("SELECT xmin FROM people WHERE id = {id}"));
        let before = (xmin(1), xmin(4));
        let schema = tables.schema();
        let people = merge("people");
        tables.publish(&people, 1, "id,name\n1,a\n2,now\n3,\n5,new\n").unwrap();
        let rows = || tables.psql("SELECT id, name, changes FROM people ORDER BY id");
        assert_eq!(rows(), "1|a|0\n2|now|1\n3||1\n4|untouched|0\n5|new|0");
        assert_eq!((xmin(1), xmin(4)), before, "rows that are equal keep their version");

        let all = || tables.psql("SELECT id, xmin, ctid, changes FROM people ORDER BY id");
        let before = all();
        tables.publish(&people, 2, "id,name\n5,new\n3,\n2,now\n1,a\n").unwrap();
        assert_eq!(all(), before, "the same rows change nothing");
        assert_eq!(tables.schema(), schema);
        assert_eq!(tables.psql("SELECT count(*) FROM pg_class WHERE relnamespace = 'refrain'::regnamespace AND relname ~ '^(stage|sealed|delta)'"), "0");
    });
}

#[test]
fn ups_05_types_without_an_equality_of_their_own_are_compared_too() {
    on_each(|version| {
        // The programs of 18 that are tested against are built without XML.
        let xml = if version == Version::V15 { "xml" } else { "json" };
        let tables = Tables::new(
            version,
            &"CREATE TYPE mood AS ENUM ('sad', 'happy'); CREATE TYPE pair AS (a int, b json); CREATE DOMAIN note AS json;
             CREATE TABLE t (id int PRIMARY KEY, j json, b jsonb, n note, x XML, p point, m mood, r int4range, a int[],
               ja json[], i interval, c pair, num numeric, ch char(5), by bytea, ts timestamptz, inet inet);
             INSERT INTO t VALUES (1, '{\"a\": 1}', '{\"a\": 1}', '[1]', '\"a\"', '(1,2)', 'sad', '[1,3)', '{1,NULL}',
               '{\"1\"}', '1 month', '(1,\"{}\")', 1.50, 'ab', '\\x01', '2013-01-01 00:00+00', '10.0.0.1')"
                .replace("XML", xml),
        );
        let t = Manner { source: Source::Direct, ..merge("t") };
        let before = tables.psql("SELECT xmin FROM t");
        tables.publish(&t, 1, "INSERT INTO STAGE SELECT * FROM t").unwrap();
        assert_eq!(tables.psql("SELECT xmin FROM t"), before);
        let changes = [
            ("j", "'{\"a\": 2}'"),
            ("b", "'{\"a\": 2}'"),
            ("n", "'[2]'"),
            ("x", "'\"b\"'"),
            ("p", "'(1,3)'"),
            ("m", "'happy'"),
            ("r", "'[1,4)'"),
            ("a", "'{1,2}'"),
            ("ja", "'{\"2\"}'"),
            ("i", "'30 days'"),
            ("c", "'(1,\"[]\")'"),
            ("num", "NULL"),
            ("ch", "'b'"),
            ("by", "NULL"),
            ("ts", "'infinity'"),
            ("inet", "'::1'"),
        ];
        for (index, (column, value)) in changes.into_iter().enumerate() {
            let generation = index as u64 + 2;
            let sql = format!("INSERT INTO STAGE SELECT * FROM t; UPDATE STAGE SET {column} = {value}");
            let before = tables.psql("SELECT xmin FROM t");
            tables.publish(&t, generation, &sql).unwrap();
            assert_ne!(tables.psql("SELECT xmin FROM t"), before, "{column} changed");
        }
    });
}

#[test]
fn excluded_columns_are_written_and_never_compared() {
    let tables = Tables::new(Version::V15, PEOPLE);
    let people = Manner { exclude: names(&["loaded_at"]), ..merge("people") };
    tables.publish(&people, 1, "id,name,loaded_at\n1,a,2013-01-01\n2,b,2013-01-01\n").unwrap();
    tables.publish(&people, 2, "id,name,loaded_at\n1,a,2013-01-02\n2,c,2013-01-02\n").unwrap();
    let rows = tables.psql("SELECT id, name, loaded_at::date, changes FROM people ORDER BY id");
    assert_eq!(rows, "1|a|2013-01-01|0\n2|c|2013-01-02|1");
    let of_key = Manner { exclude: names(&["id"]), ..merge("people") };
    let why = fails(ErrorKind::Invalid, tables.publish(&of_key, 3, "id\n1\n"));
    assert!(why.contains("\"id\" is part of the key"), "{why}");
}

#[test]
fn ups_01_a_null_in_the_key_is_refused_unless_the_index_says_that_nulls_are_one() {
    on_each(|version| {
        let tables = Tables::new(
            version,
            "CREATE TABLE t (a int, b text, v int, UNIQUE (a, b)); CREATE TABLE one (a int, b text, v int, UNIQUE NULLS NOT DISTINCT (a, b))",
        );
        let key = names(&["a", "b"]);
        let t = Manner { key: key.clone(), ..merge("t") };
        let why = fails(ErrorKind::Guard, tables.publish(&t, 1, "a,b,v\n1,x,1\n1,,2\n2,,3\n"));
        assert!(why.contains("2 staged rows") && why.contains("\"b\"") && why.contains("(1,,2)"), "{why}");
        assert_eq!(tables.psql("SELECT count(*) FROM t"), "0");

        let one = Manner { key, ..merge("one") };
        for (generation, value) in [(1, 1), (2, 2), (3, 2)] {
            tables.publish(&one, generation, &format!("a,b,v\n1,x,1\n1,,{value}\n,,{value}\n")).unwrap();
        }
        assert_eq!(tables.psql("SELECT a, b, v FROM one ORDER BY a, b"), "1|x|1\n1||2\n||2");
        let why = fails(ErrorKind::Guard, tables.publish(&one, 4, "a,b,v\n,,1\n,,2\n"));
        assert!(why.contains("a = NULL, b = NULL (2 rows)"), "{why}");
    });
}

#[test]
fn ups_02_a_key_that_is_staged_twice_is_refused_with_the_keys() {
    on_each(|version| {
        let tables = Tables::new(
            version,
            "CREATE TABLE t (a int, b int, v int, PRIMARY KEY (a, b)); CREATE TABLE s (id int PRIMARY KEY, v int)",
        );
        let lines = ["1,1,1", "1,1,2", "2,1,1", "2,1,1", "2,1,3", "3,1,1"];
        let file = |lines: &[&str]| format!("a,b,v\n{}\n", lines.join("\n"));
        let mut shuffled = lines;
        shuffled.reverse();
        shuffled.swap(1, 4);
        let first = fails(ErrorKind::Guard, tables.publish(&merge("t"), 1, &file(&lines)));
        let second = fails(ErrorKind::Guard, tables.publish(&merge("t"), 1, &file(&shuffled)));
        assert!(first.contains("2 keys") && first.contains("a = 1, b = 1 (2 rows); a = 2, b = 1 (3 rows)"), "{first}");
        assert_eq!(first, second);
        let many: String = (0..20).flat_map(|id| [format!("{id},1\n"), format!("{id},2\n")]).collect();
        let why = fails(ErrorKind::Guard, tables.publish(&merge("s"), 1, &format!("id,v\n{many}")));
        assert!(why.contains("20 keys") && why.contains("id = 4 (2 rows)") && !why.contains("id = 5"), "{why}");
        assert_eq!(tables.psql("SELECT (SELECT count(*) FROM t) + (SELECT count(*) FROM s)"), "0");
    });
}

#[test]
fn ups_02_a_declared_order_settles_which_row_wins_and_a_tie_is_refused() {
    on_each(|version| {
        let tables = Tables::new(version, "CREATE TABLE t (id int PRIMARY KEY, at date, v int)");
        let t = Manner { order_by: names(&["at", "v desc"]), ..merge("t") };
        let lines = ["1,2013-01-01,1", "1,2013-01-02,3", "1,2013-01-02,2", "1,,9", "2,2013-01-01,1", "3,,7"];
        let expected = "1|2013-01-02|2\n2|2013-01-01|1\n3||7";
        let mut shuffled = lines;
        shuffled.reverse();
        for (generation, lines) in [(1, lines), (2, shuffled)] {
            tables.psql("TRUNCATE t");
            tables.publish(&t, generation, &format!("id,at,v\n{}\n", lines.join("\n"))).unwrap();
            assert_eq!(tables.psql("SELECT * FROM t ORDER BY id"), expected);
        }
        let tied = Manner { order_by: names(&["at"]), ..merge("t") };
        let why = fails(ErrorKind::Guard, tables.publish(&tied, 3, &format!("id,at,v\n{}\n", lines.join("\n"))));
        assert!(why.contains("id = 1 (2 rows)") && why.contains("order_by"), "{why}");
        let unknown = Manner { order_by: names(&["att"]), ..merge("t") };
        let why = fails(ErrorKind::Invalid, tables.publish(&unknown, 3, "id\n1\n"));
        assert!(why.contains("did you mean \"at\""), "{why}");
    });
}

#[test]
fn ups_04_another_unique_constraint_is_named_and_nothing_is_applied() {
    on_each(|version| {
        let tables = Tables::new(version, PEOPLE);
        tables.psql("INSERT INTO people (id, name, email) VALUES (1, 'a', 'a@x'), (2, 'b', 'b@x')");
        let before = tables.psql("SELECT xmin, * FROM people ORDER BY id");
        for rows in ["id,name,email\n2,bb,b@x\n3,c,a@x\n", "id,name,email\n3,c,c@x\n2,b,a@x\n"] {
            let why = fails(ErrorKind::Guard, tables.publish(&merge("people"), 1, rows));
            assert!(why.contains("\"people_email_key\"") && why.contains("(email)=(a@x)"), "{why}");
            assert_eq!(tables.psql("SELECT xmin, * FROM people ORDER BY id"), before);
        }
    });
}

#[test]
fn ups_07_with_delete_missing_the_scope_is_a_function_of_the_input() {
    on_each(|version| {
        let tables = Tables::new(
            version,
            "CREATE TABLE t (dt date, id int, v int, PRIMARY KEY (dt, id)) PARTITION BY LIST (dt);
             CREATE TABLE t_default PARTITION OF t DEFAULT; CREATE TABLE t1 PARTITION OF t FOR VALUES IN ('2013-01-01');
             INSERT INTO t VALUES ('2013-01-02', 7, 0)",
        );
        let day = Manner { scope: vec![equals("dt", "2013-01-01")], delete_missing: true, ..merge("t") };
        let schema = tables.schema();
        tables.publish(&day, 1, "id,v\n6,1\n7,1\n").unwrap();
        let kept = tables.psql("SELECT xmin FROM t WHERE dt = '2013-01-01' AND id = 6");
        tables.publish(&day, 2, "id,v\n6,1\n8,2\n").unwrap();
        assert_eq!(tables.psql("SELECT id, v FROM t WHERE dt = '2013-01-01' ORDER BY id"), "6|1\n8|2");
        assert_eq!(tables.psql("SELECT id FROM t WHERE dt = '2013-01-02'"), "7", "outside of the scope");
        assert_eq!(tables.psql("SELECT xmin FROM t WHERE dt = '2013-01-01' AND id = 6"), kept);
        assert_eq!(tables.schema(), schema);

        let attempt = tables.attempt(&day, 3).allow_empty();
        assert_eq!(attempt.condition(), Condition::Intact);
        let request = attempt.prepare(&tables, "id,v\n").unwrap();
        attempt.commit(&request).unwrap();
        assert_eq!(tables.psql("SELECT dt, id FROM t"), "2013-01-02|7");
        assert_eq!(attempt.condition(), Condition::Intact);
        tables.psql("INSERT INTO t VALUES ('2013-01-01', 1, 1)");
        assert!(matches!(attempt.condition(), Condition::Drifted(_)));
    });
}

#[test]
fn ups_07_without_delete_missing_rows_that_are_not_staged_stay() {
    let tables = Tables::new(Version::V15, PEOPLE);
    tables.publish(&merge("people"), 1, "id,name\n6,a\n7,b\n").unwrap();
    tables.publish(&merge("people"), 2, "id,name\n6,a\n").unwrap();
    assert_eq!(tables.psql("SELECT id FROM people ORDER BY id"), "6\n7");
}

#[test]
fn ups_08_what_accumulates_counts_once_for_a_run_and_another_generation_is_refused() {
    on_each(|version| {
        let tables = Tables::new(version, PEOPLE);
        tables.psql("INSERT INTO people (id, name, hits) VALUES (1, 'a', 10), (2, 'b', 0)");
        let hits = Manner { set: vec![("hits".to_owned(), "old.hits + new.hits".to_owned())], ..merge("people") };
        let attempt = tables.attempt(&hits, 1);
        attempt.sink.preflight(&attempt.slot, Some(&hits.write().unwrap()), Adopt::Never).unwrap();
        let request = attempt.prepare(&tables, "id,hits\n1,5\n2,0\n3,7\n").unwrap();
        attempt.commit(&request).unwrap();
        let rows = || tables.psql("SELECT id, hits, changes FROM people ORDER BY id");
        assert_eq!(rows(), "1|15|1\n2|0|0\n3|7|0");
        attempt.commit(&request).unwrap();
        tables.attempt(&hits, 1);
        assert_eq!(rows(), "1|15|1\n2|0|0\n3|7|0", "the same commit, sent again");

        let why = fails(ErrorKind::Refused, tables.publish(&hits, 2, "id,hits\n1,5\n"));
        assert!(why.contains("counted twice") && why.contains("set_again"), "{why}");
        let later = tables.attempt(&hits, 2);
        let request = later.prepare(&tables, "id,hits\n1,5\n").unwrap();
        fails(ErrorKind::Refused, later.commit(&request));
        assert_eq!(rows(), "1|15|1\n2|0|0\n3|7|0");

        let largest = vec![("hits".to_owned(), "greatest(old.hits, new.hits)".to_owned())];
        let largest = Manner { set: largest, set_again: true, ..hits };
        tables.publish(&largest, 3, "id,hits\n1,5\n2,1\n").unwrap();
        assert_eq!(rows(), "1|15|1\n2|1|1\n3|7|0");
    });
}

#[test]
fn an_expression_is_read_before_the_task_runs() {
    let tables = Tables::new(Version::V15, PEOPLE);
    for (column, expression, part) in [
        ("hits", "old.hit + 1", "hit"),
        ("hits", "1), name = ('x'", "syntax error"),
        ("hits", "'a'::text", "integer"),
        ("id", "old.id + 1", "part of the key"),
        ("hit", "1", "did you mean \"hits\""),
    ] {
        let manner = Manner { set: vec![(column.to_owned(), expression.to_owned())], ..merge("people") };
        let attempt = tables.attempt(&manner, 1);
        let checked = attempt.sink.preflight(&attempt.slot, Some(&manner.write().unwrap()), Adopt::Never);
        let why = fails(ErrorKind::Invalid, checked);
        assert!(why.contains(part), "{why}");
    }
}

#[test]
fn the_key_is_the_primary_key_or_has_a_unique_index_that_serves() {
    on_each(|version| {
        let tables = Tables::new(
            version,
            "CREATE TABLE heap (id int, v int, w int GENERATED ALWAYS AS (id) STORED); CREATE INDEX ON heap (id);
             CREATE UNIQUE INDEX part ON heap (id) WHERE v > 0; CREATE UNIQUE INDEX wider ON heap (id, v);
             CREATE UNIQUE INDEX computed ON heap ((id + 1)); CREATE UNIQUE INDEX included ON heap (v) INCLUDE (id);
             CREATE TABLE late (id int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, v int)",
        );
        let with = |key: &[&str]| Manner { key: names(key), ..merge("heap") };
        let preflight = |manner: &Manner| {
            let attempt = tables.attempt(manner, 1);
            attempt.sink.preflight(&attempt.slot, Some(&manner.write().unwrap()), Adopt::Never)
        };
        let why = fails(ErrorKind::Invalid, preflight(&with(&[])));
        assert!(why.contains("no primary key") && why.contains("key = ["), "{why}");
        let why = fails(ErrorKind::Invalid, preflight(&with(&["id"])));
        assert!(
            why.contains("\"part\" is partial") && why.contains("CREATE UNIQUE INDEX ON \"public\".\"heap\" (\"id\")"),
            "{why}"
        );
        let why = fails(ErrorKind::Invalid, preflight(&with(&["idd"])));
        assert!(why.contains("did you mean \"id\""), "{why}");
        assert!(fails(ErrorKind::Invalid, preflight(&with(&["w"]))).contains("computes"));
        assert!(fails(ErrorKind::Invalid, preflight(&with(&["id", "id"]))).contains("twice"));
        preflight(&with(&["v", "id"])).unwrap();
        preflight(&with(&["v"])).unwrap();

        // A deferrable constraint cannot be named in ON CONFLICT.
        tables.publish(&merge("late"), 1, "id,v\n1,1\n").unwrap();
        tables.publish(&merge("late"), 2, "id,v\n1,2\n2,2\n").unwrap();
        assert_eq!(tables.psql("SELECT * FROM late ORDER BY id"), "1|2\n2|2");
    });
}

#[test]
fn a_key_in_another_partition_is_refused() {
    let tables = Tables::new(
        Version::V15,
        "CREATE TABLE t (id int PRIMARY KEY, dt date, v int); INSERT INTO t VALUES (7, '2013-01-01', 1)",
    );
    for delete_missing in [false, true] {
        let day = Manner { scope: vec![equals("dt", "2013-01-02")], delete_missing, ..merge("t") };
        let why = fails(ErrorKind::Guard, tables.publish(&day, 1, "id,v\n6,1\n7,2\n"));
        assert!(why.contains("id = 7") && why.contains("outside"), "{why}");
        assert_eq!(tables.psql("SELECT * FROM t"), "7|2013-01-01|1");
    }
}

#[test]
fn generated_and_identity_columns_are_the_tables_own() {
    on_each(|version| {
        let tables = Tables::new(
            version,
            "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, code text PRIMARY KEY, v int,
               twice int GENERATED ALWAYS AS (v * 2) STORED, seen date DEFAULT '2013-01-01');
             INSERT INTO t (code, v) VALUES ('a', 1);
             CREATE TABLE by_id (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v int)",
        );
        tables.publish(&merge("t"), 1, "code,v\na,5\nb,6\n").unwrap();
        let rows = || tables.psql("SELECT id, code, v, twice, seen FROM t ORDER BY id");
        assert_eq!(rows(), "1|a|5|10|2013-01-01\n2|b|6|12|2013-01-01");
        tables.publish(&merge("t"), 2, "id,code,v\n9,a,6\n10,c,7\n").unwrap();
        assert_eq!(rows(), "1|a|6|12|2013-01-01\n2|b|6|12|2013-01-01\n10|c|7|14|2013-01-01");
        tables.publish(&merge("by_id"), 1, "id,v\n3,1\n").unwrap();
        tables.publish(&merge("by_id"), 2, "id,v\n3,2\n4,2\n").unwrap();
        assert_eq!(tables.psql("SELECT * FROM by_id ORDER BY id"), "3|2\n4|2");
    });
}

#[test]
fn columns_that_are_not_staged_keep_their_value_or_get_the_default() {
    let tables = Tables::new(Version::V18, PEOPLE);
    tables.psql("INSERT INTO people (id, name, email, hits) VALUES (1, 'a', 'a@x', 3)");
    tables.publish(&merge("people"), 1, "id,name\n1,b\n2,c\n").unwrap();
    let rows = || tables.psql("SELECT id, name, email, hits FROM people ORDER BY id");
    assert_eq!(rows(), "1|b|a@x|3\n2|c||0");
}

#[test]
fn a_foreign_key_that_would_change_other_tables_is_refused() {
    let tables = Tables::new(
        Version::V15,
        "CREATE TABLE a (id int PRIMARY KEY, code text UNIQUE); CREATE TABLE b (a int REFERENCES a ON DELETE CASCADE);
         CREATE TABLE c (code text REFERENCES a (code) ON UPDATE CASCADE);
         INSERT INTO a VALUES (1, 'x'); INSERT INTO b VALUES (1); INSERT INTO c VALUES ('x')",
    );
    let all = Manner { delete_missing: true, ..merge("a") };
    let why = fails(ErrorKind::Invalid, tables.publish(&all, 1, "id\n2\n"));
    assert!(why.contains("ON DELETE") && why.contains("b_a_fkey"), "{why}");
    let why = fails(ErrorKind::Invalid, tables.publish(&merge("a"), 1, "id,code\n1,y\n"));
    assert!(why.contains("ON UPDATE") && why.contains("c_code_fkey"), "{why}");
    tables.publish(&merge("a"), 1, "id\n2\n").unwrap();
    assert_eq!(tables.psql("SELECT id, code FROM a ORDER BY id"), "1|x\n2|");
}

#[test]
fn a_trigger_that_drops_rows_is_noticed() {
    let tables = Tables::new(
        Version::V15,
        "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 1);
         CREATE FUNCTION drop_row() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN IF NEW.v = 13 THEN RETURN NULL; END IF; RETURN NEW; END';
         CREATE TRIGGER dropping BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION drop_row()",
    );
    for rows in ["id,v\n2,13\n3,1\n", "id,v\n1,13\n"] {
        let why = fails(ErrorKind::Guard, tables.publish(&merge("t"), 1, rows));
        assert!(why.contains("1 staged row is not in") && why.contains("trigger"), "{why}");
        assert_eq!(tables.psql("SELECT * FROM t"), "1|1");
    }
}

#[test]
fn data_05_a_merge_that_deletes_most_of_a_table_is_refused() {
    let tables = Tables::new(Version::V15, "CREATE TABLE t (id int PRIMARY KEY, v int)");
    let all = Manner { delete_missing: true, ..merge("t") };
    tables.publish(&all, 1, "id,v\n1,1\n2,1\n3,1\n4,1\n5,1\n").unwrap();
    let why = fails(ErrorKind::Guard, tables.publish(&all, 2, "id,v\n1,1\n"));
    assert!(why.contains("all 5 rows") && why.contains("allow_shrink"), "{why}");
    tables.publish(&Manner { allow_shrink: true, ..all }, 3, "id,v\n1,1\n").unwrap();
    assert_eq!(tables.psql("SELECT count(*) FROM t"), "1");
}

#[test]
fn rows_may_exchange_the_values_of_a_deferrable_unique_column_and_free_those_of_deleted_ones() {
    let tables = Tables::new(
        Version::V18,
        "CREATE TABLE t (id int PRIMARY KEY, email text UNIQUE DEFERRABLE, phone text UNIQUE)",
    );
    let all = Manner { delete_missing: true, ..merge("t") };
    tables.publish(&all, 1, "id,email,phone\n1,a,1\n2,b,2\n3,c,3\n").unwrap();
    tables.publish(&all, 2, "id,email,phone\n1,b,1\n2,a,2\n4,c,3\n").unwrap();
    assert_eq!(tables.psql("SELECT * FROM t ORDER BY id"), "1|b|1\n2|a|2\n4|c|3");
}

#[test]
fn an_application_that_writes_meanwhile_loses_nothing_and_doubles_nothing() {
    on_each(|version| {
        let tables = Tables::new(version, PEOPLE);
        tables.psql("INSERT INTO people (id, hits) VALUES (1, 10), (2, 20), (3, 30), (4, 40)");
        let hits = Manner { set: vec![("hits".to_owned(), "old.hits + new.hits".to_owned())], ..merge("people") };
        // Between the comparison and the update, and between the update and the insertion.
        let rows = "id,name,hits\n1,a,1\n2,b,1\n3,c,1\n4,d,1\n5,e,1\n6,f,1\n";
        let merged = tables.commit_and_meanwhile(&hits, 1, rows, "UPDATE \"public\"", || {
            tables.psql(
                "UPDATE people SET hits = hits + 100 WHERE id = 1; DELETE FROM people WHERE id = 2;
                 INSERT INTO people (id, name, hits) VALUES (5, 'mine', 50)",
            );
        });
        merged.unwrap();
        let rows = || tables.psql("SELECT id, name, hits FROM people ORDER BY id");
        assert_eq!(rows(), "1|a|111\n2|b|1\n3|c|31\n4|d|41\n5|e|51\n6|f|1");

        let all = Manner { set_again: true, ..hits };
        let merged =
            tables.commit_and_meanwhile(&all, 2, "id,name,hits\n1,a,1\n7,g,1\n", "INSERT INTO \"public\"", || {
                tables.psql("INSERT INTO people (id, name, hits) VALUES (7, 'mine', 70), (8, 'other', 80)");
            });
        merged.unwrap();
        assert_eq!(
            tables.psql("SELECT id, name, hits FROM people WHERE id IN (1, 7, 8) ORDER BY id"),
            "1|a|112\n7|g|71\n8|other|80"
        );
    });
}

#[test]
fn a_key_that_an_application_inserts_meanwhile_under_a_deferrable_constraint_is_merged_at_the_next_try() {
    on_each(|version| {
        let tables = Tables::new(version, "CREATE TABLE t (id int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, v int)");
        let merged = tables.commit_and_meanwhile(&merge("t"), 1, "id,v\n1,1\n2,2\n", "INSERT INTO \"public\"", || {
            tables.psql("INSERT INTO t VALUES (2, 5)");
        });
        merged.unwrap();
        assert_eq!(tables.psql("SELECT * FROM t ORDER BY id"), "1|1\n2|2");
    });
}

#[test]
fn two_merges_into_one_table_do_not_double_a_key() {
    on_each(|version| {
        let tables = Tables::new(version, "CREATE TABLE t (id int PRIMARY KEY, v int)");
        let other = tables.attempt_for("other", &merge("t"), 1);
        let request = other.prepare(&tables, "id,v\n1,2\n2,2\n").unwrap();
        let merged = tables.commit_and_meanwhile(&merge("t"), 1, "id,v\n2,1\n3,1\n", "INSERT INTO \"public\"", || {
            other.commit(&request).unwrap();
        });
        merged.unwrap();
        assert_eq!(tables.psql("SELECT * FROM t ORDER BY id"), "1|2\n2|1\n3|1");
    });
}

#[test]
fn keys_of_types_of_an_extension_match_as_their_index_does() {
    let tables = Tables::new(
        Version::V15,
        "CREATE EXTENSION citext; CREATE TABLE t (id citext PRIMARY KEY, v citext, n int); INSERT INTO t VALUES ('Ann', 'x', 1)",
    );
    tables.publish(&merge("t"), 1, "id,v,n\nANN,X,1\nbob,y,2\n").unwrap();
    assert_eq!(tables.psql("SELECT * FROM t ORDER BY n"), "Ann|X|1\nbob|y|2");
    let why = fails(ErrorKind::Guard, tables.publish(&merge("t"), 2, "id,v,n\nANN,X,1\nann,y,2\n"));
    assert!(why.contains("more than once"), "{why}");
}
