//! Carries out the steps of a plan, one request each, with the rights of whoever runs the command (M7).

use http::{Method, Request};
use serde_json::{Value, json};
use tenure_references::GROUP;
use tenure_references::migrate::MigrationStep;

/// Who writes, as managed fields name it.
const MANAGER: &str = "tenure-migrate";

/// What came of a step.
pub(super) enum GrantWriteOutcome {
    /// It is done; the grant as it now is, unless it is gone.
    Done(Option<Value>),
    /// The server refuses, and says why.
    Refused(String),
    /// Somebody was faster, so that it has to be thought over.
    Stale,
}

/// Carries out one step.
pub(super) async fn write(
    client: &kube::Client,
    step: &MigrationStep,
) -> kube::Result<GrantWriteOutcome> {
    match client.request::<Value>(request(step)?).await {
        Ok(_) if matches!(step, MigrationStep::Delete(_)) => Ok(GrantWriteOutcome::Done(None)),
        Ok(grant) => Ok(GrantWriteOutcome::Done(Some(grant))),
        Err(kube::Error::Api(status)) => Ok(match (step, status.code) {
            (MigrationStep::Delete(_), 404) => GrantWriteOutcome::Done(None),
            (MigrationStep::Change { .. }, 404) | (_, 409) => GrantWriteOutcome::Stale,
            _ => GrantWriteOutcome::Refused(status.message),
        }),
        Err(error) => Err(error),
    }
}

/// What to say of a step that was refused.
pub(super) fn refused(step: &MigrationStep, why: &str) -> String {
    let (namespace, name) = place(step.grant());
    let done = match step {
        MigrationStep::Create(_) => "created",
        MigrationStep::Change { .. } => "changed",
        MigrationStep::Delete(_) => "deleted",
    };
    format!("{namespace}/{name}: not {done}: {why}")
}

/// What to say of a grant that has a name which is needed and was made by somebody else.
pub(super) fn taken(place: &str) -> String {
    format!("{place}: left alone: it was not made by this command, and has the name that is needed")
}

/// The namespace and name of a grant.
pub(super) fn place(grant: &Value) -> (&str, &str) {
    let text = |at: &str| grant.pointer(at).and_then(Value::as_str).unwrap_or_default();
    (text("/metadata/namespace"), text("/metadata/name"))
}

fn request(step: &MigrationStep) -> kube::Result<Request<Vec<u8>>> {
    let grant = step.grant();
    let (namespace, name) = place(grant);
    let all = format!("/apis/{GROUP}/v1alpha1/namespaces/{namespace}/referencegrants");
    let (method, path, body) = match step {
        MigrationStep::Create(_) => {
            (Method::POST, format!("{all}?fieldManager={MANAGER}"), grant.clone())
        }
        // It names its version, so that nobody's change is undone unseen.
        MigrationStep::Change { .. } => {
            (Method::PUT, format!("{all}/{name}?fieldManager={MANAGER}"), grant.clone())
        }
        MigrationStep::Delete(_) => {
            let known = |field: &str| grant.pointer(&format!("/metadata/{field}"));
            let known = json!({
                "uid": known("uid"), "resourceVersion": known("resourceVersion"),
            });
            (Method::DELETE, format!("{all}/{name}"), json!({ "preconditions": known }))
        }
    };
    Request::builder()
        .method(method)
        .uri(path)
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(body.to_string().into_bytes())
        .map_err(kube::Error::HttpError)
}
