//! The values of the parameters, and where each comes from.

use super::environment::{self, Environment};
use super::parameter::{self, Parameter};
use super::service;
use super::text::{self, Given};
use refrain_core::Result;
use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// Where a value was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Text,
    Service(String, PathBuf),
    Variable(&'static str),
}

/// One value.
#[derive(Clone)]
pub(super) struct Value {
    pub(super) text: String,
    pub(super) source: Source,
}

/// All values: those of the connection string, then those of the service, then those of the environment.
pub(super) struct Values {
    values: HashMap<&'static str, Value>,
    home: Option<PathBuf>,
}

impl Values {
    /// Reads a connection string and fills in what it leaves out.
    pub(super) fn gather(connection: &str, environment: &Environment<'_>) -> Result<Self> {
        let mut given: HashMap<&'static str, Value> = HashMap::new();
        for (name, text) in text::read(connection)? {
            given.insert(name, Value { text, source: Source::Text });
        }
        let mut values = Self { values: given, home: environment::home(environment)? };
        let (service, file) = service::of_environment(environment)?;
        let service = values.get("service").map(str::to_owned).or(service);
        let file = values.get("servicefile").map(str::to_owned).or(file);
        if let Some(service) = service {
            let (given, place) = service::look_up(&service, file.as_deref(), values.home(), environment)?;
            values.add(given, &Source::Service(service, place));
        }
        for Parameter { name, variable, .. } in parameter::ALL {
            if let Some(variable) = variable
                && let Some(text) = environment::text(environment, variable)?
            {
                values.add(vec![(name, text)], &Source::Variable(variable));
            }
        }
        Ok(values)
    }

    /// A value; nothing when it is empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.sourced(name).map(|value| value.text.as_str())
    }

    /// A value with its source; nothing when it is empty.
    pub(super) fn sourced(&self, name: &str) -> Option<&Value> {
        self.values.get(name).filter(|value| !value.text.is_empty())
    }

    /// All values in the order of the parameters.
    pub(super) fn all(&self) -> impl Iterator<Item = (&'static Parameter, &Value)> {
        parameter::ALL.iter().filter_map(|parameter| Some((parameter, self.values.get(parameter.name)?)))
    }

    /// The user's home directory.
    pub(super) fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    fn add(&mut self, given: Given, source: &Source) {
        for (name, text) in given {
            self.values.entry(name).or_insert_with(|| Value { text, source: source.clone() });
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text => f.write_str("the connection string"),
            Self::Service(name, place) => write!(f, "the service `{name}` in `{}`", place.display()),
            Self::Variable(name) => f.write_str(name),
        }
    }
}
