//! APIService as stored. Requests are passed on by the server; whether there is somebody who answers them is
//! decided in engine `workload`.

use serde_json::{Value, json};
use tenure_machinery::kind::MetadataTurn;
use tenure_machinery::meta::validate_meta_again;
use tenure_machinery::validate::{port_number, text};
use tenure_machinery::{Cx, Errors, Object, ObjectExt, Path, Rules, name};

use crate::podspec::text::dns_subdomain;
use crate::stored::{keep, member, set_status, spec};

/// What a condition may say.
const CONDITION_STATUSES: &[&str] = &["False", "True", "Unknown"];

/// Rules of APIService.
pub(crate) struct ApiServiceRules;

impl Rules for ApiServiceRules {
    fn default(&self, object: &mut Object) {
        if let Some(spec) = member(object, "spec")
            && let Some(service) = member(spec, "service")
        {
            service.set_default("port", 443);
        }
    }

    fn prepare_create(&self, object: &mut Object, cx: &Cx) {
        let mut status = json!({});
        // What this server serves itself is available from the start.
        if spec(object).map_at(&["service"]).is_none() {
            status = json!({"conditions": [{
                "type": "Available", "status": "True", "reason": "Local",
                "message": "Local APIServices are always available",
                "lastTransitionTime": cx.now,
            }]});
        }
        set_status(object, status);
    }

    fn prepare_update(&self, object: &mut Object, old: &Object, _cx: &Cx) {
        keep(object, old, "status");
    }

    /// The name is looked at before the rest of the metadata.
    fn metadata_turn(&self) -> MetadataTurn {
        MetadataTurn::Second
    }

    fn validate(&self, object: &Object, errors: &mut Errors) {
        let (name, spec) = (object.name(), spec(object));
        // A name that is none is told of with the metadata.
        let is_name = !name.is_empty() && name::path_segment(name).is_none();
        if is_name && name != format!("{}.{}", text(spec, "version"), text(spec, "group")) {
            let meta = Path::Root.field("metadata");
            let why = "must be spec.version, a dot, and spec.group";
            errors.invalid(&meta.field("name"), format_args!("{name:?}"), why);
        }
    }

    fn validate_update(&self, object: &Object, _old: &Object, errors: &mut Errors) {
        // Upstream looks at a changed one as at a new one, all of its metadata included.
        validate_meta_again(object, errors);
    }

    fn validate_status(&self, object: &Object, _old: &Object, errors: &mut Errors) {
        let path = Path::Root.field("status");
        let path = path.field("conditions");
        for (place, condition) in object.list_at(&["status", "conditions"]).iter().enumerate() {
            let status = condition.get("status").and_then(Value::as_str).unwrap_or_default();
            if !CONDITION_STATUSES.contains(&status) {
                let at = path.index(place);
                errors.not_supported(&at.field("status"), status, CONDITION_STATUSES);
            }
        }
    }

    fn validate_last(&self, object: &Object, errors: &mut Errors) {
        validate_spec(spec(object), &Path::Root.field("spec"), errors);
    }
}

fn validate_spec(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    let (group, version) = (text(spec, "group"), text(spec, "version"));
    if !group.is_empty() {
        dns_subdomain(group, &path.field("group"), errors);
    } else if version != "v1" {
        errors.required(&path.field("group"), "only v1 is served without a group");
    }
    if let Some(why) = name::dns_1035_label(version) {
        errors.invalid(&path.field("version"), format_args!("{version:?}"), why);
    }
    for (member, most) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1_000)] {
        let value = spec.int_at(&[member]).unwrap_or_default();
        if !(1..=most).contains(&value) {
            let why = format!("must be between 1 and {most}");
            errors.invalid(&path.field(member), value, &why);
        }
    }
    let bundle = !text(spec, "caBundle").is_empty();
    let unchecked = spec.bool_at(&["insecureSkipTLSVerify"]) == Some(true);
    let Some(service) = spec.map_at(&["service"]) else {
        let why = "has no meaning without a service";
        if bundle {
            errors.invalid(&path.field("caBundle"), "a bundle", why);
        }
        if unchecked {
            errors.invalid(&path.field("insecureSkipTLSVerify"), true, why);
        }
        return;
    };
    let place = path.field("service");
    for member in ["namespace", "name"] {
        if text(service, member).is_empty() {
            errors.required(&place.field(member), "");
        }
    }
    let port = service.int_at(&["port"]).unwrap_or_default();
    if let Some(why) = port_number(port) {
        errors.invalid(&place.field("port"), port, why);
    }
    if unchecked && bundle {
        let why = "has no meaning with a caBundle";
        errors.invalid(&path.field("insecureSkipTLSVerify"), true, why);
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use serde_json::json;

    use tenure_machinery::Errors;
    use tenure_machinery::meta::validate_meta_update;

    use crate::check::{created, faults, row, update_faults};

    #[test]
    fn r136_api_service() {
        let kind = row("apiregistration.k8s.io", "APIService");
        let body = json!({"metadata": {"name": "v1.apps"}, "spec": {"group": "apps", "version": "v1",
            "groupPriorityMinimum": 17800, "versionPriority": 15}});
        assert!(faults(&kind, body.clone()).is_empty());
        assert_eq!(created(&kind, body)["status"]["conditions"][0]["status"], json!("True"));
        assert_eq!(
            faults(&kind, json!({"spec": {"group": "a", "version": "v1"}})),
            [
                "metadata.name FieldValueInvalid",
                "spec.groupPriorityMinimum FieldValueInvalid",
                "spec.versionPriority FieldValueInvalid",
            ]
        );
    }

    #[test]
    fn r136_what_an_api_service_calls() {
        let kind = row("apiregistration.k8s.io", "APIService");
        let of = |name: &str, rest: serde_json::Value| {
            let mut spec = json!({"groupPriorityMinimum": 1, "versionPriority": 1});
            spec.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
            faults(&kind, json!({"metadata": {"name": name}, "spec": spec}))
        };
        assert!(of("v1.", json!({"version": "v1"})).is_empty());
        assert_eq!(of("v2.", json!({"version": "v2"})), ["spec.group FieldValueRequired"]);
        assert_eq!(
            of(
                "v1.A",
                json!({"version": "v1", "group": "A", "caBundle": "eA==",
                "insecureSkipTLSVerify": true})
            ),
            [
                "spec.group FieldValueInvalid",
                "spec.caBundle FieldValueInvalid",
                "spec.insecureSkipTLSVerify FieldValueInvalid",
            ]
        );
        assert_eq!(
            of("v1.a", json!({"version": "v1", "group": "a", "service": {"port": 0, "name": "s"}})),
            ["spec.service.namespace FieldValueRequired", "spec.service.port FieldValueInvalid"]
        );
    }

    #[test]
    fn r60_bad_labels_of_a_changed_api_service_are_told_four_times() {
        let kind = row("apiregistration.k8s.io", "APIService");
        let of = |group: &str, labels: serde_json::Value| {
            json!({"metadata": {"name": "v1.a", "labels": labels}, "spec": {"group": group,
                "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}})
        };
        let (new, old) = (of("b", json!({"a": "b d"})), of("a", json!({})));
        let object = |value: &serde_json::Value| value.as_object().unwrap().clone();
        let mut errors = Errors::new();
        validate_meta_update(&object(&new), &object(&old), &kind, &mut errors);
        assert_eq!(errors.causes().len(), 3);
        assert_eq!(
            update_faults(&kind, old, new),
            ["metadata.name FieldValueInvalid", "metadata.labels FieldValueInvalid"]
        );
    }
}
