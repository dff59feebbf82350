//! Whoever writes a policy or a binding may read what it takes as parameters: expressions show them to everybody
//! who is refused (api-server R161a).

use tenure_machinery::{Errors, Failure, Object, ObjectExt, Path};
use tenure_rbac::RequestAttributes;

use crate::api::ApiServer;
use crate::request::ResourceRequest;

/// Stands for every name and namespace, as roles understand it.
const ALL: &str = "*";

/// A right to read that is asked for.
struct ParameterRead<'a> {
    verb: &'static str,
    group: &'a str,
    resource: &'a str,
    namespace: &'a str,
    name: &'a str,
}

/// Refuses parameters that the writer may not read.
pub(in crate::admit) fn may_read_parameters(
    api: &ApiServer,
    request: &ResourceRequest,
    old: Option<&Object>,
    new: &Object,
) -> Result<(), Failure> {
    let kind = &request.served.kind;
    if kind.group != "admissionregistration.k8s.io" || !request.subresource.is_empty() {
        return Ok(());
    }
    let same = |fields: &[&str]| {
        let at = |object: &Object, field: &str| object.at(&["spec", field]).cloned();
        old.is_some_and(|old| fields.iter().all(|field| at(old, field) == at(new, field)))
    };
    let (field, allowed) = match kind.kind.as_ref() {
        "ValidatingAdmissionPolicy" | "MutatingAdmissionPolicy" => {
            let Some(of) = new.map_at(&["spec", "paramKind"]) else { return Ok(()) };
            let (group, resource) = resource(api, of);
            let reading = ParameterRead {
                verb: "get",
                group: &group,
                resource: &resource,
                namespace: ALL,
                name: ALL,
            };
            ("paramKind", same(&["paramKind"]) || may_read(api, request, &reading))
        }
        "ValidatingAdmissionPolicyBinding" | "MutatingAdmissionPolicyBinding" => {
            let Some(chosen) = new.map_at(&["spec", "paramRef"]) else { return Ok(()) };
            let policy = new.str_at(&["spec", "policyName"]).unwrap_or_default();
            // What the policy takes; everything where that cannot be said yet.
            let (group, resource) = parameters_of(api, kind.kind.as_ref(), policy)
                .map_or_else(|| (ALL.to_owned(), ALL.to_owned()), |of| resource(api, &of));
            let name = chosen.str_at(&["name"]).unwrap_or_default();
            let reading = ParameterRead {
                verb: if name.is_empty() { "list" } else { "get" },
                group: &group,
                resource: &resource,
                namespace: chosen.str_at(&["namespace"]).unwrap_or_default(),
                name,
            };
            ("paramRef", same(&["paramRef", "policyName"]) || may_read(api, request, &reading))
        }
        _ => return Ok(()),
    };
    if allowed {
        return Ok(());
    }
    let why =
        format!("user {:?} may not read what the policy takes as parameters", request.user.name);
    let mut errors = Errors::new();
    errors.forbidden(&Path::Root.field("spec").field(field), &why);
    Err(Failure::invalid(&kind.group, &kind.kind, new.name(), errors))
}

/// What is readable only because something refers to it is not handed on.
fn may_read(api: &ApiServer, request: &ResourceRequest, reading: &ParameterRead<'_>) -> bool {
    let ParameterRead { verb, group, resource, namespace, name } = *reading;
    let requested =
        RequestAttributes::Resource { verb, group, resource, subresource: "", namespace, name };
    request.may_without_references(&api.access, &requested)
}

/// The group and resource of a `paramKind`; all of them where it is not served.
fn resource(api: &ApiServer, of: &Object) -> (String, String) {
    let version = of.str_at(&["apiVersion"]).unwrap_or_default();
    let kind = of.str_at(&["kind"]).unwrap_or_default();
    let (group, _) = version.split_once('/').unwrap_or(("", version));
    let registry = api.kinds.current();
    let mut served = registry.kinds().iter();
    let found = served.find(|one| one.api_version == version && one.kind.kind == kind);
    let resource = found.map_or_else(|| ALL.to_owned(), |one| one.kind.plural.to_string());
    (group.to_owned(), resource)
}

/// The `paramKind` of the policy that a binding names.
fn parameters_of(api: &ApiServer, binding: &str, policy: &str) -> Option<Object> {
    let plural = match binding {
        "MutatingAdmissionPolicyBinding" => "mutatingadmissionpolicies",
        _ => "validatingadmissionpolicies",
    };
    let state = api.world.current();
    let record = state.get(&format!("/registry/{plural}/{policy}"))?;
    let policy: Object = serde_json::from_slice(record.bytes()).ok()?;
    policy.map_at(&["spec", "paramKind"]).cloned()
}
