//! A cluster as data: what is served, what is there, what could not be read. Nothing here asks anybody.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;

use crate::meta::Meta;
use crate::served::{Kinds, Served};

/// One object and what it is served as.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its kind.
    pub served: Arc<Served>,
    /// Its metadata.
    pub meta: Meta,
    /// It could not be read, but somebody names it; taken to be alive, so that nothing is guessed.
    pub assumed: bool,
}

/// A kind that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Unread {
    /// The plural with its group, or a group and version.
    pub kind: String,
    /// Why.
    pub why: String,
}

/// Everything that was read.
#[derive(Clone, Debug)]
pub struct Facts {
    /// What the cluster serves.
    pub kinds: Kinds,
    /// What is there, each uid once.
    pub objects: Vec<Found>,
    /// What could not be read.
    pub unread: Vec<Unread>,
    /// When it was read.
    pub now: Timestamp,
}

impl Facts {
    /// The objects that somebody names as owners and that are not among those read:
    /// what the reference says, its kind, and where to look.
    pub(crate) fn unseen_owners(&self) -> Vec<(String, Arc<Served>, String, String)> {
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
    pub(crate) fn assume(&mut self, uid: &str, served: &Arc<Served>, namespace: &str, name: &str) {
        let meta = Meta {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            uid: uid.to_owned(),
            ..Meta::default()
        };
        self.objects.push(Found { served: Arc::clone(served), meta, assumed: true });
    }

    /// Settles who is absent without asking anybody: an unseen owner of a kind that was not read
    /// is taken to be alive, every other one is absent.
    pub fn assume_unread(&mut self) {
        for (uid, served, namespace, name) in self.unseen_owners() {
            if self.unread.iter().any(|unread| unread.kind == served.qualified()) {
                self.assume(&uid, &served, &namespace, &name);
            }
        }
    }
}

/// Who an object is, for people and for JSON.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Named {
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

impl Named {
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

impl fmt::Display for Named {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} `{}`", self.kind, self.place())
    }
}

impl Found {
    /// Who it is.
    #[must_use]
    pub fn named(&self) -> Named {
        Named {
            kind: self.served.kind.clone(),
            namespace: self.meta.namespace.clone(),
            name: self.meta.name.clone(),
            api_version: self.served.api_version(),
            uid: self.meta.uid.clone(),
        }
    }
}
