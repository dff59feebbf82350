//! Who asks: client certificates, service-account tokens, nobody; and on whose behalf (R148–R152).

pub mod token;

use std::collections::BTreeMap;

use http::HeaderMap;
use tenure_machinery::Failure;
use tenure_rbac::impersonation;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::access::{Access, refusal};
use crate::api::{Peer, header};
use crate::route::percent_decode;
use token::Tokens;

/// The user behind a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// Such as `kubernetes-admin` or `system:anonymous`.
    pub name: String,
    /// Empty when the credential names none.
    pub uid: String,
    /// Every group, `system:authenticated` or `system:unauthenticated` included.
    pub groups: Vec<String>,
    /// What else the credential says.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// Nobody in particular.
    #[must_use]
    pub fn anonymous() -> User {
        User {
            name: "system:anonymous".to_owned(),
            groups: vec!["system:unauthenticated".to_owned()],
            ..User::default()
        }
    }
}

/// 401, the same sentence whatever was wrong.
#[must_use]
pub(crate) fn unauthorized() -> Failure {
    Failure::new(401, "Unauthorized", "Unauthorized")
}

/// Finds the user. A certificate that TLS verified names one; so does a token that is believed; no
/// credential at all is anonymous; a credential that is not believed is refused, never taken for
/// anonymous.
///
/// What is wrong with a credential is said for the audit log; the client learns only that it is refused.
pub(crate) fn authenticate(
    peer: &Peer,
    headers: &HeaderMap,
    tokens: &Tokens,
) -> Result<User, &'static str> {
    if let Some(user) = &peer.user {
        return Ok(user.clone());
    }
    let credentials = headers.get_all(http::header::AUTHORIZATION).iter();
    let mut credentials = credentials.filter(|value| !value.is_empty());
    let Some(credential) = credentials.next() else {
        // A token may say who a client with a worthless certificate is; without one it must not
        // pass as anonymous.
        return if peer.untrusted {
            Err("the client certificate is not trusted")
        } else {
            Ok(User::anonymous())
        };
    };
    if credentials.next().is_some() {
        return Err("there is more than one Authorization header");
    }
    let text = credential.to_str().map_err(|_| NO_BEARER)?.trim();
    let (scheme, token) = text.split_once(' ').ok_or(NO_BEARER)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(NO_BEARER);
    }
    tokens.user(token.trim()).map_err(|refused| refused.reason.sentence())
}

const NO_BEARER: &str = "the Authorization header holds no bearer token";

/// The user a certificate names; `None` when it names none.
pub(crate) fn user_of_certificate(der: &[u8]) -> Option<User> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let subject = certificate.subject();
    let name = subject.iter_common_name().next()?.as_str().ok()?.to_owned();
    if name.is_empty() {
        return None;
    }
    let mut groups: Vec<String> = subject
        .iter_organization()
        .filter_map(|group| group.as_str().ok())
        .map(str::to_owned)
        .collect();
    groups.push("system:authenticated".to_owned());
    Some(User { name, groups, ..User::default() })
}

/// The user the request runs as: the one who asks, or the one they may act as (R152).
pub(crate) fn impersonate(
    user: User,
    headers: &HeaderMap,
    access: &Access,
) -> Result<User, Failure> {
    let unreadable = |(key, value): (&http::HeaderName, &http::HeaderValue)| {
        key.as_str().starts_with("impersonate-") && value.to_str().is_err()
    };
    // What cannot be read must not count as not said.
    if headers.iter().any(unreadable) {
        return Err(Failure::bad_request("an impersonation header is not plain text"));
    }
    let texts = |name: &str| -> Vec<String> {
        let values = headers.get_all(name).iter();
        values.filter_map(|value| value.to_str().ok()).map(str::to_owned).collect()
    };
    let name = header(headers, "impersonate-user").unwrap_or_default().to_owned();
    let mut groups = texts("impersonate-group");
    let uid = header(headers, "impersonate-uid").unwrap_or_default().to_owned();
    let mut pairs: Vec<(String, String)> = Vec::new();
    for (key, value) in headers {
        if let Some(key) = key.as_str().strip_prefix("impersonate-extra-") {
            let key = percent_decode(key, false).into_owned();
            pairs.push((key, value.to_str().unwrap_or_default().to_owned()));
        }
    }
    if name.is_empty() {
        if groups.is_empty() && uid.is_empty() && pairs.is_empty() {
            return Ok(user);
        }
        return Err(Failure::bad_request(
            "requested groups, uid or extra without impersonating a user",
        ));
    }
    for asked in impersonation(&name, &groups, &uid, &pairs) {
        if access.may(&user, &asked).is_none() {
            return Err(refusal(&user, &asked));
        }
    }
    if groups.is_empty()
        && let Some(account) = name.strip_prefix("system:serviceaccount:")
        && let Some((namespace, _)) = account.split_once(':')
    {
        groups.push("system:serviceaccounts".to_owned());
        groups.push(format!("system:serviceaccounts:{namespace}"));
    }
    let everybody =
        if name == "system:anonymous" { "system:unauthenticated" } else { "system:authenticated" };
    let said = |group: &String| group == everybody || group == "system:unauthenticated";
    if !groups.iter().any(said) {
        groups.push(everybody.to_owned());
    }
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (key, value) in pairs {
        extra.entry(key).or_default().push(value);
    }
    Ok(User { name, uid, groups, extra })
}
