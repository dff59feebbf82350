//! Tokens that Secrets hold: they say no time and no audience, and count for as long as their Secret holds them.

use serde_json::{Value, json};
use tenure_machinery::{Object, ObjectExt as _};

use crate::claims::{KUBERNETES, TokenSubject};

/// Who such tokens say they are from, whatever the issuer of others is called.
const ISSUER: &str = "kubernetes/serviceaccount";
const NAMESPACE: &str = "kubernetes.io/serviceaccount/namespace";
const ACCOUNT_NAME: &str = "kubernetes.io/serviceaccount/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/serviceaccount/service-account.uid";
const SECRET_NAME: &str = "kubernetes.io/serviceaccount/secret.name";

/// What a token that a Secret holds says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegacyClaims {
    /// The account it speaks for.
    pub subject: TokenSubject,
    /// The name of the Secret, in the account's namespace.
    pub secret: String,
}

impl LegacyClaims {
    /// Whether claims are of this kind; other tokens have all of theirs under one name.
    pub(crate) fn are(claims: &Object) -> bool {
        claims.str_at(&["iss"]) == Some(ISSUER) && !claims.contains_key(KUBERNETES)
    }

    pub(crate) fn is_sound(&self) -> bool {
        self.subject.is_sound() && !self.secret.is_empty()
    }

    pub(crate) fn to_json(&self) -> Object {
        let members = [
            ("iss", json!(ISSUER)),
            ("sub", json!(self.subject.username())),
            (NAMESPACE, json!(self.subject.namespace)),
            (SECRET_NAME, json!(self.secret)),
            (ACCOUNT_NAME, json!(self.subject.name)),
            (ACCOUNT_UID, json!(self.subject.uid)),
        ];
        members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Reads what [`LegacyClaims::to_json`] wrote; nothing if a claim is missing, of another type, at odds with
    /// another, or unknown: it might limit the token.
    pub(crate) fn from_json(claims: &Object) -> Option<LegacyClaims> {
        let text = |name: &str| claims.get(name).and_then(Value::as_str).map(str::to_owned);
        let subject = TokenSubject {
            namespace: text(NAMESPACE)?,
            name: text(ACCOUNT_NAME)?,
            uid: text(ACCOUNT_UID)?,
        };
        let read = LegacyClaims { subject, secret: text(SECRET_NAME)? };
        (read.is_sound() && read.to_json() == *claims).then_some(read)
    }
}
