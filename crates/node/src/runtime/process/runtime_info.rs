//! What this runtime says of itself and writes down of a pod's surroundings.

use std::collections::BTreeMap;

use super::ProcessRuntime;
use super::cgroup::CgroupHierarchy;
use super::network::{PodNetwork, SandboxPlace};
use super::state::SandboxRecord;
use crate::runtime::{Dns, SandboxConfig};

/// The one setting of the kernel that a pod has for itself: it goes with its memory segments.
pub(super) const SHM_RMID_FORCED: &str = "kernel.shm_rmid_forced";

impl ProcessRuntime {
    pub(super) fn sandbox_record(
        &self,
        id: String,
        config: &SandboxConfig,
        place: SandboxPlace,
    ) -> SandboxRecord {
        SandboxRecord {
            id,
            pod: config.pod.clone(),
            attempt: config.attempt,
            hostname: config.hostname.clone(),
            logs: config.logs.clone(),
            address: place.address,
            holder: place.holder,
            host_network: config.host_network,
            host_pid: config.host_pid,
            host_ipc: config.host_ipc,
            first_id: (!self.abilities.single).then(|| self.keep.first_id(&config.pod.uid)),
            share_processes: config.share_processes,
            resolver: resolver_text(&config.dns),
            shm_rmid_forced: config.sysctls.values().next().cloned(),
            stopped: false,
        }
    }

    /// What is isolated on this node, wall by wall, with the reason where it is not (R141).
    pub(super) fn isolation(&self) -> Vec<(String, Result<(), String>)> {
        let walls = || match (self.without_walls(), self.missing()) {
            (Some(why), _) => Err(why.to_owned()),
            (None, Some(why)) => Err(why),
            (None, None) => Ok(()),
        };
        let of_namespaces = ["mount", "pid", "uts", "ipc", "user"];
        let of_privileges = ["capabilities", "no-new-privileges", "seccomp"];
        let mut all: BTreeMap<&str, Result<(), String>> =
            of_namespaces.into_iter().chain(of_privileges).map(|one| (one, walls())).collect();
        all.insert("landlock", walls().and_then(|()| self.abilities.landlock.clone()));
        let groups = self.abilities.groups.as_ref().map_err(Clone::clone);
        all.insert("cgroup", groups.clone().and_then(CgroupHierarchy::limit_resources));
        let by_groups = groups.and_then(CgroupHierarchy::limit_processes);
        all.insert("pids", by_groups.or_else(|why| walls().and(counts_by_namespace(&why))));
        let network = match self.network.get() {
            PodNetwork::Own(_) | PodNetwork::Lost => walls(),
            PodNetwork::Machine(why) => Err(format!(
                "{why}; pods use the machine's network, each with an address of its own below \
                 127.0.0.0/8"
            )),
        };
        all.insert("network", network);
        all.into_iter().map(|(aspect, holds)| (aspect.to_owned(), holds)).collect()
    }

    /// Whether containers have no walls and find their volumes as links (R142); the reason.
    #[must_use]
    pub fn without_walls(&self) -> Option<&str> {
        self.settings.plain.then_some("switched off with --isolation none")
    }

    /// The wall that cannot be built here, so that no pod is run (R142).
    #[must_use]
    pub fn missing_wall(&self) -> Option<String> {
        self.missing()
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

/// Without a control group for it, the number of processes is limited for each user; the kernel counts
/// those of a user namespace apart since Linux 5.14.
fn counts_by_namespace(why: &str) -> Result<(), String> {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    if version >= (5, 14) { Ok(()) } else { Err(format!("{why}; Linux before 5.14")) }
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
