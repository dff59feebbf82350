//! Rules of Pod and PodTemplate.

use serde_json::{Value, json};
use tenure_machinery::{Cx, Errors, Object, ObjectExt, Path, Rules};

use super::common::{has_moved, is_new, keep_status, shown, template_warning};
use crate::podspec::merge_label_keys;
use crate::podspec::text;
use crate::podspec::{
    WARNINGS_MAX, address_warning, apply_app_armor_annotations, default_pod_spec,
    default_pod_template, pod_warnings, prepare_ephemeral_update, prepare_resize, qos_class,
    validate_annotation_update, validate_pod, validate_pod_create, validate_pod_update,
    validate_template,
};
use crate::stored::is_status_write;

/// Rules of Pod.
pub struct PodRules;

impl Rules for PodRules {
    fn default(&self, object: &mut Object) {
        default_pod_spec(object.map_mut("spec"));
        if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
            pair_addresses(status);
        }
    }

    fn prepare_create(&self, object: &mut Object, cx: &Cx) {
        apply_app_armor_annotations(object);
        merge_label_keys(object);
        let spec = object.map_mut("spec");
        let class = qos_class(spec);
        let gated = !spec.list_at(&["schedulingGates"]).is_empty();
        let mut status = json!({"phase": "Pending", "qosClass": class});
        if gated && let Some(status) = status.as_object_mut() {
            let condition = json!({
                "lastProbeTime": null,
                "lastTransitionTime": cx.now,
                "message": "Scheduling is blocked due to non-empty scheduling gates",
                "reason": "SchedulingGated",
                "status": "False",
                "type": "PodScheduled",
            });
            status.insert("conditions".to_owned(), json!([condition]));
        }
        object.insert("status".to_owned(), status);
    }

    fn prepare_update(&self, object: &mut Object, old: &Object, cx: &Cx) {
        match cx.subresource {
            Some("ephemeralcontainers") => prepare_ephemeral_update(object, old),
            Some("resize") => prepare_resize(object, old),
            _ => keep_status(object, old),
        }
    }

    fn prepare_status(&self, object: &mut Object, old: &Object, _cx: &Cx) {
        // Old kubelets leave these out, which must not clear them.
        for member in [
            "qosClass",
            "resourceClaimStatuses",
            "extendedResourceClaimStatus",
            "nodeAllocatableResourceClaimStatuses",
        ] {
            if let Some(value) = old.at(&["status", member]) {
                object.map_mut("status").set_default(member, value.clone());
            }
        }
    }

    fn validate(&self, object: &Object, errors: &mut Errors) {
        validate_pod(object, errors);
        if is_new(object) {
            validate_pod_create(object, errors);
        }
    }

    fn validate_update(&self, object: &Object, old: &Object, errors: &mut Errors) {
        validate_pod_update(object, old, errors);
    }

    fn validate_status(&self, object: &Object, old: &Object, errors: &mut Errors) {
        validate_annotation_update(object, old, errors);
        let empty = Object::new();
        let status = object.map_at(&["status"]).unwrap_or(&empty);
        let path = Path::Root.field("status");
        let list = path.field("conditions");
        for (index, condition) in status.list_at(&["conditions"]).iter().enumerate() {
            let kind = condition.get("type").and_then(Value::as_str).unwrap_or_default();
            if !matches!(kind, "PodScheduled" | "Ready" | "Initialized") {
                text::qualified_name(kind, &list.index(index).field("Type"), errors);
            }
        }
        validate_nomination(status, old, &path, errors);
        text::non_negative(
            status.int_at(&["observedGeneration"]),
            &path.field("observedGeneration"),
            errors,
        );
        if status.get("qosClass") != old.at(&["status", "qosClass"]) {
            let at = path.field("qosClass");
            errors.invalid(&at, shown(status.get("qosClass")), "field is immutable");
        }
        for list in ["podIPs", "hostIPs"] {
            let at = path.field(list);
            let unchanged = status.get(list) == old.at(&["status", list]);
            for (index, entry) in status.list_at(&[list]).iter().enumerate().filter(|_| !unchanged)
            {
                let address = entry.get("ip").and_then(Value::as_str).unwrap_or_default();
                text::ip(address, &at.index(index), errors);
            }
        }
    }

    fn warnings(&self, object: &Object, old: Option<&Object>) -> Vec<String> {
        if is_status_write(object, old) {
            return status_warnings(object);
        }
        if old.is_some() {
            return Vec::new();
        }
        let advice = "this is used in the Pod's hostname, which can result in surprising behavior; \
                      a DNS label is recommended";
        let faults = tenure_machinery::name::dns_label_faults(object.name());
        let mut warnings = Vec::new();
        if !faults.is_empty() {
            warnings.push(format!("metadata.name: {advice}: [{}]", faults.join(" ")));
        }
        warnings.extend(pod_warnings(object));
        warnings
    }
}

/// What to tell about addresses in a status.
fn status_warnings(object: &Object) -> Vec<String> {
    let mut warnings = Vec::new();
    let path = Path::Root.field("status");
    for list in ["podIPs", "hostIPs"] {
        let list_path = path.field(list);
        for (index, entry) in object.list_at(&["status", list]).iter().enumerate() {
            let address = entry.get("ip").and_then(Value::as_str).unwrap_or_default();
            warnings.extend(address_warning(address, &list_path.index(index).field("ip")));
        }
    }
    warnings.truncate(WARNINGS_MAX);
    warnings
}

fn validate_nomination(status: &Object, old: &Object, path: &Path<'_>, errors: &mut Errors) {
    let now = status.str_at(&["nominatedNodeName"]).unwrap_or_default();
    let before = old.str_at(&["status", "nominatedNodeName"]).unwrap_or_default();
    if now.is_empty() || now == before {
        return;
    }
    let at = path.field("nominatedNodeName");
    text::dns_subdomain(now, &at, errors);
    if old.str_at(&["spec", "nodeName"]).is_some_and(|node| !node.is_empty()) {
        errors.forbidden(&at, "may not be set on pods that are already bound to a node");
    }
}

/// Keeps the single address and the list in step; the single one wins.
fn pair_addresses(status: &mut Object) {
    let (one, all) = ("podIP", "podIPs");
    let single = status.str_at(&[one]).unwrap_or_default().to_owned();
    let first = status
        .list_at(&[all])
        .first()
        .and_then(|entry| entry.get("ip"))
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    if single.is_empty() && !first.is_empty() {
        status.insert(one.to_owned(), json!(first));
    } else if !single.is_empty() && single != first {
        status.insert(all.to_owned(), json!([{"ip": single}]));
    }
}

/// Rules of PodTemplate.
pub struct PodTemplateRules;

impl Rules for PodTemplateRules {
    fn default(&self, object: &mut Object) {
        default_pod_template(object.map_mut("template"));
    }

    fn validate(&self, object: &Object, errors: &mut Errors) {
        if let Some(template) = object.map_at(&["template"]) {
            validate_template(template, &Path::Root.field("template"), errors);
        }
    }

    fn warnings(&self, object: &Object, old: Option<&Object>) -> Vec<String> {
        if has_moved(object, old) { template_warning(object, &Path::Root) } else { Vec::new() }
    }
}
