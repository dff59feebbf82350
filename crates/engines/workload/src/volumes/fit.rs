//! Which volume fits a claim: class, mode, access, size, labels; the smallest wins.

use alloc::string::ToString;

use serde_json::Value;
use tenure_core::selector::LabelSelector;
use tenure_machinery::quantity::Quantity;
use tenure_machinery::{Object, ObjectExt};

use super::names;
use crate::resource::BuiltinResource;
use crate::view::{ClusterView, VersionedObject};
use crate::{owner, selector};

/// The best free volume for a claim; one that was promised to it comes before all others.
pub(super) fn best(view: &dyn ClusterView, claim: &VersionedObject) -> Option<VersionedObject> {
    let volumes = view.list(BuiltinResource::PersistentVolumes, None).into_iter();
    let fitting = volumes.filter(|volume| !owner::deleting(volume) && fits(volume, claim));
    fitting.min_by_key(|volume| {
        let size = size(volume, &["spec", "capacity", "storage"]).map_or(0, Quantity::value);
        (!names(volume, claim), size)
    })
}

fn fits(volume: &Object, claim: &Object) -> bool {
    let same = |name: &str, or: &str| {
        let read = |object: &Object| object.str_at(&["spec", name]).unwrap_or(or).to_string();
        read(volume) == read(claim)
    };
    let free = volume.map_at(&["spec", "claimRef"]).is_none() && phase_is_free(volume);
    (free || names(volume, claim))
        && same("storageClassName", "")
        && same("volumeMode", "Filesystem")
        && holds_modes(volume, claim)
        && holds_size(volume, claim)
        && holds_labels(volume, claim)
}

fn phase_is_free(volume: &Object) -> bool {
    matches!(volume.str_at(&["status", "phase"]), None | Some("" | "Pending" | "Available"))
}

fn holds_modes(volume: &Object, claim: &Object) -> bool {
    let offered = volume.list_at(&["spec", "accessModes"]);
    claim.list_at(&["spec", "accessModes"]).iter().all(|mode| offered.contains(mode))
}

fn holds_size(volume: &Object, claim: &Object) -> bool {
    let requested = size(claim, &["spec", "resources", "requests", "storage"]);
    let offered = size(volume, &["spec", "capacity", "storage"]);
    requested.is_none() || requested <= offered
}

fn size(object: &Object, path: &[&str]) -> Option<Quantity> {
    object.at(path).and_then(|value: &Value| Quantity::from_value(value))
}

fn holds_labels(volume: &Object, claim: &Object) -> bool {
    match claim.map_at(&["spec", "selector"]) {
        Some(wanted) => {
            LabelSelector::from_object(wanted).is_some_and(|s| selector::matches(&s, volume))
        }
        None => true,
    }
}
