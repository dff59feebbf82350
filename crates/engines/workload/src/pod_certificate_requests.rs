//! PodCertificateRequests are removed a quarter of an hour after they were made, answered or not: whoever
//! asked has taken the certificate by then (PC1).

use crate::controller::{Controller, ObjectChange, Pass, ReconcileKey, ReconcileResult};
use crate::intent::ControllerIntent;
use crate::resource::BuiltinResource;
use crate::view::ClusterView;
use crate::{owner, time, wake};

const STAY_SECONDS: i64 = 15 * 60;

/// The controller that removes old PodCertificateRequests.
pub struct PodCertificateRequests;

impl Controller for PodCertificateRequests {
    fn name(&self) -> &'static str {
        "podcertificaterequest-cleaner-controller"
    }
    fn alias(&self) -> &'static str {
        "podcertificaterequestcleaner"
    }
    fn account(&self) -> &'static str {
        "podcertificaterequestcleaner"
    }
    fn watches(&self) -> &'static [BuiltinResource] {
        &[BuiltinResource::PodCertificateRequests]
    }
    fn wake(
        &self,
        change: &ObjectChange<'_>,
        _: &dyn ClusterView,
        wake: &mut dyn FnMut(ReconcileKey),
    ) {
        if change.before.is_none() {
            wake::itself(change, wake);
        }
    }
    fn reconcile(&self, pass: &Pass<'_>) -> ReconcileResult {
        let mut out = ReconcileResult::default();
        let resource = BuiltinResource::PodCertificateRequests;
        let Some(request) = pass.view.get(resource, &pass.key.namespace, &pass.key.name) else {
            return out;
        };
        if owner::deleting(&request) {
            return out;
        }
        match time::created(&request).map(|made| time::after(made, STAY_SECONDS)) {
            Some(expiry) if expiry > pass.now => out.wake_after(time::until(expiry, pass.now)),
            _ => out.push(ControllerIntent::delete(resource, &request)),
        }
        out
    }
}
