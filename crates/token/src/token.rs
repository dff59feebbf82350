//! Tokens as text: issued, and verified in the order that gives a forger the least to work with.
//!
//! ```text
//!   length → three parts → algorithm → key → signature → claims → issuer → audience → times
//! ```
//!
//! No claim is read before the signature holds.

use core::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use tenure_machinery::Object;

use crate::claims::Claims;
use crate::key::{Algorithm, Keys, VerifyingKey};
use crate::legacy::LegacyClaims;
use crate::verified::Verified;
use crate::{LEEWAY_SECONDS, TOKEN_BYTES_MAX, json as strict};

/// Why no token was issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IssueError {
    /// Something a token needs is empty, or its times are out of order.
    #[error("the claims do not make a token")]
    Claims,
    /// It would be refused for its length.
    #[error("the token would be too long")]
    TooLong,
    /// The key gave no signature.
    #[error("the token cannot be signed")]
    Signature,
}

/// A token that is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Refused {
    /// Why, for the audit log; callers learn only that it was refused.
    pub reason: Reason,
}

impl From<Reason> for Refused {
    fn from(reason: Reason) -> Refused {
        Refused { reason }
    }
}

/// Why a token is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Longer than [`TOKEN_BYTES_MAX`].
    TooLong,
    /// Not three parts of canonical base64 with a JSON header.
    Malformed,
    /// Signed in a way that is not accepted, or that its key is not for.
    Algorithm,
    /// No key has the id the token names.
    UnknownKey,
    /// No key it may be signed with made its signature.
    Signature,
    /// A claim is missing, repeated, of another type or unknown.
    Claims,
    /// From another issuer.
    Issuer,
    /// For other audiences.
    Audience,
    /// Its time has not come.
    NotYetValid,
    /// Made in the future.
    IssuedInFuture,
    /// Its time is over.
    Expired,
    /// The account is gone, or another bears its name.
    AccountGone,
    /// The object it is bound to is gone, or another bears its name.
    BoundGone,
}

impl Reason {
    /// One fixed sentence; it repeats nothing of the token.
    #[must_use]
    pub const fn sentence(self) -> &'static str {
        match self {
            Reason::TooLong => "the token is too long",
            Reason::Malformed => "the token is malformed",
            Reason::Algorithm => "the token's signing algorithm is not accepted",
            Reason::UnknownKey => "the token names an unknown key",
            Reason::Signature => "the token's signature does not hold",
            Reason::Claims => "the token's claims cannot be read",
            Reason::Issuer => "the token is from another issuer",
            Reason::Audience => "the token is for other audiences",
            Reason::NotYetValid => "the token is not valid yet",
            Reason::IssuedInFuture => "the token was issued in the future",
            Reason::Expired => "the token has expired",
            Reason::AccountGone => "the token's service account is gone",
            Reason::BoundGone => "the object the token is bound to is gone",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.sentence())
    }
}

/// Signs the claims.
///
/// # Errors
/// When the claims make no token, the token would be too long, or no signature came.
pub fn issue(keys: &Keys, claims: &Claims) -> Result<String, IssueError> {
    if claims.is_sound() { seal(keys, claims.to_json()) } else { Err(IssueError::Claims) }
}

/// Signs the claims of a token that a Secret will hold.
///
/// # Errors
/// As [`issue`].
pub fn issue_legacy(keys: &Keys, claims: &LegacyClaims) -> Result<String, IssueError> {
    if claims.is_sound() { seal(keys, claims.to_json()) } else { Err(IssueError::Claims) }
}

fn seal(keys: &Keys, claims: Object) -> Result<String, IssueError> {
    let header = json!({ "alg": keys.signing_algorithm().name(), "kid": keys.signing_id() });
    let payload = Value::Object(claims);
    let mut token = format!("{}.{}", encode(header.to_string()), encode(payload.to_string()));
    let signature = keys.sign(token.as_bytes()).ok_or(IssueError::Signature)?;
    token.push('.');
    token.push_str(&encode(signature));
    if token.len() > TOKEN_BYTES_MAX { Err(IssueError::TooLong) } else { Ok(token) }
}

/// Believes a token, or says why not.
///
/// `now` is in seconds since 1970. That the account and the bound object still stand is a
/// second question: [`Verified::stands`].
///
/// # Errors
/// With the first reason found, in the order of this module's drawing.
pub fn verify(
    keys: &Keys,
    token: &str,
    now: i64,
    issuer: &str,
    audiences_accepted: &[&str],
) -> Result<Verified, Refused> {
    let payload = signed_payload(keys, token)?;
    let payload = strict::object(&payload).ok_or(Reason::Claims)?;
    if LegacyClaims::are(&payload) {
        let claims = LegacyClaims::from_json(&payload).ok_or(Reason::Claims)?;
        // It says nothing of audiences, so it is meant for this server alone.
        if !audiences_accepted.contains(&issuer) {
            return Err(Reason::Audience.into());
        }
        return Ok(Verified::legacy(claims, issuer, token));
    }
    let claims = Claims::from_json(&payload).ok_or(Reason::Claims)?;
    if claims.issuer != issuer {
        return Err(Reason::Issuer.into());
    }
    let audiences = audiences_accepted
        .iter()
        .filter(|accepted| claims.audiences.iter().any(|meant| meant == **accepted))
        .map(|accepted| (*accepted).to_owned())
        .collect::<Vec<_>>();
    if audiences.is_empty() {
        return Err(Reason::Audience.into());
    }
    check_times(&claims, now)?;
    Ok(Verified::new(claims, audiences))
}

fn check_times(claims: &Claims, now: i64) -> Result<(), Reason> {
    let latest = now.saturating_add(LEEWAY_SECONDS);
    if latest < claims.not_before {
        Err(Reason::NotYetValid)
    } else if now.saturating_sub(LEEWAY_SECONDS) > claims.expires_at {
        Err(Reason::Expired)
    } else if latest < claims.issued_at {
        Err(Reason::IssuedInFuture)
    } else {
        Ok(())
    }
}

/// The payload of a token whose signature holds.
fn signed_payload(keys: &Keys, token: &str) -> Result<Vec<u8>, Reason> {
    if token.len() > TOKEN_BYTES_MAX {
        return Err(Reason::TooLong);
    }
    let (message, signature) = token.rsplit_once('.').ok_or(Reason::Malformed)?;
    let (header, payload) = message.split_once('.').ok_or(Reason::Malformed)?;
    // A fourth part would leave a dot in the payload, which is not base64.
    let header = Header::read(&decode(header)?)?;
    let payload = decode(payload)?;
    let signature = decode(signature)?;
    let holds = |key: &VerifyingKey| key.verifies(message.as_bytes(), &signature);
    match header.key {
        Some(id) => {
            let key = keys.verifying().iter().find(|key| key.id() == id);
            let key = key.ok_or(Reason::UnknownKey)?;
            if key.algorithm() != header.algorithm {
                return Err(Reason::Algorithm);
            }
            if holds(key) { Ok(payload) } else { Err(Reason::Signature) }
        }
        None => {
            let mut able =
                keys.verifying().iter().filter(|key| key.algorithm() == header.algorithm);
            if able.any(holds) { Ok(payload) } else { Err(Reason::Signature) }
        }
    }
}

struct Header {
    algorithm: Algorithm,
    key: Option<String>,
}

impl Header {
    /// Keys that a token brings along (`jwk`, `jku`, `x5c`) are not even read.
    fn read(bytes: &[u8]) -> Result<Header, Reason> {
        let mut header = strict::object(bytes).ok_or(Reason::Malformed)?;
        // A token may demand extensions to be understood; none is.
        if header.contains_key("crit") {
            return Err(Reason::Malformed);
        }
        let algorithm = match header.get("alg") {
            Some(Value::String(name)) => Algorithm::named(name).ok_or(Reason::Algorithm)?,
            _ => return Err(Reason::Malformed),
        };
        let key = match header.remove("kid") {
            None => None,
            Some(Value::String(id)) => Some(id).filter(|id| !id.is_empty()),
            Some(_) => return Err(Reason::Malformed),
        };
        Ok(Header { algorithm, key })
    }
}

fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Canonical only: no padding, no line breaks, no stray bits in the last letter.
fn decode(text: &str) -> Result<Vec<u8>, Reason> {
    URL_SAFE_NO_PAD.decode(text).map_err(|_| Reason::Malformed)
}
