//! The reference, completions and man pages, all made from the definition of the command line.

use crate::args::{Cli, DocsCommand, ENVIRONMENT, EXIT_CODES, EXIT_CODES_NOTE, RUN_EXAMPLES};
use crate::output;
use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use refrain::{Error, Result};
use std::io;
use std::path::Path;

/// Completions on stdout.
pub(crate) fn completions(shell: Shell) {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "refrain", &mut text);
    output::data(String::from_utf8_lossy(&text).trim_end());
}

/// `refrain docs`
pub(crate) fn docs(command: &DocsCommand) -> Result<()> {
    match command {
        DocsCommand::Markdown => {
            output::data(markdown().trim_end());
            Ok(())
        }
        DocsCommand::Man { directory } => man(directory),
    }
}

fn man(directory: &Path) -> Result<()> {
    let mut root = Cli::command().disable_help_subcommand(true);
    root.build();
    std::fs::create_dir_all(directory)
        .and_then(|()| pages(&root, directory))
        .map_err(|error| Error::io(format!("cannot write man pages to `{}`", directory.display()), error))
}

/// The page of a command and those of its subcommands.
fn pages(command: &Command, directory: &Path) -> io::Result<()> {
    for child in command.get_subcommands().filter(|child| !child.is_hide_set()) {
        pages(child, directory)?;
    }
    // The text after the help is told in sections of its own.
    let man = Man::new(command.clone().after_help(None::<&str>).after_long_help(None::<&str>));
    let mut page = Vec::new();
    man.render(&mut page)?;
    let mut more = Roff::new();
    match command.get_name() {
        "refrain" => {
            exit_status(&mut more);
            list(&mut more, "ENVIRONMENT", &ENVIRONMENT);
        }
        "run" => {
            exit_status(&mut more);
            list(&mut more, "EXAMPLES", &RUN_EXAMPLES);
        }
        _ => {}
    }
    // Every rendering begins with the same definitions; the page has them already.
    let more = more.render();
    let sections = more.find(".SH").and_then(|start| more.get(start..)).unwrap_or_default();
    page.extend(sections.as_bytes());
    std::fs::write(directory.join(man.get_filename()), page)
}

fn exit_status(page: &mut Roff) {
    list(page, "EXIT STATUS", &EXIT_CODES);
    page.control("PP", []);
    page.text([roman(EXIT_CODES_NOTE)]);
}

/// A section of terms and what they mean.
fn list(page: &mut Roff, heading: &str, terms: &[(&str, &str)]) {
    page.control("SH", [heading]);
    for (term, meaning) in terms {
        page.control("TP", []);
        page.text([bold(*term)]);
        page.text([roman(*meaning)]);
    }
}

fn markdown() -> String {
    let mut text =
        String::from("# The command line\n\nMade from the program's own definition by `cargo xtask generate`.\n");
    let mut root = Cli::command().term_width(100).disable_help_subcommand(true);
    root.build();
    section(&mut text, &mut root, 2);
    text
}

fn section(text: &mut String, command: &mut Command, depth: usize) {
    let heading = "#".repeat(depth.min(4));
    let name = command.get_bin_name().unwrap_or(command.get_name()).to_owned();
    text.push_str(&format!("\n{heading} {name}\n\n```text\n{}\n```\n", help(command)));
    let children: Vec<_> = command
        .get_subcommands()
        .filter(|child| !child.is_hide_set())
        .map(|child| child.get_name().to_owned())
        .collect();
    for child in children {
        if let Some(child) = command.find_subcommand_mut(&child) {
            section(text, child, depth + 1);
        }
    }
}

fn help(command: &mut Command) -> String {
    let help = command.render_long_help().to_string();
    help.lines().map(str::trim_end).collect::<Vec<_>>().join("\n").trim_end().to_owned()
}
