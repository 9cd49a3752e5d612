//! Which partitions are read: other grains, time zones, names, directories.

use crate::call::{home, run};

fn publish(home: &refrain_testkit::program::Home, task: &str, date: &str) {
    home.run(["run", task, "--date", date]).success();
}

#[test]
fn date_11_an_hourly_chain_goes_through_the_hour_that_happens_twice() {
    let home = home();
    home.config(
        "[task.hours]\npartition = \"hourly\"\ntimezone = \"Europe/Berlin\"\n\
         command = 'cat ${REFRAIN_IN_PRIOR:+\"$REFRAIN_IN_PRIOR\"} > \"$REFRAIN_OUT\"; echo $REFRAIN_DATE >> \"$REFRAIN_OUT\"'\n\
         in.prior = { task = \"self\", partition = \"previous\", start = \"2013-10-27T01+0200\" }\nout.all = \"{date}.txt\"\n",
    );
    let hours = ["2013-10-27T01+0200", "2013-10-27T02+0200", "2013-10-27T02+0100", "2013-10-27T03+0100"];
    home.run(["backfill", "hours", "--from", hours[0], "--to", hours[3], "--jobs", "3"]).success();
    let last = home.read(format!("{}.txt", hours[3]));
    assert_eq!(last.lines().collect::<Vec<_>>(), hours);
}

#[test]
fn a_week_reads_the_directories_of_its_days_and_a_day_that_of_its_month() {
    let home = home();
    home.config(
        "[task.days]\npartition = \"daily\"\n\
         command = 'echo $REFRAIN_DATE > \"$REFRAIN_OUT/part.csv\"; mkdir \"$REFRAIN_OUT/more\"'\nout.parts = \"days/{date}/\"\n\
         [task.weeks]\npartition = \"weekly\"\ncommand = 'cat \"$REFRAIN_IN_DAYS\"/*/*.csv > \"$REFRAIN_OUT\"'\n\
         in.days = { task = \"days\" }\nout.all = \"weeks/{date}.txt\"\n\
         [task.months]\npartition = \"monthly\"\ncommand = 'echo $REFRAIN_DATE > \"$REFRAIN_OUT\"'\nout.m = \"{date}.txt\"\n\
         [task.shares]\npartition = \"daily\"\ncommand = 'cat \"$REFRAIN_IN_MONTH\" \"$REFRAIN_IN_LAST\" > \"$REFRAIN_OUT\"'\n\
         in.month = { task = \"months\" }\nin.last = { task = \"months\", partition = \"previous\" }\nout.s = \"shares/{date}.txt\"\n",
    );
    home.run(["backfill", "days", "--from", "2013-02-25", "--to", "2013-03-03"]).success();
    publish(&home, "weeks", "2013-W09");
    let days = home.read("weeks/2013-W09.txt");
    assert_eq!((days.lines().count(), days.lines().next()), (7, Some("2013-02-25")));
    home.run(["backfill", "months", "--from", "2013-02", "--to", "2013-03"]).success();
    publish(&home, "shares", "2013-03-31");
    assert_eq!(home.read("shares/2013-03-31.txt"), "2013-03\n2013-02\n");
}

#[test]
fn names_read_the_same_name_or_the_one_that_is_written() {
    let home = home();
    home.config(
        "[task.regions]\npartition = { values = [\"eu\", \"us\"] }\n\
         command = 'echo $REFRAIN_PARTITION > \"$REFRAIN_OUT_A\"; echo second > \"$REFRAIN_OUT_B\"'\n\
         out.a = \"{partition}.a\"\nout.b = \"{partition}.b\"\n\
         [task.same]\npartition = { values = [\"eu\", \"asia\"] }\ncommand = 'cat \"$REFRAIN_IN_R\" > \"$REFRAIN_OUT\"'\n\
         in.r = { task = \"regions\", output = \"a\" }\nout.o = \"same-{partition}\"\n\
         [task.one]\ncommand = 'cat \"$REFRAIN_IN_R\" > \"$REFRAIN_OUT\"'\n\
         in.r = { task = \"regions\", output = \"b\", partition = \"us\" }\nout.o = \"one\"\n\
         [task.month]\npartition = \"monthly\"\ncommand = 'echo $REFRAIN_DATE > \"$REFRAIN_OUT\"'\nout.o = \"{date}.m\"\n\
         [task.day]\npartition = \"daily\"\ncommand = 'cat \"$REFRAIN_IN_M\" > \"$REFRAIN_OUT\"'\n\
         in.m = { task = \"month\", partition = \"{date:%Y}-01\" }\nout.o = \"{date}.d\"\n",
    );
    for region in ["eu", "us"] {
        home.run(["run", "regions", "--partition", region]).success();
    }
    home.run(["run", "same", "--partition", "eu"]).success();
    assert_eq!(home.read("same-eu"), "eu\n");
    let error = home.run(["run", "same", "--partition", "asia"]).expect_code(125);
    assert!(error.stderr.contains("task `regions`: `asia` is not a partition"), "{error}");
    home.run(["run", "one"]).success();
    assert_eq!(home.read("one"), "second\n");
    publish(&home, "month", "2013-01");
    publish(&home, "day", "2013-05-06");
    assert_eq!(home.read("2013-05-06.d"), "2013-01\n");
    run(&home, &["day", "--date", "2014-05-06"], "")
        .nothing(125, "refused")
        .says("`month 2014-01`, which is not published");
}

#[test]
fn of_many_dates_exactly_those_that_are_damaged_are_named_and_published_again() {
    let home = home();
    home.config(
        "[task.days]\npartition = \"daily\"\ncommand = 'echo $REFRAIN_DATE > \"$REFRAIN_OUT\"'\nout.day = \"days/{date}.txt\"\n\
         [task.weeks]\npartition = \"weekly\"\ncommand = 'cat \"$REFRAIN_IN_DAYS\"/*/* > \"$REFRAIN_OUT\"'\n\
         in.days = { task = \"days\" }\nout.all = \"weeks/{date}.txt\"\n",
    );
    home.run(["backfill", "days", "--from", "2013-02-25", "--to", "2013-03-03"]).success();
    for day in ["2013-02-26", "2013-03-01", "2013-03-02"] {
        home.write(format!("days/{day}.txt"), "by hand\n");
    }
    let call = run(&home, &["weeks", "--date", "2013-W09"], "").nothing(125, "refused");
    call.says("what `days 2013-02-26`, `days 2013-03-01`, `days 2013-03-02` published cannot be read").says(
        "refrain run days --date 2013-02-26 --rerun && \
         refrain backfill days --from 2013-03-01 --to 2013-03-02 --rerun",
    );
}

#[test]
fn a_task_that_is_read_and_declared_no_more_leaves_what_was_published_to_be_looked_at() {
    let home = home();
    let reader =
        "[task.b]\ncommand = 'cat \"$REFRAIN_IN_A\" > \"$REFRAIN_OUT\"'\nin.a = { task = \"a\" }\nout.b = \"b.txt\"\n";
    home.config(&format!("[task.a]\ncommand = 'echo a > \"$REFRAIN_OUT\"'\nout.a = \"a.txt\"\n{reader}"));
    for task in ["a", "b"] {
        run(&home, &[task], "").published();
    }
    home.config(&format!("{reader}[task.c]\ncommand = 'echo c > \"$REFRAIN_OUT\"'\nout.c = \"c.txt\"\n"));
    let status = home.run(["status", "b"]).success().stdout;
    assert!(status.contains("there is no task `a`"), "{status}");
    home.run(["log", "b"]).success();
    run(&home, &["b"], "").nothing(125, "error").says("`task.b.in.a`: there is no task `a`");
    run(&home, &["c"], "").published();
}
