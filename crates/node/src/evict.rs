//! Whether the node runs short of memory or disk, and which pod goes then (R112).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tenure_lifecycle::{Phase, PodRejection};
use tenure_machinery::{Object, ObjectExt as _};
use tokio::sync::watch;

use crate::agent::AgentContext;
use crate::clock;
use crate::register::{Pressure, memory};

/// How often the node is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// How long pressure is told after it has gone.
const LASTS: Duration = Duration::from_secs(5 * 60);
/// The hard thresholds.
const MEMORY_BYTES: u64 = 100 * 1024 * 1024;
const DISK_PERCENT: u64 = 10;
const INODES_PERCENT: u64 = 5;

/// What is left on the node.
#[derive(Debug, Clone, Copy)]
struct AvailableResources {
    memory_bytes: u64,
    disk_percent: u64,
    inodes_percent: u64,
}

impl AvailableResources {
    fn now(folder: &Path) -> AvailableResources {
        let percent = |free: u64, all: u64| (free * 100).checked_div(all).unwrap_or(100);
        let disk = rustix::fs::statvfs(folder).ok();
        AvailableResources {
            memory_bytes: memory("MemAvailable").unwrap_or(u64::MAX),
            disk_percent: disk.as_ref().map_or(100, |disk| percent(disk.f_bavail, disk.f_blocks)),
            inodes_percent: disk.map_or(100, |disk| percent(disk.f_favail, disk.f_files)),
        }
    }

    fn pressure(self) -> Pressure {
        Pressure {
            memory: self.memory_bytes < MEMORY_BYTES,
            disk: self.disk_percent < DISK_PERCENT || self.inodes_percent < INODES_PERCENT,
        }
    }
}

/// Looks for ever. Without `enabled` nothing is told and nobody goes: a full disk of a developer's
/// machine must not end tests.
pub(crate) async fn watch(
    shared: Arc<AgentContext>,
    folder: PathBuf,
    enabled: bool,
    pressure: Arc<watch::Sender<Pressure>>,
) {
    if !enabled {
        // Held, so that those who listen do not take the silence for an end.
        pressure.closed().await;
        return;
    }
    let mut since: [Option<Instant>; 2] = [None, None];
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let found = AvailableResources::now(&folder).pressure();
        let lasting = |slot: &mut Option<Instant>, now: bool| {
            if now {
                *slot = Some(clock::instant());
            }
            slot.is_some_and(|at| at.elapsed() < LASTS)
        };
        let [memory, disk] = &mut since;
        let told =
            Pressure { memory: lasting(memory, found.memory), disk: lasting(disk, found.disk) };
        pressure.send_if_modified(|known| std::mem::replace(known, told) != told);
        if found.memory || found.disk {
            let resource = if found.memory { "memory" } else { "ephemeral-storage" };
            put_out(&shared, resource);
        }
    }
}

/// Puts out one pod: the one that asked for least and counts least.
fn put_out(shared: &AgentContext, resource: &str) {
    let pods = shared.pods.all();
    let living = pods.iter().filter(|pod| {
        let phase = pod.object.str_at(&["status", "phase"]).and_then(Phase::read);
        phase == Some(Phase::Running) && pod.object.at(&["metadata", "deletionTimestamp"]).is_none()
    });
    let Some(victim) = living.min_by_key(|pod| rank(&pod.object)) else { return };
    let message = format!("The node was low on resource: {resource}.");
    let why = PodRejection { reason: "Evicted".to_owned(), message };
    shared.evict(&victim.key.uid, why);
}

/// Who goes first: pods that asked for nothing, then those of low priority.
fn rank(pod: &Object) -> (bool, i64, String) {
    let critical = pod.str_at(&["status", "qosClass"]) != Some("BestEffort");
    let priority = pod.at(&["spec", "priority"]).and_then(Value::as_i64).unwrap_or_default();
    (critical, priority, pod.name().to_owned())
}

#[cfg(test)]
mod tests {
    //! Rules of spec/downward-api.md.

    use serde_json::json;

    use super::*;

    #[test]
    fn r112_thresholds_and_order() {
        let calm =
            AvailableResources { memory_bytes: MEMORY_BYTES, disk_percent: 10, inodes_percent: 5 };
        assert_eq!(calm.pressure(), Pressure::default());
        let low = AvailableResources { memory_bytes: MEMORY_BYTES - 1, ..calm };
        assert_eq!(low.pressure(), Pressure { memory: true, disk: false });
        for full in [
            AvailableResources { disk_percent: 9, ..calm },
            AvailableResources { inodes_percent: 4, ..calm },
        ] {
            assert_eq!(full.pressure(), Pressure { memory: false, disk: true });
        }
        let pod = |class: &str, priority: i64| {
            let pod = json!({"spec": {"priority": priority}, "status": {"qosClass": class}});
            rank(pod.as_object().unwrap())
        };
        assert!(pod("BestEffort", 9) < pod("Burstable", 1));
        assert!(pod("Burstable", 1) < pod("Burstable", 2));
    }
}
