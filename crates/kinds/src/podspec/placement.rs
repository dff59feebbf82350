//! Where a pod may run: tolerations, affinity, spreading, gates.

use std::collections::BTreeSet;

use tenure_machinery::{Errors, Object, Path};

use crate::podspec::selector::validate_label_selector;
use crate::podspec::text;
use crate::podspec::view::{any, has, int, items, map, text as text_of, texts};

/// The list `tolerations` of an object; `path` is that of the list.
pub fn validate_tolerations(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    for (index, toleration) in items(spec, "tolerations").enumerate() {
        let at = path.index(index);
        let key = text_of(toleration, "key");
        let operator = text_of(toleration, "operator");
        let effect = text_of(toleration, "effect");
        let value = text_of(toleration, "value");
        let operator_path = at.field("operator");
        if !key.is_empty() {
            text::qualified_name(key, &at.field("key"), errors);
        }
        if key.is_empty() && operator != "Exists" {
            let why = "operator must be Exists when `key` is empty";
            errors.invalid(&operator_path, format_args!("{operator:?}"), why);
        }
        if has(toleration, "tolerationSeconds") && effect != "NoExecute" {
            let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.invalid(&at.field("effect"), format_args!("{effect:?}"), why);
        }
        match operator {
            "" | "Equal" => {
                let faults = text::label_value_faults(value);
                if !faults.is_empty() {
                    errors.invalid(&operator_path, format_args!("{value:?}"), &faults.join(";"));
                }
            }
            "Exists" if value.is_empty() => {}
            "Exists" => {
                let why = "value must be empty when `operator` is 'Exists'";
                errors.invalid(&operator_path, format_args!("{value:?}"), why);
            }
            other => errors.not_supported(&operator_path, other, &["Equal", "Exists"]),
        }
        if !effect.is_empty() {
            let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
            text::choice(effect, &effects, &at.field("effect"), errors);
        }
    }
}

/// The member `affinity`.
pub(crate) fn validate_affinity(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
    let Some(affinity) = map(spec, "affinity") else { return };
    if let Some(node) = map(affinity, "nodeAffinity") {
        let at = path.field("nodeAffinity");
        if let Some(required) = map(node, REQUIRED) {
            let at = at.field(REQUIRED);
            let terms = at.field("nodeSelectorTerms");
            if !any(required, "nodeSelectorTerms") {
                errors.required(&terms, "must have at least one node selector term");
            }
            for (index, term) in items(required, "nodeSelectorTerms").enumerate() {
                validate_node_term(term, true, &terms.index(index), errors);
            }
        }
        let list = at.field(PREFERRED);
        for (index, preferred) in items(node, PREFERRED).enumerate() {
            let at = list.index(index);
            validate_weight(preferred, &at, errors);
            if let Some(term) = map(preferred, "preference") {
                validate_node_term(term, false, &at.field("preference"), errors);
            }
        }
    }
    for name in ["podAffinity", "podAntiAffinity"] {
        let Some(pods) = map(affinity, name) else { continue };
        let at = path.field(name);
        let list = at.field(REQUIRED);
        for (index, term) in items(pods, REQUIRED).enumerate() {
            validate_pod_term(term, &list.index(index), errors);
        }
        let list = at.field(PREFERRED);
        for (index, preferred) in items(pods, PREFERRED).enumerate() {
            let at = list.index(index);
            validate_weight(preferred, &at, errors);
            if let Some(term) = map(preferred, "podAffinityTerm") {
                validate_pod_term(term, &at.field("podAffinityTerm"), errors);
            }
        }
    }
}

fn validate_weight(term: &Object, path: &Path<'_>, errors: &mut Errors) {
    let weight = int(term, "weight").unwrap_or(0);
    if !(1..=100).contains(&weight) {
        errors.invalid(&path.field("weight"), weight, "must be in the range 1-100");
    }
}

fn validate_node_term(term: &Object, check_values: bool, path: &Path<'_>, errors: &mut Errors) {
    let list = path.field("matchExpressions");
    for (index, requirement) in items(term, "matchExpressions").enumerate() {
        let at = list.index(index);
        let count = texts(requirement, "values").count();
        let values = at.field("values");
        match text_of(requirement, "operator") {
            "In" | "NotIn" if count == 0 => errors.required(&values, "must be specified"),
            "Exists" | "DoesNotExist" if count > 0 => {
                errors.forbidden(&values, "may not be specified")
            }
            "Gt" | "Lt" if count != 1 => errors.required(&values, "must be a single value"),
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            other => {
                let why = "not a valid selector operator";
                errors.invalid(&at.field("operator"), format_args!("{other:?}"), why);
            }
        }
        text::qualified_name(text_of(requirement, "key"), &at.field("key"), errors);
        if check_values {
            for (position, value) in texts(requirement, "values").enumerate() {
                text::label_value(value, &values.index(position), errors);
            }
        }
    }
    let list = path.field("matchFields");
    for (index, requirement) in items(term, "matchFields").enumerate() {
        let at = list.index(index);
        let values = at.field("values");
        match text_of(requirement, "operator") {
            "In" | "NotIn" => {
                if texts(requirement, "values").count() != 1 {
                    errors.required(&values, "must be only one value");
                }
            }
            other => {
                let why = "not a valid selector operator";
                errors.invalid(&at.field("operator"), format_args!("{other:?}"), why);
            }
        }
        match text_of(requirement, "key") {
            "metadata.name" => {
                for (position, value) in texts(requirement, "values").enumerate() {
                    text::dns_subdomain(value, &values.index(position), errors);
                }
            }
            key => {
                let why = "not a valid field selector key";
                errors.invalid(&at.field("key"), format_args!("{key:?}"), why);
            }
        }
    }
}

fn validate_pod_term(term: &Object, path: &Path<'_>, errors: &mut Errors) {
    for name in ["labelSelector", "namespaceSelector"] {
        if let Some(selector) = map(term, name) {
            validate_label_selector(selector, &path.field(name), errors);
        }
    }
    for name in texts(term, "namespaces") {
        text::dns_label(name, &path.field("namespace"), errors);
    }
    validate_label_keys(term, path, errors);
    let key = text_of(term, "topologyKey");
    if key.is_empty() {
        errors.required(&path.field("topologyKey"), "can not be empty");
    }
    text::qualified_name(key, &path.field("topologyKey"), errors);
}

/// `matchLabelKeys` and `mismatchLabelKeys` against each other and the selector.
fn validate_label_keys(term: &Object, path: &Path<'_>, errors: &mut Errors) {
    for name in ["matchLabelKeys", "mismatchLabelKeys"] {
        if !any(term, name) {
            continue;
        }
        let list = path.field(name);
        if !has(term, "labelSelector") {
            errors.forbidden(&list, "must not be specified when labelSelector is not set");
            continue;
        }
        for (index, key) in texts(term, name).enumerate() {
            text::qualified_name(key, &list.index(index), errors);
        }
    }
    validate_keys_once(term, path, errors);
    let list = path.field("matchLabelKeys");
    for (index, key) in texts(term, "matchLabelKeys").enumerate() {
        if texts(term, "mismatchLabelKeys").any(|other| other == key) {
            let why = "exists in both matchLabelKeys and mismatchLabelKeys";
            errors.invalid(&list.index(index), format_args!("{key:?}"), why);
        }
    }
}

/// A selector that has a key of `matchLabelKeys` already has it twice once the pod's own label is merged in.
/// The cause stands at the position of the key below the term itself, as upstream has it.
fn validate_keys_once(term: &Object, path: &Path<'_>, errors: &mut Errors) {
    let Some(selector) = map(term, "labelSelector") else { return };
    let keys: Vec<&str> = texts(term, "matchLabelKeys").collect();
    let labels = map(selector, "matchLabels").into_iter().flatten();
    let mut seen: BTreeSet<&str> = labels.map(|(key, _)| key.as_str()).collect();
    for expression in items(selector, "matchExpressions") {
        let key = text_of(expression, "key");
        if let Some(at) = keys.iter().rposition(|other| *other == key)
            && seen.contains(key)
        {
            let why = "exists in both matchLabelKeys and labelSelector";
            errors.invalid(&path.index(at), format_args!("{key:?}"), why);
        }
        seen.insert(key);
    }
}

/// The list `topologySpreadConstraints`.
pub(crate) fn validate_spreading(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    let all: Vec<&Object> = items(spec, "topologySpreadConstraints").collect();
    for (index, constraint) in all.iter().enumerate() {
        let at = path.index(index);
        let skew = int(constraint, "maxSkew").unwrap_or(0);
        if skew <= 0 {
            errors.invalid(&at.field("maxSkew"), skew, "must be greater than zero");
        }
        let key = text_of(constraint, "topologyKey");
        if key.is_empty() {
            errors.required(&at.field("topologyKey"), "can not be empty");
        }
        let action = text_of(constraint, "whenUnsatisfiable");
        let actions = ["DoNotSchedule", "ScheduleAnyway"];
        text::choice(action, &actions, &at.field("whenUnsatisfiable"), errors);
        let same = |other: &&&Object| {
            text_of(other, "topologyKey") == key && text_of(other, "whenUnsatisfiable") == action
        };
        if all.iter().skip(index + 1).any(|other| same(&other)) {
            let at = at.field("{topologyKey, whenUnsatisfiable}");
            errors.duplicate(&at, format_args!("\"{{{key}, {action}}}\""));
        }
        if let Some(domains) = int(constraint, "minDomains") {
            if domains <= 0 {
                errors.invalid(&at.field("minDomains"), domains, "must be greater than zero");
            }
            if action != "DoNotSchedule" {
                let why = "can only use minDomains if whenUnsatisfiable=DoNotSchedule";
                errors.invalid(&at.field("minDomains"), domains, why);
            }
        }
        for name in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            if has(constraint, name) {
                text::choice(
                    text_of(constraint, name),
                    &["Honor", "Ignore"],
                    &at.field(name),
                    errors,
                );
            }
        }
        validate_label_keys(constraint, &at, errors);
        if let Some(selector) = map(constraint, "labelSelector") {
            validate_label_selector(selector, &at.field("labelSelector"), errors);
        }
    }
}

/// The lists `readinessGates` and `schedulingGates`.
pub(crate) fn validate_gates(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    let list = path.field("readinessGates");
    for (index, gate) in items(spec, "readinessGates").enumerate() {
        let at = list.index(index);
        text::qualified_name(text_of(gate, "conditionType"), &at.field("conditionType"), errors);
    }
    let list = path.field("schedulingGates");
    let mut seen = BTreeSet::new();
    for (index, gate) in items(spec, "schedulingGates").enumerate() {
        let name = text_of(gate, "name");
        text::qualified_name(name, &list.index(index), errors);
        if !seen.insert(name) {
            errors.duplicate(&list.index(index), format_args!("{name:?}"));
        }
    }
}
