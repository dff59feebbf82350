//! What is wrong with the expressions of a policy or a webhook that is being written (R136g).
//!
//! The rules of these kinds know no language, so its faults are found here; clients see them where upstream
//! tells them: beside the members that they stand in, not after everything else.

use std::collections::BTreeSet;

use tenure_machinery::field::{FieldError, Reason};
use tenure_machinery::validate::objects;
use tenure_machinery::{Errors, Kind, Object, ObjectExt, Path};

use super::compile::{CONDITIONS, ExpressionError, MUTATIONS, faults, webhook_faults};

/// Whose expressions these are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExpressionOwner {
    Policy,
    Webhooks,
}

impl ExpressionOwner {
    fn of(kind: &Kind) -> Option<ExpressionOwner> {
        if kind.group != "admissionregistration.k8s.io" {
            return None;
        }
        match kind.kind.as_ref() {
            "ValidatingAdmissionPolicy" | "MutatingAdmissionPolicy" => {
                Some(ExpressionOwner::Policy)
            }
            "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => {
                Some(ExpressionOwner::Webhooks)
            }
            _ => None,
        }
    }
}

/// Tells what is wrong with the expressions of an object; what is stored stays valid.
pub(in crate::admit) fn check(
    kind: &Kind,
    new: &Object,
    old: Option<&Object>,
    errors: &mut Errors,
) {
    let Some(subject) = ExpressionOwner::of(kind) else { return };
    let member = if subject == ExpressionOwner::Policy { "spec" } else { "webhooks" };
    if old.is_some_and(|old| old.get(member) == new.get(member)) {
        return;
    }
    // Such objects are seldom written, and compiling takes long.
    if errors.is_hasty() {
        return errors.give_up();
    }
    let found = match subject {
        ExpressionOwner::Policy => of_policy(new, old, errors),
        ExpressionOwner::Webhooks => of_webhooks(new, old),
    };
    errors.merge(found, Turn::of);
}

fn of_policy(new: &Object, old: Option<&Object>, errors: &Errors) -> Vec<(Turn, FieldError)> {
    let same = |old: &Object, member: &str| old.at(&["spec", member]) == new.at(&["spec", member]);
    let kept = old.is_some_and(|old| same(old, CONDITIONS) && same(old, "paramKind"));
    // What is refused for its length is not compiled.
    let refused: BTreeSet<&str> = errors.causes().iter().map(|one| one.field.as_str()).collect();
    let spec = Path::Root.field("spec");
    faults(new)
        .into_iter()
        .filter(|fault| !(kept && fault.list == CONDITIONS))
        .map(|fault| cause(&fault, &spec))
        .filter(|(_, cause)| !refused.contains(cause.field.as_str()))
        .collect()
}

fn of_webhooks(new: &Object, old: Option<&Object>) -> Vec<(Turn, FieldError)> {
    let known: BTreeSet<&str> = old.into_iter().flat_map(conditions).collect();
    let list = Path::Root.field("webhooks");
    let mut found = Vec::new();
    for (index, webhook) in objects(new, "webhooks") {
        let place = list.index(index);
        let faults = webhook_faults(webhook).into_iter();
        let new = faults.filter(|fault| !known.contains(fault.text.as_str()));
        found.extend(new.map(|fault| cause(&fault, &place)));
    }
    found
}

/// The conditions of all webhooks.
fn conditions(configuration: &Object) -> impl Iterator<Item = &str> {
    objects(configuration, "webhooks")
        .flat_map(|(_, webhook)| objects(webhook, CONDITIONS))
        .filter_map(|(_, condition)| condition.str_at(&["expression"]))
}

fn cause(fault: &ExpressionError, path: &Path<'_>) -> (Turn, FieldError) {
    let list = path.field(fault.list);
    let place = list.index(fault.index);
    let cause = FieldError {
        reason: Reason::Invalid,
        message: format!("Invalid value: {:?}: {}", fault.text, fault.why),
        field: place.field(fault.member).to_string(),
    };
    let mut turn = Turn::of(&cause);
    if fault.list == MUTATIONS {
        turn.member = 0;
    }
    (turn, cause)
}

/// When a cause is told: after all those whose turn is not later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    /// Which webhook, counted from one.
    webhook: usize,
    /// Which list with expressions, or something after it; zero for what comes before them.
    list: usize,
    /// Which item of the list, counted from one.
    item: usize,
    /// Which of its members.
    member: usize,
}

/// Lists with expressions, and the order in which members of their items are looked at.
const LISTS: [(&str, &[&str]); 6] = [
    (CONDITIONS, &["expression", "name"]),
    ("variables", &["name", "expression"]),
    ("validations", &["expression", "messageExpression", "message", "reason"]),
    ("auditAnnotations", &["key", "valueExpression"]),
    // Expressions come before all else that is wrong with a mutation.
    (MUTATIONS, &["", "patchType", "jsonPatch", "applyConfiguration"]),
    ("reinvocationPolicy", &[]),
];

impl Turn {
    fn of(cause: &FieldError) -> Turn {
        let field = cause.field.as_str();
        let (webhook, rest) = match (field.strip_prefix("spec."), field.strip_prefix("webhooks[")) {
            (Some(rest), _) => (0, rest),
            (None, Some(rest)) => match rest.split_once("].") {
                Some((index, rest)) => (index.parse().map_or(0, |index: usize| index + 1), rest),
                None => return Turn::default(),
            },
            (None, None) => return Turn::default(),
        };
        let again = cause.reason == Reason::Duplicate;
        let (name, item, member) = parts(rest);
        if webhook > 0 && (name == "admissionReviewVersions" || (name == "name" && again)) {
            return Turn { webhook, list: LISTS.len() + 1, ..Turn::default() };
        }
        let mut lists = (1..).zip(LISTS);
        let Some((list, (_, members))) = lists.find(|(_, (known, _))| *known == name) else {
            return Turn { webhook, ..Turn::default() };
        };
        let place = members.iter().position(|known| *known == member);
        // That a name or a key stands twice is seen when all of its item was looked at.
        let member = if again { members.len() } else { place.unwrap_or_default() };
        Turn { webhook, list, item, member }
    }
}

/// `a[2].b` as `a`, 3, `b`; without an item as `a`, 0 and nothing.
fn parts(path: &str) -> (&str, usize, &str) {
    let name = path.split(['[', '.']).next().unwrap_or_default();
    let Some((_, rest)) = path.split_once('[') else { return (name, 0, "") };
    let (index, rest) = rest.split_once(']').unwrap_or((rest, ""));
    let member = rest.strip_prefix('.').unwrap_or_default();
    let member = member.split(['[', '.']).next().unwrap_or_default();
    (name, index.parse().map_or(0, |index: usize| index + 1), member)
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use serde_json::{Value, json};

    use super::*;

    /// What a write finds, as `field reason`.
    fn found(kind: &str, old: Option<&Value>, new: &Value) -> Vec<String> {
        let row = tenure_kinds::builtin().into_iter().find(|row| row.kind == kind).unwrap();
        let object = |value: &Value| {
            let mut object = value.as_object().cloned().unwrap();
            object.insert("metadata".into(), json!({"name": "a"}));
            row.rules.default(&mut object);
            object
        };
        let (old, new) = (old.map(object), object(new));
        let mut errors = Errors::new();
        match &old {
            Some(old) => row.validate_change(&new, old, &mut errors),
            None => row.validate_new(&new, &mut errors),
        }
        check(&row, &new, old.as_ref(), &mut errors);
        let shown = |c: &FieldError| format!("{} {}", c.field, c.reason.as_str());
        let short = errors.causes().iter().map(shown);
        short.map(|cause| cause.replace(" FieldValue", " ")).collect()
    }

    fn hook(conditions: &Value) -> Value {
        json!({"name": "a.example.com", "sideEffects": "None", "clientConfig": {"url": "https://h"},
            "admissionReviewVersions": ["v2"], "matchConditions": conditions})
    }

    const BAD: &str = "[}";

    #[test]
    fn r136g_conditions_of_webhooks_are_compiled_inside_each() {
        let first = hook(&json!([{"name": "a", "expression": "request.name == authorizer"},
            {"name": "b/", "expression": " [} "}, {"name": "b/c", "expression": "params.a"}]));
        let second = hook(&json!([{"name": "a", "expression": "1"},
            {"name": "a", "expression": "object.a == 'b'"}]));
        for kind in ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"] {
            let at = |index: usize, rest: &str| format!("webhooks[{index}].{rest}");
            assert_eq!(
                found(kind, None, &json!({"webhooks": [first, second]})),
                [
                    at(0, "matchConditions[0].expression Invalid"),
                    at(0, "matchConditions[1].expression Invalid"),
                    at(0, "matchConditions[1].name Invalid"),
                    at(0, "matchConditions[1].name Invalid"),
                    at(0, "matchConditions[2].expression Invalid"),
                    at(0, "admissionReviewVersions Invalid"),
                    at(1, "matchConditions[0].expression Invalid"),
                    at(1, "matchConditions[1].name Duplicate"),
                    at(1, "admissionReviewVersions Invalid"),
                    at(1, "name Duplicate"),
                ],
                "{kind}"
            );
        }
    }

    #[test]
    fn r136g_conditions_that_were_there_stay() {
        let mut old = hook(&json!([{"name": "a", "expression": BAD}]));
        old["admissionReviewVersions"] = json!(["v1"]);
        let mut new = old.clone();
        new["matchConditions"] =
            json!([{"name": "b", "expression": BAD}, {"name": "c", "expression": "}"}]);
        let of = |hook: &Value| json!({"webhooks": [hook]});
        let kind = "ValidatingWebhookConfiguration";
        assert!(found(kind, Some(&of(&old)), &of(&old)).is_empty());
        assert_eq!(
            found(kind, Some(&of(&old)), &of(&new)),
            ["webhooks[0].matchConditions[1].expression Invalid"]
        );
    }

    fn policy(rest: Value) -> Value {
        let rule = json!({"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"],
            "resources": ["pods"]});
        let mut spec = json!({"matchConstraints": {"resourceRules": [rule]},
            "matchConditions": [{"expression": BAD}, {"name": "a b", "expression": "true"}],
            "variables": [{"name": "a-b", "expression": BAD}, {"name": "c"}]});
        let Value::Object(rest) = rest else { panic!("an object") };
        spec.as_object_mut().unwrap().extend(rest);
        json!({"spec": spec})
    }

    #[test]
    fn r136g_faults_of_policies_stand_beside_each_member() {
        let body = policy(json!({
            "validations": [
                {"expression": BAD, "messageExpression": BAD, "message": "two\nlines", "reason": "Tired"},
                {"messageExpression": BAD},
            ],
            "auditAnnotations": [
                {"key": "k", "valueExpression": "1"},
                {"key": "k", "valueExpression": BAD},
                {"key": "l", "valueExpression": "'".repeat(6000)},
            ],
        }));
        assert_eq!(
            found("ValidatingAdmissionPolicy", None, &body),
            [
                "matchConditions[0].expression Invalid",
                "matchConditions[0].name Required",
                "matchConditions[1].name Invalid",
                "variables[0].name Invalid",
                "variables[0].expression Invalid",
                "variables[1].expression Required",
                "validations[0].expression Invalid",
                "validations[0].messageExpression Invalid",
                "validations[0].message Invalid",
                "validations[0].reason NotSupported",
                "validations[1].expression Required",
                "validations[1].messageExpression Invalid",
                "auditAnnotations[0].valueExpression Invalid",
                "auditAnnotations[1].valueExpression Invalid",
                "auditAnnotations[1].key Duplicate",
                "auditAnnotations[2].valueExpression Required",
            ]
            .map(|cause| format!("spec.{cause}"))
        );
    }

    #[test]
    fn r136g_what_a_mutating_policy_asks_and_names_is_compiled() {
        let body = policy(json!({"mutations": [{}], "reinvocationPolicy": "Always"}));
        let kind = "MutatingAdmissionPolicy";
        let after = [
            "spec.variables[0].name Invalid",
            "spec.variables[0].expression Invalid",
            "spec.variables[1].expression Required",
            "spec.mutations[0].patchType Required",
            "spec.reinvocationPolicy NotSupported",
        ];
        let before =
            ["spec.matchConditions[0].name Required", "spec.matchConditions[1].name Invalid"];
        let refused = ["spec.matchConditions[0].expression Invalid"];
        assert_eq!(found(kind, None, &body), [&refused[..], &before, &after].concat());
        // Conditions that were there are not compiled again, unless parameters come or go.
        let mut old = body.clone();
        old["spec"]["variables"] = json!([]);
        assert_eq!(found(kind, Some(&old), &body), [&before[..], &after].concat());
        old["spec"]["paramKind"] = json!({"apiVersion": "v1", "kind": "ConfigMap"});
        assert_eq!(found(kind, Some(&old), &body), [&refused[..], &before, &after].concat());
    }
}
