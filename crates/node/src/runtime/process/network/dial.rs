//! Connections from the node's network and from inside pods: the holder makes the socket where it belongs,
//! the agent connects it (N25).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use tokio::net::{TcpSocket, TcpStream};

use super::client::HolderClient;
use super::messages::{Place, SocketWanted};
use crate::runtime::process::ProcessRuntime;
use crate::runtime::process::state::SandboxRecord;
use crate::runtime::{Duplex, RuntimeError};

impl HolderClient {
    /// Connects from a network to an address.
    pub(in super::super) async fn connect(
        &self,
        place: Place,
        to: SocketAddr,
    ) -> io::Result<TcpStream> {
        let (v6, datagrams, transparent) = (to.is_ipv6(), false, false);
        let wanted = SocketWanted { place, v6, datagrams, bound: None, transparent };
        let socket = self.socket(wanted).await?;
        TcpSocket::from_std_stream(socket.into()).connect(to).await
    }
}

impl ProcessRuntime {
    /// Dials as the node does: in its network, which the machine's loopback is no part of.
    pub(in super::super) async fn dial_from_node(
        &self,
        holder: Arc<HolderClient>,
        host: &str,
        port: u16,
    ) -> io::Result<TcpStream> {
        let mut problem = io::Error::from(io::ErrorKind::AddrNotAvailable);
        let found: Vec<SocketAddr> = match host.parse::<IpAddr>() {
            Ok(address) => vec![(address, port).into()],
            Err(_) => tokio::net::lookup_host((host, port)).await?.collect(),
        };
        for address in found {
            match holder.connect(Place::Node, address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => problem = error,
            }
        }
        Err(problem)
    }

    /// A port inside a pod's own network: on its loopback, else on its address.
    pub(in super::super) async fn connect_in_pod(
        &self,
        holder: &HolderClient,
        sandbox: &SandboxRecord,
        port: u16,
    ) -> Result<Box<dyn Duplex>, RuntimeError> {
        let mut problem = None;
        for host in [Ipv4Addr::LOCALHOST.into(), IpAddr::V6(Ipv6Addr::LOCALHOST), sandbox.address] {
            let place = Place::Pod(sandbox.id.clone());
            match holder.connect(place, (host, port).into()).await {
                Ok(stream) => return Ok(Box::new(stream)),
                Err(error) => problem = problem.or(Some(error)),
            }
        }
        let why = match problem {
            Some(error) if error.kind() != io::ErrorKind::ConnectionRefused => error.to_string(),
            _ => "connection refused: no process of the pod listens on it".to_owned(),
        };
        Err(RuntimeError::Failed(format!("connect to port {port} of the pod: {why}")))
    }
}
