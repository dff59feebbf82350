//! Kinds about access, network, storage and the cluster itself.

use k8s_pb::api::{
    admissionregistration::v1 as admission, certificates::v1 as certificates,
    coordination::v1 as coordination, core::v1 as core, discovery::v1 as discovery,
    events::v1 as events, networking::v1 as networking, node::v1 as node, rbac::v1 as rbac,
    scheduling::v1 as scheduling, storage::v1 as storage,
};
use k8s_pb::apiextensions_apiserver::pkg::apis::apiextensions::v1 as extensions;

use super::*;

const RBAC: &str = "rbac.authorization.k8s.io/v1";
const STORAGE: &str = "storage.k8s.io/v1";
const NETWORKING: &str = "networking.k8s.io/v1";

pub(super) fn rows() -> Vec<Row> {
    vec![
        role(),
        cluster_role(),
        role_binding(),
        cluster_role_binding(),
        storage_class(),
        csi_driver(),
        csi_node(),
        volume_attachment(),
        ingress(),
        ingress_class(),
        network_policy(),
        endpoint_slice(),
        lease(),
        new_event(),
        priority_class(),
        runtime_class(),
        webhook(),
        signing_request(),
        definition(),
    ]
}

fn rules() -> Vec<rbac::PolicyRule> {
    vec![rbac::PolicyRule {
        verbs: texts(&["get", "list"]),
        api_groups: texts(&["", "apps"]),
        resources: texts(&["pods"]),
        resource_names: texts(&["a"]),
        ..Default::default()
    }]
}

fn rules_twin() -> Value {
    json!([{
        "verbs": ["get", "list"], "apiGroups": ["", "apps"], "resources": ["pods"],
        "resourceNames": ["a"],
    }])
}

fn role() -> Row {
    let message = rbac::Role { metadata: named("it"), rules: rules() };
    row(RBAC, "roles", "Role", &message, json!({ "rules": rules_twin() }))
}

fn cluster_role() -> Row {
    let message =
        rbac::ClusterRole { metadata: named("it"), rules: rules(), aggregation_rule: None };
    wide(RBAC, "clusterroles", "ClusterRole", &message, json!({ "rules": rules_twin() }))
}

fn subjects() -> Vec<rbac::Subject> {
    vec![rbac::Subject {
        kind: text("ServiceAccount"),
        api_group: text(""),
        name: text("a"),
        namespace: text("default"),
    }]
}

fn bound() -> Option<rbac::RoleRef> {
    Some(rbac::RoleRef {
        api_group: text("rbac.authorization.k8s.io"),
        kind: text("ClusterRole"),
        name: text("view"),
    })
}

fn binding_twin() -> Value {
    json!({
        "subjects": [{ "kind": "ServiceAccount", "name": "a", "namespace": "default" }],
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view" },
    })
}

fn role_binding() -> Row {
    let message =
        rbac::RoleBinding { metadata: named("it"), subjects: subjects(), role_ref: bound() };
    row(RBAC, "rolebindings", "RoleBinding", &message, binding_twin())
}

fn cluster_role_binding() -> Row {
    let message =
        rbac::ClusterRoleBinding { metadata: named("it"), subjects: subjects(), role_ref: bound() };
    wide(RBAC, "clusterrolebindings", "ClusterRoleBinding", &message, binding_twin())
}

fn storage_class() -> Row {
    let message = storage::StorageClass {
        metadata: named("it"),
        provisioner: text("example.com/disks"),
        parameters: pairs("speed", "high"),
        mount_options: texts(&["ro"]),
        allow_volume_expansion: Some(true),
        allowed_topologies: vec![core::TopologySelectorTerm {
            match_label_expressions: vec![core::TopologySelectorLabelRequirement {
                key: text("zone"),
                values: texts(&["a", "b"]),
            }],
        }],
        ..Default::default()
    };
    let twin = json!({
        "provisioner": "example.com/disks", "parameters": { "speed": "high" },
        "mountOptions": ["ro"], "allowVolumeExpansion": true,
        "allowedTopologies": [
            { "matchLabelExpressions": [{ "key": "zone", "values": ["a", "b"] }] },
        ],
    });
    wide(STORAGE, "storageclasses", "StorageClass", &message, twin)
}

fn csi_driver() -> Row {
    let message = storage::CSIDriver {
        metadata: named("disks.example.com"),
        spec: Some(storage::CSIDriverSpec {
            attach_required: Some(false),
            token_requests: vec![storage::TokenRequest {
                audience: text("vault"),
                expiration_seconds: Some(600),
            }],
            volume_lifecycle_modes: texts(&["Ephemeral"]),
            ..Default::default()
        }),
    };
    let twin = json!({ "name": "disks.example.com", "spec": {
        "attachRequired": false, "volumeLifecycleModes": ["Ephemeral"],
        "tokenRequests": [{ "audience": "vault", "expirationSeconds": 600 }],
    }});
    wide(STORAGE, "csidrivers", "CSIDriver", &message, twin)
}

fn csi_node() -> Row {
    let message = storage::CSINode {
        metadata: named("it"),
        spec: Some(storage::CSINodeSpec {
            drivers: vec![storage::CSINodeDriver {
                name: text("disks.example.com"),
                node_id: text("n-1"),
                topology_keys: texts(&["zone"]),
                allocatable: Some(storage::VolumeNodeResources { count: Some(8) }),
            }],
        }),
    };
    let twin = json!({ "spec": { "drivers": [{
        "name": "disks.example.com", "nodeID": "n-1", "topologyKeys": ["zone"],
        "allocatable": { "count": 8 },
    }]}});
    wide(STORAGE, "csinodes", "CSINode", &message, twin)
}

fn volume_attachment() -> Row {
    let message = storage::VolumeAttachment {
        metadata: named("it"),
        spec: Some(storage::VolumeAttachmentSpec {
            attacher: text("disks.example.com"),
            source: Some(storage::VolumeAttachmentSource {
                persistent_volume_name: text("v"),
                ..Default::default()
            }),
            node_name: text("n"),
        }),
        ..Default::default()
    };
    let twin = json!({ "spec": {
        "attacher": "disks.example.com", "source": { "persistentVolumeName": "v" }, "nodeName": "n",
    }});
    wide(STORAGE, "volumeattachments", "VolumeAttachment", &message, twin)
}

fn ingress() -> Row {
    let backend = networking::IngressBackend {
        service: Some(networking::IngressServiceBackend {
            name: text("web"),
            port: Some(networking::ServiceBackendPort { name: text(""), number: Some(80) }),
        }),
        ..Default::default()
    };
    let message = networking::Ingress {
        metadata: named("it"),
        spec: Some(networking::IngressSpec {
            ingress_class_name: text("nginx"),
            rules: vec![networking::IngressRule {
                host: text("a.example"),
                ingress_rule_value: Some(networking::IngressRuleValue {
                    http: Some(networking::HttpIngressRuleValue {
                        paths: vec![networking::HttpIngressPath {
                            path: text("/"),
                            path_type: text("Prefix"),
                            backend: Some(backend),
                        }],
                    }),
                }),
            }],
            ..Default::default()
        }),
        ..Default::default()
    };
    let twin = json!({ "spec": {
        "ingressClassName": "nginx",
        "rules": [{ "host": "a.example", "http": { "paths": [{
            "path": "/", "pathType": "Prefix",
            "backend": { "service": { "name": "web", "port": { "number": 80 } } },
        }]}}],
    }});
    row(NETWORKING, "ingresses", "Ingress", &message, twin)
}

fn ingress_class() -> Row {
    let message = networking::IngressClass {
        metadata: named("it"),
        spec: Some(networking::IngressClassSpec {
            controller: text("example.com/proxy"),
            parameters: Some(networking::IngressClassParametersReference {
                a_pi_group: text("example.com"),
                kind: text("Proxy"),
                name: text("p"),
                scope: text("Cluster"),
                ..Default::default()
            }),
        }),
    };
    let twin = json!({ "spec": {
        "controller": "example.com/proxy",
        "parameters": { "apiGroup": "example.com", "kind": "Proxy", "name": "p",
            "scope": "Cluster" },
    }});
    wide(NETWORKING, "ingressclasses", "IngressClass", &message, twin)
}

fn network_policy() -> Row {
    let message = networking::NetworkPolicy {
        metadata: named("it"),
        spec: Some(networking::NetworkPolicySpec {
            pod_selector: selector(),
            ingress: vec![networking::NetworkPolicyIngressRule {
                ports: vec![networking::NetworkPolicyPort {
                    protocol: text("UDP"),
                    port: number(8_000),
                    end_port: Some(9_000),
                }],
                from: vec![networking::NetworkPolicyPeer {
                    ip_block: Some(networking::IpBlock {
                        cidr: text("10.0.0.0/8"),
                        except: texts(&["10.1.0.0/16"]),
                    }),
                    ..Default::default()
                }],
            }],
            policy_types: texts(&["Ingress"]),
            ..Default::default()
        }),
    };
    let twin = json!({ "spec": {
        "podSelector": selector_twin(),
        "ingress": [{
            "ports": [{ "protocol": "UDP", "port": 8000, "endPort": 9000 }],
            "from": [{ "ipBlock": { "cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"] } }],
        }],
        "policyTypes": ["Ingress"],
    }});
    row(NETWORKING, "networkpolicies", "NetworkPolicy", &message, twin)
}

fn endpoint_slice() -> Row {
    let message = discovery::EndpointSlice {
        metadata: named("it"),
        address_type: text("IPv4"),
        endpoints: vec![discovery::Endpoint {
            addresses: texts(&["10.1.2.3"]),
            conditions: Some(discovery::EndpointConditions {
                ready: Some(true),
                serving: Some(false),
                ..Default::default()
            }),
            node_name: text("n"),
            zone: text("a"),
            ..Default::default()
        }],
        ports: vec![discovery::EndpointPort {
            name: text("http"),
            protocol: text("TCP"),
            port: Some(80),
            ..Default::default()
        }],
    };
    let twin = json!({
        "addressType": "IPv4",
        "endpoints": [{
            "addresses": ["10.1.2.3"], "conditions": { "ready": true, "serving": false },
            "nodeName": "n", "zone": "a",
        }],
        "ports": [{ "name": "http", "protocol": "TCP", "port": 80 }],
    });
    row("discovery.k8s.io/v1", "endpointslices", "EndpointSlice", &message, twin)
}

fn lease() -> Row {
    let time =
        |seconds, nanos| Some(meta::MicroTime { seconds: Some(seconds), nanos: Some(nanos) });
    let message = coordination::Lease {
        metadata: named("it"),
        spec: Some(coordination::LeaseSpec {
            holder_identity: text("me"),
            lease_duration_seconds: Some(15),
            acquire_time: time(1_600_000_000, 123_456_789),
            renew_time: time(1, 0),
            lease_transitions: Some(0),
            ..Default::default()
        }),
    };
    let twin = json!({ "spec": {
        "holderIdentity": "me", "leaseDurationSeconds": 15, "leaseTransitions": 0,
        "acquireTime": "2020-09-13T12:26:40.123456Z", "renewTime": "1970-01-01T00:00:01.000000Z",
    }});
    row("coordination.k8s.io/v1", "leases", "Lease", &message, twin)
}

fn new_event() -> Row {
    let message = events::Event {
        metadata: named("new"),
        event_time: Some(meta::MicroTime { seconds: Some(1), nanos: Some(2_000) }),
        reporting_controller: text("example.com/c"),
        reporting_instance: text("c-1"),
        action: text("Start"),
        reason: text("Started"),
        regarding: Some(core::ObjectReference {
            kind: text("Pod"),
            name: text("web"),
            namespace: text("default"),
            ..Default::default()
        }),
        note: text("a note"),
        r#type: text("Warning"),
        ..Default::default()
    };
    let twin = json!({
        "name": "new", "eventTime": "1970-01-01T00:00:01.000002Z",
        "reportingController": "example.com/c", "reportingInstance": "c-1", "action": "Start",
        "reason": "Started", "note": "a note", "type": "Warning",
        "regarding": { "kind": "Pod", "name": "web", "namespace": "default" },
    });
    row("events.k8s.io/v1", "events", "Event", &message, twin)
}

fn priority_class() -> Row {
    let message = scheduling::PriorityClass {
        metadata: named("it"),
        value: Some(-5),
        description: text("low"),
        preemption_policy: text("Never"),
        ..Default::default()
    };
    let twin = json!({ "value": -5, "description": "low", "preemptionPolicy": "Never" });
    wide("scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", &message, twin)
}

fn runtime_class() -> Row {
    let message = node::RuntimeClass {
        metadata: named("it"),
        handler: text("micro"),
        overhead: Some(node::Overhead { pod_fixed: quantities("cpu", "0.1") }),
        scheduling: Some(node::Scheduling {
            node_selector: pairs("micro", "yes"),
            ..Default::default()
        }),
    };
    let twin = json!({
        "handler": "micro", "overhead": { "podFixed": { "cpu": "100m" } },
        "scheduling": { "nodeSelector": { "micro": "yes" } },
    });
    wide("node.k8s.io/v1", "runtimeclasses", "RuntimeClass", &message, twin)
}

fn webhook() -> Row {
    let message = admission::ValidatingWebhookConfiguration {
        metadata: named("it"),
        webhooks: vec![admission::ValidatingWebhook {
            name: text("a.example.com"),
            client_config: Some(admission::WebhookClientConfig {
                service: Some(admission::ServiceReference {
                    namespace: text("absent"),
                    name: text("s"),
                    path: text("/v"),
                    port: Some(8443),
                }),
                ca_bundle: None,
                url: None,
            }),
            rules: vec![admission::RuleWithOperations {
                operations: texts(&["CREATE"]),
                rule: Some(admission::Rule {
                    api_groups: texts(&["example.com"]),
                    api_versions: texts(&["v1"]),
                    resources: texts(&["widgets"]),
                    scope: text("*"),
                }),
            }],
            failure_policy: text("Ignore"),
            side_effects: text("None"),
            namespace_selector: selector(),
            admission_review_versions: texts(&["v1"]),
            ..Default::default()
        }],
    };
    let twin = json!({ "webhooks": [{
        "name": "a.example.com",
        "clientConfig": { "service": { "namespace": "absent", "name": "s", "path": "/v",
            "port": 8443 } },
        "rules": [{ "operations": ["CREATE"], "apiGroups": ["example.com"], "apiVersions": ["v1"],
            "resources": ["widgets"], "scope": "*" }],
        "failurePolicy": "Ignore", "sideEffects": "None", "namespaceSelector": selector_twin(),
        "admissionReviewVersions": ["v1"],
    }]});
    let kind = "ValidatingWebhookConfiguration";
    let plural = "validatingwebhookconfigurations";
    wide("admissionregistration.k8s.io/v1", plural, kind, &message, twin)
}

fn signing_request() -> Row {
    use base64::Engine as _;
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(Vec::new()).unwrap();
    let pem = params.serialize_request(&key).unwrap().pem().unwrap();
    let message = certificates::CertificateSigningRequest {
        metadata: named("it"),
        spec: Some(certificates::CertificateSigningRequestSpec {
            request: Some(pem.clone().into_bytes()),
            signer_name: text("example.com/signer"),
            expiration_seconds: Some(3_600),
            usages: texts(&["client auth"]),
            ..Default::default()
        }),
        ..Default::default()
    };
    let twin = json!({ "spec": {
        "request": base64::engine::general_purpose::STANDARD.encode(pem),
        "signerName": "example.com/signer", "expirationSeconds": 3600, "usages": ["client auth"],
    }});
    let kind = "CertificateSigningRequest";
    wide("certificates.k8s.io/v1", "certificatesigningrequests", kind, &message, twin)
}

fn definition() -> Row {
    let count = extensions::JsonSchemaProps {
        r#type: text("integer"),
        minimum: Some(1.0),
        default: Some(extensions::Json { raw: Some(b"3".to_vec()) }),
        x_kubernetes_validations: vec![extensions::ValidationRule {
            rule: text("self < 9"),
            ..Default::default()
        }],
        ..Default::default()
    };
    let schema = extensions::JsonSchemaProps {
        r#type: text("object"),
        properties: BTreeMap::from([("count".to_owned(), count)]),
        ..Default::default()
    };
    let message = extensions::CustomResourceDefinition {
        metadata: named("widgets.example.com"),
        spec: Some(extensions::CustomResourceDefinitionSpec {
            group: text("example.com"),
            scope: text("Cluster"),
            names: Some(extensions::CustomResourceDefinitionNames {
                plural: text("widgets"),
                kind: text("Widget"),
                ..Default::default()
            }),
            versions: vec![extensions::CustomResourceDefinitionVersion {
                name: text("v1"),
                served: Some(true),
                storage: Some(true),
                schema: Some(extensions::CustomResourceValidation {
                    open_apiv3_schema: Some(schema),
                }),
                ..Default::default()
            }],
            ..Default::default()
        }),
        ..Default::default()
    };
    let twin = json!({ "name": "widgets.example.com", "spec": {
        "group": "example.com", "scope": "Cluster",
        "names": { "plural": "widgets", "kind": "Widget" },
        "versions": [{ "name": "v1", "served": true, "storage": true,
            "schema": { "openAPIV3Schema": { "type": "object", "properties": { "count": {
                "type": "integer", "minimum": 1, "default": 3,
                "x-kubernetes-validations": [{ "rule": "self < 9" }],
            }}}} }],
    }});
    let kind = "CustomResourceDefinition";
    wide("apiextensions.k8s.io/v1", "customresourcedefinitions", kind, &message, twin)
}
