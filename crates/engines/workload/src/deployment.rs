//! Deployment: one ReplicaSet per template, moved from the old ones to the new one (DP1 to DP19).
//!
//! ```text
//!   claim ──► deleted? status only
//!         ──► paused? scale, prune, status
//!         ──► rollback asked? change the template
//!         ──► size changed? scale all in proportion, status
//!         └─► recreate, or roll: grow the new one, shrink the old ones, prune, status
//! ```
//!
//! A pass collects its changes in a `Rollout` and writes every object once: ReplicaSets first, the
//! Deployment's status last. Nothing here touches a pod.

mod annotations;
mod history;
mod math;
mod new_set;
mod rollback;
mod rollout;
mod scale;
mod sets;
mod status;
mod strategy;

use tenure_core::selector::LabelSelector;
use tenure_machinery::{Object, ObjectExt};

use crate::claim::Claim;
use crate::controller::{
    Controller, ObjectChange, Pass, ReconcileKey, ReconcileMemory, ReconcileResult,
};
use crate::intent::{ControllerIntent, InvolvedObject, UpdateEndpoint};
use crate::resource::BuiltinResource;
use crate::view::{ClusterView, VersionedObject};
use crate::{owner, pod, selector, wake};

use rollout::Rollout;

/// The controller of Deployments.
pub struct Deployments;

impl Controller for Deployments {
    fn name(&self) -> &'static str {
        "deployment-controller"
    }
    fn alias(&self) -> &'static str {
        "deployment"
    }
    fn watches(&self) -> &'static [BuiltinResource] {
        &[BuiltinResource::Deployments, BuiltinResource::ReplicaSets, BuiltinResource::Pods]
    }
    fn wake(
        &self,
        change: &ObjectChange<'_>,
        view: &dyn ClusterView,
        wake: &mut dyn FnMut(ReconcileKey),
    ) {
        match change.resource {
            BuiltinResource::Deployments => wake::itself(change, wake),
            BuiltinResource::ReplicaSets => {
                wake::by_child(change, view, BuiltinResource::Deployments, selector_of, wake);
            }
            _ => wake_for_pod(change, view, wake),
        }
    }
    fn reconcile(&self, pass: &Pass<'_>) -> ReconcileResult {
        reconcile(pass)
    }
}

fn selector_of(deployment: &Object) -> Option<LabelSelector> {
    selector::at(deployment, &["spec", "selector"])
}

/// Only a Recreate rollout waits for pods: for the end of the last old one (DP10).
fn wake_for_pod(
    change: &ObjectChange<'_>,
    view: &dyn ClusterView,
    wake: &mut dyn FnMut(ReconcileKey),
) {
    let Some(before) = change.before.filter(|pod| !pod::terminal(pod)) else { return };
    if change.after.is_some_and(|after| !pod::terminal(after)) {
        return;
    }
    let set = wake::controller(before, BuiltinResource::ReplicaSets, view);
    let deployment = set.and_then(|set| wake::controller(&set, BuiltinResource::Deployments, view));
    if let Some(deployment) = deployment.filter(|found| math::recreates(found)) {
        wake(ReconcileKey::of(&deployment));
    }
}

fn reconcile(pass: &Pass<'_>) -> ReconcileResult {
    let found = pass.view.get(BuiltinResource::Deployments, &pass.key.namespace, &pass.key.name);
    let Some(deployment) = found else { return ReconcileResult::default() };
    let Some(selector) = selector_of(&deployment) else { return ReconcileResult::default() };
    if selector.is_everything() {
        return selects_everything(pass, &deployment);
    }
    let claimed = Claim {
        resource: BuiltinResource::Deployments,
        controller: &deployment,
        children: BuiltinResource::ReplicaSets,
        selector: &selector,
        among: |_| true,
        fits: &|_| true,
        finalizer: None,
    }
    .make(pass.view);
    if !claimed.intents.is_empty() {
        return ReconcileResult { intents: claimed.intents, ..ReconcileResult::default() };
    }
    let mut rollout = Rollout::new(pass, deployment, claimed.ours);
    run(&mut rollout);
    rollout.finish()
}

/// The order of one pass (DP2).
fn run(rollout: &mut Rollout<'_>) {
    if owner::deleting(&rollout.deployment) {
        rollout.sync_revision();
        rollout.write_plain_status();
        return;
    }
    rollout.note_pause();
    if rollout.paused {
        rollout.sync_revision();
        rollout.scale_in_proportion();
        if rollback::requested_revision(&rollout.deployment).is_none() {
            rollout.prune();
        }
        rollout.write_plain_status();
        return;
    }
    if let Some(revision) = rollback::requested_revision(&rollout.deployment) {
        rollout.roll_back(revision);
        return;
    }
    rollout.sync_revision();
    if rollout.size_changed() {
        rollout.scale_in_proportion();
        rollout.write_plain_status();
        return;
    }
    if math::recreates(&rollout.deployment) {
        rollout.recreate();
    } else {
        rollout.roll();
    }
}

/// A selector without requirements is warned about and otherwise left alone (DP1).
fn selects_everything(pass: &Pass<'_>, deployment: &VersionedObject) -> ReconcileResult {
    let generation = owner::generation(deployment);
    let mut out = ReconcileResult {
        memory: ReconcileMemory::Reported(generation),
        ..ReconcileResult::default()
    };
    if *pass.memory != ReconcileMemory::Reported(generation) {
        let about = InvolvedObject::of(BuiltinResource::Deployments, deployment);
        let words = "This deployment is selecting all pods. A non-empty selector is required.";
        out.push(ControllerIntent::tell(about.warning("SelectingAll", words)));
    }
    let observed = deployment.int_at(&["status", "observedGeneration"]).unwrap_or_default();
    if observed < generation {
        let mut object = Object::clone(&deployment.object);
        object.map_mut("status").insert("observedGeneration".into(), generation.into());
        let endpoint = UpdateEndpoint::Status;
        out.push(ControllerIntent::update(
            BuiltinResource::Deployments,
            object,
            endpoint,
            deployment.revision,
        ));
    }
    out
}
