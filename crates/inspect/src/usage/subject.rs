//! ConfigMaps and Secrets as their rows tell them: names, types, counts and metadata. Their contents are never asked for.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use tenure_kinds::podspec::ReferenceKind;

use crate::meta::OwnerReference;
use crate::unused::UsageState;
use crate::wire::or_default;

/// The two kinds and their plurals.
pub(crate) const SUBJECTS: [(ReferenceKind, &str); 2] =
    [(ReferenceKind::ConfigMap, "configmaps"), (ReferenceKind::Secret, "secrets")];

/// The namespaces of the cluster itself.
const SYSTEM_NAMESPACES: [&str; 3] = ["kube-system", "kube-public", "kube-node-lease"];

/// Labels and annotations by which programs find what they load, whatever its name.
const FOUND_BY: [&str; 18] = [
    "tenure.dev/dynamic",
    "grafana_dashboard",
    "grafana_datasource",
    "grafana_alert",
    "grafana_notifier",
    "grafana_plugin",
    "grafana_folder",
    "k8s-sidecar-target-directory",
    "argocd.argoproj.io/secret-type",
    "cluster.x-k8s.io/cluster-name",
    "jenkins.io/credentials-type",
    "velero.io/plugin-config",
    "prometheus_rule",
    "loki_rule",
    "kubed.appscode.com/sync",
    "replicator.v1.mittwald.de/replicate-to",
    "replicator.v1.mittwald.de/replication-allowed",
    "reflector.v1.k8s.emberstack.com/reflection-allowed",
];

/// ConfigMaps that a platform puts into every namespace.
const PLATFORM: [&str; 3] =
    ["istio-ca-root-cert", "openshift-service-ca.crt", "linkerd-identity-trust-roots"];

/// One ConfigMap or Secret.
#[derive(Clone, Debug)]
pub struct UsageSubject {
    /// Which of the two.
    pub kind: ReferenceKind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// How many entries it has, as far as its row tells.
    pub entries: Option<u64>,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// Whether it opted in to retention.
    pub opted_in: bool,
    /// Its owners.
    pub owners: Vec<OwnerReference>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// What is known of it without looking at anything else.
    pub(crate) known: Option<(UsageState, String)>,
}

/// One page of rows.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TablePage {
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) metadata: PageMeta,
    #[serde(default, deserialize_with = "or_default")]
    column_definitions: Vec<ColumnName>,
    #[serde(default, deserialize_with = "or_default")]
    rows: Vec<TableRow>,
}

#[derive(Default, Deserialize)]
pub(crate) struct PageMeta {
    #[serde(default, rename = "continue", deserialize_with = "or_default")]
    pub(crate) next: String,
}

#[derive(Deserialize)]
struct ColumnName {
    #[serde(default, deserialize_with = "or_default")]
    name: String,
}

#[derive(Deserialize)]
struct TableRow {
    #[serde(default, deserialize_with = "or_default")]
    cells: Vec<Value>,
    #[serde(default, deserialize_with = "or_default")]
    object: RowObject,
}

#[derive(Default, Deserialize)]
struct RowObject {
    #[serde(default, deserialize_with = "or_default")]
    metadata: RowMeta,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RowMeta {
    name: String,
    namespace: String,
    uid: String,
    creation_timestamp: Option<Timestamp>,
    #[serde(deserialize_with = "or_default")]
    owner_references: Vec<OwnerReference>,
    #[serde(deserialize_with = "or_default")]
    labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "or_default")]
    annotations: BTreeMap<String, String>,
}

impl TablePage {
    /// The subjects of the page.
    pub(crate) fn subjects(self, kind: ReferenceKind) -> impl Iterator<Item = UsageSubject> {
        let column = |name: &str| {
            self.column_definitions.iter().position(|column| column.name.eq_ignore_ascii_case(name))
        };
        let (of_type, data, collected) = (column("Type"), column("Data"), column("GC"));
        self.rows.into_iter().map(move |row| {
            let cell = |at: Option<usize>| at.and_then(|at| row.cells.get(at));
            let text = |at: Option<usize>| cell(at).and_then(Value::as_str).unwrap_or_default();
            let entries = cell(data).and_then(|cell| {
                cell.as_u64().or_else(|| cell.as_str().and_then(|text| text.parse().ok()))
            });
            let meta = row.object.metadata;
            let annotated = meta.annotations.get("tenure.dev/controllers-as-owners");
            UsageSubject {
                kind,
                known: known(kind, text(of_type), &meta),
                entries,
                opted_in: text(collected) == "auto" || annotated.is_some_and(|said| said == "true"),
                namespace: meta.namespace,
                name: meta.name,
                uid: meta.uid,
                created: meta.creation_timestamp,
                owners: meta.owner_references,
                labels: meta.labels,
            }
        })
    }
}

/// What is known of a subject by itself.
fn known(kind: ReferenceKind, of_type: &str, meta: &RowMeta) -> Option<(UsageState, String)> {
    let used = |why: &str| Some((UsageState::Used, why.to_owned()));
    let unknown = |why: String| Some((UsageState::Unknown, why));
    let label = |key: &str| meta.labels.get(key).map(String::as_str).unwrap_or_default();
    match (kind, of_type) {
        (ReferenceKind::Secret, "kubernetes.io/service-account-token") => {
            return used("the token of a ServiceAccount");
        }
        (ReferenceKind::Secret, "bootstrap.kubernetes.io/token") => {
            return used("a token by which nodes join");
        }
        (_, "helm.sh/release.v1") => return used("the record of a Helm release"),
        _ => {}
    }
    if label("owner") == "helm" || label("OWNER") == "TILLER" {
        return used("the record of a Helm release");
    }
    if meta.annotations.contains_key("control-plane.alpha.kubernetes.io/leader") {
        return used("a leader election keeps its state in it");
    }
    if kind == ReferenceKind::ConfigMap && meta.name == "kube-root-ca.crt" {
        return used("the cluster gives it to every namespace for its pods");
    }
    if kind == ReferenceKind::ConfigMap && PLATFORM.contains(&meta.name.as_str()) {
        return unknown("a platform gives it to every namespace".to_owned());
    }
    if SYSTEM_NAMESPACES.contains(&meta.namespace.as_str()) {
        return unknown("parts of the cluster read objects of this namespace by name".to_owned());
    }
    let found_by = |key: &str| meta.labels.contains_key(key) || meta.annotations.contains_key(key);
    if let Some(key) = FOUND_BY.into_iter().find(|key| found_by(key)) {
        return unknown(format!("programs find it by `{key}`"));
    }
    None
}
