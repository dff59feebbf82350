//! The built-in kinds: where each of them names a ConfigMap or Secret.

use serde_json::{Map, Value};
use tenure_kinds::podspec::ReferenceKind::{ConfigMap, Secret};

use super::{Looking, items, text};
use crate::served::DiscoveredResource;

/// Whether a kind is built in, so that its members are known.
pub(crate) fn is_known(served: &DiscoveredResource) -> bool {
    let group = served.group.as_str();
    // Groups that Kubernetes serves by itself; others below k8s.io are custom kinds.
    matches!(group, "" | "apps" | "batch" | "autoscaling" | "policy" | "extensions")
        || [
            "admissionregistration.k8s.io",
            "apiextensions.k8s.io",
            "apiregistration.k8s.io",
            "authentication.k8s.io",
            "authorization.k8s.io",
            "certificates.k8s.io",
            "coordination.k8s.io",
            "discovery.k8s.io",
            "events.k8s.io",
            "flowcontrol.apiserver.k8s.io",
            "internal.apiserver.k8s.io",
            "networking.k8s.io",
            "node.k8s.io",
            "rbac.authorization.k8s.io",
            "resource.k8s.io",
            "scheduling.k8s.io",
            "storage.k8s.io",
            "storagemigration.k8s.io",
        ]
        .contains(&group)
}

impl Looking<'_> {
    /// What an object of a built-in kind mentions.
    pub(super) fn known(&mut self, served: &DiscoveredResource, object: &Map<String, Value>) {
        let at = |path: &str| {
            let mut steps = path.split('/');
            let first = object.get(steps.next().unwrap_or_default());
            steps.fold(first, |value, step| value.and_then(|value| value.get(step)))
        };
        match (served.group.as_str(), served.plural.as_str()) {
            ("", "pods") => {
                if let Some(Value::Object(spec)) = object.get("spec") {
                    self.pod(spec);
                }
            }
            ("", "podtemplates") => self.template(object.get("template")),
            ("", "replicationcontrollers")
            | (
                "apps" | "extensions",
                "deployments" | "replicasets" | "statefulsets" | "daemonsets",
            )
            | ("batch", "jobs") => self.template(at("spec/template")),
            ("batch", "cronjobs") => self.template(at("spec/jobTemplate/spec/template")),
            ("apps", "controllerrevisions") => self.template(at("data/spec/template")),
            ("", "serviceaccounts") => {
                for list in ["secrets", "imagePullSecrets"] {
                    for secret in items(object.get(list)) {
                        self.uses(Secret, self.namespace, text(secret, "name"));
                    }
                }
            }
            ("networking.k8s.io" | "extensions", "ingresses") => {
                for tls in items(at("spec/tls")) {
                    self.uses(Secret, self.namespace, text(tls, "secretName"));
                }
            }
            ("", "persistentvolumes") => self.volume(at("spec")),
            ("storage.k8s.io", "storageclasses" | "volumeattributesclasses") => {
                self.parameters(object.get("parameters"));
            }
            ("rbac.authorization.k8s.io", "roles" | "clusterroles") => {
                self.role(object.get("rules"));
            }
            ("resource.k8s.io", _) => self.custom(object),
            _ => {}
        }
    }

    /// The secrets of a volume say their namespace; older ones are in their claim's.
    fn volume(&mut self, spec: Option<&Value>) {
        let Some(Value::Object(spec)) = spec else { return };
        let claimed = spec.get("claimRef").and_then(Value::as_object);
        let claimed = claimed.map(|claim| text(claim, "namespace")).unwrap_or_default();
        for source in spec.values().filter_map(Value::as_object) {
            for (member, value) in source {
                match value {
                    Value::Object(reference) if member.to_lowercase().ends_with("secretref") => {
                        let said = text(reference, "namespace");
                        let namespace = if said.is_empty() { claimed } else { said };
                        self.uses(Secret, namespace, text(reference, "name"));
                    }
                    Value::String(name) if member == "secretName" => {
                        let said = text(source, "secretNamespace");
                        let namespace = if said.is_empty() { claimed } else { said };
                        self.uses(Secret, namespace, name);
                    }
                    _ => {}
                }
            }
        }
    }

    /// Parameters come in pairs: `…secret-name` and `…secret-namespace`, or `…SecretName` and `…SecretNamespace`.
    fn parameters(&mut self, parameters: Option<&Value>) {
        let Some(Value::Object(parameters)) = parameters else { return };
        for (key, value) in parameters {
            let Some(name) = value.as_str() else { continue };
            let lower = key.to_lowercase();
            if !lower.contains("secret") || lower.ends_with("namespace") {
                continue;
            }
            let pair = key.strip_suffix("name").map(|stem| format!("{stem}namespace"));
            let other = key.strip_suffix("Name").map(|stem| format!("{stem}Namespace"));
            let place = [pair, other]
                .into_iter()
                .flatten()
                .find_map(|key| parameters.get(&key).and_then(Value::as_str).map(str::to_owned));
            if name.contains("${") || place.as_ref().is_none_or(|place| place.contains("${")) {
                self.pattern(name, place.as_deref());
            } else {
                self.uses(Secret, &place.unwrap_or_default(), name);
            }
        }
    }

    /// A name that is filled in for each claim: everything it could become is perhaps used.
    fn pattern(&mut self, name: &str, place: Option<&str>) {
        let fits = |pattern: &str, text: &str| {
            let start = pattern.split("${").next().unwrap_or_default();
            let end = pattern.rsplit('}').next().unwrap_or_default();
            match pattern.contains("${") {
                true => text.starts_with(start) && text.ends_with(end),
                false => text == pattern,
            }
        };
        let mut found = Vec::new();
        for (namespace, subjects) in &self.names.places {
            if !place.is_none_or(|place| fits(place, namespace)) {
                continue;
            }
            for (subject, both) in subjects {
                if fits(name, subject) {
                    found.extend(both.last().copied().flatten());
                }
            }
        }
        for subject in found {
            self.push(subject, Some("a pattern in its parameters"));
        }
    }

    /// Whoever may read something by its name probably does.
    fn role(&mut self, rules: Option<&Value>) {
        const HOW: &str = "a right to it by name";
        for rule in items(rules) {
            let names = |member: &str| {
                let list = rule.get(member).and_then(Value::as_array).into_iter().flatten();
                list.filter_map(Value::as_str).collect::<Vec<_>>()
            };
            let resources = names("resources");
            let kinds = [(ConfigMap, "configmaps"), (Secret, "secrets")];
            for (kind, resource) in kinds {
                if !resources.iter().any(|named| *named == resource || *named == "*") {
                    continue;
                }
                for name in names("resourceNames") {
                    let found: Vec<usize> = match self.namespace {
                        "" => {
                            let places = self.names.places.keys();
                            places.filter_map(|place| self.names.find(kind, place, name)).collect()
                        }
                        place => self.names.find(kind, place, name).into_iter().collect(),
                    };
                    for subject in found {
                        self.push(subject, Some(HOW));
                    }
                }
            }
        }
    }
}
