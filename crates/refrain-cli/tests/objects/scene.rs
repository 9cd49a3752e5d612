//! A task that publishes to a bucket, and what must hold once all is over.

use crate::call::{Call, names, run_as};
use refrain_testkit::object::{Bucket, HttpProxy, Kind, Server};
use refrain_testkit::program::{Home, Output, Refrain};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// The program under test.
pub(crate) const BIN: &str = env!("CARGO_BIN_EXE_refrain");

pub(crate) const SIGKILL: i32 = 9;

/// How many objects the task writes below a prefix.
pub(crate) const PARTS: usize = 3;

/// What a task publishes, and how it is declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Prefix,
    Object,
    /// One that is too large for one request.
    Large,
    /// Both, decided by one of them.
    Both,
    /// A prefix and a file on this machine.
    PrefixAndFile,
}

/// Names the attempt in every object so that a mixture shows.
const MAKE: &str = r#"
echo "$REFRAIN_ATTEMPT" >> runs.log
for place in "$REFRAIN_OUT_PARTS"; do
  [ -n "$place" ] || continue
  for part in 0 1 2; do echo "$REFRAIN_DATE $part $REFRAIN_ATTEMPT" > "$place/part-$part.csv" || exit 3; done
done
for place in "$REFRAIN_OUT_REPORT" "$REFRAIN_OUT_FILE"; do
  [ -z "$place" ] || echo "$REFRAIN_DATE 0 $REFRAIN_ATTEMPT" > "$place" || exit 3
done
"#;

/// What follows the line of a large object: with it, more than goes in one request.
pub(crate) const PADDING: usize = 65 * 1024 * 1024;

static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

/// A home and the bucket that it publishes to.
pub(crate) struct Scene {
    pub(crate) home: Home,
    pub(crate) bucket: Bucket,
    pub(crate) shape: Shape,
}

impl Scene {
    /// A bucket of the server that the tests share.
    pub(crate) fn new(kind: Kind, shape: Shape) -> Self {
        Self::of(Server::shared(kind).bucket(), shape)
    }

    pub(crate) fn of(bucket: Bucket, shape: Shape) -> Self {
        let home = Home::temp(BIN);
        let pad = format!("head -c {PADDING} /dev/zero >> \"$REFRAIN_OUT_REPORT\"\n");
        home.write("make.sh", format!("{MAKE}{}", if shape == Shape::Large { &pad } else { "" }));
        let scene = Self { home, bucket, shape };
        scene.declare("");
        scene
    }

    /// Declares the task `flights`, with more lines.
    pub(crate) fn declare(&self, more: &str) {
        let parts = format!("out.parts = \"{}\"\n", self.bucket.url("delays/dt={date}/"));
        let report = format!("out.report = \"{}\"\n", self.bucket.url("reports/{date}.csv"));
        let file = "out.file = \"out/{date}.csv\"\n";
        let outputs = match self.shape {
            Shape::Prefix => parts,
            Shape::Object | Shape::Large => report,
            Shape::Both => parts + &report,
            Shape::PrefixAndFile => parts + file,
        };
        self.home.config(&format!(
            "[task.flights]\npartition = \"daily\"\ncommand = \"sh make.sh\"\nkeep = {{ versions = 1, grace = \"0s\" }}\n\
             {outputs}{more}\n"
        ));
    }

    /// The program, which reaches the bucket's server.
    pub(crate) fn refrain(&self) -> Refrain {
        self.refrain_by(&self.bucket)
    }

    /// The same by way of a proxy.
    pub(crate) fn through(&self, proxy: &HttpProxy) -> Refrain {
        self.refrain_by(&self.bucket.through(proxy.port()))
    }

    fn refrain_by(&self, bucket: &Bucket) -> Refrain {
        // Nothing of whoever runs the tests: no profiles, no keys.
        let refrain = self.home.refrain().env("HOME", self.home.path());
        bucket.environment().into_iter().fold(refrain, |refrain, (name, value)| refrain.env(&name, value))
    }

    #[track_caller]
    pub(crate) fn run(&self, flags: &[&str]) -> Call {
        self.run_by(&self.refrain(), flags)
    }

    #[track_caller]
    pub(crate) fn run_by(&self, refrain: &Refrain, flags: &[&str]) -> Call {
        run_as(&self.home, refrain, &[&["flights"], flags].concat(), "")
    }

    /// Runs a command of the program that must succeed.
    #[track_caller]
    pub(crate) fn tell(&self, arguments: &[&str]) -> Output {
        self.refrain().run(arguments).success()
    }

    /// The attempt that readers find for a date at every output, all of it and of no other attempt; nothing where there is
    /// none.
    #[track_caller]
    pub(crate) fn shown(&self, date: &str, context: &str) -> Option<String> {
        let mut shown = BTreeSet::new();
        for output in self.outputs() {
            let found = self.refrain().run(["path", "flights", output, "--date", date]);
            let mut attempts = BTreeSet::new();
            let mut parts = BTreeSet::new();
            if found.code == Some(0) {
                for place in found.stdout.lines() {
                    let text = self.read(place).unwrap_or_else(|| panic!("{context}: {place} is not there"));
                    let (line, padding) = text.split_once('\n').unwrap_or((&text, ""));
                    let words: Vec<_> = line.split_whitespace().collect();
                    assert!(words.len() == 3 && words[0] == date, "{context}: {place}: {line}");
                    let padded = if self.shape == Shape::Large { PADDING } else { 0 };
                    // By whole pieces: byte by byte takes most of a test's time without optimisation.
                    let is_zero = |piece: &[u8]| *piece == ZEROS[..piece.len()];
                    let is_padded = padding.len() == padded && padding.as_bytes().chunks(ZEROS.len()).all(is_zero);
                    assert!(is_padded, "{context}: {place} has {} bytes", text.len());
                    parts.insert(words[1].to_owned());
                    attempts.insert(words[2].to_owned());
                }
                let expected = if output == "parts" { PARTS } else { 1 };
                assert_eq!((parts.len(), attempts.len()), (expected, 1), "{context}: {output} of {date}\n{found}");
            }
            shown.insert(attempts.pop_first());
        }
        assert_eq!(shown.len(), 1, "{context}: the outputs of {date} are mixed: {shown:?}");
        shown.pop_first().flatten()
    }

    fn outputs(&self) -> Vec<&'static str> {
        match self.shape {
            Shape::Prefix => vec!["parts"],
            Shape::Object | Shape::Large => vec!["report"],
            Shape::Both => vec!["parts", "report"],
            Shape::PrefixAndFile => vec!["parts", "file"],
        }
    }

    /// A key as the path of a request has it.
    pub(crate) fn at(&self, key: &str) -> String {
        format!("/{}/{key}", self.bucket.name())
    }

    /// What a reader finds at a URL or a path.
    pub(crate) fn read(&self, place: &str) -> Option<String> {
        let bytes = match place.strip_prefix(&self.bucket.url("")) {
            Some(key) => self.bucket.get(key)?,
            None => fs::read(place).ok()?,
        };
        Some(String::from_utf8(bytes).expect("a text"))
    }

    /// The records of all slots, by the slots' keys.
    pub(crate) fn records(&self) -> BTreeMap<String, Value> {
        self.records_of("")
    }

    /// The records of the slots with such a date in the key; all have the empty one.
    fn records_of(&self, date: &str) -> BTreeMap<String, Value> {
        let keys = self.bucket.keys("_refrain/slot/").into_iter().filter(|key| key.contains(date));
        keys.map(|key| (key.clone(), json(&self.bucket.get(&key).expect("a record")))).collect()
    }

    /// What the records of a date say is published, all the same.
    #[track_caller]
    pub(crate) fn head(&self, date: &str, context: &str) -> Value {
        let records = self.records_of(date).into_values();
        let mut published: Vec<_> = records.map(|record| record["head"]["publication"].clone()).collect();
        published.dedup();
        assert_eq!(published.len(), 1, "{context}: the records of {date}");
        published.remove(0)
    }

    /// How often the command was started.
    pub(crate) fn executions(&self) -> usize {
        fs::read_to_string(self.home.join("runs.log")).unwrap_or_default().lines().count()
    }

    /// The attempts, newest first.
    pub(crate) fn log(&self) -> Vec<Value> {
        let log = self.tell(&["log", "--json", "-n", "100000"]);
        log.stdout.lines().map(|line| json(line.as_bytes())).collect()
    }

    /// Repeats the calls for all dates of the cases, of which none executes anything.
    #[track_caller]
    pub(crate) fn repeat_all(&self, cases: &[(String, String)]) {
        let executions = self.executions();
        let ends = [cases.first(), cases.last()].map(|case| case.expect("a case").0.as_str());
        let told = self.tell(&["backfill", "flights", "--from", ends[0], "--to", ends[1]]);
        assert_eq!(self.executions(), executions, "{told}");
        assert!(!told.stderr.contains("changed"), "{told}");
    }

    /// One publication for each date, told once, and nothing left over after `gc`.
    #[track_caller]
    pub(crate) fn ends(&self, cases: &[(String, String)]) {
        let gc = self.tell(&["gc"]);
        let log = self.log();
        for (date, context) in cases {
            let Some(shown) = self.shown(date, context) else { panic!("{context}: {date}: nothing is published") };
            let entries: Vec<_> = log.iter().filter(|entry| entry["key"]["partition"] == **date).collect();
            for entry in &entries {
                assert!(!entry["ending"].is_null(), "{context}: an attempt was not settled: {entry:#}");
            }
            let newest = entries.iter().filter_map(|entry| entry["generation"].as_u64()).max();
            let published: Vec<_> = entries
                .iter()
                .filter(|entry| entry["generation"].as_u64() == newest && entry["ending"]["outcome"] == "published")
                .map(|entry| text(&entry["attempt"]))
                .collect();
            let head = self.head(date, context);
            assert_eq!(published, [head["attempt"].clone()], "{context}: entries of the publication of {date}");
            // An attempt may publish what another one made and could not publish.
            let staged = text(&head["data"][0]["staged"]);
            let made = staged.contains(&shown) || self.shape == Shape::PrefixAndFile;
            assert!(made, "{context}: {shown} is shown, published is {staged}");
        }
        self.has_no_leftover(&gc);
    }

    /// Everything in the area belongs to a version that a record names, and nothing is left on this machine.
    #[track_caller]
    pub(crate) fn has_no_leftover(&self, gc: &Output) {
        let mut named = BTreeSet::new();
        for (key, record) in self.records() {
            assert!(record["intent"].is_null(), "{key} has an intent: {record:#}\n{gc}");
            let kept = record["kept"].as_array().into_iter().flatten().map(|kept| &kept["data"]);
            let data = record["head"]["publication"]["data"].as_array().into_iter().flatten();
            for data in data.chain(kept) {
                let Ok(identity) = serde_json::from_str::<Value>(data["identity"].as_str().unwrap_or_default()) else {
                    continue;
                };
                let manifest = text(&identity["key"]);
                let Some(content) = self.bucket.get(&manifest) else { panic!("{manifest} is gone\n{gc}") };
                let content = json(&content);
                let prefix = text(&content["prefix"]).split_off(self.bucket.url("").len());
                let objects = content["objects"].as_array().expect("the objects").iter();
                named.extend(objects.map(|object| format!("{prefix}{}", text(&object["name"]))));
                named.insert(manifest);
            }
        }
        let there = ["_refrain/data/", "_refrain/manifest/"].iter().flat_map(|area| self.bucket.keys(area));
        assert_eq!(there.collect::<BTreeSet<_>>(), named, "what is there, and what the records name\n{gc}");
        assert_eq!(self.bucket.keys("_refrain/canary/"), Vec::<String>::new());
        assert_eq!(self.bucket.uploads(), vec![], "uploads that were begun\n{gc}");
        let mut local = names(&self.home.join(".refrain/objects"));
        local.retain(|name| !name.starts_with("proved-"));
        assert_eq!(local, Vec::<String>::new(), "left on this machine\n{gc}");
    }
}

/// A date of its own for each number, one after the other.
pub(crate) fn date(number: usize) -> String {
    let days = i32::try_from(number).expect("a number of days");
    jiff::civil::date(2013, 1, 1).checked_add(jiff::Span::new().days(days)).expect("a date").to_string()
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn json(text: &[u8]) -> Value {
    serde_json::from_slice(text).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(text)))
}
