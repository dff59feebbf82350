//! Who may read what, because something points at it or because a role says so: answers for people.
//!
//! ```text
//!   cluster ──► Rights ──► Answer (can, explain), Readers (who-can), Map, Change (diff), Doctor, Narrow ──► render
//! ```
//!
//! References are decided by the engine `reference` and roles by the engine `rbac`; nothing is decided here, and
//! nothing is written. Law: `spec/referential-authorization.md`, section 9.

mod answer;
mod apply;
mod change;
mod doctor;
mod map;
mod narrow;
mod records;
mod roles;

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use tenure_reference::{Attributes, Consumer, Expressions, Index, Obj, Resource, Subject, Witness};
use tenure_references::live::{ProposedObjects, Snapshot};
use tenure_references::{Identity, ObjectName, RefIndex};

use crate::connect::ReadError;
use crate::facts::UnreadableKind;
use crate::reader::ClusterReader;

pub use answer::{
    AccessCondition, AccessExplanation, AccessReport, ConditionState, Near, Reached, Readers,
    ReferenceExplanation, Review,
};
pub use change::{AccessChange, Edit, NotApplied, SubjectAccess, proposed_by};
pub use doctor::{AccessFinding, Doctor, UnusedGrants};
pub use map::{Chain, Idle, MapScope, ReachMap, ReferenceState};
pub use narrow::{
    Broad, FilteredLists, Narrow, NarrowOutcome, NarrowQuestion, NarrowVerdict, Reach,
    RecordedRead, Window,
};
pub use records::{RecordedRequest, Records, WrongLine};
pub use roles::{BindingName, Given, RightsHolder, Roles};

/// The group of roles and bindings.
pub(crate) use roles::GROUP as ROLES;

/// Evaluates expressions of strategies.
pub type Evaluate = Arc<dyn Expressions + Send + Sync>;

/// Everything that says who may read what.
pub struct ClusterAccess {
    /// The three kinds and the origins.
    pub snapshot: Snapshot,
    /// Roles and bindings.
    pub roles: Roles,
    index: RefIndex,
    expressions: Evaluate,
}

impl ClusterAccess {
    /// From what was read, or made up.
    #[must_use]
    pub fn new(snapshot: Snapshot, roles: Roles, expressions: Evaluate) -> ClusterAccess {
        let index = snapshot.index_with(Arc::clone(&expressions));
        ClusterAccess { snapshot, roles, index, expressions }
    }

    /// Reads a cluster, also for what is proposed.
    ///
    /// # Errors
    /// The cluster does not answer.
    pub async fn read(
        reader: &ClusterReader,
        proposal: &ProposedObjects,
        expressions: Evaluate,
    ) -> Result<ClusterAccess, ReadError> {
        let failed = |error| reader.failed(error);
        let client = &reader.client;
        let mut snapshot = Snapshot::read(client, proposal).await.map_err(failed)?;
        let mut objects: Vec<Value> = Vec::new();
        for resource in roles::RESOURCES {
            let resource = Resource::new(roles::GROUP, resource);
            objects.extend(snapshot.list(client, &resource, None).await.map_err(failed)?);
        }
        let roles = Roles::new(&objects);
        Ok(ClusterAccess::new(snapshot, roles, expressions))
    }

    /// The engine that decides about references.
    #[must_use]
    pub fn engine(&self) -> &Index {
        self.index.engine()
    }

    /// The consumers in force.
    #[must_use]
    pub fn consumers(&self) -> Vec<Consumer> {
        self.snapshot.consumers()
    }

    /// What could not be read, so that answers may lack something.
    #[must_use]
    pub fn unread(&self) -> Vec<UnreadableKind> {
        let all = self.snapshot.unread.iter();
        all.map(|it| UnreadableKind::new(it.resource.to_string(), it.why.clone())).collect()
    }
}

/// Who a user is with these groups, as the API server sees somebody who is impersonated: a service account
/// without any is in the groups of all service accounts.
#[must_use]
pub fn identity(user: &str, groups: &[String]) -> Identity {
    let account = user.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
    if let (Some((namespace, name)), true) = (account, groups.is_empty()) {
        return Identity::service_account(namespace, name);
    }
    let everybody = match user {
        "system:anonymous" => "system:unauthenticated",
        _ => "system:authenticated",
    };
    let mut groups = groups.to_vec();
    if !groups.iter().any(|group| group == everybody) {
        groups.push(everybody.to_owned());
    }
    Identity { user: user.to_owned(), groups }
}

/// Who a subject of a consumer is when it asks.
fn identity_of(subject: &Subject) -> Identity {
    match subject {
        Subject::Group(name) => Identity { user: String::new(), groups: vec![name.clone()] },
        subject => identity(&subject.request_name(), &[]),
    }
}

/// A namespace and a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct NamespacedName {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl fmt::Display for NamespacedName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.namespace, self.name)
    }
}

/// A subject of a consumer or a binding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct AccessSubject {
    /// `User`, `Group` or `ServiceAccount`.
    pub kind: &'static str,
    /// The namespace of a service account.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl fmt::Display for AccessSubject {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            "ServiceAccount" => write!(out, "service account {}/{}", self.namespace, self.name),
            "Group" => write!(out, "group {}", self.name),
            _ => write!(out, "user {}", self.name),
        }
    }
}

impl From<&Subject> for AccessSubject {
    fn from(subject: &Subject) -> AccessSubject {
        let (kind, namespace, name) = match subject {
            Subject::User(name) => ("User", "", name),
            Subject::Group(name) => ("Group", "", name),
            Subject::ServiceAccount { namespace, name } => {
                ("ServiceAccount", namespace.as_str(), name)
            }
        };
        AccessSubject { kind, namespace: namespace.to_owned(), name: name.clone() }
    }
}

/// One chain of objects that gives access, without whom.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Via {
    /// The consumer.
    pub consumer: String,
    /// What points.
    pub origin: ObjectName,
    /// The class of the origin; none when its type is not partitioned, empty when it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// The strategy that finds the reference.
    pub strategy: String,
    /// The version whose paths found it.
    pub version: String,
    /// What for.
    pub purpose: String,
    /// The grants that cover it; none for a reference within a namespace.
    pub grants: Vec<NamespacedName>,
    /// What is pointed at.
    pub target: ObjectName,
}

impl From<&Witness> for Via {
    fn from(witness: &Witness) -> Via {
        let grants = witness.grants.iter();
        Via {
            consumer: witness.consumer.clone(),
            origin: ObjectName::new(
                &witness.origin,
                &witness.origin_namespace,
                &witness.origin_name,
            ),
            class: witness.class.clone(),
            strategy: witness.strategy.clone(),
            version: witness.version.clone(),
            purpose: witness.purpose.clone(),
            grants: grants
                .map(|(namespace, name)| NamespacedName {
                    namespace: namespace.clone(),
                    name: name.clone(),
                })
                .collect(),
            target: ObjectName::new(
                &witness.target,
                &witness.target_namespace,
                &witness.target_name,
            ),
        }
    }
}

impl fmt::Display for Via {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Via { origin, purpose, strategy, version, consumer, .. } = self;
        write!(out, "{origin} for {purpose}, strategy {strategy}@{version}")?;
        if let Some(grant) = self.grants.first() {
            write!(out, ", grant {grant}")?;
        }
        write!(out, ", consumer {consumer}")
    }
}

/// A request somebody makes, or would.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessRequest {
    /// Who.
    pub who: Identity,
    /// Does what.
    pub verb: String,
    /// With which object; without a name, with all of a namespace or of the cluster.
    pub object: ObjectName,
    /// With which part of it; empty for all.
    pub subresource: String,
}

impl AccessRequest {
    /// As the engine of references asks it.
    #[must_use]
    pub fn attributes(&self) -> Attributes<'_> {
        let Obj { group, resource, namespace, name } = self.object.as_obj();
        Attributes {
            user: &self.who.user,
            groups: &self.who.groups,
            verb: &self.verb,
            group,
            resource,
            subresource: &self.subresource,
            namespace,
            name,
        }
    }

    /// As the engine of roles asks it.
    #[must_use]
    pub fn rbac_attributes(&self) -> tenure_rbac::RequestAttributes<'_> {
        let Attributes { verb, group, resource, subresource, namespace, name, .. } =
            self.attributes();
        tenure_rbac::RequestAttributes::Resource {
            verb,
            group,
            resource,
            subresource,
            namespace,
            name,
        }
    }
}
