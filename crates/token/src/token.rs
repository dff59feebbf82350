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
use crate::key::{Algorithm, KeySet, VerifyingKey};
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
pub struct TokenError {
    /// Why, for the audit log; callers learn only that it was refused.
    pub reason: TokenErrorReason,
}

impl From<TokenErrorReason> for TokenError {
    fn from(reason: TokenErrorReason) -> TokenError {
        TokenError { reason }
    }
}

/// Why a token is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenErrorReason {
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

impl TokenErrorReason {
    /// One fixed sentence; it repeats nothing of the token.
    #[must_use]
    pub const fn sentence(self) -> &'static str {
        match self {
            TokenErrorReason::TooLong => "the token is too long",
            TokenErrorReason::Malformed => "the token is malformed",
            TokenErrorReason::Algorithm => "the token's signing algorithm is not accepted",
            TokenErrorReason::UnknownKey => "the token names an unknown key",
            TokenErrorReason::Signature => "the token's signature does not hold",
            TokenErrorReason::Claims => "the token's claims cannot be read",
            TokenErrorReason::Issuer => "the token is from another issuer",
            TokenErrorReason::Audience => "the token is for other audiences",
            TokenErrorReason::NotYetValid => "the token is not valid yet",
            TokenErrorReason::IssuedInFuture => "the token was issued in the future",
            TokenErrorReason::Expired => "the token has expired",
            TokenErrorReason::AccountGone => "the token's service account is gone",
            TokenErrorReason::BoundGone => "the object the token is bound to is gone",
        }
    }
}

impl fmt::Display for TokenErrorReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.sentence())
    }
}

/// Signs the claims.
///
/// # Errors
/// When the claims make no token, the token would be too long, or no signature came.
pub fn issue(keys: &KeySet, claims: &Claims) -> Result<String, IssueError> {
    if claims.is_sound() { seal(keys, claims.to_json()) } else { Err(IssueError::Claims) }
}

/// Signs the claims of a token that a Secret will hold.
///
/// # Errors
/// As [`issue`].
pub fn issue_legacy(keys: &KeySet, claims: &LegacyClaims) -> Result<String, IssueError> {
    if claims.is_sound() { seal(keys, claims.to_json()) } else { Err(IssueError::Claims) }
}

fn seal(keys: &KeySet, claims: Object) -> Result<String, IssueError> {
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
    keys: &KeySet,
    token: &str,
    now: i64,
    issuer: &str,
    audiences_accepted: &[&str],
) -> Result<Verified, TokenError> {
    let payload = signed_payload(keys, token)?;
    let payload = strict::object(&payload).ok_or(TokenErrorReason::Claims)?;
    if LegacyClaims::are(&payload) {
        let claims = LegacyClaims::from_json(&payload).ok_or(TokenErrorReason::Claims)?;
        // It says nothing of audiences, so it is meant for this server alone.
        if !audiences_accepted.contains(&issuer) {
            return Err(TokenErrorReason::Audience.into());
        }
        return Ok(Verified::legacy(claims, issuer, token));
    }
    let claims = Claims::from_json(&payload).ok_or(TokenErrorReason::Claims)?;
    if claims.issuer != issuer {
        return Err(TokenErrorReason::Issuer.into());
    }
    let audiences = audiences_accepted
        .iter()
        .filter(|accepted| claims.audiences.iter().any(|meant| meant == **accepted))
        .map(|accepted| (*accepted).to_owned())
        .collect::<Vec<_>>();
    if audiences.is_empty() {
        return Err(TokenErrorReason::Audience.into());
    }
    check_times(&claims, now)?;
    Ok(Verified::new(claims, audiences))
}

fn check_times(claims: &Claims, now: i64) -> Result<(), TokenErrorReason> {
    let latest = now.saturating_add(LEEWAY_SECONDS);
    if latest < claims.not_before {
        Err(TokenErrorReason::NotYetValid)
    } else if now.saturating_sub(LEEWAY_SECONDS) > claims.expires_at {
        Err(TokenErrorReason::Expired)
    } else if latest < claims.issued_at {
        Err(TokenErrorReason::IssuedInFuture)
    } else {
        Ok(())
    }
}

/// The payload of a token whose signature holds.
fn signed_payload(keys: &KeySet, token: &str) -> Result<Vec<u8>, TokenErrorReason> {
    if token.len() > TOKEN_BYTES_MAX {
        return Err(TokenErrorReason::TooLong);
    }
    let (message, signature) = token.rsplit_once('.').ok_or(TokenErrorReason::Malformed)?;
    let (header, payload) = message.split_once('.').ok_or(TokenErrorReason::Malformed)?;
    // A fourth part would leave a dot in the payload, which is not base64.
    let header = TokenHeader::read(&decode(header)?)?;
    let payload = decode(payload)?;
    let signature = decode(signature)?;
    let holds = |key: &VerifyingKey| key.verifies(message.as_bytes(), &signature);
    match header.key {
        Some(id) => {
            let key = keys.verifying().iter().find(|key| key.id() == id);
            let key = key.ok_or(TokenErrorReason::UnknownKey)?;
            if key.algorithm() != header.algorithm {
                return Err(TokenErrorReason::Algorithm);
            }
            if holds(key) { Ok(payload) } else { Err(TokenErrorReason::Signature) }
        }
        None => {
            let mut able =
                keys.verifying().iter().filter(|key| key.algorithm() == header.algorithm);
            if able.any(holds) { Ok(payload) } else { Err(TokenErrorReason::Signature) }
        }
    }
}

struct TokenHeader {
    algorithm: Algorithm,
    key: Option<String>,
}

impl TokenHeader {
    /// Keys that a token brings along (`jwk`, `jku`, `x5c`) are not even read.
    fn read(bytes: &[u8]) -> Result<TokenHeader, TokenErrorReason> {
        let mut header = strict::object(bytes).ok_or(TokenErrorReason::Malformed)?;
        // A token may demand extensions to be understood; none is.
        if header.contains_key("crit") {
            return Err(TokenErrorReason::Malformed);
        }
        let algorithm = match header.get("alg") {
            Some(Value::String(name)) => {
                Algorithm::named(name).ok_or(TokenErrorReason::Algorithm)?
            }
            _ => return Err(TokenErrorReason::Malformed),
        };
        let key = match header.remove("kid") {
            None => None,
            Some(Value::String(id)) => Some(id).filter(|id| !id.is_empty()),
            Some(_) => return Err(TokenErrorReason::Malformed),
        };
        Ok(TokenHeader { algorithm, key })
    }
}

fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Canonical only: no padding, no line breaks, no stray bits in the last letter.
fn decode(text: &str) -> Result<Vec<u8>, TokenErrorReason> {
    URL_SAFE_NO_PAD.decode(text).map_err(|_| TokenErrorReason::Malformed)
}
