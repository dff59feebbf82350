//! Addresses and the Services that have them, kept true to each other (SV3): an address whose Service is
//! gone or has another goes, and a Service whose address somebody took gets it back.
//!
//! ```text
//!   Service.spec.clusterIP == IPAddress.name      IPAddress.spec.parentRef == Service
//! ```
//!
//! Both are written in one transaction, so this finds only what people did. Addresses of others than
//! Services are theirs.

use alloc::format;
use alloc::string::{String, ToString};
use core::time::Duration;

use serde_json::{Value, json};
use tenure_machinery::validate::ip;
use tenure_machinery::{Object, ObjectExt};

use crate::controller::{
    Controller, KubernetesProgram, ObjectChange, Pass, ReconcileKey, ReconcileMemory,
    ReconcileResult,
};
use crate::intent::{ControllerIntent, InvolvedObject};
use crate::resource::BuiltinResource;
use crate::view::{ClusterView, VersionedObject};
use crate::{owner, time};

const MANAGED_BY: &str = "ipaddress.kubernetes.io/managed-by";
const MANAGER: &str = "ipallocator.k8s.io";
const FAMILY: &str = "ipaddress.kubernetes.io/ip-family";
/// How long an address may wait for its Service: somebody may restore both.
const LEAKED_AFTER_SECONDS: i64 = 60;

/// What the API server does about addresses of Services. A key is an address, or namespace and name of a
/// Service.
pub struct IpAddresses;

impl Controller for IpAddresses {
    fn name(&self) -> &'static str {
        "ipallocator-repair-controller"
    }
    fn alias(&self) -> &'static str {
        "ipallocator-repair"
    }
    fn program(&self) -> KubernetesProgram {
        KubernetesProgram::ApiServer
    }
    fn retries_within(&self) -> Duration {
        Duration::from_secs(60)
    }
    fn watches(&self) -> &'static [BuiltinResource] {
        &[BuiltinResource::IpAddresses, BuiltinResource::Services]
    }
    fn wake(
        &self,
        change: &ObjectChange<'_>,
        view: &dyn ClusterView,
        wake: &mut dyn FnMut(ReconcileKey),
    ) {
        if change.resource == BuiltinResource::IpAddresses {
            if let Some(after) = change.after {
                wake(ReconcileKey::new("", after.name()));
            } else if let Some(before) = change.before
                && let Some(service) = service_of(view, before)
                && address_of(&service) == Some(before.name())
            {
                wake(ReconcileKey::of(&service));
            }
            return;
        }
        if let Some(service) = change.after
            && let Some(address) = address_of(service)
        {
            // Nearly every change of a Service leaves things as they should be.
            let seen = view.get(BuiltinResource::IpAddresses, "", address);
            if !seen.is_some_and(|seen| is_parent(&seen, service) && has_labels(&seen)) {
                wake(ReconcileKey::of(service));
            }
        }
        let before = change.before.and_then(|service| address_of(service));
        if let Some(address) =
            before.filter(|it| change.after.and_then(|now| address_of(now)) != Some(it))
        {
            wake(ReconcileKey::new("", address));
        }
    }
    fn reconcile(&self, pass: &Pass<'_>) -> ReconcileResult {
        let mut out = ReconcileResult::default();
        let (namespace, name) = (&*pass.key.namespace, &*pass.key.name);
        if namespace.is_empty() {
            if let Some(seen) = pass.view.get(BuiltinResource::IpAddresses, "", name) {
                settle_address(pass, &seen, &mut out);
            }
        } else if let Some(service) = pass.view.get(BuiltinResource::Services, namespace, name) {
            settle_service(pass, &service, &mut out);
        }
        out
    }
}

/// Whether an address is one that the server gave to a Service.
pub(crate) fn is_managed(address: &Object) -> bool {
    owner::label(address, MANAGED_BY) == Some(MANAGER)
}

/// The address of a Service, if it has one of its own.
fn address_of(service: &Object) -> Option<&str> {
    let address = service.str_at(&["spec", "clusterIP"]).unwrap_or_default();
    let external = service.str_at(&["spec", "type"]) == Some("ExternalName");
    (!external && ip(address).is_some()).then_some(address)
}

fn parent(address: &Object) -> Option<&Object> {
    address.map_at(&["spec", "parentRef"])
}

fn is_parent(address: &Object, service: &Object) -> bool {
    names_service(address)
        && parent(address).is_some_and(|parent| {
            parent.str_at(&["namespace"]) == Some(service.namespace())
                && parent.str_at(&["name"]) == Some(service.name())
        })
}

fn names_service(address: &Object) -> bool {
    parent(address).is_some_and(|parent| {
        parent.str_at(&["group"]).unwrap_or_default().is_empty()
            && parent.str_at(&["resource"]) == Some("services")
    })
}

fn family(name: &str) -> &'static str {
    if name.contains(':') { "IPv6" } else { "IPv4" }
}

fn has_labels(address: &Object) -> bool {
    is_managed(address) && owner::label(address, FAMILY) == Some(family(address.name()))
}

/// The Service that an address names.
fn service_of(view: &dyn ClusterView, address: &Object) -> Option<VersionedObject> {
    let parent = parent(address).filter(|_| names_service(address))?;
    let text = |member| parent.str_at(&[member]).unwrap_or_default();
    view.get(BuiltinResource::Services, text("namespace"), text("name"))
}

/// A Service has its address, and the address says so.
fn settle_service(pass: &Pass<'_>, service: &VersionedObject, out: &mut ReconcileResult) {
    let Some(name) = address_of(service).filter(|_| !owner::deleting(service)) else { return };
    let about = InvolvedObject::of(BuiltinResource::Services, service);
    let Some(seen) = pass.view.get(BuiltinResource::IpAddresses, "", name) else {
        let message = format!("Cluster IP [{}]: {name} is not allocated; repairing", family(name));
        out.push(
            creation(name, service).when_done(about.warning("ClusterIPNotAllocated", message)),
        );
        return;
    };
    if is_parent(&seen, service) && has_labels(&seen) {
        return;
    }
    let other = service_of(pass.view, &seen).filter(|_| !is_parent(&seen, service));
    if other.is_some_and(|other| address_of(&other) == Some(name)) {
        let message = format!(
            "Cluster IP [{}]: {name} was assigned to multiple services; please recreate service",
            family(name)
        );
        let said = ReconcileMemory::Said([name.to_string()].into());
        if *pass.memory != said {
            out.push(ControllerIntent::tell(about.warning("ClusterIPAlreadyAllocated", message)));
        }
        out.memory = said;
        return;
    }
    // A parent cannot change, so the address is made anew.
    let message = format!(
        "the ClusterIP [{}]: {name} for Service {}/{} has a wrong reference; repairing",
        family(name),
        service.namespace(),
        service.name()
    );
    let reported = about.warning("ClusterIPNotAllocated", message);
    let deletion = ControllerIntent::delete(BuiltinResource::IpAddresses, &seen);
    out.push(deletion.unless_changed(seen.revision).when_done(reported));
    out.push(creation(name, service));
}

/// An address that the server gave to a Service is that Service's, or goes.
fn settle_address(pass: &Pass<'_>, seen: &VersionedObject, out: &mut ReconcileResult) {
    if owner::deleting(seen) {
        return;
    }
    let service = service_of(pass.view, seen);
    if let Some(service) = &service
        && address_of(service) == Some(seen.name())
    {
        return settle_service(pass, service, out);
    }
    let remove = |out: &mut ReconcileResult, reason: &str, message: String| {
        let deletion = ControllerIntent::delete(BuiltinResource::IpAddresses, seen);
        let about = InvolvedObject::of(BuiltinResource::IpAddresses, seen);
        let reported = about.warning(reason, message);
        out.push(deletion.unless_changed(seen.revision).when_done(reported));
    };
    if !is_managed(seen) {
        return;
    }
    let name = seen.name();
    if !names_service(seen) {
        let message = format!(
            "IPAddress {name} appears to have been modified, not referencing a Service: cleaning up"
        );
        return remove(out, "IPAddressNotAllocated", message);
    }
    let text = |member| {
        parent(seen).and_then(|parent| parent.str_at(&[member])).unwrap_or_default().to_string()
    };
    let (namespace, named) = (text("namespace"), text("name"));
    if service.is_some() {
        let message = format!(
            "IPAddress: {name} for Service {namespace}/{named} has a wrong reference; cleaning up"
        );
        return remove(out, "IPAddressWrongReference", message);
    }
    let expiry = time::created(seen).map(|made| time::after(made, LEAKED_AFTER_SECONDS));
    if let Some(expiry) = expiry.filter(|expiry| *expiry > pass.now) {
        return out.wake_after(time::until(expiry, pass.now));
    }
    let message = format!(
        "IPAddress: {name} for Service {namespace}/{named} appears to have leaked: cleaning up"
    );
    remove(out, "IPAddressNotAllocated", message);
}

fn creation(name: &str, service: &VersionedObject) -> ControllerIntent {
    let resource = BuiltinResource::IpAddresses;
    let object = json!({
        "apiVersion": resource.api_version(), "kind": resource.kind(),
        "metadata": {
            "name": name,
            "labels": { FAMILY: family(name), MANAGED_BY: MANAGER },
        },
        "spec": { "parentRef": {
            "resource": "services", "namespace": service.namespace(), "name": service.name(),
        } },
    });
    let object = match object {
        Value::Object(object) => object,
        _ => Object::new(),
    };
    ControllerIntent::create(resource, object)
}
