//! Ids of rows that are the same whenever and wherever they are made.
//!
//! A task that draws a random id for each row gives the rows of a repeated run other ids, and whoever kept an id from
//! the first run points at nothing. The ids of this module are derived: from a name, which says what the ids are of,
//! and from what tells one row from another, its key. They are UUIDs of version 5 (RFC 9562, 5.5), so that every
//! language has them:
//!
//! ```text
//! NAMESPACE = 766ef8bb-bb64-5079-8b29-e6d9b81a7155      uuid5(the OID namespace of RFC 9562, "refrain row id 1")
//! id        = uuid5(uuid5(NAMESPACE, name), row key)    name as UTF-8, the row key byte for byte
//! ```
//!
//! In Python, and with PostgreSQL's `uuid-ossp` alike:
//!
//! ```text
//! orders = uuid.uuid5(uuid.UUID("766ef8bb-bb64-5079-8b29-e6d9b81a7155"), "orders")
//! uuid.uuid5(orders, "2013-01-01/UA/1545")            # a7b1a46d-ae9b-53a8-9c98-a256fffe50bb
//! ```
//!
//! Nothing is normalised: composed and decomposed letters, and `7` and `07`, are different keys. A key of several
//! columns needs a separator that no column contains, else `a` + `bc` and `ab` + `c` are one key.

use refrain_core::{Error, Result};
use std::fmt;
use uuid::{Uuid, uuid};

/// The namespace that all names are taken in. It is part of the contract and never changes.
const NAMESPACE: Uuid = uuid!("766ef8bb-bb64-5079-8b29-e6d9b81a7155");

/// Makes the ids of one kind of row.
#[derive(Clone, Copy, Debug)]
pub struct RowIds(Uuid);

/// The id of a row, printed as `xxxxxxxx-xxxx-5xxx-xxxx-xxxxxxxxxxxx` in lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowId(Uuid);

impl RowIds {
    /// The ids of what `name` names: by convention the task, or the table if a task writes several.
    ///
    /// # Errors
    /// `invalid` for an empty name.
    pub fn of(name: &str) -> Result<Self> {
        if name.is_empty() {
            return Err(Error::invalid("the name that ids are derived from is empty"));
        }
        Ok(Self(Uuid::new_v5(&NAMESPACE, name.as_bytes())))
    }

    /// The id of the row with this key.
    ///
    /// # Errors
    /// `invalid` for an empty key: rows without a key would all be one row.
    pub fn id(&self, row_key: &[u8]) -> Result<RowId> {
        if row_key.is_empty() {
            return Err(Error::invalid("a row key is empty, and all rows without a key would get one id"));
        }
        Ok(RowId(Uuid::new_v5(&self.0, row_key)))
    }
}

impl fmt::Display for RowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::{NAMESPACE, RowIds};
    use uuid::Uuid;

    #[test]
    fn the_namespace_is_derived_as_it_is_documented() {
        assert_eq!(Uuid::new_v5(&Uuid::NAMESPACE_OID, b"refrain row id 1"), NAMESPACE);
    }

    #[test]
    fn names_and_keys_are_told_apart() {
        let id = |name: &str, key: &str| RowIds::of(name).unwrap().id(key.as_bytes()).unwrap();
        assert_eq!(id("orders", "7"), id("orders", "7"));
        assert_ne!(id("orders", "7"), id("orders", "07"));
        assert_ne!(id("orders", "7"), id("lines", "7"));
        assert!(RowIds::of("").is_err() && RowIds::of("a").unwrap().id(b"").is_err());
    }
}
