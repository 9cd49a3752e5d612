//! What is said of a command line that clap does not take, with what should have been written.

use crate::args::Cli;
use crate::output;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};
use refrain::core::Window;
use refrain::report::exit_code;
use std::ffi::OsString;

/// Help and version are data; a wrong command line is a failure of the caller's, told like every other. Returns the
/// exit code.
pub(crate) fn tell(mut error: clap::Error) -> u8 {
    if error.kind() == ErrorKind::UnknownArgument {
        let line: Vec<OsString> = std::env::args_os().collect();
        if let Some(tip) = unexpected(&error).and_then(|argument| tip(&line, &argument)) {
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
        }
    }
    if error.kind() == ErrorKind::InvalidSubcommand {
        suggest_only_shown(&mut error);
    }
    output::written(error.print());
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => exit_code::PUBLISHED,
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => exit_code::FAILED,
        _ => {
            output::say(Window::NothingPublished.sentence());
            exit_code::FAILED
        }
    }
}

/// Commands that no help shows are suggested to nobody.
fn suggest_only_shown(error: &mut clap::Error) {
    let Some(ContextValue::Strings(suggested)) = error.remove(ContextKind::SuggestedSubcommand) else { return };
    let definition = Cli::command();
    let is_shown = |name: &String| !hidden(&definition).iter().any(|hidden| hidden == name);
    let shown: Vec<_> = suggested.into_iter().filter(is_shown).collect();
    if !shown.is_empty() {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(shown));
    }
}

fn hidden(definition: &clap::Command) -> Vec<String> {
    let names = |command: &clap::Command| command.is_hide_set().then(|| command.get_name().to_owned());
    definition.get_subcommands().flat_map(|command| names(command).into_iter().chain(hidden(command))).collect()
}

/// The argument that nobody takes, unless it is a flag.
fn unexpected(error: &clap::Error) -> Option<String> {
    match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(argument)) if !argument.starts_with('-') => Some(argument.clone()),
        _ => None,
    }
}

/// What the caller probably meant.
fn tip(line: &[OsString], argument: &str) -> Option<String> {
    let places = || (1..line.len()).filter(|place| line[*place] == *argument);
    if places().any(|place| line[place - 1] == "--wait") {
        return Some(format!("to give the time, write '--wait={argument}'"));
    }
    // The words from there on are a command if the line is right with `--` before them.
    let separated = |place: usize| {
        let separator = OsString::from("--");
        line[..place].iter().chain([&separator]).chain(&line[place..]).cloned().collect::<Vec<_>>()
    };
    let meant = places().map(separated).find(|line| Cli::try_parse_from(line).is_ok())?;
    let words = meant.iter().skip(1).map(|word| word.to_string_lossy());
    let meant = output::shell_line(std::iter::once("refrain".into()).chain(words));
    Some(format!("put '--' before the command: {meant}"))
}

#[cfg(test)]
mod tests {
    use super::tip;
    use std::ffi::OsString;

    fn tip_of(line: &str, argument: &str) -> Option<String> {
        tip(&line.split(' ').map(OsString::from).collect::<Vec<_>>(), argument)
    }

    #[test]
    fn a_command_without_its_separator_is_shown_with_it() {
        assert_eq!(
            tip_of("/bin/refrain run sh --out o sh -c true", "sh").unwrap(),
            "put '--' before the command: refrain run sh --out o -- sh -c true"
        );
        assert_eq!(tip_of("refrain status a b", "b"), None, "status takes no command");
    }

    #[test]
    fn a_time_after_wait_is_joined_to_it() {
        assert!(tip_of("refrain run a --wait 5s", "5s").unwrap().ends_with("'--wait=5s'"));
    }
}
