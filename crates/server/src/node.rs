//! What nodes may do: read what their own pods mention, tell about themselves and their pods, and
//! nothing of others (downward-api R139). Whoever is no node is never judged here.
//!
//! ```text
//!   may       after the roles: own node, own lease, own pods, what those pods mention; else a fixed list
//!   restrict  with the object at hand: only itself, only its pods, no labels that place pods
//! ```

use std::sync::LazyLock;

use serde_json::Value;
use tenure_machinery::{Failure, Object, ObjectExt};
use tenure_podspec::{ReferenceKind, template_references};
use tenure_rbac::{Asked, Role};
use tenure_world::{Record, World};

use crate::admit::Operation;
use crate::authenticate::User;
use crate::request::Request;

/// The names of nodes as users, and the group they are all in.
const PREFIX: &str = "system:node:";
const GROUP: &str = "system:nodes";
/// Where nodes say that they live.
const LEASES: &str = "kube-node-lease";
/// Labels of this kind are the administrator's word about a node.
const RESTRICTED: &str = "node-restriction.kubernetes.io";
/// Labels with the project's own prefixes that a node may set on itself.
const OWN_LABELS: [&str; 9] = [
    "kubernetes.io/hostname",
    "kubernetes.io/arch",
    "kubernetes.io/os",
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "beta.kubernetes.io/instance-type",
];
const OWN_PREFIXES: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];
/// The annotation of a pod that a node made from a file.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// What every node may do, whatever it is bound to.
static FIXED: LazyLock<Option<Role>> = LazyLock::new(|| {
    tenure_rbac::bootstrap::roles().into_iter().find(|role| role.name == "system:node")
});

/// The node behind a user.
#[must_use]
pub(crate) fn node_of(user: &User) -> Option<&str> {
    let node = user.name.strip_prefix(PREFIX).filter(|node| !node.is_empty())?;
    user.groups.iter().any(|group| group == GROUP).then_some(node)
}

/// Whether a node may do it. `None`: it is no node. `Some(Err)`: why it may not.
#[must_use]
pub(crate) fn may(
    state: &World,
    user: &User,
    asked: &Asked<'_>,
    selected_node: Option<&str>,
) -> Option<Result<(), String>> {
    let node = node_of(user)?;
    let Asked::Resource { verb, group, resource, subresource, namespace, name } = *asked else {
        return Some(Err(String::new()));
    };
    let related = |found: bool| match found {
        true => Ok(()),
        false => Err(format!("no relationship found between node '{node}' and this object")),
    };
    let reads = matches!(verb, "get" | "list" | "watch");
    Some(match (group, resource, subresource) {
        ("", "secrets" | "configmaps", "") => {
            let kind = match resource {
                "secrets" => ReferenceKind::Secret,
                _ => ReferenceKind::ConfigMap,
            };
            match (reads, name) {
                (false, _) => Err("can only read resources of this type".to_owned()),
                (true, "") => Err(no_name(resource)),
                (true, _) => related(mentions(state, node, namespace, kind, name)),
            }
        }
        ("", "serviceaccounts", "" | "token") => match (verb, subresource) {
            ("create", "token") | ("get", "") => {
                related(uses_account(state, node, namespace, name))
            }
            _ => Err("can only get, or request tokens for, service accounts".to_owned()),
        },
        ("", "persistentvolumeclaims", _) => related(claims(state, node, namespace, name)),
        ("", "persistentvolumes", "") => match verb {
            "get" => related(volume(state, node, name)),
            _ => Err("can only get persistent volumes".to_owned()),
        },
        ("", "pods", "") if verb == "get" => {
            let key = format!("/registry/pods/{namespace}/{name}");
            related(state.get(&key).is_some_and(|pod| bound(pod, node)))
        }
        ("", "pods", "") if reads => match selected_node {
            Some(selected) if selected == node => Ok(()),
            _ => Err("can only list/watch pods with spec.nodeName field selector".to_owned()),
        },
        ("", "nodes", "") if reads => match name {
            name if name == node => Ok(()),
            _ => Err("node can only access its own Node object".to_owned()),
        },
        ("coordination.k8s.io", "leases", "") => match (namespace, name) {
            (LEASES, "") if verb == "create" => Ok(()),
            (LEASES, name) if name == node && !matches!(verb, "list" | "watch") => Ok(()),
            _ => Err("can only access node lease with the same name as the requesting node".into()),
        },
        ("storage.k8s.io", "csinodes", "") => match name {
            name if name == node || verb == "create" => Ok(()),
            _ => Err("can only access CSINode with the same name as the requesting node".into()),
        },
        _ => match FIXED.as_ref() {
            Some(role) if role.rules.iter().any(|rule| rule.allows(asked)) => Ok(()),
            _ => Err(String::new()),
        },
    })
}

fn no_name(resource: &str) -> String {
    format!("No Object name found: a node can only read {resource} one by one")
}

fn bound(pod: &Record, node: &str) -> bool {
    pod.field("spec.nodeName") == Some(node)
}

/// Whether a pod of a namespace on a node fits. Only pods with `text` somewhere are decoded, and none
/// after the first that fits: a node with many pods asks often.
fn any_pod(
    state: &World,
    node: &str,
    namespace: &str,
    text: &str,
    fits: impl Fn(&Object) -> bool,
) -> bool {
    state
        .range(&format!("/registry/pods/{namespace}/"), None)
        .filter(|pod| bound(pod, node) && pod.contains(text))
        .filter_map(|pod| serde_json::from_slice::<Object>(pod.bytes()).ok())
        .any(|pod| fits(&pod))
}

fn mentions(state: &World, node: &str, namespace: &str, kind: ReferenceKind, name: &str) -> bool {
    any_pod(state, node, namespace, name, |pod| {
        template_references(pod).names.contains(&(kind, name))
    })
}

fn uses_account(state: &World, node: &str, namespace: &str, name: &str) -> bool {
    any_pod(state, node, namespace, name, |pod| {
        pod.str_at(&["spec", "serviceAccountName"]) == Some(name)
    })
}

fn claims(state: &World, node: &str, namespace: &str, name: &str) -> bool {
    let of = |pod: &Object| {
        let volumes = pod.list_at(&["spec", "volumes"]).iter().filter_map(Value::as_object);
        let named =
            |volume: &Object| volume.str_at(&["persistentVolumeClaim", "claimName"]) == Some(name);
        volumes.into_iter().any(named)
    };
    any_pod(state, node, namespace, name, of)
}

fn volume(state: &World, node: &str, name: &str) -> bool {
    let record = state.get(&format!("/registry/persistentvolumes/{name}"));
    let object = record.and_then(|record| serde_json::from_slice::<Object>(record.bytes()).ok());
    let Some(object) = object else { return false };
    let claim = |field| object.str_at(&["spec", "claimRef", field]).unwrap_or_default();
    claims(state, node, claim("namespace"), claim("name"))
}

/// Refuses what a node may not do to this object (R139).
pub(crate) fn restrict(
    request: &Request,
    operation: Operation,
    old: Option<&Object>,
    new: Option<&Object>,
) -> Result<(), Failure> {
    let Some(node) = node_of(&request.user) else { return Ok(()) };
    let kind = &request.served.kind;
    let name = old.or(new).map(ObjectExt::name).unwrap_or_default();
    let refuse = |why: String| {
        Err(Failure::forbidden(kind.group.as_ref(), kind.plural.as_ref(), name, &why))
    };
    match (kind.group.as_ref(), kind.kind.as_ref()) {
        ("", "Pod") => match pod(node, request, operation, old, new) {
            Some(why) => refuse(why),
            None => Ok(()),
        },
        ("", "Node") => match own_node(node, operation, old, new) {
            Some(why) => refuse(why),
            None => Ok(()),
        },
        ("coordination.k8s.io", "Lease") if name != node => {
            refuse(format!("node \"{node}\" can only access the lease of the same name"))
        }
        _ => Ok(()),
    }
}

fn pod(
    node: &str,
    request: &Request,
    operation: Operation,
    old: Option<&Object>,
    new: Option<&Object>,
) -> Option<String> {
    let own = |pod: &Object| pod.str_at(&["spec", "nodeName"]) == Some(node);
    let (old, new) = (old.or(new)?, new);
    match operation {
        Operation::Create => {
            if old.str_at(&["metadata", "annotations", MIRROR]).is_none() {
                return Some(format!(
                    "pod does not have \"{MIRROR}\" annotation, node \"{node}\" can only create mirror pods"
                ));
            }
            (!own(old)).then(|| {
                format!("node \"{node}\" can only create pods with spec.nodeName set to itself")
            })
        }
        Operation::Delete => (!own(old)).then(|| {
            format!("node \"{node}\" can only delete pods with spec.nodeName set to itself")
        }),
        Operation::Update if request.subresource == "status" => {
            if !own(old) {
                return Some(format!(
                    "node \"{node}\" can only update pod status for pods with spec.nodeName set to itself"
                ));
            }
            let labels = |pod: &Object| pod.at(&["metadata", "labels"]).cloned();
            let changed = new.is_some_and(|new| labels(new) != labels(old));
            changed.then(|| format!("node \"{node}\" cannot update labels through pod status"))
        }
        Operation::Update | Operation::Connect => {
            Some(format!("node \"{node}\" may not change pods"))
        }
    }
}

fn own_node(
    node: &str,
    operation: Operation,
    old: Option<&Object>,
    new: Option<&Object>,
) -> Option<String> {
    let name = old.or(new).map(ObjectExt::name).unwrap_or_default();
    if name != node {
        return Some(format!("node \"{node}\" is not allowed to modify node \"{name}\""));
    }
    if operation == Operation::Delete {
        return Some(format!("node \"{node}\" is not allowed to delete itself"));
    }
    let new = new?;
    let taints = |object: &Object| object.list_at(&["spec", "taints"]).to_vec();
    if old.is_some_and(|old| taints(old) != taints(new)) {
        return Some(format!("node \"{node}\" is not allowed to modify taints"));
    }
    let label = |object: Option<&Object>, key: &str| {
        object.and_then(|object| object.at(&["metadata", "labels", key])).cloned()
    };
    let keys = [old, Some(new)]
        .into_iter()
        .flatten()
        .filter_map(|object| object.map_at(&["metadata", "labels"]))
        .flat_map(Object::keys);
    let mut forbidden: Vec<&str> = keys
        .filter(|key| label(old, key) != label(Some(new), key))
        .filter(|key| !may_set(key))
        .map(String::as_str)
        .collect();
    forbidden.sort_unstable();
    forbidden.dedup();
    if forbidden.is_empty() {
        return None;
    }
    let names = forbidden.join(", ");
    Some(format!("is not allowed to modify labels: {names}"))
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

/// Refuses a token that a node asks for without a pod of its own to give it to.
pub(crate) fn restrict_token(
    state: &World,
    request: &Request,
    body: &Object,
) -> Result<(), Failure> {
    let Some(node) = node_of(&request.user) else { return Ok(()) };
    let refuse = |why: String| Err(Failure::forbidden("", "serviceaccounts", &request.name, &why));
    let of = |field| body.str_at(&["spec", "boundObjectRef", field]).unwrap_or_default();
    if of("kind") != "Pod" || of("name").is_empty() {
        return refuse(format!("node \"{node}\" can only request tokens bound to a pod"));
    }
    let pod = state.get(&format!("/registry/pods/{}/{}", request.namespace, of("name")));
    let Some(pod) = pod.filter(|pod| bound(pod, node)) else {
        return refuse(
            "node requested token bound to a pod scheduled on a different node".to_owned(),
        );
    };
    if of("uid") != pod.uid() {
        return refuse(
            "the UID in the bound object reference does not match the UID in record".into(),
        );
    }
    Ok(())
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

    #[test]
    fn r139_a_node_is_known_by_name_and_group() {
        let user = |name: &str, group: &str| User {
            name: name.to_owned(),
            groups: vec![group.to_owned()],
            ..User::default()
        };
        assert_eq!(node_of(&user("system:node:a", "system:nodes")), Some("a"));
        assert_eq!(node_of(&user("system:node:a", "other")), None);
        assert_eq!(node_of(&user("system:node:", "system:nodes")), None);
        assert_eq!(node_of(&user("alice", "system:nodes")), None);
    }
}
