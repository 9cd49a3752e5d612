//! What the help says, of every command the same wherever it is listed.

use crate::call::home;
use refrain_testkit::program::Home;

fn help(home: &Home, words: &[&str], flag: &str) -> String {
    home.run([words, &[flag]].concat()).success().stdout
}

/// The commands that a help lists, with their summaries.
fn listed(help: &str) -> Vec<(String, String)> {
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let mut all: Vec<(String, String)> = Vec::new();
    for line in commands {
        match (line.trim().split_once(' '), all.last_mut()) {
            (Some((name, summary)), _) if line.starts_with("  ") && !line.starts_with("   ") => {
                all.push((name.to_owned(), summary.trim().to_owned()));
            }
            (_, Some((_, summary))) => summary.push_str(&format!(" {}", line.trim())),
            _ => panic!("{line}"),
        }
    }
    all
}

fn first_paragraph(help: &str) -> String {
    help.lines().take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Checks the commands below these words; returns how many there were.
fn check(home: &Home, words: &[&str]) -> usize {
    let all = listed(&help(home, words, "-h"));
    for (name, summary) in all.iter().filter(|(name, _)| name != "help") {
        let words = [words, &[name.as_str()]].concat();
        for flag in ["-h", "--help"] {
            let own = help(home, &words, flag);
            assert_eq!(first_paragraph(&own), *summary, "refrain {} {flag}", words.join(" "));
        }
        if listed(&help(home, &words, "-h")).len() > 1 {
            check(home, &words);
        }
    }
    all.len()
}

#[test]
fn every_command_says_of_itself_what_the_list_says_of_it() {
    let home = home();
    assert!(check(&home, &[]) > 15);
    assert_eq!(check(&home, &["store"]), 7);
}

#[test]
fn the_paragraphs_of_a_help_are_wrapped_once() {
    let home = home();
    let all = listed(&help(&home, &[], "-h"));
    for (name, _) in all.iter().filter(|(name, _)| name != "help") {
        let text = help(&home, &[name], "--help");
        let lines: Vec<_> = text.lines().collect();
        for pair in lines.windows(2) {
            let (line, next) = (pair[0], pair[1]);
            let is_prose = |line: &str| line.starts_with(|c: char| c.is_ascii_alphabetic()) && !line.ends_with(':');
            let word = next.split(' ').next().unwrap_or_default().chars().count();
            let broken = is_prose(line) && is_prose(next) && line.chars().count() + 1 + word < 80;
            assert!(!broken, "{name}: `{line}` ends before `{next}`");
        }
    }
}

#[test]
fn a_command_that_no_help_shows_is_suggested_to_nobody() {
    let home = home();
    let told = home.run(["bakfill"]).expect_code(125);
    assert!(told.stderr.contains("a similar subcommand exists: 'backfill'\n"), "{told}");
    for wrong in ["backfill-worke", "doc"] {
        let told = home.run([wrong]).expect_code(125);
        assert!(told.stderr.contains(&format!("unrecognized subcommand '{wrong}'")), "{told}");
        assert!(!told.stderr.contains("backfill-worker'") && !told.stderr.contains("'docs'"), "{told}");
    }
    home.run(["store", "restore"]).expect_code(125).says("'restored'");
}
