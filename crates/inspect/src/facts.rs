//! A cluster as data: what is served, what is there, what could not be read. Nothing here asks anybody.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;

use crate::meta::ObjectMetadata;
use crate::served::{DiscoveredKinds, DiscoveredResource};

/// One object and what it is served as.
#[derive(Clone, Debug)]
pub struct ObservedObject {
    /// Its kind.
    pub served: Arc<DiscoveredResource>,
    /// Its metadata.
    pub meta: ObjectMetadata,
    /// It could not be read, but somebody names it; taken to be alive, so that nothing is guessed.
    pub assumed: bool,
}

/// A kind that could not be read, or not everywhere.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct UnreadableKind {
    /// The plural with its group, or a group and version.
    pub kind: String,
    /// Why.
    pub why: String,
    /// The one namespace in which it was read all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within: Option<String>,
}

impl UnreadableKind {
    /// A kind of which nothing was read.
    #[must_use]
    pub fn new(kind: impl Into<String>, why: impl Into<String>) -> UnreadableKind {
        UnreadableKind { kind: kind.into(), why: why.into(), within: None }
    }

    /// A kind that was read in one namespace only.
    #[must_use]
    pub fn but_within(kind: String, why: String, namespace: &str) -> UnreadableKind {
        UnreadableKind { kind, why, within: Some(namespace.to_owned()) }
    }

    /// Whether nothing of it is missing in a namespace.
    #[must_use]
    pub fn was_read_in(&self, namespace: &str) -> bool {
        self.within.as_deref() == Some(namespace)
    }
}

/// Everything that was read.
#[derive(Clone, Debug)]
pub struct ClusterSnapshot {
    /// What the cluster serves.
    pub kinds: DiscoveredKinds,
    /// What is there, each uid once.
    pub objects: Vec<ObservedObject>,
    /// What could not be read.
    pub unread: Vec<UnreadableKind>,
    /// When it was read.
    pub now: Timestamp,
}

impl ClusterSnapshot {
    /// The objects that somebody names as owners and that are not among those read:
    /// what the reference says, its kind, and where to look.
    pub(crate) fn unseen_owners(&self) -> Vec<(String, Arc<DiscoveredResource>, String, String)> {
        let known: std::collections::HashSet<&str> =
            self.objects.iter().map(|found| found.meta.uid.as_str()).collect();
        let mut unseen = std::collections::BTreeMap::new();
        for found in &self.objects {
            for owner in &found.meta.owner_references {
                if known.contains(owner.uid.as_str()) {
                    continue;
                }
                let Some(served) = self.kinds.find(&owner.api_version, &owner.kind) else {
                    continue;
                };
                if served.namespaced && found.meta.namespace.is_empty() {
                    continue;
                }
                let namespace =
                    if served.namespaced { found.meta.namespace.clone() } else { String::new() };
                let key = (owner.uid.clone(), served.qualified(), namespace, owner.name.clone());
                unseen.entry(key).or_insert_with(|| Arc::new(served.clone()));
            }
        }
        unseen
            .into_iter()
            .map(|((uid, _, namespace, name), served)| (uid, served, namespace, name))
            .collect()
    }

    /// Takes an owner that could not be read to be alive.
    pub(crate) fn assume(
        &mut self,
        uid: &str,
        served: &Arc<DiscoveredResource>,
        namespace: &str,
        name: &str,
    ) {
        let meta = ObjectMetadata {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            uid: uid.to_owned(),
            ..ObjectMetadata::default()
        };
        self.objects.push(ObservedObject { served: Arc::clone(served), meta, assumed: true });
    }

    /// Settles who is absent without asking anybody: an unseen owner of a kind that was not read
    /// where it would be is taken to be alive, every other one is absent.
    pub fn assume_unread(&mut self) {
        for (uid, served, namespace, name) in self.unseen_owners() {
            let unread = self.unread_kind(&served);
            if unread.is_some_and(|unread| !unread.was_read_in(&namespace)) {
                self.assume(&uid, &served, &namespace, &name);
            }
        }
    }

    /// What was not read of a kind.
    pub(crate) fn unread_kind(&self, served: &DiscoveredResource) -> Option<&UnreadableKind> {
        let kind = served.qualified();
        self.unread.iter().find(|unread| unread.kind == kind)
    }

    /// What could not be read and may be missing in an answer about a namespace. Owners and dependents
    /// never cross namespaces, so that other namespaces do not matter, and of kinds outside of
    /// namespaces only those that own something there do. An empty name is the whole cluster.
    #[must_use]
    pub fn unread_about(&self, namespace: &str) -> Vec<UnreadableKind> {
        if namespace.is_empty() {
            return self.unread.clone();
        }
        let matters = |unread: &&UnreadableKind| {
            let served = self.kinds.preferred().find(|served| served.qualified() == unread.kind);
            // A group that does not answer may hold anything.
            served.is_none_or(|served| {
                served.namespaced
                    || self.objects.iter().any(|found| found.assumed && *found.served == *served)
            })
        };
        self.unread.iter().filter(matters).cloned().collect()
    }
}

/// Who an object is, for people and for JSON.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectIdentity {
    /// The kind.
    pub kind: String,
    /// The namespace; empty for what lives in none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The group and version.
    pub api_version: String,
    /// The uid.
    pub uid: String,
}

impl ObjectIdentity {
    /// Namespace and name.
    #[must_use]
    pub fn place(&self) -> String {
        if self.namespace.is_empty() {
            return self.name.clone();
        }
        format!("{}/{}", self.namespace, self.name)
    }

    /// The words that name it on a command line.
    #[must_use]
    pub fn argument(&self) -> String {
        let group = self.api_version.split_once('/').map_or("", |(group, _)| group);
        let kind = self.kind.to_lowercase();
        // Only kinds of others need their group; those of Kubernetes are known without.
        let kind = if group.contains('.') && !group.ends_with(".k8s.io") {
            format!("{kind}.{group}")
        } else {
            kind
        };
        if self.namespace.is_empty() {
            return format!("{kind}/{}", self.name);
        }
        format!("{kind}/{} -n {}", self.name, self.namespace)
    }
}

impl fmt::Display for ObjectIdentity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} `{}`", self.kind, self.place())
    }
}

impl ObservedObject {
    /// Who it is.
    #[must_use]
    pub fn named(&self) -> ObjectIdentity {
        ObjectIdentity {
            kind: self.served.kind.clone(),
            namespace: self.meta.namespace.clone(),
            name: self.meta.name.clone(),
            api_version: self.served.api_version(),
            uid: self.meta.uid.clone(),
        }
    }
}
