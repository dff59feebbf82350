//! Nobody uses more than the quotas of a namespace allow (upstream's plugin ResourceQuota).
//!
//! What a new object uses, or a change uses more than before, is added to `status.used` of each quota in the
//! transaction that writes the object, so that two writes can never use the same rest. What is given back, or
//! counted anew, is the work of the quota controller (R253).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use tenure_machinery::quantity::Quantity;
use tenure_machinery::{Failure, Object, ObjectExt, usage};
use tenure_world::{Draft, Precondition, World, WriteOperation};
use tokio::sync::OwnedMutexGuard;

use crate::fair;
use crate::request::ResourceRequest;
use crate::write::commit::Extras;

fn prefix(namespace: &str) -> String {
    format!("/registry/resourcequotas/{namespace}/")
}

/// Whose turn it is to create something where quotas are.
///
/// The guards alone would do; but of many creates at once all but one would start again each time.
#[derive(Default)]
pub(crate) struct Turns(Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>);

impl Turns {
    /// How many namespaces have a turn now.
    pub(crate) fn count(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Waits for a turn in a namespace that has quotas.
    pub(crate) async fn wait(&self, state: &World, namespace: &str) -> Option<OwnedMutexGuard<()>> {
        if namespace.is_empty() || state.range(&prefix(namespace), None).next().is_none() {
            return None;
        }
        let turn = {
            let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // Where nobody waits, nothing need be kept.
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            Arc::clone(turns.entry(namespace.to_owned()).or_default())
        };
        if let Ok(turn) = Arc::clone(&turn).try_lock_owned() {
            return Some(turn);
        }
        fair::rest();
        Some(turn.lock_owned().await)
    }
}

/// Whether a write is one that may use more: an object is made, or changes in what quotas count.
fn may_use_more(request: &ResourceRequest, old: Option<&Object>, new: &Object) -> bool {
    let kind = &request.served.kind;
    let (group, plural) = (kind.group.as_ref(), kind.plural.as_ref());
    let Some(old) = old else {
        // Events come and go by themselves.
        return !matches!((group, plural), ("" | "events.k8s.io", "events"));
    };
    match (group, plural, request.subresource.as_str()) {
        // What else an update of a pod may change is counted by nobody: a quota that came later neither
        // asks it for requests nor keeps its finalizers.
        ("", "pods", "") => has_deadline(old) != has_deadline(new),
        ("", "pods", "resize") => true,
        ("", "services", "") | ("", "persistentvolumeclaims", "" | "status") => {
            usage::may_change(group, plural, old, new)
        }
        _ => false,
    }
}

/// Whether a pod is one of those that the scope Terminating means.
fn has_deadline(pod: &Object) -> bool {
    pod.int_at(&["spec", "activeDeadlineSeconds"]).is_some_and(|seconds| seconds >= 0)
}

/// Charges every quota that looks at an object with what it uses, or uses more than before, or refuses it.
pub(super) fn charge(
    state: &World,
    request: &ResourceRequest,
    old: Option<&Object>,
    object: &Object,
    extras: &mut Extras,
) -> Result<(), Failure> {
    let kind = &request.served.kind;
    let namespace = object.namespace();
    if namespace.is_empty() || !may_use_more(request, old, object) {
        return Ok(());
    }
    let (group, plural) = (kind.group.as_ref(), kind.plural.as_ref());
    let mut needed = None;
    for record in state.range(&prefix(namespace), None) {
        let quota: Object = serde_json::from_slice(record.bytes()).map_err(Failure::internal)?;
        if !usage::in_scope(&quota, group, plural, object) {
            continue;
        }
        let whole = needed.get_or_insert_with(|| usage::of(group, plural, object));
        let before = old.filter(|old| usage::in_scope(&quota, group, plural, old));
        let more = before.map(|old| usage::increase(whole, &usage::of(group, plural, old)));
        let charge = QuotaRequest {
            object,
            plural,
            more: more.as_ref().unwrap_or(whole),
            // What a status says has happened already.
            enforced: request.subresource != "status",
            stored: || state.range(&request.served.key(namespace, ""), None).count(),
        };
        let refuse = |why: String| Failure::forbidden(group, plural, object.name(), &why);
        let Some(used) = charge.afford(&quota).map_err(refuse)? else { continue };
        let mut charged = quota;
        let known = charged.map_mut("status").map_mut("used");
        for (name, amount) in used {
            known.insert(name, Value::String(amount.canonical()));
        }
        let key = Arc::clone(record.key());
        let revision = Some(record.revision());
        extras.guards.push(Precondition::At { key: Arc::clone(&key), revision });
        let draft = Draft::encode("ResourceQuota", "v1", &charged);
        extras.writes.push(WriteOperation::Put { key, draft });
    }
    Ok(())
}

/// What one write uses.
struct QuotaRequest<'a, F> {
    object: &'a Object,
    plural: &'a str,
    more: &'a usage::Usage,
    enforced: bool,
    /// How many objects of the kind the namespace has.
    stored: F,
}

impl<F: Fn() -> usize> QuotaRequest<'_, F> {
    /// What would be used of a quota's limits; nothing when it limits none of it. The error is the
    /// sentence for the client.
    fn afford(&self, quota: &Object) -> Result<Option<usage::Usage>, String> {
        let empty = Object::new();
        let hard = quota.map_at(&["status", "hard"]).unwrap_or(&empty);
        let used = quota.map_at(&["status", "used"]).unwrap_or(&empty);
        let name = quota.name();
        if self.plural == "pods"
            && let Some(unsaid) = usage::unsaid(self.object, hard.keys().map(String::as_str))
        {
            return Err(format!("failed quota: {name}: {unsaid}"));
        }
        let amount = |of: &Object, limit: &str| of.get(limit).and_then(Quantity::from_value);
        let (mut after, mut exceeded) = (usage::Usage::new(), Vec::new());
        for (limit, wanted) in self.more.iter().filter(|(_, wanted)| !wanted.is_zero()) {
            let Some(most) = amount(hard, limit) else { continue };
            let counted = amount(used, limit);
            // Custom kinds are counted here: nobody writes their number down.
            let Some(known) = counted.or_else(|| self.count(limit)) else {
                return Err(format!("status unknown for quota: {name}, resources: {limit}"));
            };
            let sum = known.plus(*wanted);
            if sum > most && self.enforced {
                exceeded.push((limit.as_str(), *wanted, known, most));
            }
            if counted.is_some() {
                after.insert(limit.clone(), sum);
            }
        }
        if exceeded.is_empty() {
            return Ok((!after.is_empty()).then_some(after));
        }
        let list = |pick: fn(&(&str, Quantity, Quantity, Quantity)) -> Quantity| {
            let one = |entry: &(&str, Quantity, Quantity, Quantity)| {
                format!("{}={}", entry.0, pick(entry).canonical())
            };
            exceeded.iter().map(one).collect::<Vec<_>>().join(",")
        };
        let (requested, used, hard) = (list(|e| e.1), list(|e| e.2), list(|e| e.3));
        Err(format!(
            "exceeded quota: {name}, requested: {requested}, used: {used}, limited: {hard}"
        ))
    }

    /// How much of a limit by count is used already.
    fn count(&self, limit: &str) -> Option<Quantity> {
        let count = limit.starts_with("count/").then(|| (self.stored)())?;
        Some(Quantity::from_units(i64::try_from(count).unwrap_or(i64::MAX)))
    }
}
