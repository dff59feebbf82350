//! Certificates for what nodes serve (downward-api R133): a node asks by a CertificateSigningRequest, and gets
//! one that names that node and nothing else.
//!
//! ```text
//!   CertificateSigningRequest, kubernetes.io/kubelet-serving, by system:node:<name>
//!       ──► asked as it should be ──► the host signs ──► Approved, and the certificate in the status
//!       ──► not so, or not signed ──► Denied, with a sentence
//! ```
//!
//! Requests to other signers wait for those, and so do requests that no node of the cluster made: nobody
//! is approved by asking. Keys of authorities never come here.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Value, json};
use tenure_machinery::{Object, ObjectExt};

use crate::controller::{Controller, ObjectChange, Pass, ReconcileKey, ReconcileResult};
use crate::intent::{ControllerIntent, UNSIGNED, UpdateEndpoint};
use crate::resource::BuiltinResource;
use crate::view::{ClusterView, VersionedObject};
use crate::{condition, owner, time};

const SIGNER: &str = "kubernetes.io/kubelet-serving";
/// What the certificate of a server is for.
const USAGES: [&str; 3] = ["digital signature", "key encipherment", "server auth"];
const NODE: &str = "system:node:";
const NODES: &str = "system:nodes";
/// Why a request is approved here; one that somebody else decided on is theirs.
const OURS: &str = "NodeServes";
/// Why one is refused.
const REFUSED: &str = "NotAsItShouldBe";

/// The controller that answers nodes. A key names a request.
pub struct CertificateSigning;

impl Controller for CertificateSigning {
    fn name(&self) -> &'static str {
        "certificatesigningrequest-signing-controller"
    }
    fn alias(&self) -> &'static str {
        "csrsigning"
    }
    fn account(&self) -> &'static str {
        "certificate-controller"
    }
    fn is_essential(&self) -> bool {
        true
    }
    fn watches(&self) -> &'static [BuiltinResource] {
        &[BuiltinResource::CertificateSigningRequests, BuiltinResource::Nodes]
    }
    fn wake(
        &self,
        change: &ObjectChange<'_>,
        view: &dyn ClusterView,
        wake: &mut dyn FnMut(ReconcileKey),
    ) {
        let Some(after) = change.after else { return };
        if change.resource == BuiltinResource::CertificateSigningRequests {
            wake(ReconcileKey::of(after));
        } else if change.before.is_none() {
            // A node that has just registered may have asked before.
            let requests = view.list(BuiltinResource::CertificateSigningRequests, None);
            let requested =
                requests.iter().filter(|request| node_of(request) == Some(after.name()));
            requested.for_each(|request| wake(ReconcileKey::of(request)));
        }
    }
    fn reconcile(&self, pass: &Pass<'_>) -> ReconcileResult {
        let mut out = ReconcileResult::default();
        let request =
            pass.view.get(BuiltinResource::CertificateSigningRequests, "", &pass.key.name);
        if let Some(request) = request.filter(|request| !owner::deleting(request)) {
            out.intents.extend(answer(pass, &request));
        }
        out
    }
}

/// The node that asks, as the server knows who asked.
fn node_of(request: &Object) -> Option<&str> {
    let node = request.str_at(&["spec", "username"])?.strip_prefix(NODE)?;
    let is_node = texts(request, "groups").any(|group| group == NODES);
    (is_node && !node.is_empty()).then_some(node)
}

fn texts<'a>(request: &'a Object, member: &str) -> impl Iterator<Item = &'a str> {
    request.list_at(&["spec", member]).iter().filter_map(Value::as_str)
}

/// What a request needs; nothing unless it is for this signer and has no answer yet.
fn answer(pass: &Pass<'_>, request: &VersionedObject) -> Option<ControllerIntent> {
    let conditions = request.list_at(&["status", "conditions"]);
    if request.str_at(&["spec", "signerName"]) != Some(SIGNER)
        || request.at(&["status", "certificate"]).is_some()
    {
        return None;
    }
    let node = node_of(request)?;
    pass.view.get(BuiltinResource::Nodes, "", node)?;
    let unsigned = pass.refused.iter().find(|refused| refused.reason == UNSIGNED);
    let unsigned = unsigned.map(|refused| refused.message.clone());
    match conditions {
        [] => {
            if let Some(why) = unsigned.or_else(|| wrong_usages(request)) {
                let denied = with_condition(pass, request, "Denied", REFUSED, &why);
                return Some(update(request, denied, UpdateEndpoint::Approval));
            }
            let words = "a node asked for itself";
            let approved = with_condition(pass, request, "Approved", OURS, words);
            Some(sign(request, approved, node))
        }
        // What was approved here and has no certificate yet.
        [_] if condition::has_reason(conditions, "Approved", OURS) => match unsigned {
            Some(why) => {
                let failed = with_condition(pass, request, "Failed", REFUSED, &why);
                Some(update(request, failed, UpdateEndpoint::Status))
            }
            None => Some(sign(request, Object::clone(&request.object), node)),
        },
        _ => None,
    }
}

fn wrong_usages(request: &Object) -> Option<String> {
    let fit = texts(request, "usages").any(|usage| usage == "server auth")
        && texts(request, "usages").all(|usage| USAGES.contains(&usage));
    (!fit).then(|| format!("the usages must be `server auth` and at most {USAGES:?}"))
}

fn update(request: &VersionedObject, object: Object, endpoint: UpdateEndpoint) -> ControllerIntent {
    ControllerIntent::update(
        BuiltinResource::CertificateSigningRequests,
        object,
        endpoint,
        request.revision,
    )
}

fn sign(request: &VersionedObject, approved: Object, node: &str) -> ControllerIntent {
    let text = request.str_at(&["spec", "request"]).unwrap_or_default().to_string();
    ControllerIntent::sign_certificate(approved, request.revision, node.to_string(), text)
}

/// The request with one more condition.
fn with_condition(
    pass: &Pass<'_>,
    request: &Object,
    kind: &str,
    reason: &str,
    message: &str,
) -> Object {
    let mut object = request.clone();
    let now = time::written(pass.now);
    let mut conditions: Vec<Value> = request.list_at(&["status", "conditions"]).to_vec();
    conditions.push(json!({
        "type": kind, "status": "True", "reason": reason, "message": message,
        "lastUpdateTime": now, "lastTransitionTime": now,
    }));
    object.map_mut("status").insert("conditions".to_string(), Value::Array(conditions));
    object
}
