//! Objects pass the suite of sinks, as a prefix and as one object, on each store.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test reports failure by panicking")]

use refrain_check::sink_suite::{Content, SinkFactory, SinkUnderTest};
use refrain_core::{NoProbe, Open, Sink, SlotAddress, Staging};
use refrain_object::{Address, Environment, Settings};
use refrain_sink::{Buckets, Manifest, ObjectKind, ObjectSink};
use refrain_testkit::object::{Bucket, Kind, Server};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use tempfile::TempDir;

/// The objects of a prefix; all hold the same text, so that a mixture is seen.
const PARTS: [&str; 3] = ["part-0", "sub/part-1", "sub/deeper/part-2"];

struct Objects {
    server: Kind,
    kind: ObjectKind,
}

struct Home {
    kind: ObjectKind,
    bucket: Bucket,
    /// Ends with `/`: what this home has of the bucket. All homes of a process share one, of which some stores have few.
    prefix: String,
    slots: Mutex<BTreeSet<SlotAddress>>,
    state: TempDir,
}

impl SinkFactory for Objects {
    fn make(&self) -> Box<dyn SinkUnderTest> {
        static BUCKETS: [OnceLock<Bucket>; Kind::ALL.len()] = [const { OnceLock::new() }; Kind::ALL.len()];
        static MADE: AtomicU32 = AtomicU32::new(0);
        let bucket = BUCKETS[self.server as usize].get_or_init(|| Server::shared(self.server).bucket()).clone();
        let prefix = format!("home-{}/", MADE.fetch_add(1, Ordering::Relaxed));
        Box::new(Home { kind: self.kind, bucket, prefix, slots: Mutex::default(), state: TempDir::new().unwrap() })
    }
}

impl Home {
    fn sink(&self) -> ObjectSink {
        let environment = Environment::of(self.bucket.environment());
        let area = Address::parse(&self.bucket.url(&format!("{}_refrain/", self.prefix))).unwrap();
        let settings = Settings { environment, area: Some(area), ..Settings::default() };
        let root = Address::parse(&self.bucket.url("")).unwrap();
        let buckets = Buckets::new(move |_| settings.clone(), self.state.path(), [root]);
        ObjectSink::new(self.kind, Arc::new(buckets), self.state.path(), Arc::new(NoProbe))
    }

    fn key(slot: &SlotAddress) -> String {
        Address::parse(&slot.location).unwrap().key
    }

    /// What a reader gets who asks for the record, then for the manifest, then for each object.
    fn read_prefix(&self, slot: &SlotAddress) -> Option<String> {
        let record = self.bucket.get(&format!("{}_refrain/slot/{}head.prefix.json", self.prefix, Self::key(slot)))?;
        let record: serde_json::Value = serde_json::from_slice(&record).unwrap();
        let head = &record["head"];
        // Until a new owner publishes, readers see what the former one did.
        let taken = &head["taken_from"]["publication"];
        let publication = if head["publication"].is_null() { taken } else { &head["publication"] };
        let data = publication["data"].as_array()?;
        let data = data.iter().find(|data| data["slot"]["location"] == slot.location.as_str())?;
        let reference: serde_json::Value = serde_json::from_str(data["identity"].as_str().unwrap()).unwrap();
        let manifest = self.bucket.get(reference["key"].as_str().unwrap()).unwrap();
        let manifest: Manifest = serde_json::from_slice(&manifest).unwrap();
        let prefix = Address::parse(&manifest.prefix).unwrap().key;
        let texts: Vec<_> = manifest
            .objects
            .iter()
            .map(|object| String::from_utf8(self.bucket.get(&format!("{prefix}{}", object.name)).unwrap()).unwrap())
            .collect();
        assert!(texts.iter().all(|text| *text == texts[0]), "a mixture at {slot}: {texts:?}");
        texts.first().cloned()
    }
}

impl SinkUnderTest for Home {
    fn open(&self) -> Arc<dyn Sink> {
        Arc::new(self.sink())
    }

    fn slot(&self, name: &str) -> SlotAddress {
        let url = match self.kind {
            ObjectKind::Prefix => self.bucket.url(&format!("{}warehouse/{name}/", self.prefix)),
            ObjectKind::Object => self.bucket.url(&format!("{}warehouse/{name}.csv", self.prefix)),
        };
        let slot = self.sink().address(&Address::parse(&url).unwrap()).unwrap();
        self.slots.lock().unwrap().insert(slot.clone());
        slot
    }

    fn write(&self, staging: &Staging<Open>, content: Content<'_>) {
        let place = Path::new(&staging.place);
        match (content, self.kind) {
            (Content::Nothing, ObjectKind::Prefix) => fs::remove_dir(place).unwrap(),
            (Content::Nothing, ObjectKind::Object) | (Content::Empty, ObjectKind::Prefix) => {}
            (Content::Empty, ObjectKind::Object) => fs::write(place, "").unwrap(),
            (Content::Text(text), ObjectKind::Object) => fs::write(place, text).unwrap(),
            (Content::Text(text), ObjectKind::Prefix) => {
                for part in PARTS {
                    fs::create_dir_all(place.join(part).parent().unwrap()).unwrap();
                    fs::write(place.join(part), text).unwrap();
                }
            }
        }
    }

    fn visible(&self, slot: &SlotAddress) -> Option<String> {
        match self.kind {
            ObjectKind::Prefix => self.read_prefix(slot),
            ObjectKind::Object => self.bucket.get(&Self::key(slot)).map(|bytes| String::from_utf8(bytes).unwrap()),
        }
    }

    fn overwrite(&self, slot: &SlotAddress, text: Option<&str>) -> bool {
        match (self.kind, text) {
            // What a version consists of is written once; who writes there by hand is another test's business.
            (ObjectKind::Prefix, _) => return false,
            (ObjectKind::Object, Some(text)) => self.bucket.put(&Self::key(slot), text.as_bytes()),
            (ObjectKind::Object, None) => self.bucket.delete(&Self::key(slot)),
        }
        true
    }

    fn listed(&self) -> Vec<String> {
        let below =
            self.bucket.keys(&format!("{}warehouse/", self.prefix)).into_iter().filter_map(|key| self.bucket.get(&key));
        let mut texts: Vec<_> = below.map(|bytes| String::from_utf8(bytes).unwrap()).collect();
        if self.kind == ObjectKind::Prefix {
            texts.extend(self.slots.lock().unwrap().iter().filter_map(|slot| self.read_prefix(slot)));
        }
        texts
    }
}

refrain_check::sink_suite!(prefix_on_ministack, Objects { server: Kind::MiniStack, kind: ObjectKind::Prefix });
refrain_check::sink_suite!(object_on_ministack, Objects { server: Kind::MiniStack, kind: ObjectKind::Object });
refrain_check::sink_suite!(prefix_on_seaweedfs, Objects { server: Kind::SeaweedFs, kind: ObjectKind::Prefix });
refrain_check::sink_suite!(object_on_seaweedfs, Objects { server: Kind::SeaweedFs, kind: ObjectKind::Object });
refrain_check::sink_suite!(prefix_on_azurite, Objects { server: Kind::Azurite, kind: ObjectKind::Prefix });
refrain_check::sink_suite!(object_on_azurite, Objects { server: Kind::Azurite, kind: ObjectKind::Object });
refrain_check::sink_suite!(prefix_on_gcs, Objects { server: Kind::Gcs, kind: ObjectKind::Prefix });
refrain_check::sink_suite!(object_on_gcs, Objects { server: Kind::Gcs, kind: ObjectKind::Object });
