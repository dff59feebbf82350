//! Who asks, as other servers hear it: in headers that only count beside this server's certificate (R131b).

use std::fmt::Write as _;

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::authenticate::User;

pub(crate) const USER: &str = "x-remote-user";
pub(crate) const UID: &str = "x-remote-uid";
pub(crate) const GROUP: &str = "x-remote-group";
pub(crate) const EXTRA: &str = "x-remote-extra-";

/// Who asks.
pub(crate) enum RemoteUser<'a> {
    /// A user of this server.
    User(&'a User),
    /// The server itself, which looks whether others are there.
    Aggregator,
}

impl<'a> RemoteUser<'a> {
    /// The server itself.
    pub(crate) const AGGREGATOR: RemoteUser<'static> = RemoteUser::Aggregator;

    pub(crate) fn of(user: &'a User) -> RemoteUser<'a> {
        RemoteUser::User(user)
    }

    /// Writes it into headers.
    ///
    /// # Errors
    /// A name cannot stand in a header; nothing is sent then, for it would be sent as somebody else.
    pub(crate) fn put(&self, headers: &mut HeaderMap) -> Result<(), String> {
        let RemoteUser::User(user) = self else {
            headers.insert(USER, HeaderValue::from_static("system:kube-aggregator"));
            headers.insert(GROUP, HeaderValue::from_static("system:masters"));
            return Ok(());
        };
        headers.insert(USER, value("the name", &user.name)?);
        if !user.uid.is_empty() {
            headers.insert(UID, value("the uid", &user.uid)?);
        }
        for group in &user.groups {
            headers.append(GROUP, value("a group", group)?);
        }
        for (key, values) in &user.extra {
            let name = HeaderName::try_from(format!("{EXTRA}{}", escaped(key)))
                .map_err(|_| "an extra of the user cannot be passed on".to_owned())?;
            for text in values {
                headers.append(name.clone(), value("an extra", text)?);
            }
        }
        Ok(())
    }
}

fn value(what: &str, text: &str) -> Result<HeaderValue, String> {
    HeaderValue::from_bytes(text.as_bytes())
        .map_err(|_| format!("{what} of the user cannot be passed on"))
}

/// A key with everything escaped that header names cannot hold; they have no upper case of their own.
fn escaped(key: &str) -> String {
    let mut out = String::with_capacity(key.len());
    for byte in key.bytes() {
        let plain = byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte);
        if plain {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02x}");
        }
    }
    out
}
