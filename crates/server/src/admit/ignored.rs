//! What is stored and not acted on says so, with every write of it (R255).
//!
//! Which kinds and members those are stands in the table of kinds; here it becomes a warning.

use serde_json::Value;
use tenure_machinery::kind::{ActedOn, Ignored};
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
        ActedOn::Partly(_, ignored) => {
            let said = ignored.iter().filter(|part| is_set(part, new));
            let line = |part: &Ignored| {
                let path = part.path.join(".");
                format!("{path}: this server stores it and does not act on it: {}", part.why)
            };
            said.map(line).collect()
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

fn is_set(part: &Ignored, object: &Object) -> bool {
    match object.at(part.path) {
        None | Some(Value::Null) => false,
        Some(value) => part.value.is_empty() || value.as_str() == Some(part.value),
    }
}
