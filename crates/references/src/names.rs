//! Names of objects, references and requesters that are kept; the engine's own are borrowed.

use std::fmt;

use serde::{Deserialize, Serialize};
use tenure_reference::{Grant, Obj, ReferenceChange, Resource, Subject};

/// One object, by names; in a request also all of a namespace, or of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "Flat", into = "Flat")]
pub struct ObjectName {
    /// Its type.
    pub resource: Resource,
    /// Its namespace; empty when it has none, or when all are meant.
    pub namespace: String,
    /// Its name; empty when all are meant.
    pub name: String,
}

/// The same as JSON has it: four fields beside each other.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Flat {
    group: String,
    resource: String,
    namespace: String,
    name: String,
}

impl From<Flat> for ObjectName {
    fn from(flat: Flat) -> ObjectName {
        let Flat { group, resource, namespace, name } = flat;
        ObjectName { resource: Resource { group, resource }, namespace, name }
    }
}

impl From<ObjectName> for Flat {
    fn from(object: ObjectName) -> Flat {
        let ObjectName { resource: Resource { group, resource }, namespace, name } = object;
        Flat { group, resource, namespace, name }
    }
}

impl ObjectName {
    /// An object of a type.
    #[must_use]
    pub fn new(resource: &Resource, namespace: &str, name: &str) -> ObjectName {
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        ObjectName { resource: resource.clone(), namespace, name }
    }

    /// Where it is, without its type.
    #[must_use]
    pub fn place(&self) -> String {
        match (self.namespace.as_str(), self.name.as_str()) {
            ("", "") => "everywhere".to_owned(),
            ("", name) => name.to_owned(),
            (namespace, "") => format!("all in {namespace}"),
            (namespace, name) => format!("{namespace}/{name}"),
        }
    }

    /// The same, borrowed, as queries want it.
    #[must_use]
    pub fn as_obj(&self) -> Obj<'_> {
        Obj {
            group: &self.resource.group,
            resource: &self.resource.resource,
            namespace: &self.namespace,
            name: &self.name,
        }
    }
}

impl From<Obj<'_>> for ObjectName {
    fn from(object: Obj<'_>) -> ObjectName {
        ObjectName {
            resource: Resource::new(object.group, object.resource),
            namespace: object.namespace.to_owned(),
            name: object.name.to_owned(),
        }
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.resource, self.place())
    }
}

/// One origin points at one target, for one purpose.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference {
    /// What points.
    pub origin: ObjectName,
    /// What is pointed at.
    pub target: ObjectName,
    /// What for.
    pub purpose: String,
}

impl Reference {
    /// Whether it leads into another namespace, so that a grant is needed.
    #[must_use]
    pub fn needs_grant(&self) -> bool {
        !self.target.namespace.is_empty() && self.origin.namespace != self.target.namespace
    }

    /// Whether a grant lets it lead into another namespace (R51).
    #[must_use]
    pub fn is_granted_by(&self, grant: &Grant) -> bool {
        let Reference { origin, target, purpose } = self;
        grant.namespace == target.namespace
            && grant.origin == origin.resource
            && grant.is_from(&origin.namespace)
            && grant.target == target.resource
            && grant.purpose == *purpose
            && grant.names.contains(&target.name)
    }
}

impl From<ReferenceChange> for Reference {
    fn from(moved: ReferenceChange) -> Reference {
        Reference {
            origin: ObjectName {
                resource: moved.origin,
                namespace: moved.origin_namespace,
                name: moved.origin_name,
            },
            target: ObjectName {
                resource: moved.target,
                namespace: moved.target_namespace,
                name: moved.target_name,
            },
            purpose: moved.purpose,
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} -> {} for {}", self.origin, self.target, self.purpose)
    }
}

/// Who asks the API server: a user name, and the groups it was authenticated with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The user's name.
    pub user: String,
    /// The groups; none is implied by the name (R81).
    pub groups: Vec<String>,
}

impl Identity {
    /// A service account, in the groups every service account is in.
    #[must_use]
    pub fn service_account(namespace: &str, name: &str) -> Identity {
        let namespace_group = format!("system:serviceaccounts:{namespace}");
        Identity {
            user: format!("system:serviceaccount:{namespace}:{name}"),
            groups: vec![
                "system:serviceaccounts".to_owned(),
                namespace_group,
                "system:authenticated".to_owned(),
            ],
        }
    }

    /// Whether a consumer's subject is this one.
    #[must_use]
    pub fn is(&self, subject: &Subject) -> bool {
        subject.matches(&self.user, &self.groups)
    }
}
