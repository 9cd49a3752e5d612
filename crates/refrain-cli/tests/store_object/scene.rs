//! A bucket, a volume that several homes publish to, and the homes.

use refrain_testkit::object::{Bucket, Server};
use refrain_testkit::program::{Home, Output, Refrain, Running};
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

/// What the hosts share: a bucket, and a directory whose heads lie beside the data.
pub(crate) struct Shared {
    pub(crate) bucket: Bucket,
    directory: TempDir,
}

impl Shared {
    pub(crate) fn of(bucket: Bucket) -> Self {
        let directory = tempfile::Builder::new().prefix("refrain-shared-").tempdir_in("/dev/shm").unwrap();
        Self { bucket, directory }
    }

    pub(crate) fn new() -> Self {
        Self::of(Server::shared(refrain_testkit::object::Kind::MiniStack).bucket())
    }

    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.directory.path().join(relative)
    }

    pub(crate) fn read(&self, relative: &str) -> String {
        fs::read_to_string(self.path(relative)).unwrap_or_else(|error| panic!("cannot read {relative}: {error}"))
    }

    /// The dates that the command of the homes ran for, as often as it did.
    pub(crate) fn executions(&self) -> Vec<String> {
        let noted = fs::read_to_string(self.path("executions")).unwrap_or_default();
        let mut dates: Vec<_> = noted.lines().map(str::to_owned).collect();
        dates.sort();
        dates
    }

    /// A home with the store in the bucket, whose task `day` notes that it runs, does `work`, and publishes a file.
    pub(crate) fn home(&self, work: &str) -> Home {
        let home = Home::temp(env!("CARGO_BIN_EXE_refrain"));
        self.configure(&home, &format!("store = \"{}\"", self.bucket.url("_refrain/")), work);
        home
    }

    pub(crate) fn configure(&self, home: &Home, store: &str, work: &str) {
        let volume = self.directory.path().display();
        home.config(&format!(
            "{store}\nstaging = [\"{volume}/staging\"]\n[task.day]\npartition = \"daily\"\ncommand = '''\necho \
             $REFRAIN_DATE >> {volume}/executions\n{work}\necho $REFRAIN_DATE > $REFRAIN_OUT\n'''\nout.file = \
             \"{volume}/out/{{date}}.txt\"\nlease = {{ ttl = \"60s\" }}\n"
        ));
    }

    /// The program in a home, with the variables that lead to the bucket.
    pub(crate) fn refrain(&self, home: &Home) -> Refrain {
        self.bucket.environment().iter().fold(home.refrain(), |refrain, (name, value)| refrain.env(name, value))
    }

    #[track_caller]
    pub(crate) fn run(&self, home: &Home, arguments: &[&str]) -> Output {
        self.refrain(home).run(arguments)
    }

    pub(crate) fn spawn(&self, home: &Home, arguments: &[&str]) -> Running {
        self.refrain(home).spawn(arguments)
    }

    /// Nothing is left of what has ended: no lease.
    #[track_caller]
    pub(crate) fn has_no_leftover(&self) {
        for key in self.bucket.keys("_refrain/key/") {
            let record = String::from_utf8(self.bucket.get(&key).unwrap()).unwrap();
            assert!(record.contains("\"lease\":null"), "{key}: {record}");
        }
    }
}
