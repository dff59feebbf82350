//! The end of a namespace: its content first, then itself (NS1; ownership R153–R159).
//!
//! ```text
//!   deleted ──► pods go ──► all else goes ──► empty ──► `kubernetes` is taken off through /finalize
//!                 └──────────────┴─ what stays and why ──► conditions in the status
//! ```
//!
//! What other servers store goes as well, in `elsewhere`. Who owns what is not asked: everything goes in the
//! background. What a namespace has from the start is made elsewhere.

mod conditions;
mod elsewhere;

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use serde_json::Value;
use tenure_machinery::{Object, ObjectExt, WriteRefusal};

use crate::controller::{
    Controller, Departure, ObjectChange, Pass, ReconcileKey, ReconcileMemory, ReconcileResult,
};
use crate::intent::{
    AnyObject, ControllerIntent, IntentPropagation, Reliance, UpdateEndpoint, Verb,
};
use crate::owner;
use crate::resource::BuiltinResource;
use crate::view::{ClusterView, ObjectHeader, VersionedObject};

pub use conditions::Remaining;
use elsewhere::Elsewhere;

/// The finalizer in the spec that is taken off here.
const FINALIZER: &str = "kubernetes";
/// How soon other servers are asked again for what remains with them.
const ASK_AGAIN: Duration = Duration::from_secs(2);
/// How many objects are deleted at once.
pub(crate) const DELETES_AT_ONCE: usize = 256;
/// Codes of a deletion that was not needed, or is decided again on what is there then (R159).
pub(crate) const GONE_OR_MOVED: &[WriteRefusal] = &[WriteRefusal::Absent, WriteRefusal::Conflict];

/// The controller of namespaces. A key names one.
pub struct Namespaces;

impl Controller for Namespaces {
    fn name(&self) -> &'static str {
        "namespace-controller"
    }
    fn alias(&self) -> &'static str {
        "namespace"
    }
    fn is_essential(&self) -> bool {
        true
    }
    fn retries_within(&self) -> Duration {
        Duration::from_secs(60)
    }
    fn comes_first(&self) -> bool {
        true
    }
    fn watches(&self) -> &'static [BuiltinResource] {
        &[BuiltinResource::Namespaces]
    }
    fn wake(
        &self,
        change: &ObjectChange<'_>,
        _: &dyn ClusterView,
        wake: &mut dyn FnMut(ReconcileKey),
    ) {
        if let Some(namespace) = change.after.filter(|namespace| owner::deleting(namespace)) {
            wake(ReconcileKey::of(namespace));
        }
    }
    fn wake_by_departure(
        &self,
        departure: &Departure<'_>,
        view: &dyn ClusterView,
        wake: &mut dyn FnMut(ReconcileKey),
    ) {
        let namespace = departure.namespace;
        if !namespace.is_empty()
            && view
                .get(BuiltinResource::Namespaces, "", namespace)
                .is_some_and(|n| owner::deleting(&n))
        {
            wake(ReconcileKey::new("", namespace));
        }
    }
    fn reconcile(&self, pass: &Pass<'_>) -> ReconcileResult {
        let namespace = pass.view.get(BuiltinResource::Namespaces, "", &pass.key.name);
        match namespace.filter(|namespace| owner::deleting(namespace)) {
            Some(namespace) => reconcile(pass, &namespace),
            None => ReconcileResult::default(),
        }
    }
}

/// What is left in a namespace.
#[derive(Default)]
struct NamespaceContent {
    remaining: Remaining,
    pods_remain: bool,
    /// Pods that a deletion in the background would change.
    pods: Vec<AnyObject>,
    /// Other objects that it would change.
    others: Vec<AnyObject>,
}

impl NamespaceContent {
    fn of(view: &dyn ClusterView, namespace: &str) -> NamespaceContent {
        let mut content = NamespaceContent::default();
        view.each_in_namespace(namespace, &mut |object| content.add(object));
        content
    }

    fn add(&mut self, object: ObjectHeader<'_>) {
        let is_pod = object.resource == "pods" && object.group.is_empty();
        self.pods_remain |= is_pod;
        self.remaining.add(&object);
        // One that is marked but waits for its dependents, or keeps them, shall wait no more (R54, R153).
        let waits = |name: &&str| matches!(*name, "orphan" | "foregroundDeletion");
        if !object.deleting || object.finalizers.iter().any(waits) {
            let list = if is_pod { &mut self.pods } else { &mut self.others };
            list.push(AnyObject::of(&object));
        }
    }
}

fn reconcile(pass: &Pass<'_>, namespace: &VersionedObject) -> ReconcileResult {
    let NamespaceContent { mut remaining, pods_remain, pods, others } =
        NamespaceContent::of(pass.view, &pass.key.name);
    let mut out = ReconcileResult::default();
    // Pods go first: while one remains, nothing else is touched (R154).
    let delete = if pods_remain { pods } else { others };
    let failures: BTreeSet<String> = pass
        .refused
        .iter()
        .filter(|refused| refused.verb == Verb::Delete)
        .map(|refused| refused.message.clone())
        .collect();
    // What a deletion did not move waits for somebody, and is deleted again when something happens.
    let tried = delete.iter().map(|object| object.uid.clone()).collect();
    let moves =
        !delete.is_empty() && *pass.memory != ReconcileMemory::Tried(BTreeSet::clone(&tried));
    // Others are asked when nothing moves here any more.
    let elsewhere = match (moves || pods_remain).then(Elsewhere::default) {
        Some(unasked) => unasked,
        None => match elsewhere::look(pass, &mut remaining) {
            Ok(found) => found,
            Err(questions) => return ReconcileResult { questions, ..out },
        },
    };
    if remaining.is_empty() && elsewhere.is_known() {
        return end(pass, namespace);
    }
    if !moves || !failures.is_empty() {
        let mut failures = Vec::from_iter(failures);
        failures.extend(elsewhere.failures);
        let problems = (elsewhere.undiscovered.as_slice(), failures.as_slice());
        out.intents.extend(say(pass, namespace, &remaining, problems));
    }
    if !moves && !pods_remain && (!elsewhere.deletions.is_empty() || asks_again(pass)) {
        out.intents.extend(elsewhere.deletions);
        out.wake_after(ASK_AGAIN);
    }
    if moves || !pass.refused.is_empty() {
        out.intents.extend(delete_all(delete, Some(IntentPropagation::Background)));
        out.memory = ReconcileMemory::Tried(tried);
        out.wake_after(Duration::ZERO);
    }
    out
}

/// Whether somebody else may store something in the namespace.
fn asks_again(pass: &Pass<'_>) -> bool {
    !pass.answers.is_empty()
}

/// Deletes objects, many at once, whatever becomes of one of them.
pub(crate) fn delete_all(
    objects: Vec<AnyObject>,
    propagation: Option<IntentPropagation>,
) -> impl Iterator<Item = ControllerIntent> {
    objects.into_iter().enumerate().map(move |(number, object)| {
        ControllerIntent::remove(object, propagation)
            .independent()
            .together(!number.is_multiple_of(DELETES_AT_ONCE))
            .forgiving(GONE_OR_MOVED)
    })
}

/// Writes what a namespace waits for into its status, if that says something new (R156).
fn say(
    pass: &Pass<'_>,
    namespace: &VersionedObject,
    remaining: &Remaining,
    problems: (&[String], &[String]),
) -> Option<ControllerIntent> {
    let mut object = Object::clone(&namespace.object);
    conditions::set(&mut object, remaining, problems, pass.now);
    let says_more = object != *namespace.object;
    let update = || {
        ControllerIntent::update(
            BuiltinResource::Namespaces,
            object,
            UpdateEndpoint::Status,
            namespace.revision,
        )
    };
    // The content goes on whatever becomes of the words about it.
    says_more.then(|| update().independent())
}

/// Lets an empty namespace go, unless somebody else holds it (R157).
fn end(pass: &Pass<'_>, namespace: &VersionedObject) -> ReconcileResult {
    let mut out = ReconcileResult::default();
    let mut finalizers: Vec<Value> = namespace.list_at(&["spec", "finalizers"]).to_vec();
    let count = finalizers.len();
    finalizers.retain(|finalizer| finalizer.as_str() != Some(FINALIZER));
    let held = !finalizers.is_empty() || !namespace.list_at(&["metadata", "finalizers"]).is_empty();
    if held && let Some(words) = say(pass, namespace, &Remaining::default(), (&[], &[])) {
        // Its change comes by, and the rest is done then.
        out.push(words);
        return out;
    }
    // Nothing may slip in between the look and the end.
    let empty = Reliance::NamespaceEmpty { namespace: pass.key.name.to_string() };
    if finalizers.len() < count {
        let mut object = Object::clone(&namespace.object);
        let spec = object.map_mut("spec");
        if finalizers.is_empty() {
            spec.remove("finalizers");
        } else {
            spec.insert("finalizers".to_string(), Value::Array(finalizers));
        }
        let update = ControllerIntent::update(
            BuiltinResource::Namespaces,
            object,
            UpdateEndpoint::Finalize,
            namespace.revision,
        );
        out.push(update.relying_on(empty));
    } else if !held {
        let delete = ControllerIntent::delete(BuiltinResource::Namespaces, namespace);
        out.push(delete.unless_changed(namespace.revision).relying_on(empty));
    }
    out
}

impl Remaining {
    fn add(&mut self, object: &ObjectHeader<'_>) {
        let resource = format!("{}.{}", object.resource, object.group);
        *self.objects.entry(resource).or_default() += 1;
        for finalizer in object.finalizers {
            *self.finalizers.entry((*finalizer).to_string()).or_default() += 1;
        }
    }

    fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }
}
