//! An APIService for each version that a definition serves (api-server R131g).
//!
//! ```text
//!   version served ──► made, and put right while it is labelled as managed      none serves it ──► deleted
//! ```
//!
//! One that somebody else wrote under the name is left alone, and so wins over the definition. Those of what the
//! server has without a definition are made when it starts, by the server.

use alloc::format;
use alloc::string::ToString;

use serde_json::{Value, json};
use tenure_machinery::{Object, ObjectExt, WriteRefusal};

use crate::controller::{
    Controller, KubernetesProgram, ObjectChange, Pass, ReconcileKey, ReconcileResult,
};
use crate::intent::{ControllerIntent, UpdateEndpoint};
use crate::owner;
use crate::resource::BuiltinResource;
use crate::view::ClusterView;

const CRDS: BuiltinResource = BuiltinResource::CustomResourceDefinitions;
const API_SERVICES: BuiltinResource = BuiltinResource::ApiServices;
/// Says that an APIService is managed, and for how long.
const MANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";
/// For as long as a definition serves it.
const ALWAYS: &str = "true";
/// Groups of definitions come behind those that the server has by itself.
const GROUP_PRIORITY: i64 = 1_000;
const VERSION_PRIORITY: i64 = 100;
/// Somebody else was faster: the change comes by.
const RACED: &[WriteRefusal] = &[WriteRefusal::Absent, WriteRefusal::Conflict];

/// What the API server does about APIServices of definitions. A key names one.
pub struct ApiServiceRegistration;

impl Controller for ApiServiceRegistration {
    fn name(&self) -> &'static str {
        "crd-registration-controller"
    }
    fn alias(&self) -> &'static str {
        "crd-registration"
    }
    fn program(&self) -> KubernetesProgram {
        KubernetesProgram::ApiServer
    }
    fn watches(&self) -> &'static [BuiltinResource] {
        &[CRDS, API_SERVICES]
    }
    fn wake(
        &self,
        change: &ObjectChange<'_>,
        _: &dyn ClusterView,
        wake: &mut dyn FnMut(ReconcileKey),
    ) {
        for object in change.before.into_iter().chain(change.after) {
            if change.resource == API_SERVICES {
                wake(ReconcileKey::new("", object.name()));
                continue;
            }
            let group = object.str_at(&["spec", "group"]).unwrap_or_default();
            for version in object.list_at(&["spec", "versions"]) {
                let version = version.get("name").and_then(Value::as_str).unwrap_or_default();
                wake(ReconcileKey::new("", &format!("{version}.{group}")));
            }
        }
    }
    fn reconcile(&self, pass: &Pass<'_>) -> ReconcileResult {
        let mut out = ReconcileResult::default();
        out.intents.extend(settle(pass));
        out
    }
}

fn settle(pass: &Pass<'_>) -> Option<ControllerIntent> {
    let (version, group) = pass.key.name.split_once('.')?;
    let wanted = is_defined(pass.view, group, version).then(|| spec(group, version));
    let Some(known) = pass.view.get(API_SERVICES, "", &pass.key.name) else {
        let made = api_service(&pass.key.name, wanted?);
        return Some(ControllerIntent::create(API_SERVICES, made).forgiving(RACED));
    };
    if owner::label(&known, MANAGED) != Some(ALWAYS) || owner::deleting(&known) {
        return None;
    }
    let Some(wanted) = wanted else {
        let delete = ControllerIntent::delete(API_SERVICES, &known).unless_changed(known.revision);
        return Some(delete.forgiving(RACED));
    };
    if known.get("spec") == Some(&wanted) {
        return None;
    }
    let mut object = Object::clone(&known.object);
    object.insert("spec".to_string(), wanted);
    let update =
        ControllerIntent::update(API_SERVICES, object, UpdateEndpoint::Main, known.revision);
    Some(update.forgiving(RACED))
}

/// Whether a definition serves the version, accepted or not.
fn is_defined(view: &dyn ClusterView, group: &str, version: &str) -> bool {
    let serves = |one: &Value| {
        one.get("name").and_then(Value::as_str) == Some(version)
            && one.get("served").and_then(Value::as_bool) == Some(true)
    };
    view.list(CRDS, None).iter().any(|definition| {
        definition.str_at(&["spec", "group"]) == Some(group)
            && definition.list_at(&["spec", "versions"]).iter().any(serves)
    })
}

fn spec(group: &str, version: &str) -> Value {
    json!({
        "group": group, "version": version,
        "groupPriorityMinimum": GROUP_PRIORITY, "versionPriority": VERSION_PRIORITY,
    })
}

fn api_service(name: &str, spec: Value) -> Object {
    let object =
        json!({ "metadata": { "name": name, "labels": { MANAGED: ALWAYS } }, "spec": spec });
    object.as_object().cloned().unwrap_or_default()
}
