//! `refrain status` as a calendar.

use crate::call::home;
use crate::on_a_terminal;
use refrain_testkit::program::Home;
use serde_json::Value;

/// A daily task: published, failed, changed by hand, stopped in between; and a gap.
fn troubled() -> Home {
    let home = home();
    home.config(
        "[task.t]\npartition = \"daily\"\ncommand = \"echo $REFRAIN_DATE > $REFRAIN_OUT; test ! -e broken\"\n\
         out.o = \"o/{date}.txt\"\n",
    );
    home.run(["-q", "backfill", "t", "--from", "2025-02-27", "--to", "2025-03-03"]).success();
    home.write("o/2025-03-02.txt", "by hand");
    home.write("broken", "");
    home.run(["run", "t", "--date", "2025-03-06"]).expect_code(1);
    home.refrain().env("REFRAIN_CRASH_AT", "after-task").run(["run", "t", "--date", "2025-03-07"]).expect_signal(9);
    home
}

const RANGE: [&str; 4] = ["--from", "2025-02-27", "--to", "2025-03-08"];

#[test]
fn a_calendar_shows_every_state_with_a_legend_and_the_reasons() {
    let home = troubled();
    let text = home.run([&["status", "t", "--grid"], &RANGE[..]].concat()).success().stdout;
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(
        lines[..5],
        [
            "t (daily in UTC)",
            "         1       5         10        15        20        25        30",
            "2025-02                                                      + +",
            "2025-03  + ! + . . x ? .",
            "+ 4 published   ! 1 changed by hand   x 1 failed   ? 1 unsettled   . 3 missing",
        ]
    );
    for (line, words) in lines[5..].iter().zip([" ?  2025-03-07  unsettled", " x  2025-03-06  failed"]) {
        assert!(line.starts_with(words), "{text}");
    }
    assert!(text.contains("exit code 1"), "{text}");
    assert_eq!(lines.last(), Some(&"why: refrain why t --date 2025-03-07"));
    assert!(!text.contains('\u{1b}'), "no colours outside of a terminal");
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn on_a_terminal_it_is_the_default_in_colours_and_as_wide_as_that() {
    let home = troubled();
    let arguments = format!("status t {}", RANGE.join(" "));
    let colored = on_a_terminal(&home, 80, "", &arguments);
    assert!(colored.contains("\u{1b}[32m+\u{1b}[0m") && colored.contains("\u{1b}[31mx\u{1b}[0m"), "{colored:?}");
    let plain = home.run([&["status", "t", "--grid"], &RANGE[..]].concat()).success().stdout;
    let calendar = |text: &str| text.lines().take(5).map(str::to_owned).collect::<Vec<_>>();
    for off in ["NO_COLOR=1", "TERM=dumb"] {
        let text = on_a_terminal(&home, 80, off, &arguments);
        assert!(!text.contains('\u{1b}'), "{off}: {text:?}");
        assert_eq!(calendar(&text), calendar(&plain), "without colours nothing is lost");
    }
    for columns in [60, 45, 30] {
        let text = on_a_terminal(&home, columns, "NO_COLOR=1", &arguments);
        let longest = text.lines().filter(|line| !line.starts_with("why: ")).map(|line| line.chars().count()).max();
        assert!(longest.unwrap() <= usize::from(columns), "{columns} columns:\n{text}");
        assert!(text.contains("x ? .") || text.contains("x?."), "{columns} columns:\n{text}");
    }
    let list = on_a_terminal(&home, 100, "NO_COLOR=1", &format!("{arguments} --list"));
    assert!(list.contains("PARTITION") && list.contains("2025-03-04"), "{list}");
    let too_narrow = on_a_terminal(&home, 12, "NO_COLOR=1", &arguments);
    assert!(too_narrow.contains("published"), "{too_narrow}");
}

#[test]
fn in_a_pipe_it_is_a_list() {
    let home = troubled();
    let text = home.run(["status"]).success().stdout;
    assert!(text.starts_with("t: ") && text.contains("PARTITION"), "{text}");
    assert_eq!(text, home.run(["status", "--list"]).success().stdout);
}

#[test]
fn what_is_not_over_yet_is_not_missing() {
    let home = home();
    home.config("[task.t]\npartition = \"yearly\"\ncommand = \"echo x > $REFRAIN_OUT\"\nout.o = \"o/{date}.txt\"\n");
    let states = |from: &str, to: &str| -> Vec<String> {
        let text = home.run(["status", "t", "--from", from, "--to", to, "--json"]).success().stdout;
        let all: Vec<Value> = serde_json::from_str(&text).unwrap();
        all.iter().map(|one| one["state"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(states("-1y", "-0y"), ["missing", "open"]);
    home.run(["run", "t", "--date", "-3y"]).success();
    let text = home.run(["status", "t", "--grid"]).success().stdout;
    let list = home.run(["status", "t"]).success().stdout;
    for text in [&text, &list] {
        assert!(!text.contains("2 missing"), "gaps are told up to the last year that is known\n{text}");
        assert!(text.contains("nothing after ") && text.contains("refrain status t --to "), "{text}");
    }
    assert!(states_of(&home, &["--to", "-1y"]) == ["published", "missing", "missing"]);
    assert!(states_of(&home, &["--from", "-2y"]) == ["missing", "missing"]);
}

fn states_of(home: &Home, range: &[&str]) -> Vec<String> {
    let text = home.run([&["status", "t", "--json"], range].concat()).success().stdout;
    let all: Vec<Value> = serde_json::from_str(&text).unwrap();
    all.iter().map(|one| one["state"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_date_far_in_the_future_hides_nothing_and_grid_and_list_count_the_same() {
    let home = troubled();
    home.run(["run", "t", "--date", "2013-01-01"]).expect_code(1);
    std::fs::remove_file(home.join("broken")).unwrap();
    home.run(["run", "t", "--date", "2060-01-01"]).success();
    let grid = home.run(["status", "t", "--grid"]).success().stdout;
    let list = home.run(["status", "t"]).success().stdout;
    let row =
        |start: &str| grid.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{start}: {grid}"));
    assert!(row("2013-01  ").starts_with("2013-01  x . ."), "{grid}");
    assert!(row("2013-02 to 2025-01: ").contains(" missing"), "{grid}");
    assert!(row("2025-03  ").starts_with("2025-03  + ! + . . x ? ."), "{grid}");
    assert!(row("2060-01  ").starts_with("2060-01  +"), "{grid}");
    assert!(grid.lines().count() < 30, "{grid}");
    let counted = |text: &str, word: &str| {
        let before: Vec<_> = text
            .lines()
            .find(|line| line.contains(word))
            .unwrap()
            .split(word)
            .next()
            .unwrap()
            .split_whitespace()
            .collect();
        before.last().unwrap().parse::<u64>().unwrap()
    };
    let counts = list.lines().next().unwrap();
    let legend: String = grid.lines().skip_while(|line| !line.starts_with("+ ")).take(2).collect::<Vec<_>>().join("\n");
    for word in [" published", " changed by hand", " failed", " unsettled", " missing", " not over yet"] {
        assert_eq!(counted(counts, word), counted(&legend, word), "{word}\n{grid}\n{list}");
    }
    assert!(list.contains("2013-01-02 to 2025-02-26"), "a long gap is one line\n{list}");
}

#[test]
fn paths_in_notes_are_shortened_and_not_broken() {
    let home = troubled();
    let text = on_a_terminal(&home, 100, "NO_COLOR=1", &format!("status t {} --list", RANGE.join(" ")));
    assert!(text.contains("...") && text.contains("o/2025-03-02.txt`"), "the path keeps its end\n{text}");
}

#[test]
fn a_home_without_tasks_says_so() {
    let home = home();
    assert!(home.run(["status"]).success().stdout.starts_with("no tasks with attempts yet"));
    assert_eq!(home.run(["status", "--json"]).success().stdout.trim(), "[]");
}

#[test]
fn a_range_of_hours_ends_in_the_fold_where_it_says() {
    let home = home();
    home.config(
        "[task.h]\npartition = \"hourly\"\ntimezone = \"Europe/Berlin\"\ncommand = \"echo x > $REFRAIN_OUT\"\n\
         out.o = \"o/{date}.txt\"\n",
    );
    let hours = ["2025-10-26T01+0200", "2025-10-26T02+0200", "2025-10-26T02+0100", "2025-10-26T03+0100"];
    home.run(["-q", "backfill", "h", "--from", hours[0], "--to", hours[3]]).success();
    let shown = |from: &str, to: &str| -> Vec<String> {
        let text = home.run(["status", "h", "--from", from, "--to", to, "--json"]).success().stdout;
        let all: Vec<Value> = serde_json::from_str(&text).unwrap();
        all.iter().map(|one| one["partition"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(shown(hours[0], hours[1]), hours[..2], "the second 02 is later");
    assert_eq!(shown(hours[2], hours[3]), hours[2..]);
    assert_eq!(shown(hours[0], hours[3]), hours, "in order of time");
}

#[test]
fn tasks_without_dates_are_lists_on_a_terminal_too() {
    let home = home();
    home.config(
        "[task.v]\npartition = { values = [\"eu\", \"us\"] }\ncommand = \"echo x > $REFRAIN_OUT\"\n\
         out.o = \"o/{partition}.txt\"\n",
    );
    home.run(["run", "v", "--partition", "eu"]).success();
    let text = on_a_terminal(&home, 80, "NO_COLOR=1", "status");
    for (name, state) in [("eu", "published"), ("us", "missing")] {
        assert!(text.lines().any(|line| line.contains(name) && line.contains(state)), "{text}");
    }
}
