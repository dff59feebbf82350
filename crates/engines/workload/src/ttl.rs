//! Jobs that say how long they may stay after their end are deleted then (JB11).

use tenure_machinery::ObjectExt;

use crate::controller::{Controller, ObjectChange, Pass, ReconcileKey, ReconcileResult};
use crate::intent::{ControllerIntent, IntentPropagation};
use crate::resource::BuiltinResource;
use crate::view::ClusterView;
use crate::{job, owner, time, wake};

/// The controller that deletes finished Jobs.
pub struct TtlAfterFinished;

impl Controller for TtlAfterFinished {
    fn name(&self) -> &'static str {
        "ttl-after-finished-controller"
    }
    fn alias(&self) -> &'static str {
        "ttl-after-finished"
    }
    fn watches(&self) -> &'static [BuiltinResource] {
        &[BuiltinResource::Jobs]
    }
    fn wake(
        &self,
        change: &ObjectChange<'_>,
        _: &dyn ClusterView,
        wake: &mut dyn FnMut(ReconcileKey),
    ) {
        let concerns = |job: &&crate::VersionedObject| {
            job.int_at(&["spec", "ttlSecondsAfterFinished"]).is_some()
        };
        if change.after.filter(concerns).is_some() {
            wake::itself(change, wake);
        }
    }
    fn reconcile(&self, pass: &Pass<'_>) -> ReconcileResult {
        reconcile(pass).unwrap_or_default()
    }
}

fn reconcile(pass: &Pass<'_>) -> Option<ReconcileResult> {
    let mut out = ReconcileResult::default();
    let job = pass.view.get(BuiltinResource::Jobs, &pass.key.namespace, &pass.key.name)?;
    if owner::deleting(&job) {
        return None;
    }
    let seconds = job.int_at(&["spec", "ttlSecondsAfterFinished"])?;
    let end = time::at(job::finished(&job)?, &["lastTransitionTime"])?;
    let expiry = time::after(end, seconds);
    if expiry > pass.now {
        out.wake_after(time::until(expiry, pass.now));
        return Some(out);
    }
    // Whoever changes the Job in this moment may have given it more time, so it must be as seen.
    let deletion = ControllerIntent::delete(BuiltinResource::Jobs, &job)
        .propagating(IntentPropagation::Foreground);
    out.push(deletion.unless_changed(job.revision));
    Some(out)
}
