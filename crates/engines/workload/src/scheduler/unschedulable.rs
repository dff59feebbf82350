//! Pods that no node can take, so that others like them need not be tried in the same pass.
//!
//! Places only fill up while a pass goes on: what could not be placed once cannot be placed later,
//! unless it wants the company of others, which may come.

use alloc::string::String;

use serde_json::Value;
use tenure_machinery::{Object, ObjectExt};

use crate::view::VersionedObject;

/// What scheduling looks at in a pod, but for its containers.
const LOOKED_AT: [&[&str]; 9] = [
    &["metadata", "namespace"],
    &["spec", "affinity"],
    &["spec", "nodeSelector"],
    &["spec", "overhead"],
    &["spec", "priority"],
    &["spec", "resourceClaims"],
    &["spec", "resources"],
    &["spec", "tolerations"],
    &["spec", "preemptionPolicy"],
];

/// The last pod that could not be placed, and why.
#[derive(Default)]
pub(super) struct Hopeless {
    last: Option<(VersionedObject, String)>,
}

impl Hopeless {
    /// A pod could not be placed.
    pub(super) fn learn(&mut self, pod: &VersionedObject, message: String) {
        if keeps_to_itself(pod) {
            self.last = Some((pod.clone(), message));
        }
    }

    /// Why a pod cannot be placed, if one like it could not.
    pub(super) fn like(&self, pod: &Object) -> Option<&str> {
        let (last, message) = self.last.as_ref()?;
        (keeps_to_itself(pod) && alike(last, pod)).then_some(message)
    }
}

/// Whether neither other pods nor volumes decide where it may be.
fn keeps_to_itself(pod: &Object) -> bool {
    let claims = |volume: &Value| {
        volume.get("persistentVolumeClaim").is_some() || volume.get("ephemeral").is_some()
    };
    pod.at(&["spec", "affinity", "podAffinity"]).is_none()
        && pod.list_at(&["spec", "topologySpreadConstraints"]).is_empty()
        && !pod.list_at(&["spec", "volumes"]).iter().any(claims)
}

fn alike(one: &Object, other: &Object) -> bool {
    LOOKED_AT.iter().all(|path| one.at(path) == other.at(path))
        && one.at(&["metadata", "labels"]) == other.at(&["metadata", "labels"])
        && ["containers", "initContainers"].iter().all(|list| {
            let (one, other) = (one.list_at(&["spec", list]), other.list_at(&["spec", list]));
            one.len() == other.len()
                && one.iter().zip(other).all(|(one, other)| needs(one) == needs(other))
        })
}

/// What a container asks of a node.
fn needs(container: &Value) -> [Option<&Value>; 3] {
    ["resources", "ports", "restartPolicy"].map(|name| container.get(name))
}
