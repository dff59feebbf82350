//! What to tell about addresses and networks that are valid but not written as they should be.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tenure_machinery::validate::{cidr, objects, text};
use tenure_machinery::{Object, ObjectExt, Path};

use crate::podspec::{WARNINGS_MAX, address_warning};

/// What to tell about a network at `path`.
pub(crate) fn network_warning(value: &str, path: &Path<'_>) -> Option<String> {
    let (address, bits) = cidr(value)?;
    let network = first_address(address, bits);
    if network != address {
        let all = if address.is_ipv4() { 32 } else { 128 };
        return Some(format!(
            "{path}: CIDR value {value:?} is ambiguous in this context \
             (should be \"{network}/{bits}\" or \"{address}/{all}\"?)"
        ));
    }
    let canonical = format!("{address}/{bits}");
    (address.is_ipv6() && canonical != value).then(|| {
        format!(
            "{path}: IPv6 CIDR value {value:?} should be in RFC 5952 canonical format ({canonical:?})"
        )
    })
}

/// The first address of a network.
fn first_address(address: IpAddr, bits: u8) -> IpAddr {
    let bits = u32::from(bits);
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32_u32.saturating_sub(bits)).unwrap_or(0);
            Ipv4Addr::from_bits(v4.to_bits() & mask).into()
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128_u32.saturating_sub(bits)).unwrap_or(0);
            Ipv6Addr::from_bits(v6.to_bits() & mask).into()
        }
    }
}

/// What to tell about the addresses that a load balancer reports.
pub(crate) fn balancer_warnings(object: &Object) -> Vec<String> {
    let path = Path::Root.field("status");
    let path = path.field("loadBalancer");
    let path = path.field("ingress");
    let Some(balancer) = object.map_at(&["status", "loadBalancer"]) else { return Vec::new() };
    objects(balancer, "ingress")
        .filter_map(|(index, entry)| address_warning(text(entry, "ip"), &path.index(index)))
        .take(WARNINGS_MAX)
        .collect()
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use tenure_machinery::Path;

    use super::network_warning;

    #[test]
    fn r31_networks_have_no_bits_of_hosts_and_one_spelling() {
        for (value, want) in [
            ("10.0.0.0/8", None),
            ("0.0.0.0/0", None),
            ("2001:db8::/32", None),
            ("::/0", None),
            ("10.0.0.1/8", Some("10.0.0.0/8")),
            ("2001:db8::1/64", Some("2001:db8::/64")),
            ("2001:DB8::/32", Some("2001:db8::/32")),
            ("nothing", None),
        ] {
            let told = network_warning(value, &Path::Root.field("x"));
            assert_eq!(told.is_some(), want.is_some(), "{value}");
            let said = told.unwrap_or_default();
            assert!(said.contains(want.unwrap_or_default()), "{said}");
        }
    }
}
