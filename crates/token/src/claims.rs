//! What a token says, and how that is laid out as JSON.
//!
//! Whether it is true now is asked elsewhere.

use serde_json::{Map, Value, json};
use tenure_machinery::{Object, ObjectExt as _};

/// The claim under which everything of Kubernetes stands.
pub(crate) const KUBERNETES: &str = "kubernetes.io";

/// What a token says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    /// Who signed it (`iss`).
    pub issuer: String,
    /// The account it speaks for (`sub`).
    pub subject: TokenSubject,
    /// For whom it is meant (`aud`).
    pub audiences: Vec<String>,
    /// When it was made, in seconds since 1970 (`iat`).
    pub issued_at: i64,
    /// From when it counts (`nbf`).
    pub not_before: i64,
    /// Until when it counts (`exp`).
    pub expires_at: i64,
    /// Its own id (`jti`); empty when it has none.
    pub id: String,
    /// The object it dies with.
    pub bound: Option<BoundObject>,
    /// For a token bound to a pod: the node the pod was on, told but never checked.
    pub node: Option<NodeClaim>,
    /// When the holder should long have asked for a new one (`warnafter`).
    pub warn_after: Option<i64>,
}

/// A service account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenSubject {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

impl TokenSubject {
    /// The user that a token of this account stands for.
    #[must_use]
    pub fn username(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.name)
    }

    /// A colon inside a part would let two accounts share a username.
    pub(crate) fn is_sound(&self) -> bool {
        let part = |text: &str| !text.is_empty() && !text.contains(':');
        part(&self.namespace) && part(&self.name) && !self.uid.is_empty()
    }
}

/// An object whose end is the token's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundObject {
    /// Its kind.
    pub kind: BoundKind,
    /// Its name; pods and secrets are in the account's namespace.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

/// The kinds a token may be bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each name is the kind")]
pub enum BoundKind {
    Pod,
    Secret,
    Node,
}

impl BoundKind {
    const ALL: [BoundKind; 3] = [BoundKind::Pod, BoundKind::Secret, BoundKind::Node];

    /// As it stands in `kind`.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            BoundKind::Pod => "Pod",
            BoundKind::Secret => "Secret",
            BoundKind::Node => "Node",
        }
    }

    /// As it stands in a path.
    #[must_use]
    pub const fn resource(self) -> &'static str {
        match self {
            BoundKind::Pod => "pods",
            BoundKind::Secret => "secrets",
            BoundKind::Node => "nodes",
        }
    }

    pub(crate) fn named(kind: &str) -> Option<BoundKind> {
        BoundKind::ALL.into_iter().find(|known| known.kind() == kind)
    }

    const fn claim(self) -> &'static str {
        match self {
            BoundKind::Pod => "pod",
            BoundKind::Secret => "secret",
            BoundKind::Node => "node",
        }
    }
}

/// A node told for information.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeClaim {
    /// Its name.
    pub name: String,
    /// Its uid; empty when the node was not there.
    pub uid: String,
}

impl Claims {
    /// Whether a token may say this: nothing it needs is empty, and its times are in order.
    pub(crate) fn is_sound(&self) -> bool {
        let bound = self.bound.as_ref();
        self.subject.is_sound()
            && !self.issuer.is_empty()
            && !self.audiences.is_empty()
            && self.not_before <= self.expires_at
            && bound.is_none_or(|bound| !bound.name.is_empty() && !bound.uid.is_empty())
            && self.node.as_ref().is_none_or(|node| {
                !node.name.is_empty() && bound.is_some_and(|bound| bound.kind == BoundKind::Pod)
            })
    }

    pub(crate) fn to_json(&self) -> Object {
        let reference = |name: &str, uid: &str| {
            let mut members = Object::from_iter([("name".to_owned(), Value::from(name))]);
            if !uid.is_empty() {
                members.insert("uid".to_owned(), uid.into());
            }
            Value::Object(members)
        };
        let mut own = Map::new();
        own.insert("namespace".to_owned(), self.subject.namespace.as_str().into());
        own.insert("serviceaccount".to_owned(), reference(&self.subject.name, &self.subject.uid));
        if let Some(bound) = &self.bound {
            own.insert(bound.kind.claim().to_owned(), reference(&bound.name, &bound.uid));
        }
        if let Some(node) = &self.node {
            own.insert("node".to_owned(), reference(&node.name, &node.uid));
        }
        if let Some(time) = self.warn_after {
            own.insert("warnafter".to_owned(), time.into());
        }
        let mut claims = Object::new();
        for (name, value) in [
            ("iss", json!(self.issuer)),
            ("sub", json!(self.subject.username())),
            ("aud", json!(self.audiences)),
            ("iat", json!(self.issued_at)),
            ("nbf", json!(self.not_before)),
            ("exp", json!(self.expires_at)),
            (KUBERNETES, Value::Object(own)),
        ] {
            claims.insert(name.to_owned(), value);
        }
        if !self.id.is_empty() {
            claims.insert("jti".to_owned(), self.id.as_str().into());
        }
        claims
    }

    /// Reads what [`Claims::to_json`] wrote; nothing if a claim is missing, of another type,
    /// at odds with another, or unknown in a place where it might limit the token.
    pub(crate) fn from_json(claims: &Object) -> Option<Claims> {
        let own = claims.map_at(&[KUBERNETES])?;
        let subject = TokenSubject {
            namespace: own.str_at(&["namespace"])?.to_owned(),
            name: own.str_at(&["serviceaccount", "name"])?.to_owned(),
            uid: own.str_at(&["serviceaccount", "uid"])?.to_owned(),
        };
        if claims.str_at(&["sub"])? != subject.username() {
            return None;
        }
        let (bound, node) = bound_of(own)?;
        let claims = Claims {
            issuer: claims.str_at(&["iss"])?.to_owned(),
            subject,
            audiences: audiences_of(claims.get("aud")?)?,
            issued_at: claims.int_at(&["iat"])?,
            not_before: claims.int_at(&["nbf"])?,
            expires_at: claims.int_at(&["exp"])?,
            id: optional(claims, "jti", Value::as_str)?.unwrap_or_default().to_owned(),
            bound,
            node,
            warn_after: optional(own, "warnafter", Value::as_i64)?,
        };
        claims.is_sound().then_some(claims)
    }
}

/// A member that may be missing but not of another type: `None` is a fault.
fn optional<'a, T>(
    object: &'a Object,
    name: &str,
    read: impl FnOnce(&'a Value) -> Option<T>,
) -> Option<Option<T>> {
    match object.get(name) {
        None => Some(None),
        Some(value) => read(value).map(Some),
    }
}

/// One audience may stand alone; several stand in a list.
fn audiences_of(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::String(one) => Some(vec![one.clone()]),
        Value::Array(many) => many.iter().map(|item| item.as_str().map(str::to_owned)).collect(),
        _ => None,
    }
}

fn bound_of(own: &Object) -> Option<(Option<BoundObject>, Option<NodeClaim>)> {
    const KNOWN: [&str; 6] = ["namespace", "serviceaccount", "pod", "secret", "node", "warnafter"];
    // A binding this server does not know must not pass for no binding.
    if own.keys().any(|name| !KNOWN.contains(&name.as_str())) {
        return None;
    }
    let read = |kind: BoundKind| match own.get(kind.claim()) {
        None => Some(None),
        Some(value) => {
            let object = value.as_object()?;
            let name = object.str_at(&["name"])?.to_owned();
            let uid = optional(object, "uid", Value::as_str)?.unwrap_or_default().to_owned();
            Some(Some(BoundObject { kind, name, uid }))
        }
    };
    match (read(BoundKind::Pod)?, read(BoundKind::Secret)?, read(BoundKind::Node)?) {
        (Some(pod), None, node) => {
            Some((Some(pod), node.map(|node| NodeClaim { name: node.name, uid: node.uid })))
        }
        (None, None, bound) | (None, bound @ Some(_), None) => Some((bound, None)),
        _ => None,
    }
}
