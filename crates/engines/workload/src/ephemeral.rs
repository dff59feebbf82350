//! Claims that live and die with a pod: generic ephemeral volumes (EV1).
//!
//! A claim of the same name that the pod does not own is never touched; the pod is told.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};

use serde_json::{Value, json};
use tenure_machinery::{Object, ObjectExt};

use crate::controller::{Change, Controller, Key, Memory, Outcome, Pass};
use crate::intent::{Intent, Subject};
use crate::resource::Resource;
use crate::view::View;
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
    fn watches(&self) -> &'static [Resource] {
        &[Resource::Pods, Resource::PersistentVolumeClaims]
    }
    fn wake(&self, change: &Change<'_>, view: &dyn View, wake: &mut dyn FnMut(Key)) {
        if change.resource == Resource::Pods {
            let first = change.before.is_none();
            if let Some(pod) = change.after.filter(|pod| first && ephemeral(pod).next().is_some()) {
                wake(Key::of(pod));
            }
        } else if change.after.is_none()
            && let Some(claim) = change.before
            && let Some(pod) = crate::wake::controller(claim, Resource::Pods, view)
        {
            wake(Key::of(&pod));
        }
    }
    fn reconcile(&self, pass: &Pass<'_>) -> Outcome {
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

fn reconcile(pass: &Pass<'_>) -> Outcome {
    let mut out = Outcome::default();
    let Some(pod) = pass.view.get(Resource::Pods, &pass.key.namespace, &pass.key.name) else {
        return out;
    };
    if !pod::active(&pod) {
        return out;
    }
    let about = Subject::of(Resource::Pods, &pod);
    let mut said = BTreeSet::new();
    for volume in ephemeral(&pod) {
        let name = claim_name(&pod, volume);
        match pass.view.get(Resource::PersistentVolumeClaims, pod.namespace(), &name) {
            Some(claim) if owner::controlled_by(&claim, owner::uid(&pod)) => {}
            Some(_) => {
                let words = format!(
                    "PVC {name:?} was not created for pod {:?} (pod is not owner)",
                    pod.name()
                );
                let known = matches!(pass.memory, Memory::Said(said) if said.contains(&words));
                if !known {
                    out.push(Intent::tell(about.warning("FailedBinding", words.clone())));
                }
                said.insert(words);
            }
            None => {
                let made = claim(&pod, volume, &name);
                let made = Intent::create(Resource::PersistentVolumeClaims, made);
                out.push(made.relying_on(about.living()).independent());
            }
        }
    }
    if !said.is_empty() {
        out.memory = Memory::Said(said);
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
    let entry = owner::entry(Resource::Pods, pod);
    metadata.insert("ownerReferences".to_string(), json!([entry]));
    let claim = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": part(&["spec"]).unwrap_or_default(),
    });
    claim.as_object().cloned().unwrap_or_default()
}
