//! The ownership report: what owns what is looked at again and again, and told as metrics and Events (A73).

use std::collections::BTreeSet;

use super::InstallError;
use super::access::is_image;
use super::template::{documents, fill};
use crate::{AttachFeature, ServerVersion};

/// Types that own or are owned, by group. Secrets and ConfigMaps are read only where somebody asks for it.
const TYPES: [(&str, &[&str]); 9] = [
    (
        "",
        &[
            "endpoints",
            "namespaces",
            "nodes",
            "persistentvolumeclaims",
            "persistentvolumes",
            "pods",
            "podtemplates",
            "replicationcontrollers",
            "serviceaccounts",
            "services",
        ],
    ),
    ("apps", &["controllerrevisions", "daemonsets", "deployments", "replicasets", "statefulsets"]),
    ("autoscaling", &["horizontalpodautoscalers"]),
    ("batch", &["cronjobs", "jobs"]),
    ("coordination.k8s.io", &["leases"]),
    ("discovery.k8s.io", &["endpointslices"]),
    ("networking.k8s.io", &["ingresses", "networkpolicies"]),
    ("policy", &["poddisruptionbudgets"]),
    ("rbac.authorization.k8s.io", &["rolebindings", "roles"]),
];

/// What is reported about, and what runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportInstall {
    /// More types, as `(group, plural)`.
    pub types: BTreeSet<(String, String)>,
    /// What runs.
    pub image: String,
}

/// What reports about owners on a cluster of this version.
///
/// # Errors
/// The server is too old, or a name is none.
pub fn ownership_report(
    server: ServerVersion,
    wanted: &ReportInstall,
) -> Result<String, InstallError> {
    let (feature, needs) = (AttachFeature::OwnershipReport, ServerVersion::OLDEST);
    if server < needs {
        return Err(InstallError::TooOld { feature, needs, server });
    }
    if !is_image(&wanted.image) {
        return Err(InstallError::Name { what: "an image", name: wanted.image.clone() });
    }
    let rule = |group: &str, plurals: &str| {
        format!("- apiGroups: ['{group}']\n  resources: [{plurals}]\n  verbs: [get, list, watch]")
    };
    let mut rules: Vec<String> =
        TYPES.iter().map(|(group, plurals)| rule(group, &plurals.join(", "))).collect();
    rules.extend(wanted.types.iter().map(|(group, plural)| rule(group, plural)));
    let rights = include_str!("../../objects/report-rights.yaml");
    let places = [
        ("NAME", "tenure-ownership-report"),
        ("IMAGE", &format!("'{}'", wanted.image)),
        ("ARGUMENTS", "[attach, --features, ownership-report, --listen, '0.0.0.0:8080']"),
    ];
    let texts = [
        include_str!("../../objects/namespace.yaml").to_owned(),
        fill(rights, &[("RULES", &rules.join("\n"))]),
        fill(include_str!("../../objects/process.yaml"), &places),
    ];
    Ok(documents(feature, &texts))
}
