//! One JSON object, read without loss: a number keeps all its digits.

use serde::de::{Deserialize, DeserializeSeed, Deserializer as _, Error as _, MapAccess, Visitor};
use serde_json::Deserializer;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

/// More dimensions an array cannot have (`MAXDIM` of PostgreSQL).
const MOST_DIMENSIONS: usize = 6;

/// Calls `visit` for each entry of the object that `line` is, in their order. `V` is [`RawValue`] or what ignores a value.
pub(super) fn each<'a, V: Deserialize<'a>>(
    line: &'a str,
    visit: impl FnMut(Cow<'a, str>, V) -> Result<(), String>,
) -> Result<(), String> {
    struct Entries<V, F>(F, PhantomData<V>);

    impl<'de, V: Deserialize<'de>, F: FnMut(Cow<'de, str>, V) -> Result<(), String>> Visitor<'de> for Entries<V, F> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
            while let Some(key) = map.next_key_seed(Key)? {
                let value = map.next_value()?;
                (self.0)(key, value).map_err(A::Error::custom)?;
            }
            Ok(())
        }
    }

    let mut reader = Deserializer::from_str(line);
    let read = reader.deserialize_map(Entries(visit, PhantomData)).and_then(|()| reader.end());
    read.map_err(|error| without_line(&error))
}

/// A key, borrowed where it has no escapes.
struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Cow<'de, str>;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Key {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(key))
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(key.to_owned()))
    }
}

/// The message without the line, which is always the first to the reader of one line.
fn without_line(error: &serde_json::Error) -> String {
    error.to_string().replace(" at line 1 column ", " at column ")
}

/// The value of one key, for people: a string without its quotes.
pub(super) fn value(line: &str, key: &str) -> Option<String> {
    let mut found = None;
    let read = each(line, |name, value: &RawValue| {
        if name == key {
            found = Some(serde_json::from_str::<String>(value.get()).unwrap_or_else(|_| value.get().to_owned()));
        }
        Ok(())
    });
    read.ok().and(found)
}

/// Appends a JSON array as an array literal (<https://www.postgresql.org/docs/current/arrays.html>).
pub(super) fn array_literal(value: &RawValue, out: &mut Vec<u8>) -> Result<(), String> {
    literal(value, 1, out)
}

fn literal(value: &RawValue, depth: usize, out: &mut Vec<u8>) -> Result<(), String> {
    if depth > MOST_DIMENSIONS {
        return Err(format!("it has more than {MOST_DIMENSIONS} dimensions"));
    }
    let elements: Vec<&RawValue> = serde_json::from_str(value.get()).map_err(|error| without_line(&error))?;
    out.push(b'{');
    for (place, element) in elements.into_iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        let raw = element.get();
        match raw.as_bytes()[0] {
            b'[' => literal(element, depth + 1, out)?,
            b'"' => {
                let text: String = serde_json::from_str(raw).map_err(|error| without_line(&error))?;
                crate::array_text::push(text.as_bytes(), out);
            }
            b'n' => out.extend_from_slice(crate::array_text::NULL),
            b'{' => crate::array_text::push(raw.as_bytes(), out),
            _ => out.extend_from_slice(raw.as_bytes()),
        }
    }
    out.push(b'}');
    Ok(())
}
