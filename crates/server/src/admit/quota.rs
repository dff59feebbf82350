//! Nobody uses more than the quotas of a namespace allow (upstream's plugin ResourceQuota).
//!
//! What a new object uses is added to `status.used` of each quota in the transaction that makes the
//! object, so that two creates can never use the same rest. What is given back, or counted anew, is
//! the work of the quota controller. Changes of what is there are not charged.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use tenure_machinery::quantity::Quantity;
use tenure_machinery::{Failure, Object, ObjectExt, usage};
use tenure_world::{Draft, Guard, World, Write};
use tokio::sync::OwnedMutexGuard;

use crate::request::Request;
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
        Some(turn.lock_owned().await)
    }
}

/// Charges every quota that looks at a new object, or refuses it.
pub(super) fn charge(
    state: &World,
    request: &Request,
    object: &Object,
    extras: &mut Extras,
) -> Result<(), Failure> {
    let kind = &request.served.kind;
    let namespace = object.namespace();
    if namespace.is_empty() {
        return Ok(());
    }
    let (group, plural) = (kind.group.as_ref(), kind.plural.as_ref());
    let mut asked = None;
    for record in state.range(&prefix(namespace), None) {
        let quota: Object = serde_json::from_slice(record.bytes()).map_err(Failure::internal)?;
        if !usage::in_scope(&quota, group, plural, object) {
            continue;
        }
        let asked = asked.get_or_insert_with(|| usage::of(group, plural, object));
        let refuse = |why: String| Failure::forbidden(group, plural, object.name(), &why);
        let Some(used) = afford(&quota, plural, object, asked).map_err(refuse)? else { continue };
        let mut charged = quota;
        let known = charged.map_mut("status").map_mut("used");
        for (name, amount) in used {
            known.insert(name, Value::String(amount.canonical()));
        }
        let key = Arc::clone(record.key());
        let revision = Some(record.revision());
        extras.guards.push(Guard::At { key: Arc::clone(&key), revision });
        let draft = Draft::encode("ResourceQuota", "v1", &charged);
        extras.writes.push(Write::Put { key, draft });
    }
    Ok(())
}

/// What would be used of a quota's limits; nothing when it limits none of it. The error is the
/// sentence for the client.
fn afford(
    quota: &Object,
    plural: &str,
    object: &Object,
    asked: &usage::Usage,
) -> Result<Option<usage::Usage>, String> {
    let empty = Object::new();
    let hard = quota.map_at(&["status", "hard"]).unwrap_or(&empty);
    let used = quota.map_at(&["status", "used"]).unwrap_or(&empty);
    let name = quota.name();
    if plural == "pods"
        && let Some(unsaid) = usage::unsaid(object, hard.keys().map(String::as_str))
    {
        return Err(format!("failed quota: {name}: {unsaid}"));
    }
    let amount = |of: &Object, limit: &str| of.get(limit).and_then(Quantity::from_value);
    let (mut after, mut exceeded) = (usage::Usage::new(), Vec::new());
    for (limit, wanted) in asked.iter().filter(|(_, wanted)| !wanted.is_zero()) {
        let Some(most) = amount(hard, limit) else { continue };
        // What the controller cannot count is not limited.
        let Some(known) = amount(used, limit) else { continue };
        let sum = known.plus(*wanted);
        if sum > most {
            exceeded.push((limit.as_str(), *wanted, known, most));
        }
        after.insert(limit.clone(), sum);
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
    let (asked, used, hard) = (list(|e| e.1), list(|e| e.2), list(|e| e.3));
    Err(format!("exceeded quota: {name}, requested: {asked}, used: {used}, limited: {hard}"))
}
