//! How much memory there is, for defaults that depend on it. Nothing is decided here but those.

use tenure_host::config::STORE_QUOTA_MAX;

/// The quota of the store where nobody names one: half of the memory, 8 GiB at most.
///
/// All objects live in memory, and requests, history and indexes need room beside them.
pub(crate) fn store_quota() -> u64 {
    quota_of(memory_bytes())
}

fn quota_of(memory: Option<u64>) -> u64 {
    memory.map_or(STORE_QUOTA_MAX, |bytes| (bytes / 2).min(STORE_QUOTA_MAX))
}

/// The memory of this machine, or of the container that it is used from.
fn memory_bytes() -> Option<u64> {
    let read = |path| std::fs::read_to_string(path).ok();
    let machine = read("/proc/meminfo").as_deref().and_then(total);
    let allowed = read("/sys/fs/cgroup/memory.max").and_then(|text| text.trim().parse().ok());
    machine.into_iter().chain(allowed).min()
}

fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_memory_is_for_objects() {
        let small = total("MemTotal:        2097152 kB\nMemFree: 1 kB\n");
        assert_eq!(small, Some(2 << 30));
        assert_eq!(quota_of(small), 1 << 30);
        assert_eq!(quota_of(Some(1 << 40)), STORE_QUOTA_MAX);
        assert_eq!(quota_of(None), STORE_QUOTA_MAX);
        assert_eq!(total("MemFree: 1 kB\n"), None);
    }
}
