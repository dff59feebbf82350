//! The end of a CustomResourceDefinition, and names that another one waited for (api-server R130, R132;
//! ownership R160, R161).
//!
//! ```text
//!   deleted ──► its objects go ──► their dependents are collected ──► the finalizer is taken off
//!   names given back ──► definitions in conflict are settled anew by the server
//! ```
//!
//! Which names are free is decided where a definition is written, in the same transaction.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::time::Duration;

use tenure_machinery::{Object, ObjectExt};

use crate::controller::{
    Controller, Departure, KubernetesProgram, ObjectChange, Pass, ReconcileKey, ReconcileMemory,
    ReconcileResult,
};
use crate::intent::{AnyObject, ControllerIntent, Reliance, UpdateEndpoint, Verb};
use crate::namespace::delete_all;
use crate::resource::BuiltinResource;
use crate::view::{ClusterView, VersionedObject};
use crate::{condition, owner};

const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";
const CRDS: BuiltinResource = BuiltinResource::CustomResourceDefinitions;
/// How often is looked whether the collector has come so far.
const LOOK: Duration = Duration::from_millis(5);

/// What the API server does about definitions. A key names one.
pub struct CustomResourceDefinitions;

impl Controller for CustomResourceDefinitions {
    fn name(&self) -> &'static str {
        "customresourcedefinition-finalizer-controller"
    }
    fn alias(&self) -> &'static str {
        "crd-finalizer"
    }
    fn program(&self) -> KubernetesProgram {
        KubernetesProgram::ApiServer
    }
    fn watches(&self) -> &'static [BuiltinResource] {
        &[CRDS]
    }
    fn wake(
        &self,
        change: &ObjectChange<'_>,
        view: &dyn ClusterView,
        wake: &mut dyn FnMut(ReconcileKey),
    ) {
        if let Some(definition) = change.after.filter(|after| ends(after) || waits(after)) {
            wake(ReconcileKey::of(definition));
        }
        let Some(before) = change.before else { return };
        let held =
            |definition: &VersionedObject| definition.at(&["status", "acceptedNames"]).cloned();
        if change.after.is_some_and(|after| held(after) == held(before)) {
            return;
        }
        for other in view.list(CRDS, None).iter().filter(|other| waits(other)) {
            wake(ReconcileKey::of(other));
        }
    }
    fn wake_by_departure(
        &self,
        departure: &Departure<'_>,
        view: &dyn ClusterView,
        wake: &mut dyn FnMut(ReconcileKey),
    ) {
        // Groups without a dot are never a definition's.
        if !departure.group.contains('.') {
            return;
        }
        let name = format!("{}.{}", departure.resource, departure.group);
        if view.get(CRDS, "", &name).is_some_and(|definition| ends(&definition)) {
            wake(ReconcileKey::new("", &name));
        }
    }
    fn reconcile(&self, pass: &Pass<'_>) -> ReconcileResult {
        let Some(definition) = pass.view.get(CRDS, "", &pass.key.name) else {
            return ReconcileResult::default();
        };
        if ends(&definition) {
            return finish(pass, &definition);
        }
        if waits(&definition) {
            settle_names(pass, &definition)
        } else {
            ReconcileResult::default()
        }
    }
}

/// Has the names settled anew that are free by now: the server does so with every write of the definition,
/// even one that changes nothing else.
fn settle_names(pass: &Pass<'_>, definition: &VersionedObject) -> ReconcileResult {
    let mut out = ReconcileResult::default();
    let all = pass.view.list(CRDS, None);
    let others = all.iter().filter(|other| owner::uid(other) != owner::uid(definition));
    let held = others.filter_map(|other| other.at(&["status", "acceptedNames"]));
    // While others hold the same names, none is free that was not.
    out.memory = ReconcileMemory::Said(held.map(ToString::to_string).collect());
    if out.memory != *pass.memory {
        let same = Object::clone(&definition.object);
        out.push(ControllerIntent::update(CRDS, same, UpdateEndpoint::Main, definition.revision));
    }
    out
}

/// Whether it is being deleted and waits for its objects to go.
fn ends(definition: &Object) -> bool {
    owner::deleting(definition) && owner::has_finalizer(definition, FINALIZER)
}

/// Whether it waits for names that others hold.
fn waits(definition: &Object) -> bool {
    let conditions = definition.list_at(&["status", "conditions"]);
    let is = |kind| condition::is(conditions, kind, "True");
    !owner::deleting(definition) && !is("Established") && !is("NamesAccepted")
}

/// Deletes what is left of the kind; without any object of it the definition may go.
fn finish(pass: &Pass<'_>, definition: &VersionedObject) -> ReconcileResult {
    let name = &pass.key.name;
    let conditions = definition.list_at(&["status", "conditions"]);
    match pass.view.custom_kind(name) {
        // Deleting those would delete what the definition only seems to define.
        Some(kind) if kind.overlaps_builtin => {
            let words = "the instances belong to a built-in resource";
            end(pass, definition, "OverlappingBuiltInResource", words)
        }
        None if !condition::is(conditions, "Established", "True") => {
            end(pass, definition, "NeverEstablished", "the resource was never established")
        }
        None => end(pass, definition, "InstanceDeletionCompleted", "no instance is left"),
        Some(_) => {
            let (mut left, mut delete) = (false, Vec::new());
            pass.view.each_instance(name, &mut |instance| {
                left = true;
                if !instance.deleting {
                    delete.push(AnyObject::of(&instance));
                }
            });
            if left {
                clear(pass, definition, delete)
            } else {
                end_once_collected(pass, definition)
            }
        }
    }
}

/// Deletes objects without options, so that what each says of its dependents holds.
fn clear(pass: &Pass<'_>, definition: &VersionedObject, delete: Vec<AnyObject>) -> ReconcileResult {
    let mut out = ReconcileResult::default();
    let refused = pass.refused.iter().filter(|refused| refused.verb == Verb::Delete);
    let failures: BTreeSet<&str> = refused.map(|refused| refused.message.as_str()).collect();
    let mut object = Object::clone(&definition.object);
    let (reason, words) = match failures.first() {
        Some(why) => ("InstanceDeletionFailed", format!("an instance could not be deleted: {why}")),
        None => ("InstanceDeletionInProgress", "the instances are being deleted".to_string()),
    };
    condition::put(&mut object, ("Terminating", "True"), reason, &words, pass.now);
    let waits = delete.is_empty() || !failures.is_empty();
    if waits && object != *definition.object {
        out.push(
            ControllerIntent::update(CRDS, object, UpdateEndpoint::Status, definition.revision)
                .independent(),
        );
    }
    if !delete.is_empty() {
        out.intents.extend(delete_all(delete, None));
        out.wake_after(Duration::ZERO);
    }
    out
}

/// What the objects owned is collected while their kind is known: afterwards a reference to it would tell
/// nothing any more (R141).
fn end_once_collected(pass: &Pass<'_>, definition: &VersionedObject) -> ReconcileResult {
    let upto = match pass.memory {
        ReconcileMemory::Seen(upto) => *upto,
        _ => pass.view.revision(),
    };
    if pass.view.collected() >= upto {
        return end(pass, definition, "InstanceDeletionCompleted", "no instance is left");
    }
    let mut out =
        ReconcileResult { memory: ReconcileMemory::Seen(upto), ..ReconcileResult::default() };
    out.wake_after(LOOK);
    out
}

/// Takes the finalizer off; the definition goes if it has no other, and if no object has come meanwhile.
fn end(
    pass: &Pass<'_>,
    definition: &VersionedObject,
    reason: &str,
    words: &str,
) -> ReconcileResult {
    let mut out = ReconcileResult::default();
    let mut object = Object::clone(&definition.object);
    condition::put(&mut object, ("Terminating", "False"), reason, words, pass.now);
    owner::remove_finalizer(&mut object, FINALIZER);
    let mut update =
        ControllerIntent::update(CRDS, object, UpdateEndpoint::Status, definition.revision);
    if reason == "InstanceDeletionCompleted" {
        let definition = pass.key.name.to_string();
        update = update.relying_on(Reliance::NoInstances { definition });
    }
    out.push(update);
    out
}
