//! Job: pods that run to an end, and every end is counted once (JB2 to JB14).
//!
//! ```text
//!   claim pods ──► what ended, what is over ──► status ──► finalizers off ──► pods made or deleted
//!                                                 ▲              │
//!                                                 └── next pass ─┘
//! ```
//!
//! A pod carries a finalizer until the status names it; only then may it go, and only when it has let
//! go is it part of a number (JB3). So each arrow may be the last one before a crash. Labels and
//! selectors are given by the server when a Job is created (JB1); running pods is not done here.

mod backoff;
mod count;
mod finish;
mod indexes;
mod job_view;
mod manage;
mod policy;
mod status;
mod sweep;

use alloc::vec::Vec;

use tenure_core::selector::LabelSelector;
use tenure_machinery::{Object, ObjectExt};

pub use backoff::JobBackoff;

use crate::claim::Claim;
use crate::controller::{
    Controller, ObjectChange, Pass, ReconcileKey, ReconcileMemory, ReconcileResult,
};
use crate::intent::{ControllerIntent, InvolvedObject, UpdateEndpoint};
use crate::resource::BuiltinResource;
use crate::view::{ClusterView, VersionedObject};
use crate::{condition, owner, pod, selector, time, wake};
use job_view::JobView;

/// The finalizer that holds a pod until it is counted.
pub const TRACKING: &str = "batch.kubernetes.io/job-tracking";

/// The name under which a Job may ask for this controller.
const OURSELVES: &str = "kubernetes.io/job-controller";

/// How many pods one pass makes, deletes or begins to count at most.
const BURST: usize = 500;

/// The controller of Jobs.
pub struct Jobs;

impl Controller for Jobs {
    fn name(&self) -> &'static str {
        "job-controller"
    }
    fn alias(&self) -> &'static str {
        "job"
    }
    fn watches(&self) -> &'static [BuiltinResource] {
        &[BuiltinResource::Jobs, BuiltinResource::Pods]
    }
    fn wake(
        &self,
        change: &ObjectChange<'_>,
        view: &dyn ClusterView,
        wake: &mut dyn FnMut(ReconcileKey),
    ) {
        if change.resource == BuiltinResource::Jobs {
            wake::itself(change, wake);
            if let (Some(gone), None) = (change.before, change.after) {
                sweep::wake_pods_of(gone, view, wake);
            }
            return;
        }
        wake_by_pod(change, view, wake);
    }
    fn reconcile(&self, pass: &Pass<'_>) -> ReconcileResult {
        match sweep::pod_of(pass.key) {
            Some(name) => sweep::reconcile(pass, name),
            None => reconcile(pass),
        }
    }
}

fn wake_by_pod(
    change: &ObjectChange<'_>,
    view: &dyn ClusterView,
    wake: &mut dyn FnMut(ReconcileKey),
) {
    if let (Some(before), Some(after)) = (change.before, change.after)
        && !matters(before, after)
    {
        return;
    }
    wake::by_child(change, view, BuiltinResource::Jobs, selector_of, wake);
    if let Some(pod) = change.after
        && sweep::stray(pod, view)
    {
        wake(sweep::key(pod));
    }
}

/// Whether a change of a pod can matter to a Job: ends are judged by containers and conditions too.
fn matters(before: &Object, after: &Object) -> bool {
    let differs = |path: &[&str]| before.at(path) != after.at(path);
    pod::counts_differently(before, after)
        || differs(&["metadata", "finalizers"])
        || differs(&["metadata", "annotations"])
        || differs(&["status", "conditions"])
        || differs(&["status", "containerStatuses"])
        || differs(&["status", "initContainerStatuses"])
}

fn selector_of(job: &Object) -> Option<LabelSelector> {
    selector::at(job, &["spec", "selector"])
}

/// Whether another controller asked to be left alone with this Job (JB12).
fn managed_elsewhere(job: &Object) -> bool {
    job.str_at(&["spec", "managedBy"]).is_some_and(|manager| manager != OURSELVES)
}

/// The condition that says how a Job ended: `Complete` or `Failed`.
#[must_use]
pub fn finished(job: &Object) -> Option<&Object> {
    let conditions = job.list_at(&["status", "conditions"]);
    ["Complete", "Failed"]
        .into_iter()
        .find(|kind| condition::is(conditions, kind, "True"))
        .and_then(|kind| condition::find(conditions, kind))
}

/// Whether a pod is not counted yet (JB2).
fn tracked(pod: &Object) -> bool {
    owner::has_finalizer(pod, TRACKING)
}

/// Lets go of pods, all at once.
fn let_go(pods: &[VersionedObject]) -> Vec<ControllerIntent> {
    let mut intents = Vec::new();
    for pod in pods.iter().filter(|pod| tracked(pod)) {
        let mut free = Object::clone(&pod.object);
        owner::remove_finalizer(&mut free, TRACKING);
        let intent = ControllerIntent::update(
            BuiltinResource::Pods,
            free,
            UpdateEndpoint::Main,
            pod.revision,
        );
        intents.push(intent.together(!intents.is_empty()));
    }
    intents
}

/// Lets go of pods and then deletes them; one that could not be let go of is not deleted yet, since
/// its end would be counted as a failure.
fn release_and_delete(pods: &[VersionedObject], about: &InvolvedObject) -> Vec<ControllerIntent> {
    let mut intents = let_go(pods);
    for (place, pod) in pods.iter().enumerate() {
        intents.push(pod::deletion(pod, about).together(place > 0));
    }
    intents
}

fn reconcile(pass: &Pass<'_>) -> ReconcileResult {
    let mut out = ReconcileResult::default();
    let found = pass.view.get(BuiltinResource::Jobs, &pass.key.namespace, &pass.key.name);
    let Some(job) = found.filter(|job| !managed_elsewhere(job)) else { return out };
    if finished(&job).is_some() {
        out.intents = let_go(&sweep::pods_of(&job, pass.view));
        return out;
    }
    let Some(selector) = selector_of(&job).filter(|s| !s.is_everything()) else { return out };
    let claimed = Claim {
        resource: BuiltinResource::Jobs,
        controller: &job,
        children: BuiltinResource::Pods,
        selector: &selector,
        among: |_| true,
        fits: &|_| true,
        finalizer: Some(TRACKING),
    }
    .make(pass.view);
    if !claimed.intents.is_empty() {
        out.intents = claimed.intents;
        out.memory = pass.memory.clone();
        return out;
    }
    decide(pass, &job, claimed.ours, &mut out);
    out
}

fn decide(
    pass: &Pass<'_>,
    job: &VersionedObject,
    pods: Vec<VersionedObject>,
    out: &mut ReconcileResult,
) {
    let observed = JobView::of(job, pods, pass.now);
    let backoff = JobBackoff::recall(pass.memory, &observed);
    let finish = finish::of(&observed);
    let tally = count::tally(&observed, finish.as_ref());
    let change = status::change(&observed, &tally, finish.as_ref());
    let about = InvolvedObject::of(BuiltinResource::Jobs, job);
    if let Some(status) = change.write {
        out.push(status);
        out.intents.extend(change.notes.into_iter().map(ControllerIntent::tell));
    }
    out.intents.extend(let_go(&tally.strip));
    if finish.is_some() {
        // What is still to be counted in a later pass keeps its finalizer, and so waits.
        let ready = |pod: &&VersionedObject| !tracked(pod) || tally.strips(pod);
        let over: Vec<VersionedObject> = observed.active.iter().filter(ready).cloned().collect();
        for (place, pod) in over.iter().enumerate() {
            out.push(pod::deletion(pod, &about).together(place > 0));
        }
    } else if !owner::deleting(job) {
        manage::manage(pass, &observed, &backoff, &about, out);
    }
    if finish.is_none()
        && let Some(end) = observed.deadline()
    {
        out.wake_after(time::until(end, pass.now));
    }
    out.memory = ReconcileMemory::Backoff(backoff);
}
