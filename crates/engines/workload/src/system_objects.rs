//! What every cluster has, made again when somebody takes it (api-server R79): its namespaces, the
//! range of addresses and the Service `kubernetes` with its endpoints, and what others verify the server by.
//!
//! ```text
//!   one of them gone ──► made again      endpoints edited ──► as they were
//! ```
//!
//! What they say is known to the server. What else every cluster starts with is made when the server starts.

use alloc::string::{String, ToString};

use tenure_machinery::{Object, ObjectExt, WriteRefusal, desired_state};

use crate::controller::{
    Controller, KubernetesProgram, ObjectChange, Pass, ReconcileKey, ReconcileResult,
};
use crate::intent::{ControllerIntent, UpdateEndpoint};
use crate::owner;
use crate::resource::BuiltinResource;
use crate::view::ClusterView;

/// An object that every cluster has.
#[derive(Clone, Debug)]
pub struct SystemObject {
    /// Where it goes.
    pub resource: BuiltinResource,
    /// Its namespace; empty where the resource has none.
    pub namespace: String,
    /// The object as it is made.
    pub object: Object,
    /// Whether it is put right when somebody edits it, rather than only made again when it is gone.
    pub kept: bool,
}

/// What the API server does about its own objects. It has one key.
pub struct SystemObjects;

impl Controller for SystemObjects {
    fn name(&self) -> &'static str {
        "system-objects-controller"
    }
    fn alias(&self) -> &'static str {
        "system-objects"
    }
    fn program(&self) -> KubernetesProgram {
        KubernetesProgram::ApiServer
    }
    fn watches(&self) -> &'static [BuiltinResource] {
        &[
            BuiltinResource::Namespaces,
            BuiltinResource::ServiceCidrs,
            BuiltinResource::Services,
            BuiltinResource::Endpoints,
            BuiltinResource::EndpointSlices,
            BuiltinResource::ConfigMaps,
        ]
    }
    fn wake(
        &self,
        change: &ObjectChange<'_>,
        view: &dyn ClusterView,
        wake: &mut dyn FnMut(ReconcileKey),
    ) {
        let Some(object) = change.object() else { return };
        let is = |system: &&SystemObject| {
            system.resource == change.resource
                && system.object.name() == object.name()
                && system.namespace == object.namespace()
        };
        let concerned = |system: &SystemObject| system.kept || change.after.is_none();
        if view.system_objects().iter().find(is).is_some_and(concerned) {
            wake(ReconcileKey::new("", ""));
        }
    }
    fn reconcile(&self, pass: &Pass<'_>) -> ReconcileResult {
        let mut out = ReconcileResult::default();
        for system in pass.view.system_objects() {
            out.intents.extend(settle(pass.view, system).map(ControllerIntent::independent));
        }
        out
    }
}

/// Makes an object that is missing, or has one that is kept say again what it said; the rest of it is left
/// alone.
fn settle(view: &dyn ClusterView, system: &SystemObject) -> Option<ControllerIntent> {
    let SystemObject { resource, namespace, object: wanted, kept } = system;
    let Some(seen) = view.get(*resource, namespace, wanted.name()) else {
        let mut object = wanted.clone();
        if !namespace.is_empty() {
            let metadata = object.map_mut("metadata");
            metadata.insert("namespace".to_string(), namespace.as_str().into());
        }
        return Some(
            ControllerIntent::create(*resource, object).forgiving(&[WriteRefusal::Conflict]),
        );
    };
    let mut object = Object::clone(&seen.object);
    if !kept || owner::deleting(&seen) || !desired_state::put_right(&mut object, wanted) {
        return None;
    }
    Some(ControllerIntent::update(*resource, object, UpdateEndpoint::Main, seen.revision))
}
