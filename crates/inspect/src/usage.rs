//! Which ConfigMaps and Secrets are mentioned, and by whom: subjects in, objects of every kind past them, uses out.
//!
//! ```text
//!   subjects ──► Names ──┐
//!   any object ──────────┴──► uses: said for certain (a pod, an Ingress), or perhaps (an argument, a custom kind)
//! ```
//!
//! Nothing here asks anybody, and contents of Secrets never enter. What a use is worth is decided in `unused`.

mod builtin_kinds;
mod custom;
mod policy;
mod subject;

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};
use tenure_kinds::podspec::{ReferenceKind, references};

use crate::served::DiscoveredResource;

pub(crate) use builtin_kinds::is_known;
pub(crate) use policy::PolicyParameters;
pub use subject::UsageSubject;
pub(crate) use subject::{SUBJECTS, TablePage};

/// One object that mentions a subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Use {
    /// The place of the subject.
    pub(crate) subject: usize,
    /// The kind of the object.
    pub(crate) kind: String,
    /// The namespace of the object; empty for what lives in none.
    pub(crate) namespace: String,
    /// The name of the object.
    pub(crate) name: String,
    /// How it mentions it; empty where the mention is certain.
    pub(crate) perhaps: Option<&'static str>,
}

/// What one page of objects has to say.
#[derive(Debug, Default)]
pub(crate) struct PageUsage {
    pub(crate) uses: Vec<Use>,
    /// The uids among them that some subject names as owner.
    pub(crate) owners: Vec<String>,
    pub(crate) objects: usize,
    /// Policies and bindings among them.
    pub(crate) policies: PolicyParameters,
}

/// The subjects, by every name that somebody may mention them under.
#[derive(Debug, Default)]
pub(crate) struct SubjectNames {
    places: HashMap<String, HashMap<String, [Option<usize>; 2]>>,
    owners: HashSet<String>,
}

impl SubjectNames {
    pub(crate) fn new(subjects: &[UsageSubject]) -> SubjectNames {
        let mut names = SubjectNames::default();
        for (at, subject) in subjects.iter().enumerate() {
            let place = names.places.entry(subject.namespace.clone()).or_default();
            let both = place.entry(subject.name.clone()).or_default();
            let slot = match subject.kind {
                ReferenceKind::ConfigMap => both.first_mut(),
                ReferenceKind::Secret => both.last_mut(),
            };
            if let Some(slot) = slot {
                *slot = Some(at);
            }
            names.owners.extend(subject.owners.iter().map(|owner| owner.uid.clone()));
        }
        names
    }

    fn find(&self, kind: ReferenceKind, namespace: &str, name: &str) -> Option<usize> {
        let both = self.places.get(namespace)?.get(name)?;
        match kind {
            ReferenceKind::ConfigMap => both.first().copied().flatten(),
            ReferenceKind::Secret => both.last().copied().flatten(),
        }
    }

    /// Whatever has this name, of either kind.
    fn called(&self, namespace: &str, name: &str) -> impl Iterator<Item = usize> {
        let both = self.places.get(namespace).and_then(|place| place.get(name));
        both.into_iter().flatten().copied().flatten()
    }

    /// What one object of a kind mentions.
    pub(crate) fn see(&self, served: &DiscoveredResource, object: &Value, out: &mut PageUsage) {
        let Value::Object(object) = object else { return };
        out.objects += 1;
        let metadata = object.get("metadata").and_then(Value::as_object);
        let text = |member: &str| {
            metadata.and_then(|m| m.get(member)).and_then(Value::as_str).unwrap_or_default()
        };
        if self.owners.contains(text("uid")) {
            out.owners.push(text("uid").to_owned());
        }
        out.policies.see(served, object);
        let mut look = Looking {
            names: self,
            kind: &served.kind,
            namespace: text("namespace"),
            name: text("name"),
            out: &mut out.uses,
        };
        if is_known(served) {
            look.known(served, object);
        } else {
            look.custom(object);
        }
        if let Some(annotations) = metadata.and_then(|m| m.get("annotations")) {
            look.annotations(annotations);
        }
    }
}

/// One object on its way past the names.
struct Looking<'a> {
    names: &'a SubjectNames,
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
    out: &'a mut Vec<Use>,
}

impl Looking<'_> {
    fn push(&mut self, subject: usize, perhaps: Option<&'static str>) {
        let said = |other: &Use| {
            other.subject == subject
                && other.perhaps == perhaps
                && other.name == self.name
                && other.namespace == self.namespace
                && other.kind == self.kind
        };
        // Mentions of one object come one after another.
        if self.out.iter().rev().take(64).any(said) {
            return;
        }
        self.out.push(Use {
            subject,
            kind: self.kind.to_owned(),
            namespace: self.namespace.to_owned(),
            name: self.name.to_owned(),
            perhaps,
        });
    }

    /// A mention that cannot be anything else.
    fn uses(&mut self, kind: ReferenceKind, namespace: &str, name: &str) {
        if let Some(subject) = self.names.find(kind, namespace, name) {
            self.push(subject, None);
        }
    }

    /// A mention that may be one.
    fn may_use(&mut self, namespace: &str, name: &str, how: &'static str) {
        let found: Vec<usize> = self.names.called(namespace, name).collect();
        for subject in found {
            self.push(subject, Some(how));
        }
    }

    /// A name that is one of the object's namespace, or `namespace/name`.
    fn may_use_text(&mut self, text: &str, how: &'static str) {
        if let Some((namespace, name)) = text.split_once('/') {
            self.may_use(namespace, name, how);
        } else if !self.namespace.is_empty() {
            self.may_use(self.namespace, text, how);
        }
    }

    /// Every word of a text that could be a name.
    fn may_use_words(&mut self, text: &str, how: &'static str) {
        let part = |letter: char| letter.is_ascii_alphanumeric() || "-./".contains(letter);
        for word in text.split(|letter| !part(letter)) {
            let word = word.trim_matches(['-', '.', '/']);
            if !word.is_empty() {
                self.may_use_text(word, how);
            }
        }
    }

    /// A pod specification: what its node would fetch, and what its programs may ask for.
    fn pod(&mut self, spec: &Map<String, Value>) {
        for (kind, name) in references(spec).names {
            self.uses(kind, self.namespace, name);
        }
        for list in ["containers", "initContainers", "ephemeralContainers"] {
            for container in items(spec.get(list)) {
                for member in ["command", "args"] {
                    for word in
                        container.get(member).and_then(Value::as_array).into_iter().flatten()
                    {
                        let word = word.as_str().unwrap_or_default();
                        self.may_use_words(word, "an argument of a container");
                    }
                }
                for variable in items(container.get("env")) {
                    let value = variable.get("value").and_then(Value::as_str).unwrap_or_default();
                    self.may_use_words(value, "a variable of a container");
                }
            }
        }
    }

    fn template(&mut self, template: Option<&Value>) {
        let Some(template) = template else { return };
        if let Some(spec) = template.get("spec").and_then(Value::as_object) {
            self.pod(spec);
        }
        if let Some(annotations) = template.pointer("/metadata/annotations") {
            self.annotations(annotations);
        }
    }

    /// Annotations that name something: by its name, or with its namespace.
    fn annotations(&mut self, annotations: &Value) {
        for (key, value) in annotations.as_object().into_iter().flatten() {
            // What was applied is in the object itself.
            if key == "kubectl.kubernetes.io/last-applied-configuration" {
                continue;
            }
            if let Some(text) = value.as_str() {
                for part in text.split([',', ';', ' ', '\n']) {
                    self.may_use_text(part.trim(), "an annotation");
                }
            }
        }
    }
}

/// The objects of a list.
fn items(value: Option<&Value>) -> impl Iterator<Item = &Map<String, Value>> {
    value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object)
}

/// The text of a member.
fn text<'a>(object: &'a Map<String, Value>, member: &str) -> &'a str {
    object.get(member).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests;
