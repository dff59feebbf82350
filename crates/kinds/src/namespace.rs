//! Namespace: its name as a label, its own finalizer, its phase.
//!
//! Emptying a namespace on deletion is a controller's work.

use serde_json::{Value, json};
use tenure_machinery::{Cx, Errors, Object, ObjectExt, Path, Rules, name};

use crate::podspec::pod_security::PodSecurityLevels;
use crate::stored::{is_new, keep, set_status, texts};

/// Rules of Namespace.
pub(crate) struct NamespaceRules;

const NAME_LABEL: &str = "kubernetes.io/metadata.name";

impl Rules for NamespaceRules {
    fn default(&self, object: &mut Object) {
        let name = object.name().to_owned();
        // A name still to be generated is labelled in prepare_create.
        if !name.is_empty() {
            object.map_mut("metadata").map_mut("labels").insert(NAME_LABEL.to_owned(), name.into());
        }
    }

    fn prepare_create(&self, object: &mut Object, _cx: &Cx) {
        self.default(object);
        let spec = object.map_mut("spec");
        let mut finalizers: Vec<Value> = spec.list_at(&["finalizers"]).to_vec();
        if !finalizers.iter().any(|f| f == "kubernetes") {
            finalizers.push("kubernetes".into());
        }
        spec.insert("finalizers".to_owned(), finalizers.into());
        set_status(object, json!({"phase": "Active"}));
    }

    fn prepare_update(&self, object: &mut Object, old: &Object, cx: &Cx) {
        keep(object, old, "status");
        if cx.subresource != Some("finalize") {
            keep(object, old, "spec");
        }
    }

    fn validate(&self, object: &Object, errors: &mut Errors) {
        let spec = Path::Root.field("spec");
        let path = spec.field("finalizers");
        for (index, finalizer) in
            texts(crate::stored::spec(object), "finalizers").iter().enumerate()
        {
            let plain = matches!(*finalizer, "kubernetes" | "orphan" | "foregroundDeletion");
            let faults = name::qualified_name_faults(finalizer);
            for why in &faults {
                errors.invalid(&path.index(index), format_args!("{finalizer:?}"), why);
            }
            if faults.is_empty() && !plain && !finalizer.contains('/') {
                let why = "must have a domain, such as example.com/name";
                errors.invalid(&path.index(index), format_args!("{finalizer:?}"), why);
            }
        }
        if is_new(object) {
            policy_faults(object, errors);
        }
    }

    fn validate_update(&self, object: &Object, old: &Object, errors: &mut Errors) {
        let (mut now, mut before) = (Errors::new(), Errors::new());
        policy_faults(object, &mut now);
        policy_faults(old, &mut before);
        let faults = |of: &Errors| -> Vec<(String, String)> {
            of.causes().iter().map(|one| (one.field.clone(), one.message.clone())).collect()
        };
        // What is stored stays valid.
        if faults(&now) != faults(&before) {
            policy_faults(object, errors);
        }
    }
}

/// What is wrong with the labels that say which pods a namespace allows: a mistake must not open it.
fn policy_faults(namespace: &Object, errors: &mut Errors) {
    let labels = namespace.map_at(&["metadata", "labels"]).into_iter().flatten();
    let labels = labels.filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)));
    PodSecurityLevels::from_labels(labels, errors);
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use serde_json::json;

    use super::*;
    use crate::check::{created, faults, row, update_faults, updated};

    #[test]
    fn r136_namespace_label_finalizer_and_phase() {
        let mut object = json!({"metadata": {"name": "n", "labels": {"x": "y"}}});
        NamespaceRules.default(object.as_object_mut().unwrap());
        assert_eq!(object["metadata"]["labels"], json!({NAME_LABEL: "n", "x": "y"}));
        assert_eq!(
            created(&row("", "Namespace"), json!({"status": {"phase": "Terminating"}})),
            json!({"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}})
        );
    }

    #[test]
    fn r60_a_long_name_is_also_a_bad_label() {
        let name = "x".repeat(64);
        assert_eq!(
            faults(&row("", "Namespace"), json!({"metadata": {"name": name}})),
            ["metadata.name FieldValueInvalid", "metadata.labels FieldValueInvalid"]
        );
    }

    #[test]
    fn r167_labels_of_pod_security_are_checked_when_they_change() {
        let kind = row("", "Namespace");
        let labelled = |level: &str| json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": level}}});
        let fault = ["metadata.labels[pod-security.kubernetes.io/enforce] FieldValueInvalid"];
        assert_eq!(faults(&kind, labelled("basline")), fault);
        assert!(faults(&kind, labelled("baseline")).is_empty());
        let stored = |level: &str| {
            let mut namespace = labelled(level);
            namespace["metadata"]["resourceVersion"] = json!("1");
            namespace
        };
        assert_eq!(update_faults(&kind, stored("baseline"), stored("Baseline")), fault);
        assert_eq!(update_faults(&kind, stored("nope"), stored("neither")), fault);
        assert!(update_faults(&kind, stored("nope"), stored("nope")).is_empty());
    }

    #[test]
    fn r136_finalizers_change_only_through_finalize() {
        let new = updated(&row("", "Namespace"), json!({}), json!({"spec": {"finalizers": []}}));
        assert_eq!(new["spec"], json!({"finalizers": ["kubernetes"]}));
    }
}
