//! Which tokens a node may have: bound to a pod of its own, for an audience that the pod asks for (R139d).

use serde_json::Value;
use tenure_machinery::{Failure, Object, ObjectExt};
use tenure_rbac::RequestAttributes;
use tenure_world::World;

use super::node_of;
use super::related::{bound, claim_name, read, volumes};
use crate::api::ApiServer;
use crate::request::ResourceRequest;

/// The verb by which a role lets a node have tokens of an account for an audience, which stands in the
/// place of the resource.
const AUDIENCE_VERB: &str = "request-serviceaccounts-token-audience";

/// Refuses a token that no pod of the node asks for.
pub(crate) fn restrict_token(
    api: &ApiServer,
    state: &World,
    request: &ResourceRequest,
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
    let name = &request.user.name;
    match asks_for(state, &pod, audience) {
        Ok(true) => return Ok(()),
        Ok(false) if is_granted(api, request, audience) => return Ok(()),
        Ok(false) => {}
        Err(why) => return refuse(&format!("error validating audience {audience:?}: {why}")),
    }
    refuse(&format!("{name} is not authorized to request tokens for audience {audience:?}"))
}

/// Whether a role lets the node have tokens for the audience.
fn is_granted(api: &ApiServer, request: &ResourceRequest, audience: &str) -> bool {
    let requested = RequestAttributes::Resource {
        verb: AUDIENCE_VERB,
        group: "",
        resource: audience,
        subresource: "",
        namespace: &request.namespace,
        name: &request.name,
    };
    request.may(&api.access, &requested)
}

/// Whether a volume of the pod wants a token for the audience: itself, or the driver behind it. A volume whose
/// driver is not known yet may want anything, so that nothing else lets the node have the token meanwhile.
fn asks_for(state: &World, pod: &Object, audience: &str) -> Result<bool, String> {
    let mut unknown = Ok(false);
    for volume in volumes(pod) {
        let sources = volume.list_at(&["projected", "sources"]).iter().filter_map(Value::as_object);
        let mut tokens = sources.filter_map(|source| source.map_at(&["serviceAccountToken"]));
        if tokens.any(|token| token.str_at(&["audience"]).unwrap_or_default() == audience) {
            return Ok(true);
        }
        match driver(state, pod, volume) {
            Ok(Some(driver)) => match wants(state, &driver, audience) {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(why) => unknown = Err(why),
            },
            Ok(None) => {}
            Err(why) => unknown = Err(why),
        }
    }
    unknown
}

/// The driver that mounts a volume of a pod, if one does.
fn driver(state: &World, pod: &Object, volume: &Object) -> Result<Option<String>, String> {
    if let Some(driver) = volume.str_at(&["csi", "driver"]) {
        return Ok(Some(driver.to_owned()));
    }
    let Some(claim) = claim_name(pod, volume) else { return Ok(None) };
    let claim =
        stored(state, "persistentvolumeclaims", &format!("{}/{claim}", pod.namespace()), &claim)?;
    let name = claim.str_at(&["spec", "volumeName"]).unwrap_or_default();
    let volume = stored(state, "persistentvolumes", name, name)?;
    Ok(volume.str_at(&["spec", "csi", "driver"]).map(str::to_owned))
}

/// Whether a driver is to be given tokens for the audience.
fn wants(state: &World, driver: &str, audience: &str) -> Result<bool, String> {
    let driver = stored(state, "csidrivers", driver, driver)?;
    let mut requests =
        driver.list_at(&["spec", "tokenRequests"]).iter().filter_map(Value::as_object);
    Ok(requests.any(|one| one.str_at(&["audience"]).unwrap_or_default() == audience))
}

fn stored(state: &World, resource: &str, key: &str, name: &str) -> Result<Object, String> {
    let record = state.get(&format!("/registry/{resource}/{key}"));
    record.and_then(|record| read(record)).ok_or_else(|| format!("{resource} {name:?} not found"))
}
