//! One kind after the other, each beside its JSON twin.

use k8s_pb::api::{
    apps::v1 as apps, authentication::v1 as authentication, authorization::v1 as authorization,
    autoscaling, batch::v1 as batch, coordination::v1 as coordination,
    networking::v1 as networking, policy::v1 as policy, rbac::v1 as rbac,
};
use k8s_pb::apimachinery::pkg::runtime::RawExtension;

use super::*;

fn named() -> Value {
    json!({"name": "it", "namespace": "default", "creationTimestamp": null})
}

#[test]
fn r22_config_map() {
    let message = core::ConfigMap {
        metadata: metadata("it"),
        data: BTreeMap::from([("a".to_owned(), "1".to_owned()), (String::new(), String::new())]),
        binary_data: BTreeMap::from([("b".to_owned(), vec![0, 255])]),
        immutable: Some(false),
    };
    let twin = json!({
        "metadata": named(), "data": {"a": "1", "": ""}, "binaryData": {"b": "AP8="}, "immutable": false
    });
    same("api.core.v1.ConfigMap", &message, twin);
}

#[test]
fn r22_secret() {
    let message = core::Secret {
        metadata: metadata("it"),
        data: BTreeMap::from([("a".to_owned(), b"hello".to_vec()), ("b".to_owned(), Vec::new())]),
        r#type: text("Opaque"),
        ..Default::default()
    };
    let twin = json!({"metadata": named(), "data": {"a": "aGVsbG8=", "b": ""}, "type": "Opaque"});
    same("api.core.v1.Secret", &message, twin);
}

#[test]
fn r22_namespace() {
    let message = core::Namespace {
        metadata: metadata("it"),
        spec: Some(core::NamespaceSpec { finalizers: texts(&["kubernetes"]) }),
        status: Some(core::NamespaceStatus { phase: text(""), ..Default::default() }),
    };
    let twin = json!({"metadata": named(), "spec": {"finalizers": ["kubernetes"]}, "status": {}});
    same("api.core.v1.Namespace", &message, twin);
}

#[test]
fn r22_metadata_with_owners_and_managed_fields() {
    let message = core::Namespace {
        metadata: Some(meta::ObjectMeta {
            name: text("it"),
            generation: Some(7),
            creation_timestamp: Some(meta::Time { seconds: Some(1_600_000_000), nanos: Some(5) }),
            deletion_timestamp: Some(meta::Time { seconds: Some(0), nanos: Some(0) }),
            deletion_grace_period_seconds: Some(0),
            finalizers: texts(&["a/b", "c/d"]),
            owner_references: vec![meta::OwnerReference {
                api_version: text("v1"),
                kind: text("ConfigMap"),
                name: text("owner"),
                uid: text("u"),
                controller: Some(true),
                block_owner_deletion: Some(false),
            }],
            managed_fields: vec![meta::ManagedFieldsEntry {
                manager: text("me"),
                operation: text("Apply"),
                api_version: text("v1"),
                time: Some(meta::Time { seconds: Some(1), nanos: None }),
                fields_type: text("FieldsV1"),
                fields_v1: Some(meta::FieldsV1 {
                    raw: Some(br#"{"f:metadata":{"f:labels":{}}}"#.to_vec()),
                }),
                subresource: text(""),
            }],
            ..Default::default()
        }),
        ..Default::default()
    };
    let twin = json!({"metadata": {
        "name": "it", "generation": 7,
        "creationTimestamp": "2020-09-13T12:26:40Z",
        "deletionTimestamp": "1970-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 0,
        "finalizers": ["a/b", "c/d"],
        "ownerReferences": [{
            "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "u",
            "controller": true, "blockOwnerDeletion": false
        }],
        "managedFields": [{
            "manager": "me", "operation": "Apply", "apiVersion": "v1", "time": "1970-01-01T00:00:01Z",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:metadata": {"f:labels": {}}}
        }]
    }});
    same("api.core.v1.Namespace", &message, twin);
}

#[test]
fn r22_deployment() {
    let message = apps::Deployment {
        metadata: metadata("it"),
        spec: Some(apps::DeploymentSpec {
            replicas: Some(0),
            selector: selector(),
            template: template(),
            strategy: Some(apps::DeploymentStrategy {
                r#type: text("RollingUpdate"),
                rolling_update: Some(apps::RollingUpdateDeployment {
                    max_unavailable: percent("25%"),
                    max_surge: number(0),
                }),
            }),
            min_ready_seconds: Some(0),
            paused: Some(false),
            ..Default::default()
        }),
        status: Some(apps::DeploymentStatus { replicas: Some(0), ..Default::default() }),
    };
    let twin = json!({
        "metadata": named(),
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template_twin(),
            "strategy": {
                "type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": 0}
            }
        },
        "status": {}
    });
    same("api.apps.v1.Deployment", &message, twin);
}

#[test]
fn r22_controller_revision_holds_raw_json() {
    let message = apps::ControllerRevision {
        metadata: metadata("it"),
        data: Some(RawExtension { raw: Some(br#"{"spec":{"a":[1,null]}}"#.to_vec()) }),
        revision: Some(3),
    };
    let twin = json!({"metadata": named(), "data": {"spec": {"a": [1, null]}}, "revision": 3});
    same("api.apps.v1.ControllerRevision", &message, twin);
}

#[test]
fn r22_service() {
    let message = core::Service {
        metadata: metadata("it"),
        spec: Some(core::ServiceSpec {
            ports: vec![core::ServicePort {
                name: text("http"),
                protocol: text("TCP"),
                port: Some(80),
                target_port: percent("web"),
                node_port: Some(0),
                ..Default::default()
            }],
            selector: labels("app", "web"),
            cluster_ip: text("None"),
            cluster_ips: texts(&["None"]),
            r#type: text("ClusterIP"),
            publish_not_ready_addresses: Some(true),
            ..Default::default()
        }),
        status: Some(core::ServiceStatus {
            load_balancer: Some(core::LoadBalancerStatus::default()),
            ..Default::default()
        }),
    };
    let twin = json!({
        "metadata": named(),
        "spec": {
            "ports": [{"name": "http", "protocol": "TCP", "port": 80, "targetPort": "web"}],
            "selector": {"app": "web"}, "clusterIP": "None", "clusterIPs": ["None"],
            "type": "ClusterIP", "publishNotReadyAddresses": true
        },
        "status": {"loadBalancer": {}}
    });
    same("api.core.v1.Service", &message, twin);
}

fn job_spec() -> Option<batch::JobSpec> {
    Some(batch::JobSpec {
        parallelism: Some(2),
        backoff_limit: Some(0),
        suspend: Some(false),
        pod_failure_policy: Some(batch::PodFailurePolicy {
            rules: vec![batch::PodFailurePolicyRule {
                action: text("Ignore"),
                on_exit_codes: Some(batch::PodFailurePolicyOnExitCodesRequirement {
                    operator: text("In"),
                    values: vec![1, 42, 137],
                    ..Default::default()
                }),
                ..Default::default()
            }],
        }),
        template: template(),
        ..Default::default()
    })
}

fn job_spec_twin() -> Value {
    json!({
        "parallelism": 2, "backoffLimit": 0, "suspend": false,
        "podFailurePolicy": {"rules": [
            {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [1, 42, 137]}}
        ]},
        "template": template_twin()
    })
}

#[test]
fn r22_job() {
    let message = batch::Job { metadata: metadata("it"), spec: job_spec(), status: None };
    same("api.batch.v1.Job", &message, json!({"metadata": named(), "spec": job_spec_twin()}));
}

#[test]
fn r22_cron_job() {
    let message = batch::CronJob {
        metadata: metadata("it"),
        spec: Some(batch::CronJobSpec {
            schedule: text("* * * * *"),
            concurrency_policy: text("Forbid"),
            job_template: Some(batch::JobTemplateSpec {
                metadata: Some(meta::ObjectMeta::default()),
                spec: job_spec(),
            }),
            ..Default::default()
        }),
        status: Some(batch::CronJobStatus {
            last_schedule_time: Some(meta::Time { seconds: Some(60), nanos: Some(0) }),
            ..Default::default()
        }),
    };
    let twin = json!({
        "metadata": named(),
        "spec": {
            "schedule": "* * * * *", "concurrencyPolicy": "Forbid",
            "jobTemplate": {"metadata": {}, "spec": job_spec_twin()}
        },
        "status": {"lastScheduleTime": "1970-01-01T00:01:00Z"}
    });
    same("api.batch.v1.CronJob", &message, twin);
}

#[test]
fn r22_persistent_volume_claim() {
    let message = core::PersistentVolumeClaim {
        metadata: metadata("it"),
        spec: Some(core::PersistentVolumeClaimSpec {
            access_modes: texts(&["ReadWriteOnce"]),
            resources: Some(core::VolumeResourceRequirements {
                requests: quantities(&[("storage", "1024Mi")]),
                ..Default::default()
            }),
            storage_class_name: text(""),
            volume_name: text(""),
            ..Default::default()
        }),
        status: Some(core::PersistentVolumeClaimStatus::default()),
    };
    let twin = json!({
        "metadata": named(),
        "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": ""
        },
        "status": {}
    });
    same("api.core.v1.PersistentVolumeClaim", &message, twin);
}

#[test]
fn r22_persistent_volume_lies_open() {
    let message = core::PersistentVolume {
        metadata: metadata("it"),
        spec: Some(core::PersistentVolumeSpec {
            capacity: quantities(&[("storage", "5Gi")]),
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
    let twin = json!({
        "metadata": named(),
        "spec": {"capacity": {"storage": "5Gi"}, "hostPath": {"path": "/data", "type": ""}}
    });
    same("api.core.v1.PersistentVolume", &message, twin);
}

#[test]
fn r22_lease() {
    let message = coordination::Lease {
        metadata: metadata("it"),
        spec: Some(coordination::LeaseSpec {
            holder_identity: text("me"),
            lease_duration_seconds: Some(15),
            acquire_time: Some(meta::MicroTime {
                seconds: Some(1_600_000_000),
                nanos: Some(123_456_789),
            }),
            renew_time: Some(meta::MicroTime { seconds: Some(1), nanos: Some(0) }),
            lease_transitions: Some(0),
            ..Default::default()
        }),
    };
    let twin = json!({
        "metadata": named(),
        "spec": {
            "holderIdentity": "me", "leaseDurationSeconds": 15,
            "acquireTime": "2020-09-13T12:26:40.123456Z",
            "renewTime": "1970-01-01T00:00:01.000000Z", "leaseTransitions": 0
        }
    });
    same("api.coordination.v1.Lease", &message, twin);
}

#[test]
fn r22_event() {
    let message = core::Event {
        metadata: metadata("it"),
        involved_object: Some(core::ObjectReference {
            kind: text("Pod"),
            name: text("web"),
            ..Default::default()
        }),
        reason: text("Started"),
        message: text("größer"),
        source: Some(core::EventSource { component: text("kubelet"), host: text("") }),
        first_timestamp: Some(meta::Time { seconds: Some(1), nanos: Some(0) }),
        last_timestamp: Some(meta::Time::default()),
        count: Some(2),
        r#type: text("Normal"),
        event_time: Some(meta::MicroTime::default()),
        reporting_component: text(""),
        ..Default::default()
    };
    let twin = json!({
        "metadata": named(), "involvedObject": {"kind": "Pod", "name": "web"},
        "reason": "Started", "message": "größer", "source": {"component": "kubelet"},
        "firstTimestamp": "1970-01-01T00:00:01Z", "lastTimestamp": null, "count": 2,
        "type": "Normal", "eventTime": null, "reportingComponent": "", "reportingInstance": ""
    });
    same("api.core.v1.Event", &message, twin);
}

#[test]
fn r22_role() {
    let message = rbac::Role {
        metadata: metadata("it"),
        rules: vec![rbac::PolicyRule {
            verbs: texts(&["get", "list"]),
            api_groups: texts(&["", "apps"]),
            resources: texts(&["pods"]),
            ..Default::default()
        }],
    };
    let twin = json!({
        "metadata": named(),
        "rules": [{"verbs": ["get", "list"], "apiGroups": ["", "apps"], "resources": ["pods"]}]
    });
    same("api.rbac.v1.Role", &message, twin);
}

#[test]
fn r22_pod_disruption_budget() {
    for (wire, twin) in [(number(0), json!(0)), (percent("50%"), json!("50%"))] {
        let message = policy::PodDisruptionBudget {
            metadata: metadata("it"),
            spec: Some(policy::PodDisruptionBudgetSpec {
                min_available: wire,
                selector: selector(),
                ..Default::default()
            }),
            ..Default::default()
        };
        let twin = json!({
            "metadata": named(),
            "spec": {"minAvailable": twin, "selector": {"matchLabels": {"app": "web"}}}
        });
        same("api.policy.v1.PodDisruptionBudget", &message, twin);
    }
}

#[test]
fn r22_horizontal_pod_autoscaler() {
    use autoscaling::v2;
    let message = v2::HorizontalPodAutoscaler {
        metadata: metadata("it"),
        spec: Some(v2::HorizontalPodAutoscalerSpec {
            scale_target_ref: Some(v2::CrossVersionObjectReference {
                kind: text("Deployment"),
                name: text("web"),
                api_version: text("apps/v1"),
            }),
            min_replicas: Some(0),
            max_replicas: Some(10),
            metrics: vec![v2::MetricSpec {
                r#type: text("Resource"),
                resource: Some(v2::ResourceMetricSource {
                    name: text("cpu"),
                    target: Some(v2::MetricTarget {
                        r#type: text("AverageValue"),
                        average_value: Some(Quantity { string: text("0.5") }),
                        ..Default::default()
                    }),
                }),
                ..Default::default()
            }],
            ..Default::default()
        }),
        ..Default::default()
    };
    let twin = json!({
        "metadata": named(),
        "spec": {
            "scaleTargetRef": {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"},
            "minReplicas": 0, "maxReplicas": 10,
            "metrics": [{"type": "Resource", "resource": {
                "name": "cpu", "target": {"type": "AverageValue", "averageValue": "500m"}
            }}]
        }
    });
    same("api.autoscaling.v2.HorizontalPodAutoscaler", &message, twin);
}

#[test]
fn r22_ingress() {
    let backend = networking::IngressBackend {
        service: Some(networking::IngressServiceBackend {
            name: text("web"),
            port: Some(networking::ServiceBackendPort { name: text(""), number: Some(80) }),
        }),
        ..Default::default()
    };
    let message = networking::Ingress {
        metadata: metadata("it"),
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
    let twin = json!({
        "metadata": named(),
        "spec": {
            "ingressClassName": "nginx",
            "rules": [{"host": "a.example", "http": {"paths": [{
                "path": "/", "pathType": "Prefix",
                "backend": {"service": {"name": "web", "port": {"number": 80}}}
            }]}}]
        }
    });
    same("api.networking.v1.Ingress", &message, twin);
}

#[test]
fn r22_delete_options_and_eviction() {
    let options = meta::DeleteOptions {
        grace_period_seconds: Some(0),
        preconditions: Some(meta::Preconditions { uid: text("u"), resource_version: None }),
        propagation_policy: text("Foreground"),
        dry_run: texts(&["All"]),
        ..Default::default()
    };
    let twin = json!({
        "gracePeriodSeconds": 0, "preconditions": {"uid": "u"}, "propagationPolicy": "Foreground",
        "dryRun": ["All"]
    });
    same("apimachinery.meta.v1.DeleteOptions", &options, twin.clone());
    let eviction = policy::Eviction { metadata: metadata("it"), delete_options: Some(options) };
    same("api.policy.v1.Eviction", &eviction, json!({"metadata": named(), "deleteOptions": twin}));
}

#[test]
fn r22_subresources_and_reviews() {
    use autoscaling::v1;
    let scale = v1::Scale {
        metadata: metadata("it"),
        spec: Some(v1::ScaleSpec { replicas: Some(3) }),
        status: Some(v1::ScaleStatus { replicas: Some(0), selector: text("") }),
    };
    let twin = json!({"metadata": named(), "spec": {"replicas": 3}, "status": {"replicas": 0}});
    same("api.autoscaling.v1.Scale", &scale, twin);

    let binding = core::Binding {
        metadata: metadata("it"),
        target: Some(core::ObjectReference {
            kind: text("Node"),
            name: text("n"),
            ..Default::default()
        }),
    };
    let twin = json!({"metadata": named(), "target": {"kind": "Node", "name": "n"}});
    same("api.core.v1.Binding", &binding, twin);

    let token = authentication::TokenRequest {
        metadata: metadata("it"),
        spec: Some(authentication::TokenRequestSpec {
            audiences: texts(&["api"]),
            expiration_seconds: Some(3_600),
            bound_object_ref: None,
        }),
        status: None,
    };
    let twin = json!({
        "metadata": named(), "spec": {"audiences": ["api"], "expirationSeconds": 3600}
    });
    same("api.authentication.v1.TokenRequest", &token, twin);

    let review = authorization::SubjectAccessReview {
        metadata: metadata("it"),
        spec: Some(authorization::SubjectAccessReviewSpec {
            user: text("me"),
            groups: texts(&["a"]),
            extra: BTreeMap::from([(
                "k".to_owned(),
                authorization::ExtraValue { items: texts(&["x", "y"]) },
            )]),
            ..Default::default()
        }),
        status: None,
    };
    let twin = json!({
        "metadata": named(), "spec": {"user": "me", "groups": ["a"], "extra": {"k": ["x", "y"]}}
    });
    same("api.authorization.v1.SubjectAccessReview", &review, twin);
}
