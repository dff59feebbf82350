//! The shape of the tables: short enough that a rule fits on a line.
//!
//! Lists are texts separated by single spaces, so `""` lists the core group and nothing else.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use tenure_core::selector::{LabelRequirement, LabelRule, LabelSelector};

use super::SYSTEM;
use crate::role::{BindingSubject, Role, RoleBinding, RoleRef};
use crate::rule::PolicyRule;

pub(super) const READ: &str = "get list watch";
pub(super) const WRITE: &str = "create delete deletecollection patch update";
pub(super) const READ_WRITE: &str = "create delete deletecollection get list patch update watch";
pub(super) const EVENTS: RuleFacts = on("create patch update", " events.k8s.io", "events");

/// A rule on resources, some or all of their names, or on paths.
pub(super) struct RuleFacts {
    verbs: &'static str,
    groups: Option<&'static str>,
    resources: Option<&'static str>,
    names: Option<&'static str>,
    urls: Option<&'static str>,
}

/// A role; `part_of` and `gathers` are the last words of aggregation labels, empty for none.
pub(super) struct RoleFacts {
    namespace: &'static str,
    pub(super) name: &'static str,
    part_of: &'static str,
    gathers: &'static str,
    rules: &'static [RuleFacts],
}

/// A binding.
pub(super) struct BoundFacts {
    namespace: &'static str,
    name: &'static str,
    role: RoleName,
    subjects: &'static [BootstrapSubject],
}

enum RoleName {
    Cluster(&'static str),
    Local(&'static str),
}

/// Who is bound; accounts are all in `kube-system`.
pub(super) enum BootstrapSubject {
    User(&'static str),
    Group(&'static str),
    Account(&'static str),
}

/// Verbs on resources.
pub(super) const fn on(
    verbs: &'static str,
    groups: &'static str,
    resources: &'static str,
) -> RuleFacts {
    RuleFacts { verbs, groups: Some(groups), resources: Some(resources), names: None, urls: None }
}

/// Verbs on resources of these names.
pub(super) const fn named(
    verbs: &'static str,
    groups: &'static str,
    resources: &'static str,
    names: &'static str,
) -> RuleFacts {
    RuleFacts {
        verbs,
        groups: Some(groups),
        resources: Some(resources),
        names: Some(names),
        urls: None,
    }
}

/// Verbs on paths.
pub(super) const fn urls(verbs: &'static str, urls: &'static str) -> RuleFacts {
    RuleFacts { verbs, groups: None, resources: None, names: None, urls: Some(urls) }
}

/// A ClusterRole.
pub(super) const fn role(name: &'static str, rules: &'static [RuleFacts]) -> RoleFacts {
    RoleFacts { namespace: "", name, part_of: "", gathers: "", rules }
}

/// A ClusterRole whose rules others gather.
pub(super) const fn part(
    name: &'static str,
    part_of: &'static str,
    rules: &'static [RuleFacts],
) -> RoleFacts {
    RoleFacts { namespace: "", name, part_of, gathers: "", rules }
}

/// A ClusterRole that gathers its rules, and whose rules others may gather.
pub(super) const fn aggregated(
    name: &'static str,
    part_of: &'static str,
    gathers: &'static str,
) -> RoleFacts {
    RoleFacts { namespace: "", name, part_of, gathers, rules: &[] }
}

/// A Role.
pub(super) const fn local(
    namespace: &'static str,
    name: &'static str,
    rules: &'static [RuleFacts],
) -> RoleFacts {
    RoleFacts { namespace, name, part_of: "", gathers: "", rules }
}

/// A ClusterRoleBinding to the ClusterRole of the same name.
pub(super) const fn bound(name: &'static str, subjects: &'static [BootstrapSubject]) -> BoundFacts {
    BoundFacts { namespace: "", name, role: RoleName::Cluster(name), subjects }
}

/// A RoleBinding to a Role beside it.
pub(super) const fn local_bound(
    namespace: &'static str,
    name: &'static str,
    role: &'static str,
    subjects: &'static [BootstrapSubject],
) -> BoundFacts {
    BoundFacts { namespace, name, role: RoleName::Local(role), subjects }
}

impl RuleFacts {
    fn rule(&self) -> PolicyRule {
        let list = |texts: Option<&str>| -> Vec<String> {
            texts.map(|texts| texts.split(' ').map(ToOwned::to_owned).collect()).unwrap_or_default()
        };
        PolicyRule {
            verbs: list(Some(self.verbs)),
            api_groups: list(self.groups),
            resources: list(self.resources),
            resource_names: list(self.names),
            non_resource_urls: list(self.urls),
        }
    }
}

impl RoleFacts {
    pub(super) fn role(&self) -> Role {
        let mut labels = BTreeMap::new();
        if !self.part_of.is_empty() {
            labels.insert(aggregation_label(self.part_of), "true".to_owned());
        }
        let gathers = (!self.gathers.is_empty()).then(|| {
            let rule = LabelRule::Equals("true".to_owned());
            let requirement = LabelRequirement { key: aggregation_label(self.gathers), rule };
            Vec::from([LabelSelector::new(Vec::from([requirement]))])
        });
        Role {
            namespace: self.namespace.to_owned(),
            name: self.name.to_owned(),
            labels,
            rules: self.rules.iter().map(RuleFacts::rule).collect(),
            gathers,
        }
    }
}

fn aggregation_label(target: &str) -> String {
    format!("rbac.authorization.k8s.io/aggregate-to-{target}")
}

impl BoundFacts {
    pub(super) fn binding(&self) -> RoleBinding {
        let subject = |bound: &BootstrapSubject| match bound {
            BootstrapSubject::User(name) => BindingSubject::User((*name).to_owned()),
            BootstrapSubject::Group(name) => BindingSubject::Group((*name).to_owned()),
            BootstrapSubject::Account(name) => BindingSubject::ServiceAccount {
                namespace: SYSTEM.to_owned(),
                name: (*name).to_owned(),
            },
        };
        RoleBinding {
            namespace: self.namespace.to_owned(),
            name: self.name.to_owned(),
            role: match self.role {
                RoleName::Cluster(name) => RoleRef::ClusterRole(name.to_owned()),
                RoleName::Local(name) => RoleRef::Role(name.to_owned()),
            },
            subjects: self.subjects.iter().map(subject).collect(),
        }
    }
}
