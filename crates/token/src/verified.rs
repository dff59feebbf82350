//! Who speaks when a token holds, and whether its objects still stand.

use std::collections::BTreeMap;

use ring::digest::{SHA256, digest};

use crate::LEEWAY_SECONDS;
use crate::claims::{BoundKind, BoundObject, Claims, NodeClaim, TokenSubject};
use crate::legacy::LegacyClaims;
use crate::token::{TokenError, TokenErrorReason};

/// What a believed token says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// The account's namespace.
    pub namespace: String,
    /// The account's name.
    pub name: String,
    /// The account's uid.
    pub uid: String,
    /// The audiences that are both accepted and meant, in the order accepted.
    pub audiences: Vec<String>,
    /// The object it dies with.
    pub bound: Option<BoundObject>,
    /// The node of the pod it is bound to, as told when it was issued.
    pub node: Option<NodeClaim>,
    /// Its own id; empty when it has none.
    pub id: String,
    /// When the holder should long have asked for a new one.
    pub warn_after: Option<i64>,
    /// Until when it counts, in seconds since 1970.
    pub expires_at: i64,
    /// The SHA-256 of a token that a Secret holds. Its `bound` is that Secret, by name alone.
    held: Option<Vec<u8>>,
}

/// An object as the host found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectLiveness<'a> {
    /// Its uid.
    pub uid: &'a str,
    /// Its `metadata.deletionTimestamp`, in seconds since 1970.
    pub deleted_at: Option<i64>,
}

impl ObjectLiveness<'_> {
    fn is(&self, uid: &str, now: i64) -> bool {
        let oldest = now.saturating_sub(LEEWAY_SECONDS);
        self.uid == uid && self.deleted_at.is_none_or(|deleted| deleted >= oldest)
    }
}

impl Verified {
    pub(crate) fn new(claims: Claims, audiences: Vec<String>) -> Verified {
        let Claims { subject, bound, node, id, warn_after, expires_at, .. } = claims;
        let TokenSubject { namespace, name, uid } = subject;
        let held = None;
        Verified { namespace, name, uid, audiences, bound, node, id, warn_after, expires_at, held }
    }

    pub(crate) fn legacy(claims: LegacyClaims, audience: &str, token: &str) -> Verified {
        let TokenSubject { namespace, name, uid } = claims.subject;
        Verified {
            namespace,
            name,
            uid,
            audiences: vec![audience.to_owned()],
            bound: Some(BoundObject {
                kind: BoundKind::Secret,
                name: claims.secret,
                uid: String::new(),
            }),
            node: None,
            id: String::new(),
            warn_after: None,
            expires_at: i64::MAX,
            held: Some(sha256(token.as_bytes())),
        }
    }

    /// Whether it counts only while a Secret holds it.
    #[must_use]
    pub fn is_legacy(&self) -> bool {
        self.held.is_some()
    }

    /// Whether this is the token, as its Secret holds it.
    #[must_use]
    pub fn is_held_as(&self, token: &[u8]) -> bool {
        self.held.as_ref().is_some_and(|held| *held == sha256(token))
    }

    /// Whether an object is the one that is meant. Who holds a token that never ends loses it at once.
    fn is_meant(&self, found: ObjectLiveness<'_>, uid: &str, now: i64) -> bool {
        if self.is_legacy() {
            return found.deleted_at.is_none() && (uid.is_empty() || found.uid == uid);
        }
        found.is(uid, now)
    }

    /// Whether the account and the bound object, as found now, are the ones the token means.
    ///
    /// An object marked as deleted stands for [`LEEWAY_SECONDS`] more; not for a token that a Secret holds, of
    /// which the host also asks [`Verified::is_held_as`].
    ///
    /// # Errors
    /// When one is absent, has another uid, or has been deleted for too long.
    pub fn stands(
        &self,
        now: i64,
        account: Option<ObjectLiveness<'_>>,
        bound: Option<ObjectLiveness<'_>>,
    ) -> Result<(), TokenError> {
        if !account.is_some_and(|found| self.is_meant(found, &self.uid, now)) {
            return Err(TokenErrorReason::AccountGone.into());
        }
        match &self.bound {
            Some(meant) if !bound.is_some_and(|found| self.is_meant(found, &meant.uid, now)) => {
                Err(TokenErrorReason::BoundGone.into())
            }
            _ => Ok(()),
        }
    }

    /// When it counts no longer at the latest, with the account and the bound object as found: the first second
    /// at which it is refused.
    #[must_use]
    pub fn ends_at(
        &self,
        account: Option<ObjectLiveness<'_>>,
        bound: Option<ObjectLiveness<'_>>,
    ) -> i64 {
        let deleted = [account, bound].into_iter().flatten().filter_map(|found| found.deleted_at);
        let end = deleted.fold(self.expires_at, i64::min);
        end.saturating_add(LEEWAY_SECONDS).saturating_add(1)
    }

    /// The user it speaks for.
    #[must_use]
    pub fn username(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.name)
    }

    /// The groups of every service account; the server adds `system:authenticated` to all users.
    #[must_use]
    pub fn groups(&self) -> Vec<String> {
        vec![
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{}", self.namespace),
        ]
    }

    /// What else is known about the user: the token's id, its pod and its node.
    #[must_use]
    pub fn extra(&self) -> BTreeMap<String, Vec<String>> {
        let mut extra = BTreeMap::new();
        let mut tell = |name: &str, value: &str| {
            if !value.is_empty() {
                let name = format!("authentication.kubernetes.io/{name}");
                extra.insert(name, vec![value.to_owned()]);
            }
        };
        if !self.id.is_empty() {
            tell("credential-id", &format!("JTI={}", self.id));
        }
        match &self.bound {
            Some(BoundObject { kind: BoundKind::Pod, name, uid }) => {
                tell("pod-name", name);
                tell("pod-uid", uid);
            }
            Some(BoundObject { kind: BoundKind::Node, name, uid }) => {
                tell("node-name", name);
                tell("node-uid", uid);
            }
            _ => {}
        }
        if let Some(node) = &self.node {
            tell("node-name", &node.name);
            tell("node-uid", &node.uid);
        }
        extra
    }
}

fn sha256(bytes: &[u8]) -> Vec<u8> {
    digest(&SHA256, bytes).as_ref().to_vec()
}
