//! The reference, completions and man pages, all made from the definition of the command line.

use crate::args::{Cli, DocsCommand};
use crate::output;
use clap::{Command, CommandFactory};
use clap_complete::Shell;
use refrain::{Error, Result};
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
    std::fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(Cli::command().disable_help_subcommand(true), directory))
        .map_err(|error| Error::io(format!("cannot write man pages to `{}`", directory.display()), error))
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
