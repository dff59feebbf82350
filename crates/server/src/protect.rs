//! Volumes, claims and classes in use stay; unused ones that are marked go (ownership R163–R167).
//!
//! ```text
//!   class ◄── claim, volume that name it        claim ◄── pod with a node        volume ◄── Bound
//! ```
//!
//! [`needs`] decides from one immutable state; [`settle`] carries out.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;
use tenure_machinery::{Failure, Object, ObjectExt};
use tenure_world::{Change, Guard, Record, World, Write};

use crate::api::Api;
use crate::internal;
use crate::write::commit::{Extras, draft, propose};

const VOLUMES: &str = "/registry/persistentvolumes/";
const CLAIMS: &str = "/registry/persistentvolumeclaims/";
const CLASSES: &str = "/registry/volumeattributesclasses/";
const PODS: &str = "/registry/pods/";

/// What is protected: where it is stored, as which resource, by which finalizer.
struct Protected {
    prefix: &'static str,
    group: &'static str,
    resource: &'static str,
    finalizer: &'static str,
}

const PROTECTED: [Protected; 3] = [
    Protected {
        prefix: VOLUMES,
        group: "",
        resource: "persistentvolumes",
        finalizer: "kubernetes.io/pv-protection",
    },
    Protected {
        prefix: CLAIMS,
        group: "",
        resource: "persistentvolumeclaims",
        finalizer: "kubernetes.io/pvc-protection",
    },
    Protected {
        prefix: CLASSES,
        group: "storage.k8s.io",
        resource: "volumeattributesclasses",
        finalizer: "kubernetes.io/vac-protection",
    },
];

/// The finalizer that protects objects of a resource.
pub(crate) fn finalizer(group: &str, resource: &str) -> Option<&'static str> {
    let found = PROTECTED.iter().find(|p| p.group == group && p.resource == resource);
    found.map(|protected| protected.finalizer)
}

fn protection(key: &str) -> Option<&'static Protected> {
    PROTECTED.iter().find(|protected| key.starts_with(protected.prefix))
}

/// Whether an object is marked, or lacks its protection: all others need nothing.
fn stands_out(record: &Record) -> bool {
    protection(record.key())
        .is_some_and(|p| record.deleting() || !record.finalizers().any(|name| name == p.finalizer))
}

/// What a change may have set free or left unprotected.
pub(crate) fn touches(state: &World, change: &Change, keys: &mut BTreeSet<Arc<str>>) {
    let key = &change.key;
    if change.after.as_ref().is_some_and(|record| stands_out(record)) {
        keys.insert(Arc::clone(key));
    }
    let users = match &change.before {
        Some(pod) if key.starts_with(PODS) => format!("{CLAIMS}{}/", pod.namespace()),
        Some(_) if key.starts_with(VOLUMES) || key.starts_with(CLAIMS) => CLASSES.to_owned(),
        _ => return,
    };
    let marked = state.range(&users, None).filter(|record| record.deleting());
    keys.extend(marked.map(|record| Arc::clone(record.key())));
}

/// Everything that stands out: looked at once when following begins.
pub(crate) fn all(state: &World) -> BTreeSet<Arc<str>> {
    PROTECTED
        .iter()
        .flat_map(|protected| state.range(protected.prefix, None))
        .filter(|record| stands_out(record))
        .map(|record| Arc::clone(record.key()))
        .collect()
}

/// What the protection of an object needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// The finalizer, which it lacks.
    Add,
    /// To lose it: the object is marked and nobody uses it.
    Take,
}

fn needs(state: &World, protected: &Protected, record: &Record, object: &Object) -> Option<Need> {
    let has = record.finalizers().any(|name| name == protected.finalizer);
    match (record.deleting(), has) {
        (false, false) => Some(Need::Add),
        (true, true) if !in_use(state, protected, record, object) => Some(Need::Take),
        _ => None,
    }
}

fn in_use(state: &World, protected: &Protected, record: &Record, object: &Object) -> bool {
    match protected.prefix {
        // A volume is in use while it is bound to a claim, whether or not a pod uses that (G5).
        VOLUMES => object.str_at(&["status", "phase"]) == Some("Bound"),
        CLAIMS => {
            let pods = format!("{PODS}{}/", record.namespace());
            state.range(&pods, None).any(|pod| uses_claim(pod, record))
        }
        _ => [VOLUMES, CLAIMS]
            .into_iter()
            .flat_map(|prefix| state.range(prefix, None))
            .any(|user| names_class(user, record.name())),
    }
}

/// Whether a pod that was given a node mentions the claim, by name or through an ephemeral volume whose
/// claim is its own. Finished pods count; pods that were never scheduled do not (ownership R165, R166).
fn uses_claim(pod: &Record, claim: &Record) -> bool {
    let Ok(object) = serde_json::from_slice::<Object>(pod.bytes()) else { return true };
    if object.str_at(&["spec", "nodeName"]).is_none_or(str::is_empty) {
        return false;
    }
    // A pod whose grace is over has let go of its volumes, even if a finalizer holds it.
    let shut_down =
        pod.deleting() && object.int_at(&["metadata", "deletionGracePeriodSeconds"]) == Some(0);
    let own = claim.owners().any(|owner| owner.controller && owner.uid == pod.uid());
    object.list_at(&["spec", "volumes"]).iter().filter_map(Value::as_object).any(|volume| {
        if volume.str_at(&["persistentVolumeClaim", "claimName"]) == Some(claim.name()) {
            return true;
        }
        let name = volume.str_at(&["name"]).unwrap_or_default();
        let ephemeral = volume.get("ephemeral").is_some_and(Value::is_object);
        ephemeral && own && !shut_down && claim.name() == format!("{}-{name}", pod.name())
    })
}

/// Whether a volume or claim names the class, as wanted or as it stands.
fn names_class(user: &Record, class: &str) -> bool {
    let Ok(object) = serde_json::from_slice::<Object>(user.bytes()) else { return true };
    [
        ["spec", "volumeAttributesClassName"].as_slice(),
        &["status", "currentVolumeAttributesClassName"],
        &["status", "modifyVolumeStatus", "targetVolumeAttributesClassName"],
    ]
    .iter()
    .any(|path| object.str_at(path) == Some(class))
}

/// Gives an object the protection it lacks, or takes it off one that nobody uses; that goes if no other
/// finalizer is left.
pub(crate) async fn settle(api: &Api, key: &str) -> Result<(), Failure> {
    let state = api.world.current();
    let Some((record, protected)) = state.get(key).zip(protection(key)) else { return Ok(()) };
    let served = internal::find(api, protected.group, protected.resource)?;
    let mut object = served.read(record)?;
    let Some(need) = needs(&state, protected, record, &object) else { return Ok(()) };
    let metadata = object.map_mut("metadata");
    let list = metadata.entry("finalizers").or_insert_with(|| Value::Array(Vec::new()));
    let mut left = 0;
    if let Value::Array(list) = list {
        match need {
            Need::Add => list.push(protected.finalizer.into()),
            Need::Take => list.retain(|name| name.as_str() != Some(protected.finalizer)),
        }
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
