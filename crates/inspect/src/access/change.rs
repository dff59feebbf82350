//! What a proposed change gives and takes (R134). The change is made to a copy of what was read.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};
use tenure_reference::{Consumer, GROUP, Resource, ServedType, Strategy, Unusable};
use tenure_references::live::ProposedObjects;

use super::apply::applied;
use super::{AccessSubject, ClusterAccess, ObjectName, Via};
use crate::facts::UnreadableKind;

/// What is done with the objects of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit {
    /// They are applied.
    Apply,
    /// They are deleted.
    Delete,
}

/// An object of a change that cannot be judged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotApplied {
    /// Something that every object has is missing.
    #[error("an object of the change has no `{0}`")]
    Missing(&'static str),
    /// It is of one of the three kinds and says nothing usable.
    #[error("{0}: {1}")]
    NotUnderstood(String, String),
    /// An origin of another version than the one strategies read.
    #[error("{0} is written as {1}, and strategies read {2}: write it so")]
    Version(String, String, String),
}

/// Somebody's access to a target.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct SubjectAccess {
    /// Who.
    pub subject: AccessSubject,
    /// To what.
    pub target: ObjectName,
    /// Why: the first witness.
    pub via: Via,
}

/// What a change gives and takes.
#[derive(Clone, Debug, Default, Serialize)]
pub struct AccessChange {
    /// Access there is only after it.
    pub gained: Vec<SubjectAccess>,
    /// Access there was only before it.
    pub lost: Vec<SubjectAccess>,
    /// Objects that say nothing about references; what they change is not seen.
    pub ignored: Vec<String>,
    /// What could not be read, so that something may be missing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<UnreadableKind>,
}

impl AccessChange {
    /// Whether nobody gains or loses anything.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.gained.is_empty() && self.lost.is_empty()
    }
}

impl ClusterAccess {
    /// What a change would give and take. Objects of namespaces that name none are in the one given.
    ///
    /// # Errors
    /// An object cannot be judged.
    pub fn change(
        &self,
        objects: &[Value],
        edit: Edit,
        namespace: &str,
    ) -> Result<AccessChange, NotApplied> {
        let mut after = self.snapshot.clone();
        let mut ignored = Vec::new();
        let proposal = proposed_by(objects, edit);
        for object in objects {
            let mut proposed = Proposed::of(object, &self.snapshot.served, namespace)?;
            if proposed.group == GROUP {
                if edit == Edit::Apply {
                    proposed.join_with(&after.objects);
                    proposed.understood()?;
                }
                proposed.put_into(&mut after.objects, edit);
            } else if let Some(version) = self.read_at(&proposed, &proposal) {
                if edit == Edit::Apply {
                    proposed.is_written_at(&version)?;
                    let resource = proposed.resource();
                    let same = after.origins.iter().filter(|(of, _)| *of == resource);
                    let same: Vec<Value> = same.map(|(_, object)| object.clone()).collect();
                    proposed.join_with(&same);
                }
                proposed.put_among(&mut after.origins, edit);
            } else {
                ignored.push(proposed.to_string());
            }
        }
        let after = ClusterAccess::new(after, self.roles.clone(), Arc::clone(&self.expressions));
        let (before, after) = (self.accesses(), after.accesses());
        let only = |these: &BTreeMap<(AccessSubject, ObjectName), Via>,
                    those: &BTreeMap<(AccessSubject, ObjectName), Via>| {
            let only = these.iter().filter(|(key, _)| !those.contains_key(*key));
            only.map(|((subject, target), via)| SubjectAccess {
                subject: subject.clone(),
                target: target.clone(),
                via: via.clone(),
            })
            .collect()
        };
        Ok(AccessChange {
            gained: only(&after, &before),
            lost: only(&before, &after),
            ignored,
            unread: self.unread(),
        })
    }

    /// The version at which strategies, in force or of the change, read a type, or selectors look at it.
    fn read_at(&self, proposed: &Proposed, proposal: &ProposedObjects) -> Option<String> {
        let resource = proposed.resource();
        let row = self.snapshot.served.iter().find(|row| row.resource == resource)?;
        let mut strategies = self.snapshot.strategies();
        strategies.extend(proposal.strategies.iter().cloned());
        let strategies: Vec<&Strategy> =
            strategies.iter().filter(|strategy| strategy.origin == row.resource).collect();
        let listed = |version: &&String| {
            let mut versions = strategies.iter().flat_map(|strategy| &strategy.versions);
            versions.any(|paths| paths.version == **version)
        };
        let read = row.versions.iter().find(listed);
        let looked_at = [self.snapshot.looked_at(), proposal.looked_at()]
            .iter()
            .any(|types| types.contains(&row.resource));
        read.or_else(|| row.versions.first().filter(|_| looked_at)).cloned()
    }

    fn accesses(&self) -> BTreeMap<(AccessSubject, ObjectName), Via> {
        let mut all = BTreeMap::new();
        let mut chains = self.live_chains(&self.consumers());
        chains.sort();
        for chain in chains {
            let target = chain.via.target.clone();
            all.entry((chain.subject, target)).or_insert(chain.via);
        }
        all
    }
}

/// The strategies and consumers that a change applies, for which a cluster must be read to judge it; one that takes
/// away proposes none. What a file says in part only is understood when it has been joined with what is there.
#[must_use]
pub fn proposed_by(objects: &[Value], edit: Edit) -> ProposedObjects {
    if edit == Edit::Delete {
        return ProposedObjects::default();
    }
    ProposedObjects {
        strategies: all_of(objects, "ReferenceStrategy", Strategy::from_object),
        consumers: all_of(objects, "ClusterReferenceConsumer", Consumer::from_object),
    }
}

/// The objects of a kind that can be understood.
fn all_of<T>(
    objects: &[Value],
    kind: &str,
    read: impl Fn(&Map<String, Value>) -> Result<T, Unusable>,
) -> Vec<T> {
    let objects = objects.iter().filter_map(Value::as_object);
    let of_kind = objects.filter(|it| it.get("kind").and_then(Value::as_str) == Some(kind));
    of_kind.filter_map(|object| read(object).ok()).collect()
}

/// An object of a change, with what it says of itself.
struct Proposed {
    group: String,
    version: String,
    kind: String,
    plural: String,
    namespace: String,
    name: String,
    object: Value,
}

impl Proposed {
    fn of(object: &Value, served: &[ServedType], usual: &str) -> Result<Proposed, NotApplied> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let needed = |pointer: &str, field: &'static str| {
            let found = text(pointer).filter(|found| !found.is_empty());
            found.map(str::to_owned).ok_or(NotApplied::Missing(field))
        };
        let api_version = needed("/apiVersion", "apiVersion")?;
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        let kind = needed("/kind", "kind")?;
        let name = needed("/metadata/name", "metadata.name")?;
        let row = served.iter().find(|row| row.resource.group == group && row.kind == kind);
        let namespaced = row.is_some_and(|row| row.namespaced);
        let given = text("/metadata/namespace").unwrap_or_default();
        let namespace = match (namespaced, given) {
            (true, "") => usual,
            (true, given) => given,
            (false, _) => "",
        };
        let mut proposed = Proposed {
            group: group.to_owned(),
            version: version.to_owned(),
            plural: row.map(|row| row.resource.resource.clone()).unwrap_or_default(),
            namespace: namespace.to_owned(),
            object: object.clone(),
            kind,
            name,
        };
        if let (Some(metadata), true) =
            (proposed.object.pointer_mut("/metadata").and_then(Value::as_object_mut), namespaced)
        {
            metadata.insert("namespace".to_owned(), namespace.into());
        }
        Ok(proposed)
    }

    /// An object of the three kinds that says nothing usable would count as gone, which nobody means.
    fn understood(&self) -> Result<(), NotApplied> {
        if self.group != GROUP {
            return Ok(());
        }
        let mut index = tenure_references::RefIndex::new();
        index
            .put(&self.object)
            .map_err(|why| NotApplied::NotUnderstood(self.to_string(), why.to_string()))
    }

    /// Origins must be written at the version that strategies read: nothing is converted here.
    fn is_written_at(&self, version: &str) -> Result<(), NotApplied> {
        if self.version == version {
            return Ok(());
        }
        let (found, wanted) = (self.at(&self.version), self.at(version));
        Err(NotApplied::Version(self.to_string(), found, wanted))
    }

    /// A version with its group, as objects write it.
    fn at(&self, version: &str) -> String {
        match self.group.as_str() {
            "" => version.to_owned(),
            group => format!("{group}/{version}"),
        }
    }

    fn resource(&self) -> Resource {
        Resource::new(&self.group, &self.plural)
    }

    /// Makes it what applying it leaves there.
    fn join_with(&mut self, living: &[Value]) {
        let is_live = |kept: &&Value| {
            kept.get("kind").and_then(Value::as_str) == Some(&self.kind)
                && self.is_at_place_of(kept)
        };
        if let Some(live) = living.iter().find(is_live) {
            self.object = applied(live, &self.object);
        }
    }

    /// Replaces it among objects of the three kinds, or takes it out.
    fn put_into(self, objects: &mut Vec<Value>, edit: Edit) {
        objects.retain(|kept| {
            kept.get("kind").and_then(Value::as_str) != Some(&self.kind)
                || !self.is_at_place_of(kept)
        });
        if edit == Edit::Apply {
            objects.push(self.object);
        }
    }

    /// Replaces it among origins, or takes it out.
    fn put_among(self, origins: &mut Vec<(Resource, Value)>, edit: Edit) {
        let resource = self.resource();
        origins.retain(|(of, kept)| *of != resource || !self.is_at_place_of(kept));
        if edit == Edit::Apply {
            origins.push((resource, self.object));
        }
    }

    fn is_at_place_of(&self, kept: &Value) -> bool {
        let text =
            |pointer: &str| kept.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        text("/metadata/namespace") == self.namespace && text("/metadata/name") == self.name
    }
}

impl std::fmt::Display for Proposed {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let slash = if self.namespace.is_empty() { "" } else { "/" };
        write!(out, "{} `{}{slash}{}`", self.kind, self.namespace, self.name)
    }
}
