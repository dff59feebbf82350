//! What the server has to say about subjects of retention: the rules are in crate `kinds`; here they meet the state.
//! (retention R60, R61)

use tenure_kinds::retention::{self, ReferenceKind};
use tenure_machinery::{Object, ObjectExt};
use tenure_world::World;

use crate::api::ApiServer;
use crate::request::ResourceRequest;

/// Brings the opt-in of a written object into its stored form.
pub(crate) fn settle(
    api: &ApiServer,
    request: &ResourceRequest,
    old: Option<&Object>,
    object: &mut Object,
) {
    if retention::is_subject(&request.served.kind) {
        api.retention.settle(object, old);
    }
}

/// What to tell about an object and the subjects it mentions.
pub(super) fn warnings(
    api: &ApiServer,
    state: &World,
    request: &ResourceRequest,
    old: Option<&Object>,
    new: &Object,
) -> Vec<String> {
    let kind = &request.served.kind;
    if retention::is_subject(kind) {
        let hint = api.retention.hint(new).filter(|_| old.is_none());
        return hint.into_iter().collect();
    }
    if !api.retention.enabled || !request.subresource.is_empty() {
        return Vec::new();
    }
    let mentioned = retention::unretained(kind, new).into_iter();
    let subjects = mentioned.filter(|(of, name)| is_opted_in(state, *of, new.namespace(), name));
    subjects
        .map(|(of, name)| {
            format!(
                "{} {name:?} is collected when no workload revision needs it any more; a {} does \
                 not retain it",
                of.as_str(),
                kind.kind
            )
        })
        .collect()
}

fn is_opted_in(state: &World, kind: ReferenceKind, namespace: &str, name: &str) -> bool {
    let prefix = match kind {
        ReferenceKind::ConfigMap => "configmaps",
        ReferenceKind::Secret => "secrets",
    };
    let record = state.get(&format!("/registry/{prefix}/{namespace}/{name}"));
    let subject = record.and_then(|found| serde_json::from_slice::<Object>(found.bytes()).ok());
    subject.is_some_and(|subject| retention::opted_in(&subject))
}
