//! LimitRange and ResourceQuota as stored; enforcing them is admission's work.

use serde_json::{Value, json};
use tenure_machinery::quantity::Quantity;
use tenure_machinery::validate::{objects, objects_mut, text};
use tenure_machinery::{Cx, Errors, Object, ObjectExt, Path, Rules};

use crate::stored::{keep, member, set_status, spec};

/// Rules of LimitRange.
pub(crate) struct LimitRangeRules;
/// Rules of ResourceQuota.
pub(crate) struct ResourceQuotaRules;

impl Rules for LimitRangeRules {
    fn default(&self, object: &mut Object) {
        let Some(spec) = member(object, "spec") else { return };
        for limit in objects_mut(spec, "limits") {
            if text(limit, "type") == "Container" {
                // Each list lends its values to the next where that one is silent.
                lend(limit, "max", "default");
                lend(limit, "default", "defaultRequest");
                lend(limit, "min", "defaultRequest");
            }
        }
    }

    fn validate(&self, object: &Object, errors: &mut Errors) {
        let root = Path::Root.field("spec");
        let list = root.field("limits");
        let mut seen = Vec::new();
        for (index, limit) in objects(spec(object), "limits") {
            let path = list.index(index);
            let kind = text(limit, "type");
            if seen.contains(&kind) {
                errors.duplicate(&path.field("type"), format_args!("{kind:?}"));
            }
            seen.push(kind);
            validate_order(limit, &path, errors);
        }
    }
}

impl Rules for ResourceQuotaRules {
    fn prepare_create(&self, object: &mut Object, _cx: &Cx) {
        set_status(object, json!({}));
    }

    fn prepare_update(&self, object: &mut Object, old: &Object, _cx: &Cx) {
        keep(object, old, "status");
    }

    fn validate(&self, object: &Object, errors: &mut Errors) {
        let root = Path::Root.field("spec");
        let path = root.field("hard");
        let Some(hard) = spec(object).map_at(&["hard"]) else { return };
        for (resource, value) in hard {
            if Quantity::from_value(value).is_none_or(Quantity::is_negative) {
                errors.invalid(&path.key(resource), value, "must not be negative");
            }
        }
    }

    fn validate_update(&self, object: &Object, old: &Object, errors: &mut Errors) {
        if spec(object).get("scopes") != spec(old).get("scopes") {
            let root = Path::Root.field("spec");
            let value = spec(object).get("scopes").unwrap_or(&Value::Null);
            errors.invalid(&root.field("scopes"), value, "field is immutable");
        }
    }
}

fn lend(limit: &mut Object, from: &str, to: &str) {
    let Some(values) = limit.map_at(&[from]).cloned() else { return };
    let target = limit.map_mut(to);
    for (resource, value) in values {
        target.set_default(&resource, value);
    }
}

/// min ≤ defaultRequest ≤ default ≤ max, resource by resource.
fn validate_order(limit: &Object, path: &Path<'_>, errors: &mut Errors) {
    let amount =
        |list: &str, resource: &str| limit.at(&[list, resource]).and_then(Quantity::from_value);
    let ladder = ["min", "defaultRequest", "default", "max"];
    for (position, high) in ladder.iter().enumerate() {
        let Some(values) = limit.map_at(&[high]) else { continue };
        for resource in values.keys() {
            for low in ladder.iter().take(position) {
                let (Some(below), Some(above)) = (amount(low, resource), amount(high, resource))
                else {
                    continue;
                };
                if below > above {
                    let shown = if *high == "max" { low } else { high };
                    let place = path.field(shown);
                    let why = format!("{low} is more than {high}");
                    let value = format!("\"{}\"", below.canonical());
                    errors.invalid(&place.key(resource), value, &why);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use serde_json::json;

    use crate::check::{created, faults, row};

    #[test]
    fn r136_limit_range_lists_lend_values() {
        let kind = row("", "LimitRange");
        let body = json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"},
            "min": {"cpu": "1", "memory": "1Gi"}}]}});
        let limit = created(&kind, body)["spec"]["limits"][0].clone();
        assert_eq!(limit["default"], json!({"cpu": "2"}));
        assert_eq!(limit["defaultRequest"], json!({"cpu": "2", "memory": "1Gi"}));
        let upside_down = json!({"spec": {"limits": [{"type": "Pod", "max": {"cpu": "1"},
            "min": {"cpu": "2"}}]}});
        assert_eq!(faults(&kind, upside_down), ["spec.limits[0].min[cpu] FieldValueInvalid"]);
    }

    #[test]
    fn r136_quotas_are_not_negative() {
        let body = json!({"spec": {"hard": {"pods": "-1"}}});
        assert_eq!(faults(&row("", "ResourceQuota"), body), ["spec.hard[pods] FieldValueInvalid"]);
    }
}
