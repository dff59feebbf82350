//! Which pod templates still read the annotation that only the policies write (A87): after they are gone, new
//! pods of these get an empty value.

use std::fmt;

use serde_json::Value;

use super::collection;
use crate::api::{self, ApiError, text};

/// The annotation's path, as policies write it into templates.
const CARRIER: &str = "metadata.annotations['tenure.dev/owner-references']";

/// The built-in kinds with a template, and where its specification is.
const TEMPLATES: [(&str, &str, &str, &str); 8] = [
    ("apps/v1", "deployments", "Deployment", "/spec/template/spec"),
    ("apps/v1", "statefulsets", "StatefulSet", "/spec/template/spec"),
    ("apps/v1", "daemonsets", "DaemonSet", "/spec/template/spec"),
    ("apps/v1", "replicasets", "ReplicaSet", "/spec/template/spec"),
    ("batch/v1", "cronjobs", "CronJob", "/spec/jobTemplate/spec/template/spec"),
    ("batch/v1", "jobs", "Job", "/spec/template/spec"),
    ("v1", "replicationcontrollers", "ReplicationController", "/spec/template/spec"),
    ("v1", "podtemplates", "PodTemplate", "/template/spec"),
];

/// A pod template that reads the annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateUse {
    kind: &'static str,
    namespace: String,
    name: String,
}

impl fmt::Display for TemplateUse {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// All templates that read the annotation. ReplicaSets of a Deployment and Jobs of a CronJob are left out: what
/// they are made from is looked at itself.
///
/// # Errors
/// A kind cannot be listed.
pub async fn templates_in_use(client: &kube::Client) -> Result<Vec<TemplateUse>, ApiError> {
    let mut found = Vec::new();
    for (version, plural, kind, spec) in TEMPLATES {
        let items = api::list(client, &collection(version, "", plural), "").await?;
        let reading = items.iter().filter(|object| {
            object.pointer(spec).is_some_and(reads_annotation) && !is_made_from_another(object)
        });
        found.extend(reading.map(|object| TemplateUse {
            kind,
            namespace: text(object, "/metadata/namespace").to_owned(),
            name: text(object, "/metadata/name").to_owned(),
        }));
    }
    Ok(found)
}

fn is_made_from_another(object: &Value) -> bool {
    each(object.pointer("/metadata").unwrap_or(&Value::Null), "ownerReferences").any(|owner| {
        let is_controller = owner.get("controller").and_then(Value::as_bool) == Some(true);
        is_controller && matches!(text(owner, "/kind"), "Deployment" | "CronJob")
    })
}

/// Whether a variable or a file of a pod comes from the annotation.
fn reads_annotation(spec: &Value) -> bool {
    let is_it = |of: &Value| text(of, "/fieldRef/fieldPath") == CARRIER;
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    let mut variables =
        lists.iter().flat_map(|list| each(spec, list)).flat_map(|of| each(of, "env"));
    let of_volume = |volume: &Value| {
        let plain = volume.get("downwardAPI").unwrap_or(&Value::Null);
        let projected = volume.get("projected").unwrap_or(&Value::Null);
        let sources = each(projected, "sources").filter_map(|source| source.get("downwardAPI"));
        std::iter::once(plain).chain(sources).any(|of| each(of, "items").any(is_it))
    };
    variables.any(|one| one.get("valueFrom").is_some_and(is_it))
        || each(spec, "volumes").any(of_volume)
}

/// The items of a list, if there is one.
fn each<'v>(object: &'v Value, list: &str) -> impl Iterator<Item = &'v Value> {
    object.get(list).and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    //! Rules of spec/attach.md.
    use serde_json::json;

    use super::*;

    #[test]
    fn a87_every_place_of_a_template_that_reads_is_found() {
        let field = |path: &str| json!({ "fieldRef": { "fieldPath": path } });
        for path in [CARRIER, "metadata.name"] {
            let items = json!({ "items": [{ "path": "a" }, field(path)] });
            let env = json!([{ "name": "A" }, { "name": "B", "valueFrom": field(path) }]);
            for spec in [
                json!({ "containers": [{ "name": "a" }, { "env": env }] }),
                json!({ "containers": [], "initContainers": [{ "env": env }] }),
                json!({ "ephemeralContainers": [{ "env": env }] }),
                json!({ "volumes": [{ "name": "a" }, { "downwardAPI": items }] }),
                json!({ "volumes": [{ "projected": { "sources": [
                    { "secret": {} }, { "downwardAPI": items },
                ] } }] }),
            ] {
                assert_eq!(reads_annotation(&spec), path == CARRIER, "{spec}");
            }
        }
        assert!(!reads_annotation(&json!({ "containers": null, "volumes": null })));
    }
}
