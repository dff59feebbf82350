//! Whoever creates by updating must be allowed to create the very object (R160).
//!
//! The one place that knows: every way to make an object comes through here after it was validated and before it
//! is stored, again on every attempt, so an object that vanishes between decision and write changes nothing.

use tenure_machinery::Failure;
use tenure_rbac::RequestAttributes;

use crate::access::refusal;
use crate::api::ApiServer;
use crate::request::ResourceRequest;

/// Refuses a creation that the request line did not ask for, unless its sender may create that object.
pub(super) fn must_be_allowed(api: &ApiServer, request: &ResourceRequest) -> Result<(), Failure> {
    let kind = &request.served.kind;
    let requested = RequestAttributes::Resource {
        verb: &request.verb,
        group: &kind.group,
        resource: &kind.plural,
        subresource: &request.subresource,
        namespace: request.access_namespace(),
        name: &request.name,
    };
    match requested.to_create() {
        Some(needed) if !request.may(&api.access, &needed) => Err(refusal(&request.user, &needed)),
        _ => Ok(()),
    }
}
