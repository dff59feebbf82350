//! Claims that live and die with a pod: generic ephemeral volumes (EV1).
//!
//! A claim of the same name that the pod does not own is never touched; the pod is told.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};

use serde_json::{Value, json};
use tenure_machinery::{Object, ObjectExt};

use crate::controller::{
    Controller, ObjectChange, Pass, ReconcileKey, ReconcileMemory, ReconcileResult,
};
use crate::intent::{ControllerIntent, InvolvedObject};
use crate::resource::BuiltinResource;
use crate::view::ClusterView;
use crate::{owner, pod};

/// The controller of claims for ephemeral volumes.
pub struct EphemeralVolumes;

impl Controller for EphemeralVolumes {
    fn name(&self) -> &'static str {
        "ephemeral-volume-controller"
    }
    fn alias(&self) -> &'static str {
        "ephemeral-volume"
    }
    fn component(&self) -> &'static str {
        "ephemeral_volume"
    }
    fn watches(&self) -> &'static [BuiltinResource] {
        &[BuiltinResource::Pods, BuiltinResource::PersistentVolumeClaims]
    }
    fn wake(
        &self,
        change: &ObjectChange<'_>,
        view: &dyn ClusterView,
        wake: &mut dyn FnMut(ReconcileKey),
    ) {
        if change.resource == BuiltinResource::Pods {
            let first = change.before.is_none();
            if let Some(pod) = change.after.filter(|pod| first && ephemeral(pod).next().is_some()) {
                wake(ReconcileKey::of(pod));
            }
        } else if change.after.is_none()
            && let Some(claim) = change.before
            && let Some(pod) = crate::wake::controller(claim, BuiltinResource::Pods, view)
        {
            wake(ReconcileKey::of(&pod));
        }
    }
    fn reconcile(&self, pass: &Pass<'_>) -> ReconcileResult {
        reconcile(pass)
    }
}

/// The volumes of a pod that want a claim of their own.
fn ephemeral(pod: &Object) -> impl Iterator<Item = &Object> {
    let volumes = pod.list_at(&["spec", "volumes"]).iter().filter_map(Value::as_object);
    volumes.filter(|volume| volume.map_at(&["ephemeral", "volumeClaimTemplate"]).is_some())
}

/// The name of the claim for a volume of a pod.
#[must_use]
pub fn claim_name(pod: &Object, volume: &Object) -> String {
    format!("{}-{}", pod.name(), volume.str_at(&["name"]).unwrap_or_default())
}

fn reconcile(pass: &Pass<'_>) -> ReconcileResult {
    let mut out = ReconcileResult::default();
    let Some(pod) = pass.view.get(BuiltinResource::Pods, &pass.key.namespace, &pass.key.name)
    else {
        return out;
    };
    if !pod::active(&pod) {
        return out;
    }
    let about = InvolvedObject::of(BuiltinResource::Pods, &pod);
    let mut said = BTreeSet::new();
    for volume in ephemeral(&pod) {
        let name = claim_name(&pod, volume);
        match pass.view.get(BuiltinResource::PersistentVolumeClaims, pod.namespace(), &name) {
            Some(claim) if owner::controlled_by(&claim, owner::uid(&pod)) => {}
            Some(_) => {
                let words = format!(
                    "PVC {name:?} was not created for pod {:?} (pod is not owner)",
                    pod.name()
                );
                let known =
                    matches!(pass.memory, ReconcileMemory::Said(said) if said.contains(&words));
                if !known {
                    out.push(ControllerIntent::tell(about.warning("FailedBinding", words.clone())));
                }
                said.insert(words);
            }
            None => {
                let made = claim(&pod, volume, &name);
                let made = ControllerIntent::create(BuiltinResource::PersistentVolumeClaims, made);
                out.push(made.relying_on(about.living()).independent());
            }
        }
    }
    if !said.is_empty() {
        out.memory = ReconcileMemory::Said(said);
    }
    out
}

fn claim(pod: &Object, volume: &Object, name: &str) -> Object {
    let template = volume.map_at(&["ephemeral", "volumeClaimTemplate"]);
    let part = |path: &[&str]| template.and_then(|template| template.map_at(path)).cloned();
    let mut metadata = Object::new();
    for map in ["labels", "annotations"] {
        if let Some(found) = part(&["metadata", map]) {
            metadata.insert(map.to_string(), Value::Object(found));
        }
    }
    metadata.insert("name".to_string(), name.into());
    metadata.insert("namespace".to_string(), pod.namespace().into());
    let entry = owner::entry(BuiltinResource::Pods, pod);
    metadata.insert("ownerReferences".to_string(), json!([entry]));
    let claim = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": part(&["spec"]).unwrap_or_default(),
    });
    claim.as_object().cloned().unwrap_or_default()
}
