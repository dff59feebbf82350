//! Namespaces must exist to be filled, and some may not go (R76, R78).

use std::sync::Arc;

use tenure_machinery::status::{Details, StatusCause};
use tenure_machinery::{Failure, Kind, Object, ObjectExt};
use tenure_world::{Precondition, Record, World};

use crate::admit::AdmissionPlugin;
use crate::api::ApiServer;
use crate::request::ResourceRequest;
use crate::write::commit::Extras;

/// Namespaces that cannot be deleted.
const PROTECTED: [&str; 3] = ["default", "kube-system", "kube-public"];

/// The key of a namespace object.
#[must_use]
pub(super) fn key(name: &str) -> String {
    format!("/registry/namespaces/{name}")
}

/// Refuses to create in a namespace that is missing or going, and guards that it stays as it is. Upstream's plugin
/// NamespaceLifecycle does so; NamespaceExists alone looks no further than whether there is one.
pub(super) fn must_exist(
    api: &ApiServer,
    state: &World,
    request: &ResourceRequest,
    object: &Object,
    extras: &mut Extras,
) -> Result<(), Failure> {
    let kind = &request.served.kind;
    if !kind.namespaced {
        return Ok(());
    }
    let namespace = object.namespace();
    let key = key(namespace);
    if !api.plugins.on(AdmissionPlugin::NamespaceLifecycle) {
        let missing = state.get(&key).is_none();
        return match missing && api.plugins.on(AdmissionPlugin::NamespaceExists) {
            true => Err(Failure::not_found("", "namespaces", namespace)),
            false => Ok(()),
        };
    }
    let record = living(state, kind, namespace, object.name())?;
    let is_pod = kind.group.is_empty() && kind.kind == "Pod";
    extras.guards.push(if is_pod {
        // Which pods it allows is said in its labels: whoever is let in is let in by what they say then.
        Precondition::At { key: key.as_str().into(), revision: Some(record.revision()) }
    } else {
        Precondition::Living { key: key.as_str().into(), uid: record.uid().into() }
    });
    Ok(())
}

/// Refuses what is posted to an object in a namespace that is missing or going.
pub(crate) fn must_take(
    api: &ApiServer,
    state: &World,
    kind: &Kind,
    namespace: &str,
    name: &str,
) -> Result<(), Failure> {
    match api.plugins.on(AdmissionPlugin::NamespaceLifecycle) {
        true => living(state, kind, namespace, name).map(drop),
        false => Ok(()),
    }
}

/// The namespace, which is neither missing nor going.
fn living<'a>(
    state: &'a World,
    kind: &Kind,
    namespace: &str,
    name: &str,
) -> Result<&'a Arc<Record>, Failure> {
    let Some(record) = state.get(&key(namespace)) else {
        return Err(Failure::not_found("", "namespaces", namespace));
    };
    if record.deleting() {
        let why = format!(
            "unable to create new content in namespace {namespace} because it is being terminated"
        );
        let failure = Failure::forbidden(&kind.group, &kind.plural, name, &why);
        let cause = StatusCause {
            reason: "NamespaceTerminating".to_owned(),
            message: format!("namespace {namespace} is being terminated"),
            field: "metadata.namespace".to_owned(),
        };
        let details = failure.details.as_deref().cloned().unwrap_or_default();
        return Err(failure.with(Details { causes: vec![cause], ..details }));
    }
    Ok(record)
}

/// Refuses to delete a namespace the cluster needs.
pub(super) fn must_not_be_protected(
    request: &ResourceRequest,
    object: &Object,
) -> Result<(), Failure> {
    let kind = &request.served.kind;
    let name = object.name();
    if kind.group.is_empty() && kind.kind == "Namespace" && PROTECTED.contains(&name) {
        return Err(Failure::forbidden(
            "",
            "namespaces",
            name,
            "this namespace may not be deleted",
        ));
    }
    Ok(())
}
