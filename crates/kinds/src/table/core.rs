//! Rows of the core group.

use tenure_machinery::kind::{Dependents, Kind, NameRule, NoRules, StatusMeta, Verbs};

use super::row::{KindBuilder, row};
use crate::config::{ConfigMapRules, SecretRules};
use crate::endpoints::EndpointsRules;
use crate::event::EventRules;
use crate::limits::{LimitRangeRules, ResourceQuotaRules};
use crate::namespace::NamespaceRules;
use crate::node::NodeRules;
use crate::persistent_volume::PersistentVolumeRules;
use crate::persistent_volume_claim::PersistentVolumeClaimRules;
use crate::service::ServiceRules;
use crate::service_account::ServiceAccountRules;
use crate::workloads::{PodRules, PodTemplateRules, ReplicationControllerRules};

const V1: (&str, &str) = ("", "v1");
const CREATE: &[&str] = &["create"];
const CREATE_GET: &[&str] = &["create", "get"];
const GET: &[&str] = &["get"];
const UPDATE: &[&str] = &["update"];

/// All of them, by plural.
pub(super) fn rows() -> Vec<Kind> {
    let rows = [
        row(V1, "Binding", "bindings", "api.core.v1.Binding", NoRules)
            .acted_on_by("the server, which binds the pod")
            .verbs(Verbs::CreateOnly),
        row(V1, "ConfigMap", "configmaps", "api.core.v1.ConfigMap", ConfigMapRules)
            .acted_on_by("the node agent, for the pods that mention it")
            .short(&["cm"]),
        row(V1, "Endpoints", "endpoints", "api.core.v1.Endpoints", EndpointsRules)
            .acted_on_by("the endpoints controller")
            .short(&["ep"])
            .stored_at("services/endpoints")
            .put_creates()
            .deprecated(
                "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
            ),
        event(),
        row(V1, "LimitRange", "limitranges", "api.core.v1.LimitRange", LimitRangeRules)
            .acted_on_by("admission")
            .short(&["limits"])
            .put_creates(),
        row(V1, "Namespace", "namespaces", "api.core.v1.Namespace", NamespaceRules)
            .acted_on_by("the namespace controller")
            .cluster()
            .short(&["ns"])
            .verbs(Verbs::NoDeleteCollection)
            .named(NameRule::Label)
            .returned()
            .field("status.phase", "")
            .sub("finalize", "Namespace", UPDATE)
            .status("Namespace", StatusMeta::Open),
        row(V1, "Node", "nodes", "api.core.v1.Node", NodeRules)
            .acted_on_by("the scheduler and the node controllers")
            .cluster()
            .short(&["no"])
            .stored_at("minions")
            .field("spec.unschedulable", "false")
            .proxy("NodeProxyOptions")
            .status("Node", StatusMeta::Open),
        claim(),
        volume(),
        pod(),
        row(V1, "PodTemplate", "podtemplates", "api.core.v1.PodTemplate", PodTemplateRules)
            .acted_on_by("whoever reads it")
            .counted()
            .returned(),
        replication_controller(),
        row(V1, "ResourceQuota", "resourcequotas", "api.core.v1.ResourceQuota", ResourceQuotaRules)
            .acted_on_by("admission and its controller")
            .short(&["quota"])
            .returned()
            .status("ResourceQuota", StatusMeta::Open),
        row(V1, "Secret", "secrets", "api.core.v1.Secret", SecretRules)
            .acted_on_by("the node agent, for the pods that mention it")
            .field("type", ""),
        row(
            V1,
            "ServiceAccount",
            "serviceaccounts",
            "api.core.v1.ServiceAccount",
            ServiceAccountRules,
        )
        .acted_on_by("admission and the issuer of tokens")
        .short(&["sa"])
        .returned()
        .foreign("token", "TokenRequest", ("authentication.k8s.io", "v1"), CREATE),
        service(),
    ];
    rows.into_iter().map(KindBuilder::done).collect()
}

fn event() -> KindBuilder {
    row(V1, "Event", "events", "api.core.v1.Event", EventRules)
        .acted_on_by("whoever reads it; it expires")
        .short(&["ev"])
        .named(NameRule::PathSegment)
        .put_creates()
        .dependents(Dependents::Unsupported)
        .field("involvedObject.kind", "")
        .field("involvedObject.namespace", "")
        .field("involvedObject.name", "")
        .field("involvedObject.uid", "")
        .field("involvedObject.apiVersion", "")
        .field("involvedObject.resourceVersion", "")
        .field("involvedObject.fieldPath", "")
        .field("reason", "")
        .field("reportingComponent", "")
        .field_at("source", "source.component", "")
        .or_field("reportingComponent")
        .field("type", "")
}

fn claim() -> KindBuilder {
    row(
        V1,
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        "api.core.v1.PersistentVolumeClaim",
        PersistentVolumeClaimRules,
    )
    .acted_on_by("the volume binder and the node agent")
    .short(&["pvc"])
    .returned()
    .status("PersistentVolumeClaim", StatusMeta::Open)
}

fn volume() -> KindBuilder {
    row(
        V1,
        "PersistentVolume",
        "persistentvolumes",
        "api.core.v1.PersistentVolume",
        PersistentVolumeRules,
    )
    .acted_on_by("the volume binder")
    .cluster()
    .short(&["pv"])
    .returned()
    .status("PersistentVolume", StatusMeta::Open)
}

fn pod() -> KindBuilder {
    row(V1, "Pod", "pods", "api.core.v1.Pod", PodRules)
        .acted_on_by("the scheduler and the node agent")
        .short(&["po"])
        .category("all")
        .counted()
        .returned()
        .field("spec.nodeName", "")
        .field_at("spec.host", "spec.nodeName", "")
        .field("spec.restartPolicy", "")
        .field("spec.schedulerName", "")
        .field("spec.serviceAccountName", "")
        .field("spec.hostNetwork", "false")
        .field("status.phase", "")
        .field("status.podIP", "")
        .field("status.podIPs", "")
        .field("status.nominatedNodeName", "")
        .sub("attach", "PodAttachOptions", CREATE_GET)
        .sub("binding", "Binding", CREATE)
        .part("ephemeralcontainers", "Pod")
        .foreign("eviction", "Eviction", ("policy", "v1"), CREATE)
        .sub("exec", "PodExecOptions", CREATE_GET)
        .sub("log", "Pod", GET)
        .sub("portforward", "PodPortForwardOptions", CREATE_GET)
        .proxy("PodProxyOptions")
        .part("resize", "Pod")
        .status("Pod", StatusMeta::KeepOwners)
}

fn replication_controller() -> KindBuilder {
    row(
        V1,
        "ReplicationController",
        "replicationcontrollers",
        "api.core.v1.ReplicationController",
        ReplicationControllerRules,
    )
    .acted_on_by("its controller")
    .short(&["rc"])
    .category("all")
    .stored_at("controllers")
    .counted()
    .dependents(Dependents::Orphan)
    .field("status.replicas", "0")
    .scale()
    .status("ReplicationController", StatusMeta::Open)
}

fn service() -> KindBuilder {
    row(V1, "Service", "services", "api.core.v1.Service", ServiceRules)
        .acted_on_by("the endpoints controllers and the proxy of the server")
        .short(&["svc"])
        .category("all")
        .stored_at("services/specs")
        .named(NameRule::Label)
        .put_creates()
        .returned()
        .field("spec.clusterIP", "")
        .field("spec.type", "")
        .proxy("ServiceProxyOptions")
        .status("Service", StatusMeta::Open)
}
