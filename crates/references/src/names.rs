//! Names of objects, references and requesters that are kept; the engine's own are borrowed.

use std::fmt;

use tenure_reference::{Moved, Obj, Resource, Subject};

/// One object, by names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName {
    /// Its type.
    pub resource: Resource,
    /// Its namespace; empty when it has none.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl ObjectName {
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
        self.as_obj().fmt(out)
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

impl From<Moved> for Reference {
    fn from(moved: Moved) -> Reference {
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
