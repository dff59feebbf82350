//! Rules of ReplicationController, ReplicaSet and Deployment: so many pods of one template.

use serde_json::{Value, json};
use tenure_machinery::{Cx, Errors, Object, ObjectExt, Path, Rules};

use super::common::{
    default_template, has_moved, immutable, keep_status, labels_mismatch,
    name_and_template_warnings, name_warning, not_negative, selector_matches_template, share,
    spec_of, template_warning, usable_selector, validate_collisions, validate_counts,
    validate_long_running, validate_selector, validate_share, validate_share_cap,
    validate_spec_template,
};
use crate::podspec::selector::template_labels;

const REPLICA_COUNTS: &[&str] = &[
    "replicas",
    "fullyLabeledReplicas",
    "readyReplicas",
    "availableReplicas",
    "observedGeneration",
];
const REPLICA_PARTS: &[&str] = &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];

/// Rules of ReplicationController.
pub struct ReplicationControllerRules;

impl Rules for ReplicationControllerRules {
    fn default(&self, object: &mut Object) {
        let labels = object.map_at(&["spec", "template"]).and_then(template_labels).cloned();
        let spec = object.map_mut("spec");
        if spec.contains_key("template") {
            default_template(spec);
        }
        spec.set_default("replicas", 1);
        let Some(labels) = labels.filter(|labels| !labels.is_empty()) else { return };
        if spec.map_at(&["selector"]).is_none_or(Object::is_empty) {
            spec.insert("selector".to_owned(), Value::Object(labels.clone()));
        }
        let metadata = object.map_mut("metadata");
        if metadata.map_at(&["labels"]).is_none_or(Object::is_empty) {
            metadata.insert("labels".to_owned(), Value::Object(labels));
        }
    }

    fn prepare_create(&self, object: &mut Object, _cx: &Cx) {
        object.insert("status".to_owned(), json!({"replicas": 0}));
    }

    fn prepare_update(&self, object: &mut Object, old: &Object, _cx: &Cx) {
        keep_status(object, old);
    }

    fn validate(&self, object: &Object, errors: &mut Errors) {
        let spec = spec_of(object);
        let path = Path::Root.field("spec");
        let selector = spec.map_at(&["selector"]).filter(|selector| !selector.is_empty());
        if selector.is_none() {
            errors.required(&path.field("selector"), "");
        }
        let labels = spec.map_at(&["template"]).and_then(template_labels);
        let fits = |selector: &Object| {
            selector.iter().all(|(key, value)| labels.and_then(|l| l.get(key)) == Some(value))
        };
        if spec.contains_key("template") && !selector.is_none_or(fits) {
            labels_mismatch(labels, &path, errors);
        }
        validate_spec_template(spec, &path, errors);
        validate_long_running(spec, &path, errors);
    }

    fn validate_last(&self, object: &Object, errors: &mut Errors) {
        let (spec, path) = (spec_of(object), Path::Root.field("spec"));
        not_negative(spec, "replicas", &path, errors);
        not_negative(spec, "minReadySeconds", &path, errors);
    }

    fn validate_status(&self, object: &Object, _old: &Object, errors: &mut Errors) {
        validate_counts(object, REPLICA_COUNTS, REPLICA_PARTS, errors);
    }

    fn warnings(&self, object: &Object, old: Option<&Object>) -> Vec<String> {
        let mut warnings = name_warning(object, old);
        if has_moved(object, old) {
            // Upstream looks at the template that was there, so that an update is told late.
            let spec = spec_of(old.unwrap_or(object));
            warnings.extend(template_warning(spec, &Path::Root.field("spec")));
        }
        warnings
    }
}

/// Rules of ReplicaSet.
pub struct ReplicaSetRules;

impl Rules for ReplicaSetRules {
    fn default(&self, object: &mut Object) {
        let spec = object.map_mut("spec");
        default_template(spec);
        spec.set_default("replicas", 1);
    }

    fn prepare_create(&self, object: &mut Object, _cx: &Cx) {
        object.insert("status".to_owned(), json!({"replicas": 0}));
    }

    fn prepare_update(&self, object: &mut Object, old: &Object, _cx: &Cx) {
        keep_status(object, old);
    }

    fn validate(&self, object: &Object, errors: &mut Errors) {
        let spec = spec_of(object);
        let path = Path::Root.field("spec");
        not_negative(spec, "replicas", &path, errors);
        not_negative(spec, "minReadySeconds", &path, errors);
        validate_selector(spec, &path, errors);
        validate_replica_template(spec, &path, errors);
    }

    fn validate_update(&self, object: &Object, old: &Object, errors: &mut Errors) {
        immutable(spec_of(object), spec_of(old), "selector", &Path::Root.field("spec"), errors);
    }

    fn validate_status(&self, object: &Object, _old: &Object, errors: &mut Errors) {
        validate_counts(object, REPLICA_COUNTS, REPLICA_PARTS, errors);
    }

    fn warnings(&self, object: &Object, old: Option<&Object>) -> Vec<String> {
        name_and_template_warnings(object, old)
    }
}

/// The template against the selector, then as such, then as one kept running.
fn validate_replica_template(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    if usable_selector(spec, path, errors) {
        selector_matches_template(spec, path, errors);
        validate_spec_template(spec, path, errors);
        validate_long_running(spec, path, errors);
    }
}

/// Rules of Deployment.
pub struct DeploymentRules;

impl Rules for DeploymentRules {
    fn counts(&self, object: &Object, old: &Object) -> bool {
        object.at(&["metadata", "annotations"]) != old.at(&["metadata", "annotations"])
    }

    fn default(&self, object: &mut Object) {
        let spec = object.map_mut("spec");
        default_template(spec);
        spec.set_default("replicas", 1);
        spec.set_default("revisionHistoryLimit", 10);
        spec.set_default("progressDeadlineSeconds", 600);
        let strategy = spec.map_mut("strategy");
        if strategy.str_at(&["type"]).is_none_or(str::is_empty) {
            strategy.insert("type".to_owned(), json!("RollingUpdate"));
        }
        if strategy.str_at(&["type"]) == Some("RollingUpdate") {
            let rolling = strategy.map_mut("rollingUpdate");
            rolling.set_default("maxUnavailable", "25%");
            rolling.set_default("maxSurge", "25%");
        }
    }

    fn prepare_create(&self, object: &mut Object, _cx: &Cx) {
        object.insert("status".to_owned(), json!({}));
    }

    fn prepare_update(&self, object: &mut Object, old: &Object, _cx: &Cx) {
        keep_status(object, old);
    }

    fn validate(&self, object: &Object, errors: &mut Errors) {
        let spec = spec_of(object);
        let path = Path::Root.field("spec");
        not_negative(spec, "replicas", &path, errors);
        validate_selector(spec, &path, errors);
        validate_replica_template(spec, &path, errors);
        validate_strategy(spec, &path.field("strategy"), errors);
        not_negative(spec, "minReadySeconds", &path, errors);
        not_negative(spec, "revisionHistoryLimit", &path, errors);
        if let Some(deadline) = spec.int_at(&["progressDeadlineSeconds"]) {
            not_negative(spec, "progressDeadlineSeconds", &path, errors);
            if deadline <= spec.int_at(&["minReadySeconds"]).unwrap_or_default() {
                let at = path.field("progressDeadlineSeconds");
                errors.invalid(&at, deadline, "must be greater than minReadySeconds");
            }
        }
    }

    fn validate_update(&self, object: &Object, old: &Object, errors: &mut Errors) {
        immutable(spec_of(object), spec_of(old), "selector", &Path::Root.field("spec"), errors);
    }

    fn validate_status(&self, object: &Object, old: &Object, errors: &mut Errors) {
        let counts = &[
            "observedGeneration",
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
            "terminatingReplicas",
            "collisionCount",
        ];
        let parts = &["updatedReplicas", "readyReplicas", "availableReplicas"];
        validate_counts(object, counts, parts, errors);
        validate_collisions(object, old, errors);
    }

    fn warnings(&self, object: &Object, old: Option<&Object>) -> Vec<String> {
        name_and_template_warnings(object, old)
    }
}

fn validate_strategy(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    let empty = Object::new();
    let strategy = spec.map_at(&["strategy"]).unwrap_or(&empty);
    let at = path.field("rollingUpdate");
    let rolling = strategy.map_at(&["rollingUpdate"]);
    match (strategy.str_at(&["type"]).unwrap_or_default(), rolling) {
        ("Recreate", Some(_)) => {
            errors.forbidden(&at, "may not be specified when strategy `type` is 'Recreate'");
        }
        ("Recreate", None) => {}
        ("RollingUpdate", None) => errors.required(&at, ""),
        ("RollingUpdate", Some(rolling)) => {
            let (unavailable, surge) = (rolling.get("maxUnavailable"), rolling.get("maxSurge"));
            let unavailable_path = at.field("maxUnavailable");
            validate_share(unavailable, &unavailable_path, errors);
            validate_share(surge, &at.field("maxSurge"), errors);
            if share(unavailable) == 0 && share(surge) == 0 {
                errors.invalid(&unavailable_path, 0, "may not be 0 when `maxSurge` is 0");
            }
            validate_share_cap(unavailable, &unavailable_path, errors);
        }
        (other, _) => errors.not_supported(path, other, &["Recreate", "RollingUpdate"]),
    }
}
