//! Rows of the groups that keep a cluster running: registration, events, certificates, leases, flow
//! control, storage migration.
//!
//! Where a kind is served as v1 but its facts are listed under a beta, the row names the beta type.

use tenure_machinery::kind::{Dependents, Kind, NameRule, NoRules, StatusMeta};

use super::row::{KindBuilder, row};
use crate::api_service::ApiServiceRules;
use crate::certificate::pod_request::PodCertificateRequestRules;
use crate::certificate::{CertificateSigningRequestRules, ClusterTrustBundleRules};
use crate::event::NewEventRules;
use crate::lease::LeaseRules;
use crate::runtime_class::RuntimeClassRules;

const REGISTRATION: (&str, &str) = ("apiregistration.k8s.io", "v1");
const EVENTS: (&str, &str) = ("events.k8s.io", "v1");
const CERTIFICATES: (&str, &str) = ("certificates.k8s.io", "v1");
const FLOW: (&str, &str) = ("flowcontrol.apiserver.k8s.io", "v1");

/// `apiregistration.k8s.io`.
pub(super) fn registration() -> Vec<Kind> {
    vec![
        row(
            REGISTRATION,
            "APIService",
            "apiservices",
            "kube_aggregator.apiregistration.v1.APIService",
            ApiServiceRules,
        )
        .acted_on_by("discovery and the server, which passes requests on")
        .cluster()
        .named(NameRule::PathSegment)
        .category("api-extensions")
        .stored_at("apiregistration.k8s.io/apiservices")
        .needs_version()
        .status("APIService", StatusMeta::Frozen)
        .done(),
    ]
}

/// `events.k8s.io`, the second view of core events.
pub(super) fn events() -> Vec<Kind> {
    vec![
        row(EVENTS, "Event", "events", "api.events.v1.Event", NewEventRules)
            .acted_on_by("whoever reads it; it expires")
            .short(&["ev"])
            .put_creates()
            .dependents(Dependents::Unsupported)
            .field("reason", "")
            .field("regarding.kind", "")
            .field("regarding.namespace", "")
            .field("regarding.name", "")
            .field("regarding.uid", "")
            .field("regarding.apiVersion", "")
            .field("regarding.resourceVersion", "")
            .field("regarding.fieldPath", "")
            .field("reportingController", "")
            .field("type", "")
            .done(),
    ]
}

/// `certificates.k8s.io`.
pub(super) fn certificates() -> Vec<Kind> {
    let rows = [
        row(
            CERTIFICATES,
            "CertificateSigningRequest",
            "certificatesigningrequests",
            "api.certificates.v1.CertificateSigningRequest",
            CertificateSigningRequestRules,
        )
        .acted_on_by("the signers of the server")
        .cluster()
        .short(&["csr"])
        .named(NameRule::PathSegment)
        .field("spec.signerName", "")
        .part("approval", "CertificateSigningRequest")
        .status("CertificateSigningRequest", StatusMeta::Open),
        row(
            CERTIFICATES,
            "ClusterTrustBundle",
            "clustertrustbundles",
            "api.certificates.v1beta1.ClusterTrustBundle",
            ClusterTrustBundleRules,
        )
        .acted_on_by("the node agent")
        .cluster()
        .needs_version()
        .named(NameRule::PathSegment)
        .field("spec.signerName", ""),
        row(
            CERTIFICATES,
            "PodCertificateRequest",
            "podcertificaterequests",
            "api.certificates.v1beta1.PodCertificateRequest",
            PodCertificateRequestRules,
        )
        .acted_on_by("whoever signs for its signer")
        .needs_version()
        .field("spec.signerName", "")
        .field("spec.podName", "")
        .field("spec.nodeName", "")
        .status("PodCertificateRequest", StatusMeta::Frozen),
    ];
    rows.into_iter().map(KindBuilder::done).collect()
}

/// `coordination.k8s.io`.
pub(super) fn coordination() -> Vec<Kind> {
    vec![
        row(
            ("coordination.k8s.io", "v1"),
            "Lease",
            "leases",
            "api.coordination.v1.Lease",
            LeaseRules,
        )
        .acted_on_by("whoever holds it; the node controllers, for nodes")
        .needs_version()
        .put_creates()
        .done(),
    ]
}

/// `node.k8s.io`.
pub(super) fn node() -> Vec<Kind> {
    vec![
        row(
            ("node.k8s.io", "v1"),
            "RuntimeClass",
            "runtimeclasses",
            "api.node.v1.RuntimeClass",
            RuntimeClassRules,
        )
        .acted_on_by("admission and the container runtime")
        .cluster()
        .needs_version()
        .put_creates()
        .done(),
    ]
}

/// `flowcontrol.apiserver.k8s.io`; schema-driven storage only.
pub(super) fn flow_control() -> Vec<Kind> {
    let rows = [
        row(FLOW, "FlowSchema", "flowschemas", "api.flowcontrol.v1.FlowSchema", NoRules)
            .ignored("requests are not sorted by it")
            .status("FlowSchema", StatusMeta::Frozen),
        row(
            FLOW,
            "PriorityLevelConfiguration",
            "prioritylevelconfigurations",
            "api.flowcontrol.v1.PriorityLevelConfiguration",
            NoRules,
        )
        .ignored("requests are not limited by it")
        .status("PriorityLevelConfiguration", StatusMeta::Frozen),
    ];
    rows.into_iter().map(|row| row.cluster().counted().done()).collect()
}

/// `storagemigration.k8s.io`.
pub(super) fn storage_migration() -> Vec<Kind> {
    vec![
        row(
            ("storagemigration.k8s.io", "v1"),
            "StorageVersionMigration",
            "storageversionmigrations",
            "api.storagemigration.v1beta1.StorageVersionMigration",
            NoRules,
        )
        .acted_on_by("the storage version migrator")
        .cluster()
        .needs_version()
        .status("StorageVersionMigration", StatusMeta::Frozen)
        .done(),
    ]
}
