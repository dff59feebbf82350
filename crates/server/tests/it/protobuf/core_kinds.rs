//! Kinds of the core group.

use k8s_pb::api::core::v1 as core;

use super::*;

fn reference(kind: &str, name: &str) -> core::ObjectReference {
    core::ObjectReference { kind: text(kind), name: text(name), ..Default::default() }
}

pub(super) fn rows() -> Vec<Row> {
    vec![
        config_map(),
        secret(),
        namespace(),
        service(),
        service_account(),
        claim(),
        volume(),
        endpoints(),
        event(),
        limit_range(),
        resource_quota(),
        node(),
    ]
}

fn config_map() -> Row {
    let message = core::ConfigMap {
        metadata: named("it"),
        data: pairs("a", "1"),
        binary_data: BTreeMap::from([("b".to_owned(), vec![0, 255])]),
        immutable: Some(false),
    };
    let twin = json!({ "data": { "a": "1" }, "binaryData": { "b": "AP8=" }, "immutable": false });
    row("v1", "configmaps", "ConfigMap", &message, twin)
}

fn secret() -> Row {
    let message = core::Secret {
        metadata: named("it"),
        data: BTreeMap::from([("a".to_owned(), b"hello".to_vec()), ("b".to_owned(), Vec::new())]),
        string_data: pairs("c", "plain"),
        r#type: text("example.com/kind"),
        ..Default::default()
    };
    let twin = json!({
        "data": { "a": "aGVsbG8=", "b": "" }, "stringData": { "c": "plain" },
        "type": "example.com/kind",
    });
    row("v1", "secrets", "Secret", &message, twin)
}

fn namespace() -> Row {
    let message = core::Namespace {
        metadata: named("it"),
        spec: Some(core::NamespaceSpec { finalizers: texts(&["example.com/hold"]) }),
        status: Some(core::NamespaceStatus { phase: text(""), ..Default::default() }),
    };
    let twin = json!({ "spec": { "finalizers": ["example.com/hold"] }, "status": {} });
    wide("v1", "namespaces", "Namespace", &message, twin)
}

fn service() -> Row {
    let message = core::Service {
        metadata: named("it"),
        spec: Some(core::ServiceSpec {
            ports: vec![core::ServicePort {
                name: text("http"),
                port: Some(80),
                target_port: word("web"),
                node_port: Some(0),
                ..Default::default()
            }],
            selector: pairs("app", "web"),
            cluster_ip: text("None"),
            session_affinity: text("ClientIP"),
            publish_not_ready_addresses: Some(true),
            ..Default::default()
        }),
        ..Default::default()
    };
    let twin = json!({ "spec": {
        "ports": [{ "name": "http", "port": 80, "targetPort": "web" }],
        "selector": { "app": "web" }, "clusterIP": "None", "sessionAffinity": "ClientIP",
        "publishNotReadyAddresses": true,
    }});
    row("v1", "services", "Service", &message, twin)
}

fn service_account() -> Row {
    let message = core::ServiceAccount {
        metadata: named("it"),
        secrets: vec![core::ObjectReference { name: text("s"), ..Default::default() }],
        image_pull_secrets: vec![core::LocalObjectReference { name: text("p") }],
        automount_service_account_token: Some(false),
    };
    let twin = json!({
        "secrets": [{ "name": "s" }], "imagePullSecrets": [{ "name": "p" }],
        "automountServiceAccountToken": false,
    });
    row("v1", "serviceaccounts", "ServiceAccount", &message, twin)
}

fn claim() -> Row {
    let message = core::PersistentVolumeClaim {
        metadata: named("it"),
        spec: Some(core::PersistentVolumeClaimSpec {
            access_modes: texts(&["ReadWriteOnce"]),
            resources: Some(core::VolumeResourceRequirements {
                requests: quantities("storage", "1024Mi"),
                ..Default::default()
            }),
            storage_class_name: text(""),
            selector: selector(),
            ..Default::default()
        }),
        status: Some(core::PersistentVolumeClaimStatus::default()),
    };
    let twin = json!({ "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } },
        "storageClassName": "", "selector": selector_twin(),
    }});
    row("v1", "persistentvolumeclaims", "PersistentVolumeClaim", &message, twin)
}

fn volume() -> Row {
    let message = core::PersistentVolume {
        metadata: named("it"),
        spec: Some(core::PersistentVolumeSpec {
            capacity: quantities("storage", "5Gi"),
            access_modes: texts(&["ReadWriteOnce", "ReadOnlyMany"]),
            persistent_volume_reclaim_policy: text("Retain"),
            persistent_volume_source: Some(core::PersistentVolumeSource {
                host_path: Some(core::HostPathVolumeSource {
                    path: text("/data"),
                    r#type: text(""),
                }),
                ..Default::default()
            }),
            ..Default::default()
        }),
        ..Default::default()
    };
    let twin = json!({ "spec": {
        "capacity": { "storage": "5Gi" }, "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
        "persistentVolumeReclaimPolicy": "Retain", "hostPath": { "path": "/data", "type": "" },
    }});
    wide("v1", "persistentvolumes", "PersistentVolume", &message, twin)
}

fn endpoints() -> Row {
    let message = core::Endpoints {
        metadata: named("it"),
        subsets: vec![core::EndpointSubset {
            addresses: vec![core::EndpointAddress {
                ip: text("10.1.2.3"),
                hostname: text("h"),
                node_name: text("n"),
                target_ref: Some(reference("Pod", "p")),
            }],
            ports: vec![core::EndpointPort {
                name: text("http"),
                port: Some(80),
                protocol: text("TCP"),
                app_protocol: text("http"),
            }],
            ..Default::default()
        }],
    };
    let twin = json!({ "subsets": [{
        "addresses": [{
            "ip": "10.1.2.3", "hostname": "h", "nodeName": "n",
            "targetRef": { "kind": "Pod", "name": "p" },
        }],
        "ports": [{ "name": "http", "port": 80, "protocol": "TCP", "appProtocol": "http" }],
    }]});
    row("v1", "endpoints", "Endpoints", &message, twin)
}

fn event() -> Row {
    let involved = core::ObjectReference { namespace: text("default"), ..reference("Pod", "web") };
    let message = core::Event {
        metadata: named("it"),
        involved_object: Some(involved),
        reason: text("Started"),
        message: text("größer"),
        source: Some(core::EventSource { component: text("kubelet"), host: text("n") }),
        first_timestamp: Some(meta::Time { seconds: Some(1), nanos: Some(0) }),
        last_timestamp: Some(meta::Time::default()),
        count: Some(2),
        r#type: text("Normal"),
        event_time: Some(meta::MicroTime::default()),
        reporting_component: text(""),
        ..Default::default()
    };
    let twin = json!({
        "involvedObject": { "kind": "Pod", "name": "web", "namespace": "default" },
        "reason": "Started", "message": "größer", "source": { "component": "kubelet", "host": "n" },
        "firstTimestamp": "1970-01-01T00:00:01Z", "lastTimestamp": null, "count": 2,
        "type": "Normal", "eventTime": null,
    });
    row("v1", "events", "Event", &message, twin)
}

fn limit_range() -> Row {
    let message = core::LimitRange {
        metadata: named("it"),
        spec: Some(core::LimitRangeSpec {
            limits: vec![core::LimitRangeItem {
                r#type: text("PersistentVolumeClaim"),
                max: quantities("storage", "2Ti"),
                min: quantities("storage", "0.5"),
                ..Default::default()
            }],
        }),
    };
    let twin = json!({ "spec": { "limits": [{
        "type": "PersistentVolumeClaim", "max": { "storage": "2Ti" }, "min": { "storage": "500m" },
    }]}});
    row("v1", "limitranges", "LimitRange", &message, twin)
}

fn resource_quota() -> Row {
    let message = core::ResourceQuota {
        metadata: named("it"),
        spec: Some(core::ResourceQuotaSpec {
            hard: quantities("pods", "100"),
            scopes: texts(&["NotTerminating"]),
            scope_selector: Some(core::ScopeSelector {
                match_expressions: vec![core::ScopedResourceSelectorRequirement {
                    scope_name: text("PriorityClass"),
                    operator: text("In"),
                    values: texts(&["high"]),
                }],
            }),
        }),
        ..Default::default()
    };
    let twin = json!({ "spec": {
        "hard": { "pods": "100" }, "scopes": ["NotTerminating"],
        "scopeSelector": { "matchExpressions": [
            { "scopeName": "PriorityClass", "operator": "In", "values": ["high"] },
        ]},
    }});
    row("v1", "resourcequotas", "ResourceQuota", &message, twin)
}

fn node() -> Row {
    let message = core::Node {
        metadata: named("it"),
        spec: Some(core::NodeSpec {
            pod_cidr: text("10.2.0.0/24"),
            pod_cid_rs: texts(&["10.2.0.0/24"]),
            provider_id: text("example://it"),
            unschedulable: Some(true),
            taints: vec![core::Taint {
                key: text("example.com/full"),
                value: text("yes"),
                effect: text("NoSchedule"),
                time_added: Some(meta::Time { seconds: Some(60), nanos: Some(0) }),
            }],
            ..Default::default()
        }),
        status: Some(core::NodeStatus {
            capacity: quantities("cpu", "4000m"),
            addresses: vec![core::NodeAddress {
                r#type: text("InternalIP"),
                address: text("192.0.2.1"),
            }],
            ..Default::default()
        }),
    };
    let twin = json!({
        "spec": {
            "podCIDR": "10.2.0.0/24", "podCIDRs": ["10.2.0.0/24"], "providerID": "example://it",
            "unschedulable": true,
            "taints": [{
                "key": "example.com/full", "value": "yes", "effect": "NoSchedule",
                "timeAdded": "1970-01-01T00:01:00Z",
            }],
        },
        "status": {
            "capacity": { "cpu": "4" },
            "addresses": [{ "type": "InternalIP", "address": "192.0.2.1" }],
        },
    });
    wide("v1", "nodes", "Node", &message, twin)
}
