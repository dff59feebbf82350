//! Claims find volumes: a simple binder and provisioner (PV2).
//!
//! ```text
//!   claim ──► a volume that fits, or one made for it
//!     1. volume.spec.claimRef    2. claim.spec.volumeName    3. both say Bound
//!   claim gone ──► volume Released ──► deleted if it was made here and is not to be kept
//! ```
//!
//! A key with a namespace is a claim, one without is a volume. Nothing is mounted here.

mod fit;
mod phase;

use alloc::format;
use alloc::string::ToString;

use serde_json::{Value, json};
use tenure_machinery::{Object, ObjectExt};

use crate::controller::{
    Controller, ObjectChange, Pass, ReconcileKey, ReconcileMemory, ReconcileResult,
};
use crate::intent::{ControllerIntent, InvolvedObject, UpdateEndpoint};
use crate::owner;
use crate::resource::BuiltinResource;
use crate::view::{ClusterView, VersionedObject};

/// The provisioner that makes volumes here.
pub const PROVISIONER: &str = "tenure.dev/local";
/// The node that a pod with an unbound claim will go to.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const BOUND_HERE: &str = "pv.kubernetes.io/bound-by-controller";
const COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
const WANTS_PROVISIONER: [&str; 2] =
    ["volume.beta.kubernetes.io/storage-provisioner", "volume.kubernetes.io/storage-provisioner"];

/// The controller of claims and volumes.
pub struct PersistentVolumes;

impl Controller for PersistentVolumes {
    fn name(&self) -> &'static str {
        "persistentvolume-binder-controller"
    }
    fn alias(&self) -> &'static str {
        "persistentvolume-binder"
    }
    fn component(&self) -> &'static str {
        "persistentvolume-controller"
    }
    fn watches(&self) -> &'static [BuiltinResource] {
        &[
            BuiltinResource::PersistentVolumeClaims,
            BuiltinResource::PersistentVolumes,
            BuiltinResource::StorageClasses,
        ]
    }
    fn wake(
        &self,
        change: &ObjectChange<'_>,
        view: &dyn ClusterView,
        wake: &mut dyn FnMut(ReconcileKey),
    ) {
        match change.resource {
            BuiltinResource::PersistentVolumeClaims => {
                crate::wake::itself(change, wake);
                for claim in [change.before, change.after].into_iter().flatten() {
                    if let Some(volume) = volume_of(claim) {
                        wake(ReconcileKey::new("", volume));
                    }
                }
            }
            BuiltinResource::PersistentVolumes => {
                crate::wake::itself(change, wake);
                wake_claims(change, view, wake);
            }
            _ => unbound(view, wake),
        }
    }
    fn reconcile(&self, pass: &Pass<'_>) -> ReconcileResult {
        if pass.key.namespace.is_empty() { phase::volume(pass) } else { claim(pass) }
    }
}

/// Wakes the claim that a volume names, or every claim that could take a free one.
fn wake_claims(
    change: &ObjectChange<'_>,
    view: &dyn ClusterView,
    wake: &mut dyn FnMut(ReconcileKey),
) {
    let Some(volume) = change.object() else { return };
    match volume.map_at(&["spec", "claimRef"]) {
        Some(claim) => {
            let text = |name: &str| claim.str_at(&[name]).unwrap_or_default();
            wake(ReconcileKey::new(text("namespace"), text("name")));
        }
        None if change.after.is_some() => unbound(view, wake),
        None => {}
    }
}

fn unbound(view: &dyn ClusterView, wake: &mut dyn FnMut(ReconcileKey)) {
    for claim in view.list(BuiltinResource::PersistentVolumeClaims, None) {
        if owner::annotation(&claim, COMPLETED).is_none() {
            wake(ReconcileKey::of(&claim));
        }
    }
}

/// The volume that a claim names.
pub(crate) fn volume_of(claim: &Object) -> Option<&str> {
    claim.str_at(&["spec", "volumeName"]).filter(|name| !name.is_empty())
}

fn class_of(view: &dyn ClusterView, claim: &Object) -> Option<VersionedObject> {
    let name = claim.str_at(&["spec", "storageClassName"]).filter(|name| !name.is_empty())?;
    view.get(BuiltinResource::StorageClasses, "", name)
}

/// The class that claims get when they name none, where there are simulated nodes.
#[must_use]
pub fn default_class() -> Object {
    let class = json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": "tenure-local",
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
    });
    class.as_object().cloned().unwrap_or_default()
}

/// Whether a claim is bound only once a pod needs it.
#[must_use]
pub fn waits_for_pod(view: &dyn ClusterView, claim: &Object) -> bool {
    class_of(view, claim)
        .is_some_and(|class| class.str_at(&["volumeBindingMode"]) == Some("WaitForFirstConsumer"))
}

/// Whether a volume names this claim, by name or by uid.
fn names(volume: &Object, claim: &Object) -> bool {
    volume.map_at(&["spec", "claimRef"]).is_some_and(|entry| {
        entry.str_at(&["namespace"]) == Some(claim.namespace())
            && entry.str_at(&["name"]) == Some(claim.name())
            && matches!(entry.str_at(&["uid"]), None | Some(""))
            || entry.str_at(&["uid"]) == Some(owner::uid(claim))
    })
}

fn claim(pass: &Pass<'_>) -> ReconcileResult {
    let mut out = ReconcileResult::default();
    let (namespace, name) = (&*pass.key.namespace, &*pass.key.name);
    let claim = pass.view.get(BuiltinResource::PersistentVolumeClaims, namespace, name);
    let Some(claim) = claim else { return out };
    if owner::annotation(&claim, COMPLETED).is_some() {
        out.intents.extend(phase::claim(pass, &claim));
        return out;
    }
    if owner::deleting(&claim) {
        return out;
    }
    let found = match volume_of(&claim) {
        Some(named) => {
            let named = pass.view.get(BuiltinResource::PersistentVolumes, "", named);
            let free = |volume: &VersionedObject| {
                volume.map_at(&["spec", "claimRef"]).is_none() || names(volume, &claim)
            };
            // A claim that names its volume waits for it and takes no other.
            match named.filter(free) {
                Some(volume) => Some(volume),
                None => return out,
            }
        }
        None if waits_for_pod(pass.view, &claim)
            && owner::annotation(&claim, SELECTED_NODE).is_none() =>
        {
            let words = "waiting for first consumer to be created before binding";
            tell_once(pass, &claim, &mut out, false, "WaitForFirstConsumer", words);
            return out;
        }
        None => fit::best(pass.view, &claim),
    };
    match found {
        Some(volume) => bind(&claim, &volume, &mut out),
        None => provision(pass, &claim, &mut out),
    }
    out
}

/// Ties a claim and a volume together: the volume first.
fn bind(claim: &VersionedObject, volume: &VersionedObject, out: &mut ReconcileResult) {
    if volume.str_at(&["spec", "claimRef", "uid"]) != Some(owner::uid(claim)) {
        let mut object = Object::clone(&volume.object);
        if volume.map_at(&["spec", "claimRef"]).is_none() {
            owner::annotate(&mut object, BOUND_HERE, "yes");
        }
        object.map_mut("spec").insert("claimRef".to_string(), entry(claim));
        let endpoint = UpdateEndpoint::Main;
        out.push(ControllerIntent::update(
            BuiltinResource::PersistentVolumes,
            object,
            endpoint,
            volume.revision,
        ));
    }
    let mut object = Object::clone(&claim.object);
    if volume_of(claim).is_none() {
        owner::annotate(&mut object, BOUND_HERE, "yes");
        object.map_mut("spec").insert("volumeName".to_string(), volume.name().into());
    }
    owner::annotate(&mut object, COMPLETED, "yes");
    let endpoint = UpdateEndpoint::Main;
    out.push(ControllerIntent::update(
        BuiltinResource::PersistentVolumeClaims,
        object,
        endpoint,
        claim.revision,
    ));
}

fn entry(claim: &VersionedObject) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": claim.namespace(),
        "name": claim.name(),
        "uid": owner::uid(claim),
        "resourceVersion": claim.revision.to_string(),
    })
}

/// Makes a volume for a claim whose class says so, or hands the claim to somebody else.
fn provision(pass: &Pass<'_>, claim: &VersionedObject, out: &mut ReconcileResult) {
    let Some(class) = class_of(pass.view, claim) else {
        let words = match claim.str_at(&["spec", "storageClassName"]).unwrap_or_default() {
            "" => "no persistent volumes available for this claim and no storage class is set"
                .to_string(),
            name => format!("storageclass.storage.k8s.io {name:?} not found"),
        };
        tell_once(pass, claim, out, claim_class_named(claim), reason(claim), &words);
        return;
    };
    let provisioner = class.str_at(&["provisioner"]).unwrap_or_default();
    if provisioner == "kubernetes.io/no-provisioner" {
        let words = "no persistent volumes available for this claim and no storage class is set";
        tell_once(pass, claim, out, false, "FailedBinding", words);
        return;
    }
    let requested = |key: &&str| owner::annotation(claim, key) == Some(provisioner);
    if !WANTS_PROVISIONER.iter().all(requested) {
        let mut object = Object::clone(&claim.object);
        for key in WANTS_PROVISIONER {
            owner::annotate(&mut object, key, provisioner);
        }
        let endpoint = UpdateEndpoint::Main;
        out.push(ControllerIntent::update(
            BuiltinResource::PersistentVolumeClaims,
            object,
            endpoint,
            claim.revision,
        ));
        return;
    }
    if provisioner != PROVISIONER {
        let words = format!(
            "Waiting for a volume to be created either by the external provisioner '{provisioner}' \
             or manually by the system administrator."
        );
        tell_once(pass, claim, out, false, "ExternalProvisioning", &words);
        return;
    }
    let volume = made(claim, &class);
    let about = InvolvedObject::of(BuiltinResource::PersistentVolumeClaims, claim);
    let words = format!("Successfully provisioned volume {}", volume.name());
    let intent = ControllerIntent::create(BuiltinResource::PersistentVolumes, volume)
        .relying_on(about.living())
        .when_done(about.normal("ProvisioningSucceeded", words));
    out.push(intent);
}

fn claim_class_named(claim: &Object) -> bool {
    claim.str_at(&["spec", "storageClassName"]).is_some_and(|name| !name.is_empty())
}

fn reason(claim: &Object) -> &'static str {
    if claim_class_named(claim) { "ProvisioningFailed" } else { "FailedBinding" }
}

/// Says something about a claim that waits, once for each way it is written.
fn tell_once(
    pass: &Pass<'_>,
    claim: &VersionedObject,
    out: &mut ReconcileResult,
    warning: bool,
    reason: &str,
    words: &str,
) {
    let said = [format!("{reason} {words}")].into();
    let known = matches!(pass.memory, ReconcileMemory::Said(known) if *known == said);
    out.memory = ReconcileMemory::Said(said);
    if known {
        return;
    }
    let about = InvolvedObject::of(BuiltinResource::PersistentVolumeClaims, claim);
    let note = if warning { about.warning(reason, words) } else { about.normal(reason, words) };
    out.push(ControllerIntent::tell(note));
}

/// A volume that is made for a claim.
fn made(claim: &VersionedObject, class: &Object) -> Object {
    let name = format!("pvc-{}", owner::uid(claim));
    let mode = claim.str_at(&["spec", "volumeMode"]).unwrap_or("Filesystem");
    let volume = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: PROVISIONER}},
        "spec": {
            "accessModes": claim.list_at(&["spec", "accessModes"]),
            "capacity": {"storage": claim.at(&["spec", "resources", "requests", "storage"])},
            "claimRef": entry(claim),
            "hostPath": {"path": format!("/tenure/volumes/{name}"), "type": "DirectoryOrCreate"},
            "persistentVolumeReclaimPolicy": class.str_at(&["reclaimPolicy"]).unwrap_or("Delete"),
            "storageClassName": class.name(),
            "volumeMode": mode,
        },
    });
    volume.as_object().cloned().unwrap_or_default()
}
