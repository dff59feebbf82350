//! Volumes, claims and classes in use stay; unused ones that are being deleted go (PV1; ownership R163–R167).
//!
//! ```text
//!   class ◄── claim, volume that name it        claim ◄── pod with a node        volume ◄── Bound
//! ```
//!
//! Admission gives new objects their finalizer; who lost it gets it back here. What a claim is bound to is
//! decided elsewhere.

use alloc::string::String;

use serde_json::Value;
use tenure_machinery::{Object, ObjectExt};

use crate::controller::{Controller, ObjectChange, Pass, ReconcileKey, ReconcileResult};
use crate::intent::{ControllerIntent, UpdateEndpoint};
use crate::resource::BuiltinResource;
use crate::view::{ClusterView, VersionedObject};
use crate::{ephemeral, owner, pod};

const VOLUME: &str = "kubernetes.io/pv-protection";
const CLAIM: &str = "kubernetes.io/pvc-protection";
const CLASS: &str = "kubernetes.io/vac-protection";

/// Where a claim or volume names a class, as wanted or as it stands.
const CLASS_NAMES: [&[&str]; 3] = [
    &["spec", "volumeAttributesClassName"],
    &["status", "currentVolumeAttributesClassName"],
    &["status", "modifyVolumeStatus", "targetVolumeAttributesClassName"],
];

/// The protection of claims.
pub struct ClaimProtection;
/// The protection of volumes.
pub struct VolumeProtection;
/// The protection of classes of volume attributes.
pub struct ClassProtection;

impl Controller for ClaimProtection {
    fn name(&self) -> &'static str {
        "persistentvolumeclaim-protection-controller"
    }
    fn alias(&self) -> &'static str {
        "pvc-protection"
    }
    fn account(&self) -> &'static str {
        "pvc-protection-controller"
    }
    fn is_essential(&self) -> bool {
        true
    }
    fn watches(&self) -> &'static [BuiltinResource] {
        &[BuiltinResource::PersistentVolumeClaims, BuiltinResource::Pods]
    }
    fn wake(
        &self,
        change: &ObjectChange<'_>,
        view: &dyn ClusterView,
        wake: &mut dyn FnMut(ReconcileKey),
    ) {
        if change.resource == BuiltinResource::PersistentVolumeClaims {
            wake_unless_settled(change, CLAIM, wake);
            return;
        }
        // A pod names the same claims all its life, so its first coming frees none.
        let Some(pod) = change.before else { return };
        for claim in claims_of(pod) {
            wake_deleted(
                BuiltinResource::PersistentVolumeClaims,
                pod.namespace(),
                &claim,
                view,
                wake,
            );
        }
    }
    fn reconcile(&self, pass: &Pass<'_>) -> ReconcileResult {
        settle(pass, BuiltinResource::PersistentVolumeClaims, CLAIM, |claim| {
            let pods = pass.view.list(BuiltinResource::Pods, Some(&pass.key.namespace));
            pods.iter().any(|pod| uses_claim(pod, claim))
        })
    }
}

impl Controller for VolumeProtection {
    fn name(&self) -> &'static str {
        "persistentvolume-protection-controller"
    }
    fn alias(&self) -> &'static str {
        "pv-protection"
    }
    fn account(&self) -> &'static str {
        "pv-protection-controller"
    }
    fn is_essential(&self) -> bool {
        true
    }
    fn watches(&self) -> &'static [BuiltinResource] {
        &[BuiltinResource::PersistentVolumes]
    }
    fn wake(
        &self,
        change: &ObjectChange<'_>,
        _: &dyn ClusterView,
        wake: &mut dyn FnMut(ReconcileKey),
    ) {
        wake_unless_settled(change, VOLUME, wake);
    }
    fn reconcile(&self, pass: &Pass<'_>) -> ReconcileResult {
        // A volume is in use while it is bound to a claim, whether or not a pod uses that (G5).
        settle(pass, BuiltinResource::PersistentVolumes, VOLUME, |volume| {
            volume.str_at(&["status", "phase"]) == Some("Bound")
        })
    }
}

impl Controller for ClassProtection {
    fn name(&self) -> &'static str {
        "volumeattributesclass-protection-controller"
    }
    fn alias(&self) -> &'static str {
        "vac-protection"
    }
    fn account(&self) -> &'static str {
        "volumeattributesclass-protection-controller"
    }
    fn is_essential(&self) -> bool {
        true
    }
    fn watches(&self) -> &'static [BuiltinResource] {
        &[
            BuiltinResource::VolumeAttributesClasses,
            BuiltinResource::PersistentVolumeClaims,
            BuiltinResource::PersistentVolumes,
        ]
    }
    fn wake(
        &self,
        change: &ObjectChange<'_>,
        view: &dyn ClusterView,
        wake: &mut dyn FnMut(ReconcileKey),
    ) {
        if change.resource == BuiltinResource::VolumeAttributesClasses {
            wake_unless_settled(change, CLASS, wake);
            return;
        }
        let Some(user) = change.before else { return };
        for class in CLASS_NAMES.iter().filter_map(|path| user.str_at(path)) {
            wake_deleted(BuiltinResource::VolumeAttributesClasses, "", class, view, wake);
        }
    }
    fn reconcile(&self, pass: &Pass<'_>) -> ReconcileResult {
        settle(pass, BuiltinResource::VolumeAttributesClasses, CLASS, |class| {
            [BuiltinResource::PersistentVolumeClaims, BuiltinResource::PersistentVolumes]
                .into_iter()
                .flat_map(|resource| pass.view.list(resource, None))
                .any(|user| CLASS_NAMES.iter().any(|path| user.str_at(path) == Some(class.name())))
        })
    }
}

/// Wakes a changed object that is being deleted or lacks its protection: all others need nothing.
fn wake_unless_settled(
    change: &ObjectChange<'_>,
    finalizer: &str,
    wake: &mut dyn FnMut(ReconcileKey),
) {
    let stands_out = |object: &&VersionedObject| {
        owner::deleting(object) || !owner::has_finalizer(object, finalizer)
    };
    if let Some(object) = change.after.filter(stands_out) {
        wake(ReconcileKey::of(object));
    }
}

/// Wakes an object that one of its users may have let go of, if it is being deleted.
fn wake_deleted(
    resource: BuiltinResource,
    namespace: &str,
    name: &str,
    view: &dyn ClusterView,
    wake: &mut dyn FnMut(ReconcileKey),
) {
    if view.get(resource, namespace, name).is_some_and(|object| owner::deleting(&object)) {
        wake(ReconcileKey::new(namespace, name));
    }
}

/// Gives an object the protection it lacks, or takes it off one that nobody uses any more; that goes if no
/// other finalizer is left (R167).
fn settle(
    pass: &Pass<'_>,
    resource: BuiltinResource,
    finalizer: &str,
    in_use: impl Fn(&VersionedObject) -> bool,
) -> ReconcileResult {
    let mut out = ReconcileResult::default();
    let Some(seen) = pass.view.get(resource, &pass.key.namespace, &pass.key.name) else {
        return out;
    };
    let mut object = Object::clone(&seen.object);
    match (owner::deleting(&seen), owner::has_finalizer(&seen, finalizer)) {
        (false, false) => owner::add_finalizer(&mut object, finalizer),
        (true, true) if !in_use(&seen) => owner::remove_finalizer(&mut object, finalizer),
        _ => return out,
    }
    out.push(ControllerIntent::update(resource, object, UpdateEndpoint::Main, seen.revision));
    out
}

/// The names of the claims that the volumes of a pod stand for.
fn claims_of(pod: &Object) -> impl Iterator<Item = String> {
    volumes(pod).filter_map(move |volume| {
        match volume.str_at(&["persistentVolumeClaim", "claimName"]) {
            Some(claim) => Some(claim.into()),
            None => volume.map_at(&["ephemeral"]).map(|_| ephemeral::claim_name(pod, volume)),
        }
    })
}

fn volumes(pod: &Object) -> impl Iterator<Item = &Object> {
    pod.list_at(&["spec", "volumes"]).iter().filter_map(Value::as_object)
}

/// Whether a pod that was given a node mentions the claim, by name or through an ephemeral volume whose
/// claim is its own. Finished pods count; pods that were never scheduled do not (R165, R166).
fn uses_claim(pod: &Object, claim: &Object) -> bool {
    if pod::node(pod).is_empty() {
        return false;
    }
    // A pod whose grace is over has let go of its volumes, even if a finalizer holds it.
    let shut_down =
        owner::deleting(pod) && pod.int_at(&["metadata", "deletionGracePeriodSeconds"]) == Some(0);
    let own = owner::controlled_by(claim, owner::uid(pod));
    volumes(pod).any(|volume| {
        if volume.str_at(&["persistentVolumeClaim", "claimName"]) == Some(claim.name()) {
            return true;
        }
        let ephemeral = volume.map_at(&["ephemeral"]).is_some();
        ephemeral && own && !shut_down && claim.name() == ephemeral::claim_name(pod, volume)
    })
}
