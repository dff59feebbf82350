//! What a namespace uses of what it may use: the status of ResourceQuotas (QU1).
//!
//! Counts of objects and the requests of pods that have not ended, in the scopes of the quota. Whether
//! a write is let through is not decided here.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::Value;
use tenure_machinery::quantity::Quantity;
use tenure_machinery::{Object, ObjectExt, usage};

use crate::controller::{Controller, ObjectChange, Pass, ReconcileKey, ReconcileResult};
use crate::intent::{ControllerIntent, UpdateEndpoint};
use crate::resource::BuiltinResource;
use crate::view::ClusterView;

/// The controller of ResourceQuotas.
pub struct Quotas;

impl Controller for Quotas {
    fn name(&self) -> &'static str {
        "resourcequota-controller"
    }
    fn alias(&self) -> &'static str {
        "resourcequota"
    }
    fn watches(&self) -> &'static [BuiltinResource] {
        BuiltinResource::ALL
    }
    fn wake(
        &self,
        change: &ObjectChange<'_>,
        view: &dyn ClusterView,
        wake: &mut dyn FnMut(ReconcileKey),
    ) {
        if change.resource == BuiltinResource::ResourceQuotas {
            crate::wake::itself(change, wake);
        }
        let Some(object) = change.object().filter(|_| change.resource.namespaced()) else { return };
        let counts = match (change.before, change.after) {
            // An object that stays uses the same, but for pods, services and claims that change.
            (Some(before), Some(after)) => {
                let (group, plural) = (change.resource.group(), change.resource.plural());
                usage::may_change(group, plural, before, after)
            }
            _ => true,
        };
        if counts {
            for quota in view.list(BuiltinResource::ResourceQuotas, Some(object.namespace())) {
                wake(ReconcileKey::of(&quota));
            }
        }
    }
    fn reconcile(&self, pass: &Pass<'_>) -> ReconcileResult {
        let mut out = ReconcileResult::default();
        let (namespace, name) = (&*pass.key.namespace, &*pass.key.name);
        let Some(quota) = pass.view.get(BuiltinResource::ResourceQuotas, namespace, name) else {
            return out;
        };
        let hard = quota.map_at(&["spec", "hard"]).cloned().unwrap_or_default();
        let mut used = Object::new();
        for (limit, amount) in used_of(pass.view, &quota, &hard) {
            used.insert(limit, Value::String(amount.canonical()));
        }
        let mut status = Object::new();
        if !hard.is_empty() {
            status.insert("hard".to_string(), Value::Object(hard));
            status.insert("used".to_string(), Value::Object(used));
        }
        if quota.map_at(&["status"]).cloned().unwrap_or_default() != status {
            let mut object = Object::clone(&quota.object);
            object.insert("status".to_string(), Value::Object(status));
            let endpoint = UpdateEndpoint::Status;
            out.push(ControllerIntent::update(
                BuiltinResource::ResourceQuotas,
                object,
                endpoint,
                quota.revision,
            ));
        }
        out
    }
}

/// What the objects of a quota's namespace use together of each of its limits.
fn used_of(view: &dyn ClusterView, quota: &Object, hard: &Object) -> BTreeMap<String, Quantity> {
    let mut sums = BTreeMap::new();
    let mut resources: Vec<BuiltinResource> = Vec::new();
    for limit in hard.keys() {
        let Some(resource) = counts(limit) else { continue };
        sums.insert(limit.clone(), Quantity::ZERO);
        if !resources.contains(&resource) {
            resources.push(resource);
        }
    }
    for resource in resources {
        let (group, plural) = (resource.group(), resource.plural());
        for object in view.list(resource, Some(quota.namespace())) {
            if !usage::in_scope(quota, group, plural, &object) {
                continue;
            }
            for (name, amount) in usage::of(group, plural, &object) {
                if let Some(sum) = sums.get_mut(&name) {
                    *sum = sum.plus(amount);
                }
            }
        }
    }
    sums
}

/// The resource whose objects a limit is about; `None` when nobody knows it.
fn counts(limit: &str) -> Option<BuiltinResource> {
    if let Some(name) = limit.strip_prefix("count/") {
        let (plural, group) = name.split_once('.').unwrap_or((name, ""));
        return BuiltinResource::find(group, plural).filter(|resource| resource.namespaced());
    }
    if limit.starts_with("services.") {
        return Some(BuiltinResource::Services);
    }
    if limit == "requests.storage" || limit.contains(".storageclass.storage.k8s.io/") {
        return Some(BuiltinResource::PersistentVolumeClaims);
    }
    let compute = ["cpu", "memory", "ephemeral-storage"].contains(&limit);
    let prefixes = ["requests.", "limits.", "hugepages-"];
    if compute || prefixes.iter().any(|prefix| limit.starts_with(prefix)) {
        return Some(BuiltinResource::Pods);
    }
    BuiltinResource::find("", limit).filter(|resource| resource.namespaced())
}
