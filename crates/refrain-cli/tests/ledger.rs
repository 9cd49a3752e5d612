//! The ledger of an append-only table is bounded (PROTOCOL 12): what is compacted is never applied again.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test reports failure by panicking")]

use refrain_testkit::postgres::{Server, Version};
use refrain_testkit::program::Home;

#[test]
fn a_compacted_key_of_an_append_is_refused_and_never_applied_again() {
    let database = Server::shared(Version::V15).database();
    database.psql("CREATE TABLE events (name text)");
    let home = Home::temp(env!("CARGO_BIN_EXE_refrain"));
    home.config(&format!(
            "[task.events]\npartition = \"daily\"\ncommand = \"echo name > $REFRAIN_OUT; echo $REFRAIN_DATE >> $REFRAIN_OUT\"\n\
             out.rows = {{ to = \"{}\", table = \"events\", mode = \"append\", from = \"rows.csv\" }}\n",
            database.url()
    ));
    home.run(["backfill", "events", "--from", "2013-01-01", "--to", "2013-01-05"]).success();
    home.run(["compact", "events", "--before", "2013-01-04"]).success();
    assert_eq!(database.psql("SELECT count(*) FROM refrain.head"), "2", "what is compacted has no head");
    assert_eq!(database.psql("SELECT through FROM refrain.horizon"), "2013-01-03");
    // By whatever wish, and by a store that was lost.
    for flags in [&["--date", "2013-01-02"][..], &["--date", "2013-01-02", "--rerun"]] {
        let refused = home.run([&["run", "events"], flags].concat()).expect_code(125);
        assert!(refused.stderr.contains("2013-01-03"), "{}", refused.stderr);
    }
    home.run(["run", "events", "--date", "2013-01-04"]).success();
    home.run(["run", "events", "--date", "2013-01-06"]).success();
    assert_eq!(database.psql("SELECT count(*), count(DISTINCT name) FROM events"), "6|6");
}
