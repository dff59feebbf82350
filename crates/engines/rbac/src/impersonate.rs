//! What somebody must be allowed in order to act as somebody else (R152).
//!
//! Which headers say so, and what happens then, is the server's business.

use alloc::vec::Vec;

use crate::rule::Asked;

const AUTHENTICATION: &str = "authentication.k8s.io";

/// The questions that must all be answered with yes before a request runs as this user.
///
/// A service account is asked about by its namespace and name; `uid` is empty when none is claimed.
pub fn impersonation<'a>(
    user: &'a str,
    groups: &'a [impl AsRef<str>],
    uid: &'a str,
    extra: &'a [(impl AsRef<str>, impl AsRef<str>)],
) -> Vec<Asked<'a>> {
    let mut questions = Vec::new();
    if !user.is_empty() {
        questions.push(match service_account(user) {
            Some((namespace, name)) => ask("", "serviceaccounts", "", namespace, name),
            None => ask("", "users", "", "", user),
        });
    }
    questions.extend(groups.iter().map(|group| ask("", "groups", "", "", group.as_ref())));
    if !uid.is_empty() {
        questions.push(ask(AUTHENTICATION, "uids", "", "", uid));
    }
    questions.extend(
        extra.iter().map(|(key, value)| {
            ask(AUTHENTICATION, "userextras", key.as_ref(), "", value.as_ref())
        }),
    );
    questions
}

/// The namespace and name of a service account from its user name.
///
/// Whatever could not be a service account is a user of that name, which fewer may act as.
fn service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    let label = |text: &str| {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        text.bytes().all(|byte| plain(byte) || byte == b'-')
            && text.bytes().next().is_some_and(plain)
            && text.bytes().last().is_some_and(plain)
    };
    let known = label(namespace) && name.split('.').all(label);
    known.then_some((namespace, name))
}

fn ask<'a>(
    group: &'a str,
    resource: &'a str,
    subresource: &'a str,
    namespace: &'a str,
    name: &'a str,
) -> Asked<'a> {
    Asked::Resource { verb: "impersonate", group, resource, subresource, namespace, name }
}
