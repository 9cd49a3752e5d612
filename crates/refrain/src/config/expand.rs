//! `${NAME}` in the file's texts.

use refrain_core::{Error, Result};

/// Fills in `${NAME}` from `lookup`; `$$` is a literal dollar sign.
///
/// # Errors
/// `invalid` when a variable is not set or a brace is not closed. The text itself is never shown beyond the
/// variable's name: it may carry a secret.
pub(super) fn expand(key: &str, text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Result<String> {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('$') {
        result.push_str(&rest[..start]);
        rest = &rest[start + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            result.push('$');
            rest = after;
        } else if let Some(after) = rest.strip_prefix('{') {
            let Some(end) = after.find('}') else {
                return Err(Error::invalid(format!("`{key}` has a `${{` without its `}}`")));
            };
            let name = &after[..end];
            let value = lookup(name).ok_or_else(|| {
                Error::invalid(format!("`{key}` needs the environment variable `{name}`, which is not set, or empty"))
                    .hint(format!("set it: export {name}=…"))
            })?;
            result.push_str(&value);
            rest = &after[end + 1..];
        } else {
            result.push('$');
        }
    }
    result.push_str(rest);
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(name: &str) -> Option<String> {
        (name == "LAKE").then(|| "/lake".to_owned())
    }

    #[test]
    fn fills_in_and_names_what_is_missing() {
        assert_eq!(expand("k", "${LAKE}/x $5 $$HOME", &lookup).unwrap(), "/lake/x $5 $HOME");
        assert!(expand("k", "${NOPE}", &lookup).unwrap_err().message.contains("`NOPE`"));
        assert!(expand("k", "${LAKE", &lookup).is_err());
    }
}
