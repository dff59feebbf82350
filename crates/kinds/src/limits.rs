//! LimitRange and ResourceQuota as stored; enforcing them is admission's work.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tenure_machinery::quantity::Quantity;
use tenure_machinery::validate::{objects, objects_mut, text};
use tenure_machinery::{Cx, Errors, Object, ObjectExt, Path, Rules, name};

use crate::stored::{keep, member, set_status, spec, texts};

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

    fn prepare_create(&self, object: &mut Object, cx: &Cx) {
        // The only kind that needs no name: any will do.
        if object.name().is_empty() {
            object.map_mut("metadata").insert("name".to_owned(), cx.uid.as_str().into());
        }
    }

    fn validate(&self, object: &Object, errors: &mut Errors) {
        let root = Path::Root.field("spec");
        let list = root.field("limits");
        let mut seen = Vec::new();
        for (index, limit) in objects(spec(object), "limits") {
            let path = list.index(index);
            let kind = text(limit, "type");
            validate_type(kind, &path.field("type"), errors);
            if seen.contains(&kind) {
                errors.duplicate(&path.field("type"), format_args!("{kind:?}"));
            }
            seen.push(kind);
            validate_names(limit, kind, &path, errors);
            for resource in resources(limit, kind) {
                validate_order(limit, resource, &path, errors);
                validate_ratio(limit, resource, &path, errors);
            }
        }
    }
}

/// Names that quotas know without a prefix.
const QUOTA_NAMES: [&str; 19] = [
    "configmaps",
    "cpu",
    "ephemeral-storage",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "memory",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
    "requests.storage",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
];
/// Those that are counted.
const COUNTED: [&str; 9] = [
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
];
/// Those of pods, which scopes of pods may choose among.
const OF_PODS: [&str; 7] =
    ["cpu", "limits.cpu", "limits.memory", "memory", "pods", "requests.cpu", "requests.memory"];
const SCOPES: [&str; 7] = [
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
];

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
        let empty = Object::new();
        let hard = spec(object).map_at(&["hard"]).unwrap_or(&empty);
        for (resource, value) in hard {
            validate_limit(resource, value, &path.key(resource), errors);
        }
        validate_scopes(spec(object), hard, &root, errors);
    }

    fn validate_update(&self, object: &Object, old: &Object, errors: &mut Errors) {
        let scopes = |quota: &Object| -> BTreeSet<String> {
            texts(spec(quota), "scopes").into_iter().map(str::to_owned).collect()
        };
        if scopes(object) != scopes(old) {
            let root = Path::Root.field("spec");
            let value = spec(object).get("scopes").unwrap_or(&Value::Null);
            errors.invalid(&root.field("scopes"), value, "field is immutable");
        }
    }

    fn warnings(&self, object: &Object, old: Option<&Object>) -> Vec<String> {
        let hard = spec(object).map_at(&["hard"]).filter(|_| old.is_none());
        hard.map(upside_down).unwrap_or_default()
    }

    fn validate_status(&self, object: &Object, _old: &Object, errors: &mut Errors) {
        let root = Path::Root.field("status");
        for list in ["hard", "used"] {
            let path = root.field(list);
            for (resource, value) in object.map_at(&["status", list]).into_iter().flatten() {
                validate_limit(resource, value, &path.key(resource), errors);
            }
        }
    }
}

/// Requests that a quota allows more of than limits.
fn upside_down(hard: &Object) -> Vec<String> {
    let amount = |name: &str| hard.get(name).and_then(Quantity::from_value);
    let mut warnings = Vec::new();
    for resource in ["cpu", "memory", "storage", "ephemeral-storage"] {
        let mut request = format!("requests.{resource}");
        if amount(&request).is_none() && matches!(resource, "cpu" | "memory") {
            resource.clone_into(&mut request);
        }
        let limit = format!("limits.{resource}");
        if let (Some(asked), Some(most)) = (amount(&request), amount(&limit))
            && asked > most
        {
            let (asked, most) = (asked.canonical(), most.canonical());
            warnings.push(format!(
                "ResourceQuota {request} ({asked}) should be less than {limit} ({most})"
            ));
        }
    }
    warnings
}

fn is_huge(name: &str) -> bool {
    name.starts_with("hugepages-")
}

fn is_quota_name(name: &str) -> bool {
    QUOTA_NAMES.contains(&name) || is_huge(name) || name.starts_with("requests.hugepages-")
}

/// Whether a name belongs to Kubernetes: without a prefix, or with its.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// One limit of a quota: its name and its amount.
fn validate_limit(name: &str, value: &Value, path: &Path<'_>, errors: &mut Errors) {
    for why in name::qualified_name_faults(name) {
        errors.invalid(path, format_args!("{name:?}"), why);
    }
    if !name.contains('/') && !is_quota_name(name) {
        errors.invalid(path, format_args!("{name:?}"), "must be a standard resource for quota");
    }
    let amount = Quantity::from_value(value);
    if amount.is_none_or(Quantity::is_negative) {
        errors.invalid(path, value, "must be greater than or equal to 0");
    }
    let counted = COUNTED.contains(&name) || (!is_native(name) && !name.starts_with("requests."));
    if counted && amount.is_some_and(|amount| !amount.is_whole()) {
        errors.invalid(path, value, "must be an integer");
    }
}

/// Whether a scope can choose among the objects that a limit is about.
fn fits(scope: &str, limit: &str) -> bool {
    match scope {
        "BestEffort" => limit == "pods",
        "VolumeAttributesClass" => matches!(limit, "persistentvolumeclaims" | "requests.storage"),
        _ if SCOPES.contains(&scope) => OF_PODS.contains(&limit),
        _ => true,
    }
}

fn validate_scopes(spec: &Object, hard: &Object, root: &Path<'_>, errors: &mut Errors) {
    let misfits = |scope: &str| {
        hard.keys().filter(|limit| is_quota_name(limit) && !fits(scope, limit)).count()
    };
    let clash = |scopes: &[&str]| {
        [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]]
            .iter()
            .filter(|pair| pair.iter().all(|scope| scopes.contains(scope)))
            .count()
    };
    let path = root.field("scopes");
    let scopes = texts(spec, "scopes");
    let shown = spec.get("scopes").unwrap_or(&Value::Null);
    for scope in &scopes {
        if !SCOPES.contains(scope) {
            errors.invalid(&path, shown, "unsupported scope");
        }
        for _ in 0..misfits(scope) {
            errors.invalid(&path, shown, "unsupported scope applied to resource");
        }
    }
    for _ in 0..clash(&scopes) {
        errors.invalid(&path, shown, "conflicting scopes");
    }
    let Some(selector) = spec.map_at(&["scopeSelector"]) else { return };
    let of = root.field("scopeSelector");
    let path = of.field("matchExpressions");
    let mut chosen = Vec::new();
    for (_, wanted) in objects(selector, "matchExpressions") {
        let (scope, operator) = (text(wanted, "scopeName"), text(wanted, "operator"));
        let values = wanted.list_at(&["values"]).len();
        if !SCOPES.contains(&scope) {
            let why = "unsupported scope";
            errors.invalid(&path.field("scopeName"), format_args!("{scope:?}"), why);
        }
        for _ in 0..misfits(scope) {
            errors.invalid(&path, "", "unsupported scope applied to resource");
        }
        let named = matches!(scope, "PriorityClass" | "VolumeAttributesClass");
        if SCOPES.contains(&scope) && !named && operator != "Exists" {
            let why = "must be 'Exists' for a scope of this kind";
            errors.invalid(&path.field("operator"), format_args!("{operator:?}"), why);
        }
        match (operator, values) {
            ("In" | "NotIn", 0) => {
                let why = "must be at least one value when `operator` is 'In' or 'NotIn'";
                errors.required(&path.field("values"), why);
            }
            ("Exists" | "DoesNotExist", 1..) => {
                let why = "must be no value when `operator` is 'Exists' or 'DoesNotExist'";
                let given = wanted.get("values").unwrap_or(&Value::Null);
                errors.invalid(&path.field("values"), given, why);
            }
            ("In" | "NotIn" | "Exists" | "DoesNotExist", _) => {}
            _ => {
                let why = "not a valid selector operator";
                errors.invalid(&path.field("operator"), format_args!("{operator:?}"), why);
            }
        }
        chosen.push(scope);
    }
    for _ in 0..clash(&chosen) {
        errors.invalid(&path, "", "conflicting scopes");
    }
}

fn validate_type(kind: &str, path: &Path<'_>, errors: &mut Errors) {
    let faults = name::qualified_name_faults(kind);
    for why in &faults {
        errors.invalid(path, format_args!("{kind:?}"), why);
    }
    if faults.is_empty() && !kind.contains('/') && !TYPES.contains(&kind) {
        let why = "must be a standard limit type or fully qualified";
        errors.invalid(path, format_args!("{kind:?}"), why);
    }
}

const TYPES: [&str; 3] = ["Pod", "Container", "PersistentVolumeClaim"];

/// Which resources each list of a limit may name, and which lists each type may have.
fn validate_names(limit: &Object, kind: &str, path: &Path<'_>, errors: &mut Errors) {
    for list in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
        let at = path.field(list);
        let values = limit.map_at(&[list]).into_iter().flatten();
        if kind == "Pod" && list.starts_with("default") {
            if values.count() > 0 {
                errors.forbidden(&at, "may not be specified when `type` is 'Pod'");
            }
            continue;
        }
        for (resource, _) in values {
            validate_resource(resource, kind, &at.key(resource), errors);
        }
    }
    let storage = |list: &str| limit.at(&[list, "storage"]).is_some();
    if kind == "PersistentVolumeClaim" && !storage("min") && !storage("max") {
        let why = "either minimum or maximum storage value is required, but neither was provided";
        errors.required(&path.field("limits"), why);
    }
}

fn validate_resource(resource: &str, kind: &str, path: &Path<'_>, errors: &mut Errors) {
    let shown = format_args!("{resource:?}");
    let faults = name::qualified_name_faults(resource);
    for why in &faults {
        errors.invalid(path, shown, why);
    }
    let prefixed = resource.contains('/');
    let standard = is_quota_name(resource) || resource == "storage";
    let of_containers =
        ["cpu", "memory", "ephemeral-storage"].contains(&resource) || is_huge(resource);
    if faults.is_empty() && !prefixed && !standard {
        let why = "must be a standard resource type or fully qualified";
        errors.invalid(path, shown, why);
    }
    if !matches!(kind, "Pod" | "Container") {
        return;
    }
    if !prefixed && !of_containers {
        errors.invalid(path, shown, "must be a standard resource for containers");
    } else if prefixed && !is_native(resource) {
        let quota = format!("requests.{resource}");
        if resource.starts_with("requests.") || name::qualified_name(&quota).is_some() {
            errors.invalid(path, shown, "doesn't follow extended resource name standard");
        }
    }
}

/// The resources that the lists of a limit name, each once; a pod has no defaults.
fn resources<'a>(limit: &'a Object, kind: &str) -> BTreeSet<&'a str> {
    let defaults: &[&str] = if kind == "Pod" { &[] } else { &["default", "defaultRequest"] };
    let lists = ["min", "max", "maxLimitRequestRatio"].iter().chain(defaults);
    lists
        .filter_map(|list| limit.map_at(&[list]))
        .flat_map(Object::keys)
        .map(String::as_str)
        .collect()
}

fn amount(limit: &Object, list: &str, resource: &str) -> Option<Quantity> {
    limit.at(&[list, resource]).and_then(Quantity::from_value)
}

/// A ratio is at least one and reaches no further than from min to max.
fn validate_ratio(limit: &Object, resource: &str, path: &Path<'_>, errors: &mut Errors) {
    let amount = |list: &str| amount(limit, list, resource);
    let shown = |list: &str| limit.at(&[list, resource]).cloned().unwrap_or_default();
    if let Some(ratio) = amount("maxLimitRequestRatio") {
        let (at, value) = (path.field("maxLimitRequestRatio"), shown("maxLimitRequestRatio"));
        if ratio < Quantity::from_units(1) {
            errors.invalid(&at.key(resource), &value, "ratio is less than 1");
        }
        if let (Some(min), Some(max)) = (amount("min"), amount("max"))
            && !min.is_zero()
            && !max.exceeds_ratio(min, ratio)
            && max != min.multiplied(ratio)
        {
            errors.invalid(&at.key(resource), &value, "ratio is greater than max/min");
        }
    }
    let overcommits = is_native(resource) && !is_huge(resource);
    if let (false, Some(own), Some(other)) =
        (overcommits, amount("defaultRequest"), amount("default"))
        && own != other
    {
        let at = path.field("defaultRequest");
        errors.invalid(&at.key(resource), shown("defaultRequest"), "must equal the default limit");
    }
}

fn lend(limit: &mut Object, from: &str, to: &str) {
    let Some(values) = limit.map_at(&[from]).cloned() else { return };
    let target = limit.map_mut(to);
    for (resource, value) in values {
        target.set_default(&resource, value);
    }
}

/// Pairs of lists of which the first may not be more than the second, and which of them is at fault.
const ORDER: [(&str, &str, &str); 6] = [
    ("min", "max", "min"),
    ("min", "defaultRequest", "defaultRequest"),
    ("defaultRequest", "max", "defaultRequest"),
    ("defaultRequest", "default", "defaultRequest"),
    ("min", "default", "default"),
    ("default", "max", "default"),
];

/// min ≤ defaultRequest ≤ default ≤ max, resource by resource.
fn validate_order(limit: &Object, resource: &str, path: &Path<'_>, errors: &mut Errors) {
    let whole = text(limit, "type") == "Pod";
    let pairs = ORDER.iter().take(if whole { 1 } else { ORDER.len() });
    for (low, high, shown) in pairs {
        let (Some(below), Some(above)) =
            (amount(limit, low, resource), amount(limit, high, resource))
        else {
            continue;
        };
        if below > above {
            let place = path.field(shown);
            let why = format!("{low} is more than {high}");
            errors.invalid(&place.key(resource), format_args!("\"{}\"", below.canonical()), &why);
        }
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use serde_json::json;

    use crate::check::{created, faults, row, warned, warned_update};

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
    fn r136h_limits_need_no_name_and_are_compared_resource_by_resource() {
        let kind = row("", "LimitRange");
        let mut object = json!({"metadata": {}}).as_object().cloned().unwrap();
        let cx = tenure_machinery::Cx {
            now: String::new(),
            uid: "0f".to_owned(),
            subresource: None,
            unlabelled: false,
        };
        kind.rules.prepare_create(&mut object, &cx);
        assert_eq!(object["metadata"], json!({"name": "0f"}));
        let of = |limit: serde_json::Value| {
            faults(&row("", "LimitRange"), json!({"spec": {"limits": [limit]}}))
        };
        let at = |list: &str, resource: &str| {
            format!("spec.limits[0].{list}[{resource}] FieldValueInvalid")
        };
        let upside_down = |resource: &str| {
            ["min", "defaultRequest", "default"].map(|list| at(list, resource)).to_vec()
        };
        let one = json!({"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}});
        // What max lends to both defaults is less than min as well.
        assert_eq!(of(one), upside_down("cpu"));
        let two = json!({"type": "Container", "min": {"memory": "2", "cpu": "2"},
            "max": {"memory": "1", "cpu": "1"}});
        assert_eq!(of(two), [upside_down("cpu"), upside_down("memory")].concat());
        let kind = "spec.limits[0].type FieldValueInvalid";
        assert_eq!(of(json!({"max": {"cpu": "1"}})), [kind, kind]);
    }

    #[test]
    fn r136_quotas_are_not_negative() {
        let body = json!({"spec": {"hard": {"pods": "-1"}}});
        assert_eq!(faults(&row("", "ResourceQuota"), body), ["spec.hard[pods] FieldValueInvalid"]);
    }

    #[test]
    fn r250_limits_that_mean_nothing_are_refused() {
        let of = |limit: serde_json::Value| {
            faults(&row("", "LimitRange"), json!({"spec": {"limits": [limit]}}))
        };
        let limit = |rest: &str| format!("spec.limits[0].{rest}");
        assert_eq!(of(json!({"type": "Node"})), [limit("type FieldValueInvalid")]);
        assert_eq!(
            of(json!({"type": "Pod", "default": {"cpu": "1"}})),
            [limit("default FieldValueForbidden")]
        );
        assert_eq!(
            of(json!({"type": "PersistentVolumeClaim"})),
            [limit("limits FieldValueRequired")]
        );
        let storage = json!({"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}});
        assert!(of(storage).is_empty());
        assert_eq!(
            of(json!({"type": "Container", "max": {"pods": "1"}})).first(),
            Some(&limit("max[pods] FieldValueInvalid"))
        );
        assert_eq!(
            of(json!({"type": "Container", "maxLimitRequestRatio": {"cpu": "500m"}})),
            [limit("maxLimitRequestRatio[cpu] FieldValueInvalid")]
        );
        let wide = json!({"type": "Pod", "min": {"cpu": "1"}, "max": {"cpu": "2"},
            "maxLimitRequestRatio": {"cpu": "3"}});
        assert_eq!(of(wide), [limit("maxLimitRequestRatio[cpu] FieldValueInvalid")]);
        let exact = json!({"type": "Pod", "min": {"cpu": "1"}, "max": {"cpu": "2"},
            "maxLimitRequestRatio": {"cpu": "2"}});
        assert!(of(exact).is_empty());
    }

    #[test]
    fn r253_quotas_that_mean_nothing_are_refused() {
        let of = |spec: serde_json::Value| faults(&row("", "ResourceQuota"), json!({"spec": spec}));
        assert_eq!(of(json!({"hard": {"nodes": "1"}})), ["spec.hard[nodes] FieldValueInvalid"]);
        assert!(of(json!({"hard": {"count/widgets.example.com": "1", "cpu": "1"}})).is_empty());
        assert_eq!(of(json!({"hard": {"pods": "1500m"}})), ["spec.hard[pods] FieldValueInvalid"]);
        let both = json!({"hard": {"pods": "1"}, "scopes": ["BestEffort", "NotBestEffort"]});
        assert_eq!(of(both), ["spec.scopes FieldValueInvalid"]);
        let misfit = json!({"hard": {"services": "1"}, "scopes": ["Terminating"]});
        assert_eq!(of(misfit), ["spec.scopes FieldValueInvalid"]);
        for unknown in
            [json!({"hard": {"pods": "1"}, "scopes": ["Nope"]}), json!({"scopes": ["Nope"]})]
        {
            assert_eq!(of(unknown), ["spec.scopes FieldValueInvalid"]);
        }
        let nothing = json!({"scopes": ["BestEffort", "NotBestEffort"], "scopeSelector": {
            "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In"}]}});
        let at = "spec.scopeSelector.matchExpressions.values FieldValueRequired";
        assert_eq!(of(nothing), ["spec.scopes FieldValueInvalid", at]);
        let empty = json!({"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": [
            {"scopeName": "PriorityClass", "operator": "In"}]}});
        assert_eq!(of(empty), ["spec.scopeSelector.matchExpressions.values FieldValueRequired"]);
    }

    #[test]
    fn r31_a_quota_that_allows_more_requests_than_limits_is_warned_about() {
        let kind = row("", "ResourceQuota");
        let told = |hard: serde_json::Value| warned(&kind, json!({"spec": {"hard": hard}})).len();
        assert_eq!(told(json!({"requests.cpu": "2", "limits.cpu": "1"})), 1);
        assert_eq!(told(json!({"cpu": "2", "limits.cpu": "1"})), 1);
        assert_eq!(told(json!({"cpu": "2", "requests.cpu": "1", "limits.cpu": "1"})), 0);
        assert_eq!(told(json!({"ephemeral-storage": "2", "limits.ephemeral-storage": "1"})), 0);
        assert_eq!(told(json!({"requests.memory": "1Gi", "limits.memory": "1Gi"})), 0);
        let old = json!({"spec": {"hard": {"cpu": "2", "limits.cpu": "1"}}});
        assert_eq!(warned_update(&kind, old.clone(), old), [""; 0]);
    }
}
