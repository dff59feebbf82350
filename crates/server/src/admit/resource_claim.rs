//! Who may bind claims of devices, speak for drivers, and have devices that others use (api-server R136d).

use tenure_kinds::resource_claim::{
    ADMIN_ACCESS_LABEL, allocated_node, changed_drivers, changes_binding, has_admin_access,
    wants_admin_access,
};
use tenure_machinery::{Errors, Failure, Object, ObjectExt, Path};
use tenure_rbac::RequestAttributes;
use tenure_world::World;

use crate::access::refusal;
use crate::api::ApiServer;
use crate::authenticate::own_node;
use crate::request::ResourceRequest;

const GROUP: &str = "resource.k8s.io";
const CLAIMS: &str = "resourceclaims";

/// Refuses what the user may not say in a claim, or in a template of claims.
pub(super) fn judge(
    api: &ApiServer,
    state: &World,
    request: &ResourceRequest,
    old: Option<&Object>,
    new: &Object,
) -> Result<(), Failure> {
    let kind = &request.served.kind;
    if kind.group != GROUP {
        return Ok(());
    }
    let mut errors = Errors::new();
    match (kind.kind.as_ref(), request.subresource.as_str(), old) {
        // A spec never changes, so that it is judged once.
        ("ResourceClaim", "", None) => may_ask(state, new, &["spec"], &mut errors),
        ("ResourceClaimTemplate", "", None) => may_ask(state, new, &["spec", "spec"], &mut errors),
        ("ResourceClaim", "status", Some(old)) => {
            may_give(state, old, new, &mut errors);
            may_bind(api, request, old, new, &mut errors);
            may_speak(api, request, old, new, &mut errors);
        }
        _ => {}
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(Failure::invalid(&kind.group, &kind.kind, new.name(), errors))
}

/// Whether the spec asks for devices whoever else uses them, in a namespace that may have them.
fn may_ask(state: &World, new: &Object, spec: &[&str], errors: &mut Errors) {
    let Some(index) = new.map_at(spec).and_then(wants_admin_access) else { return };
    // Upstream names this place in templates as well.
    let spec = Path::Root.field("spec");
    let devices = spec.field("devices");
    let requests = devices.field("requests");
    let place = requests.index(index);
    must_be_administrative(state, new, &place.field("adminAccess"), errors);
}

/// The same for what a claim gets; what it has does not change.
fn may_give(state: &World, old: &Object, new: &Object, errors: &mut Errors) {
    let Some(index) = has_admin_access(new).filter(|_| has_admin_access(old).is_none()) else {
        return;
    };
    let status = Path::Root.field("status");
    let allocation = status.field("allocation");
    let devices = allocation.field("devices");
    let results = devices.field("results");
    let place = results.index(index);
    must_be_administrative(state, new, &place.field("adminAccess"), errors);
}

fn must_be_administrative(state: &World, new: &Object, path: &Path<'_>, errors: &mut Errors) {
    let namespace = state.get(&format!("/registry/namespaces/{}", new.namespace()));
    if namespace.and_then(|record| record.label(ADMIN_ACCESS_LABEL)) != Some("true") {
        let why = format!(
            "admin access to devices requires the `{ADMIN_ACCESS_LABEL}: true` label on the containing namespace"
        );
        errors.forbidden(path, &why);
    }
}

/// Who decides what claims get does so in all namespaces.
fn may_bind(
    api: &ApiServer,
    request: &ResourceRequest,
    old: &Object,
    new: &Object,
    errors: &mut Errors,
) {
    if !changes_binding(new, old) {
        return;
    }
    let verb = request.verb.as_ref();
    let requested = request_attributes(verb, "binding", "", "");
    if !request.may(&api.access, &requested) {
        let missing = refusal(&request.user, &requested);
        let why = format!(
            "changing status.allocation or status.reservedFor requires \
             resource=\"resourceclaims/binding\", verb={verb:?} permission: {}",
            missing.message
        );
        let status = Path::Root.field("status");
        errors.forbidden(&status.field("allocation"), &why);
    }
}

/// A driver speaks for its own devices: of the node it runs on, or of all nodes.
fn may_speak(
    api: &ApiServer,
    request: &ResourceRequest,
    old: &Object,
    new: &Object,
    errors: &mut Errors,
) {
    let drivers = changed_drivers(new, old);
    let mut verbs = Vec::new();
    let own = own_node(&request.user);
    if own.is_some() && allocated_node(new) == own {
        verbs.push(format!("associated-node:{}", request.verb));
    }
    verbs.push(format!("arbitrary-node:{}", request.verb));
    let status = Path::Root.field("status");
    for driver in drivers {
        let may = |verb: &String| {
            let requested = request_attributes(verb, "driver", &request.namespace, driver);
            request.may(&api.access, &requested)
        };
        if !verbs.iter().any(may) {
            let why = format!(
                "changing status.devices requires resource=\"resourceclaims/driver\", verb={:?} \
                 permission for driver {driver:?}",
                verbs.join(" ")
            );
            errors.forbidden(&status.field("devices"), &why);
        }
    }
}

fn request_attributes<'a>(
    verb: &'a str,
    subresource: &'a str,
    namespace: &'a str,
    name: &'a str,
) -> RequestAttributes<'a> {
    RequestAttributes::Resource {
        verb,
        group: GROUP,
        resource: CLAIMS,
        subresource,
        namespace,
        name,
    }
}
