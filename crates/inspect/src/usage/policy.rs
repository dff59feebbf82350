//! Parameters of admission policies: a binding names a ConfigMap or Secret, or chooses some by their labels.
//!
//! Which kind a binding means is said by its policy. Both come in any order, so they are kept until
//! everything has been seen.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};
use tenure_core::selector::LabelSelector;
use tenure_kinds::podspec::ReferenceKind;

use super::{UsageSubject, Use, text};
use crate::served::DiscoveredResource;

const GROUP: &str = "admissionregistration.k8s.io";
const HOW: &str = "parameters of a policy";

/// Policies and bindings.
#[derive(Debug, Default)]
pub(crate) struct PolicyParameters {
    /// What each policy takes as its parameters; none where they are nothing that is looked for.
    kinds: HashMap<(String, String), Option<ReferenceKind>>,
    bindings: Vec<PolicyBinding>,
}

#[derive(Debug)]
struct PolicyBinding {
    kind: String,
    name: String,
    /// The kind and the name of its policy.
    policy: (String, String),
    chosen: ParameterSelector,
    /// Only in this namespace; in each one if empty.
    namespace: String,
}

#[derive(Debug)]
enum ParameterSelector {
    Named(String),
    Labelled(LabelSelector),
    /// The selector is not understood: it may be any.
    Any,
}

impl PolicyParameters {
    /// Keeps what one object has to say.
    pub(super) fn see(&mut self, served: &DiscoveredResource, object: &Map<String, Value>) {
        if served.group != GROUP {
            return;
        }
        let name = object.get("metadata").and_then(Value::as_object);
        let name = name.map(|metadata| text(metadata, "name")).unwrap_or_default().to_owned();
        let Some(Value::Object(spec)) = object.get("spec") else { return };
        match served.kind.strip_suffix("Binding") {
            Some(policy) => {
                let Some(Value::Object(reference)) = spec.get("paramRef") else { return };
                self.bindings.push(PolicyBinding {
                    kind: served.kind.clone(),
                    name,
                    policy: (policy.to_owned(), text(spec, "policyName").to_owned()),
                    chosen: chosen(reference),
                    namespace: text(reference, "namespace").to_owned(),
                });
            }
            None => {
                let kind =
                    spec.get("paramKind").and_then(Value::as_object).and_then(|kind| {
                        match (text(kind, "apiVersion"), text(kind, "kind")) {
                            ("v1", "ConfigMap") => Some(ReferenceKind::ConfigMap),
                            ("v1", "Secret") => Some(ReferenceKind::Secret),
                            _ => None,
                        }
                    });
                self.kinds.insert((served.kind.clone(), name), kind);
            }
        }
    }

    /// Takes over what others have seen.
    pub(crate) fn join(&mut self, other: PolicyParameters) {
        self.kinds.extend(other.kinds);
        self.bindings.extend(other.bindings);
    }

    /// The subjects that are perhaps parameters. Those of a policy that was not seen may be of either kind.
    pub(crate) fn uses(&self, subjects: &[UsageSubject]) -> Vec<Use> {
        let mut uses = Vec::new();
        for binding in &self.bindings {
            let kind = self.kinds.get(&binding.policy);
            let fits = |subject: &UsageSubject| {
                kind.is_none_or(|kind| *kind == Some(subject.kind))
                    && (binding.namespace.is_empty() || binding.namespace == subject.namespace)
                    && binding.chosen.has(&subject.name, &subject.labels)
            };
            let found = subjects.iter().enumerate().filter(|(_, subject)| fits(subject));
            uses.extend(found.map(|(subject, _)| Use {
                subject,
                kind: binding.kind.clone(),
                namespace: String::new(),
                name: binding.name.clone(),
                perhaps: Some(HOW),
            }));
        }
        uses
    }
}

fn chosen(reference: &Map<String, Value>) -> ParameterSelector {
    match (text(reference, "name"), reference.get("selector")) {
        ("", Some(Value::Object(selector))) => match LabelSelector::from_object(selector) {
            Some(selector) => ParameterSelector::Labelled(selector),
            None => ParameterSelector::Any,
        },
        ("", _) => ParameterSelector::Any,
        (name, _) => ParameterSelector::Named(name.to_owned()),
    }
}

impl ParameterSelector {
    fn has(&self, name: &str, labels: &BTreeMap<String, String>) -> bool {
        match self {
            ParameterSelector::Named(wanted) => wanted == name,
            ParameterSelector::Labelled(selector) => {
                selector.matches(|key| labels.get(key).map(String::as_str))
            }
            ParameterSelector::Any => true,
        }
    }
}
