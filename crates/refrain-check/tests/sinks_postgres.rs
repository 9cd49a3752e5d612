//! Tables in PostgreSQL pass the suite of sinks: in each mode that owns its scope, by a file and by the task's own statements,
//! on both servers and through a pooler.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test reports failure by panicking")]

use refrain_check::sink_suite::{Content, SinkFactory, SinkUnderTest};
use refrain_core::{Key, NoProbe, Open, Sink, SlotAddress, Staging};
use refrain_postgres::Link;
use refrain_sink::PostgresSink;
use refrain_sink::postgres::{Comparison, Manner, Mode, ScopeCondition, Source};
use refrain_testkit::postgres::{Database, PgBouncer, Server, Version};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

/// An output has so many rows, so that a mixture of two would be seen.
const PARTS: usize = 3;

struct Tables {
    version: Version,
    mode: Mode,
    file: bool,
    pooled: bool,
}

struct Home {
    mode: Mode,
    file: bool,
    url: String,
    manners: Mutex<BTreeMap<SlotAddress, Manner>>,
    state: TempDir,
    _pooler: Option<PgBouncer>,
    database: Database,
}

impl SinkFactory for Tables {
    fn make(&self) -> Box<dyn SinkUnderTest> {
        let database = Server::shared(self.version).database();
        database.psql(
            "CREATE TABLE delays (dt date NOT NULL, part int NOT NULL, content text, PRIMARY KEY (dt, part)) PARTITION BY LIST (dt);
             CREATE TABLE delays_default PARTITION OF delays DEFAULT",
        );
        let pooler = self.pooled.then(|| PgBouncer::start(&database));
        let url = pooler.as_ref().map_or_else(|| database.url(), PgBouncer::url);
        let home = Home {
            mode: self.mode,
            file: self.file,
            url,
            manners: Mutex::default(),
            state: TempDir::new().unwrap(),
            _pooler: pooler,
            database,
        };
        home.sink().prepare(&home.link()).unwrap();
        Box::new(home)
    }
}

impl Home {
    fn link(&self) -> Link {
        Link::parse(&self.url).unwrap()
    }

    fn sink(&self) -> PostgresSink {
        PostgresSink::new(vec![self.link()], self.state.path(), Arc::new(NoProbe))
    }

    fn manner_named(&self, name: &str) -> Manner {
        // A day for each name.
        let day = name.bytes().fold(0u32, |sum, byte| (sum * 31 + u32::from(byte)) % 365);
        let scope = ScopeCondition {
            column: "dt".to_owned(),
            comparison: Comparison::Equal,
            value: format!("2013-{:02}-{:02}", 1 + day % 12, 1 + day / 12 % 28),
        };
        let (table, scope) = match self.mode {
            Mode::Table => {
                self.database
                    .psql(&format!("CREATE TABLE IF NOT EXISTS \"table {name}\" (part int NOT NULL, content text)"));
                (format!("table {name}"), vec![])
            }
            _ => ("delays".to_owned(), vec![scope]),
        };
        let source = if self.file {
            Source::File { name: "delays.csv".to_owned(), format: "csv".to_owned(), null: None }
        } else {
            Source::Direct
        };
        Manner {
            schema: "public".to_owned(),
            table,
            mode: self.mode,
            scope,
            source,
            key: vec!["dt".to_owned(), "part".to_owned()],
            exclude: vec![],
            set: vec![],
            set_again: false,
            order_by: vec![],
            delete_missing: true,
            run_column: None,
            covers: vec![],
            allow_shrink: true,
            truncate: false,
        }
    }

    fn of(&self, slot: &SlotAddress) -> Manner {
        self.manners.lock().unwrap()[slot].clone()
    }

    fn condition(manner: &Manner) -> String {
        manner.scope.first().map_or_else(|| "true".to_owned(), |scope| format!("dt = '{}'", scope.value))
    }
}

impl SinkUnderTest for Home {
    fn open(&self) -> Arc<dyn Sink> {
        Arc::new(self.sink())
    }

    fn slot(&self, name: &str) -> SlotAddress {
        let manner = self.manner_named(name);
        let key = Key { task: "daily".parse().unwrap(), partition: name.to_owned() };
        let slot = self.sink().address(&self.link(), &manner, &key).unwrap();
        self.manners.lock().unwrap().insert(slot.clone(), manner);
        slot
    }

    fn manner(&self, slot: &SlotAddress) -> Option<String> {
        Some(self.of(slot).write().unwrap())
    }

    fn write(&self, staging: &Staging<Open>, content: Content<'_>) {
        let rows = match content {
            Content::Nothing => return,
            Content::Empty => 0,
            Content::Text(_) => PARTS,
        };
        let Content::Text(text) = content else {
            if self.file {
                std::fs::write(&staging.place, "part,content\n").unwrap();
            }
            return;
        };
        if self.file {
            let lines = (0..rows).map(|part| format!("{part},\"{text}\"\n")).collect::<Vec<_>>().concat();
            std::fs::write(&staging.place, format!("part,content\n{lines}")).unwrap();
        } else {
            let table = &staging.extra.iter().find(|(name, _)| name == "TABLE").unwrap().1;
            self.database.psql(&format!(
                "INSERT INTO {table} (part, content) SELECT part, '{}' FROM generate_series(1, {rows}) part",
                text.replace('\'', "''")
            ));
        }
    }

    fn visible(&self, slot: &SlotAddress) -> Option<String> {
        let manner = self.of(slot);
        let found = self.database.psql(&format!(
            "SELECT content FROM public.\"{}\" WHERE {}",
            manner.table,
            Self::condition(&manner)
        ));
        let rows: Vec<_> = found.lines().collect();
        match rows.first() {
            None => None,
            Some(first) => {
                assert!(rows.iter().all(|row| row == first) && rows.len() == PARTS, "a mixture: {rows:?}");
                Some((*first).to_owned())
            }
        }
    }

    fn overwrite(&self, slot: &SlotAddress, text: Option<&str>) -> bool {
        let manner = self.of(slot);
        let condition = Self::condition(&manner);
        let table = format!("public.\"{}\"", manner.table);
        let insert = text.map(|text| {
            let (column, value) = match manner.scope.first() {
                Some(scope) => ("dt, ", format!("'{}'::date, ", scope.value)),
                None => ("", String::new()),
            };
            format!(
                "INSERT INTO {table} ({column}part, content) SELECT {value}part, '{text}' FROM generate_series(1, {PARTS}) part"
            )
        });
        if let (Mode::SwapPartition, Some(day)) = (self.mode, manner.scope.first()) {
            // Somebody's own partition; without one the rows would lie in the DEFAULT one.
            let (day, name) = (&day.value, day.value.replace('-', "_"));
            self.database
                .psql(&format!("CREATE TABLE IF NOT EXISTS delays_{name} PARTITION OF delays FOR VALUES IN ('{day}')"));
        }
        let delete = format!("DELETE FROM {table} WHERE {condition}");
        self.database.psql(&format!("{delete}; {}", insert.unwrap_or_default()));
        true
    }

    fn listed(&self) -> Vec<String> {
        let slots: Vec<_> = self.manners.lock().unwrap().keys().cloned().collect();
        slots.iter().filter_map(|slot| self.visible(slot)).collect()
    }
}

refrain_check::sink_suite!(
    replace_by_file_on_15,
    Tables { version: Version::V15, mode: Mode::Replace, file: true, pooled: false }
);
refrain_check::sink_suite!(
    replace_by_statements_on_18,
    Tables { version: Version::V18, mode: Mode::Replace, file: false, pooled: false }
);
refrain_check::sink_suite!(
    table_by_statements_through_a_pooler,
    Tables { version: Version::V15, mode: Mode::Table, file: false, pooled: true }
);
refrain_check::sink_suite!(
    swap_by_file_on_15,
    Tables { version: Version::V15, mode: Mode::SwapPartition, file: true, pooled: false }
);
refrain_check::sink_suite!(
    swap_by_statements_on_18,
    Tables { version: Version::V18, mode: Mode::SwapPartition, file: false, pooled: false }
);
refrain_check::sink_suite!(
    swap_by_file_on_15_through_a_pooler,
    Tables { version: Version::V15, mode: Mode::SwapPartition, file: true, pooled: true }
);
refrain_check::sink_suite!(
    merge_by_statements_on_15,
    Tables { version: Version::V15, mode: Mode::Merge, file: false, pooled: false }
);
refrain_check::sink_suite!(
    merge_by_file_on_18_through_a_pooler,
    Tables { version: Version::V18, mode: Mode::Merge, file: true, pooled: true }
);
