//! Pods whose Job is gone or over are let go of, or they would hang forever (JB10).
//!
//! Such a pod has a key of its own; no name of a Job has a slash.

use alloc::format;
use alloc::vec::Vec;

use tenure_machinery::{Object, ObjectExt};

use super::{let_go, tracked};
use crate::controller::{Pass, ReconcileKey, ReconcileResult};
use crate::resource::BuiltinResource;
use crate::view::{ClusterView, VersionedObject};
use crate::{owner, wake};

const PREFIX: &str = "pods/";

/// The key of a pod that no Job looks after.
pub(super) fn key(pod: &Object) -> ReconcileKey {
    ReconcileKey::new(pod.namespace(), &format!("{PREFIX}{}", pod.name()))
}

/// The pod that a key is about, if it is not about a Job.
pub(super) fn pod_of(key: &ReconcileKey) -> Option<&str> {
    key.name.strip_prefix(PREFIX)
}

/// Whether a pod is held for a Job that is not there.
pub(super) fn stray(pod: &Object, view: &dyn ClusterView) -> bool {
    if !tracked(pod) {
        return false;
    }
    owner::controller_of(pod).is_none_or(|entry| {
        entry.str_at(&["kind"]) == Some(BuiltinResource::Jobs.kind())
            && entry.str_at(&["apiVersion"]) == Some(BuiltinResource::Jobs.api_version())
            && wake::controller(pod, BuiltinResource::Jobs, view).is_none()
    })
}

/// Wakes the pods of a Job that is gone.
pub(super) fn wake_pods_of(
    gone: &Object,
    view: &dyn ClusterView,
    wake: &mut dyn FnMut(ReconcileKey),
) {
    for pod in pods_of(gone, view).iter().filter(|pod| tracked(pod)) {
        wake(key(pod));
    }
}

/// The pods that a Job controls, whatever their labels.
pub(super) fn pods_of(job: &Object, view: &dyn ClusterView) -> Vec<VersionedObject> {
    let mut pods = view.owned_by(owner::uid(job), BuiltinResource::Pods);
    pods.retain(|pod| owner::controlled_by(pod, owner::uid(job)));
    pods
}

pub(super) fn reconcile(pass: &Pass<'_>, name: &str) -> ReconcileResult {
    let mut out = ReconcileResult::default();
    let pod = pass.view.get(BuiltinResource::Pods, &pass.key.namespace, name);
    if let Some(pod) = pod.filter(|pod| stray(pod, pass.view)) {
        out.intents = let_go(&[pod]);
    }
    out
}
