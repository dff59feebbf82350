//! A Pod with something of everything: volumes, probes, environment, resources, affinity.

use super::*;

fn volumes() -> Vec<core::Volume> {
    let sources = [
        core::VolumeSource {
            empty_dir: Some(core::EmptyDirVolumeSource {
                medium: text(""),
                size_limit: Some(Quantity { string: text("1Gi") }),
            }),
            ..Default::default()
        },
        core::VolumeSource {
            config_map: Some(core::ConfigMapVolumeSource {
                local_object_reference: Some(core::LocalObjectReference { name: text("settings") }),
                items: vec![core::KeyToPath { key: text("a"), path: text("b"), mode: Some(0o644) }],
                default_mode: Some(0),
                optional: Some(false),
            }),
            ..Default::default()
        },
        core::VolumeSource {
            projected: Some(core::ProjectedVolumeSource {
                sources: vec![core::VolumeProjection {
                    service_account_token: Some(core::ServiceAccountTokenProjection {
                        audience: text(""),
                        expiration_seconds: Some(3_607),
                        path: text("token"),
                    }),
                    ..Default::default()
                }],
                default_mode: None,
            }),
            ..Default::default()
        },
    ];
    let named = ["scratch", "settings", "token"].into_iter().zip(sources);
    named
        .map(|(name, source)| core::Volume { name: text(name), volume_source: Some(source) })
        .collect()
}

fn container() -> core::Container {
    core::Container {
        name: text("web"),
        image: text("nginx"),
        args: texts(&["", "--port=80"]),
        ports: vec![core::ContainerPort { container_port: Some(80), ..Default::default() }],
        env: vec![
            core::EnvVar { name: text("A"), value: text("1"), value_from: None },
            core::EnvVar {
                name: text("B"),
                value: text(""),
                value_from: Some(core::EnvVarSource {
                    config_map_key_ref: Some(core::ConfigMapKeySelector {
                        local_object_reference: Some(core::LocalObjectReference {
                            name: text("settings"),
                        }),
                        key: text("k"),
                        optional: Some(true),
                    }),
                    ..Default::default()
                }),
            },
        ],
        resources: Some(core::ResourceRequirements {
            limits: quantities(&[("cpu", "1500m"), ("memory", "1Gi")]),
            requests: quantities(&[("cpu", "0.1")]),
            ..Default::default()
        }),
        readiness_probe: Some(core::Probe {
            handler: Some(core::ProbeHandler {
                http_get: Some(core::HttpGetAction {
                    path: text("/ready"),
                    port: percent("http"),
                    host: text(""),
                    ..Default::default()
                }),
                ..Default::default()
            }),
            initial_delay_seconds: Some(0),
            period_seconds: Some(10),
            ..Default::default()
        }),
        liveness_probe: Some(core::Probe {
            handler: Some(core::ProbeHandler {
                exec: Some(core::ExecAction { command: texts(&["true"]) }),
                ..Default::default()
            }),
            ..Default::default()
        }),
        security_context: Some(core::SecurityContext {
            run_as_user: Some(0),
            privileged: Some(false),
            capabilities: Some(core::Capabilities { add: Vec::new(), drop: texts(&["ALL"]) }),
            ..Default::default()
        }),
        tty: Some(false),
        ..Default::default()
    }
}

fn affinity() -> Option<core::Affinity> {
    Some(core::Affinity {
        node_affinity: Some(core::NodeAffinity {
            required_during_scheduling_ignored_during_execution: Some(core::NodeSelector {
                node_selector_terms: vec![core::NodeSelectorTerm {
                    match_expressions: vec![core::NodeSelectorRequirement {
                        key: text("zone"),
                        operator: text("In"),
                        values: texts(&["a", "b"]),
                    }],
                    ..Default::default()
                }],
            }),
            ..Default::default()
        }),
        pod_anti_affinity: Some(core::PodAntiAffinity {
            preferred_during_scheduling_ignored_during_execution: vec![
                core::WeightedPodAffinityTerm {
                    weight: Some(100),
                    pod_affinity_term: Some(core::PodAffinityTerm {
                        label_selector: selector(),
                        topology_key: text("host"),
                        ..Default::default()
                    }),
                },
            ],
            ..Default::default()
        }),
        ..Default::default()
    })
}

/// The message.
pub(super) fn rich() -> core::Pod {
    core::Pod {
        metadata: metadata("it"),
        spec: Some(core::PodSpec {
            volumes: volumes(),
            containers: vec![container()],
            ephemeral_containers: vec![core::EphemeralContainer {
                ephemeral_container_common: Some(core::EphemeralContainerCommon {
                    name: text("debug"),
                    stdin: Some(true),
                    resources: Some(core::ResourceRequirements::default()),
                    ..Default::default()
                }),
                target_container_name: text("web"),
            }],
            termination_grace_period_seconds: Some(0),
            automount_service_account_token: Some(false),
            node_selector: labels("disk", "ssd"),
            host_network: Some(true),
            security_context: Some(core::PodSecurityContext {
                supplemental_groups: vec![0, -1, i64::MAX],
                ..Default::default()
            }),
            affinity: affinity(),
            priority: Some(-5),
            tolerations: vec![core::Toleration {
                operator: text("Exists"),
                toleration_seconds: Some(-1),
                ..Default::default()
            }],
            ..Default::default()
        }),
        status: Some(core::PodStatus { phase: text(""), ..Default::default() }),
    }
}

fn rich_twin() -> Value {
    json!({
        "metadata": {"name": "it", "namespace": "default", "creationTimestamp": null},
        "spec": {
            "volumes": [
                {"name": "scratch", "emptyDir": {"sizeLimit": "1Gi"}},
                {"name": "settings", "configMap": {
                    "name": "settings", "items": [{"key": "a", "path": "b", "mode": 0o644}],
                    "defaultMode": 0, "optional": false
                }},
                {"name": "token", "projected": {"sources": [
                    {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}
                ]}}
            ],
            "containers": [{
                "name": "web", "image": "nginx", "args": ["", "--port=80"],
                "ports": [{"containerPort": 80}],
                "env": [
                    {"name": "A", "value": "1"},
                    {"name": "B", "valueFrom": {
                        "configMapKeyRef": {"name": "settings", "key": "k", "optional": true}
                    }}
                ],
                "resources": {
                    "limits": {"cpu": "1500m", "memory": "1Gi"}, "requests": {"cpu": "100m"}
                },
                "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}, "periodSeconds": 10},
                "livenessProbe": {"exec": {"command": ["true"]}},
                "securityContext": {
                    "runAsUser": 0, "privileged": false, "capabilities": {"drop": ["ALL"]}
                }
            }],
            "ephemeralContainers": [
                {"name": "debug", "stdin": true, "resources": {}, "targetContainerName": "web"}
            ],
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": false,
            "nodeSelector": {"disk": "ssd"},
            "hostNetwork": true,
            "securityContext": {"supplementalGroups": [0, -1, i64::MAX]},
            "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [
                        {"key": "zone", "operator": "In", "values": ["a", "b"]}
                    ]}]
                }},
                "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{
                    "weight": 100,
                    "podAffinityTerm": {
                        "labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "host"
                    }
                }]}
            },
            "priority": -5,
            "tolerations": [{"operator": "Exists", "tolerationSeconds": -1}]
        },
        "status": {}
    })
}

#[test]
fn r22_pod() {
    same("api.core.v1.Pod", &rich(), rich_twin());
}
