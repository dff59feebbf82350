//! What proves who asks, and until when: a certificate, a token, or nothing (R148, R149).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tenure_core::Revision;
use tenure_machinery::{Object, ObjectExt};
use tenure_token::{BoundKind, ObjectLiveness, Verified};
use tenure_world::{Record, World};

use crate::clock;

/// The label of Secrets whose token was found unused; its value says since when.
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";

/// What somebody showed.
#[derive(Clone, Debug, Default)]
pub(crate) enum Credential {
    /// Nothing.
    #[default]
    None,
    /// A certificate that counts until this second since 1970.
    Certificate { expires_at: i64 },
    /// A token that a file names, which counts as long as the server runs.
    Fixed,
    /// A token.
    Token(Box<TokenCredential>),
}

/// A token that was believed in a state.
#[derive(Clone, Debug)]
pub(crate) struct TokenCredential {
    pub(crate) verified: Verified,
    pub(crate) believed_at: Revision,
}

fn now() -> i64 {
    clock::timestamp().as_second()
}

impl Credential {
    /// Whether it proves as much in a state as when it was shown.
    pub(crate) fn stands(&self, state: &World, waited: bool) -> bool {
        match self {
            Credential::None | Credential::Fixed => true,
            Credential::Certificate { expires_at } => !waited || now() < *expires_at,
            Credential::Token(token) if !waited && state.revision() == token.believed_at => true,
            Credential::Token(token) => stands(&token.verified, state, now()),
        }
    }

    /// How many seconds it has left in a state.
    pub(crate) fn seconds_left(&self, state: &World) -> Option<u64> {
        let end = match self {
            Credential::None | Credential::Fixed => return None,
            Credential::Certificate { expires_at } => *expires_at,
            Credential::Token(token) => {
                let (account, bound) = found(&token.verified, state);
                token.verified.ends_at(account, bound)
            }
        };
        Some(u64::try_from(end.saturating_sub(now())).unwrap_or(0))
    }

    /// The keys of the objects that it ends with.
    pub(crate) fn keys(&self) -> Vec<String> {
        match self {
            Credential::None | Credential::Fixed | Credential::Certificate { .. } => Vec::new(),
            Credential::Token(token) => {
                let account = std::iter::once(account_key(&token.verified));
                account.chain(bound_key(&token.verified)).collect()
            }
        }
    }
}

/// Whether the account of a token and what it is bound to are there in a state, at a time.
fn stands(verified: &Verified, state: &World, now: i64) -> bool {
    let (account, bound) = found(verified, state);
    now < verified.ends_at(None, None) && verified.stands(now, account, bound).is_ok()
}

/// The account of a token and what it is bound to.
pub(crate) fn found<'w>(
    verified: &Verified,
    state: &'w World,
) -> (Option<ObjectLiveness<'w>>, Option<ObjectLiveness<'w>>) {
    let find = |key: String| state.get(&key);
    let bound = bound_key(verified).and_then(find);
    let bound = bound.filter(|secret| !verified.is_legacy() || holds(secret, verified));
    (find(account_key(verified)).map(|it| liveness(it)), bound.map(|it| liveness(it)))
}

/// Whether a Secret still holds this token, and nobody has marked it as invalid.
fn holds(secret: &Record, verified: &Verified) -> bool {
    let is_valid = secret.label(INVALID_SINCE).is_none_or(str::is_empty);
    let object = serde_json::from_slice::<Object>(secret.bytes()).ok();
    let token = object.as_ref().and_then(|it| it.str_at(&["data", "token"]));
    let token = token.and_then(|text| STANDARD.decode(text).ok());
    is_valid && token.is_some_and(|token| verified.is_held_as(&token))
}

fn account_key(verified: &Verified) -> String {
    format!("/registry/serviceaccounts/{}/{}", verified.namespace, verified.name)
}

fn bound_key(verified: &Verified) -> Option<String> {
    let bound = verified.bound.as_ref()?;
    Some(key_of(bound.kind, &verified.namespace, &bound.name))
}

/// Where an object that tokens may be bound to is kept.
pub(crate) fn key_of(kind: BoundKind, namespace: &str, name: &str) -> String {
    match kind {
        BoundKind::Pod => format!("/registry/pods/{namespace}/{name}"),
        BoundKind::Secret => format!("/registry/secrets/{namespace}/{name}"),
        BoundKind::Node => format!("/registry/minions/{name}"),
    }
}

fn liveness(record: &Record) -> ObjectLiveness<'_> {
    let deleted_at = record
        .deleted()
        .and_then(|text| text.parse::<jiff::Timestamp>().ok())
        .map(jiff::Timestamp::as_second);
    ObjectLiveness { uid: record.uid(), deleted_at }
}
