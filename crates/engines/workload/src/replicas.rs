//! ReplicaSet and ReplicationController: so many pods, no more and no fewer (RS1 to RS6).
//!
//! ```text
//!   claim pods ──► too few: create   ──► status
//!              └─► too many: delete  ──►
//! ```
//!
//! Both kinds are one engine; they differ in names, in how the selector is written, and in that only
//! a ReplicaSet counts terminating pods. Nothing here knows of Deployments.

mod deletion_order;
mod status;

use tenure_core::selector::LabelSelector;
use tenure_machinery::{Object, ObjectExt, WriteRefusal};

use crate::claim::Claim;
use crate::controller::{Controller, ObjectChange, Pass, ReconcileKey, ReconcileResult};
use crate::intent::{InvolvedObject, Verb};
use crate::resource::BuiltinResource;
use crate::view::{ClusterView, VersionedObject};
use crate::{owner, pod, selector, wake};

/// How many pods one pass creates or deletes at most (PT4).
const BURST: usize = 500;

/// The controller of ReplicaSets.
pub struct ReplicaSets;

/// The controller of ReplicationControllers.
pub struct ReplicationControllers;

impl Controller for ReplicaSets {
    fn name(&self) -> &'static str {
        "replicaset-controller"
    }
    fn alias(&self) -> &'static str {
        "replicaset"
    }
    fn watches(&self) -> &'static [BuiltinResource] {
        &[BuiltinResource::ReplicaSets, BuiltinResource::Pods]
    }
    fn wake(
        &self,
        change: &ObjectChange<'_>,
        view: &dyn ClusterView,
        wake: &mut dyn FnMut(ReconcileKey),
    ) {
        wake_for(BuiltinResource::ReplicaSets, change, view, wake);
    }
    fn reconcile(&self, pass: &Pass<'_>) -> ReconcileResult {
        reconcile(BuiltinResource::ReplicaSets, pass)
    }
}

impl Controller for ReplicationControllers {
    fn name(&self) -> &'static str {
        "replicationcontroller-controller"
    }
    fn alias(&self) -> &'static str {
        "replicationcontroller"
    }
    fn component(&self) -> &'static str {
        "replication-controller"
    }
    fn watches(&self) -> &'static [BuiltinResource] {
        &[BuiltinResource::ReplicationControllers, BuiltinResource::Pods]
    }
    fn wake(
        &self,
        change: &ObjectChange<'_>,
        view: &dyn ClusterView,
        wake: &mut dyn FnMut(ReconcileKey),
    ) {
        wake_for(BuiltinResource::ReplicationControllers, change, view, wake);
    }
    fn reconcile(&self, pass: &Pass<'_>) -> ReconcileResult {
        reconcile(BuiltinResource::ReplicationControllers, pass)
    }
}

fn wake_for(
    resource: BuiltinResource,
    change: &ObjectChange<'_>,
    view: &dyn ClusterView,
    wake: &mut dyn FnMut(ReconcileKey),
) {
    if change.resource == resource {
        wake::itself(change, wake);
        return;
    }
    if let (Some(before), Some(after)) = (change.before, change.after)
        && !pod::counts_differently(before, after)
    {
        return;
    }
    wake::by_child(change, view, resource, selector_of(resource), wake);
}

fn selector_of(resource: BuiltinResource) -> fn(&Object) -> Option<LabelSelector> {
    match resource {
        BuiltinResource::ReplicaSets => |set| selector::at(set, &["spec", "selector"]),
        _ => |set| selector::map_at(set, &["spec", "selector"]),
    }
}

/// `spec.replicas`; one when it is left out.
#[must_use]
pub fn wanted(set: &Object) -> i64 {
    set.int_at(&["spec", "replicas"]).unwrap_or(1).max(0)
}

/// The pods of a set, as one pass sees them.
struct ObservedPods {
    active: alloc::vec::Vec<VersionedObject>,
    terminating: usize,
}

/// Why the pass before could not bring the number of pods right (RS5).
struct ReplicaFailure<'a> {
    reason: &'static str,
    message: alloc::borrow::Cow<'a, str>,
}

fn reconcile(resource: BuiltinResource, pass: &Pass<'_>) -> ReconcileResult {
    let mut out = ReconcileResult::default();
    let Some(set) = pass.view.get(resource, &pass.key.namespace, &pass.key.name) else {
        return out;
    };
    // An empty selector would claim every pod; validation refuses it, an old object may have it.
    let Some(selector) = selector_of(resource)(&set).filter(|s| !s.is_everything()) else {
        return out;
    };
    let claimed = Claim {
        resource,
        controller: &set,
        children: BuiltinResource::Pods,
        selector: &selector,
        among: pod::active,
        fits: &|_| true,
        finalizer: None,
    }
    .make(pass.view);
    if !claimed.intents.is_empty() {
        out.intents = claimed.intents;
        return out;
    }
    let terminating =
        |pod: &&VersionedObject| pod::terminating(pod) && selector::matches(&selector, pod);
    let terminating = claimed.others.iter().filter(terminating).count();
    let counted = ObservedPods { active: claimed.ours, terminating };
    let excess = counted.active.len() as i64 - wanted(&set);
    let barren = excess < 0 && !matches_own_template(&set, &selector);
    let trouble = trouble(pass, excess, barren);
    let status = status::changed(resource, &set, &counted, trouble.as_ref(), pass.now);
    // A status that tells of trouble goes first: what failed once will probably fail again.
    let (early, late) = if trouble.is_some() { (status, None) } else { (None, status) };
    out.intents.extend(early);
    let before = out.intents.len();
    if !barren && !owner::deleting(&set) {
        manage(resource, pass, &set, &counted.active, excess, &mut out);
    }
    // Where all that is missing is made now, the pass that sees it counts it. What could be told before would be
    // out of date with the same breath.
    let made = i64::try_from(out.intents.len() - before).unwrap_or(i64::MAX);
    out.intents.extend(late.filter(|_| excess >= 0 || made < -excess));
    let min_ready = set.int_at(&["spec", "minReadySeconds"]).unwrap_or_default();
    out.requeue_after = pod::next_available(&counted.active, min_ready, pass.now);
    out
}

/// Whether pods made from the template would be ours; if not, making them would never end.
fn matches_own_template(set: &Object, selector: &LabelSelector) -> bool {
    set.map_at(&["spec", "template"]).is_some_and(|made| selector::matches(selector, made))
}

/// What of the pass before failed and would still have to be done now.
fn trouble<'a>(pass: &Pass<'a>, excess: i64, barren: bool) -> Option<ReplicaFailure<'a>> {
    if barren {
        let message = "the selector does not match the labels of the template".into();
        return Some(ReplicaFailure { reason: "FailedCreate", message });
    }
    let failed = |verb: Verb| {
        pass.refused.iter().find(|refused| {
            refused.verb == verb
                && refused.resource == Some(BuiltinResource::Pods)
                && !refused.namespace_terminating
                // Somebody was quicker: that is no failure, and this pass looks afresh.
                && !matches!(refused.why, WriteRefusal::Absent | WriteRefusal::Conflict)
        })
    };
    if excess < 0 {
        let message = failed(Verb::Create)?.message.as_str().into();
        return Some(ReplicaFailure { reason: "FailedCreate", message });
    }
    if excess > 0 {
        let message = &failed(Verb::Delete)?.message;
        let message = alloc::format!("unable to delete pods: {message}").into();
        return Some(ReplicaFailure { reason: "FailedDelete", message });
    }
    None
}

/// Creates what is missing or deletes what is too much (RS1).
fn manage(
    resource: BuiltinResource,
    pass: &Pass<'_>,
    set: &VersionedObject,
    active: &[VersionedObject],
    excess: i64,
    out: &mut ReconcileResult,
) {
    let about = InvolvedObject::of(resource, set);
    let count = usize::try_from(excess.unsigned_abs()).unwrap_or(BURST).min(BURST);
    if excess < 0 && !pod::namespace_closed(pass) {
        let count = count.min(pod::room_to_wait(active));
        let template = set.map_at(&["spec", "template"]);
        let made = template.and_then(|template| pod::from_template(template, resource, set));
        if let Some(made) = made {
            out.intents.extend(pod::creations(&made, count, &about));
        }
    } else if excess > 0 {
        let chosen = deletion_order::choose(resource, pass, set, active, count);
        out.intents.extend(chosen.iter().map(|pod| pod::deletion(pod, &about)));
    }
}
