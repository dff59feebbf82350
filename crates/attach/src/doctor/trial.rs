//! Tries the policies of `downward` before they are installed: in a namespace of their own, by dry runs of every
//! kind, and removes both (A82). A policy that fails refuses every pod it is about: here these are none.

use std::time::Duration;

use serde_json::{Value, json};

use crate::ServerVersion;
use crate::api::{self, ApiError, text};
use crate::clock;
use crate::install::{self, InstallError};

/// The namespace that is made, and what the names of policies end with.
const TRIAL: &str = "tenure-trial";
/// How long policies may take until they act; usually less than a second.
const ACT_LIMIT: Duration = Duration::from_secs(10);
const ACT_PAUSE: Duration = Duration::from_millis(100);

/// What came of each kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrialOutcome {
    /// The kind.
    pub kind: &'static str,
    /// Why it was not as it should be; none where it was.
    pub problem: Option<String>,
}

/// Why nothing could be tried.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The feature cannot be installed here at all.
    #[error(transparent)]
    Install(#[from] InstallError),
    /// An earlier trial was not cleaned up, or one is under way.
    #[error("the namespace `{TRIAL}` is there already")]
    Busy,
    /// What is needed cannot be made or removed.
    #[error("the trial could not be made")]
    Request(#[from] ApiError),
}

impl TrialError {
    /// The request that failed, if one did.
    #[must_use]
    pub fn request(&self) -> Option<&ApiError> {
        match self {
            TrialError::Request(error) => Some(error),
            TrialError::Install(_) | TrialError::Busy => None,
        }
    }
}

/// Tries all nine kinds.
///
/// # Errors
/// The policies cannot be made; what was made is removed.
pub async fn try_downward(
    client: &kube::Client,
    server: ServerVersion,
) -> Result<Vec<TrialOutcome>, TrialError> {
    let objects = trial_objects(server)?;
    let namespace =
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": TRIAL } });
    match api::create(client, "/api/v1/namespaces", &namespace).await {
        Ok(_) => {}
        Err(error) if error.code() == Some(409) => return Err(TrialError::Busy),
        Err(error) => return Err(error.into()),
    }
    let mut made = Vec::new();
    let tried = try_objects(client, &objects, &mut made).await;
    let mut failed = None;
    for path in made.iter().rev().map(String::as_str).chain(["/api/v1/namespaces/tenure-trial"]) {
        if let Err(error) = api::delete_any(client, path).await {
            failed = Some(error);
        }
    }
    match (tried, failed) {
        (Err(error), _) | (Ok(_), Some(error)) => Err(error.into()),
        (Ok(outcomes), None) => Ok(outcomes),
    }
}

async fn try_objects(
    client: &kube::Client,
    objects: &[(String, Value)],
    made: &mut Vec<String>,
) -> Result<Vec<TrialOutcome>, ApiError> {
    for (path, object) in objects {
        made.push(path.clone());
        api::apply(client, path, object, false).await?;
    }
    let mut outcomes = Vec::new();
    let acting = clock::timer_instant() + ACT_LIMIT;
    for (kind, path, object) in kinds() {
        loop {
            let problem = problem(client, &path, &object).await;
            if problem.is_none() || clock::timer_instant() >= acting {
                outcomes.push(TrialOutcome { kind, problem });
                break;
            }
            tokio::time::sleep(ACT_PAUSE).await;
        }
    }
    Ok(outcomes)
}

/// What is wrong with the answer to a dry run.
async fn problem(client: &kube::Client, path: &str, object: &Value) -> Option<String> {
    match api::create(client, &format!("{path}?dryRun=All"), object).await {
        Err(error) => Some(error.reason()),
        Ok(stored) => {
            let said = stored.to_string();
            let rewritten = said.contains("metadata.annotations['tenure.dev/owner-references']");
            (!rewritten).then(|| "the path was not rewritten".to_owned())
        }
    }
}

/// The policies with names of their own, bound to the one namespace.
fn trial_objects(server: ServerVersion) -> Result<Vec<(String, Value)>, InstallError> {
    let root = "/apis/admissionregistration.k8s.io/v1";
    let objects = install::downward_objects(server)?;
    let mut trial = Vec::new();
    for mut object in objects {
        let name = format!("{}.{TRIAL}", text(&object, "/metadata/name"));
        let plural = match text(&object, "/kind") {
            "MutatingAdmissionPolicy" => "mutatingadmissionpolicies",
            "MutatingAdmissionPolicyBinding" => "mutatingadmissionpolicybindings",
            "ValidatingAdmissionPolicy" => "validatingadmissionpolicies",
            _ => "validatingadmissionpolicybindings",
        };
        if let Some(policy) = object.pointer_mut("/spec/policyName") {
            *policy = format!("{}.{TRIAL}", policy.as_str().unwrap_or_default()).into();
            let only = json!({ "matchExpressions": [{
                "key": "kubernetes.io/metadata.name", "operator": "In", "values": [TRIAL],
            }]});
            if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
                spec.insert("matchResources".into(), json!({ "namespaceSelector": only }));
            }
        }
        if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            meta.insert("name".into(), name.clone().into());
            // Nothing that uninstall would look for.
            meta.remove("labels");
        }
        trial.push((format!("{root}/{plural}/{name}"), object));
    }
    Ok(trial)
}

/// One object of each kind that reads its owner references.
fn kinds() -> Vec<(&'static str, String, Value)> {
    let spec = json!({ "restartPolicy": "Always", "containers": [{
        "name": "a", "image": "a",
        "env": [{ "name": "O", "valueFrom": { "fieldRef": { "fieldPath": "metadata.ownerReferences" } } }],
    }] });
    let template = json!({ "metadata": { "labels": { "app": "a" } }, "spec": spec });
    let mut once = template.clone();
    if let Some(policy) = once.pointer_mut("/spec/restartPolicy") {
        *policy = "Never".into();
    }
    let selector = json!({ "matchLabels": { "app": "a" } });
    let selected = json!({ "spec": { "selector": selector, "template": template } });
    let all = [
        ("Pod", "v1", "pods", json!({ "spec": spec })),
        ("PodTemplate", "v1", "podtemplates", json!({ "template": template })),
        (
            "ReplicationController",
            "v1",
            "replicationcontrollers",
            json!({ "spec": { "selector": { "app": "a" }, "template": template } }),
        ),
        ("Deployment", "apps/v1", "deployments", selected.clone()),
        ("ReplicaSet", "apps/v1", "replicasets", selected.clone()),
        ("DaemonSet", "apps/v1", "daemonsets", selected.clone()),
        ("StatefulSet", "apps/v1", "statefulsets", selected),
        ("Job", "batch/v1", "jobs", json!({ "spec": { "template": once } })),
        (
            "CronJob",
            "batch/v1",
            "cronjobs",
            json!({ "spec": { "schedule": "0 0 1 1 *", "jobTemplate": { "spec": { "template": once } } } }),
        ),
    ];
    let whole = |(kind, version, plural, mut object): (&'static str, &str, &str, Value)| {
        if let Some(fields) = object.as_object_mut() {
            fields.insert("apiVersion".into(), version.into());
            fields.insert("kind".into(), kind.into());
            fields.insert("metadata".into(), json!({ "name": "tenure-doctor" }));
        }
        let root = if version.contains('/') { "/apis" } else { "/api" };
        (kind, format!("{root}/{version}/namespaces/{TRIAL}/{plural}"), object)
    };
    all.into_iter().map(whole).collect()
}
