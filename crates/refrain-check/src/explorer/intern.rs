//! Values known by small numbers, so that a state is a handful of numbers and equal values are found at once.

use std::collections::HashMap;
use std::hash::Hash;

/// The number of an interned value; 0 stands for "none".
pub(super) type Id = u32;

/// A table of distinct values.
#[derive(Debug)]
pub(super) struct Interner<T> {
    values: Vec<T>,
    ids: HashMap<T, Id>,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Self { values: Vec::new(), ids: HashMap::new() }
    }
}

impl<T: Clone + Eq + Hash> Interner<T> {
    /// The number of a value, a new one if it was not seen before.
    pub(super) fn id(&mut self, value: T) -> Id {
        if let Some(id) = self.ids.get(&value) {
            return *id;
        }
        self.values.push(value.clone());
        let id = Id::try_from(self.values.len()).unwrap_or(Id::MAX);
        self.ids.insert(value, id);
        id
    }

    /// The value of a number; nothing for 0.
    pub(super) fn get(&self, id: Id) -> Option<&T> {
        self.values.get((id as usize).checked_sub(1)?)
    }
}
