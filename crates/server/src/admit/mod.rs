//! Admission: what the cluster has to say about a write, in one visible order (R161).
//!
//! ```text
//!   restrict   what nodes may touch, on the object as it was sent
//!   mutate     namespace lifecycle → limit ranges → service account → taint of new nodes → priority → toleration seconds
//!              → storage class and protection → runtime class → ingress class → labels of the node → who asks for a certificate
//!              → rights handed out, then what roles gather
//!   validate   the right to create, where an update does → limit ranges → pod security → default priority
//!              → growth of claims → rights on signers → rights on devices → owner references → what pods read of themselves
//!              → namespace lifecycle (deletes) → policies
//!   allocate   service addresses and node ports, what quotas allow, in the same transaction
//! ```
//!
//! What upstream calls a plugin can be switched off and on by its name: `plugins`.

mod certificate;
mod counterparts;
mod creation;
mod downward;
mod dynamic;
mod ignored;
mod ingress;
mod limit_range;
mod namespace;
mod opt_in_plugins;
mod ownership;
mod plugins;
mod pod;
mod pod_security;
pub(crate) mod policy;
mod priority;
mod quota;
mod rbac;
mod reference;
mod reinvocation;
mod resource_claim;
mod retention;
mod runtime_class;
mod service;
mod service_range;
mod shown;
mod storage;
mod webhook;

pub use dynamic::DynamicAdmission;
pub(crate) use dynamic::{enforce, mutate as mutate_dynamically, review};
pub(crate) use namespace::must_take as namespace_must_take;
pub use ownership::OwnerChecks;
pub use plugins::{
    AdmissionPlugin, AdmissionPluginError, AdmissionPlugins, admission_plugin_names,
};
pub(crate) use pod::label_topology;
pub(crate) use pod_security::existing as judge_existing_pods;
pub(crate) use quota::Turns;
pub(crate) use retention::settle as settle_retention;
pub(crate) use service::SERVICE_RANGE_NAME;
pub use service_range::{ServiceRange, ServiceRangeError};
pub(crate) use webhook::read_review_answer;

pub use tenure_kinds::downward::Downward;
pub use tenure_kinds::retention::RetentionOptions;

use std::sync::Arc;

use tenure_machinery::{Errors, Failure, Kind, Object, ObjectExt};
use tenure_world::World;

use crate::api::ApiServer;
use crate::certificate_signing;
use crate::clock::now;
use crate::custom;
use crate::node;
use crate::request::ResourceRequest;
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

impl Operation {
    /// As policies and webhooks name it.
    pub(crate) fn verb(self) -> &'static str {
        match self {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
            Operation::Connect => "CONNECT",
        }
    }
}

/// Refuses what a node may not write, before anything of the object is dropped or filled in.
pub(crate) fn restrict(
    api: &ApiServer,
    request: &ResourceRequest,
    old: Option<&Object>,
    new: &Object,
) -> Result<(), Failure> {
    if !api.plugins.on(AdmissionPlugin::NodeRestriction) {
        return Ok(());
    }
    let operation = if old.is_some() { Operation::Update } else { Operation::Create };
    node::restrict(api, request, operation, old, Some(new))
}

/// The state in which a new object is judged.
pub(crate) async fn state_for_new(
    api: &ApiServer,
    request: &ResourceRequest,
    object: &Object,
) -> Arc<World> {
    match (request.served.kind.group.as_ref(), request.served.kind.kind.as_ref()) {
        ("", "Pod") if api.plugins.on(AdmissionPlugin::ServiceAccount) => {
            pod::with_account(api, object).await
        }
        _ => api.world.current(),
    }
}

/// Changes the object as the cluster wants it, or refuses.
pub fn mutate(
    api: &ApiServer,
    state: &World,
    request: &ResourceRequest,
    operation: Operation,
    old: Option<&Object>,
    object: &mut Object,
    extras: &mut Extras,
) -> Result<(), Failure> {
    let kind = &request.served.kind;
    let on = |plugin| api.plugins.on(plugin);
    if operation == Operation::Create {
        custom::must_not_be_going(&request.served, object.name())?;
        namespace::must_exist(api, state, request, object, extras)?;
    }
    if on(AdmissionPlugin::LimitRanger) {
        limit_range::fill(state, request, operation, old, object)?;
    }
    match (kind.group.as_ref(), kind.kind.as_ref(), operation) {
        ("", "Pod", Operation::Create | Operation::Update) => {
            settle_pod(api, state, request, operation, old, object)?;
        }
        ("", "Node", Operation::Create) if on(AdmissionPlugin::TaintNodesByCondition) => {
            pod::taint_new_node(object);
        }
        ("networking.k8s.io", "Ingress", Operation::Create)
            if on(AdmissionPlugin::DefaultIngressClass) =>
        {
            ingress::default_class(state, object);
        }
        ("", "PersistentVolume" | "PersistentVolumeClaim", Operation::Create)
        | ("storage.k8s.io", "VolumeAttributesClass", Operation::Create) => {
            if on(AdmissionPlugin::StorageObjectInUseProtection) {
                storage::protect(kind, object);
            }
            if on(AdmissionPlugin::DefaultStorageClass) {
                storage::default_class(state, &kind.kind, object);
            }
        }
        ("certificates.k8s.io", "CertificateSigningRequest", Operation::Create) => {
            certificate_signing::stamp(&request.user, object);
        }
        (tenure_rbac::GROUP, kind, _) => {
            // What is judged is what the writer said, before a gathered role gets its rules.
            if operation != Operation::Delete {
                rbac::may_hand_out(api, state, request, old, object, extras)?;
            }
            if kind == "ClusterRole" {
                rbac::gather(api, state, request, operation, object, extras)?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// What the cluster makes of a pod that is created or changed.
fn settle_pod(
    api: &ApiServer,
    state: &World,
    request: &ResourceRequest,
    operation: Operation,
    old: Option<&Object>,
    object: &mut Object,
) -> Result<(), Failure> {
    let on = |plugin| api.plugins.on(plugin);
    let itself = request.subresource.is_empty();
    if operation == Operation::Create && on(AdmissionPlugin::ServiceAccount) {
        pod::service_account(api, state, object)?;
    }
    if itself && on(AdmissionPlugin::AlwaysPullImages) {
        opt_in_plugins::pull_always(old, object);
    }
    if on(AdmissionPlugin::Priority) {
        match old {
            None => priority::resolve(state, object)?,
            Some(old) if itself => priority::keep(object, old),
            Some(_) => {}
        }
    }
    let made = operation == Operation::Create;
    if (made || itself) && on(AdmissionPlugin::DefaultTolerationSeconds) {
        pod::toleration_seconds(object);
    }
    if itself && on(AdmissionPlugin::ExtendedResourceToleration) {
        opt_in_plugins::tolerate_extended_resources(object);
    }
    if made && on(AdmissionPlugin::RuntimeClass) {
        runtime_class::apply(state, object)?;
    }
    let node = object.str_at(&["spec", "nodeName"]).filter(|_| made).map(str::to_owned);
    if let Some(node) = node.filter(|_| on(AdmissionPlugin::PodTopologyLabels)) {
        pod::label_topology(state, &node, object);
    }
    Ok(())
}

/// Refuses what may not happen.
pub(crate) fn validate(
    api: &ApiServer,
    state: &World,
    request: &mut ResourceRequest,
    operation: Operation,
    old: Option<&Object>,
    new: Option<&Object>,
) -> Result<(), Failure> {
    if operation == Operation::Create {
        creation::must_be_allowed(api, request)?;
    }
    let on = |plugin| api.plugins.on(plugin);
    if operation == Operation::Delete && on(AdmissionPlugin::NodeRestriction) {
        node::restrict(api, request, operation, old, new)?;
    }
    if request.served.kind.group == "certificates.k8s.io" {
        match (request.served.kind.kind.as_ref(), new) {
            ("CertificateSigningRequest", new) => {
                certificate::may_decide(api, request, operation, old, new)?;
            }
            ("ClusterTrustBundle", Some(new)) if on(AdmissionPlugin::ClusterTrustBundleAttest) => {
                certificate::may_attest(api, request, old, new)?;
            }
            ("PodCertificateRequest", Some(new)) => certificate::may_issue(api, request, old, new)?,
            _ => {}
        }
    }
    if let Some(new) = new {
        by_plugins(api, state, request, operation, old, new)?;
        resource_claim::judge(api, state, request, old, new)?;
        reference::may_hand_out(api, request, old, new)?;
        policy::may_read_parameters(api, request, old, new)?;
        ownership::may_refer(api, request, operation, old, new)?;
        downward::may_read_owners(state, request, old, new)?;
    }
    if let (Operation::Delete, Some(old)) = (operation, old)
        && on(AdmissionPlugin::NamespaceLifecycle)
    {
        namespace::must_not_be_protected(request, old)?;
    }
    Ok(())
}

/// Refuses what the plugins refuse that look at what is written.
fn by_plugins(
    api: &ApiServer,
    state: &World,
    request: &mut ResourceRequest,
    operation: Operation,
    old: Option<&Object>,
    new: &Object,
) -> Result<(), Failure> {
    let on = |plugin| api.plugins.on(plugin);
    let kind = &request.served.kind;
    let is_pod = kind.group.is_empty() && kind.kind == "Pod" && request.subresource.is_empty();
    if is_pod && on(AdmissionPlugin::LimitPodHardAntiAffinityTopology) {
        opt_in_plugins::only_by_hostname(new)?;
    }
    if on(AdmissionPlugin::LimitRanger) {
        limit_range::refuse(state, request, operation, old, new)?;
    }
    if is_pod && on(AdmissionPlugin::AlwaysPullImages) {
        opt_in_plugins::must_pull_always(old, new)?;
    }
    if on(AdmissionPlugin::PodSecurity) {
        pod_security::judge(api, state, request, operation, old, new)?;
    }
    if on(AdmissionPlugin::Priority) {
        priority::one_default(state, request, old, new)?;
    }
    if on(AdmissionPlugin::PersistentVolumeClaimResize) {
        storage::may_grow(state, request, old, new)?;
    }
    if on(AdmissionPlugin::PodResizeValidator) {
        pod::may_resize(state, request, old, new)?;
    }
    if on(AdmissionPlugin::ServiceAccount) {
        pod::may_debug(state, request, new)?;
    }
    if on(AdmissionPlugin::DenyServiceExternalIPs) {
        opt_in_plugins::no_external_addresses(request, old, new)?;
    }
    Ok(())
}

/// Whether the expressions of a policy or of webhooks that are written can run.
pub(crate) fn check_expressions(
    kind: &Kind,
    new: &Object,
    old: Option<&Object>,
    errors: &mut Errors,
) {
    policy::check(kind, new, old, errors);
}

/// What to tell about an object that is written all the same.
#[must_use]
pub(crate) fn warnings(
    api: &ApiServer,
    state: &World,
    request: &ResourceRequest,
    old: Option<&Object>,
    new: &Object,
) -> Vec<String> {
    let mut warnings = ownership::absent_owners(api, state, request, old, new);
    warnings.extend(retention::warnings(api, state, request, old, new));
    warnings.extend(downward::warnings(request, old, new));
    warnings.extend(counterparts::warnings(api, state, request, old, new));
    warnings.extend(ignored::warnings(request, new));
    warnings
}

/// Takes addresses and ports for the object, to be committed with it.
pub fn allocate(
    api: &ApiServer,
    state: &World,
    request: &ResourceRequest,
    old: Option<&Object>,
    object: &mut Object,
    extras: &mut Extras,
) -> Result<(), Failure> {
    if request.served.kind.kind == "Service" && request.served.kind.group.is_empty() {
        service::allocate(api, state, old, object, extras)?;
    }
    if request.served.kind.kind == "CustomResourceDefinition" && request.subresource.is_empty() {
        custom::settle(state, &api.kinds.current(), object, &now());
    }
    match api.plugins.on(AdmissionPlugin::ResourceQuota) {
        true => quota::charge(state, request, old, object, extras),
        false => Ok(()),
    }
}

/// Gives back what a removed object had taken, in the transaction that removes it.
pub fn release(
    api: &ApiServer,
    state: &World,
    request: &ResourceRequest,
    object: &Object,
    extras: &mut Extras,
) -> Result<(), Failure> {
    let kind = &request.served.kind;
    if kind.kind == "Service" && kind.group.is_empty() {
        service::release(state, object, extras);
    }
    if kind.kind == "ClusterRole" && kind.group == tenure_rbac::GROUP {
        rbac::gather(api, state, request, Operation::Delete, object, extras)?;
    }
    Ok(())
}
