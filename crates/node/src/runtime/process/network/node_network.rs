//! The node's network as those see it who serve in it. Sockets are made by the holder; what is served is theirs.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::watch;

use super::client::{HolderClient, HolderRefusal};
use super::messages::{HolderRequest, Place, SocketWanted};
use super::{NetworkState, OF_PODS};
use crate::runtime::NodeNetwork;

/// The network of a node, whoever holds it at present.
pub(in super::super) struct HeldNetwork {
    pub(in super::super) state: Arc<NetworkState>,
    /// The address that the node tells others.
    pub(in super::super) told: IpAddr,
}

impl HeldNetwork {
    fn holder(&self) -> io::Result<Arc<HolderClient>> {
        self.state.holder().ok_or_else(|| io::ErrorKind::NetworkDown.into())
    }

    async fn socket(
        &self,
        datagrams: bool,
        v6: bool,
        bound: Option<SocketAddr>,
    ) -> io::Result<OwnedFd> {
        let place = Place::Node;
        let wanted = SocketWanted { place, v6, datagrams, bound, transparent: false };
        self.holder()?.socket(wanted).await
    }
}

impl NodeNetwork for HeldNetwork {
    fn lives(&self) -> watch::Receiver<u64> {
        self.state.lives.subscribe()
    }

    fn address(&self) -> Option<IpAddr> {
        Some(self.state.range()?.node().into())
    }

    fn has(&self, address: IpAddr) -> bool {
        let own = address == self.told && !address.is_loopback();
        own || self.state.range().is_some_and(|range| range.has(address))
    }

    fn reaches(&self, address: IpAddr) -> bool {
        let (first, bits) = OF_PODS;
        let rest = 32 - u32::from(bits);
        let of_pods = match address {
            IpAddr::V4(v4) => v4.to_bits() >> rest == first.to_bits() >> rest,
            IpAddr::V6(_) => false,
        };
        !of_pods || self.has(address)
    }

    fn take(&self, network: Ipv4Addr, bits: u8) -> BoxFuture<'_, io::Result<()>> {
        Box::pin(async move {
            let taken = self.holder()?.ask(HolderRequest::Range(network, bits)).await;
            taken.map(|_| ()).map_err(HolderRefusal::into_io)
        })
    }

    fn listen(&self, at: SocketAddr) -> BoxFuture<'_, io::Result<TcpListener>> {
        Box::pin(async move {
            let socket = self.socket(false, at.is_ipv6(), Some(at)).await?;
            TcpListener::from_std(socket.into())
        })
    }

    fn bind(&self, at: SocketAddr) -> BoxFuture<'_, io::Result<UdpSocket>> {
        Box::pin(async move {
            let socket = self.socket(true, at.is_ipv6(), Some(at)).await?;
            UdpSocket::from_std(socket.into())
        })
    }

    fn way_out(&self) -> BoxFuture<'_, io::Result<TcpListener>> {
        Box::pin(async move {
            let holder = self.holder()?;
            let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            let wanted = SocketWanted {
                place: Place::Node,
                v6: false,
                datagrams: false,
                bound: Some(here),
                transparent: true,
            };
            let listener = TcpListener::from_std(holder.socket(wanted).await?.into())?;
            let port = listener.local_addr()?.port();
            let brought = holder.ask(HolderRequest::WayOut(port, None)).await;
            brought.map_err(HolderRefusal::into_io)?;
            Ok(listener)
        })
    }

    fn connect(&self, to: SocketAddr) -> BoxFuture<'_, io::Result<TcpStream>> {
        Box::pin(async move { self.holder()?.connect(Place::Node, to).await })
    }

    fn datagrams(&self, to: SocketAddr) -> BoxFuture<'_, io::Result<UdpSocket>> {
        Box::pin(async move {
            let socket = self.socket(true, to.is_ipv6(), None).await?;
            UdpSocket::from_std(socket.into())
        })
    }
}
