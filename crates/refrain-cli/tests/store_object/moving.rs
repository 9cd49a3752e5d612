//! Homes whose outputs are all in buckets go over to another store.

use refrain_testkit::object::{Bucket, Kind, Server};
use refrain_testkit::program::{Home, Output};

const DAY: [&str; 4] = ["run", "day", "--date", "2025-03-01"];

/// A home, and the bucket that its task publishes to.
struct Moving {
    home: Home,
    bucket: Bucket,
}

impl Moving {
    fn new(store: &str) -> Self {
        let bucket = Server::shared(Kind::MiniStack).bucket();
        let moving = Self { home: Home::temp(env!("CARGO_BIN_EXE_refrain")), bucket };
        moving.names(store);
        moving
    }

    /// Edits the store's name in `refrain.toml`.
    fn names(&self, store: &str) {
        self.home.config(&format!(
            "store = \"{store}\"\n[task.day]\npartition = \"daily\"\ncommand = 'test ! -e broken && echo x >> runs && echo \
             $REFRAIN_DATE > $REFRAIN_OUT'\nout.report = \"{}\"\n",
            self.bucket.url("reports/{date}.csv")
        ));
    }

    fn url(&self) -> String {
        self.bucket.url("state/")
    }

    #[track_caller]
    fn run(&self, arguments: &[&str]) -> Output {
        let environment = self.bucket.environment();
        let refrain = environment.iter().fold(self.home.refrain(), |refrain, (name, value)| refrain.env(name, value));
        refrain.run(arguments)
    }

    /// The id of the store that goes by now.
    fn id(&self) -> String {
        let shown = self.run(&["store", "show"]).success().stdout;
        shown.lines().next().unwrap().strip_prefix("store ").unwrap().to_owned()
    }
}

#[test]
fn going_over_without_the_history_is_refused_before_anything_is_written_also_when_all_outputs_are_objects() {
    let moving = Moving::new("sqlite");
    moving.run(&DAY).success();
    let old = moving.id();
    moving.names(&moving.url());
    for arguments in
        [&DAY[..], &["status"], &["init"], &["backfill", "day", "--from", "2025-03-01", "--to", "2025-03-02"]]
    {
        let refused = moving.run(arguments).expect_code(125);
        refused.says("refrain store copy").says(&format!("refrain store init --replaces {old}"));
    }
    assert_eq!(moving.bucket.keys("state/"), [""; 0], "nothing is begun");
    moving.run(&["store", "copy"]).success().says("copied 1 key and 1 attempt");
    moving.run(&DAY).success().says("already published");
    moving.run(&["run", "day", "--date", "2025-03-01", "--rerun"]).success().says("published");
    assert_eq!(moving.home.read("runs"), "x\nx\n");
}

#[test]
fn a_home_begins_without_its_history_when_it_says_so() {
    let moving = Moving::new("sqlite");
    moving.run(&DAY).success();
    let old = moving.id();
    moving.names(&moving.url());
    moving.run(&["store", "init", "--replaces", &old]).success();
    moving.run(&DAY).success().says("already published");
    moving.run(&["run", "day", "--date", "2025-03-01", "--rerun"]).success().says("published");
}

#[test]
fn a_store_that_stands_is_joined_without_the_history_only_when_it_is_said() {
    let moving = Moving::new("sqlite");
    let first = Home::temp(env!("CARGO_BIN_EXE_refrain"));
    moving.run(&DAY).success();
    moving.names(&moving.url());
    let elsewhere = Moving { home: first, bucket: moving.bucket.clone() };
    elsewhere.names(&moving.url());
    elsewhere.run(&["run", "day", "--date", "2025-03-02"]).success();
    let before = moving.bucket.keys("state/");
    let refused = moving.run(&["run", "day", "--date", "2025-03-03"]).expect_code(125);
    refused.says("refrain store copy").says("refrain store join");
    assert_eq!(moving.bucket.keys("state/"), before);
    moving.run(&["store", "join"]).success();
    moving.run(&["run", "day", "--date", "2025-03-03"]).success().says("published");
    moving.run(&["status"]).success().says("note: this home's own state knows 1 key,");
}

#[test]
fn a_state_through_which_nothing_was_published_stands_in_nobodys_way() {
    let moving = Moving::new("sqlite");
    moving.home.write("broken", "");
    moving.run(&DAY).expect_code(1);
    moving.names(&moving.url());
    std::fs::remove_file(moving.home.join("broken")).unwrap();
    moving.run(&["run", "day", "--date", "2025-03-02"]).success().says("published");
}

#[test]
fn a_store_through_which_nothing_was_published_gives_way_to_a_history() {
    let moving = Moving::new("sqlite");
    moving.run(&DAY).success();
    // Somebody began the store in the bucket meanwhile, and what it was asked to do failed or was refused.
    let elsewhere = Moving { home: Home::temp(env!("CARGO_BIN_EXE_refrain")), bucket: moving.bucket.clone() };
    elsewhere.names(&moving.url());
    elsewhere.run(&DAY).expect_code(125).says("was claimed through the state store");
    elsewhere.home.write("broken", "");
    elsewhere.run(&["run", "day", "--date", "2025-03-02"]).expect_code(1);
    assert_eq!(moving.bucket.keys("state/key/").len(), 2);
    moving.names(&moving.url());
    moving.run(&["store", "copy"]).success().says("copied 1 key and 1 attempt");
    moving.run(&DAY).success().says("already published");
    moving.run(&["run", "day", "--date", "2025-03-01", "--rerun"]).success().says("published");
    // What is claimed through the store that gave way is published through its successor, by whichever home.
    moving.run(&["run", "day", "--date", "2025-03-02"]).success().says("published");
    elsewhere.run(&DAY).success().says("already published");
    // Now there is a history.
    moving.names("sqlite");
    moving.run(&["store", "restored"]).success();
    let refused = moving.run(&["store", "copy", "sqlite", &moving.url()]).expect_code(125);
    refused.says("knows keys already").says("refrain recover");
    elsewhere.run(&["run", "day", "--date", "2025-03-02"]).success().says("already published");
}

#[test]
fn a_store_whose_identity_is_gone_is_not_begun_in_silence_beside_its_keys() {
    let moving = Moving::new("sqlite");
    moving.run(&DAY).success();
    moving.names(&moving.url());
    moving.run(&["store", "copy"]).success();
    moving.run(&["run", "day", "--date", "2025-03-02"]).success().says("published");
    let (id, identity) = (moving.id(), moving.bucket.get("state/store.json").unwrap());
    moving.bucket.delete("state/store.json");
    let before = moving.bucket.keys("state/");
    let command = format!("refrain store init --replaces {id}");
    for arguments in [&DAY[..], &["status"], &["init"], &["store", "init"]] {
        let refused = moving.run(arguments).expect_code(125);
        refused
            .says(&moving.bucket.url("state/store.json"))
            .says("2 keys")
            .says("refrain store restored")
            .says(&command);
    }
    assert_eq!(moving.bucket.keys("state/"), before);
    // Either way goes on with what the keys know.
    moving.bucket.put("state/store.json", &identity);
    moving.run(&["store", "restored"]).success();
    let id = moving.id();
    moving.run(&DAY).success().says("already published");
    moving.bucket.delete("state/store.json");
    let refused = moving.run(&DAY).expect_code(125);
    let command = refused.stderr.split("know: refrain ").nth(1).unwrap().lines().next().unwrap().to_owned();
    assert!(command.contains(&id), "{command}");
    let made = moving.run(&command.split(' ').collect::<Vec<_>>()).success();
    // What the home's own state had claimed is replaced, too.
    assert_eq!(made.stdout.lines().filter(|line| line.starts_with("replaces ")).count(), 3, "{made}");
    for date in ["2025-03-01", "2025-03-02"] {
        moving.run(&["run", "day", "--date", date]).success().says("already published");
        moving.run(&["run", "day", "--date", date, "--rerun"]).success().says("published");
    }
    assert_eq!(moving.run(&["log", "day", "--json"]).success().stdout.lines().count(), 4);
}
