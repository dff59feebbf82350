//! Takes a feature off a cluster again, with the rights of whoever asks for it (A85).
//!
//! ```text
//!   what changes objects ──► what is called ──► what runs ──► what guards ──► what was made ──► rights
//! ```
//!
//! Objects are found by their labels (A3). Each step may be repeated: what is gone is gone.

mod downward;

use std::fmt;
use std::time::Duration;

use serde_json::Value;

use crate::api::{self, ApiError, text};
use crate::{AttachFeature, FEATURE, MANAGED_BY, NAMESPACE};

pub use downward::{TemplateUse, templates_in_use};

/// Where objects of a kind are looked for.
#[derive(Clone, Copy)]
enum InstalledWhere {
    /// They have no namespace.
    Cluster,
    /// In Tenure's namespace.
    Own,
    /// In every namespace.
    Everywhere,
}

/// The kinds that are installed, in the order in which they go.
const ORDER: [(&str, &str, InstalledWhere); 18] = {
    use InstalledWhere::{Cluster, Everywhere, Own};
    const ADMISSION: &str = "admissionregistration.k8s.io/v1";
    const RBAC: &str = "rbac.authorization.k8s.io/v1";
    [
        (ADMISSION, "mutatingadmissionpolicybindings", Cluster),
        (ADMISSION, "mutatingwebhookconfigurations", Cluster),
        (ADMISSION, "validatingwebhookconfigurations", Cluster),
        ("apps/v1", "deployments", Own),
        (ADMISSION, "validatingadmissionpolicybindings", Cluster),
        (RBAC, "rolebindings", Everywhere),
        (RBAC, "roles", Everywhere),
        (ADMISSION, "mutatingadmissionpolicies", Cluster),
        (ADMISSION, "validatingadmissionpolicies", Cluster),
        ("policy/v1", "poddisruptionbudgets", Own),
        ("networking.k8s.io/v1", "networkpolicies", Own),
        ("v1", "services", Own),
        ("v1", "configmaps", Own),
        ("v1", "secrets", Own),
        ("coordination.k8s.io/v1", "leases", Own),
        ("v1", "serviceaccounts", Own),
        (RBAC, "clusterrolebindings", Cluster),
        (RBAC, "clusterroles", Cluster),
    ]
};

/// The definitions of kinds, with which the objects of these kinds go.
const KINDS: (&str, &str, InstalledWhere) =
    ("apiextensions.k8s.io/v1", "customresourcedefinitions", InstalledWhere::Cluster);
/// How long pods that are ended may take.
const END_LIMIT: Duration = Duration::from_secs(60);
const END_PAUSE: Duration = Duration::from_millis(200);
/// So often it is looked again for what came meanwhile.
const ROUNDS: usize = 5;

/// Why a removal stopped. What went before is gone; it may be done again.
#[derive(Debug, thiserror::Error)]
pub enum UninstallError {
    /// What is installed cannot be seen.
    #[error("what is installed cannot be seen")]
    Unseen(#[source] ApiError),
    /// An object cannot be removed.
    #[error("{object} cannot be removed")]
    Kept {
        /// Which.
        object: Box<InstalledObject>,
        /// Why.
        #[source]
        source: ApiError,
    },
    /// What runs does not end.
    #[error("pods of `{}` still run in {NAMESPACE}", .0.name())]
    Running(AttachFeature),
    /// Somebody writes again and again what is removed.
    #[error("objects of `{}` come back: something outside of the cluster still writes them", .0.name())]
    Returning(AttachFeature),
}

impl UninstallError {
    /// The request that failed, if one did.
    #[must_use]
    pub fn request(&self) -> Option<&ApiError> {
        match self {
            UninstallError::Unseen(source) | UninstallError::Kept { source, .. } => Some(source),
            UninstallError::Running(_) | UninstallError::Returning(_) => None,
        }
    }
}

/// Removes everything of a feature, and says so of each object. With `kinds` also its kinds and their objects.
///
/// # Errors
/// Something cannot be seen or removed.
pub async fn uninstall(
    client: &kube::Client,
    feature: AttachFeature,
    kinds: bool,
    removed: &mut dyn FnMut(&InstalledObject),
) -> Result<(), UninstallError> {
    for _ in 0..ROUNDS {
        let all = installed(client, feature, kinds).await.map_err(UninstallError::Unseen)?;
        if all.is_empty() {
            return leave_namespace(client, removed).await;
        }
        let mut stops = false;
        for object in all {
            // What still runs would write again what follows.
            if object.resource == "deployments.apps" {
                stops = true;
            } else if std::mem::take(&mut stops) {
                end(client, feature).await?;
            }
            let gone = remove(client, &object).await;
            match gone {
                Ok(true) => removed(&object),
                Ok(false) => {}
                Err(source) => {
                    return Err(UninstallError::Kept { object: Box::new(object), source });
                }
            }
        }
    }
    Err(UninstallError::Returning(feature))
}

/// Waits for the pods of a feature.
async fn end(client: &kube::Client, feature: AttachFeature) -> Result<(), UninstallError> {
    let pods = collection("v1", NAMESPACE, "pods");
    let labels = format!("app.kubernetes.io/name=tenure-{}", feature.name());
    let ending = async {
        loop {
            let left = api::list(client, &pods, &labels).await.map_err(UninstallError::Unseen)?;
            if left.is_empty() {
                return Ok(());
            }
            tokio::time::sleep(END_PAUSE).await;
        }
    };
    let in_time = tokio::time::timeout(END_LIMIT, ending).await;
    in_time.unwrap_or(Err(UninstallError::Running(feature)))
}

/// Removes the namespace that features share, once there is nothing in it but what every namespace has.
async fn leave_namespace(
    client: &kube::Client,
    removed: &mut dyn FnMut(&InstalledObject),
) -> Result<(), UninstallError> {
    let (manager, tenure) = MANAGED_BY;
    let path = collection("v1", "", "namespaces");
    let labels = format!("{manager}={tenure}");
    let found = api::list(client, &path, &labels).await.map_err(UninstallError::Unseen)?;
    let is_own = |one: &&Value| {
        text(one, "/metadata/name") == NAMESPACE
            && one.pointer("/metadata/deletionTimestamp").is_none()
    };
    let Some(own) = found.iter().find(is_own) else { return Ok(()) };
    for (version, plural, reach) in ORDER {
        if matches!(reach, InstalledWhere::Own) {
            let path = collection(version, NAMESPACE, plural);
            let left = api::list(client, &path, "").await.map_err(UninstallError::Unseen)?;
            if !left.iter().all(is_in_every_namespace) {
                return Ok(());
            }
        }
    }
    let object = installed_object("v1", "namespaces", own);
    match remove(client, &object).await {
        Ok(true) => removed(&object),
        Ok(false) => {}
        Err(source) => return Err(UninstallError::Kept { object: Box::new(object), source }),
    }
    Ok(())
}

/// Whether an object is made for every namespace, by the controllers of the cluster.
fn is_in_every_namespace(object: &Value) -> bool {
    matches!(text(object, "/metadata/name"), "default" | "kube-root-ca.crt")
        || text(object, "/type") == "kubernetes.io/service-account-token"
        || object.pointer("/metadata/deletionTimestamp").is_some()
}

/// An object that was installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledObject {
    resource: String,
    namespace: String,
    name: String,
    uid: String,
    path: String,
}

impl fmt::Display for InstalledObject {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} ", self.resource)?;
        if !self.namespace.is_empty() {
            write!(out, "{}/", self.namespace)?;
        }
        out.write_str(&self.name)
    }
}

/// Everything of a feature that is there, in the order in which it goes; with `kinds` also the definitions.
///
/// # Errors
/// A kind cannot be listed: what cannot be seen cannot be removed either.
pub async fn installed(
    client: &kube::Client,
    feature: AttachFeature,
    kinds: bool,
) -> Result<Vec<InstalledObject>, ApiError> {
    let (manager, tenure) = MANAGED_BY;
    let labels = format!("{manager}={tenure},{FEATURE}={}", feature.name());
    let mut found = Vec::new();
    for (version, plural, reach) in ORDER.into_iter().chain(kinds.then_some(KINDS)) {
        let path = match reach {
            InstalledWhere::Cluster | InstalledWhere::Everywhere => collection(version, "", plural),
            InstalledWhere::Own => collection(version, NAMESPACE, plural),
        };
        let items = api::list(client, &path, &labels).await?;
        // What is on its way out needs nobody's help.
        let there = items.iter().filter(|one| one.pointer("/metadata/deletionTimestamp").is_none());
        found.extend(there.map(|object| installed_object(version, plural, object)));
    }
    Ok(found)
}

/// Removes one object; whether it was still there.
///
/// # Errors
/// It may not be removed, or the server does not answer.
pub async fn remove(client: &kube::Client, object: &InstalledObject) -> Result<bool, ApiError> {
    api::delete(client, &object.path, &object.uid).await
}

fn installed_object(version: &str, plural: &str, object: &Value) -> InstalledObject {
    let namespace = text(object, "/metadata/namespace");
    let name = text(object, "/metadata/name");
    let group = version.split_once('/').map(|(group, _)| format!(".{group}"));
    InstalledObject {
        resource: format!("{plural}{}", group.unwrap_or_default()),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: text(object, "/metadata/uid").to_owned(),
        path: format!("{}/{name}", collection(version, namespace, plural)),
    }
}

/// The path of all objects of a kind, or of those in a namespace.
fn collection(version: &str, namespace: &str, plural: &str) -> String {
    let root = if version.contains('/') { "/apis" } else { "/api" };
    match namespace {
        "" => format!("{root}/{version}/{plural}"),
        namespace => format!("{root}/{version}/namespaces/{namespace}/{plural}"),
    }
}
