//! Documents about the API itself: what is served, and what it looks like.
//!
//! ```text
//!   kinds ──┬─► discovery   groups, versions, resources, verbs
//!           └─► v3 ◄── facts   paths and schemas, one document per group and version
//!               └─► v2         the same in one older document, as JSON or protobuf
//! ```
//!
//! Versions that other servers serve are listed beside those of the tables.
//!
//! Pure functions of the tables; nothing is cached, compressed or negotiated here. All of them take
//! kinds in discovery order: built-in groups keep the order in which they appear first.

pub mod discovery;
mod order;
pub mod priority;
pub mod remote;
pub mod v2;
pub mod v3;

#[cfg(test)]
mod sample;

use std::fmt::Write as _;

pub use order::compare_versions;
use ring::digest;
use serde_json::Value;

/// A strong entity tag for a body, quotes included.
#[must_use]
pub fn etag(body: &[u8]) -> String {
    format!("\"{}\"", hex(digest::digest(&digest::SHA256, body).as_ref()))
}

/// Sets a member of an object; anything else stays as it is.
fn put(object: &mut Value, name: &str, member: impl Into<Value>) {
    if let Value::Object(object) = object {
        object.insert(name.to_owned(), member.into());
    }
}

/// Bytes as upper-case hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02X}");
        text
    })
}

#[cfg(test)]
mod tests {
    //! Rules of `spec/api-server.md`.

    use super::*;

    #[test]
    fn r40_etags_are_strong_and_differ_with_the_body() {
        assert!(etag(b"a").starts_with('"') && etag(b"a").ends_with('"'));
        assert_ne!(etag(b"a"), etag(b"b"));
        assert_eq!(etag(b"a"), etag(b"a"));
    }
}
