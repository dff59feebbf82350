//! Who asks: client certificates, service-account tokens, nobody; and on whose behalf (R148–R152).

pub mod fixed;
pub mod token;
pub(crate) mod websocket;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use http::HeaderMap;
use tenure_machinery::Failure;
use tenure_machinery::query::percent_decode;
use tenure_rbac::{Impersonated, ImpersonationRequest, RequestAttributes, service_account};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::access::{AuthorizerChain, refusal};
use crate::api::Peer;
use crate::authorize::Consultation;
use crate::clock;
use crate::permit::Credential;
use token::Tokens;

/// Where tokens that are bound to a node or to a pod on one say which.
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

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
    /// A service account, by namespace and name, in the groups of accounts only: it has not authenticated.
    #[must_use]
    pub fn account(namespace: &str, name: &str) -> User {
        User {
            name: format!("system:serviceaccount:{namespace}:{name}"),
            groups: vec![
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{namespace}"),
            ],
            ..User::default()
        }
    }

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
/// credential of these kinds at all is anonymous; one that is not believed is refused, never taken for
/// anonymous (R151).
///
/// What is wrong with a credential is said for the audit log; the client learns only that it is refused.
pub(crate) fn authenticate(
    peer: &Peer,
    headers: &HeaderMap,
    tokens: &Tokens,
) -> Result<(Arc<User>, Credential), &'static str> {
    if let Some((user, expires_at)) = &peer.user {
        // The connection may be older than the end of the certificate.
        if clock::timestamp().as_second() >= *expires_at {
            return Err("the client certificate has expired");
        }
        return Ok((Arc::clone(user), Credential::Certificate { expires_at: *expires_at }));
    }
    let credentials = headers.get_all(http::header::AUTHORIZATION).iter();
    let mut credentials = credentials.filter(|value| !value.is_empty());
    let credential = credentials.next();
    if credentials.next().is_some() {
        return Err("there is more than one Authorization header");
    }
    let token: Option<Cow<'_, str>> = match credential.and_then(bearer_token) {
        Some(token) => Some(std::str::from_utf8(token).map_err(|_| "the token is no text")?.into()),
        None => websocket::token(headers)?,
    };
    match token {
        Some(token) => {
            if let Some(user) = tokens.fixed(&token) {
                return Ok((user, Credential::Fixed));
            }
            let believed = tokens.believe(&token).map_err(|refused| refused.reason.sentence())?;
            let (user, credential) = believed;
            Ok((Arc::new(user), credential))
        }
        // A token may say who a client with a worthless certificate is; without one it must not
        // pass as anonymous.
        None if peer.untrusted => Err("the client certificate is not trusted"),
        None if !tokens.takes_anonymous() => Err("there is no credential"),
        None => Ok((Arc::new(User::anonymous()), Credential::None)),
    }
}

/// The word behind `Bearer`. Other schemes bring no credential that is known here, and neither does this one
/// without a token. Bytes, because what cannot be read as text is a wrong token and not none.
fn bearer_token(credential: &http::HeaderValue) -> Option<&[u8]> {
    let mut words = credential.as_bytes().trim_ascii().splitn(3, |byte| *byte == b' ');
    let scheme = words.next()?;
    let token = words.next()?;
    (scheme.eq_ignore_ascii_case(b"bearer") && !token.is_empty()).then_some(token)
}

/// The user a certificate names, and the second since 1970 at which it ends; `None` when it names none.
pub(crate) fn user_of_certificate(der: &[u8]) -> Option<(User, i64)> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let subject = certificate.subject();
    // The last one, as upstream and as whoever judges requests for certificates.
    let name = subject.iter_common_name().last()?.as_str().ok()?.to_owned();
    if name.is_empty() {
        return None;
    }
    let mut groups: Vec<String> = subject
        .iter_organization()
        .filter_map(|group| group.as_str().ok())
        .map(str::to_owned)
        .collect();
    groups.push("system:authenticated".to_owned());
    let expires_at = certificate.validity().not_after.timestamp();
    Some((User { name, groups, ..User::default() }, expires_at))
}

/// Somebody as whom a request runs.
pub(crate) struct Acting {
    /// Who that is.
    pub(crate) user: User,
    /// The verb that limits it, if the right does (R152).
    pub(crate) constraint: Option<&'static str>,
}

/// The user the request runs as, if not the one who asks: somebody they may act as (R152).
pub(crate) fn impersonate(
    user: &User,
    headers: &HeaderMap,
    requested: &RequestAttributes<'_>,
    access: &AuthorizerChain,
    consultation: &Consultation,
) -> Result<Option<Acting>, Failure> {
    if !headers.keys().any(|key| key.as_str().starts_with("impersonate-")) {
        return Ok(None);
    }
    let unreadable = |(key, value): (&http::HeaderName, &http::HeaderValue)| {
        key.as_str().starts_with("impersonate-") && std::str::from_utf8(value.as_bytes()).is_err()
    };
    // What cannot be read must not count as not said.
    if headers.iter().any(unreadable) {
        return Err(Failure::bad_request("an impersonation header is not text"));
    }
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let first = |name: &str| headers.get(name).map(text).unwrap_or_default();
    let name = first("impersonate-user");
    let groups: Vec<String> = headers.get_all("impersonate-group").iter().map(text).collect();
    let uid = first("impersonate-uid");
    let mut pairs: Vec<(String, String)> = Vec::new();
    for (key, value) in headers {
        if let Some(key) = key.as_str().strip_prefix("impersonate-extra-") {
            let key = percent_decode(key, false).map_or_else(|| key.to_owned(), Cow::into_owned);
            pairs.push((key, text(value)));
        }
    }
    if name.is_empty() {
        if groups.is_empty() && uid.is_empty() && pairs.is_empty() {
            return Ok(None);
        }
        return Err(Failure::bad_request(
            "requested groups, uid or extra without impersonating a user",
        ));
    }
    let wanted = ImpersonationRequest { user: &name, uid: &uid, groups: &groups, extra: &pairs };
    let may = |requested: &RequestAttributes<'_>| consultation.may(access, user, requested);
    let Impersonated { groups, constraint } =
        tenure_rbac::impersonate(&wanted, requested, own_node(user), may)
            .map_err(|requested| refusal(user, &requested))?;
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (key, value) in pairs {
        extra.entry(key).or_default().push(value);
    }
    Ok(Some(Acting { user: User { name, uid, groups, extra }, constraint }))
}

/// The node that the token of a service account is bound to.
pub(crate) fn own_node(user: &User) -> Option<&str> {
    service_account(&user.name)?;
    match user.extra.get(NODE_NAME)?.as_slice() {
        [node] => Some(node),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.

    use http::HeaderValue;

    use super::*;

    #[test]
    fn r151_the_token_is_the_word_behind_the_scheme() {
        for (credential, token) in [
            (&b"Bearer abc"[..], Some(&b"abc"[..])),
            (b" bEaReR abc ", Some(b"abc")),
            (b"Bearer abc more", Some(b"abc")),
            (b"Bearer \xff", Some(b"\xff")),
            (b"Bearer  abc", None),
            (b"Bearer", None),
            (b"Basic abc", None),
            (b"", None),
        ] {
            let credential = HeaderValue::from_bytes(credential).unwrap();
            assert_eq!(bearer_token(&credential), token, "{credential:?}");
        }
    }

    #[test]
    fn r151_a_websocket_brings_its_token_among_its_protocols() {
        let bearer = "base64url.bearer.authorization.k8s.io";
        for (upgrade, protocols, token, left) in [
            ("websocket", "v5.channel.k8s.io, BEARER.YWJj", Ok(Some("abc")), "v5.channel.k8s.io"),
            ("WebSocket", "BEARER.YWJj,a,b", Ok(Some("abc")), "a,b"),
            ("websocket", "v5.channel.k8s.io", Ok(None), "v5.channel.k8s.io"),
            ("websocket", "a,BEARER.", Ok(None), "a"),
            ("SPDY/3.1", "a,BEARER.YWJj", Ok(None), "a"),
            ("websocket", "BEARER.YWJj", Err(()), ""),
            ("websocket", "a,BEARER.YWJj,BEARER.YWJj", Err(()), "a"),
            ("websocket", "a,BEARER.YW=", Err(()), "a"),
            ("websocket", "a,BEARER._w", Err(()), "a"),
        ] {
            let protocols = protocols.replace("BEARER", bearer);
            let mut headers = HeaderMap::new();
            headers.insert("connection", HeaderValue::from_static("keep-alive, Upgrade"));
            headers.insert("upgrade", HeaderValue::from_static(upgrade));
            headers.insert("sec-websocket-protocol", HeaderValue::from_str(&protocols).unwrap());
            let found = websocket::token(&headers).map_err(drop);
            assert_eq!(
                found.as_ref().map(Option::as_deref),
                token.as_ref().map(|t| *t),
                "{protocols}"
            );
            let without = websocket::without_token(&headers);
            let without = without.as_ref().and_then(|value| value.to_str().ok());
            assert_eq!(without.unwrap_or_default(), left, "{protocols}");
        }
    }
}
