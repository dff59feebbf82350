//! Who listens on a port of a network that pods share (R148): a port is a pod's only if the socket that would
//! answer is held by a process of the pod.
//!
//! ```text
//!   address, port ──► net/tcp, tcp6 ──► inodes ──► /proc/PID/fd of what the pod's shims began
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use super::wire::Process;

/// The state of a socket that listens, as the kernel writes it.
const LISTENS: &str = "0A";

/// What the kernel tells of the network that the machine is in.
pub(super) const MACHINE: &str = "/proc/net";

/// The sockets that answer at an address and port, if they are held by the pod; none if somebody else
/// holds one of them or nobody listens.
pub(super) fn sockets_of_pod(
    network: &Path,
    shims: &[Process],
    address: IpAddr,
    port: u16,
) -> io::Result<Option<BTreeSet<u64>>> {
    let answering = sockets_at(network, address, port)?;
    if answering.is_empty() {
        return Ok(None);
    }
    let mut left = answering.clone();
    for process in descendants(shims)? {
        remove_held(&mut left, process);
        if left.is_empty() {
            return Ok(Some(answering));
        }
    }
    Ok(None)
}

/// The sockets that answer at an address and port, whoever holds them.
pub(super) fn sockets_at(network: &Path, address: IpAddr, port: u16) -> io::Result<BTreeSet<u64>> {
    Ok(answering(&listening(network)?, address, port))
}

/// A socket that listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Listening {
    address: IpAddr,
    port: u16,
    inode: u64,
}

fn listening(network: &Path) -> io::Result<Vec<Listening>> {
    let mut all = parse(&std::fs::read_to_string(network.join("tcp"))?);
    // A kernel without IPv6 has no such file.
    all.extend(parse(&std::fs::read_to_string(network.join("tcp6")).unwrap_or_default()));
    Ok(all)
}

fn parse(table: &str) -> Vec<Listening> {
    table.lines().skip(1).filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<Listening> {
    let mut fields = line.split_whitespace().skip(1);
    let (local, _, state) = (fields.next()?, fields.next()?, fields.next()?);
    if state != LISTENS {
        return None;
    }
    let inode = fields.nth(5)?.parse().ok()?;
    let (address, port) = local.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    Some(Listening { address: parse_address(address)?, port, inode })
}

/// Words of 32 bits, each as this machine holds it.
fn parse_address(text: &str) -> Option<IpAddr> {
    let word = |at: usize| -> Option<[u8; 4]> {
        Some(u32::from_str_radix(text.get(at..at + 8)?, 16).ok()?.to_ne_bytes())
    };
    match text.len() {
        8 => Some(IpAddr::V4(Ipv4Addr::from(word(0)?))),
        32 => {
            let mut bytes = [0; 16];
            for (index, place) in bytes.chunks_exact_mut(4).enumerate() {
                place.copy_from_slice(&word(index * 8)?);
            }
            Some(IpAddr::V6(Ipv6Addr::from(bytes)))
        }
        _ => None,
    }
}

/// The sockets among which the kernel chooses for a connection: those of this very address before those
/// of all addresses, and of IPv4 before those of IPv6 that take IPv4 too.
fn answering(all: &[Listening], address: IpAddr, port: u16) -> BTreeSet<u64> {
    let all_of_v6 = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    let order = match address {
        IpAddr::V4(v4) => vec![
            address,
            IpAddr::V6(v4.to_ipv6_mapped()),
            IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            all_of_v6,
        ],
        IpAddr::V6(_) => vec![address, all_of_v6],
    };
    let at = |address: &IpAddr| -> BTreeSet<u64> {
        let fits = |one: &&Listening| one.port == port && one.address == *address;
        all.iter().filter(fits).map(|one| one.inode).collect()
    };
    order.iter().map(at).find(|found| !found.is_empty()).unwrap_or_default()
}

/// The processes that the shims began, and those that these began.
fn descendants(shims: &[Process]) -> io::Result<Vec<Process>> {
    let mut children: BTreeMap<i32, Vec<Process>> = BTreeMap::new();
    for entry in std::fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // A process may end while we look.
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        if let (Some(parent), Some(process)) = (parent(&stat), Process::from_stat(pid, &stat)) {
            children.entry(parent).or_default().push(process);
        }
    }
    let mut found: Vec<Process> = shims.iter().copied().filter(|shim| shim.lives()).collect();
    let mut next = 0;
    while let Some(process) = found.get(next) {
        let of = children.remove(&process.pid).unwrap_or_default();
        found.extend(of);
        next += 1;
    }
    Ok(found)
}

/// Field 4, counted behind the name, which may hold spaces and brackets.
fn parent(stat: &str) -> Option<i32> {
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

/// Removes the sockets that a process holds.
fn remove_held(sockets: &mut BTreeSet<u64>, process: Process) {
    let Ok(descriptors) = std::fs::read_dir(format!("/proc/{}/fd", process.pid)) else { return };
    let mut held = Vec::new();
    for descriptor in descriptors.flatten() {
        let target = std::fs::read_link(descriptor.path()).unwrap_or_default();
        let inode = target.to_str().and_then(|text| text.strip_prefix("socket:["));
        if let Some(inode) = inode.and_then(|text| text.strip_suffix(']')?.parse().ok()) {
            held.push(inode);
        }
    }
    // Read by number, so it is looked at afterwards whether it was this process all the while.
    if process.lives() {
        for inode in held {
            sockets.remove(&inode);
        }
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/downward-api.md.
    use super::*;

    fn on(address: &str, port: u16, inode: u64) -> Listening {
        Listening { address: address.parse().unwrap(), port, inode }
    }

    #[test]
    fn r148_only_sockets_that_listen_count() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 100 0 0 10 0\n\
            1: 0100007F:1F91 0100007F:1F92 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0 100 0 0 10 0\n";
        assert_eq!(parse(table), [on("127.0.0.1", 8080, 4711)]);
        let table = "head\n\
            0: 00000000000000000000000001000000:0050 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 7 1 0 100 0 0 10 0\n\
            1: 0000000000000000FFFF00000100007F:0050 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 8 1 0 100 0 0 10 0\n";
        assert_eq!(parse(table), [on("::1", 80, 7), on("::ffff:127.0.0.1", 80, 8)]);
    }

    #[test]
    fn r148_the_socket_of_the_address_answers_before_that_of_all() {
        let all = [
            on("0.0.0.0", 80, 1),
            on("127.0.0.1", 80, 2),
            on("::", 80, 3),
            on("127.0.0.1", 81, 4),
            on("::", 82, 5),
        ];
        let at = |address: &str, port| answering(&all, address.parse().unwrap(), port);
        assert_eq!(at("127.0.0.1", 80), [2].into());
        assert_eq!(at("127.64.0.1", 80), [1].into());
        assert_eq!(at("::1", 80), [3].into());
        assert_eq!(at("127.0.0.1", 82), [5].into());
        assert_eq!(at("127.64.0.1", 81), [].into());
    }

    #[test]
    fn r148_a_socket_is_the_pods_only_if_what_its_shims_began_holds_it() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let me = Process::of(i32::try_from(std::process::id()).unwrap()).unwrap();
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let found = sockets_of_pod(Path::new(MACHINE), &[me], address, port).unwrap();
        assert_eq!(found.unwrap().len(), 1);
        assert_eq!(
            sockets_of_pod(Path::new(MACHINE), &[], address, port).unwrap(),
            None,
            "no process, no port"
        );
        let other = Process { start: me.start + 1, ..me };
        assert_eq!(
            sockets_of_pod(Path::new(MACHINE), &[other], address, port).unwrap(),
            None,
            "a number used again"
        );
        drop(listener);
        assert_eq!(sockets_of_pod(Path::new(MACHINE), &[me], address, port).unwrap(), None);
    }

    #[test]
    fn r148_a_name_with_brackets_does_not_hide_the_parent() {
        assert_eq!(parent("7 (a) b) S 42 7 7 0 -1"), Some(42));
    }
}
