//! What is asked of a cluster before anything is said of it. Nothing is written: pods are tried by a dry run.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::api::{self, ApiError, text};
use crate::{FEATURE, MANAGED_BY, NAMESPACE, ServerVersion, VERSION};

const ADMISSION: &str = "admissionregistration.k8s.io";
const EXTENSIONS: &str = "apiextensions.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";
/// Where types are looked for.
const GROUPS: [&str; 2] = [ADMISSION, EXTENSIONS];
/// What must be allowed to whoever installs a feature: verb, group, plural, namespace.
const RIGHTS: [(&str, &str, &str, &str, &str); 13] = [
    ("downward", "create", ADMISSION, "mutatingadmissionpolicies", ""),
    ("downward", "create", ADMISSION, "mutatingadmissionpolicybindings", ""),
    ("downward", "create", ADMISSION, "validatingadmissionpolicies", ""),
    ("downward", "create", ADMISSION, "validatingadmissionpolicybindings", ""),
    ("access", "create", EXTENSIONS, "customresourcedefinitions", ""),
    ("access", "create", ADMISSION, "validatingadmissionpolicies", ""),
    ("access", "create", ADMISSION, "validatingadmissionpolicybindings", ""),
    ("access", "create", "", "namespaces", ""),
    ("access", "create", RBAC, "clusterroles", ""),
    ("access", "escalate", RBAC, "clusterroles", ""),
    ("access", "bind", RBAC, "clusterroles", ""),
    ("access", "create", RBAC, "clusterrolebindings", ""),
    ("access", "create", "apps", "deployments", NAMESPACE),
];
/// The metric of a server that follows its authorization configuration (A14).
const RELOADS: &str = "apiserver_authorization_config_controller_automatic_reload";
/// What only whoever decides by references itself serves.
const OWN_REVIEWS: &str = "reference.tenure.dev/v1alpha1";

/// A feature that is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledFeature {
    /// Its name.
    pub feature: String,
    /// The release that printed it.
    pub version: String,
}

/// What a cluster is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterFacts {
    /// What the server says that it is.
    pub says: String,
    /// The same, if it can be read.
    pub version: Option<ServerVersion>,
    /// The plural names of types of admission and of definitions, in their first stable version.
    pub served: BTreeSet<String>,
    /// Features, and what whoever asks may not do that installing them takes.
    pub denied: Vec<(String, String)>,
    /// Whether the server takes the path of owner references itself; none where that could not be tried.
    pub native_path: Option<bool>,
    /// Whether the server has the kinds of references itself.
    pub native_kinds: bool,
    /// Features that are installed.
    pub installed: Vec<InstalledFeature>,
    /// Whether the server follows an authorization configuration; none where its metrics cannot be read.
    pub authorization_config: Option<bool>,
}

/// Asks a cluster.
///
/// # Errors
/// It does not answer.
pub async fn cluster_facts(client: &kube::Client) -> Result<ClusterFacts, ApiError> {
    let version = api::get(client, "/version").await?;
    let says = text(&version, "/gitVersion").to_owned();
    let mut served = BTreeSet::new();
    for group in GROUPS {
        served.extend(plurals(client, &format!("{group}/v1")).await?);
    }
    let own = plurals(client, OWN_REVIEWS).await?;
    let mut denied = Vec::new();
    for (feature, verb, group, plural, namespace) in RIGHTS {
        if !may(client, verb, group, plural, namespace).await? {
            denied.push((feature.to_owned(), format!("{verb} {plural}")));
        }
    }
    Ok(ClusterFacts {
        version: says.parse().ok(),
        says,
        served,
        denied,
        native_path: native_path(client).await?,
        native_kinds: own.iter().any(|plural| plural == "referencereviews"),
        installed: installed(client).await,
        authorization_config: authorization_config(client).await,
    })
}

/// The plural names of the types of a version; none where it is not served.
async fn plurals(client: &kube::Client, version: &str) -> Result<Vec<String>, ApiError> {
    let found = match api::get(client, &format!("/apis/{version}")).await {
        Ok(found) => found,
        Err(error) if error.code() == Some(404) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let rows = found.get("resources").and_then(Value::as_array).into_iter().flatten();
    Ok(rows.map(|row| text(row, "/name").to_owned()).collect())
}

async fn may(
    client: &kube::Client,
    verb: &str,
    group: &str,
    plural: &str,
    namespace: &str,
) -> Result<bool, ApiError> {
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": { "resourceAttributes": {
            "verb": verb, "group": group, "resource": plural, "namespace": namespace,
        }},
    });
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let answer = api::create(client, path, &review).await?;
    Ok(answer.pointer("/status/allowed").and_then(Value::as_bool).unwrap_or(false))
}

/// Whether a pod that reads its owner references is taken where no policy of ours looks at it.
async fn native_path(client: &kube::Client) -> Result<Option<bool>, ApiError> {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "tenure-doctor" },
        "spec": { "containers": [{ "name": "a", "image": "a", "env": [{
            "name": "O", "valueFrom": { "fieldRef": { "fieldPath": "metadata.ownerReferences" } },
        }] }] },
    });
    match api::create(client, "/api/v1/namespaces/kube-system/pods?dryRun=All", &pod).await {
        Ok(_) => Ok(Some(true)),
        Err(error) if error.code() == Some(422) => Ok(Some(false)),
        // No right to make pods there, or somebody's policy: nothing is known.
        Err(error) if error.code().is_some() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Features by the labels of their policies; what cannot be listed is not known.
async fn installed(client: &kube::Client) -> Vec<InstalledFeature> {
    let (manager, tenure) = MANAGED_BY;
    let path = format!("/apis/{ADMISSION}/v1/validatingadmissionpolicies");
    let found = api::list(client, &path, &format!("{manager}={tenure}")).await.unwrap_or_default();
    let mut features: Vec<InstalledFeature> = Vec::new();
    for object in &found {
        let label = |name: &str| {
            let labels = object.pointer("/metadata/labels").and_then(|labels| labels.get(name));
            labels.and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let one = InstalledFeature { feature: label(FEATURE), version: label(VERSION) };
        if !features.contains(&one) {
            features.push(one);
        }
    }
    features
}

async fn authorization_config(client: &kube::Client) -> Option<bool> {
    let request = http::Request::get("/metrics").body(Vec::new()).ok()?;
    let metrics = client.request_text(request).await.ok()?;
    Some(metrics.contains(RELOADS))
}
