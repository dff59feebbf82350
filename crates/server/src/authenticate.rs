//! Who asks: client certificates, service-account tokens, nobody; and on whose behalf (R148–R152).

pub mod token;

use std::borrow::Cow;
use std::collections::BTreeMap;

use http::HeaderMap;
use tenure_machinery::Failure;
use tenure_machinery::query::percent_decode;
use tenure_rbac::{Asked, Identity, Impersonated, service_account};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::access::{Access, refusal};
use crate::api::{Peer, header};
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
) -> Result<(User, Credential), &'static str> {
    if let Some((user, expires_at)) = &peer.user {
        // The connection may be older than the end of the certificate.
        if jiff::Timestamp::now().as_second() >= *expires_at {
            return Err("the client certificate has expired");
        }
        return Ok((user.clone(), Credential::Certificate { expires_at: *expires_at }));
    }
    let credentials = headers.get_all(http::header::AUTHORIZATION).iter();
    let mut credentials = credentials.filter(|value| !value.is_empty());
    let credential = credentials.next();
    if credentials.next().is_some() {
        return Err("there is more than one Authorization header");
    }
    match credential.and_then(bearer_token) {
        Some(token) => tokens.believe(token).map_err(|refused| refused.reason.sentence()),
        // A token may say who a client with a worthless certificate is; without one it must not
        // pass as anonymous.
        None if peer.untrusted => Err("the client certificate is not trusted"),
        None => Ok((User::anonymous(), Credential::None)),
    }
}

/// What stands behind `Bearer`. Other schemes bring no credential that is known here, and neither does this one
/// without a token.
fn bearer_token(credential: &http::HeaderValue) -> Option<&str> {
    let text = credential.to_str().ok()?.trim_matches([' ', '\t']);
    let (scheme, token) = text.split_once(' ')?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.starts_with(' ')).then_some(token)
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
    asked: &Asked<'_>,
    access: &Access,
) -> Result<Option<Acting>, Failure> {
    if !headers.keys().any(|key| key.as_str().starts_with("impersonate-")) {
        return Ok(None);
    }
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
    let groups = texts("impersonate-group");
    let uid = header(headers, "impersonate-uid").unwrap_or_default().to_owned();
    let mut pairs: Vec<(String, String)> = Vec::new();
    for (key, value) in headers {
        if let Some(key) = key.as_str().strip_prefix("impersonate-extra-") {
            let key = percent_decode(key, false).map_or_else(|| key.to_owned(), Cow::into_owned);
            pairs.push((key, value.to_str().unwrap_or_default().to_owned()));
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
    let wanted = Identity { user: &name, uid: &uid, groups: &groups, extra: &pairs };
    let may = |asked: &Asked<'_>| access.may(user, asked).is_some();
    let Impersonated { groups, constraint } =
        tenure_rbac::impersonate(&wanted, asked, own_node(user), may)
            .map_err(|asked| refusal(user, &asked))?;
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (key, value) in pairs {
        extra.entry(key).or_default().push(value);
    }
    Ok(Some(Acting { user: User { name, uid, groups, extra }, constraint }))
}

/// The node that the token of a service account is bound to.
fn own_node(user: &User) -> Option<&str> {
    service_account(&user.name)?;
    match user.extra.get(NODE_NAME)?.as_slice() {
        [node] => Some(node),
        _ => None,
    }
}
