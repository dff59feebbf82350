//! What the rules of a Job say about a failed pod and about successes.

use alloc::format;
use alloc::string::String;

use serde_json::Value;
use tenure_machinery::{Object, ObjectExt};

use super::indexes::Indexes;

/// What becomes of a failure.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    /// It counts like any other.
    Count,
    /// It does not count.
    Ignore,
    /// The piece is given up.
    FailIndex,
    /// The Job is over, for this reason.
    FailJob(String),
}

impl Judgement {
    /// Whether the failure counts against limits.
    pub(super) fn counts(&self) -> bool {
        *self != Judgement::Ignore
    }
}

/// What the first rule that speaks of this failure says.
pub(super) fn judge(job: &Object, pod: &Object) -> Judgement {
    let rules = job.list_at(&["spec", "podFailurePolicy", "rules"]).iter();
    for (place, rule) in rules.filter_map(Value::as_object).enumerate() {
        let Some(cause) = cause(rule, pod) else { continue };
        match rule.str_at(&["action"]) {
            Some("Ignore") => return Judgement::Ignore,
            Some("FailIndex") => return Judgement::FailIndex,
            Some("Count") => return Judgement::Count,
            Some("FailJob") => {
                return Judgement::FailJob(format!(
                    "{cause} matching FailJob rule at index {place}"
                ));
            }
            _ => {}
        }
    }
    Judgement::Count
}

/// What of the pod a rule speaks of, in words.
fn cause(rule: &Object, pod: &Object) -> Option<String> {
    let whose = format!("{}/{}", pod.namespace(), pod.name());
    if let Some(codes) = rule.map_at(&["onExitCodes"]) {
        let (name, code) = ["containerStatuses", "initContainerStatuses"]
            .into_iter()
            .flat_map(|list| pod.list_at(&["status", list]))
            .filter_map(Value::as_object)
            .find_map(|status| exited(status, codes))?;
        return Some(format!("Container {name} for pod {whose} failed with exit code {code}"));
    }
    let patterns = rule.list_at(&["onPodConditions"]);
    let named = |condition: &&Object| {
        let same = |pattern: &Value, name: &str| pattern.get(name) == condition.get(name);
        patterns.iter().any(|pattern| same(pattern, "type") && same(pattern, "status"))
    };
    let conditions = pod.list_at(&["status", "conditions"]).iter().filter_map(Value::as_object);
    let kind = conditions.into_iter().find(named)?.str_at(&["type"])?;
    Some(format!("Pod {whose} has condition {kind}"))
}

/// The name and exit code of a container that a rule speaks of.
fn exited<'a>(status: &'a Object, codes: &Object) -> Option<(&'a str, i64)> {
    let name = status.str_at(&["name"])?;
    if codes.str_at(&["containerName"]).is_some_and(|wanted| wanted != name) {
        return None;
    }
    let code = status.int_at(&["state", "terminated", "exitCode"]).filter(|code| *code != 0)?;
    let listed = codes.list_at(&["values"]).iter().any(|value| value.as_i64() == Some(code));
    let speaks = match codes.str_at(&["operator"]) {
        Some("In") => listed,
        Some("NotIn") => !listed,
        _ => false,
    };
    speaks.then_some((name, code))
}

/// Why these pieces are enough for the Job to succeed, if they are.
pub(super) fn enough(job: &Object, done: &Indexes, pieces: i64) -> Option<String> {
    if done.is_empty() {
        return None;
    }
    let rules = job.list_at(&["spec", "successPolicy", "rules"]).iter();
    let (place, _) = rules.enumerate().find(|(_, rule)| {
        let count = rule.get("succeededCount").and_then(Value::as_i64);
        match rule.get("succeededIndexes").and_then(Value::as_str) {
            Some(wanted) => {
                let wanted = Indexes::parse(wanted, pieces);
                let shared = wanted.shared(done);
                !wanted.is_empty()
                    && (shared == wanted.total() || count.is_some_and(|count| shared >= count))
            }
            None => count.is_some_and(|count| done.total() >= count),
        }
    })?;
    Some(format!("Matched rules at index {place}"))
}
