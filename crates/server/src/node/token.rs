//! Which tokens a node may have: bound to a pod of its own, for an audience that the pod asks for (R139d).

use serde_json::Value;
use tenure_machinery::{Failure, Object, ObjectExt};
use tenure_rbac::Asked;
use tenure_world::World;

use super::node_of;
use super::related::{bound, claim_name, read, volumes};
use crate::api::Api;
use crate::request::Request;

/// The verb by which a role lets a node have tokens of an account for an audience, which stands in the
/// place of the resource.
const AUDIENCE_VERB: &str = "request-serviceaccounts-token-audience";

/// Refuses a token that no pod of the node asks for.
pub(crate) fn restrict_token(
    api: &Api,
    state: &World,
    request: &Request,
    body: &Object,
) -> Result<(), Failure> {
    let Some(node) = node_of(&request.user) else { return Ok(()) };
    let refuse = |why: &str| Err(Failure::forbidden("", "serviceaccounts", &request.name, why));
    if node.is_empty() {
        return refuse(&format!("could not determine node from user {:?}", request.user.name));
    }
    let of = |field| body.str_at(&["spec", "boundObjectRef", field]).unwrap_or_default();
    if of("apiVersion") != "v1" || of("kind") != "Pod" || of("name").is_empty() {
        return refuse("node requested token not bound to a pod");
    }
    if of("uid").is_empty() {
        return refuse("node requested token with a pod binding without a uid");
    }
    let Some(record) = state.get(&format!("/registry/pods/{}/{}", request.namespace, of("name")))
    else {
        return Err(Failure::not_found("", "pods", of("name")));
    };
    if of("uid") != record.uid() {
        let uid = of("uid");
        return refuse(&format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record"
        ));
    }
    if !bound(record, node) {
        return refuse("node requested token bound to a pod scheduled on a different node");
    }
    let audience = match body.list_at(&["spec", "audiences"]) {
        [] => "",
        [Value::String(audience)] => audience,
        _ => return refuse("node may only request 0 or 1 audiences"),
    };
    let pod = read(record).unwrap_or_default();
    if asks_for(state, &pod, audience) || is_granted(api, request, audience) {
        return Ok(());
    }
    let name = &request.user.name;
    refuse(&format!("{name} is not authorized to request tokens for audience {audience:?}"))
}

/// Whether a role lets the node have tokens for the audience.
fn is_granted(api: &Api, request: &Request, audience: &str) -> bool {
    let asked = Asked::Resource {
        verb: AUDIENCE_VERB,
        group: "",
        resource: audience,
        subresource: "",
        namespace: &request.namespace,
        name: &request.name,
    };
    api.access.may(&request.user, &asked).is_some()
}

/// Whether a volume of the pod wants a token for the audience: itself, or the driver behind it.
fn asks_for(state: &World, pod: &Object, audience: &str) -> bool {
    volumes(pod).any(|volume| {
        let sources = volume.list_at(&["projected", "sources"]).iter().filter_map(Value::as_object);
        let mut tokens = sources.filter_map(|source| source.map_at(&["serviceAccountToken"]));
        tokens.any(|token| token.str_at(&["audience"]).unwrap_or_default() == audience)
            || driver(state, pod, volume).is_some_and(|driver| wants(state, &driver, audience))
    })
}

/// The driver that mounts a volume of a pod.
fn driver(state: &World, pod: &Object, volume: &Object) -> Option<String> {
    if let Some(driver) = volume.str_at(&["csi", "driver"]) {
        return Some(driver.to_owned());
    }
    let stored = |key: String| state.get(&key).and_then(|record| read(record));
    let claim = claim_name(pod, volume)?;
    let claim = stored(format!("/registry/persistentvolumeclaims/{}/{claim}", pod.namespace()))?;
    let name = claim.str_at(&["spec", "volumeName"])?;
    let volume = stored(format!("/registry/persistentvolumes/{name}"))?;
    volume.str_at(&["spec", "csi", "driver"]).map(str::to_owned)
}

/// Whether a driver is to be given tokens for the audience.
fn wants(state: &World, driver: &str, audience: &str) -> bool {
    let record = state.get(&format!("/registry/csidrivers/{driver}"));
    let Some(driver) = record.and_then(|record| read(record)) else { return false };
    let requests = driver.list_at(&["spec", "tokenRequests"]).iter().filter_map(Value::as_object);
    requests.into_iter().any(|one| one.str_at(&["audience"]).unwrap_or_default() == audience)
}
