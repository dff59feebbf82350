//! Mirror pods: a node shows by them what it runs from a file. Such a pod names nothing that the API
//! server would have to hand out for it (R139b); who writes one is not asked here.

use serde_json::Value;
use tenure_kinds::podspec::{ReferenceKind, template_references};
use tenure_machinery::{Object, ObjectExt};

use super::related;

/// The annotation of a pod that a node made from a file.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// Sources of volumes that no API object stands behind.
const PLAIN: [&str; 23] = [
    "awsElasticBlockStore",
    "azureDisk",
    "cephfs",
    "cinder",
    "downwardAPI",
    "emptyDir",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "gitRepo",
    "hostPath",
    "image",
    "iscsi",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
    "projected",
];
/// Sources of volumes that an API object stands behind, and which.
const BEHIND: [(&str, &str); 7] = [
    ("configMap", "configmaps (via configmap volumes)"),
    ("secret", "secrets (via secret volumes)"),
    ("csi", "csidrivers (via CSI volumes)"),
    ("glusterfs", "endpoints (via glusterFS volumes)"),
    ("persistentVolumeClaim", "persistentvolumeclaims"),
    ("ephemeral", "persistentvolumeclaims (via ephemeral volumes)"),
    ("azureFile", "secrets (via azureFile volumes)"),
];
/// The same for the sources of a projected volume.
const PROJECTED: [(&str, &str); 5] = [
    ("configMap", "configmaps (via projected volumes)"),
    ("secret", "secrets (via projected volumes)"),
    ("serviceAccountToken", "serviceaccounts (via projected volumes)"),
    ("clusterTrustBundle", "clustertrustbundles"),
    ("podCertificate", "podcertificates"),
];

/// Whether a pod is said to be a mirror of one that a node runs from a file.
pub(crate) fn is_mirror(pod: &Object) -> bool {
    pod.at(&["metadata", "annotations", MIRROR]).is_some()
}

/// The name of the annotation.
pub(super) fn annotation() -> &'static str {
    MIRROR
}

/// What no mirror pod may do, whoever writes it: be somebody, or hold a secret.
pub(crate) fn credential(pod: &Object) -> Option<&'static str> {
    if pod.str_at(&["spec", "serviceAccountName"]).is_some_and(|name| !name.is_empty()) {
        return Some("reference service accounts");
    }
    let mentioned = template_references(pod).names;
    if mentioned.iter().any(|(kind, _)| *kind == ReferenceKind::Secret) {
        return Some("reference secrets");
    }
    let sources = related::volumes(pod)
        .flat_map(|volume| volume.list_at(&["projected", "sources"]))
        .filter_map(Value::as_object);
    sources
        .into_iter()
        .any(|source| given(source, "serviceAccountToken"))
        .then_some("use ServiceAccountToken volume projections")
}

/// The first kind of API object that a pod refers to; a source of volumes that nobody here knows counts.
pub(super) fn reference(pod: &Object) -> Option<String> {
    if pod.str_at(&["spec", "serviceAccountName"]).is_some_and(|name| !name.is_empty()) {
        return Some("serviceaccounts".to_owned());
    }
    let mentioned = template_references(pod).names;
    for (kind, plural) in
        [(ReferenceKind::Secret, "secrets"), (ReferenceKind::ConfigMap, "configmaps")]
    {
        if mentioned.iter().any(|(own, _)| *own == kind) {
            return Some(plural.to_owned());
        }
    }
    if !pod.list_at(&["spec", "resourceClaims"]).is_empty() {
        return Some("resourceclaims".to_owned());
    }
    related::volumes(pod).find_map(behind)
}

fn behind(volume: &Object) -> Option<String> {
    if let Some((_, what)) = BEHIND.iter().find(|(source, _)| given(volume, source)) {
        return Some((*what).to_owned());
    }
    let name = volume.str_at(&["name"]).unwrap_or_default();
    if !PLAIN.iter().any(|source| given(volume, source)) {
        return Some(format!("what is behind volume {name:?}, whose type is unknown"));
    }
    let mut sources = volume.list_at(&["projected", "sources"]).iter().filter_map(Value::as_object);
    sources.find_map(|source| {
        if let Some((_, what)) = PROJECTED.iter().find(|(member, _)| given(source, member)) {
            return Some((*what).to_owned());
        }
        let unknown =
            || format!("what is behind projected volume {name:?}, whose source is unknown");
        (!given(source, "downwardAPI")).then(unknown)
    })
}

fn given(object: &Object, member: &str) -> bool {
    object.get(member).is_some_and(|value| !value.is_null())
}

#[cfg(test)]
mod tests {
    //! Rules of spec/downward-api.md.

    use serde_json::json;

    use super::*;

    #[test]
    fn r139b_every_way_to_refer_to_an_api_object_is_seen() {
        let container = |member: &str, value: Value| json!({"containers": [{member: value}]});
        let volume = |source: Value| json!({"volumes": [source]});
        let projected = |source: Value| json!({"volumes": [{"projected": {"sources": [source]}}]});
        let named = json!({"name": "x"});
        for (spec, found) in [
            (json!({"containers": [{"name": "c"}]}), ""),
            (json!({"serviceAccountName": "x"}), "serviceaccounts"),
            (json!({"imagePullSecrets": [named]}), "secrets"),
            (container("envFrom", json!([{"secretRef": named}])), "secrets"),
            (container("envFrom", json!([{"configMapRef": named}])), "configmaps"),
            (container("env", json!([{"valueFrom": {"secretKeyRef": named}}])), "secrets"),
            (container("env", json!([{"valueFrom": {"configMapKeyRef": named}}])), "configmaps"),
            (json!({"initContainers": [{"envFrom": [{"secretRef": named}]}]}), "secrets"),
            (json!({"resourceClaims": [named]}), "resourceclaims"),
            (volume(json!({"secret": {"secretName": "x"}})), "secrets"),
            (volume(json!({"secret": {}})), "secrets (via secret volumes)"),
            (volume(json!({"configMap": {}})), "configmaps (via configmap volumes)"),
            (volume(json!({"csi": {"driver": "x"}})), "csidrivers (via CSI volumes)"),
            (volume(json!({"glusterfs": {}})), "endpoints (via glusterFS volumes)"),
            (volume(json!({"persistentVolumeClaim": {}})), "persistentvolumeclaims"),
            (volume(json!({"ephemeral": {}})), "persistentvolumeclaims (via ephemeral volumes)"),
            (volume(json!({"azureFile": {}})), "secrets (via azureFile volumes)"),
            (volume(json!({"iscsi": {"secretRef": named}})), "secrets"),
            (volume(json!({"hostPath": {}})), ""),
            (volume(json!({"emptyDir": {}})), ""),
            (volume(json!({"image": {}})), ""),
            (
                volume(json!({"name": "v", "new": {}})),
                "what is behind volume \"v\", whose type is unknown",
            ),
            (projected(json!({"secret": {}})), "secrets (via projected volumes)"),
            (projected(json!({"configMap": {}})), "configmaps (via projected volumes)"),
            (
                projected(json!({"serviceAccountToken": {}})),
                "serviceaccounts (via projected volumes)",
            ),
            (projected(json!({"clusterTrustBundle": {}})), "clustertrustbundles"),
            (projected(json!({"podCertificate": {}})), "podcertificates"),
            (projected(json!({"downwardAPI": {}})), ""),
            (
                projected(json!({"new": {}})),
                "what is behind projected volume \"\", whose source is unknown",
            ),
        ] {
            let pod = json!({ "spec": spec });
            let what = reference(pod.as_object().unwrap()).unwrap_or_default();
            assert_eq!(what, found, "{pod}");
        }
    }
}
