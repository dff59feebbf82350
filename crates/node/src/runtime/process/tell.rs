//! What this runtime says of itself and writes down of a pod's surroundings.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::ProcessRuntime;
use super::state::SandboxRecord;
use crate::runtime::{Dns, SandboxConfig};

impl ProcessRuntime {
    pub(super) fn sandbox_record(
        &self,
        id: String,
        config: &SandboxConfig,
        address: IpAddr,
    ) -> SandboxRecord {
        SandboxRecord {
            id,
            pod: config.pod.clone(),
            attempt: config.attempt,
            hostname: config.hostname.clone(),
            logs: config.logs.clone(),
            address,
            host_network: config.host_network,
            host_pid: config.host_pid,
            host_ipc: config.host_ipc,
            host_users: config.host_users,
            share_processes: config.share_processes,
            resolver: resolver_text(&config.dns),
            stopped: false,
        }
    }

    pub(super) fn isolation(&self) -> Vec<(String, Result<(), String>)> {
        let walls = || match &self.abilities.plain {
            None => Ok(()),
            Some(why) => Err(why.clone()),
        };
        let single = self.abilities.single;
        let shared =
            "pods use the node's network, each with an address of its own below 127.0.0.0/8";
        let mut all: BTreeMap<&str, Result<(), String>> = BTreeMap::new();
        for aspect in ["mount", "pid", "uts", "ipc"] {
            all.insert(aspect, walls());
        }
        all.insert("network", Err(shared.to_owned()));
        all.insert(
            "user",
            walls().and(if single {
                Ok(())
            } else {
                Err("only for pods with hostUsers: false".to_owned())
            }),
        );
        all.insert("cgroup", self.abilities.groups.as_ref().map(|_| ()).map_err(Clone::clone));
        let unprivileged = "the agent has no privileges to give up";
        all.insert("capabilities", if single { Err(unprivileged.to_owned()) } else { Ok(()) });
        all.insert("seccomp", Err("no filter of system calls is set".to_owned()));
        all.into_iter().map(|(aspect, holds)| (aspect.to_owned(), holds)).collect()
    }

    /// Whether containers have no walls and find their volumes as links (R142); the reason.
    #[must_use]
    pub fn without_walls(&self) -> Option<&str> {
        self.abilities.plain.as_deref()
    }

    /// What a container can do that has no walls (R217).
    #[must_use]
    pub fn danger(&self) -> Option<String> {
        let why = self.without_walls()?;
        Some(format!(
            "containers are not isolated from this machine and can write anything that this user \
             can: {why}"
        ))
    }
}

/// Settings of a resolver as its file says them; the node's own where none are given.
fn resolver_text(dns: &Dns) -> String {
    use std::fmt::Write as _;
    if dns.servers.is_empty() && dns.searches.is_empty() {
        return std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    }
    let mut text = String::new();
    if !dns.searches.is_empty() {
        let _ = writeln!(text, "search {}", dns.searches.join(" "));
    }
    for server in &dns.servers {
        let _ = writeln!(text, "nameserver {server}");
    }
    if !dns.options.is_empty() {
        let _ = writeln!(text, "options {}", dns.options.join(" "));
    }
    text
}
