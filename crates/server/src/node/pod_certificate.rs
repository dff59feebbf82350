//! Which certificates a node may ask for on behalf of a pod: for one that is on it, as its account, by a
//! signer that the pod names (R139c).

use serde_json::Value;
use tenure_machinery::{Failure, Object, ObjectExt};
use tenure_rbac::RequestAttributes;

use super::mirror_pod::is_mirror;
use super::related::{read, volumes};
use super::restrict::{Judged, NodeRestrictionError, node_uid};
use crate::admit::Operation;
use crate::api::ApiServer;
use crate::request::ResourceRequest;

/// The verb by which a role lets a node ask a signer, which stands in the place of the resource.
const SIGNER_VERB: &str = "request-serviceaccounts-podcertificate-signer";

pub(super) fn judge(
    api: &ApiServer,
    request: &ResourceRequest,
    node: &str,
    operation: Operation,
    new: Option<&Object>,
) -> Judged {
    let Some(requested) = new.filter(|_| operation == Operation::Create) else {
        return Err("nodes can only create PodCertificateRequests".into());
    };
    let said = |member: &str| requested.str_at(&["spec", member]).unwrap_or_default();
    if said("nodeName") != node {
        let named = said("nodeName");
        let why = format!(
            "PodCertificateRequest.Spec.NodeName={named:?}, which is not the requesting node {node:?}"
        );
        return Err(why.into());
    }
    if node_uid(api, node)? != said("nodeUID") {
        return Err(moved("spec.nodeUID is not that of the node"));
    }
    let (state, namespace) = (api.world.current(), &request.namespace);
    let stored = |resource: &str, name: &str| {
        let key = format!("/registry/{resource}/{namespace}/{name}");
        state
            .get(&key)
            .and_then(|record| read(record))
            .ok_or_else(|| NodeRestrictionError::Other(Failure::not_found("", resource, name)))
    };
    let pod = stored("pods", said("podName"))?;
    let uid = |object: &Object| object.str_at(&["metadata", "uid"]).map(str::to_owned);
    if uid(&pod).as_deref() != Some(said("podUID")) {
        return Err(moved("spec.podUID is not that of the pod"));
    }
    let name = pod.name();
    if pod.str_at(&["spec", "nodeName"]) != Some(node) {
        return Err(format!("pod {name:?} is not running on node {node:?}").into());
    }
    if is_mirror(&pod) {
        return Err(format!("pod {name:?} is a mirror pod").into());
    }
    let account = pod.str_at(&["spec", "serviceAccountName"]).unwrap_or_default();
    if said("serviceAccountName") != account {
        return Err(format!("pod {name:?} runs as service account {account:?}").into());
    }
    if uid(&stored("serviceaccounts", account)?).as_deref() != Some(said("serviceAccountUID")) {
        return Err(moved("spec.serviceAccountUID is not that of the account"));
    }
    let signer = said("signerName");
    if mounts(&pod, signer) || is_granted(api, request, signer, account) {
        return Ok(());
    }
    let why = format!(
        "pod {name:?} does not mount a podCertificate projected volume for signer {signer:?}"
    );
    Err(why.into())
}

/// What is not as it was may be so again: the node tries again.
fn moved(why: &str) -> NodeRestrictionError {
    NodeRestrictionError::Other(Failure::internal(why))
}

fn mounts(pod: &Object, signer: &str) -> bool {
    volumes(pod)
        .flat_map(|volume| volume.list_at(&["projected", "sources"]))
        .filter_map(Value::as_object)
        .any(|source| source.str_at(&["podCertificate", "signerName"]) == Some(signer))
}

fn is_granted(api: &ApiServer, request: &ResourceRequest, signer: &str, account: &str) -> bool {
    let resource = signer.replace('/', ":");
    let requested = RequestAttributes::Resource {
        verb: SIGNER_VERB,
        group: &request.served.kind.group,
        resource: &resource,
        subresource: "",
        namespace: &request.namespace,
        name: account,
    };
    request.may(&api.access, &requested)
}
