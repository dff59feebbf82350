//! How many pods may be disturbed: the status of PodDisruptionBudgets (PD1).
//!
//! ```text
//!   healthy pods - pods that must stay = disruptions that are allowed
//! ```
//!
//! Evictions spend what stands in the status; they are not decided here.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tenure_machinery::{Object, ObjectExt};

use crate::controller::{
    Controller, ObjectChange, Pass, ReconcileKey, ReconcileMemory, ReconcileResult,
};
use crate::intent::{ControllerIntent, InvolvedObject, UpdateEndpoint};
use crate::resource::BuiltinResource;
use crate::share::{self, Round};
use crate::view::{ClusterView, VersionedObject};
use crate::{condition, owner, pod, selector, time, wake};

/// How long an evicted pod may take until its deletion is seen, in seconds.
const DELETION_SECONDS: i64 = 120;
/// How long the replacement of a pod is waited for.
const PATIENCE: Duration = Duration::from_millis(100);

/// The controller of PodDisruptionBudgets.
pub struct DisruptionBudgets;

impl Controller for DisruptionBudgets {
    fn name(&self) -> &'static str {
        "disruption-controller"
    }
    fn alias(&self) -> &'static str {
        "disruption"
    }
    fn component(&self) -> &'static str {
        "controllermanager"
    }
    fn watches(&self) -> &'static [BuiltinResource] {
        &[BuiltinResource::PodDisruptionBudgets, BuiltinResource::Pods]
    }
    fn wake(
        &self,
        change: &ObjectChange<'_>,
        view: &dyn ClusterView,
        wake: &mut dyn FnMut(ReconcileKey),
    ) {
        if change.resource == BuiltinResource::PodDisruptionBudgets {
            wake::itself(change, wake);
            return;
        }
        if let (Some(before), Some(after)) = (change.before, change.after)
            && !pod::counts_differently(before, after)
        {
            return;
        }
        let Some(pod) = change.object() else { return };
        for budget in view.list(BuiltinResource::PodDisruptionBudgets, Some(pod.namespace())) {
            let Some(covered) = selector::at(&budget, &["spec", "selector"]) else { continue };
            let mut pods = [change.before, change.after].into_iter().flatten();
            if pods.any(|pod| selector::matches(&covered, pod)) {
                wake(ReconcileKey::of(&budget));
            }
        }
    }
    fn reconcile(&self, pass: &Pass<'_>) -> ReconcileResult {
        reconcile(pass)
    }
}

fn reconcile(pass: &Pass<'_>) -> ReconcileResult {
    let mut out = ReconcileResult::default();
    let (namespace, name) = (&*pass.key.namespace, &*pass.key.name);
    let Some(budget) = pass.view.get(BuiltinResource::PodDisruptionBudgets, namespace, name) else {
        return out;
    };
    let covered = selector::at(&budget, &["spec", "selector"]);
    let pods = covered.map(|covered| pass.view.select(BuiltinResource::Pods, namespace, &covered));
    let pods = pods.unwrap_or_default();
    let known = budget.map_at(&["status"]).cloned().unwrap_or_default();
    let mut status = known.clone();
    match required(pass.view, &budget, &pods) {
        Ok(required) => {
            let disturbed = disturbed(&budget, &pods, pass.now, &mut out);
            fill(&mut status, &budget, &pods, &required, disturbed, pass.now);
        }
        Err(why) => {
            status.insert("disruptionsAllowed".to_string(), 0.into());
            judge(&mut status, "SyncFailed", &why, pass.now);
        }
    }
    let allowed = |status: &Object| status.int_at(&["disruptionsAllowed"]).unwrap_or_default();
    if status != known && allowed(&status) >= allowed(&known) && expects_more(pass, &pods, &mut out)
    {
        return out;
    }
    if status != known {
        let mut object = Object::clone(&budget.object);
        object.insert("status".to_string(), Value::Object(status));
        let endpoint = UpdateEndpoint::Status;
        out.push(ControllerIntent::update(
            BuiltinResource::PodDisruptionBudgets,
            object,
            endpoint,
            budget.revision,
        ));
    }
    out
}

/// Whether a pod is about to be replaced, so that a moment's patience saves a write.
///
/// Never for long, and never when fewer disruptions are allowed than the status says.
fn expects_more(pass: &Pass<'_>, pods: &[VersionedObject], out: &mut ReconcileResult) -> bool {
    let there = i64::try_from(pods.len()).unwrap_or(i64::MAX);
    if pods.is_empty() || !scale(pass.view, pods).is_ok_and(|wanted| wanted > there) {
        return false;
    }
    let since = match pass.memory {
        ReconcileMemory::Since(since) => *since,
        _ => pass.now,
    };
    out.memory = ReconcileMemory::Since(since);
    let waited = Duration::try_from(pass.now.duration_since(since)).unwrap_or(PATIENCE);
    let left = PATIENCE.saturating_sub(waited);
    if !left.is_zero() {
        out.wake_after(left);
    }
    !left.is_zero()
}

/// How many pods there should be, and how many of them must stay healthy.
struct Required {
    expected: i64,
    healthy: i64,
}

fn required(
    view: &dyn ClusterView,
    budget: &Object,
    pods: &[VersionedObject],
) -> Result<Required, String> {
    let wrong = || "the budget is neither a number nor a percentage".to_string();
    if let Some(most) = budget.at(&["spec", "maxUnavailable"]).filter(|most| !most.is_null()) {
        let expected = scale(view, pods)?;
        let most = share::of(most, expected, Round::Up).ok_or_else(wrong)?;
        return Ok(Required { expected, healthy: (expected - most).max(0) });
    }
    match budget.at(&["spec", "minAvailable"]) {
        None | Some(Value::Null) => Ok(Required { expected: 0, healthy: 0 }),
        Some(least) => {
            let expected = match least.as_i64() {
                Some(_) => i64::try_from(pods.len()).unwrap_or(i64::MAX),
                None => scale(view, pods)?,
            };
            let healthy = share::of(least, expected, Round::Up).ok_or_else(wrong)?;
            Ok(Required { expected, healthy })
        }
    }
}

/// The sum of what the controllers of the pods want; pods without a controller do not count.
fn scale(view: &dyn ClusterView, pods: &[VersionedObject]) -> Result<i64, String> {
    let mut counted: BTreeSet<String> = BTreeSet::new();
    let mut sum: i64 = 0;
    for pod in pods {
        let Some(entry) = owner::controller_of(pod) else { continue };
        let uid = entry.str_at(&["uid"]).unwrap_or_default();
        if !counted.insert(uid.to_string()) {
            continue;
        }
        let Some((top, wanted)) = scaled(view, pod) else {
            return Err(format!("found no controllers for pod {:?}", pod.name()));
        };
        if top == uid || counted.insert(top) {
            sum = sum.saturating_add(wanted);
        }
    }
    Ok(sum)
}

/// The uid of the controller whose number of replicas decides about a pod, and that number.
fn scaled(view: &dyn ClusterView, pod: &Object) -> Option<(String, i64)> {
    let replicas = |object: &VersionedObject| {
        let wanted = object.int_at(&["spec", "replicas"]).unwrap_or(1);
        Some((owner::uid(object).to_string(), wanted))
    };
    if let Some(set) = wake::controller(pod, BuiltinResource::ReplicaSets, view) {
        let deployment = wake::controller(&set, BuiltinResource::Deployments, view);
        return replicas(deployment.as_ref().unwrap_or(&set));
    }
    [BuiltinResource::StatefulSets, BuiltinResource::ReplicationControllers]
        .into_iter()
        .find_map(|resource| wake::controller(pod, resource, view))
        .as_ref()
        .and_then(replicas)
}

/// The evictions that were granted and whose pods still stand; late ones are told and forgotten.
fn disturbed(
    budget: &VersionedObject,
    pods: &[VersionedObject],
    now: Timestamp,
    out: &mut ReconcileResult,
) -> Object {
    let mut left = Object::new();
    for (name, value) in budget.map_at(&["status", "disruptedPods"]).into_iter().flatten() {
        let pod = pods.iter().find(|pod| pod.name() == name);
        let Some(pod) = pod.filter(|pod| !owner::deleting(pod)) else { continue };
        let granted: Option<Timestamp> = value.as_str().and_then(|granted| granted.parse().ok());
        let Some(granted) = granted else { continue };
        let late = time::after(granted, DELETION_SECONDS);
        if late < now {
            let words = format!(
                "Pod was expected by PDB {}/{} to be deleted but it wasn't",
                budget.namespace(),
                budget.name()
            );
            let note = InvolvedObject::of(BuiltinResource::Pods, pod).warning("NotDeleted", words);
            out.push(ControllerIntent::tell(note));
            continue;
        }
        out.wake_after(time::until(time::after(late, 1), now));
        left.insert(name.clone(), value.clone());
    }
    left
}

fn fill(
    status: &mut Object,
    budget: &Object,
    pods: &[VersionedObject],
    required: &Required,
    disturbed: Object,
    now: Timestamp,
) {
    let counts = |pod: &&VersionedObject| {
        !owner::deleting(pod) && pod::ready(pod) && !disturbed.contains_key(pod.name())
    };
    let healthy = i64::try_from(pods.iter().filter(counts).count()).unwrap_or(i64::MAX);
    let allowed = if required.expected <= 0 { 0 } else { (healthy - required.healthy).max(0) };
    status.insert("currentHealthy".to_string(), healthy.into());
    status.insert("desiredHealthy".to_string(), required.healthy.into());
    status.insert("expectedPods".to_string(), required.expected.into());
    status.insert("disruptionsAllowed".to_string(), allowed.into());
    status.insert("observedGeneration".to_string(), owner::generation(budget).into());
    if disturbed.is_empty() {
        status.remove("disruptedPods");
    } else {
        status.insert("disruptedPods".to_string(), Value::Object(disturbed));
    }
    let reason = if allowed > 0 { "SufficientPods" } else { "InsufficientPods" };
    judge(status, reason, "", now);
}

/// Sets the condition that says whether a disruption is allowed, and for which generation.
fn judge(status: &mut Object, reason: &str, message: &str, now: Timestamp) {
    const ALLOWED: &str = "DisruptionAllowed";
    let truth = if reason == "SufficientPods" { "True" } else { "False" };
    let mut conditions: Vec<Value> = status.list_at(&["conditions"]).to_vec();
    condition::set(&mut conditions, condition::new(ALLOWED, truth, reason, message, now));
    let observed = status.int_at(&["observedGeneration"]).unwrap_or_default();
    let ours = conditions.iter_mut().filter_map(Value::as_object_mut);
    for condition in ours.filter(|c| c.str_at(&["type"]) == Some(ALLOWED)) {
        condition.insert("observedGeneration".to_string(), json!(observed));
        condition.insert("message".to_string(), message.into());
    }
    status.insert("conditions".to_string(), Value::Array(conditions));
}
