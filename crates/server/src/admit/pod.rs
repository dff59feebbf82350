//! What admission adds to pods and their nodes: account, token volume, tolerations, the first taint (R138, R165, R254).

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tenure_machinery::quantity::Quantity;
use tenure_machinery::status::{Details, StatusCause};
use tenure_machinery::{Failure, Object, ObjectExt, usage};
use tenure_world::World;

use crate::api::ApiServer;
use crate::clock::{self, seconds_after};
use crate::request::ResourceRequest;
use crate::{fair, node};

const ENFORCE_MOUNTABLE: &str = "kubernetes.io/enforce-mountable-secrets";
const TOKEN_MOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// How long a new pod waits for the account of a namespace that was just made.
const ACCOUNT_WAIT: Duration = Duration::from_secs(1);
/// For how many seconds a namespace counts as just made.
const NEW_SECONDS: i64 = 10;

/// The state in which a new pod is judged. Whoever makes a namespace and a pod in it at once need not know
/// that the namespace gets its account a moment later (R165).
pub(crate) async fn with_account(api: &ApiServer, pod: &Object) -> Arc<World> {
    let begin = clock::instant();
    let named = pod.str_at(&["spec", "serviceAccountName"]).unwrap_or_default();
    let account = format!("/registry/serviceaccounts/{}/default", pod.namespace());
    let namespace = format!("/registry/namespaces/{}", pod.namespace());
    loop {
        let state = api.world.current();
        let left = ACCOUNT_WAIT.saturating_sub(begin.elapsed());
        let is_new = |state: &World| {
            let made = state.get(&namespace).filter(|record| !record.deleting());
            // Times of one form are in order as texts are.
            made.is_some_and(|record| record.created() >= seconds_after(-NEW_SECONDS).as_str())
        };
        let waits = matches!(named, "" | "default") && state.get(&account).is_none();
        if !waits || left.is_zero() || !is_new(&state) {
            return state;
        }
        fair::rest();
        api.world.wait_for(state.revision().next(), left).await;
    }
}

/// Fills in the account, checks that it exists, mounts its token.
pub(super) fn service_account(
    api: &ApiServer,
    state: &World,
    pod: &mut Object,
) -> Result<(), Failure> {
    if node::is_mirror(pod) {
        // What a node runs from a file is not changed, or the node would not know it again.
        return match node::mirror_credential(pod) {
            Some(what) => {
                let why = format!("a mirror pod may not {what}");
                Err(Failure::forbidden("", "pods", pod.name(), &why))
            }
            None => Ok(()),
        };
    }
    let namespace = pod.namespace().to_owned();
    let pod_name = pod.name().to_owned();
    let spec = pod.map_mut("spec");
    let account = match spec.get("serviceAccountName").and_then(Value::as_str) {
        Some(name) if !name.is_empty() => name.to_owned(),
        _ => "default".to_owned(),
    };
    spec.insert("serviceAccountName".into(), account.as_str().into());
    spec.insert("serviceAccount".into(), account.as_str().into());
    let key = format!("/registry/serviceaccounts/{namespace}/{account}");
    let Some(record) = state.get(&key) else {
        let why = format!(
            "error looking up service account {namespace}/{account}: serviceaccount \"{account}\" not found"
        );
        return Err(Failure::forbidden("", "pods", &pod_name, &why));
    };
    let stored: Object = serde_json::from_slice(record.bytes()).map_err(Failure::internal)?;
    pull_secrets(spec, &stored);
    mountable_only(&stored, spec, &["initContainers", "containers"])
        .map_err(|why| Failure::forbidden("", "pods", &pod_name, &why))?;
    let automount = spec
        .get("automountServiceAccountToken")
        .and_then(Value::as_bool)
        .or_else(|| stored.bool_at(&["automountServiceAccountToken"]))
        .unwrap_or(true);
    if automount {
        mount_token(api, spec);
    }
    Ok(())
}

fn pull_secrets(spec: &mut Object, account: &Object) {
    let none = spec.list_at(&["imagePullSecrets"]).is_empty();
    let secrets = account.list_at(&["imagePullSecrets"]);
    if none && !secrets.is_empty() {
        spec.insert("imagePullSecrets".into(), Value::Array(secrets.to_vec()));
    }
}

/// Where an account asks that its pods use no Secrets but those it lists: what they use besides.
fn mountable_only(account: &Object, spec: &Object, lists: &[&str]) -> Result<(), String> {
    let asks = account.str_at(&["metadata", "annotations", ENFORCE_MOUNTABLE]);
    if !asks.is_some_and(|text| matches!(text, "1" | "t" | "T" | "true" | "TRUE" | "True")) {
        return Ok(());
    }
    let names = |list: &'static str| {
        let entries = account.list_at(&[list]).iter();
        entries.filter_map(|entry| entry.get("name").and_then(Value::as_str))
    };
    let refuse = |what: &str, name: &str| {
        let account = account.name();
        Err(format!("{what} {name:?} is not allowed: service account {account} does not list it"))
    };
    let listed = |name: &str| names("secrets").any(|known| known == name);
    let objects = |list: &'_ [Value]| -> Vec<Object> {
        list.iter().filter_map(Value::as_object).cloned().collect()
    };
    for list in lists {
        for container in objects(spec.list_at(&[list])) {
            let keys = objects(container.list_at(&["env"]));
            let keys =
                keys.iter().filter_map(|env| env.str_at(&["valueFrom", "secretKeyRef", "name"]));
            let whole = objects(container.list_at(&["envFrom"]));
            let whole = whole.iter().filter_map(|from| from.str_at(&["secretRef", "name"]));
            if let Some(name) = keys.chain(whole).find(|name| !listed(name)) {
                return refuse("the environment from secret", name);
            }
        }
    }
    if lists.contains(&"containers") {
        for volume in objects(spec.list_at(&["volumes"])) {
            let name = volume.str_at(&["secret", "secretName"]);
            if let Some(name) = name.filter(|name| !listed(name)) {
                return refuse("a volume with secret", name);
            }
        }
        for pull in objects(spec.list_at(&["imagePullSecrets"])) {
            let name = pull.str_at(&["name"]).unwrap_or_default().to_owned();
            if !names("imagePullSecrets").any(|known| known == name) {
                return refuse("the pull secret", &name);
            }
        }
    }
    Ok(())
}

/// Debug containers are bound to what the account of their pod may use, like all others (R165).
pub(super) fn may_debug(
    state: &World,
    request: &ResourceRequest,
    new: &Object,
) -> Result<(), Failure> {
    let kind = &request.served.kind;
    if kind.kind != "Pod" || !kind.group.is_empty() || request.subresource != "ephemeralcontainers"
    {
        return Ok(());
    }
    let refuse = |why: &str| Err(Failure::forbidden("", "pods", new.name(), why));
    let namespace = new.namespace();
    let Some(account) = new.str_at(&["spec", "serviceAccountName"]).filter(|n| !n.is_empty())
    else {
        return refuse("no service account specified for the pod");
    };
    let Some(record) = state.get(&format!("/registry/serviceaccounts/{namespace}/{account}"))
    else {
        return refuse(&format!("service account {namespace}/{account} not found"));
    };
    let stored: Object = serde_json::from_slice(record.bytes()).map_err(Failure::internal)?;
    let spec = new.map_at(&["spec"]).cloned().unwrap_or_default();
    mountable_only(&stored, &spec, &["ephemeralContainers"]).or_else(|why| refuse(&why))
}

fn mount_token(api: &ApiServer, spec: &mut Object) {
    // A volume that is there under such a name is the one to use.
    let known = spec.list_at(&["volumes"]).iter().find_map(|volume| {
        let name = volume.get("name")?.as_str()?;
        name.starts_with("kube-api-access-").then(|| name.to_owned())
    });
    let has_volume = known.is_some();
    let volume = known.unwrap_or_else(|| format!("kube-api-access-{}", api.chance.suffix()));
    let mut used = false;
    for list in ["initContainers", "containers"] {
        let Some(Value::Array(containers)) = spec.get_mut(list) else { continue };
        for container in containers.iter_mut().filter_map(Value::as_object_mut) {
            let mounts =
                container.entry("volumeMounts").or_insert_with(|| Value::Array(Vec::new()));
            let Value::Array(mounts) = mounts else { continue };
            let taken = mounts
                .iter()
                .any(|mount| mount.get("mountPath").and_then(Value::as_str) == Some(TOKEN_MOUNT));
            if !taken {
                used = true;
                mounts.push(json!({ "name": volume, "readOnly": true, "mountPath": TOKEN_MOUNT }));
            }
        }
    }
    if has_volume || !used {
        return;
    }
    let volumes = spec.entry("volumes").or_insert_with(|| Value::Array(Vec::new()));
    if let Value::Array(volumes) = volumes {
        volumes.push(json!({
            "name": volume,
            "projected": {
                "defaultMode": 420,
                "sources": [
                    { "serviceAccountToken": { "expirationSeconds": 3607, "path": "token" } },
                    { "configMap": {
                        "name": "kube-root-ca.crt",
                        "items": [{ "key": "ca.crt", "path": "ca.crt" }],
                    } },
                    { "downwardAPI": { "items": [{
                        "path": "namespace",
                        "fieldRef": { "apiVersion": "v1", "fieldPath": "metadata.namespace" },
                    }] } },
                ],
            },
        }));
    }
}

/// Tolerates an unready or unreachable node for five minutes, unless the pod says otherwise.
pub(super) fn toleration_seconds(pod: &mut Object) {
    let spec = pod.map_mut("spec");
    let tolerations = spec.entry("tolerations").or_insert_with(|| Value::Array(Vec::new()));
    let Value::Array(list) = tolerations else { return };
    let given = list.clone();
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let covered = given.iter().filter_map(Value::as_object).any(|toleration| {
            let named = toleration.str_at(&["key"]).unwrap_or_default();
            let effect = toleration.str_at(&["effect"]).unwrap_or_default();
            (named == key || named.is_empty()) && matches!(effect, "NoExecute" | "")
        });
        if !covered {
            list.push(json!({
                "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300,
            }));
        }
    }
}

/// Keeps pods from a new node until it is found ready.
pub(super) fn taint_new_node(node: &mut Object) {
    const KEY: &str = "node.kubernetes.io/not-ready";
    let taints = node.map_mut("spec").entry("taints").or_insert_with(|| Value::Array(Vec::new()));
    let Value::Array(list) = taints else { return };
    let known = list.iter().filter_map(Value::as_object).any(|taint| {
        taint.str_at(&["key"]) == Some(KEY) && taint.str_at(&["effect"]) == Some("NoSchedule")
    });
    if !known {
        list.push(json!({ "key": KEY, "effect": "NoSchedule" }));
    }
}

/// Gives a pod, or the Binding that brings it there, the place of its node (upstream's PodTopologyLabels).
pub(crate) fn label_topology(state: &World, node: &str, object: &mut Object) {
    const LABELS: [&str; 2] = ["topology.kubernetes.io/region", "topology.kubernetes.io/zone"];
    let Some(record) = state.get(&format!("/registry/minions/{node}")) else { return };
    for (label, value) in LABELS.iter().filter_map(|label| Some((*label, record.label(label)?))) {
        object.map_mut("metadata").map_mut("labels").insert(label.to_owned(), value.into());
    }
}

/// Refuses to give a pod more than its node can ever have.
pub(super) fn may_resize(
    state: &World,
    request: &ResourceRequest,
    old: Option<&Object>,
    new: &Object,
) -> Result<(), Failure> {
    let kind = &request.served.kind;
    if kind.kind != "Pod" || !kind.group.is_empty() || request.subresource != "resize" {
        return Ok(());
    }
    let generation = |pod: &Object| pod.int_at(&["metadata", "generation"]);
    // What changes nothing needs no node.
    if old.is_some_and(|old| generation(old) == generation(new)) {
        return Ok(());
    }
    let Some(node) = new.str_at(&["spec", "nodeName"]).filter(|name| !name.is_empty()) else {
        return Ok(());
    };
    let refuse = |why: &str| Failure::forbidden("", "pods", new.name(), why);
    let because = |cause: &str, why: &str| {
        let failure = refuse(why);
        let details = failure.details.as_deref().cloned().unwrap_or_default();
        let none = String::new;
        let cause = StatusCause { reason: cause.to_owned(), message: none(), field: none() };
        failure.with(Details { causes: vec![cause], ..details })
    };
    let Some(record) = state.get(&format!("/registry/minions/{node}")) else {
        return Err(refuse(&format!("node {node:?} not found")));
    };
    if let Some(os) = record.label("kubernetes.io/os").filter(|os| *os != "linux") {
        let why = format!("pods are resized on linux nodes only, node {node:?} is {os:?}");
        return Err(because("UnsupportedPlatform", &why));
    }
    let stored: Object = serde_json::from_slice(record.bytes()).map_err(Failure::internal)?;
    let wanted = usage::container_totals(new, "requests");
    let overhead = usage::amounts(new.map_at(&["spec", "overhead"]));
    let amount = |of: &usage::Usage, name: &str| of.get(name).copied().unwrap_or(Quantity::ZERO);
    let mut lacks = Vec::new();
    for resource in ["cpu", "memory"] {
        let most = stored.at(&["status", "allocatable", resource]).and_then(Quantity::from_value);
        let most = most.unwrap_or(Quantity::ZERO);
        let requested = amount(&wanted, resource).plus(amount(&overhead, resource));
        if requested > most {
            let (requested, most) = (requested.canonical(), most.canonical());
            lacks.push(format!("{resource}, requested: {requested}, allocatable: {most}"));
        }
    }
    if lacks.is_empty() {
        return Ok(());
    }
    let why = format!("node {node:?} has not enough for pods: {}", lacks.join("; "));
    Err(because("NodeCapacity", &why))
}
