//! The networks that Services get their addresses from: ready once they are protected, and gone only when
//! no address would be left outside of all others (SV1, SV2).
//!
//! ```text
//!   new ──► finalizer ──► Ready ──► deleted: Ready=False while it holds addresses of its own ──► gone
//! ```
//!
//! Addresses are handed out where Services are written; what that looks at is `Ready` and the deletion.

use alloc::vec::Vec;

use serde_json::Value;
use tenure_machinery::network::IpNetwork;
use tenure_machinery::validate::ip;
use tenure_machinery::{Object, ObjectExt};

use crate::controller::{Controller, ObjectChange, Pass, ReconcileKey, ReconcileResult};
use crate::intent::{ControllerIntent, UpdateEndpoint};
use crate::resource::BuiltinResource;
use crate::view::{ClusterView, VersionedObject};
use crate::{condition, ip_addresses, owner};

const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";
const READY: &str = "Ready";

/// The controller of ServiceCIDRs.
pub struct ServiceCidrs;

impl Controller for ServiceCidrs {
    fn name(&self) -> &'static str {
        "service-cidr-controller"
    }
    fn alias(&self) -> &'static str {
        "servicecidr"
    }
    fn account(&self) -> &'static str {
        "service-cidrs-controller"
    }
    fn is_essential(&self) -> bool {
        true
    }
    fn watches(&self) -> &'static [BuiltinResource] {
        &[BuiltinResource::ServiceCidrs, BuiltinResource::IpAddresses]
    }
    fn wake(
        &self,
        change: &ObjectChange<'_>,
        view: &dyn ClusterView,
        wake: &mut dyn FnMut(ReconcileKey),
    ) {
        if change.resource == BuiltinResource::ServiceCidrs {
            change.object().into_iter().for_each(|object| wake(ReconcileKey::of(object)));
        } else if change.after.is_some() {
            // An address that is there frees nothing.
            return;
        }
        // A network that waits may go when an address went, or when another that has its addresses came.
        let all = view.list(BuiltinResource::ServiceCidrs, None);
        let waiting = all.iter().filter(|object| owner::deleting(object));
        waiting.for_each(|object| wake(ReconcileKey::of(object)));
    }
    fn reconcile(&self, pass: &Pass<'_>) -> ReconcileResult {
        let mut out = ReconcileResult::default();
        let seen = pass.view.get(BuiltinResource::ServiceCidrs, "", &pass.key.name);
        if let Some(seen) = seen {
            out.intents.extend(settle(pass, &seen));
        }
        out
    }
}

fn settle(pass: &Pass<'_>, seen: &VersionedObject) -> Option<ControllerIntent> {
    let mut object = Object::clone(&seen.object);
    let update = |object: Object, endpoint: UpdateEndpoint| {
        let resource = BuiltinResource::ServiceCidrs;
        Some(ControllerIntent::update(resource, object, endpoint, seen.revision))
    };
    if owner::deleting(seen) {
        if !owner::has_finalizer(seen, FINALIZER) {
            return None;
        }
        if may_go(pass.view, seen) {
            owner::remove_finalizer(&mut object, FINALIZER);
            return update(object, UpdateEndpoint::Main);
        }
        let why = "There are still IPAddresses referencing the ServiceCIDR, please remove them or \
                   create a new ServiceCIDR";
        condition::put(&mut object, (READY, "False"), "Terminating", why, pass.now);
    } else if !owner::has_finalizer(seen, FINALIZER) {
        owner::add_finalizer(&mut object, FINALIZER);
        return update(object, UpdateEndpoint::Main);
    } else {
        let why = "Kubernetes Service CIDR is ready";
        condition::put(&mut object, (READY, "True"), "", why, pass.now);
    }
    (object != *seen.object).then(|| update(object, UpdateEndpoint::Status))?
}

/// The networks of a ServiceCIDR.
fn networks(object: &Object) -> Vec<IpNetwork> {
    let texts = object.list_at(&["spec", "cidrs"]).iter().filter_map(Value::as_str);
    texts.filter_map(IpNetwork::parse).collect()
}

/// Whether every address that Services have from it is also in a network that stays.
fn may_go(view: &dyn ClusterView, seen: &VersionedObject) -> bool {
    let all = view.list(BuiltinResource::ServiceCidrs, None);
    let others = all.iter().filter(|other| other.name() != seen.name() && !owner::deleting(other));
    let others: Vec<IpNetwork> = others.flat_map(|other| networks(other)).collect();
    let own = networks(seen);
    let alone = |network: &&IpNetwork| !others.iter().any(|other| other.contains(network));
    let alone: Vec<&IpNetwork> = own.iter().filter(alone).collect();
    if alone.is_empty() {
        return true;
    }
    let addresses = view.list(BuiltinResource::IpAddresses, None);
    let mut held = addresses.iter().filter(|object| ip_addresses::is_managed(object));
    !held.any(|object| {
        ip(object.name()).is_some_and(|address| {
            alone.iter().any(|network| network.has_host(address))
                && !others.iter().any(|other| other.has_host(address))
        })
    })
}
