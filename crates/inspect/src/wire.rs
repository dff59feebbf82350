//! How documents of strangers are read: a member that is `null` is one that is left out.
//!
//! Servers written in Go answer an empty list with `"items": null`.

use serde::{Deserialize, Deserializer};

/// Reads `null` as nothing.
pub(crate) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    //! Rules of spec/attach.md.
    use super::*;

    #[derive(Deserialize)]
    struct ShortList {
        #[serde(default, deserialize_with = "or_default")]
        items: Vec<u8>,
    }

    #[test]
    fn a71_an_empty_list_of_a_real_server_is_empty() {
        for text in [r#"{"items":null}"#, r#"{"items":[]}"#, "{}"] {
            let list: ShortList = serde_json::from_str(text).unwrap();
            assert!(list.items.is_empty(), "{text}");
        }
    }
}
