//! How many files and sockets this process may have open, for a bound that depends on it.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Left for everything but connections of clients: the store, logs, containers, streams to nodes.
const OTHERS: u64 = 512;
const CONNECTIONS_MAX: u64 = 65_536;

/// Allows this process all that the system lets it have, and says how many connections of clients
/// there is room for.
pub(crate) fn connections() -> usize {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum };
        // Where this is not allowed, what there is has to do.
        if setrlimit(Resource::Nofile, raised).is_ok() {
            limit = getrlimit(Resource::Nofile);
        }
    }
    usize::try_from(room(limit.current)).unwrap_or(usize::MAX)
}

/// None: without bound.
fn room(descriptors: Option<u64>) -> u64 {
    let descriptors = descriptors.unwrap_or(u64::MAX);
    let half = descriptors / 2;
    descriptors.saturating_sub(OTHERS).max(half).clamp(1, CONNECTIONS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r243_connections_leave_descriptors_for_others() {
        assert_eq!(room(Some(1_024)), 512);
        assert_eq!(room(Some(20_000)), 19_488);
        assert_eq!(room(Some(64)), 32);
        assert_eq!(room(None), CONNECTIONS_MAX);
    }
}
