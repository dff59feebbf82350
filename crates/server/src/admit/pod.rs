//! What admission adds to pods: account, token volume, priority, tolerations (R138, R165).

use serde_json::{Value, json};
use tenure_machinery::{Failure, Object, ObjectExt};
use tenure_world::World;

use crate::api::Api;

const TOKEN_MOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Fills in the account, checks that it exists, mounts its token.
pub(super) fn service_account(api: &Api, state: &World, pod: &mut Object) -> Result<(), Failure> {
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

fn mount_token(api: &Api, spec: &mut Object) {
    let volume = format!("kube-api-access-{}", api.chance.suffix());
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
    if !used {
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

/// Resolves the priority class, or the global default, or zero.
pub(super) fn priority(state: &World, pod: &mut Object) -> Result<(), Failure> {
    let pod_name = pod.name().to_owned();
    let spec = pod.map_mut("spec");
    let named = spec.str_at(&["priorityClassName"]).filter(|n| !n.is_empty()).map(str::to_owned);
    let class: Option<Object> = match &named {
        Some(name) => {
            let record =
                state.get(&format!("/registry/priorityclasses/{name}")).ok_or_else(|| {
                    let why = format!("no PriorityClass with name {name} was found");
                    Failure::forbidden("", "pods", &pod_name, &why)
                })?;
            serde_json::from_slice(record.bytes()).ok()
        }
        None => state
            .range("/registry/priorityclasses/", None)
            .filter_map(|record| serde_json::from_slice::<Object>(record.bytes()).ok())
            .find(|class| class.bool_at(&["globalDefault"]) == Some(true)),
    };
    let value = class.as_ref().and_then(|class| class.int_at(&["value"])).unwrap_or(0);
    let policy = class.as_ref().and_then(|class| class.str_at(&["preemptionPolicy"]));
    let policy = policy.unwrap_or("PreemptLowerPriority").to_owned();
    if let (None, Some(class)) = (&named, &class) {
        spec.insert("priorityClassName".into(), class.name().into());
    }
    if spec.int_at(&["priority"]).is_some_and(|asked| asked != value) {
        let why = format!(
            "the integer value of priority must not be provided in pod spec; priority admission controller computed {value} from the given PriorityClass name"
        );
        return Err(Failure::forbidden("", "pods", &pod_name, &why));
    }
    spec.insert("priority".into(), value.into());
    spec.set_default("preemptionPolicy", policy);
    Ok(())
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
