//! PriorityClass: a number with a name.

use tenure_machinery::kind::UpdateTurn;
use tenure_machinery::validate::{validate_frozen, validate_one_of};
use tenure_machinery::{Cx, Errors, Object, ObjectExt, Path, Rules};

/// Rules of PriorityClass.
pub(crate) struct PriorityClassRules;

const USER_MAX: i64 = 1_000_000_000;
const SYSTEM: [(&str, i64); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

impl Rules for PriorityClassRules {
    fn default(&self, object: &mut Object) {
        object.set_default("preemptionPolicy", "PreemptLowerPriority");
    }

    fn prepare_create(&self, object: &mut Object, _cx: &Cx) {
        object.map_mut("metadata").insert("generation".to_owned(), 1.into());
    }

    fn validate(&self, object: &Object, errors: &mut Errors) {
        let value = object.int_at(&["value"]).unwrap_or_default();
        let name = object.name();
        if name.starts_with("system-") {
            let global = object.bool_at(&["globalDefault"]).unwrap_or_default();
            if !SYSTEM.contains(&(name, value)) || global {
                let path = Path::Root.field("metadata");
                errors.forbidden(&path.field("name"), "names with system- are reserved");
            }
        } else if value > USER_MAX {
            let why = format!("must be at most {USER_MAX}");
            errors.forbidden(&Path::Root.field("value"), &why);
        }
        let policies = &["Never", "PreemptLowerPriority"];
        validate_one_of(object, "preemptionPolicy", policies, &Path::Root, errors);
    }

    fn update_turn(&self) -> UpdateTurn {
        UpdateTurn::Only
    }

    fn validate_update(&self, object: &Object, old: &Object, errors: &mut Errors) {
        let value = |class: &Object| class.int_at(&["value"]).unwrap_or_default();
        if value(object) != value(old) {
            errors.forbidden(&Path::Root.field("value"), "may not change");
        }
        validate_frozen(object, old, "preemptionPolicy", &Path::Root, errors);
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use serde_json::json;

    use crate::check::{created, faults, row, update_faults};

    #[test]
    fn r136_priority_class() {
        let kind = row("scheduling.k8s.io", "PriorityClass");
        assert_eq!(
            created(&kind, json!({"value": 1000})),
            json!({"value": 1000, "preemptionPolicy": "PreemptLowerPriority"})
        );
        assert_eq!(faults(&kind, json!({"value": 1_000_000_001})), ["value FieldValueForbidden"]);
        assert_eq!(
            faults(&kind, json!({"metadata": {"name": "system-x"}, "value": 1})),
            ["metadata.name FieldValueForbidden"]
        );
        let known = json!({"metadata": {"name": "system-node-critical"}, "value": 2_000_001_000});
        assert!(faults(&kind, known).is_empty());
        let old = json!({"value": 1000});
        assert_eq!(
            update_faults(&kind, old.clone(), json!({"value": 2000})),
            ["value FieldValueForbidden"]
        );
        let never = json!({"value": 1000, "preemptionPolicy": "Never"});
        assert_eq!(update_faults(&kind, old, never), ["preemptionPolicy FieldValueInvalid"]);
    }

    #[test]
    fn r65_an_update_of_a_class_is_not_looked_at_anew() {
        let kind = row("scheduling.k8s.io", "PriorityClass");
        let of = |value: i64| json!({"value": value});
        assert_eq!(update_faults(&kind, of(1), of(2_000_000_000)), ["value FieldValueForbidden"]);
        assert_eq!(faults(&kind, of(2_000_000_000)), ["value FieldValueForbidden"]);
    }
}
