//! APIService as stored; proxying to the service it names is not done here.

use serde_json::json;
use tenure_machinery::validate::text;
use tenure_machinery::{Cx, Errors, Object, ObjectExt, Path, Rules, name};

use crate::stored::{keep, member, set_status, spec};

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

    fn validate(&self, object: &Object, errors: &mut Errors) {
        let path = Path::Root.field("spec");
        let spec = spec(object);
        let (group, version) = (text(spec, "group"), text(spec, "version"));
        if object.name() != format!("{version}.{group}") {
            let meta = Path::Root.field("metadata");
            let why = "must be spec.version, a dot, and spec.group";
            errors.invalid(&meta.field("name"), format_args!("{:?}", object.name()), why);
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
        let Some(service) = spec.map_at(&["service"]) else { return };
        let place = path.field("service");
        for member in ["namespace", "name"] {
            if text(service, member).is_empty() {
                errors.required(&place.field(member), "");
            }
        }
        let bundle = !text(spec, "caBundle").is_empty();
        if spec.bool_at(&["insecureSkipTLSVerify"]) == Some(true) && bundle {
            let why = "has no meaning with a caBundle";
            errors.invalid(&path.field("insecureSkipTLSVerify"), true, why);
        }
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use serde_json::json;

    use crate::check::{created, faults, row};

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
}
