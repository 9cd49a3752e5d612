//! What refrain.toml may say of inputs that tasks publish.

use crate::call::{assert_fails, home};

const PRODUCER: &str = "[task.raw]\npartition = \"daily\"\ncommand = \"true\"\nout.raw = \"raw/{date}\"\n";

/// A daily task `sum` with one input, beside `raw`.
fn with(input: &str) -> String {
    format!(
        "{PRODUCER}[task.sum]\npartition = \"daily\"\ncommand = \"true\"\nin.x = {input}\nout.sum = \"sum/{{date}}\"\n"
    )
}

#[test]
fn a_task_that_is_not_declared_is_refused_where_it_would_be_read() {
    let home = home();
    home.config(&with("{ task = \"rawe\" }"));
    for call in [&["run", "sum", "--date", "2013-01-01"][..], &["config", "show"]] {
        let output = home.run(call.iter().copied());
        assert_fails(&output, &["`task.sum.in.x`: there is no task `rawe`", "did you mean `raw`?"]);
    }
    let why = home.run(["why", "sum", "--date", "2013-01-01"]).success().stdout;
    assert!(why.contains("would refuse") && why.contains("there is no task `rawe`"), "{why}");
}

#[test]
fn what_cannot_be_read_is_refused_when_the_file_is_read() {
    for (config, phrases) in [
        (with("{ task = \"raw\", output = \"rew\" }"), ["`raw` has no output `rew`", "did you mean `raw`?"]),
        (
            with("{ task = \"raw\", outputt = \"raw\" }"),
            ["unknown key `task.sum.in.x.outputt`", "`task.sum.in.x.output`"],
        ),
        (
            with("{ task = \"raw\", path = \"x\" }"),
            ["`task.sum.in.x.path` stands beside `task`", "leave one of them away"],
        ),
        (
            with("{ task = \"raw\", pin = \"copy\" }"),
            ["`task.sum.in.x.pin` is for paths", "leave `task.sum.in.x.pin` away"],
        ),
        (
            with("{ task = \"raw\" }").replace(
                "\"raw/{date}\"",
                "{ to = \"postgresql:///mart\", table = \"t\", mode = \"replace\", where = \"dt = {date}\", from = \"t.csv\" }",
            ),
            ["output `raw` of `raw` is a table", "read it by a query"],
        ),
        (with("{ task = \"self\" }"), ["reads the very publication that it makes", "partition = \"previous\""]),
        (with("{ task = \"sum\" }"), ["reads the very publication that it makes", "version = \"previous\""]),
        (with("{ task = \"self\", partition = \"previous\" }"), ["`task.sum.in.x.start` is missing", "start = "]),
        (
            with("{ task = \"self\", partition = \"2013-01-01\" }"),
            ["the previous partition only", "partition = \"previous\""],
        ),
        (
            with("{ task = \"raw\", start = \"2013-01-01\" }"),
            ["is the first date of a chain", "partition = \"previous\""],
        ),
        (
            with("{ task = \"self\", partition = \"previous\", start = \"2013-13-01\" }"),
            ["`task.sum.in.x.start`", "2013-13-01"],
        ),
        (
            with("{ task = \"raw\", version = \"previous\" }"),
            ["for the task itself", "leave `task.sum.in.x.version` away"],
        ),
        (with("{ task = \"self\", version = \"1\" }"), ["must be \"previous\"", "not \"1\""]),
        (with("{ task = 7 }"), ["`task.sum.in.x.task` must be a text, not 7", ""]),
    ] {
        let home = home();
        home.config(&config);
        let output = home.run(["status"]);
        assert_fails(&output, &phrases);
    }
}

#[test]
fn partitions_that_cannot_meet_are_refused_when_the_file_is_read() {
    let of = |ours: &str, theirs: &str, input: &str| {
        format!(
            "[task.raw]\n{theirs}\ncommand = \"true\"\nout.raw = \"raw{{param.p}}\"\nparam.p = 1\n\
             [task.sum]\n{ours}\ncommand = \"true\"\nin.x = {input}\nout.sum = \"sum{{param.p}}\"\nparam.p = 1\n"
        )
        .replace("raw{param.p}", if theirs.contains("partition") { "raw/{partition}" } else { "raw" })
        .replace("sum{param.p}", if ours.contains("partition") { "sum/{partition}" } else { "sum" })
    };
    let (daily, monthly) = ("partition = \"daily\"", "partition = \"monthly\"");
    let names = "partition = { values = [\"eu\"] }";
    for (config, phrases) in [
        (of("", daily, "{ task = \"raw\" }"), ["it is not clear which one is read", "partition = \"2025-03-24\""]),
        (of(daily, names, "{ task = \"raw\" }"), ["it is not clear which one is read", "partition = \"eu\""]),
        (of(names, daily, "{ task = \"raw\" }"), ["it is not clear which one is read", "name it"]),
        (of(daily, "", "{ task = \"raw\", partition = \"previous\" }"), ["only dates have a previous one", "daily"]),
        (
            of("", "", "{ task = \"self\", partition = \"previous\", start = \"2013-01-01\" }"),
            ["only dates have a previous one", "`sum` has no partitions"],
        ),
        (
            of(monthly, daily, "{ task = \"raw\", partition = \"previous\" }"),
            ["a monthly task cannot read the previous partition of `raw`", "leave `partition` away"],
        ),
        (of("", daily, "{ task = \"raw\", partition = \"{partition}\" }"), ["has no partition to fill in", "`sum`"]),
    ] {
        let home = home();
        home.config(&config);
        assert_fails(&home.run(["status"]), &phrases);
    }
}

#[test]
fn a_circle_is_refused_unless_time_breaks_it() {
    let circle = |last: &str| {
        let task = |name: &str, read: &str| {
            format!(
                "[task.{name}]\npartition = \"daily\"\ncommand = \"true\"\nin.x = {read}\nout.{name} = \"{name}/{{date}}\"\n"
            )
        };
        task("a", "{ task = \"b\" }") + &task("b", "{ task = \"c\" }") + &task("c", last)
    };
    let home = home();
    home.config(&circle("{ task = \"a\" }"));
    assert_fails(
        &home.run(["status"]),
        &["in a circle: `a` reads `b` reads `c` reads `a`", "partition = \"previous\""],
    );
    home.config(&circle("{ task = \"a\", partition = \"previous\", start = \"2013-01-01\" }"));
    home.run(["status"]).success();
}

#[test]
fn config_show_writes_an_input_as_it_can_be_read_again() {
    let home = home();
    let input = "{ task = \"raw\", output = \"raw\", partition = \"previous\", start = \"2013-01-01\" }";
    home.config(&with(input));
    let shown = home.run(["config", "show"]).success().stdout;
    assert!(shown.contains(&format!("in.x = {input}")), "{shown}");
}
