//! Settings of the kernel for the network namespace that this process is in (N4).

use std::io;

/// Those of a pod, before it has any device.
pub(super) fn of_pod(own_users: bool) -> Result<(), String> {
    for_all(own_users)?;
    set("net/ipv4/ip_local_port_range", "32768 60999")
}

/// Those of the node: it passes packets on, believes no false address, and speaks from ports that no pod takes
/// by itself.
pub(super) fn of_node(own_users: bool) -> Result<(), String> {
    for_all(own_users)?;
    // First: it puts others back to what routers usually have.
    set("net/ipv4/ip_forward", "1")?;
    set("net/ipv4/conf/all/rp_filter", "1")?;
    set("net/ipv4/conf/default/rp_filter", "1")?;
    set("net/ipv4/ip_local_port_range", "10240 29999")
}

fn for_all(own_users: bool) -> Result<(), String> {
    set("net/ipv4/ip_unprivileged_port_start", "0")?;
    // A group that is not in the user namespace cannot be named.
    set("net/ipv4/ping_group_range", if own_users { "0 0" } else { "0 2147483647" })?;
    // Addresses of IPv6 that a device gives itself; a kernel without IPv6 gives none.
    match write("net/ipv6/conf/default/addr_gen_mode", "1") {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => named("net/ipv6/conf/default/addr_gen_mode", other),
    }
}

fn set(name: &str, value: &str) -> Result<(), String> {
    named(name, write(name, value))
}

fn named(name: &str, done: io::Result<()>) -> Result<(), String> {
    done.map_err(|error| format!("set {}: {error}", name.replace('/', ".")))
}

fn write(name: &str, value: &str) -> io::Result<()> {
    std::fs::write(format!("/proc/sys/{name}"), value)
}
