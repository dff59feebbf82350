//! Where the cluster addresses of Services come from at first: what ServiceCIDR `kubernetes` says when it is made
//! (R79a, R174, `--service-cluster-ip-range`). Addresses are handed out in `service`, from the ServiceCIDRs.

use std::fmt;
use std::net::Ipv4Addr;

/// A range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceRange {
    network: u32,
    prefix: u32,
}

impl Default for ServiceRange {
    fn default() -> ServiceRange {
        ServiceRange { network: u32::from_be_bytes([10, 96, 0, 0]), prefix: 12 }
    }
}

/// Why a text is no range for Services.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServiceRangeError {
    /// It cannot be read.
    #[error("`{0}` is no range of IPv4 addresses, such as `10.96.0.0/12`")]
    Unreadable(String),
    /// It has too few addresses, or more than upstream takes.
    #[error("the range `{0}` has too few or too many addresses: take /12 to /30")]
    Size(String),
}

impl ServiceRange {
    /// Reads a range such as `10.96.0.0/12`.
    ///
    /// # Errors
    /// The text is none, or the range too small or too large.
    pub fn read(text: &str) -> Result<ServiceRange, ServiceRangeError> {
        let wrong = || ServiceRangeError::Unreadable(text.to_owned());
        let (address, prefix) = text.split_once('/').ok_or_else(wrong)?;
        let address: Ipv4Addr = address.parse().map_err(|_| wrong())?;
        let prefix: u32 = prefix.parse().map_err(|_| wrong())?;
        if !(12..=30).contains(&prefix) {
            return Err(if prefix > 32 {
                wrong()
            } else {
                ServiceRangeError::Size(text.to_owned())
            });
        }
        let network = u32::from(address) & (u32::MAX << (32 - prefix));
        Ok(ServiceRange { network, prefix })
    }

    /// The address of the Service `kubernetes`.
    #[must_use]
    pub fn first(self) -> Ipv4Addr {
        Ipv4Addr::from(self.network + 1)
    }
}

impl fmt::Display for ServiceRange {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", Ipv4Addr::from(self.network), self.prefix)
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.

    use super::*;

    #[test]
    fn r174_a_range_is_read_and_begins_with_the_address_of_the_server() {
        let range = ServiceRange::read("10.0.0.7/24").unwrap();
        assert_eq!(range.to_string(), "10.0.0.0/24");
        assert_eq!(range.first(), Ipv4Addr::new(10, 0, 0, 1));
        let usual = ServiceRange::default();
        assert_eq!(usual.to_string(), "10.96.0.0/12");
        assert_eq!(usual.first(), Ipv4Addr::new(10, 96, 0, 1));
    }

    #[test]
    fn r174_what_is_no_range_is_refused() {
        for wrong in ["", "10.0.0.0", "10.0.0.0/33", "fd00::/108", "10.0.0/24", "10.0.0.0/-1"] {
            let error = ServiceRange::read(wrong).unwrap_err();
            assert!(matches!(error, ServiceRangeError::Unreadable(_)), "{wrong}: {error}");
        }
        for wrong in ["10.0.0.0/8", "10.0.0.0/31", "10.0.0.0/32"] {
            let error = ServiceRange::read(wrong).unwrap_err();
            assert!(matches!(error, ServiceRangeError::Size(_)), "{wrong}: {error}");
        }
    }
}
