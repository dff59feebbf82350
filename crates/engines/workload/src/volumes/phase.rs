//! What claims and volumes say about themselves: Available, Bound, Released, Lost.

use alloc::string::ToString;

use serde_json::{Value, json};
use tenure_machinery::{Object, ObjectExt};

use super::{PROVISIONED_BY, PROVISIONER, names, volume_of};
use crate::controller::{Pass, ReconcileResult};
use crate::intent::{ControllerIntent, UpdateEndpoint};
use crate::owner;
use crate::resource::BuiltinResource;
use crate::view::VersionedObject;

/// Brings the phase of a volume right; removes one that nobody needs any more.
pub(super) fn volume(pass: &Pass<'_>) -> ReconcileResult {
    let mut out = ReconcileResult::default();
    let Some(volume) = pass.view.get(BuiltinResource::PersistentVolumes, "", &pass.key.name) else {
        return out;
    };
    let phase = phase(pass, &volume);
    let ours = owner::annotation(&volume, PROVISIONED_BY) == Some(PROVISIONER);
    let deletes = volume.str_at(&["spec", "persistentVolumeReclaimPolicy"]) == Some("Delete");
    if volume.str_at(&["status", "phase"]) != Some(phase) {
        let mut object = Object::clone(&volume.object);
        object.map_mut("status").insert("phase".to_string(), phase.into());
        let endpoint = UpdateEndpoint::Status;
        out.push(ControllerIntent::update(
            BuiltinResource::PersistentVolumes,
            object,
            endpoint,
            volume.revision,
        ));
    } else if phase == "Released" && ours && deletes && !owner::deleting(&volume) {
        out.push(ControllerIntent::delete(BuiltinResource::PersistentVolumes, &volume));
    }
    out
}

fn phase(pass: &Pass<'_>, volume: &VersionedObject) -> &'static str {
    let Some(entry) = volume.map_at(&["spec", "claimRef"]) else { return "Available" };
    let text = |name: &str| entry.str_at(&[name]).unwrap_or_default();
    if text("uid").is_empty() {
        return "Available";
    }
    let claims = BuiltinResource::PersistentVolumeClaims;
    let claim = pass.view.get(claims, text("namespace"), text("name"));
    match claim.filter(|claim| owner::uid(claim) == text("uid")) {
        None => "Released",
        Some(claim) if volume_of(&claim) == Some(volume.name()) => "Bound",
        // The claim is about to take it.
        Some(_) => "Available",
    }
}

/// The status of a claim whose binding is complete.
pub(super) fn claim(pass: &Pass<'_>, claim: &VersionedObject) -> Option<ControllerIntent> {
    let volume = pass.view.get(BuiltinResource::PersistentVolumes, "", volume_of(claim)?);
    let known = claim.map_at(&["status"]).cloned().unwrap_or_default();
    let mut status = known.clone();
    match volume.filter(|volume| names(volume, claim)) {
        Some(volume) => {
            status.insert("phase".to_string(), "Bound".into());
            let modes = volume.list_at(&["spec", "accessModes"]);
            status.insert("accessModes".to_string(), json!(modes));
            if let Some(capacity) = volume.map_at(&["spec", "capacity"]) {
                status.insert("capacity".to_string(), Value::Object(capacity.clone()));
            }
        }
        None => {
            status.insert("phase".to_string(), "Lost".into());
        }
    }
    (status != known).then(|| {
        let mut object = Object::clone(&claim.object);
        object.insert("status".to_string(), Value::Object(status));
        ControllerIntent::update(
            BuiltinResource::PersistentVolumeClaims,
            object,
            UpdateEndpoint::Status,
            claim.revision,
        )
    })
}
