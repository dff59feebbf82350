//! What is stored and not acted on says so, with every write of it (R255).
//!
//! Which kinds those are stands in the table of kinds; here it becomes a warning.

use tenure_machinery::kind::ActedOn;
use tenure_machinery::{Object, ObjectExt};

use crate::aggregate;
use crate::request::ResourceRequest;

/// Says that nothing acts on an object, or on a part of it.
pub(super) fn warnings(request: &ResourceRequest, new: &Object) -> Vec<String> {
    if !request.subresource.is_empty() {
        return Vec::new();
    }
    let kind = &request.served.kind;
    match kind.acted_on {
        ActedOn::By(_) => served_here_anyway(request, new).into_iter().collect(),
        ActedOn::Nobody(why) => {
            vec![format!("this server stores a {} and does not act on it: {why}", kind.kind)]
        }
    }
}

/// Some groups are served here, whatever an APIService says (R131a).
fn served_here_anyway(request: &ResourceRequest, new: &Object) -> Option<String> {
    let kind = &request.served.kind;
    let is_api_service = kind.kind == "APIService" && kind.group == "apiregistration.k8s.io";
    let group = new.str_at(&["spec", "group"]).unwrap_or_default();
    let ignored = is_api_service
        && new.map_at(&["spec", "service"]).is_some()
        && !aggregate::may_be_elsewhere(group);
    let why = "spec.service: this server stores it and does not act on it: the group is always served here";
    ignored.then(|| why.to_owned())
}
