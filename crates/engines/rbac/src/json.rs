//! Roles and bindings as objects of the API, and back.
//!
//! Reading never fails: objects were validated before they were stored, and what is not understood
//! grants nothing.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Map, Value, json};
use tenure_core::selector::LabelSelector;

use crate::GROUP;
use crate::role::{BindingSubject, Role, RoleBinding, RoleRef};
use crate::rule::PolicyRule;

type Object = Map<String, Value>;

impl PolicyRule {
    /// Reads one entry of `rules`.
    #[must_use]
    pub fn from_value(value: &Value) -> PolicyRule {
        let list = |key| value.get(key).map(texts).unwrap_or_default();
        PolicyRule {
            verbs: list("verbs"),
            api_groups: list("apiGroups"),
            resources: list("resources"),
            resource_names: list("resourceNames"),
            non_resource_urls: list("nonResourceURLs"),
        }
    }

    /// Writes one entry of `rules`; empty lists are left out, verbs never.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let mut value = json!({ "verbs": self.verbs });
        let others = [
            ("apiGroups", &self.api_groups),
            ("resources", &self.resources),
            ("resourceNames", &self.resource_names),
            ("nonResourceURLs", &self.non_resource_urls),
        ];
        if let Some(object) = value.as_object_mut() {
            let filled = others.into_iter().filter(|(_, list)| !list.is_empty());
            object.extend(filled.map(|(key, list)| (key.to_owned(), json!(list))));
        }
        value
    }
}

impl Role {
    /// Reads a Role or ClusterRole.
    #[must_use]
    pub fn from_object(object: &Object) -> Role {
        let (namespace, name) = place(object);
        let labels = object.get("metadata").and_then(|metadata| metadata.get("labels"));
        let gathers = object.get("aggregationRule").filter(|rule| rule.is_object());
        Role {
            namespace,
            name,
            labels: labels.map(pairs).unwrap_or_default(),
            rules: items(object.get("rules")).map(PolicyRule::from_value).collect(),
            gathers: gathers.map(|rule| {
                let selectors = items(rule.get("clusterRoleSelectors"));
                let selectors = selectors.filter_map(Value::as_object);
                selectors.filter_map(LabelSelector::from_object).collect()
            }),
        }
    }
}

impl RoleBinding {
    /// Reads a RoleBinding or ClusterRoleBinding; `None` when the kind of its role is unknown.
    #[must_use]
    pub fn from_object(object: &Object) -> Option<RoleBinding> {
        let (namespace, name) = place(object);
        let role = object.get("roleRef")?;
        let role = match text(role, "kind") {
            "ClusterRole" => RoleRef::ClusterRole(text(role, "name").to_owned()),
            "Role" => RoleRef::Role(text(role, "name").to_owned()),
            _ => return None,
        };
        let subjects =
            items(object.get("subjects")).filter_map(BindingSubject::from_value).collect();
        Some(RoleBinding { namespace, name, role, subjects })
    }
}

impl RoleRef {
    /// Writes `roleRef`.
    #[must_use]
    pub fn to_value(&self) -> Value {
        json!({ "apiGroup": GROUP, "kind": self.kind(), "name": self.name() })
    }
}

impl BindingSubject {
    /// Reads one entry of `subjects`; `None` when its kind is unknown.
    #[must_use]
    pub fn from_value(value: &Value) -> Option<BindingSubject> {
        let name = text(value, "name").to_owned();
        Some(match text(value, "kind") {
            "User" => BindingSubject::User(name),
            "Group" => BindingSubject::Group(name),
            "ServiceAccount" => BindingSubject::ServiceAccount {
                namespace: text(value, "namespace").to_owned(),
                name,
            },
            _ => return None,
        })
    }

    /// Writes one entry of `subjects`.
    #[must_use]
    pub fn to_value(&self) -> Value {
        match self {
            Self::User(name) => json!({ "apiGroup": GROUP, "kind": "User", "name": name }),
            Self::Group(name) => json!({ "apiGroup": GROUP, "kind": "Group", "name": name }),
            Self::ServiceAccount { namespace, name } if namespace.is_empty() => {
                json!({ "kind": "ServiceAccount", "name": name })
            }
            Self::ServiceAccount { namespace, name } => {
                json!({ "kind": "ServiceAccount", "name": name, "namespace": namespace })
            }
        }
    }
}

/// Namespace and name.
fn place(object: &Object) -> (String, String) {
    let of = |key| object.get("metadata").map_or("", |metadata| text(metadata, key)).to_owned();
    (of("namespace"), of("name"))
}

pub(crate) fn items(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn texts(value: &Value) -> Vec<String> {
    items(Some(value)).filter_map(Value::as_str).map(ToString::to_string).collect()
}

fn pairs(value: &Value) -> BTreeMap<String, String> {
    let members = value.as_object().into_iter().flatten();
    members.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}
