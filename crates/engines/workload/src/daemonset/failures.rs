//! How often pods failed on a node, so that a node that refuses them is not asked ever faster (DS5).

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use core::time::Duration;

use jiff::Timestamp;
use tenure_machinery::{Object, ObjectExt};

use crate::controller::ReconcileMemory;
use crate::time;

const FIRST_SECONDS: i64 = 1;
const LONGEST_SECONDS: i64 = 15 * 60;

/// What a DaemonSet remembers of failed pods, by node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodFailures {
    /// The generation these failures belong to; another one starts afresh.
    generation: i64,
    nodes: BTreeMap<String, FailureBackoff>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct FailureBackoff {
    last: Timestamp,
    wait_seconds: i64,
}

impl PodFailures {
    /// What the last pass left, unless the set has changed since.
    pub(super) fn recall(memory: &ReconcileMemory, set: &Object) -> PodFailures {
        let generation = set.int_at(&["status", "observedGeneration"]).unwrap_or_default();
        match memory {
            ReconcileMemory::Failures(failures) if failures.generation == generation => {
                failures.clone()
            }
            _ => PodFailures { generation, nodes: BTreeMap::new() },
        }
    }

    /// Counts a failure, or says how long to wait before it may be counted.
    pub(super) fn count(&mut self, node: &str, now: Timestamp) -> Result<(), Duration> {
        let old = |failure: &FailureBackoff| time::after(failure.last, 2 * LONGEST_SECONDS) < now;
        self.nodes.retain(|_, failure| !old(failure));
        let wait_seconds = match self.nodes.get(node) {
            Some(known) => {
                let end = time::after(known.last, known.wait_seconds);
                if end > now {
                    return Err(time::until(end, now));
                }
                (known.wait_seconds * 2).min(LONGEST_SECONDS)
            }
            None => FIRST_SECONDS,
        };
        self.nodes.insert(node.to_string(), FailureBackoff { last: now, wait_seconds });
        Ok(())
    }

    /// What to leave for the next pass.
    pub(super) fn memory(self) -> ReconcileMemory {
        if self.nodes.is_empty() {
            ReconcileMemory::Nothing
        } else {
            ReconcileMemory::Failures(self)
        }
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/workload-controllers.md.
    use super::PodFailures;
    use crate::controller::ReconcileMemory;
    use core::time::Duration;
    use jiff::Timestamp;
    use tenure_machinery::Object;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn ds5_each_failure_on_a_node_doubles_the_wait() {
        let mut failures = PodFailures::recall(&ReconcileMemory::Nothing, &Object::new());
        let mut now = 1_000;
        for wait in [1_u64, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900] {
            assert_eq!(failures.count("n1", at(now)), Ok(()));
            assert_eq!(failures.count("n1", at(now)), Err(Duration::from_secs(wait)));
            now += i64::try_from(wait).unwrap();
        }
        assert_eq!(failures.count("n2", at(now)), Ok(()), "nodes do not wait for each other");
        // After half an hour without failure a node is trusted again.
        now += 1_801;
        assert_eq!(failures.count("n1", at(now)), Ok(()));
        assert_eq!(failures.count("n1", at(now)), Err(Duration::from_secs(1)));
    }
}
