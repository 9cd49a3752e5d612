//! Which parameters a declared task has.

use crate::environment::variable_part;
use crate::task::{CommandLine, InputSource, Task, Which};
use refrain_core::{Error, Result, nearest};
use std::collections::BTreeSet;

impl Task {
    /// Gives a parameter of a declared task another value.
    ///
    /// # Errors
    /// `invalid` for a name that the task does not know, with the nearest one it knows: a misspelled parameter would
    /// publish what the value before it makes. It knows what it declares, what its locations name, and what its command
    /// or a check reads by the name of the variable.
    pub fn set_param(&mut self, name: &str, value: String) -> Result<()> {
        if !self.known_params().contains(name)
            && !self.reads_variable(&format!("REFRAIN_PARAM_{}", variable_part(name)))
        {
            return Err(self.no_such_param(name));
        }
        self.params.insert(name.to_owned(), value);
        Ok(())
    }

    /// The parameters that are declared, or part of a location.
    fn known_params(&self) -> BTreeSet<&str> {
        let mut known: BTreeSet<&str> = self.params.keys().map(String::as_str).collect();
        known.extend(self.outputs.iter().flat_map(|output| output.location.params()));
        known.extend(self.inputs.iter().flat_map(|input| match &input.source {
            InputSource::Path { location, .. } => location.params(),
            InputSource::Publication(read) => match &read.which {
                Which::Named(template) => template.params(),
                Which::Same | Which::Previous { .. } | Which::Replaced => BTreeSet::new(),
            },
        }));
        known
    }

    /// Whether a text that is run names the variable.
    fn reads_variable(&self, variable: &str) -> bool {
        let command = match &self.command {
            Some(CommandLine::Shell(line)) => vec![line.into()],
            Some(CommandLine::Argv(words)) => words.iter().map(|word| word.to_string_lossy()).collect(),
            None => Vec::new(),
        };
        let checks = self.outputs.iter().filter_map(|output| output.check.as_deref()).map(Into::into);
        command.into_iter().chain(checks).any(|text: std::borrow::Cow<'_, str>| names(&text, variable))
    }

    fn no_such_param(&self, name: &str) -> Error {
        let task = &self.name;
        let error = Error::invalid(format!("`{task}` has no parameter `{name}`"));
        let declare = format!("to declare it, write `param.{name} = …` below [task.{task}]");
        let known = self.known_params();
        error.hint(match nearest(name, known.iter().copied()) {
            Some(near) => format!("did you mean `--param {near}=…`?"),
            None if known.is_empty() => declare,
            None => {
                let known: Vec<_> = known.iter().map(|name| format!("`{name}`")).collect();
                format!("it has {}; {declare}", known.join(", "))
            }
        })
    }
}

/// Whether the text has the name, not as a part of a longer one.
fn names(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(at, _)| {
        let next = text.get(at + name.len()..).and_then(|rest| rest.chars().next());
        !next.is_some_and(|next| next.is_ascii_alphanumeric() || next == '_')
    })
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn a_longer_name_is_another_one() {
        assert!(names("echo ${P_K} x", "P_K") && names("echo $P_K", "P_K") && names("$P_KK $P_K", "P_K"));
        assert!(!names("echo $P_KK $P_K_L", "P_K"));
    }
}
