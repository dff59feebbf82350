//! Policies of Jobs: which failures count, when enough has succeeded, when pods are replaced.

use std::collections::BTreeSet;

use serde_json::Value;
use tenure_machinery::{Errors, Object, ObjectExt, Path};

use super::common::shown;
use crate::podspec::text;

/// `podFailurePolicy`, `successPolicy` and `podReplacementPolicy`.
pub(super) fn validate_policies(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    let failure = spec.map_at(&["podFailurePolicy"]);
    if let Some(policy) = failure {
        let at = path.field("podFailurePolicy");
        let rules = policy.list_at(&["rules"]);
        let list = at.field("rules");
        if rules.len() > 20 {
            errors.too_many(&list, rules.len(), 20);
        }
        for (index, rule) in rules.iter().filter_map(Value::as_object).enumerate() {
            validate_failure_rule(spec, rule, &list.index(index), errors);
        }
    }
    if let Some(policy) = spec.map_at(&["successPolicy"]) {
        let at = path.field("successPolicy");
        if spec.str_at(&["completionMode"]) == Some("Indexed") {
            validate_success_policy(spec, policy, &at.field("rules"), errors);
        } else {
            errors.invalid(&at, "", "requires indexed completion mode");
        }
    }
    if let Some(replacement) = spec.str_at(&["podReplacementPolicy"]) {
        let at = path.field("podReplacementPolicy");
        let allowed: &[&str] =
            if failure.is_some() { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
        text::choice(replacement, allowed, &at, errors);
    }
}

fn validate_failure_rule(spec: &Object, rule: &Object, path: &Path<'_>, errors: &mut Errors) {
    let at = path.field("action");
    match rule.str_at(&["action"]).unwrap_or_default() {
        "FailIndex" if spec.int_at(&["backoffLimitPerIndex"]).is_none() => {
            errors.invalid(&at, "\"FailIndex\"", "requires the backoffLimitPerIndex to be set");
        }
        action => {
            text::required_choice(action, &["Count", "FailIndex", "FailJob", "Ignore"], &at, errors)
        }
    }
    let codes = rule.map_at(&["onExitCodes"]);
    let conditions = rule.list_at(&["onPodConditions"]);
    if let Some(codes) = codes {
        validate_exit_codes(spec, codes, &path.field("onExitCodes"), errors);
    }
    let list = path.field("onPodConditions");
    if conditions.len() > 20 {
        errors.too_many(&list, conditions.len(), 20);
    }
    for (index, pattern) in conditions.iter().filter_map(Value::as_object).enumerate() {
        let at = list.index(index);
        text::qualified_name(
            pattern.str_at(&["type"]).unwrap_or_default(),
            &at.field("type"),
            errors,
        );
        let status = pattern.str_at(&["status"]).unwrap_or_default();
        text::required_choice(status, &["False", "True", "Unknown"], &at.field("status"), errors);
    }
    if codes.is_some() != conditions.is_empty() {
        errors.invalid(path, "", "exactly one of OnExitCodes and OnPodConditions is required");
    }
}

fn validate_exit_codes(spec: &Object, codes: &Object, path: &Path<'_>, errors: &mut Errors) {
    let operator = codes.str_at(&["operator"]).unwrap_or_default();
    text::required_choice(operator, &["In", "NotIn"], &path.field("operator"), errors);
    if let Some(name) = codes.str_at(&["containerName"]) {
        let named = |list: &str| {
            let containers = spec.list_at(&["template", "spec", list]).iter();
            containers.filter_map(|c| c.get("name")).any(|n| n.as_str() == Some(name))
        };
        if !named("containers") && !named("initContainers") {
            let why = "must be one of the container or initContainer names in the pod template";
            errors.invalid(&path.field("containerName"), format_args!("{name:?}"), why);
        }
    }
    let list = path.field("values");
    let values: Vec<i64> = codes.list_at(&["values"]).iter().filter_map(Value::as_i64).collect();
    if values.is_empty() {
        errors.invalid(&list, "[]", "at least one value is required");
    } else if values.len() > 255 {
        errors.too_many(&list, values.len(), 255);
    }
    let mut seen = BTreeSet::new();
    for (index, value) in values.iter().enumerate() {
        if operator == "In" && *value == 0 {
            errors.invalid(&list.index(index), value, "must not be 0 for the In operator");
        }
        if !seen.insert(*value) {
            errors.duplicate(&list.index(index), value);
        }
    }
    if !values.is_sorted() {
        errors.invalid(&list, format_args!("{values:?}"), "must be ordered");
    }
}

fn validate_success_policy(spec: &Object, policy: &Object, list: &Path<'_>, errors: &mut Errors) {
    let rules = policy.list_at(&["rules"]);
    if rules.is_empty() {
        errors.required(list, "at least one rules must be specified");
    }
    if rules.len() > 20 {
        errors.too_many(list, rules.len(), 20);
    }
    let completions = spec.int_at(&["completions"]).unwrap_or_default();
    for (index, rule) in rules.iter().filter_map(Value::as_object).enumerate() {
        let at = list.index(index);
        let indexes = rule.str_at(&["succeededIndexes"]);
        let count = rule.int_at(&["succeededCount"]);
        if indexes.is_none() && count.is_none() {
            errors.required(&at, "at least one of succeededCount or succeededIndexes is needed");
        }
        let total = indexes.map(|indexes| count_indexes(indexes, completions));
        if total == Some(None) {
            let at = at.field("succeededIndexes");
            errors.invalid(
                &at,
                shown(rule.get("succeededIndexes")),
                "error parsing succeededIndexes",
            );
        }
        let at = at.field("succeededCount");
        text::non_negative(count, &at, errors);
        if let Some(count) = count {
            if count > completions {
                errors.invalid(&at, count, "must be less than or equal to completions");
            }
            if total.is_some_and(|total| count > total.unwrap_or_default()) {
                errors.invalid(&at, count, "must be less than or equal to the number of indexes");
            }
        }
    }
}

/// How many indexes `0,3-5` names; `None` when it is not increasing or leaves the range.
fn count_indexes(text: &str, completions: i64) -> Option<i64> {
    if text.is_empty() {
        return Some(0);
    }
    let (mut last, mut total) = (-1_i64, 0_i64);
    for part in text.split(',') {
        let (start, end) = match part.split_once('-') {
            Some((start, end)) => {
                let (start, end) = (start.parse::<i64>().ok()?, end.parse::<i64>().ok()?);
                (start < end).then_some((start, end))?
            }
            None => (part.parse::<i64>().ok()?, part.parse::<i64>().ok()?),
        };
        if start <= last || end >= completions {
            return None;
        }
        total = total.saturating_add(end - start + 1);
        last = end;
    }
    Some(total)
}
