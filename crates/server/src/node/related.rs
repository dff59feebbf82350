//! What leads from an object to a node, read from the state that is answered (R139a).
//!
//! ```text
//!   node ◄ pod ◄ secret, configmap, service account, resource claim
//!   node ◄ pod ◄ claim ◄ volume ◄ secret
//!   node ◄ volume attachment, resource slice, pod certificate request
//! ```
//!
//! A pod leads to its node from the moment it is bound until it is gone, also when it has ended. A mirror
//! pod leads nowhere but to itself: the node wrote it.

use serde_json::Value;
use tenure_kinds::podspec::{ReferenceKind, template_references};
use tenure_machinery::{Object, ObjectExt};
use tenure_world::{Record, World};

use super::is_mirror;

/// Sources of volumes, where their secret is, and whether it lies with the claim when it names no
/// namespace.
const SECRET_REFS: [(&str, &str, bool); 10] = [
    ("cephfs", "secretRef", true),
    ("flexVolume", "secretRef", true),
    ("rbd", "secretRef", true),
    ("scaleIO", "secretRef", true),
    ("iscsi", "secretRef", true),
    ("cinder", "secretRef", false),
    ("storageos", "secretRef", false),
    ("csi", "nodePublishSecretRef", false),
    ("csi", "nodeStageSecretRef", false),
    ("csi", "nodeExpandSecretRef", false),
];

/// Whether a pod is on a node.
pub(super) fn pod(state: &World, node: &str, namespace: &str, name: &str) -> bool {
    state.get(&format!("/registry/pods/{namespace}/{name}")).is_some_and(|pod| bound(pod, node))
}

pub(super) fn bound(pod: &Record, node: &str) -> bool {
    pod.field("spec.nodeName") == Some(node)
}

/// Whether a pod of a namespace on a node fits. Only pods with one of `texts` somewhere are decoded, and
/// none after the first that fits: a node with many pods asks often.
fn any_pod(
    state: &World,
    node: &str,
    namespace: &str,
    texts: &[&str],
    fits: impl Fn(&Object) -> bool,
) -> bool {
    if namespace.is_empty() {
        return false;
    }
    state
        .range(&format!("/registry/pods/{namespace}/"), None)
        .filter(|pod| bound(pod, node) && texts.iter().any(|text| pod.contains(text)))
        .filter_map(|pod| read(pod))
        .any(|pod| !is_mirror(&pod) && fits(&pod))
}

pub(super) fn read(record: &Record) -> Option<Object> {
    serde_json::from_slice(record.bytes()).ok()
}

/// Whether a Secret or ConfigMap is mentioned by a pod on the node, or a Secret by a volume of one.
pub(super) fn mentioned(
    state: &World,
    node: &str,
    namespace: &str,
    kind: ReferenceKind,
    name: &str,
) -> bool {
    let by_pod = any_pod(state, node, namespace, &[name], |pod| {
        template_references(pod).names.contains(&(kind, name))
    });
    by_pod || (kind == ReferenceKind::Secret && by_volume(state, node, namespace, name))
}

fn by_volume(state: &World, node: &str, namespace: &str, name: &str) -> bool {
    state
        .range("/registry/persistentvolumes/", None)
        .filter(|volume| volume.contains(name))
        .filter_map(|volume| read(volume))
        .filter(|volume| volume_secrets(volume).contains(&(namespace, name)))
        .any(|volume| claimed(state, node, &volume))
}

/// The Secrets, with their namespaces, that a kubelet reads to mount a volume.
fn volume_secrets(volume: &Object) -> Vec<(&str, &str)> {
    let Some(spec) = volume.map_at(&["spec"]) else { return Vec::new() };
    let claimed_in = spec.str_at(&["claimRef", "namespace"]).unwrap_or_default();
    let mut secrets = Vec::new();
    for (source, member, with_claim) in SECRET_REFS {
        let Some(secret) = spec.map_at(&[source, member]) else { continue };
        let own = secret.str_at(&["namespace"]).unwrap_or_default();
        let namespace = if own.is_empty() && with_claim { claimed_in } else { own };
        secrets.push((namespace, secret.str_at(&["name"]).unwrap_or_default()));
    }
    if let Some(file) = spec.map_at(&["azureFile"]) {
        let own = file.str_at(&["secretNamespace"]).unwrap_or_default();
        let namespace = if own.is_empty() { claimed_in } else { own };
        secrets.push((namespace, file.str_at(&["secretName"]).unwrap_or_default()));
    }
    secrets
}

/// Whether the claim that a volume belongs to is one of a pod on the node.
fn claimed(state: &World, node: &str, volume: &Object) -> bool {
    let claim = |field| volume.str_at(&["spec", "claimRef", field]).unwrap_or_default();
    self::claim(state, node, claim("namespace"), claim("name"))
}

/// Whether a pod on the node runs as an account.
pub(super) fn account(state: &World, node: &str, namespace: &str, name: &str) -> bool {
    any_pod(state, node, namespace, &[name], |pod| {
        pod.str_at(&["spec", "serviceAccountName"]) == Some(name)
    })
}

/// Whether a pod on the node mounts a claim.
pub(super) fn claim(state: &World, node: &str, namespace: &str, name: &str) -> bool {
    if name.is_empty() {
        return false;
    }
    any_pod(state, node, namespace, &[name, "\"ephemeral\""], |pod| {
        volumes(pod).any(|volume| claim_name(pod, volume).as_deref() == Some(name))
    })
}

pub(super) fn volumes(pod: &Object) -> impl Iterator<Item = &Object> {
    pod.list_at(&["spec", "volumes"]).iter().filter_map(Value::as_object)
}

/// The claim behind a volume of a pod. One made for the pod is named after it.
pub(super) fn claim_name(pod: &Object, volume: &Object) -> Option<String> {
    if let Some(claim) = volume.map_at(&["persistentVolumeClaim"]) {
        return claim.str_at(&["claimName"]).map(str::to_owned);
    }
    volume.map_at(&["ephemeral"])?;
    Some(format!("{}-{}", pod.name(), volume.str_at(&["name"]).unwrap_or_default()))
}

/// Whether a volume belongs to a claim of a pod on the node.
pub(super) fn volume(state: &World, node: &str, name: &str) -> bool {
    let record = state.get(&format!("/registry/persistentvolumes/{name}"));
    record.and_then(|record| read(record)).is_some_and(|volume| claimed(state, node, &volume))
}

/// Whether a pod on the node uses a claim to devices.
pub(super) fn resource_claim(state: &World, node: &str, namespace: &str, name: &str) -> bool {
    any_pod(state, node, namespace, &[name], |pod| {
        let extended = ["status", "extendedResourceClaimStatus", "resourceClaimName"];
        pod.str_at(&extended) == Some(name)
            || pod
                .list_at(&["spec", "resourceClaims"])
                .iter()
                .filter_map(Value::as_object)
                .any(|claim| resource_claim_name(pod, claim) == Some(name))
    })
}

/// The claim that an entry of a pod stands for; one made from a template is named in the status.
fn resource_claim_name<'a>(pod: &'a Object, claim: &'a Object) -> Option<&'a str> {
    if let Some(name) = claim.str_at(&["resourceClaimName"]) {
        return Some(name);
    }
    claim.str_at(&["resourceClaimTemplateName"])?;
    let statuses = pod.list_at(&["status", "resourceClaimStatuses"]).iter();
    let mut statuses = statuses.filter_map(Value::as_object);
    let own = statuses.find(|status| status.str_at(&["name"]) == claim.str_at(&["name"]))?;
    own.str_at(&["resourceClaimName"])
}

/// Whether an object that names its node in its specification names this one.
fn names(state: &World, key: &str, node: &str) -> bool {
    let object = state.get(key).and_then(|record| read(record));
    object.is_some_and(|object| object.str_at(&["spec", "nodeName"]) == Some(node))
}

pub(super) fn attachment(state: &World, node: &str, name: &str) -> bool {
    names(state, &format!("/registry/volumeattachments/{name}"), node)
}

pub(super) fn slice(state: &World, node: &str, name: &str) -> bool {
    names(state, &format!("/registry/resourceslices/{name}"), node)
}

pub(super) fn pod_certificate(state: &World, node: &str, namespace: &str, name: &str) -> bool {
    names(state, &format!("/registry/podcertificaterequests/{namespace}/{name}"), node)
}
