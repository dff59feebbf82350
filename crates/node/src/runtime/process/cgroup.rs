//! Control groups: where a container's limits are written, in both versions of the kernel's
//! interface, and whether the kernel ended somebody for want of memory. Where the folders cannot be
//! written there are no limits, and [`CgroupHierarchy::find`] says why.

use std::path::{Path, PathBuf};

use crate::runtime::ContainerLimits;

/// A group's folder and what is written to its files.
pub(super) type CgroupSettings = (PathBuf, Vec<(String, String)>);

/// Where groups can be made on this node.
#[derive(Debug, Clone)]
pub(super) enum CgroupHierarchy {
    /// One tree for all.
    Unified(PathBuf),
    /// A tree for memory, one for processors and one for the number of processes.
    Split { memory: Option<PathBuf>, cpu: Option<PathBuf>, pids: Result<PathBuf, String> },
}

impl CgroupHierarchy {
    /// Looks for folders that can be written.
    pub(super) fn find() -> Result<CgroupHierarchy, String> {
        let own = std::fs::read_to_string("/proc/self/cgroup").map_err(|e| e.to_string())?;
        let root = Path::new("/sys/fs/cgroup");
        if root.join("cgroup.controllers").exists() {
            return unified(root, &own);
        }
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").map_err(|e| e.to_string())?;
        let memory = split(&mounts, "memory", &own);
        let cpu = split(&mounts, "cpu", &own);
        let pids = split(&mounts, "pids", &own);
        match (memory, cpu, pids) {
            (Err(why), Err(_), Err(_)) => Err(why),
            (memory, cpu, pids) => {
                Ok(CgroupHierarchy::Split { memory: memory.ok(), cpu: cpu.ok(), pids })
            }
        }
    }

    /// Whether memory and processors can be limited; why not.
    pub(super) fn limit_resources(&self) -> Result<(), String> {
        match self {
            CgroupHierarchy::Split { memory: None, .. } => {
                Err("memory cannot be limited".to_owned())
            }
            CgroupHierarchy::Split { cpu: None, .. } => {
                Err("processors cannot be limited".to_owned())
            }
            CgroupHierarchy::Unified(_) | CgroupHierarchy::Split { .. } => Ok(()),
        }
    }

    /// Whether the number of processes can be limited; why not.
    pub(super) fn limit_processes(&self) -> Result<(), String> {
        match self {
            CgroupHierarchy::Unified(_) => Ok(()),
            CgroupHierarchy::Split { pids, .. } => pids.as_ref().map(drop).map_err(Clone::clone),
        }
    }

    /// Removes the groups of a container whose shim could not.
    pub(super) fn clear(&self, id: &str) {
        let roots = match self {
            CgroupHierarchy::Unified(root) => vec![root],
            CgroupHierarchy::Split { memory, cpu, pids } => {
                memory.iter().chain(cpu).chain(pids.as_ref().ok()).collect()
            }
        };
        for root in roots {
            let _ = std::fs::remove_dir(root.join(id));
        }
    }

    /// Writes other limits into the groups of a container that runs (R111b).
    pub(super) fn update(
        &self,
        id: &str,
        limits: &ContainerLimits,
        processes_max: u64,
    ) -> Result<(), String> {
        for (folder, settings) in self.of(id, limits, processes_max) {
            // A machine without this group said so when the container was made.
            if !folder.is_dir() {
                continue;
            }
            if let Some(memory) = limits.memory.filter(|memory| *memory > 0) {
                leaves_enough(&folder, memory)?;
            }
            write_settings(&folder, &settings)?;
        }
        Ok(())
    }

    /// The groups of one container: all are limited in their number of processes.
    pub(super) fn of(
        &self,
        id: &str,
        limits: &ContainerLimits,
        processes_max: u64,
    ) -> Vec<CgroupSettings> {
        let processes = ("pids.max".to_owned(), processes_max.to_string());
        match self {
            CgroupHierarchy::Unified(root) => {
                let settings = [vec![processes], unified_settings(limits)].concat();
                vec![(root.join(id), settings)]
            }
            CgroupHierarchy::Split { memory, cpu, pids } => {
                let memory = memory.as_ref().map(|root| (root, memory_settings(limits)));
                let cpu = cpu.as_ref().map(|root| (root, cpu_settings(limits)));
                let pids = pids.as_ref().ok().map(|root| (root, vec![processes]));
                memory
                    .into_iter()
                    .chain(cpu)
                    .chain(pids)
                    .map(|(root, settings)| (root.join(id), settings))
                    .collect()
            }
        }
    }
}

/// Refuses a limit below what is used: the kernel would end somebody for it.
fn leaves_enough(folder: &Path, memory: i64) -> Result<(), String> {
    for file in ["memory.current", "memory.usage_in_bytes"] {
        let used = std::fs::read_to_string(folder.join(file)).unwrap_or_default();
        if let Some(used) = used.trim().parse::<i64>().ok().filter(|used| *used > memory) {
            return Err(format!(
                "attempting to set the memory limit ({memory}) below current usage ({used})"
            ));
        }
    }
    Ok(())
}

/// Writes all settings; one that only another one allows is written after it.
fn write_settings(folder: &Path, settings: &[(String, String)]) -> Result<(), String> {
    let write = |(file, value): &&(String, String)| std::fs::write(folder.join(file), value);
    let refused: Vec<&(String, String)> =
        settings.iter().filter(|setting| write(setting).is_err()).collect();
    for setting in refused {
        let (file, value) = setting;
        // Kernels that do not count swap have no such file.
        if file.contains("swap") || file.contains("memsw") || file == "memory.oom.group" {
            continue;
        }
        write(&setting).map_err(|error| format!("{file} of {value}: {error}"))?;
    }
    Ok(())
}

/// Where one version rules, a group with members has no groups below it: ours are beside the
/// agent's own, or at the top for root.
fn unified(root: &Path, own: &str) -> Result<CgroupHierarchy, String> {
    let own = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    let near = root.join(own);
    let beside = near.parent().filter(|_| !own.is_empty()).unwrap_or(root);
    let mut why = String::new();
    for base in [root, beside] {
        let ours = base.join("tenure");
        let asked = std::fs::write(base.join("cgroup.subtree_control"), "+memory +cpu +pids");
        let made = std::fs::create_dir_all(&ours).and(asked);
        match made.and_then(|()| {
            std::fs::write(ours.join("cgroup.subtree_control"), "+memory +cpu +pids")
        }) {
            Ok(()) => return Ok(CgroupHierarchy::Unified(ours)),
            Err(error) => why = format!("{}: {error}", ours.display()),
        }
    }
    Err(why)
}

fn split(mounts: &str, kind: &str, own: &str) -> Result<PathBuf, String> {
    let path = own.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let kinds = fields.next()?;
        kinds.split(',').any(|one| one == kind).then(|| fields.next())?
    });
    let path = path.ok_or_else(|| format!("no control groups for {kind}"))?;
    let tree = mounted(mounts, kind)
        .ok_or_else(|| format!("the control groups for {kind} are mounted nowhere"))?;
    let ours = tree.join(path.trim_start_matches('/')).join("tenure");
    std::fs::create_dir_all(&ours).map_err(|error| format!("{}: {error}", ours.display()))?;
    // Another user's agent may have made it.
    match rustix::fs::access(&ours, rustix::fs::Access::WRITE_OK) {
        Ok(()) => Ok(ours),
        Err(error) => Err(format!("{}: {}", ours.display(), std::io::Error::from(error))),
    }
}

/// Where the tree of one kind is mounted. A folder of that name proves nothing: a machine may have the
/// folder and not the mount, and limits written there would bind nobody.
fn mounted(mounts: &str, kind: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut after = after.split(' ');
        let (file_system, _, options) = (after.next()?, after.next()?, after.next()?);
        let is_ours = file_system == "cgroup" && options.split(',').any(|one| one == kind);
        let mut before = before.split(' ').skip(3);
        let (root, place) = (before.next()?, before.next()?);
        (is_ours && root == "/").then(|| PathBuf::from(place))
    })
}

fn unified_settings(limits: &ContainerLimits) -> Vec<(String, String)> {
    let mut all = Vec::new();
    if let Some(memory) = limits.memory.filter(|memory| *memory > 0) {
        all.push(("memory.max".to_owned(), memory.to_string()));
        all.push(("memory.swap.max".to_owned(), "0".to_owned()));
        all.push(("memory.oom.group".to_owned(), "1".to_owned()));
    }
    if let Some(quota) = limits.cpu_quota.filter(|quota| *quota > 0) {
        all.push(("cpu.max".to_owned(), format!("{quota} 100000")));
    }
    if let Some(shares) = limits.cpu_shares.filter(|shares| *shares > 2) {
        // The range 2…262144 of shares onto 1…10000 of weight, as runtimes agree.
        let weight = 1 + (shares.clamp(2, 262_144) - 2) * 9999 / 262_142;
        all.push(("cpu.weight".to_owned(), weight.to_string()));
    }
    all
}

fn memory_settings(limits: &ContainerLimits) -> Vec<(String, String)> {
    match limits.memory.filter(|memory| *memory > 0) {
        Some(memory) => vec![
            ("memory.limit_in_bytes".to_owned(), memory.to_string()),
            ("memory.memsw.limit_in_bytes".to_owned(), memory.to_string()),
        ],
        None => Vec::new(),
    }
}

fn cpu_settings(limits: &ContainerLimits) -> Vec<(String, String)> {
    let mut all = Vec::new();
    if let Some(quota) = limits.cpu_quota.filter(|quota| *quota > 0) {
        all.push(("cpu.cfs_period_us".to_owned(), "100000".to_owned()));
        all.push(("cpu.cfs_quota_us".to_owned(), quota.to_string()));
    }
    if let Some(shares) = limits.cpu_shares.filter(|shares| *shares > 2) {
        all.push(("cpu.shares".to_owned(), shares.to_string()));
    }
    all
}

/// Whether the kernel ended a process of these groups because memory ran out.
pub(super) fn out_of_memory(groups: &[CgroupSettings]) -> bool {
    groups.iter().any(|(folder, _)| {
        ["memory.events", "memory.oom_control"].iter().any(|file| {
            let text = std::fs::read_to_string(folder.join(file)).unwrap_or_default();
            text.lines()
                .any(|line| line.strip_prefix("oom_kill ").is_some_and(|count| count.trim() != "0"))
        })
    })
}

#[cfg(test)]
mod tests {
    //! Rules of spec/downward-api.md.
    use super::*;

    #[test]
    fn r141_limits_become_settings_of_either_version() {
        let limits = ContainerLimits {
            cpu_shares: Some(1024),
            cpu_quota: Some(50_000),
            memory: Some(1 << 20),
            oom_score: None,
        };
        let unified = CgroupHierarchy::Unified("/g".into()).of("c", &limits, 4096);
        assert_eq!(unified[0].0, Path::new("/g/c"));
        assert!(unified[0].1.contains(&("memory.max".to_owned(), "1048576".to_owned())));
        assert!(unified[0].1.contains(&("cpu.max".to_owned(), "50000 100000".to_owned())));
        assert!(unified[0].1.contains(&("cpu.weight".to_owned(), "39".to_owned())));
        let pids = Ok("/p".into());
        let split =
            CgroupHierarchy::Split { memory: Some("/m".into()), cpu: Some("/c".into()), pids };
        assert_eq!(split.of("c", &limits, 4096).len(), 3);
    }

    #[test]
    fn r141_processes_are_limited_where_nothing_else_is() {
        let wanted = vec![("pids.max".to_owned(), "4096".to_owned())];
        let best = ContainerLimits { cpu_shares: Some(2), ..ContainerLimits::default() };
        for limits in [ContainerLimits::default(), best] {
            let unified = CgroupHierarchy::Unified("/g".into()).of("c", &limits, 4096);
            assert_eq!(unified, [("/g/c".into(), wanted.clone())]);
            let pids = Ok("/p".into());
            let split = CgroupHierarchy::Split { memory: Some("/m".into()), cpu: None, pids };
            let groups = [("/m/c".into(), Vec::new()), ("/p/c".into(), wanted.clone())];
            assert_eq!(split.of("c", &limits, 4096), groups, "one that may be limited later");
            assert_eq!(split.limit_processes(), Ok(()));
        }
        let none =
            CgroupHierarchy::Split { memory: Some("/m".into()), cpu: None, pids: Err("no".into()) };
        let groups = [("/m/c".into(), Vec::new())];
        assert_eq!(none.of("c", &ContainerLimits::default(), 4096), groups);
        assert_eq!(none.limit_processes(), Err("no".to_owned()));
    }

    #[test]
    fn r111b_limits_of_a_group_are_written_anew_and_never_below_what_is_used() {
        let root = std::env::temp_dir().join(format!("tenure-groups-{}", std::process::id()));
        let folder = root.join("c");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("memory.current"), "4096\n").unwrap();
        let groups = CgroupHierarchy::Unified(root.clone());
        let limits = |memory| ContainerLimits {
            cpu_shares: Some(512),
            cpu_quota: Some(25_000),
            memory: Some(memory),
            oom_score: None,
        };
        let read = |file: &str| std::fs::read_to_string(folder.join(file)).unwrap();
        assert_eq!(groups.update("c", &limits(8192), 64), Ok(()));
        assert_eq!((read("memory.max"), read("cpu.max")), ("8192".into(), "25000 100000".into()));
        let why = groups.update("c", &limits(4095), 64).unwrap_err();
        let words = "attempting to set the memory limit (4095) below current usage (4096)";
        assert_eq!((why.as_str(), read("memory.max").as_str()), (words, "8192"));
        assert_eq!(groups.update("gone", &limits(1), 64), Ok(()), "it was never limited");
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn r141_a_folder_without_the_mount_is_no_control_group() {
        let mounts = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
             32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
             33 31 0:30 /pod /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n\
             34 31 0:31 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        assert_eq!(mounted(mounts, "cpu"), Some("/sys/fs/cgroup/cpu,cpuacct".into()));
        assert_eq!(mounted(mounts, "memory"), None);
        assert_eq!(mounted(mounts, "blkio"), None, "a part of the tree has other paths");
        let why = split(mounts, "memory", "4:memory:/").unwrap_err();
        assert_eq!(why, "the control groups for memory are mounted nowhere");
    }
}
