//! Admission: what the cluster has to say about a write, in one visible order (R161).
//!
//! ```text
//!   mutate     namespace lifecycle → service account → priority → toleration seconds → storage protection → who asks for a certificate
//!   validate   what nodes may touch → rights handed out → owner references → what pods read of themselves → namespace lifecycle (deletes)
//!              → policies
//!   allocate   service addresses and node ports, what quotas allow, in the same transaction
//! ```

mod counterparts;
mod downward;
mod namespace;
mod ownership;
mod pod;
pub(crate) mod policy;
mod quota;
mod rbac;
mod reference;
mod retention;
mod service;
mod storage;

pub use ownership::OwnerChecks;
pub use policy::Policies;
pub(crate) use quota::Turns;
pub(crate) use retention::settle as settle_retention;
pub use service::first_address as first_service_address;
pub use tenure_kinds::downward::Downward;
pub use tenure_kinds::retention::Retention;

use tenure_machinery::{Errors, Failure, Kind, Object, ObjectExt};
use tenure_world::World;

use crate::api::Api;
use crate::clock::now;
use crate::custom;
use crate::node;
use crate::request::Request;
use crate::sign;
use crate::write::commit::Extras;

/// What is done to the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// It is made.
    Create,
    /// It changes.
    Update,
    /// It goes.
    Delete,
    /// A connection to it is opened.
    Connect,
}

/// Changes the object as the cluster wants it, or refuses.
pub fn mutate(
    api: &Api,
    state: &World,
    request: &Request,
    operation: Operation,
    _old: Option<&Object>,
    object: &mut Object,
    extras: &mut Extras,
) -> Result<(), Failure> {
    let kind = &request.served.kind;
    if operation == Operation::Create {
        custom::must_not_be_going(&request.served, object.name())?;
        namespace::must_exist(state, request, object, extras)?;
    }
    match (kind.group.as_ref(), kind.kind.as_ref(), operation) {
        ("", "Pod", Operation::Create) => {
            pod::service_account(api, state, object)?;
            pod::priority(state, object)?;
            pod::toleration_seconds(object);
        }
        ("", "PersistentVolume" | "PersistentVolumeClaim", Operation::Create) => {
            storage::protect(kind, object);
            storage::default_class(state, &kind.kind, object);
        }
        ("storage.k8s.io", "VolumeAttributesClass", Operation::Create) => {
            storage::protect(kind, object);
        }
        ("certificates.k8s.io", "CertificateSigningRequest", Operation::Create) => {
            sign::stamp(&request.user, object);
        }
        (tenure_rbac::GROUP, "ClusterRole", _) => {
            rbac::gather(api, state, request, operation, object, extras)?;
        }
        _ => {}
    }
    Ok(())
}

/// Refuses what may not happen.
pub(crate) fn validate(
    api: &Api,
    request: &Request,
    operation: Operation,
    old: Option<&Object>,
    new: Option<&Object>,
) -> Result<(), Failure> {
    node::restrict(request, operation, old, new)?;
    if let (tenure_rbac::GROUP, Some(new)) = (request.served.kind.group.as_ref(), new) {
        rbac::may_hand_out(api, request, old, new)?;
    }
    if let Some(new) = new {
        reference::may_hand_out(api, request, old, new)?;
        ownership::may_refer(api, request, operation, old, new)?;
        downward::may_read_owners(api, request, old, new)?;
    }
    if let (Operation::Delete, Some(old)) = (operation, old) {
        namespace::must_not_be_protected(request, old)?;
    }
    Ok(())
}

/// Whether the expressions of a policy that is written can run.
pub(crate) fn check_expressions(
    kind: &Kind,
    new: &Object,
    old: Option<&Object>,
    errors: &mut Errors,
) {
    let is_policy =
        kind.kind == "ValidatingAdmissionPolicy" && kind.group == "admissionregistration.k8s.io";
    // What is stored stays valid.
    if is_policy && old.is_none_or(|old| old.get("spec") != new.get("spec")) {
        policy::check(new, errors);
    }
}

/// What to tell about an object that is written all the same.
#[must_use]
pub(crate) fn warnings(
    api: &Api,
    state: &World,
    request: &Request,
    old: Option<&Object>,
    new: &Object,
) -> Vec<String> {
    let mut warnings = ownership::absent_owners(api, state, request, old, new);
    warnings.extend(retention::warnings(api, state, request, old, new));
    warnings.extend(downward::warnings(request, old, new));
    warnings.extend(counterparts::warnings(api, state, request, old, new));
    warnings
}

/// Takes addresses and ports for the object, to be committed with it.
pub fn allocate(
    api: &Api,
    state: &World,
    request: &Request,
    old: Option<&Object>,
    object: &mut Object,
    extras: &mut Extras,
) -> Result<(), Failure> {
    if request.served.kind.kind == "Service" && request.served.kind.group.is_empty() {
        service::allocate(api, state, old, object, extras)?;
    }
    if request.served.kind.kind == "CustomResourceDefinition" && request.subresource.is_empty() {
        custom::settle(state, object, &now());
    }
    if old.is_none() {
        quota::charge(state, request, object, extras)?;
    }
    Ok(())
}

/// Gives back what a removed object had taken, in the transaction that removes it.
pub fn release(
    api: &Api,
    state: &World,
    request: &Request,
    object: &Object,
    extras: &mut Extras,
) -> Result<(), Failure> {
    let kind = &request.served.kind;
    if kind.kind == "Service" && kind.group.is_empty() {
        service::release(state, object, extras);
    }
    if kind.kind == "ClusterRole" && kind.group == tenure_rbac::GROUP {
        let mut gone = object.clone();
        rbac::gather(api, state, request, Operation::Delete, &mut gone, extras)?;
    }
    Ok(())
}
