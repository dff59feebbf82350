//! What a namespace uses of what it may use: the status of ResourceQuotas (QU1).
//!
//! Counts of objects and the requests of pods that have not ended. Whether a write is let through is
//! not decided here; scopes are not looked at beyond pods that have ended.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};

use serde_json::Value;
use tenure_machinery::quantity::Quantity;
use tenure_machinery::{Object, ObjectExt};

use crate::controller::{Change, Controller, Key, Outcome, Pass};
use crate::intent::{Door, Intent};
use crate::pod;
use crate::resource::Resource;
use crate::view::View;

/// The controller of ResourceQuotas.
pub struct Quotas;

impl Controller for Quotas {
    fn name(&self) -> &'static str {
        "resourcequota-controller"
    }
    fn alias(&self) -> &'static str {
        "resourcequota"
    }
    fn watches(&self) -> &'static [Resource] {
        Resource::ALL
    }
    fn wake(&self, change: &Change<'_>, view: &dyn View, wake: &mut dyn FnMut(Key)) {
        if change.resource == Resource::ResourceQuotas {
            crate::wake::itself(change, wake);
        }
        let Some(object) = change.object().filter(|_| change.resource.namespaced()) else { return };
        let counts = match (change.before, change.after) {
            // An object that stays uses the same, but for pods that end and claims that grow.
            (Some(before), Some(after)) => {
                pod::terminal(before) != pod::terminal(after)
                    || before.at(&["spec", "resources"]) != after.at(&["spec", "resources"])
                    || before.at(&["spec", "type"]) != after.at(&["spec", "type"])
            }
            _ => true,
        };
        if counts {
            for quota in view.list(Resource::ResourceQuotas, Some(object.namespace())) {
                wake(Key::of(&quota));
            }
        }
    }
    fn reconcile(&self, pass: &Pass<'_>) -> Outcome {
        let mut out = Outcome::default();
        let (namespace, name) = (&*pass.key.namespace, &*pass.key.name);
        let Some(quota) = pass.view.get(Resource::ResourceQuotas, namespace, name) else {
            return out;
        };
        let hard = quota.map_at(&["spec", "hard"]).cloned().unwrap_or_default();
        let mut asked = None;
        let mut used = Object::new();
        for limit in hard.keys() {
            let amount = match counted(pass.view, namespace, limit) {
                Some(count) => Some(Value::String(count.to_string())),
                None => {
                    let asked = asked.get_or_insert_with(|| requests(pass.view, namespace));
                    asked_for(asked, limit).map(|amount| Value::String(amount.canonical()))
                }
            };
            used.extend(amount.map(|amount| (limit.clone(), amount)));
        }
        let mut status = Object::new();
        if !hard.is_empty() {
            status.insert("hard".to_string(), Value::Object(hard));
            status.insert("used".to_string(), Value::Object(used));
        }
        if quota.map_at(&["status"]).cloned().unwrap_or_default() != status {
            let mut object = Object::clone(&quota.object);
            object.insert("status".to_string(), Value::Object(status));
            let door = Door::Status;
            out.push(Intent::update(Resource::ResourceQuotas, object, door, quota.revision));
        }
        out
    }
}

/// How many objects there are of what a limit counts; `None` when it counts no objects.
fn counted(view: &dyn View, namespace: &str, limit: &str) -> Option<usize> {
    let of_type = |wanted: &[&str]| {
        let services = view.list(Resource::Services, Some(namespace));
        let is = |service: &&crate::view::Seen| {
            service.str_at(&["spec", "type"]).is_some_and(|kind| wanted.contains(&kind))
        };
        services.iter().filter(is).count()
    };
    let resource = match limit {
        "services.loadbalancers" => return Some(of_type(&["LoadBalancer"])),
        "services.nodeports" => return Some(of_type(&["NodePort", "LoadBalancer"])),
        "pods" => {
            let pods = view.list(Resource::Pods, Some(namespace));
            return Some(pods.iter().filter(|pod| !pod::terminal(pod)).count());
        }
        "services"
        | "configmaps"
        | "secrets"
        | "persistentvolumeclaims"
        | "replicationcontrollers"
        | "resourcequotas" => Resource::find("", limit)?,
        _ => {
            let name = limit.strip_prefix("count/")?;
            let (plural, group) = name.split_once('.').unwrap_or((name, ""));
            Resource::find(group, plural).filter(|resource| resource.namespaced())?
        }
    };
    Some(view.list(resource, Some(namespace)).len())
}

/// What limits on `requests.` and `limits.` are held against.
fn requests(view: &dyn View, namespace: &str) -> BTreeMap<String, Quantity> {
    let mut sums: BTreeMap<String, Quantity> = BTreeMap::new();
    let mut add = |side: &str, asked: Option<&Object>| {
        for (name, value) in asked.into_iter().flatten() {
            let Some(amount) = Quantity::from_value(value) else { continue };
            let key = alloc::format!("{side}.{name}");
            let sum = sums.get(&key).map_or(amount, |known| known.plus(amount));
            sums.insert(key, sum);
        }
    };
    for pod in view.list(Resource::Pods, Some(namespace)) {
        if pod::terminal(&pod) {
            continue;
        }
        for container in pod.list_at(&["spec", "containers"]).iter().filter_map(Value::as_object) {
            for side in ["requests", "limits"] {
                add(side, container.map_at(&["resources", side]));
            }
        }
    }
    for claim in view.list(Resource::PersistentVolumeClaims, Some(namespace)) {
        add("requests", claim.map_at(&["spec", "resources", "requests"]));
    }
    sums
}

fn asked_for(sums: &BTreeMap<String, Quantity>, limit: &str) -> Option<Quantity> {
    let key = match limit {
        "cpu" | "memory" | "ephemeral-storage" => alloc::format!("requests.{limit}"),
        _ if limit.starts_with("requests.") || limit.starts_with("limits.") => limit.to_string(),
        _ => return None,
    };
    Some(sums.get(&key).copied().unwrap_or_else(|| Quantity::from_units(0)))
}
