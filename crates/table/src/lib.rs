//! Objects as rows for people: which columns a kind has, and what stands in each cell.
//!
//! ```text
//!   Kind ──► Printer ──┬─► columns   names, types, priorities
//!                      └─► cells     one object and the time → one row
//! ```
//!
//! Only built-in kinds have printers here; kinds without one show their name and creation time.
//! No HTTP, no list metadata and no row objects: the server wraps rows into a Table. The time is
//! handed in.

mod access;
mod age;
mod autoscaler;
mod batch;
mod cluster;
mod column;
mod custom;
mod event;
mod network;
mod node;
mod pod;
mod reference;
mod resources;
mod row;
mod selector;
mod storage;
mod workload;

use jiff::Timestamp;
use serde_json::Value;
use tenure_machinery::kind::Kind;
use tenure_machinery::object::Object;

pub use age::{duration, since};
pub use column::{Column, definitions};
pub use custom::CustomColumns;
pub use reference::mark_active_version;
use row::RowInput;

/// How one kind is shown.
pub struct Printer {
    columns: &'static [Column],
    cells: fn(&RowInput<'_>) -> Vec<Value>,
}

impl Printer {
    /// The columns, in order.
    #[must_use]
    pub fn columns(&self) -> &'static [Column] {
        self.columns
    }

    /// The cells of one object, one per column.
    #[must_use]
    pub fn cells(&self, object: &Object, now: Timestamp) -> Vec<Value> {
        (self.cells)(&RowInput { object, now, events_group: false })
    }
}

/// The columns of a kind; name and creation time when it has no printer.
#[must_use]
pub fn columns(kind: &Kind) -> &'static [Column] {
    of(kind).unwrap_or(&row::DEFAULT).columns
}

/// How many of the columns Kubernetes has too; those after them are Tenure's own (retention R9).
#[must_use]
pub fn usual(kind: &Kind) -> usize {
    let is_subject = kind.group.is_empty() && matches!(kind.kind.as_ref(), "ConfigMap" | "Secret");
    columns(kind).len() - if is_subject { cluster::RETENTION_COLUMNS } else { 0 }
}

/// The cells of one object, one per column.
#[must_use]
pub fn cells(kind: &Kind, object: &Object, now: Timestamp) -> Vec<Value> {
    let row = RowInput { object, now, events_group: kind.group == "events.k8s.io" };
    (of(kind).unwrap_or(&row::DEFAULT).cells)(&row)
}

/// The cells of a list, in its order; some kinds mark one row by looking at all of them.
#[must_use]
pub fn list_cells(kind: &Kind, objects: &[&Object], now: Timestamp) -> Vec<Vec<Value>> {
    let mut rows: Vec<_> = objects.iter().map(|object| cells(kind, object, now)).collect();
    if kind.group == "storage.k8s.io" && kind.kind == "StorageClass" {
        storage::mark_default_class(objects, &mut rows);
    }
    rows
}

/// The row conditions of an object, a JSON list, where its kind has any (finished pods).
#[must_use]
pub fn conditions(kind: &Kind, object: &Object) -> Option<Value> {
    if kind.group.is_empty() && kind.kind == "Pod" { pod::conditions(object) } else { None }
}

/// Whether the kind has columns of its own.
///
/// An empty Table of a kind without them has `rows: null`, all others `rows: []`.
#[must_use]
pub fn has_printer(kind: &Kind) -> bool {
    of(kind).is_some()
}

/// A custom kind may bear the name of a built-in one, never its type.
fn of(kind: &Kind) -> Option<&'static Printer> {
    if kind.type_name.is_empty() { None } else { printer(&kind.group, &kind.kind) }
}

/// The printer of a built-in kind, or of a body that is no kind of its own (`Scale`, `Status`).
#[must_use]
pub fn printer(group: &str, kind: &str) -> Option<&'static Printer> {
    match group {
        "" => core_printer(kind),
        "apps" | "batch" | "policy" | "autoscaling" => workload_printer(group, kind),
        "admissionregistration.k8s.io"
        | "apiregistration.k8s.io"
        | "rbac.authorization.k8s.io"
        | "certificates.k8s.io" => access_printer(group, kind),
        "reference.authorization.k8s.io" => reference_printer(kind),
        "networking.k8s.io" | "discovery.k8s.io" => network_printer(group, kind),
        "storage.k8s.io" | "storagemigration.k8s.io" => storage_printer(kind),
        _ => cluster_printer(group, kind),
    }
}

fn core_printer(kind: &str) -> Option<&'static Printer> {
    Some(match kind {
        "Pod" => &pod::POD,
        "PodTemplate" => &pod::TEMPLATE,
        "ReplicationController" => &workload::REPLICATION_CONTROLLER,
        "Service" => &network::SERVICE,
        "Endpoints" => &network::ENDPOINTS,
        "Node" => &node::NODE,
        "Event" => &event::EVENT,
        "Namespace" => &cluster::NAMESPACE,
        "Secret" => &cluster::SECRET,
        "ConfigMap" => &cluster::CONFIG_MAP,
        "ServiceAccount" => &cluster::NAME_AND_AGE,
        "ResourceQuota" => &cluster::RESOURCE_QUOTA,
        "ComponentStatus" => &cluster::COMPONENT_STATUS,
        "PersistentVolume" => &storage::VOLUME,
        "PersistentVolumeClaim" => &storage::CLAIM,
        "Status" => &cluster::STATUS,
        _ => return None,
    })
}

fn workload_printer(group: &str, kind: &str) -> Option<&'static Printer> {
    Some(match (group, kind) {
        ("apps", "Deployment") => &workload::DEPLOYMENT,
        ("apps", "ReplicaSet") => &workload::REPLICA_SET,
        ("apps", "StatefulSet") => &workload::STATEFUL_SET,
        ("apps", "DaemonSet") => &workload::DAEMON_SET,
        ("apps", "ControllerRevision") => &workload::REVISION,
        ("batch", "Job") => &batch::JOB,
        ("batch", "CronJob") => &batch::CRON_JOB,
        ("policy", "PodDisruptionBudget") => &workload::DISRUPTION_BUDGET,
        ("autoscaling", "HorizontalPodAutoscaler") => &autoscaler::AUTOSCALER,
        ("autoscaling", "Scale") => &autoscaler::SCALE,
        _ => return None,
    })
}

fn access_printer(group: &str, kind: &str) -> Option<&'static Printer> {
    Some(match (group, kind) {
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => &access::BINDING,
        ("certificates.k8s.io", "CertificateSigningRequest") => &access::SIGNING_REQUEST,
        ("certificates.k8s.io", "ClusterTrustBundle") => &access::TRUST_BUNDLE,
        ("certificates.k8s.io", "PodCertificateRequest") => &access::POD_CERTIFICATE,
        ("apiregistration.k8s.io", "APIService") => &access::API_SERVICE,
        (
            "admissionregistration.k8s.io",
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration",
        ) => &access::WEBHOOKS,
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => &access::VALIDATING_POLICY,
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicy") => &access::MUTATING_POLICY,
        (
            "admissionregistration.k8s.io",
            "ValidatingAdmissionPolicyBinding" | "MutatingAdmissionPolicyBinding",
        ) => &access::POLICY_BINDING,
        _ => return None,
    })
}

fn reference_printer(kind: &str) -> Option<&'static Printer> {
    Some(match kind {
        "ReferenceStrategy" => &reference::STRATEGY,
        "ClusterReferenceConsumer" => &reference::CONSUMER,
        "ReferenceGrant" => &reference::GRANT,
        _ => return None,
    })
}

fn network_printer(group: &str, kind: &str) -> Option<&'static Printer> {
    Some(match (group, kind) {
        ("discovery.k8s.io", "EndpointSlice") => &network::ENDPOINT_SLICE,
        ("networking.k8s.io", "Ingress") => &network::INGRESS,
        ("networking.k8s.io", "IngressClass") => &network::INGRESS_CLASS,
        ("networking.k8s.io", "NetworkPolicy") => &network::POLICY,
        ("networking.k8s.io", "ServiceCIDR") => &network::SERVICE_CIDR,
        ("networking.k8s.io", "IPAddress") => &network::IP_ADDRESS,
        _ => return None,
    })
}

fn storage_printer(kind: &str) -> Option<&'static Printer> {
    Some(match kind {
        "StorageClass" => &storage::CLASS,
        "VolumeAttributesClass" => &storage::ATTRIBUTES_CLASS,
        "VolumeAttachment" => &storage::ATTACHMENT,
        "CSINode" => &storage::CSI_NODE,
        "CSIDriver" => &storage::CSI_DRIVER,
        "CSIStorageCapacity" => &storage::CSI_CAPACITY,
        "StorageVersionMigration" => &storage::MIGRATION,
        _ => return None,
    })
}

fn cluster_printer(group: &str, kind: &str) -> Option<&'static Printer> {
    Some(match (group, kind) {
        ("events.k8s.io", "Event") => &event::EVENT,
        ("coordination.k8s.io", "Lease") => &cluster::LEASE,
        ("coordination.k8s.io", "LeaseCandidate") => &cluster::LEASE_CANDIDATE,
        ("scheduling.k8s.io", "PriorityClass") => &cluster::PRIORITY_CLASS,
        ("node.k8s.io", "RuntimeClass") => &cluster::RUNTIME_CLASS,
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => &cluster::FLOW_SCHEMA,
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration") => &cluster::PRIORITY_LEVEL,
        ("resource.k8s.io", "ResourceClaim") => &resources::CLAIM,
        ("resource.k8s.io", "ResourceSlice") => &resources::SLICE,
        ("resource.k8s.io", "DeviceTaintRule") => &resources::TAINT_RULE,
        ("resource.k8s.io", "DeviceClass" | "ResourceClaimTemplate") => &cluster::NAME_AND_AGE,
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
