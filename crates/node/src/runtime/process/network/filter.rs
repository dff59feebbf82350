//! The one table of packet filters in the node's network, written once (N19): what is neither for pods nor for
//! Services goes to one listener, whatever address it was sent to. No address is changed and nothing is remembered.
//!
//! ```text
//!   packet ──► for pods, Services, the node ──► as routed
//!          └─► else TCP, UDP ──► the listeners of the way out      └─► else dropped
//! ```

use std::net::Ipv4Addr;

use super::netlink::{APPEND, CREATE, NetlinkMessage, NetlinkSocket, Step};

/// The part of the kernel that is spoken to.
const TABLES: u16 = 10;
const TABLE: &str = "tenure";
const CHAIN: &str = "way";

const NEW_TABLE: u16 = 0;
const NEW_CHAIN: u16 = 3;
const NEW_RULE: u16 = 6;
const BEGIN: u16 = 0x10;
const END: u16 = 0x11;

const IPV4: u8 = 2;
const TCP: u8 = 6;
const UDP: u8 = 17;
/// Where a verdict goes, and where values do.
const VERDICT: u32 = 0;
const VALUE: u32 = 1;
const OTHER: u32 = 2;
const DROP: u32 = 0;
const ACCEPT: u32 = 1;

/// Where what leaves the node is taken in.
#[derive(Debug, Clone, Copy)]
pub(super) struct WayOut {
    pub(super) tcp: u16,
    pub(super) udp: Option<u16>,
}

/// Writes the table. What goes to `own` networks is left alone.
pub(super) fn write(
    socket: &mut NetlinkSocket,
    own: &[(Ipv4Addr, u8)],
    way: WayOut,
) -> Result<(), String> {
    let table = message(NEW_TABLE, CREATE).with_name(1, TABLE);
    let chain = message(NEW_CHAIN, CREATE)
        .with_name(1, TABLE)
        .with_name(3, CHAIN)
        // Before routing, at the priority of what marks packets.
        .nested(4, |hook| hook.with(1, &0_u32.to_be_bytes()).with(2, &(-150_i32).to_be_bytes()))
        .with_name(7, "filter");
    let mut steps: Vec<Step> = vec![("make the table", table), ("make the chain", chain)];
    for network in own {
        steps.push(("leave a network alone", rule(APPEND, |rule| to(rule, *network, ACCEPT))));
    }
    steps.push(("take in connections", rule(APPEND, |rule| take(rule, TCP, way.tcp))));
    if let Some(port) = way.udp {
        steps.push(("take in datagrams", rule(APPEND, |rule| take(rule, UDP, port))));
    }
    // Else the node would answer in the name of everybody: every address is its own.
    steps.push(("drop the rest", rule(APPEND, |rule| verdict(rule, DROP))));
    batch(socket, &steps)
}

/// Leaves one more network alone.
pub(super) fn leave_alone(
    socket: &mut NetlinkSocket,
    network: (Ipv4Addr, u8),
) -> Result<(), String> {
    batch(socket, &[("leave a network alone", rule(0, |rule| to(rule, network, ACCEPT)))])
}

/// Removes the table, if there is one.
pub(super) fn clear(socket: &mut NetlinkSocket) {
    const REMOVE_TABLE: u16 = 2;
    let table = message(REMOVE_TABLE, 0).with_name(1, TABLE);
    // Nothing there is what is wanted.
    let _ = batch(socket, &[("remove the table", table)]);
}

fn batch(socket: &mut NetlinkSocket, steps: &[Step]) -> Result<(), String> {
    let edge = |kind: u16| {
        let [high, low] = TABLES.to_be_bytes();
        NetlinkMessage::new(kind, 0).fixed(&[0, 0, high, low])
    };
    socket.carry_out_together(&edge(BEGIN), steps, &edge(END))
}

fn message(kind: u16, flags: u16) -> NetlinkMessage {
    NetlinkMessage::new((TABLES << 8) | kind, flags).fixed(&[IPV4, 0, 0, 0])
}

/// A rule made of expressions; without a flag it comes first.
fn rule(flags: u16, fill: impl FnOnce(NetlinkMessage) -> NetlinkMessage) -> NetlinkMessage {
    message(NEW_RULE, CREATE | flags).with_name(1, TABLE).with_name(2, CHAIN).nested(4, fill)
}

fn expression(
    rule: NetlinkMessage,
    name: &str,
    fill: impl FnOnce(NetlinkMessage) -> NetlinkMessage,
) -> NetlinkMessage {
    rule.nested(1, |element| element.with_name(1, name).nested(2, fill))
}

fn word(value: u32) -> [u8; 4] {
    value.to_be_bytes()
}

/// A packet to a network gets this verdict.
fn to(rule: NetlinkMessage, (network, bits): (Ipv4Addr, u8), code: u32) -> NetlinkMessage {
    const DESTINATION: u32 = 16;
    let mask = u32::MAX.checked_shl(32 - u32::from(bits.min(32))).unwrap_or(0);
    let masked = Ipv4Addr::from_bits(network.to_bits() & mask);
    let rule = expression(rule, "payload", |data| {
        data.with(1, &word(VALUE)).with(2, &word(1)).with(3, &word(DESTINATION)).with(4, &word(4))
    });
    let rule = expression(rule, "bitwise", |data| {
        data.with(1, &word(VALUE))
            .with(2, &word(VALUE))
            .with(3, &word(4))
            .nested(4, |value| value.with(1, &mask.to_be_bytes()))
            .nested(5, |value| value.with(1, &[0; 4]))
    });
    verdict(equals(rule, &masked.octets()), code)
}

/// A packet of this kind goes to a listener on the node's loopback.
fn take(rule: NetlinkMessage, kind: u8, port: u16) -> NetlinkMessage {
    const KIND: u32 = 16;
    let rule = expression(rule, "meta", |data| data.with(1, &word(VALUE)).with(2, &word(KIND)));
    let rule = equals(rule, &[kind]);
    let rule = value(rule, VALUE, &Ipv4Addr::LOCALHOST.octets());
    let rule = value(rule, OTHER, &port.to_be_bytes());
    let rule = expression(rule, "tproxy", |data| {
        data.with(1, &word(u32::from(IPV4))).with(2, &word(VALUE)).with(3, &word(OTHER))
    });
    verdict(rule, ACCEPT)
}

fn equals(rule: NetlinkMessage, bytes: &[u8]) -> NetlinkMessage {
    expression(rule, "cmp", |data| {
        data.with(1, &word(VALUE)).with(2, &word(0)).nested(3, |value| value.with(1, bytes))
    })
}

fn value(rule: NetlinkMessage, register: u32, bytes: &[u8]) -> NetlinkMessage {
    expression(rule, "immediate", |data| {
        data.with(1, &word(register)).nested(2, |value| value.with(1, bytes))
    })
}

fn verdict(rule: NetlinkMessage, code: u32) -> NetlinkMessage {
    expression(rule, "immediate", |data| {
        data.with(1, &word(VERDICT))
            .nested(2, |value| value.nested(2, |verdict| verdict.with(1, &word(code))))
    })
}
