//! Pods and the kinds that make and guard them.

use k8s_pb::api::{
    apps::v1 as apps, autoscaling::v2 as autoscaling, batch::v1 as batch, core::v1 as core,
    policy::v1 as policy,
};
use k8s_pb::apimachinery::pkg::runtime::RawExtension;

use super::*;

const APPS: &str = "apps/v1";
const BATCH: &str = "batch/v1";

pub(super) fn rows() -> Vec<Row> {
    vec![
        pod(),
        pod_template(),
        replication_controller(),
        deployment(),
        replica_set(),
        stateful_set(),
        daemon_set(),
        controller_revision(),
        job(),
        cron_job(),
        autoscaler(),
        disruption_budget(),
    ]
}

fn container() -> core::Container {
    core::Container {
        name: text("web"),
        image: text("example.com/app:v1"),
        args: texts(&["serve", ""]),
        ports: vec![core::ContainerPort {
            name: text("http"),
            container_port: Some(80),
            host_port: Some(0),
            ..Default::default()
        }],
        env: vec![core::EnvVar {
            name: text("NODE"),
            value: text(""),
            value_from: Some(core::EnvVarSource {
                field_ref: Some(core::ObjectFieldSelector {
                    api_version: text(""),
                    field_path: text("spec.nodeName"),
                }),
                ..Default::default()
            }),
        }],
        resources: Some(core::ResourceRequirements {
            limits: quantities("memory", "1024Ki"),
            ..Default::default()
        }),
        readiness_probe: Some(core::Probe {
            handler: Some(core::ProbeHandler {
                http_get: Some(core::HttpGetAction {
                    path: text("/healthz"),
                    port: word("http"),
                    ..Default::default()
                }),
                ..Default::default()
            }),
            period_seconds: Some(5),
            ..Default::default()
        }),
        volume_mounts: vec![core::VolumeMount {
            name: text("config"),
            mount_path: text("/etc/app"),
            read_only: Some(true),
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn pod_spec(restart: &str) -> Option<core::PodSpec> {
    Some(core::PodSpec {
        containers: vec![container()],
        volumes: vec![core::Volume {
            name: text("config"),
            volume_source: Some(core::VolumeSource {
                config_map: Some(core::ConfigMapVolumeSource {
                    local_object_reference: Some(core::LocalObjectReference { name: text("it") }),
                    default_mode: Some(0o440),
                    ..Default::default()
                }),
                ..Default::default()
            }),
        }],
        restart_policy: text(restart),
        // The volume of a token would have a drawn name.
        automount_service_account_token: Some(false),
        tolerations: vec![core::Toleration {
            key: text("a"),
            operator: text("Exists"),
            toleration_seconds: Some(0),
            effect: text("NoExecute"),
            ..Default::default()
        }],
        ..Default::default()
    })
}

fn pod_spec_twin(restart: &str) -> Value {
    json!({
        "containers": [{
            "name": "web", "image": "example.com/app:v1", "args": ["serve", ""],
            "ports": [{ "name": "http", "containerPort": 80 }],
            "env": [{ "name": "NODE",
                "valueFrom": { "fieldRef": { "fieldPath": "spec.nodeName" } } }],
            "resources": { "limits": { "memory": "1Mi" } },
            "readinessProbe": { "httpGet": { "path": "/healthz", "port": "http" }, "periodSeconds": 5 },
            "volumeMounts": [{ "name": "config", "mountPath": "/etc/app", "readOnly": true }],
        }],
        "volumes": [{ "name": "config", "configMap": { "name": "it", "defaultMode": 0o440 } }],
        "restartPolicy": restart, "automountServiceAccountToken": false,
        "tolerations": [{ "key": "a", "operator": "Exists", "tolerationSeconds": 0,
            "effect": "NoExecute" }],
    })
}

fn template(restart: &str) -> Option<core::PodTemplateSpec> {
    Some(core::PodTemplateSpec {
        metadata: Some(meta::ObjectMeta { labels: pairs("app", "web"), ..Default::default() }),
        spec: pod_spec(restart),
    })
}

fn template_twin(restart: &str) -> Value {
    json!({ "metadata": { "labels": { "app": "web" } }, "spec": pod_spec_twin(restart) })
}

fn pod() -> Row {
    let message = core::Pod { metadata: named("it"), spec: pod_spec("Never"), status: None };
    row("v1", "pods", "Pod", &message, json!({ "spec": pod_spec_twin("Never") }))
}

fn pod_template() -> Row {
    let message = core::PodTemplate { metadata: named("it"), template: template("Always") };
    let twin = json!({ "template": template_twin("Always") });
    row("v1", "podtemplates", "PodTemplate", &message, twin)
}

fn replication_controller() -> Row {
    let message = core::ReplicationController {
        metadata: named("it"),
        spec: Some(core::ReplicationControllerSpec {
            replicas: Some(0),
            selector: pairs("app", "web"),
            template: template("Always"),
            ..Default::default()
        }),
        ..Default::default()
    };
    let twin = json!({ "spec": {
        "replicas": 0, "selector": { "app": "web" }, "template": template_twin("Always"),
    }});
    row("v1", "replicationcontrollers", "ReplicationController", &message, twin)
}

fn deployment() -> Row {
    let message = apps::Deployment {
        metadata: named("it"),
        spec: Some(apps::DeploymentSpec {
            replicas: Some(3),
            selector: selector(),
            template: template("Always"),
            strategy: Some(apps::DeploymentStrategy {
                r#type: text("RollingUpdate"),
                rolling_update: Some(apps::RollingUpdateDeployment {
                    max_unavailable: word("25%"),
                    max_surge: number(0),
                }),
            }),
            paused: Some(true),
            ..Default::default()
        }),
        ..Default::default()
    };
    let twin = json!({ "spec": {
        "replicas": 3, "selector": selector_twin(), "template": template_twin("Always"),
        "strategy": { "type": "RollingUpdate",
            "rollingUpdate": { "maxUnavailable": "25%", "maxSurge": 0 } },
        "paused": true,
    }});
    row(APPS, "deployments", "Deployment", &message, twin)
}

fn replica_set() -> Row {
    let message = apps::ReplicaSet {
        metadata: named("it"),
        spec: Some(apps::ReplicaSetSpec {
            replicas: Some(2),
            min_ready_seconds: Some(7),
            selector: selector(),
            template: template("Always"),
        }),
        ..Default::default()
    };
    let twin = json!({ "spec": {
        "replicas": 2, "minReadySeconds": 7, "selector": selector_twin(),
        "template": template_twin("Always"),
    }});
    row(APPS, "replicasets", "ReplicaSet", &message, twin)
}

fn stateful_set() -> Row {
    let claim = core::PersistentVolumeClaim {
        metadata: Some(meta::ObjectMeta { name: text("data"), ..Default::default() }),
        spec: Some(core::PersistentVolumeClaimSpec {
            access_modes: texts(&["ReadWriteOnce"]),
            resources: Some(core::VolumeResourceRequirements {
                requests: quantities("storage", "1Gi"),
                ..Default::default()
            }),
            ..Default::default()
        }),
        ..Default::default()
    };
    let message = apps::StatefulSet {
        metadata: named("it"),
        spec: Some(apps::StatefulSetSpec {
            selector: selector(),
            template: template("Always"),
            volume_claim_templates: vec![claim],
            service_name: text("it"),
            ordinals: Some(apps::StatefulSetOrdinals { start: Some(4) }),
            ..Default::default()
        }),
        ..Default::default()
    };
    let twin = json!({ "spec": {
        "selector": selector_twin(), "template": template_twin("Always"), "serviceName": "it",
        "volumeClaimTemplates": [{ "metadata": { "name": "data" }, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } },
        }}],
        "ordinals": { "start": 4 },
    }});
    row(APPS, "statefulsets", "StatefulSet", &message, twin)
}

fn daemon_set() -> Row {
    let message = apps::DaemonSet {
        metadata: named("it"),
        spec: Some(apps::DaemonSetSpec {
            selector: selector(),
            template: template("Always"),
            update_strategy: Some(apps::DaemonSetUpdateStrategy {
                r#type: text("OnDelete"),
                rolling_update: None,
            }),
            ..Default::default()
        }),
        ..Default::default()
    };
    let twin = json!({ "spec": {
        "selector": selector_twin(), "template": template_twin("Always"),
        "updateStrategy": { "type": "OnDelete" },
    }});
    row(APPS, "daemonsets", "DaemonSet", &message, twin)
}

fn controller_revision() -> Row {
    let message = apps::ControllerRevision {
        metadata: named("it"),
        data: Some(RawExtension { raw: Some(br#"{"spec":{"a":[1,null]}}"#.to_vec()) }),
        revision: Some(3),
    };
    let twin = json!({ "data": { "spec": { "a": [1, null] } }, "revision": 3 });
    row(APPS, "controllerrevisions", "ControllerRevision", &message, twin)
}

fn job_spec() -> Option<batch::JobSpec> {
    Some(batch::JobSpec {
        parallelism: Some(2),
        completions: Some(5),
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
        template: template("Never"),
        ..Default::default()
    })
}

fn job_spec_twin() -> Value {
    json!({
        "parallelism": 2, "completions": 5, "backoffLimit": 0, "suspend": false,
        "podFailurePolicy": { "rules": [
            { "action": "Ignore", "onExitCodes": { "operator": "In", "values": [1, 42, 137] } },
        ]},
        "template": template_twin("Never"),
    })
}

fn job() -> Row {
    // The labels of a generated selector name the uid, which is another for each.
    let spec =
        batch::JobSpec { manual_selector: Some(true), selector: selector(), ..job_spec().unwrap() };
    let message = batch::Job { metadata: named("it"), spec: Some(spec), status: None };
    let mut twin = job_spec_twin();
    twin["manualSelector"] = true.into();
    twin["selector"] = selector_twin();
    row(BATCH, "jobs", "Job", &message, json!({ "spec": twin }))
}

fn cron_job() -> Row {
    let message = batch::CronJob {
        metadata: named("it"),
        spec: Some(batch::CronJobSpec {
            schedule: text("*/5 * * * *"),
            time_zone: text("Europe/Berlin"),
            concurrency_policy: text("Forbid"),
            job_template: Some(batch::JobTemplateSpec {
                metadata: Some(meta::ObjectMeta {
                    labels: pairs("app", "web"),
                    ..Default::default()
                }),
                spec: job_spec(),
            }),
            ..Default::default()
        }),
        ..Default::default()
    };
    let twin = json!({ "spec": {
        "schedule": "*/5 * * * *", "timeZone": "Europe/Berlin", "concurrencyPolicy": "Forbid",
        "jobTemplate": { "metadata": { "labels": { "app": "web" } }, "spec": job_spec_twin() },
    }});
    row(BATCH, "cronjobs", "CronJob", &message, twin)
}

fn autoscaler() -> Row {
    let message = autoscaling::HorizontalPodAutoscaler {
        metadata: named("it"),
        spec: Some(autoscaling::HorizontalPodAutoscalerSpec {
            scale_target_ref: Some(autoscaling::CrossVersionObjectReference {
                kind: text("Deployment"),
                name: text("web"),
                api_version: text("apps/v1"),
            }),
            max_replicas: Some(10),
            metrics: vec![autoscaling::MetricSpec {
                r#type: text("Resource"),
                resource: Some(autoscaling::ResourceMetricSource {
                    name: text("cpu"),
                    target: Some(autoscaling::MetricTarget {
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
    let twin = json!({ "spec": {
        "scaleTargetRef": { "kind": "Deployment", "name": "web", "apiVersion": "apps/v1" },
        "maxReplicas": 10,
        "metrics": [{ "type": "Resource", "resource": {
            "name": "cpu", "target": { "type": "AverageValue", "averageValue": "500m" },
        }}],
    }});
    row("autoscaling/v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", &message, twin)
}

fn disruption_budget() -> Row {
    let message = policy::PodDisruptionBudget {
        metadata: named("it"),
        spec: Some(policy::PodDisruptionBudgetSpec {
            min_available: word("50%"),
            selector: selector(),
            ..Default::default()
        }),
        ..Default::default()
    };
    let twin = json!({ "spec": { "minAvailable": "50%", "selector": selector_twin() } });
    row("policy/v1", "poddisruptionbudgets", "PodDisruptionBudget", &message, twin)
}
