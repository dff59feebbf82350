//! What the agent and the holder of a node's network say to each other: frames as in `wire`, some with open
//! descriptors. What the holder does about it is not here.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::super::wire::Process;

/// How a holder is begun.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in super::super) struct HolderOrder {
    /// Its folder: its socket and its record.
    pub(in super::super) folder: PathBuf,
    /// A name that no other holder has.
    pub(in super::super) instance: String,
    /// Whether it needs a user namespace to have power over its networks.
    pub(in super::super) own_users: bool,
    /// Whether it ends once nobody speaks to it any more.
    pub(in super::super) ends_with_agent: bool,
}

/// What a holder writes down of itself, so that an agent that comes later finds it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in super::super) struct HolderRecord {
    /// Its name.
    pub(in super::super) instance: String,
    /// Its process.
    pub(in super::super) process: Process,
}

/// The network of one pod.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in super::super) struct PodPlace {
    /// The sandbox.
    pub(in super::super) id: String,
    /// Its address.
    pub(in super::super) address: Ipv4Addr,
    /// The node's address, which everything goes by.
    pub(in super::super) gateway: Ipv4Addr,
}

/// Which network a socket is in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) enum Place {
    /// That of the node.
    Node,
    /// That of a pod, by its sandbox.
    Pod(String),
}

/// A socket that is wanted.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in super::super) struct SocketWanted {
    /// Where.
    pub(in super::super) place: Place,
    /// IPv6 rather than IPv4.
    pub(in super::super) v6: bool,
    /// Datagrams rather than a stream.
    pub(in super::super) datagrams: bool,
    /// It is bound to this, and listens where it is a stream.
    pub(in super::super) bound: Option<SocketAddr>,
    /// It may have addresses that are not the namespace's own.
    pub(in super::super) transparent: bool,
}

/// What the agent asks.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in super::super) enum HolderRequest {
    /// Who is there, and which pods it has; its namespaces come along.
    Hello,
    /// Give the node this address too.
    Address(Ipv4Addr),
    /// Take packets for all addresses of this network.
    Range(Ipv4Addr, u8),
    /// Bring what leaves the node to these listeners on its loopback: connections, datagrams.
    WayOut(u16, Option<u16>),
    /// Make a pod's network; its namespace comes along.
    Add(PodPlace),
    /// The namespace of a pod that is there.
    Find(String),
    /// Take away a pod's network.
    Remove(String),
    /// A socket, which comes along.
    Socket(SocketWanted),
    /// End, and everything with it.
    End,
}

/// What the holder answers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in super::super) enum HolderResponse {
    /// Who is there. The namespace of users, if there is one, comes along before that of the node.
    Here {
        /// Its name and process.
        record: HolderRecord,
        /// Whether it has a namespace of users.
        users: bool,
        /// The pods that it has.
        pods: Vec<String>,
    },
    /// It is done, with this many descriptors.
    Done(usize),
    /// It could not be done, and at which step.
    Failed {
        /// The step and its error.
        message: String,
        /// The number of the error, where it is one of a socket.
        code: Option<i32>,
    },
}
