//! When a `TokenRequest` is granted, and with which claims.
//!
//! The host looks objects up and hands them in; nothing is stored.

use serde_json::{Value, json};
use tenure_machinery::{Errors, Failure, Object, ObjectExt as _, Path};

use crate::claims::{BoundKind, BoundObject, Claims, NodeClaim, TokenSubject};
use crate::key::KeySet;
use crate::token::{IssueError, issue};

const GROUP: &str = "authentication.k8s.io";
const KIND: &str = "TokenRequest";
const WEBHOOK_GROUP_VERSION: &str = "admissionregistration.k8s.io/v1";

const SECONDS_DEFAULT: i64 = 3600;
const SECONDS_MIN: i64 = 600;
const SECONDS_MAX: i64 = 1 << 32;

/// What kubelets ask for on behalf of pods that may not know their token expires.
const SECONDS_WARN_ONLY: i64 = 3607;
/// What such pods get: a year, with a warning after the time they asked for.
const SECONDS_EXTENDED: i64 = 365 * 24 * 3600;

/// What the server brings to a grant.
#[derive(Clone, Copy, Debug)]
pub struct Issuing<'a> {
    /// The issuer it signs as.
    pub issuer: &'a str,
    /// Its own audiences, for requests that name none.
    pub audiences: &'a [&'a str],
    /// Seconds since 1970.
    pub now: i64,
    /// A fresh random id for the token.
    pub id: &'a str,
}

/// A request that is granted: claims to sign, and the answer without its token.
#[derive(Clone, Debug)]
pub struct TokenGrant {
    /// What the token will say.
    pub claims: Claims,
    /// The `TokenRequest` to answer with; `status.token` is still missing.
    pub response: Object,
}

impl TokenGrant {
    /// Issues the token and puts it into the answer.
    ///
    /// # Errors
    /// As [`issue`].
    pub fn sealed(mut self, keys: &KeySet) -> Result<Object, IssueError> {
        let token = issue(keys, &self.claims)?;
        self.response.map_mut("status").insert("token".to_owned(), token.into());
        Ok(self.response)
    }
}

/// The object a request wants its token bound to, for the host to look up.
///
/// Nothing when there is none, or when [`grant`] will refuse its kind.
#[must_use]
pub fn requested_bound_object(request: &Object) -> Option<(BoundKind, &str)> {
    let reference = request.map_at(&["spec", "boundObjectRef"])?;
    Some((core_kind(reference)?, text(reference, "name")))
}

/// Decides about a request for a token of `account`.
///
/// `bound` is what the host found for [`requested_bound_object`]; `node` is the node that a bound pod
/// names in `spec.nodeName`, if it is there.
///
/// # Errors
/// 422 for a request that cannot be meant, 409 for another object's uid, 404 for a bound object
/// that is not there, 400 for one that tokens are not bound to.
pub fn grant(
    request: &Object,
    account: &TokenSubject,
    bound: Option<&Object>,
    node: Option<&Object>,
    issuing: Issuing<'_>,
) -> Result<TokenGrant, Failure> {
    check_names(request, account)?;
    let requested = TokenSpec::read(request, issuing.audiences)?;
    requested.validate(request)?;
    let (bound, node) = match &requested.reference {
        None => (None, None),
        Some(reference) => bind(reference, &account.name, bound, node)?,
    };
    let extended = requested.seconds == SECONDS_WARN_ONLY
        && bound.as_ref().is_some_and(|bound| bound.kind == BoundKind::Pod)
        && requested
            .audiences
            .iter()
            .all(|requested| issuing.audiences.contains(&requested.as_str()));
    let expected = issuing.now.saturating_add(requested.seconds);
    let claims = Claims {
        issuer: issuing.issuer.to_owned(),
        subject: account.clone(),
        audiences: requested.audiences.clone(),
        issued_at: issuing.now,
        not_before: issuing.now,
        expires_at: if extended { issuing.now.saturating_add(SECONDS_EXTENDED) } else { expected },
        id: issuing.id.to_owned(),
        bound,
        node,
        warn_after: extended.then_some(expected),
    };
    let response = respond(request, account, &requested, issuing.now, expected)?;
    Ok(TokenGrant { claims, response })
}

/// A name, namespace or uid in the body must be the account's.
fn check_names(request: &Object, account: &TokenSubject) -> Result<(), Failure> {
    for (member, meant, why) in [
        ("name", &account.name, "must match the service account name if specified"),
        ("namespace", &account.namespace, "must match the service account namespace if specified"),
    ] {
        let given = request.str_at(&["metadata", member]).unwrap_or_default();
        if !given.is_empty() && given != meant {
            let mut errors = Errors::new();
            let metadata = Path::Root.field("metadata");
            errors.invalid(&metadata.field(member), format_args!("{given:?}"), why);
            return Err(Failure::invalid(GROUP, KIND, &account.name, errors));
        }
    }
    let given = request.str_at(&["metadata", "uid"]).unwrap_or_default();
    if !given.is_empty() && given != account.uid {
        let why = format!(
            "the UID in the token request ({given}) does not match the UID of the service account ({})",
            account.uid
        );
        return Err(Failure::conflict(GROUP, KIND, &account.name, &why));
    }
    Ok(())
}

/// The spec with defaults.
struct TokenSpec {
    seconds: i64,
    audiences: Vec<String>,
    reference: Option<Object>,
}

impl TokenSpec {
    fn read(request: &Object, audiences_default: &[&str]) -> Result<TokenSpec, Failure> {
        let wrong = |field: &str, what: &str| {
            Failure::bad_request(format!("{KIND} in version \"v1\": spec.{field} is not {what}"))
        };
        let at = |field| request.at(&["spec", field]).filter(|value| !value.is_null());
        let seconds = match at("expirationSeconds") {
            None => SECONDS_DEFAULT,
            Some(value) => {
                value.as_i64().ok_or_else(|| wrong("expirationSeconds", "an integer"))?
            }
        };
        let mut audiences = match at("audiences") {
            None => Vec::new(),
            Some(value) => value
                .as_array()
                .and_then(|list| list.iter().map(|item| item.as_str().map(str::to_owned)).collect())
                .ok_or_else(|| wrong("audiences", "a list of strings"))?,
        };
        if audiences.is_empty() {
            audiences = audiences_default.iter().map(|&audience| audience.to_owned()).collect();
        }
        let reference = match at("boundObjectRef") {
            None => None,
            Some(Value::Object(reference)) => Some(reference.clone()),
            Some(_) => return Err(wrong("boundObjectRef", "an object")),
        };
        Ok(TokenSpec { seconds, audiences, reference })
    }

    fn validate(&self, request: &Object) -> Result<(), Failure> {
        let spec = Path::Root.field("spec");
        let mut errors = Errors::new();
        let attested = request.at(&["spec", "attestations"]).filter(|value| {
            !value.is_null() && value.as_object().is_none_or(|object| !object.is_empty())
        });
        if let (Some(value), false) = (attested, self.reference.as_ref().is_some_and(is_webhook)) {
            errors.invalid(
                &spec.field("attestations"),
                value,
                "attestations may only be specified with a webhook bound object reference",
            );
        } else if self.seconds < SECONDS_MIN {
            errors.invalid(
                &spec.field("expirationSeconds"),
                self.seconds,
                "may not specify a duration less than 10 minutes",
            );
        } else if self.seconds > SECONDS_MAX {
            errors.invalid(
                &spec.field("expirationSeconds"),
                self.seconds,
                "may not specify a duration larger than 2^32 seconds",
            );
        }
        if errors.is_empty() { Ok(()) } else { Err(Failure::invalid(GROUP, KIND, "", errors)) }
    }
}

fn text<'a>(object: &'a Object, member: &str) -> &'a str {
    object.str_at(&[member]).unwrap_or_default()
}

fn is_webhook(reference: &Object) -> bool {
    text(reference, "apiVersion") == WEBHOOK_GROUP_VERSION
        && matches!(
            text(reference, "kind"),
            "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration"
        )
}

/// The kind, if it is one of the core group's that tokens are bound to; any version will do.
fn core_kind(reference: &Object) -> Option<BoundKind> {
    if text(reference, "apiVersion").contains('/') {
        return None;
    }
    BoundKind::named(text(reference, "kind"))
}

/// Binds to the object found, after making sure that it is the one meant.
fn bind(
    reference: &Object,
    account: &str,
    found: Option<&Object>,
    node: Option<&Object>,
) -> Result<(Option<BoundObject>, Option<NodeClaim>), Failure> {
    let name = text(reference, "name");
    let kind = core_kind(reference).ok_or_else(|| unbindable(reference))?;
    let found = found.ok_or_else(|| Failure::not_found("", kind.resource(), name))?;
    let pod = kind == BoundKind::Pod;
    if pod && found.str_at(&["spec", "serviceAccountName"]).unwrap_or_default() != account {
        return Err(Failure::bad_request(format!(
            "cannot bind token for serviceaccount {account:?} to pod running with different serviceaccount name."
        )));
    }
    let uid = found.str_at(&["metadata", "uid"]).unwrap_or_default();
    let meant = text(reference, "uid");
    if !meant.is_empty() && meant != uid {
        let why = format!(
            "the UID in the bound object reference ({meant}) does not match the UID in record. The object might have been deleted and then recreated"
        );
        return Err(Failure::conflict("", kind.kind(), name, &why));
    }
    let bound = BoundObject { kind, name: name.to_owned(), uid: uid.to_owned() };
    let on = found.str_at(&["spec", "nodeName"]).filter(|name| pod && !name.is_empty());
    let node = on.map(|name| NodeClaim {
        name: name.to_owned(),
        uid: node.and_then(|node| node.str_at(&["metadata", "uid"])).unwrap_or_default().to_owned(),
    });
    Ok((Some(bound), node))
}

fn unbindable(reference: &Object) -> Failure {
    let version = text(reference, "apiVersion");
    let slash = if version.contains('/') || version.is_empty() { "" } else { "/" };
    let version = if version.is_empty() { "/" } else { version };
    let kind = text(reference, "kind");
    let gate = if is_webhook(reference) {
        " (feature gate APIServerWebhookAuthenticationToken is disabled)"
    } else {
        ""
    };
    Failure::bad_request(format!(
        "cannot bind token to object of type {slash}{version}, Kind={kind}{gate}"
    ))
}

/// The request with everything filled in except the token.
fn respond(
    request: &Object,
    account: &TokenSubject,
    requested: &TokenSpec,
    now: i64,
    expires_at: i64,
) -> Result<Object, Failure> {
    let mut response = request.clone();
    response.insert("apiVersion".to_owned(), format!("{GROUP}/v1").into());
    response.insert("kind".to_owned(), KIND.into());
    let metadata = response.map_mut("metadata");
    for (member, value) in [
        ("name", account.name.clone()),
        ("namespace", account.namespace.clone()),
        ("uid", account.uid.clone()),
        ("creationTimestamp", time(now)?),
    ] {
        metadata.insert(member.to_owned(), value.into());
    }
    let spec = response.map_mut("spec");
    spec.insert("audiences".to_owned(), json!(requested.audiences));
    spec.insert("expirationSeconds".to_owned(), requested.seconds.into());
    spec.insert(
        "boundObjectRef".to_owned(),
        requested.reference.clone().map_or(Value::Null, Value::Object),
    );
    response.insert("status".to_owned(), json!({ "expirationTimestamp": time(expires_at)? }));
    Ok(response)
}

fn time(seconds: i64) -> Result<String, Failure> {
    jiff::Timestamp::from_second(seconds)
        .map(|time| time.to_string())
        .map_err(|_| Failure::internal("the time is beyond what can be written"))
}
