//! Roles, bindings and the subjects they name.
//!
//! Plain data; what follows from it is decided in `decide` and `escalate`.

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use tenure_core::selector::LabelSelector;

use crate::MASTERS;
use crate::rule::PolicyRule;

/// The one who asks: a user name and every group the user is in.
#[derive(Clone, Copy, Debug)]
pub struct Requester<'a> {
    /// The user name; a service account's is `system:serviceaccount:{namespace}:{name}`.
    pub user: &'a str,
    /// Every group, `system:authenticated` or `system:unauthenticated` included.
    pub groups: &'a [String],
}

impl Requester<'_> {
    /// Whether this is a member of `system:masters`, who may do everything.
    #[must_use]
    pub fn is_master(&self) -> bool {
        self.groups.iter().any(|group| group == MASTERS)
    }
}

/// A Role, or a ClusterRole when its namespace is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Role {
    /// Empty for a ClusterRole.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The labels by which aggregated roles find this one.
    pub labels: BTreeMap<String, String>,
    /// What the role allows.
    pub rules: Vec<PolicyRule>,
    /// Which ClusterRoles this one gathers its rules from; `None` when its rules are its own.
    pub gathers: Option<Vec<LabelSelector>>,
}

impl Role {
    /// Whether its rules come from other roles.
    #[must_use]
    pub fn is_aggregated(&self) -> bool {
        self.gathers.as_ref().is_some_and(|selectors| !selectors.is_empty())
    }
}

/// The role that a binding hands out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RoleRef {
    /// A ClusterRole of this name.
    ClusterRole(String),
    /// A Role of this name in the namespace of the binding.
    Role(String),
}

impl RoleRef {
    /// The kind as objects spell it.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::ClusterRole(_) => "ClusterRole",
            Self::Role(_) => "Role",
        }
    }

    /// The name of the role.
    #[must_use]
    pub fn name(&self) -> &str {
        let (Self::ClusterRole(name) | Self::Role(name)) = self;
        name
    }
}

/// Whom a binding names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BindingSubject {
    /// A user by name.
    User(String),
    /// Everybody in a group.
    Group(String),
    /// A service account.
    ServiceAccount {
        /// Empty means the namespace of the binding.
        namespace: String,
        /// The name.
        name: String,
    },
}

/// Whom a subject stands for when somebody asks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Party<'a> {
    User(Cow<'a, str>),
    Group(&'a str),
}

impl BindingSubject {
    /// `None` for a service account without a namespace in a binding without one: it is nobody.
    pub(crate) fn party(&self, binding_namespace: &str) -> Option<Party<'_>> {
        Some(match self {
            Self::User(name) => Party::User(Cow::Borrowed(name)),
            Self::Group(name) => Party::Group(name),
            Self::ServiceAccount { namespace, name } => {
                let place = if namespace.is_empty() { binding_namespace } else { namespace };
                if place.is_empty() {
                    return None;
                }
                Party::User(Cow::Owned(format!("system:serviceaccount:{place}:{name}")))
            }
        })
    }
}

/// A RoleBinding, or a ClusterRoleBinding when its namespace is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleBinding {
    /// Empty for a ClusterRoleBinding.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The role handed out; it need not exist.
    pub role: RoleRef,
    /// To whom.
    pub subjects: Vec<BindingSubject>,
}
