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
