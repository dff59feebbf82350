//! The network of pods: who holds it, which addresses it has, how the agent speaks to it (spec/laptop.md).
//! What pods serve in it never comes here.
//!
//! ```text
//!   agent ──frames──► holder ──netlink──► node network, networks of pods
//!     ◄── sockets, namespaces as descriptors ──┘
//! ```

mod agent;
mod client;
mod dial;
mod filter;
mod holder;
mod links;
mod messages;
mod netlink;
mod node_network;
mod sysctls;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use tenure_machinery::network::IpNetwork;
use tokio::sync::watch;

pub(super) use self::agent::SandboxPlace;
pub(super) use self::client::HolderClient;
pub(super) use self::holder::live;
pub(super) use self::messages::{HolderOrder, HolderRecord, Place};
pub(super) use self::node_network::HeldNetwork;

/// The folder of the holder, below the runtime's.
pub(super) const FOLDER: &str = ".network";
/// Where a holder writes down who it is.
pub(super) const RECORD: &str = "holder.json";
/// Where the addresses of the node's pods are written down.
const RANGE: &str = "range.json";

/// The addresses of all pods of a cluster; each node has a part of them.
const OF_PODS: (Ipv4Addr, u8) = (Ipv4Addr::new(10, 244, 0, 0), 16);

/// Whose network pods have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PodNetworkChoice {
    /// Each its own, where the machine lets us; else that of the machine.
    #[default]
    Own,
    /// That of the machine.
    Machine,
}

/// The network of pods on this node, as it is now.
#[derive(Debug, Clone)]
pub(super) enum PodNetwork {
    /// Pods are in the machine's, and why.
    Machine(String),
    /// Pods have their own.
    Own(Arc<HolderClient>),
    /// They had their own, and are given it again.
    Lost,
}

/// What is known of the network.
#[derive(Debug)]
pub(super) struct NetworkState {
    network: Mutex<PodNetwork>,
    range: Mutex<Option<PodRange>>,
    /// How often a network was there that was not there before.
    lives: watch::Sender<u64>,
    /// Whose turn it is to make a holder.
    pub(super) turn: tokio::sync::Mutex<()>,
}

impl NetworkState {
    pub(super) fn new() -> NetworkState {
        NetworkState {
            network: Mutex::new(PodNetwork::Machine("it was not tried yet".to_owned())),
            range: Mutex::default(),
            lives: watch::Sender::new(0),
            turn: tokio::sync::Mutex::default(),
        }
    }

    pub(super) fn get(&self) -> PodNetwork {
        self.network.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set(&self, network: PodNetwork) {
        let begins = matches!(network, PodNetwork::Own(_));
        *self.network.lock().unwrap_or_else(PoisonError::into_inner) = network;
        if begins {
            self.lives.send_modify(|lives| *lives += 1);
        }
    }

    pub(super) fn range(&self) -> Option<PodRange> {
        *self.range.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_range(&self, range: PodRange) {
        *self.range.lock().unwrap_or_else(PoisonError::into_inner) = Some(range);
    }

    /// Whether pods have networks of their own.
    pub(super) fn is_own(&self) -> bool {
        !matches!(self.get(), PodNetwork::Machine(_))
    }

    /// The holder, where pods have a network of their own and it lives.
    pub(super) fn holder(&self) -> Option<Arc<HolderClient>> {
        match self.get() {
            PodNetwork::Own(holder) => Some(holder),
            PodNetwork::Machine(_) | PodNetwork::Lost => None,
        }
    }
}

/// The addresses of a node's pods, the first for the node itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(super) struct PodRange(IpNetwork);

impl PodRange {
    /// Reads one as `spec.podCIDRs` has it; only IPv4 has room for a node and a pod.
    pub(super) fn parse(text: &str) -> Option<PodRange> {
        let network = IpNetwork::parse(text)?;
        (network.ipv4_hosts() >= 2).then_some(PodRange(network))
    }

    /// The node's own address.
    pub(super) fn node(&self) -> Ipv4Addr {
        self.0.ipv4_host(0).unwrap_or(Ipv4Addr::UNSPECIFIED)
    }

    /// Whether an address is one of these.
    pub(super) fn has(&self, address: IpAddr) -> bool {
        self.0.has_host(address)
    }

    /// An address that is not taken; which one is tried first goes by the number.
    pub(super) fn free(&self, number: u64, is_taken: impl Fn(IpAddr) -> bool) -> Option<Ipv4Addr> {
        let pods = self.0.ipv4_hosts().saturating_sub(1);
        let begin = u32::try_from(number % u64::from(pods.max(1))).unwrap_or_default();
        let tried = (0..pods).map(|step| 1 + (begin.wrapping_add(step) % pods));
        tried.filter_map(|number| self.0.ipv4_host(number)).find(|found| !is_taken((*found).into()))
    }
}

impl std::fmt::Display for PodRange {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(out)
    }
}

impl From<PodRange> for String {
    fn from(range: PodRange) -> String {
        range.to_string()
    }
}

impl TryFrom<String> for PodRange {
    type Error = &'static str;

    fn try_from(text: String) -> Result<PodRange, &'static str> {
        PodRange::parse(&text).ok_or("no network of IPv4")
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/laptop.md.
    use super::*;

    #[test]
    fn n3_a_pod_never_has_the_addresses_of_the_node_and_of_the_ends() {
        let range = PodRange::parse("10.244.3.0/29").unwrap();
        assert_eq!(range.node(), Ipv4Addr::new(10, 244, 3, 1));
        let mut given: Vec<IpAddr> = Vec::new();
        while let Some(next) = range.free(7, |address| given.contains(&address)) {
            given.push(next.into());
        }
        given.sort();
        let expected: Vec<IpAddr> =
            (2..=6).map(|last| IpAddr::from(Ipv4Addr::new(10, 244, 3, last))).collect();
        assert_eq!(given, expected);
        assert_eq!(range.free(u64::MAX, |_| true), None);
    }

    #[test]
    fn n3_a_range_without_room_or_of_ipv6_is_none() {
        for text in ["10.244.0.0/31", "10.244.0.0/32", "fd00::/64", "10.244.0.0", "x"] {
            assert_eq!(PodRange::parse(text), None, "{text}");
        }
        let range = PodRange::parse("10.244.0.0/24").unwrap();
        let text = serde_json::to_string(&range).unwrap();
        assert_eq!(text, "\"10.244.0.0/24\"");
        assert_eq!(serde_json::from_str::<PodRange>(&text).unwrap(), range);
    }
}
