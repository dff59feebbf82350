//! The least of each kind that a server takes, and values for members whose type alone says too little.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair};
use serde_json::{Value, json};
use tenure_machinery::kind::Kind;

use super::walk::Member;

/// An object of a kind that the server takes.
pub fn base(row: &Kind) -> Value {
    let mut object = match (row.group.as_ref(), row.kind.as_ref()) {
        ("", "Event") => json!({"reason": "r", "message": "m", "involvedObject":
            {"kind": "Pod", "namespace": "default", "name": "a"}}),
        (_, "Event") => json!({"reason": "r", "action": "a", "type": "Normal",
            "eventTime": "2026-01-02T03:04:05.000006Z", "reportingController": "a.example/c",
            "reportingInstance": "i",
            "regarding": {"kind": "Pod", "namespace": "default", "name": "a"}}),
        (_, kind) => body(kind, &row.version),
    };
    let group_version = match row.group.is_empty() {
        true => row.version.to_string(),
        false => format!("{}/{}", row.group, row.version),
    };
    object["apiVersion"] = group_version.into();
    object["kind"] = row.kind.as_ref().into();
    if object.get("metadata").is_none() {
        object["metadata"] = json!({"name": name(&row.kind)});
    }
    if row.namespaced {
        object["metadata"]["namespace"] = "default".into();
    }
    object
}

fn name(kind: &str) -> &'static str {
    match kind {
        "APIService" => "v1.a.example",
        "CustomResourceDefinition" => "things.a.example",
        "IPAddress" => "10.0.0.77",
        _ => "a",
    }
}

/// A kind by its name; those of two groups and versions look alike.
fn body(kind: &str, version: &str) -> Value {
    match kind {
        "ConfigMap" | "Namespace" | "Node" | "Secret" | "ServiceAccount" | "Lease" => json!({}),
        "PodTemplate" => json!({"template": template()}),
        "ControllerRevision" => json!({"revision": 1, "data": {}}),
        "Deployment" | "ReplicaSet" | "DaemonSet" => json!({"spec": workload()}),
        "StatefulSet" => {
            let mut spec = workload();
            spec["serviceName"] = "a".into();
            json!({"spec": spec})
        }
        "Pod" => json!({"spec": pod()}),
        "ReplicationController" => {
            json!({"spec": {"selector": {"app": "a"}, "template": template()}})
        }
        "Job" => json!({"spec": {"template": once()}}),
        "CronJob" => {
            json!({"spec": {"schedule": "0 0 * * *", "jobTemplate": {"spec": {"template": once()}}}})
        }
        "LimitRange" => json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": "4"}}]}}),
        "ResourceQuota" => json!({"spec": {"hard": {"pods": "100"}}}),
        "PodDisruptionBudget" => {
            json!({"spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}})
        }
        "HorizontalPodAutoscaler" => autoscaler(version),
        "PriorityClass" => json!({"value": 1}),
        "Binding" => json!({"target": {"kind": "Node", "name": "a"}}),
        _ => cluster(kind),
    }
}

fn pod() -> Value {
    json!({"containers": [{"name": "c", "image": "i"}]})
}

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "a"}}, "spec": pod()})
}

fn once() -> Value {
    json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}})
}

fn workload() -> Value {
    json!({"selector": {"matchLabels": {"app": "a"}}, "template": template()})
}

fn autoscaler(version: &str) -> Value {
    let mut spec = json!({"maxReplicas": 3,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}});
    if version == "v2" {
        spec["metrics"] = json!([{"type": "Resource", "resource": {"name": "cpu",
            "target": {"type": "Utilization", "averageUtilization": 50}}}]);
    }
    json!({"spec": spec})
}

/// Kinds of storage, networks, access and the cluster.
fn cluster(kind: &str) -> Value {
    match kind {
        "PersistentVolume" => json!({"spec": {"capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/a"}}}),
        "PersistentVolumeClaim" => json!({"spec": {"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}}}),
        "StorageClass" => json!({"provisioner": "a.example/p"}),
        "VolumeAttributesClass" => json!({"driverName": "a.example", "parameters": {"a": "b"}}),
        "CSIDriver" => json!({"spec": {}}),
        "CSINode" => json!({"spec": {"drivers": []}}),
        "CSIStorageCapacity" => json!({"storageClassName": "a"}),
        "VolumeAttachment" => json!({"spec": {"attacher": "a.example", "nodeName": "a",
            "source": {"persistentVolumeName": "a"}}}),
        "Service" => json!({"spec": {"ports": [{"port": 80}]}}),
        "Endpoints" => {
            json!({"subsets": [{"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 80}]}]})
        }
        "EndpointSlice" => {
            json!({"addressType": "IPv4", "endpoints": [{"addresses": ["10.1.2.3"]}],
            "ports": [{"port": 80, "name": "", "protocol": "TCP"}]})
        }
        "Ingress" => {
            json!({"spec": {"defaultBackend": {"service": {"name": "a", "port": {"number": 80}}}}})
        }
        "IngressClass" => json!({"spec": {"controller": "a.example/c"}}),
        "NetworkPolicy" => json!({"spec": {"podSelector": {}}}),
        "ServiceCIDR" => json!({"spec": {"cidrs": ["203.0.113.0/24"]}}),
        "IPAddress" => json!({"spec": {"parentRef": {"resource": "services", "name": "a",
            "namespace": "default"}}}),
        "APIService" => json!({"spec": {"group": "a.example", "version": "v1",
            "groupPriorityMinimum": 100, "versionPriority": 100,
            "service": {"namespace": "default", "name": "a", "port": 443}}}),
        "RuntimeClass" => json!({"handler": "h"}),
        "StorageVersionMigration" => {
            json!({"spec": {"resource": {"group": "", "resource": "configmaps"}}})
        }
        "CustomResourceDefinition" => definition(),
        _ => access(kind),
    }
}

fn definition() -> Value {
    json!({"spec": {
        "group": "a.example", "scope": "Namespaced",
        "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
        "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object"}}}],
    }})
}

fn access(kind: &str) -> Value {
    let of =
        |kind: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "view"});
    match kind {
        "Role" | "ClusterRole" => {
            json!({"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]})
        }
        "RoleBinding" | "ClusterRoleBinding" => {
            let user =
                json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "a"});
            json!({"roleRef": of("ClusterRole"), "subjects": [user]})
        }
        "SelfSubjectReview" => json!({"metadata": {}}),
        "TokenReview" => json!({"metadata": {}, "spec": {"token": "a"}}),
        "LocalSubjectAccessReview" => json!({"metadata": {"namespace": "default"}, "spec": {
            "user": "a", "resourceAttributes": {"namespace": "default", "verb": "get", "resource": "pods"}}}),
        "SelfSubjectAccessReview" | "SubjectAccessReview" => {
            let mut spec = json!({"resourceAttributes": {"verb": "get", "resource": "pods"}});
            if kind == "SubjectAccessReview" {
                spec["user"] = "a".into();
            }
            json!({"metadata": {}, "spec": spec})
        }
        "SelfSubjectRulesReview" => json!({"metadata": {}, "spec": {"namespace": "default"}}),
        "CertificateSigningRequest" => json!({"spec": {"request": signing_request(),
            "signerName": "a.example/s", "usages": ["client auth"]}}),
        "ClusterTrustBundle" => json!({"spec": {"trustBundle": authority()}}),
        "PodCertificateRequest" => pod_certificate(),
        "ReferenceReview" => json!({"metadata": {}, "spec": {"purpose": "tls-serving",
            "origin": {"group": "", "resource": "pods", "namespace": "default", "name": "a"},
            "target": {"group": "", "resource": "secrets", "namespace": "default", "name": "a"}}}),
        "ReferenceStrategy" => json!({"origin": {"group": "", "resource": "configmaps"},
            "versions": [{"version": "v1", "references": [{"path": ".data.secret",
                "target": {"group": "", "resource": "secrets"}, "purpose": "tls-serving"}]}]}),
        "ReferenceGrant" => {
            json!({"origin": {"group": "", "resource": "configmaps", "namespace": "default"},
            "target": {"group": "", "resource": "secrets"}, "purpose": "tls-serving"})
        }
        "ClusterReferenceConsumer" => {
            json!({"subject": {"kind": "User", "name": "a"}, "classNames": ["a"],
            "references": [{"origin": {"group": "", "resource": "configmaps"},
                "target": {"group": "", "resource": "secrets"}, "purpose": "tls-serving"}]})
        }
        _ => admission(kind),
    }
}

fn signing_request() -> String {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "a");
    let request = params.serialize_request(&KeyPair::generate().unwrap()).unwrap();
    STANDARD.encode(request.pem().unwrap())
}

fn authority() -> String {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem()
}

fn pod_certificate() -> Value {
    let stub =
        CertificateParams::default().serialize_request(&KeyPair::generate().unwrap()).unwrap();
    json!({"spec": {
        "signerName": "example.com/own", "podName": "p", "podUID": "pu",
        "serviceAccountName": "s", "serviceAccountUID": "su", "nodeName": "n", "nodeUID": "nu",
        "maxExpirationSeconds": 86400, "stubPKCS10Request": STANDARD.encode(stub.der()),
    }})
}

fn admission(kind: &str) -> Value {
    let rule = json!({"apiGroups": ["a.example"], "apiVersions": ["v1"], "operations": ["CREATE"],
        "resources": ["things"]});
    match kind {
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => json!({"webhooks": [{
            "name": "a.b.example", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "clientConfig": {"url": "https://a.example/"}, "rules": [rule]}]}),
        "ValidatingAdmissionPolicy" => json!({"spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": "true"}]}}),
        "MutatingAdmissionPolicy" => json!({"spec": {
            "matchConstraints": {"resourceRules": [rule]}, "reinvocationPolicy": "Never",
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression":
                "[JSONPatch{op: \"remove\", path: \"/a\"}]"}}]}}),
        "ValidatingAdmissionPolicyBinding" => {
            json!({"spec": {"policyName": "a", "validationActions": ["Deny"]}})
        }
        "MutatingAdmissionPolicyBinding" => json!({"spec": {"policyName": "a"}}),
        _ => devices(kind),
    }
}

fn devices(kind: &str) -> Value {
    let claim = json!({"devices": {"requests": [
        {"name": "r", "exactly": {"deviceClassName": "a.example"}}]}});
    match kind {
        "DeviceClass" => json!({"spec": {}}),
        "DeviceTaintRule" => {
            json!({"spec": {"taint": {"key": "a.example/k", "effect": "NoSchedule"}}})
        }
        "ResourceClaim" => json!({"spec": claim}),
        "ResourceClaimTemplate" => json!({"spec": {"spec": claim}}),
        "ResourceSlice" => json!({"spec": {"driver": "a.example", "nodeName": "n",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}, "devices": []}}),
        "FlowSchema" => json!({"spec": {"priorityLevelConfiguration": {"name": "a"},
            "matchingPrecedence": 100, "rules": []}}),
        "PriorityLevelConfiguration" => json!({"spec": {"type": "Limited", "limited": {
            "nominalConcurrencyShares": 1, "limitResponse": {"type": "Reject"}}}}),
        _ => panic!("a new kind {kind}: say here what the least of it is"),
    }
}

/// A value for a member whose type alone says too little, and what must stand beside it.
pub fn example(member: &Member, object: &mut Value) -> Option<Value> {
    let beside = |object: &mut Value, name: &str, value: Value| {
        member.parent(object).insert(name.to_owned(), value);
    };
    Some(match (member.api_type.name.rsplit('.').next()?, member.field.json) {
        ("AppArmorProfile", "type") => json!("RuntimeDefault"),
        ("ServiceSpec", "sessionAffinity") => json!("ClientIP"),
        ("ServiceSpec", "externalTrafficPolicy") => {
            beside(object, "type", json!("NodePort"));
            json!("Local")
        }
        ("ServiceSpec", "internalTrafficPolicy") => json!("Local"),
        ("ServiceSpec", "trafficDistribution") => json!("PreferClose"),
        ("ServiceSpec", "externalIPs") => json!(["198.51.100.7"]),
        ("ServiceSpec", "loadBalancerSourceRanges") => {
            beside(object, "type", json!("LoadBalancer"));
            json!(["198.51.100.0/24"])
        }
        ("SecurityContext", "procMount") => {
            pod_spec(member, object).insert("hostUsers".to_owned(), json!(false));
            json!("Unmasked")
        }
        ("PodSecurityContext", "supplementalGroupsPolicy") => json!("Strict"),
        ("VolumeMount", "recursiveReadOnly" | "bindMountOptions") => {
            let own = volume(member, object);
            for (name, value) in
                [("name", own), ("mountPath", json!("/v")), ("readOnly", json!(true))]
            {
                beside(object, name, value);
            }
            let list = member.field.json == "bindMountOptions";
            if list { json!(["noexec"]) } else { json!("Enabled") }
        }
        ("EmptyDirVolumeSource", "mode") => json!(0o755),
        ("GRPCAction", "mode") => json!("TLS"),
        _ => return None,
    })
}

/// Completes what was made on the way to a member.
pub fn dress(member: &Member, object: &mut Value) {
    let whole = |name: &str| match name {
        "initContainers" => Some(("", json!({"image": "i", "restartPolicy": "Always"}))),
        "volumeClaimTemplates" => Some(("metadata", json!({"name": "data"}))),
        "volumeClaimTemplate" => Some((
            "spec",
            json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}),
        )),
        _ => None,
    };
    let mut at = object;
    for name in &member.way {
        let next = &mut at[*name];
        at = if next.is_array() { &mut next[0] } else { next };
        let Some((part, Value::Object(all))) = whole(name) else { continue };
        if *name == "volumeClaimTemplates" {
            at["spec"]["accessModes"] = json!(["ReadWriteOnce"]);
            at["spec"]["resources"] = json!({"requests": {"storage": "1Gi"}});
            at["metadata"] = json!({});
        }
        let within = if part.is_empty() { &mut *at } else { &mut at[part] };
        if let Some(within) = within.as_object_mut() {
            all.into_iter().for_each(|(name, value)| {
                within.entry(name).or_insert(value);
            });
        }
    }
}

/// The specification of the pod that a member is in.
fn pod_spec<'a>(member: &Member, object: &'a mut Value) -> &'a mut serde_json::Map<String, Value> {
    let lists =
        ["containers", "initContainers", "ephemeralContainers", "volumes", "securityContext"];
    let end = member.way.iter().position(|name| lists.contains(name)).unwrap();
    let mut at = object;
    for name in &member.way[..end] {
        at = &mut at[*name];
    }
    at.as_object_mut().unwrap()
}

/// Gives the pod a volume, and says its name.
fn volume(member: &Member, object: &mut Value) -> Value {
    pod_spec(member, object).insert("volumes".to_owned(), json!([{"name": "v", "emptyDir": {}}]));
    json!("v")
}
