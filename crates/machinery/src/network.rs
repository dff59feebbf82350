//! Networks of addresses, such as `10.96.0.0/12`: what they contain, and which of their addresses a
//! Service may have. Who hands addresses out is decided elsewhere.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr};

use crate::validate::cidr;

/// A network: the bits that all its addresses share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpNetwork {
    address: IpAddr,
    bits: u8,
}

/// The bits of an address, to the left of 128.
fn bits_of(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(u32::from(v4)) << 96,
        IpAddr::V6(v6) => u128::from(v6),
    }
}

/// Keeps this many bits from the left.
fn mask(bits: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(bits.min(128))).unwrap_or_default()
}

impl IpNetwork {
    /// Reads a network as objects write it.
    #[must_use]
    pub fn parse(text: &str) -> Option<IpNetwork> {
        let (address, bits) = cidr(text)?;
        Some(IpNetwork { address, bits })
    }

    /// Whether it is written with its first address, as one that names itself is.
    #[must_use]
    pub fn is_masked(&self) -> bool {
        bits_of(self.address) & !mask(self.bits) == 0
    }

    /// Whether its addresses are IPv4.
    #[must_use]
    pub fn is_ipv4(&self) -> bool {
        self.address.is_ipv4()
    }

    fn shares(&self, address: IpAddr, bits: u8) -> bool {
        address.is_ipv4() == self.is_ipv4()
            && bits_of(address) & mask(bits) == bits_of(self.address) & mask(bits)
    }

    /// Whether a Service in this network may have the address: the network's own never, and of IPv4 not the
    /// last, which is for broadcasts.
    #[must_use]
    pub fn has_host(&self, address: IpAddr) -> bool {
        if !self.shares(address, self.bits) {
            return false;
        }
        let width = if self.is_ipv4() { mask(32) } else { mask(128) };
        let rest = bits_of(address) & !mask(self.bits) & width;
        let broadcast = self.is_ipv4() && rest == !mask(self.bits) & width;
        rest != 0 && !broadcast
    }

    /// Whether every address of the other network is one of this.
    #[must_use]
    pub fn contains(&self, other: &IpNetwork) -> bool {
        self.bits <= other.bits && self.shares(other.address, self.bits)
    }

    /// Whether the two have an address in common.
    #[must_use]
    pub fn overlaps(&self, other: &IpNetwork) -> bool {
        self.contains(other) || other.contains(self)
    }

    /// How many IPv4 addresses Services may have; none of a network of IPv6.
    #[must_use]
    pub fn ipv4_hosts(&self) -> u32 {
        let all = 1_u64.checked_shl(32_u32.saturating_sub(u32::from(self.bits))).unwrap_or(0);
        if self.is_ipv4() { u32::try_from(all.saturating_sub(2)).unwrap_or(0) } else { 0 }
    }

    /// The IPv4 address of this number among those that Services may have, from 0.
    #[must_use]
    pub fn ipv4_host(&self, number: u32) -> Option<Ipv4Addr> {
        let IpAddr::V4(address) = self.address else { return None };
        let all = u32::MAX.checked_shl(32_u32.saturating_sub(u32::from(self.bits))).unwrap_or(0);
        let first = (u32::from(address) & all).checked_add(1)?;
        (number < self.ipv4_hosts()).then(|| first.checked_add(number).map(Ipv4Addr::from))?
    }
}

impl fmt::Display for IpNetwork {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.address, self.bits)
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use super::*;

    fn network(text: &str) -> IpNetwork {
        IpNetwork::parse(text).unwrap()
    }

    #[test]
    fn r79a_addresses_of_a_network_are_all_but_its_ends() {
        for (text, address, has) in [
            ("10.96.0.0/12", "10.96.0.1", true),
            ("10.96.0.0/12", "10.111.255.254", true),
            ("10.96.0.0/12", "10.96.0.0", false),
            ("10.96.0.0/12", "10.111.255.255", false),
            ("10.96.0.0/12", "10.112.0.1", false),
            ("10.96.0.0/12", "fd00::1", false),
            ("10.0.0.8/30", "10.0.0.9", true),
            ("10.0.0.8/30", "10.0.0.11", false),
            ("10.0.0.8/32", "10.0.0.8", false),
            ("0.0.0.0/0", "1.2.3.4", true),
            ("fd00::/64", "fd00::1", true),
            ("fd00::/64", "fd00::", false),
            ("fd00::/64", "fd00::ffff:ffff:ffff:ffff", true),
            ("fd00::/64", "fd01::1", false),
            ("::/0", "fd01::1", true),
        ] {
            assert_eq!(network(text).has_host(address.parse().unwrap()), has, "{text} {address}");
        }
    }

    #[test]
    fn r79a_networks_contain_one_another() {
        for (outer, inner, contains, overlaps) in [
            ("10.0.0.0/8", "10.96.0.0/12", true, true),
            ("10.96.0.0/12", "10.96.0.0/12", true, true),
            ("10.96.0.0/12", "10.0.0.0/8", false, true),
            ("10.96.0.0/12", "10.112.0.0/12", false, false),
            ("10.0.0.0/8", "fd00::/64", false, false),
            ("fd00::/48", "fd00::/64", true, true),
            ("0.0.0.0/0", "::/0", false, false),
        ] {
            let (outer, inner) = (network(outer), network(inner));
            assert_eq!(outer.contains(&inner), contains, "{outer:?} {inner:?}");
            assert_eq!(outer.overlaps(&inner), overlaps, "{outer:?} {inner:?}");
        }
    }

    #[test]
    fn r79a_every_address_has_a_number() {
        for (text, hosts, first, last) in [
            ("10.96.0.0/12", 1_048_574, "10.96.0.1", "10.111.255.254"),
            ("10.0.0.9/29", 6, "10.0.0.9", "10.0.0.14"),
            ("10.0.0.0/30", 2, "10.0.0.1", "10.0.0.2"),
            ("0.0.0.0/0", 4_294_967_294, "0.0.0.1", "255.255.255.254"),
        ] {
            let network = network(text);
            assert_eq!(network.ipv4_hosts(), hosts, "{text}");
            assert_eq!(network.ipv4_host(0).unwrap().to_string(), first);
            assert_eq!(network.ipv4_host(hosts - 1).unwrap().to_string(), last);
            assert_eq!(network.ipv4_host(hosts), None);
        }
        for text in ["10.0.0.0/31", "10.0.0.0/32", "fd00::/64"] {
            assert_eq!(network(text).ipv4_hosts(), 0, "{text}");
            assert_eq!(network(text).ipv4_host(0), None, "{text}");
        }
    }
}
