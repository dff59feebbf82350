//! Devices, addresses and routes, as messages to the kernel. Which there are is decided elsewhere.

use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd as _, BorrowedFd};

use super::netlink::{CREATE, EXCLUSIVE, NetlinkMessage, REPLACE};

const NEW_LINK: u16 = 16;
const REMOVE_LINK: u16 = 17;
const NEW_ADDRESS: u16 = 20;
const NEW_ROUTE: u16 = 24;

const INTERNET: u8 = 2;
const UP: u32 = 1;

/// The number of the device that every namespace begins with.
pub(super) const LOOPBACK: i32 = 1;
/// The number of a pod's own device. No device of the node has it: the kernel believes a device whose other end
/// has the same number to be no pair, and takes up to a second to switch it on.
pub(super) const OF_POD: i32 = 2;

/// Where a route is kept, and what it does with a packet.
#[derive(Debug, Clone, Copy)]
pub(super) enum Lane {
    /// To whoever is at the other end of the device.
    Neighbour,
    /// To another that passes it on.
    Gateway(Ipv4Addr),
    /// To this very namespace.
    Here,
    /// To this very namespace, where no other route fits.
    Out,
}

/// A device, switched on.
pub(super) fn switch_on(index: i32) -> NetlinkMessage {
    NetlinkMessage::new(NEW_LINK, 0).fixed(&link(index, UP))
}

/// A device, taken away together with its other end.
pub(super) fn remove(index: i32) -> NetlinkMessage {
    NetlinkMessage::new(REMOVE_LINK, 0).fixed(&link(index, 0))
}

/// A pair of devices, the other end in another namespace.
pub(super) fn pair(
    name: &str,
    index: i32,
    other: &str,
    namespace: BorrowedFd<'_>,
) -> NetlinkMessage {
    const NAME: u16 = 3;
    const INFORMATION: u16 = 18;
    const NAMESPACE: u16 = 28;
    const KIND: u16 = 1;
    const DATA: u16 = 2;
    const PEER: u16 = 1;
    let namespace = namespace.as_raw_fd().to_ne_bytes();
    NetlinkMessage::new(NEW_LINK, CREATE | EXCLUSIVE)
        .fixed(&link(index, 0))
        .with_name(NAME, name)
        .nested(INFORMATION, |information| {
            information.with(KIND, b"veth").nested(DATA, |data| {
                data.nested(PEER, |peer| {
                    peer.fixed(&link(OF_POD, 0)).with_name(NAME, other).with(NAMESPACE, &namespace)
                })
            })
        })
}

/// An address of a device, alone in its network.
pub(super) fn address(index: i32, address: Ipv4Addr) -> NetlinkMessage {
    const ADDRESS: u16 = 1;
    const LOCAL: u16 = 2;
    let mut head = vec![INTERNET, 32, 0, 0];
    head.extend(index.to_ne_bytes());
    NetlinkMessage::new(NEW_ADDRESS, CREATE | REPLACE)
        .fixed(&head)
        .with(LOCAL, &address.octets())
        .with(ADDRESS, &address.octets())
}

/// A route to a network; `from` is the address that the namespace itself then speaks from.
pub(super) fn route(
    to: (Ipv4Addr, u8),
    index: i32,
    lane: Lane,
    from: Option<Ipv4Addr>,
) -> NetlinkMessage {
    const DESTINATION: u16 = 1;
    const DEVICE: u16 = 4;
    const GATEWAY: u16 = 5;
    const SOURCE: u16 = 7;
    const MAIN: u8 = 254;
    const LOCAL: u8 = 255;
    const STATIC: u8 = 4;
    let (table, scope, kind) = match lane {
        Lane::Neighbour => (MAIN, 253, 1),
        Lane::Gateway(_) => (MAIN, 0, 1),
        Lane::Here => (LOCAL, 254, 2),
        Lane::Out => (MAIN, 254, 2),
    };
    let (network, bits) = to;
    let mut message = NetlinkMessage::new(NEW_ROUTE, CREATE | REPLACE)
        .fixed(&[INTERNET, bits, 0, 0, table, STATIC, scope, kind, 0, 0, 0, 0]);
    if bits > 0 {
        message = message.with(DESTINATION, &network.octets());
    }
    message = message.with(DEVICE, &index.to_ne_bytes());
    if let Lane::Gateway(gateway) = lane {
        message = message.with(GATEWAY, &gateway.octets());
    }
    match from {
        Some(from) => message.with(SOURCE, &from.octets()),
        None => message,
    }
}

/// What every message about a device begins with; what is switched on is all that changes.
fn link(index: i32, flags: u32) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    bytes.extend(index.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes
}
