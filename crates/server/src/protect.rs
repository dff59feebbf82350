//! Volumes and claims in use stay; unused ones that are marked go (ownership R163–R167).
//!
//! [`releasable`] decides from one immutable state; [`release`] carries out.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;
use tenure_machinery::{Failure, Object, ObjectExt};
use tenure_world::{Change, Guard, Record, World, Write};

use crate::api::Api;
use crate::write::commit::{Extras, draft, propose};

const VOLUMES: &str = "/registry/persistentvolumes/";
const CLAIMS: &str = "/registry/persistentvolumeclaims/";
const PODS: &str = "/registry/pods/";

/// The marked volumes and claims that a change may have set free.
pub(crate) fn touches(state: &World, change: &Change, keys: &mut BTreeSet<Arc<str>>) {
    let key = &change.key;
    if key.starts_with(VOLUMES) || key.starts_with(CLAIMS) {
        if change.after.as_ref().is_some_and(|record| record.deleting()) {
            keys.insert(Arc::clone(key));
        }
    } else if let (true, Some(pod)) = (key.starts_with(PODS), &change.before) {
        let claims = format!("{CLAIMS}{}/", pod.namespace());
        let marked = state.range(&claims, None).filter(|claim| claim.deleting());
        keys.extend(marked.map(|claim| Arc::clone(claim.key())));
    }
}

/// Every marked volume and claim: looked at once when following begins.
pub(crate) fn marked(state: &World) -> BTreeSet<Arc<str>> {
    [VOLUMES, CLAIMS]
        .into_iter()
        .flat_map(|prefix| state.range(prefix, None))
        .filter(|record| record.deleting())
        .map(|record| Arc::clone(record.key()))
        .collect()
}

/// The finalizer that may go now; `None` when the object is not marked, not protected or in use.
fn releasable(state: &World, record: &Record, object: &Object) -> Option<&'static str> {
    let (finalizer, in_use) = if record.key().starts_with(VOLUMES) {
        // A volume is in use while it is bound to a claim.
        let bound = object.str_at(&["status", "phase"]) == Some("Bound");
        ("kubernetes.io/pv-protection", bound)
    } else {
        let pods = format!("{PODS}{}/", record.namespace());
        let used = state.range(&pods, None).any(|pod| uses(pod, record.name()));
        ("kubernetes.io/pvc-protection", used)
    };
    let protected = record.finalizers().any(|name| name == finalizer);
    (record.deleting() && protected && !in_use).then_some(finalizer)
}

/// Whether a pod that was given a node mentions the claim, by name or through an ephemeral volume of its
/// own. Finished pods count; pods that were never scheduled do not (ownership R165, R166).
fn uses(pod: &Record, claim: &str) -> bool {
    let Ok(object) = serde_json::from_slice::<Object>(pod.bytes()) else { return true };
    if object.str_at(&["spec", "nodeName"]).is_none_or(str::is_empty) {
        return false;
    }
    object.list_at(&["spec", "volumes"]).iter().filter_map(Value::as_object).any(|volume| {
        if volume.str_at(&["persistentVolumeClaim", "claimName"]) == Some(claim) {
            return true;
        }
        let name = volume.str_at(&["name"]).unwrap_or_default();
        volume.contains_key("ephemeral") && claim == format!("{}-{name}", pod.name())
    })
}

/// Takes the protection off an object that nobody uses; it goes if no other finalizer is left.
pub(crate) async fn release(api: &Api, key: &str) -> Result<(), Failure> {
    let state = api.world.current();
    let Some(record) = state.get(key) else { return Ok(()) };
    let plural =
        if key.starts_with(VOLUMES) { "persistentvolumes" } else { "persistentvolumeclaims" };
    let served = api.kinds.current().find("", "v1", plural).cloned();
    let served = served.ok_or_else(crate::api::no_such_resource)?;
    let mut object = served.read(record)?;
    let Some(finalizer) = releasable(&state, record, &object) else { return Ok(()) };
    let metadata = object.map_mut("metadata");
    let mut left = 0;
    if let Some(Value::Array(list)) = metadata.get_mut("finalizers") {
        list.retain(|name| name.as_str() != Some(finalizer));
        left = list.len();
    }
    let key = Arc::clone(record.key());
    let own = Guard::At { key: Arc::clone(&key), revision: Some(record.revision()) };
    let write = if left == 0 {
        Write::Delete { key }
    } else {
        Write::Put { key, draft: draft(&served, &object)? }
    };
    // A lost race comes by again as a change.
    propose(&api.world, own, write, Extras::default()).await.map(|_| ())
}
