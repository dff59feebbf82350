//! The roles and bindings every cluster starts with (R156).
//!
//! The tables hold only facts; when they are written, and what becomes of edits, is not decided here.
//! See `reconcile` for what a start does with objects that exist already.

mod cluster;
mod controllers;
mod facts;
mod namespaced;

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Map, Value, json};

use self::facts::{BoundFacts, RoleFacts};
use crate::aggregate::aggregate;
use crate::role::{BindingSubject, Role, RoleRef};
use crate::rule::PolicyRule;
use crate::{GROUP, RoleBinding};

/// The label that every bootstrap object has, and its value.
pub const LABEL: (&str, &str) = ("kubernetes.io/bootstrapping", "rbac-defaults");

/// The annotation that every bootstrap object has, and the value that lets it be reconciled.
pub const AUTO_UPDATE: (&str, &str) = ("rbac.authorization.kubernetes.io/autoupdate", "true");

const CONTROLLER: &str = "system:controller:";
const SYSTEM: &str = "kube-system";

/// An object that should exist.
#[derive(Clone, Debug, PartialEq)]
pub struct DefaultRbacObject {
    /// Such as `clusterroles`.
    pub resource: &'static str,
    /// Empty for objects of the cluster.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The whole object, as it is created when it is missing.
    pub object: Map<String, Value>,
}

/// Every role and binding as an object, roles first.
///
/// Aggregated roles come with the rules they gather, so that they are written once.
#[must_use]
pub fn objects() -> Vec<DefaultRbacObject> {
    let mut roles = roles();
    let gathered: Vec<(String, Vec<PolicyRule>)> =
        aggregate(&roles).into_iter().map(|(name, rules)| (name.to_string(), rules)).collect();
    for (name, rules) in gathered {
        for role in roles.iter_mut().filter(|role| role.namespace.is_empty() && role.name == name) {
            role.rules.clone_from(&rules);
        }
    }
    roles.iter().map(role_object).chain(bindings().iter().map(binding_object)).collect()
}

/// Every role; aggregated ones without the rules they gather.
#[must_use]
pub fn roles() -> Vec<Role> {
    let controllers = controllers::ROLES.iter().map(|facts| {
        let role = facts.role();
        Role { name: format!("{CONTROLLER}{}", role.name), ..role }
    });
    let others = cluster::ROLES.iter().chain(namespaced::ROLES).map(RoleFacts::role);
    others.chain(controllers).collect()
}

/// Every binding.
#[must_use]
pub fn bindings() -> Vec<RoleBinding> {
    let controllers = controllers::ROLES.iter().map(|facts| {
        let name = format!("{CONTROLLER}{}", facts.name);
        let account = BindingSubject::ServiceAccount {
            namespace: SYSTEM.to_owned(),
            name: facts.name.to_owned(),
        };
        let role = RoleRef::ClusterRole(name.clone());
        RoleBinding { namespace: String::new(), name, role, subjects: Vec::from([account]) }
    });
    let others = cluster::BINDINGS.iter().chain(namespaced::BINDINGS).map(BoundFacts::binding);
    others.chain(controllers).collect()
}

fn role_object(role: &Role) -> DefaultRbacObject {
    let rules: Vec<Value> = role.rules.iter().map(PolicyRule::to_value).collect();
    let (resource, kind) = match role.namespace.as_str() {
        "" => ("clusterroles", "ClusterRole"),
        _ => ("roles", "Role"),
    };
    let mut object = head(kind, &role.namespace, &role.name);
    for (key, value) in &role.labels {
        add(&mut object, "labels", key, value);
    }
    object.insert("rules".to_owned(), Value::Array(rules));
    if let Some(selectors) = &role.gathers {
        let selectors: Vec<Value> = selectors
            .iter()
            .flat_map(|selector| selector.requirements())
            .map(|requirement| json!({ "matchLabels": { &requirement.key: "true" } }))
            .collect();
        object.insert("aggregationRule".to_owned(), json!({ "clusterRoleSelectors": selectors }));
    }
    let (namespace, name) = (role.namespace.clone(), role.name.clone());
    DefaultRbacObject { resource, namespace, name, object }
}

fn binding_object(binding: &RoleBinding) -> DefaultRbacObject {
    let (resource, kind) = match binding.namespace.as_str() {
        "" => ("clusterrolebindings", "ClusterRoleBinding"),
        _ => ("rolebindings", "RoleBinding"),
    };
    let mut object = head(kind, &binding.namespace, &binding.name);
    object.insert("roleRef".to_owned(), binding.role.to_value());
    if !binding.subjects.is_empty() {
        let subjects = binding.subjects.iter().map(BindingSubject::to_value).collect();
        object.insert("subjects".to_owned(), Value::Array(subjects));
    }
    let (namespace, name) = (binding.namespace.clone(), binding.name.clone());
    DefaultRbacObject { resource, namespace, name, object }
}

fn head(kind: &str, namespace: &str, name: &str) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("apiVersion".to_owned(), format!("{GROUP}/v1").into());
    object.insert("kind".to_owned(), kind.into());
    object.insert("metadata".to_owned(), json!({ "name": name }));
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut)
        && !namespace.is_empty()
    {
        metadata.insert("namespace".to_owned(), namespace.into());
    }
    add(&mut object, "labels", LABEL.0, LABEL.1);
    add(&mut object, "annotations", AUTO_UPDATE.0, AUTO_UPDATE.1);
    object
}

/// Sets one label or annotation.
fn add(object: &mut Map<String, Value>, field: &str, key: &str, value: &str) {
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    let entry = metadata.map(|metadata| metadata.entry(field).or_insert_with(|| json!({})));
    if let Some(pairs) = entry.and_then(Value::as_object_mut) {
        pairs.insert(key.to_owned(), value.into());
    }
}
