//! What a node may not do to an object, now that the object is known as it was sent (R139b, R139c): before
//! defaults of the cluster, and before a status keeps the rest as it was, so that nothing forbidden is
//! dropped in silence.

use serde_json::Value;
use tenure_kinds::certificate_request;
use tenure_machinery::{Failure, Object, ObjectExt};

use super::{LEASES, mirror_pod, node_of, pod_certificate};
use crate::admit::Operation;
use crate::api::ApiServer;
use crate::read::get::missing;
use crate::request::ResourceRequest;

/// Labels of this kind are the administrator's word about a node.
const RESTRICTED: &str = "node-restriction.kubernetes.io";
/// Labels with the project's own prefixes that a node may set on itself.
const OWN_LABELS: [&str; 11] = [
    "kubernetes.io/hostname",
    "kubernetes.io/arch",
    "kubernetes.io/os",
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
];
const OWN_PREFIXES: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];
/// Signers whose certificates make their bearer a node.
const NODE_SIGNERS: [&str; 2] =
    ["kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet"];

/// Why a node is refused.
pub(super) enum NodeRestrictionError {
    /// It may not.
    Forbidden(String),
    /// What the object names is not there, or not as it says.
    Other(Failure),
}

impl<T: Into<String>> From<T> for NodeRestrictionError {
    fn from(why: T) -> NodeRestrictionError {
        NodeRestrictionError::Forbidden(why.into())
    }
}

/// What a node is judged by.
pub(super) type Judged = Result<(), NodeRestrictionError>;

/// Refuses what a node may not do to this object.
pub(crate) fn restrict(
    api: &ApiServer,
    request: &ResourceRequest,
    operation: Operation,
    old: Option<&Object>,
    new: Option<&Object>,
) -> Result<(), Failure> {
    let Some(node) = node_of(&request.user) else { return Ok(()) };
    let name = old.or(new).map(ObjectExt::name).unwrap_or_default();
    to_failure(request, name, judge(api, request, node, operation, old, new))
}

fn judge(
    api: &ApiServer,
    request: &ResourceRequest,
    node: &str,
    operation: Operation,
    old: Option<&Object>,
    new: Option<&Object>,
) -> Judged {
    let kind = &request.served.kind;
    let name = old.or(new).map(ObjectExt::name).unwrap_or_default();
    if node.is_empty() {
        return Err(format!("could not determine node from user {:?}", request.user.name).into());
    }
    match (kind.group.as_ref(), kind.kind.as_ref()) {
        ("", "Pod") => pod(api, request, node, operation, old, new),
        ("", "Node") => own_node(node, operation, old, new),
        ("", "PersistentVolumeClaim") => claim(request, node, operation, old, new),
        ("coordination.k8s.io", "Lease") => {
            if request.namespace != LEASES {
                return Err(
                    format!("can only access leases in the {LEASES:?} system namespace").into()
                );
            }
            of_same_name("node lease", name, node)
        }
        ("storage.k8s.io", "CSINode") => of_same_name("CSINode", name, node),
        ("resource.k8s.io", "ResourceSlice") => slice(node, operation, old, new),
        ("certificates.k8s.io", "CertificateSigningRequest") => {
            certificate(request, node, operation, new)
        }
        ("certificates.k8s.io", "PodCertificateRequest") => {
            pod_certificate::judge(api, request, node, operation, new)
        }
        _ => Ok(()),
    }
}

/// Refuses what a node may not post to a pod: anything but an eviction.
pub(crate) fn restrict_posted(request: &ResourceRequest) -> Result<(), Failure> {
    if node_of(&request.user).is_none() || request.served.kind.kind != "Pod" {
        return Ok(());
    }
    to_failure(request, &request.name, Err(unexpected(&request.subresource).into()))
}

/// Refuses the eviction of a pod that is not the node's own.
pub(crate) fn restrict_eviction(api: &ApiServer, request: &ResourceRequest) -> Result<(), Failure> {
    let Some(node) = node_of(&request.user) else { return Ok(()) };
    let key = request.served.key(&request.namespace, &request.name);
    let Some(pod) = api.world.current().get(&key).cloned() else {
        return Err(missing(&request.served, &request.name));
    };
    if !node.is_empty() && super::related::bound(&pod, node) {
        return Ok(());
    }
    let why = format!("node {node} can only evict pods with spec.nodeName set to itself");
    to_failure(request, &request.name, Err(why.into()))
}

fn to_failure(request: &ResourceRequest, name: &str, judged: Judged) -> Result<(), Failure> {
    let kind = &request.served.kind;
    judged.map_err(|refusal| match refusal {
        NodeRestrictionError::Forbidden(why) => {
            Failure::forbidden(kind.group.as_ref(), kind.plural.as_ref(), name, &why)
        }
        NodeRestrictionError::Other(failure) => failure,
    })
}

fn unexpected(subresource: &str) -> String {
    format!("unexpected pod subresource {subresource:?}, only 'status' and 'eviction' are allowed")
}

fn of_same_name(what: &str, name: &str, node: &str) -> Judged {
    if name == node {
        return Ok(());
    }
    Err(format!("can only access {what} with the same name as the requesting node").into())
}

fn pod(
    api: &ApiServer,
    request: &ResourceRequest,
    node: &str,
    operation: Operation,
    old: Option<&Object>,
    new: Option<&Object>,
) -> Judged {
    let own = |pod: &Object| pod.str_at(&["spec", "nodeName"]) == Some(node);
    match (request.subresource.as_str(), operation, old, new) {
        ("", Operation::Create, _, Some(new)) => mirror(api, node, new),
        // An eviction ends as a deletion, and its own restriction has been passed.
        ("" | "eviction", Operation::Delete, Some(old), _) => {
            if own(old) {
                return Ok(());
            }
            let why =
                format!("node {node:?} can only delete pods with spec.nodeName set to itself");
            Err(why.into())
        }
        ("status", Operation::Update, Some(old), Some(new)) => {
            if !own(old) {
                let why = format!(
                    "node {node:?} can only update pod status for pods with spec.nodeName set to itself"
                );
                return Err(why.into());
            }
            pod_status(node, old, new)
        }
        ("" | "status" | "eviction", ..) => {
            Err(format!("node {node:?} can only create and delete mirror pods").into())
        }
        (subresource, ..) => Err(unexpected(subresource).into()),
    }
}

fn pod_status(node: &str, old: &Object, new: &Object) -> Judged {
    if labels(old) != labels(new) {
        return Err(format!("node {node:?} cannot update labels through pod status").into());
    }
    for (member, what) in [
        ("resourceClaimStatuses", "resource claim statues"),
        ("extendedResourceClaimStatus", "extended resource claim status"),
        ("nodeAllocatableResourceClaimStatuses", "node allocatable resource claim statuses"),
    ] {
        if !same(old.at(&["status", member]), new.at(&["status", member])) {
            return Err(format!("node {node:?} cannot update {what}").into());
        }
    }
    Ok(())
}

/// A mirror pod belongs to its node and to nobody else, and refers to nothing.
fn mirror(api: &ApiServer, node: &str, pod: &Object) -> Judged {
    let annotation = mirror_pod::annotation();
    if !mirror_pod::is_mirror(pod) {
        let why = format!(
            "pod does not have {annotation:?} annotation, node {node:?} can only create mirror pods"
        );
        return Err(why.into());
    }
    let only = |what: &str| -> Judged {
        Err(format!("node {node:?} can only create pods with {what} set to itself").into())
    };
    if pod.str_at(&["spec", "nodeName"]) != Some(node) {
        return only("spec.nodeName");
    }
    let owner = match pod.list_at(&["metadata", "ownerReferences"]) {
        [Value::Object(owner)] => owner,
        [_, _, ..] => return only("a single owner reference"),
        _ => return only("an owner reference"),
    };
    let is = |member: &str, wanted: &str| owner.str_at(&[member]) == Some(wanted);
    if !(is("apiVersion", "v1") && is("kind", "Node") && is("name", node)) {
        return only("an owner reference");
    }
    if owner.bool_at(&["controller"]) != Some(true) {
        return only("a controller owner reference");
    }
    if owner.bool_at(&["blockOwnerDeletion"]) == Some(true) {
        return Err(
            format!("node {node:?} must not set blockOwnerDeletion on an owner reference").into()
        );
    }
    let uid = node_uid(api, node)?;
    if !is("uid", &uid) {
        let given = owner.str_at(&["uid"]).unwrap_or_default();
        return Err(format!("node {node} UID mismatch: expected {given} got {uid}").into());
    }
    match mirror_pod::reference(pod) {
        Some(what) => {
            Err(format!("node {node:?} can not create pods that reference {what}").into())
        }
        None => Ok(()),
    }
}

/// The uid of a stored node.
pub(super) fn node_uid(api: &ApiServer, node: &str) -> Result<String, NodeRestrictionError> {
    let state = api.world.current();
    match state.get(&format!("/registry/minions/{node}")) {
        Some(record) => Ok(record.uid().to_owned()),
        None => Err(NodeRestrictionError::Other(Failure::not_found("", "nodes", node))),
    }
}

fn own_node(
    node: &str,
    operation: Operation,
    old: Option<&Object>,
    new: Option<&Object>,
) -> Judged {
    let name = old.or(new).map(ObjectExt::name).unwrap_or_default();
    if name != node {
        return Err(format!("node {node:?} is not allowed to modify node {name:?}").into());
    }
    let Some(new) = new else { return Ok(()) };
    let source = |object: &Object| object.at(&["spec", "configSource"]).cloned();
    if source(new).is_some_and(|new| Some(new) != old.and_then(source)) {
        return Err(format!("node {node:?} is not allowed to set a configSource").into());
    }
    let changed = |path: &[&str]| old.is_some_and(|old| !same(old.at(path), new.at(path)));
    if operation == Operation::Update && changed(&["spec", "taints"]) {
        return Err(format!("node {node:?} is not allowed to modify taints").into());
    }
    if operation == Operation::Update && changed(&["metadata", "ownerReferences"]) {
        return Err(format!("node {node:?} is not allowed to modify ownerReferences").into());
    }
    let forbidden = forbidden_labels(old, new);
    if forbidden.is_empty() {
        return Ok(());
    }
    let names = forbidden.join(", ");
    Err(match operation {
        Operation::Create => {
            format!("node {node:?} is not allowed to set the following labels: {names}").into()
        }
        _ => format!("is not allowed to modify labels: {names}").into(),
    })
}

fn labels(object: &Object) -> Option<&Object> {
    object.map_at(&["metadata", "labels"]).filter(|labels| !labels.is_empty())
}

fn forbidden_labels<'a>(old: Option<&'a Object>, new: &'a Object) -> Vec<&'a str> {
    let value = |object: Option<&'a Object>, key: &str| object.and_then(labels)?.get(key);
    let all = [old, Some(new)].into_iter().flatten().filter_map(labels).flat_map(Object::keys);
    let mut forbidden: Vec<&str> = all
        .filter(|key| value(old, key) != value(Some(new), key))
        .filter(|key| !may_set(key))
        .map(String::as_str)
        .collect();
    forbidden.sort_unstable();
    forbidden.dedup();
    forbidden
}

/// Whether a node may set this label on itself.
fn may_set(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    let within = |suffix: &str| {
        domain == suffix || domain.strip_suffix(suffix).is_some_and(|rest| rest.ends_with('.'))
    };
    if within(RESTRICTED) {
        return false;
    }
    if !(within("kubernetes.io") || within("k8s.io")) {
        return true;
    }
    OWN_LABELS.contains(&key) || OWN_PREFIXES.iter().any(|prefix| within(prefix))
}

/// Absent, null and empty are the same to whoever reads an object.
fn same(old: Option<&Value>, new: Option<&Value>) -> bool {
    let says = |value: &&Value| match value {
        Value::Null => false,
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
        _ => true,
    };
    old.filter(says) == new.filter(says)
}

/// Of a claim a node reports how large its volume has become, and nothing else.
fn claim(
    request: &ResourceRequest,
    node: &str,
    operation: Operation,
    old: Option<&Object>,
    new: Option<&Object>,
) -> Judged {
    let ("status", Operation::Update, Some(old), Some(new)) =
        (request.subresource.as_str(), operation, old, new)
    else {
        return Err("may only update PVC status".into());
    };
    let rest = |object: &Object| {
        let mut object = object.clone();
        let metadata = object.map_mut("metadata");
        for member in ["resourceVersion", "managedFields"] {
            metadata.remove(member);
        }
        let status = object.map_mut("status");
        for member in ["capacity", "conditions", "allocatedResources", "allocatedResourceStatuses"]
        {
            status.remove(member);
        }
        let mut value = Value::Object(object);
        drop_empty(&mut value);
        value
    };
    if rest(old) == rest(new) {
        return Ok(());
    }
    let why = format!(
        "node {node:?} is not allowed to update fields other than status.capacity and status.conditions"
    );
    Err(why.into())
}

/// Drops members that say nothing.
fn drop_empty(value: &mut Value) {
    let Value::Object(map) = value else { return };
    for member in map.values_mut() {
        drop_empty(member);
    }
    map.retain(|_, member| !same(Some(member), None));
}

fn slice(node: &str, operation: Operation, old: Option<&Object>, new: Option<&Object>) -> Judged {
    let own = |slice: Option<&Object>| {
        slice.and_then(|it| it.str_at(&["spec", "nodeName"])) == Some(node)
    };
    let (fits, verb) = match operation {
        Operation::Create => (own(new), "create"),
        Operation::Delete => (own(old), "delete"),
        // The stored one was looked at when the request was authorized, and its node never changes.
        Operation::Update | Operation::Connect => return Ok(()),
    };
    if fits {
        return Ok(());
    }
    Err(format!("can only {verb} ResourceSlice with the same NodeName as the requesting node")
        .into())
}

/// A certificate that makes its bearer a node is asked for by that node.
fn certificate(
    request: &ResourceRequest,
    node: &str,
    operation: Operation,
    new: Option<&Object>,
) -> Judged {
    let Some(new) = new.filter(|_| operation == Operation::Create) else { return Ok(()) };
    let signer = new.str_at(&["spec", "signerName"]).unwrap_or_default();
    if !request.subresource.is_empty() || !NODE_SIGNERS.contains(&signer) {
        return Ok(());
    }
    let wanted = format!("{}{node}", super::PREFIX);
    match certificate_request::of(new) {
        Ok(parsed) if parsed.common_name == wanted => Ok(()),
        Ok(_) => Err(format!("can only create a node CSR with CN={wanted}").into()),
        Err(why) => Err(format!("unable to parse csr: {why}").into()),
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/downward-api.md.

    use super::*;

    #[test]
    fn r139_labels_that_place_pods_are_the_administrators() {
        for (label, own) in [
            ("kubernetes.io/hostname", true),
            ("kubernetes.io/os", true),
            ("node.kubernetes.io/x", true),
            ("a.kubelet.kubernetes.io/x", true),
            ("tenure.dev/runtime", true),
            ("plain", true),
            ("node-role.kubernetes.io/control-plane", false),
            ("node-restriction.kubernetes.io/x", false),
            ("a.node-restriction.kubernetes.io/x", false),
            ("x.k8s.io/y", false),
        ] {
            assert_eq!(may_set(label), own, "{label}");
        }
    }
}
