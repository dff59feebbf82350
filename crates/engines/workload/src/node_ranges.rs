//! Which addresses the pods of a node have, where the node's runtime gives them a network of its own (laptop N3).
//!
//! ```text
//!   Node with the label, without podCIDRs ──► the first network in 10.244.0.0/16 that no node has
//! ```
//!
//! One key for all nodes: two of them never get the same. A range is given once and never changes.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::Ipv4Addr;

use serde_json::{Value, json};
use tenure_machinery::network::IpNetwork;
use tenure_machinery::quantity::Quantity;
use tenure_machinery::{Object, ObjectExt};

use crate::controller::{
    Controller, ObjectChange, Pass, ReconcileKey, ReconcileMemory, ReconcileResult,
};
use crate::intent::{ControllerIntent, InvolvedObject, UpdateEndpoint};
use crate::owner;
use crate::resource::BuiltinResource;
use crate::simulated::LABEL;
use crate::view::ClusterView;

/// The value of the label of nodes that ask for addresses.
const PROCESS: &str = "process";
/// Where ranges come from: 10.244.0.0, with this many bits shared.
const FIRST: u32 = (10 << 24) + (244 << 16);
const BITS: u32 = 16;
/// A range with 254 addresses: one for the node, the others for up to 250 pods and a few that rest.
const USUAL_BITS: u32 = 24;
const USUAL_PODS: u32 = 250;

const NO_RANGE: &str = "the node has no addresses for pods: all of 10.244.0.0/16 is given";

/// The controller of ranges. Its only key stands for all nodes.
pub struct NodeRanges;

impl Controller for NodeRanges {
    fn name(&self) -> &'static str {
        "node-ipam-controller"
    }
    fn alias(&self) -> &'static str {
        "nodeipam"
    }
    fn component(&self) -> &'static str {
        "cidrAllocator"
    }
    fn account(&self) -> &'static str {
        "node-controller"
    }
    fn comes_first(&self) -> bool {
        // No pod of the node starts before.
        true
    }
    fn watches(&self) -> &'static [BuiltinResource] {
        &[BuiltinResource::Nodes]
    }
    fn wake(
        &self,
        change: &ObjectChange<'_>,
        view: &dyn ClusterView,
        wake: &mut dyn FnMut(ReconcileKey),
    ) {
        // The end of a node is the chance of another.
        let waits = match change.after {
            Some(node) => asks(node),
            None => view.list(BuiltinResource::Nodes, None).iter().any(|node| asks(node)),
        };
        if waits {
            wake(ReconcileKey::new("", ""));
        }
    }
    fn reconcile(&self, pass: &Pass<'_>) -> ReconcileResult {
        let mut out = ReconcileResult::default();
        let nodes = pass.view.list(BuiltinResource::Nodes, None);
        let mut taken: Vec<IpNetwork> = nodes.iter().flat_map(|node| ranges(node)).collect();
        let mut without = BTreeSet::new();
        for node in nodes.iter().filter(|node| asks(node)) {
            let Some(range) = free(&taken, bits(node)) else {
                let about = InvolvedObject::of(BuiltinResource::Nodes, node);
                let told = |said: &BTreeSet<String>| said.contains(node.name());
                if !matches!(pass.memory, ReconcileMemory::Said(said) if told(said)) {
                    out.push(ControllerIntent::tell(about.warning("CIDRNotAvailable", NO_RANGE)));
                }
                without.insert(String::from(node.name()));
                continue;
            };
            let text = format!("{range}");
            taken.push(range);
            let mut object = Object::clone(&node.object);
            let spec = object.map_mut("spec");
            spec.insert(String::from("podCIDR"), text.as_str().into());
            spec.insert(String::from("podCIDRs"), json!([text]));
            let update = ControllerIntent::update(
                BuiltinResource::Nodes,
                object,
                UpdateEndpoint::Main,
                node.revision,
            );
            out.push(update.independent());
        }
        out.memory = ReconcileMemory::Said(without);
        out
    }
}

/// Whether a node waits for addresses.
fn asks(node: &Object) -> bool {
    owner::label(node, LABEL) == Some(PROCESS)
        && !owner::deleting(node)
        && node.list_at(&["spec", "podCIDRs"]).is_empty()
}

fn ranges(node: &Object) -> Vec<IpNetwork> {
    let texts = node.list_at(&["spec", "podCIDRs"]).iter().filter_map(Value::as_str);
    texts.filter_map(IpNetwork::parse).collect()
}

/// How many bits the addresses of a node share: fewer where it takes more pods than usual.
fn bits(node: &Object) -> u32 {
    let pods = node.str_at(&["status", "capacity", "pods"]).and_then(Quantity::parse);
    let pods = pods.and_then(|pods| u32::try_from(pods.value()).ok()).unwrap_or(USUAL_PODS);
    let mut bits = USUAL_BITS;
    while bits > BITS && pods > (USUAL_PODS << (USUAL_BITS - bits)) {
        bits -= 1;
    }
    bits
}

/// The first range of this size that no node has.
fn free(taken: &[IpNetwork], bits: u32) -> Option<IpNetwork> {
    let all = (0..1_u32 << (bits - BITS)).map(|number| FIRST + (number << (32 - bits)));
    let all = all.map(|first| format!("{}/{bits}", Ipv4Addr::from_bits(first)));
    let mut all = all.filter_map(|text| IpNetwork::parse(&text));
    all.find(|range| !taken.iter().any(|other| other.overlaps(range)))
}
