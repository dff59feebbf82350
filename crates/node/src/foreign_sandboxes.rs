//! Sandboxes that belong to no pod of this node: how long each has been seen, and when it goes (R154).
//! What is done to them is the agent's business.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// What is known of sandboxes of no pod.
pub(crate) struct ForeignSandboxes {
    after: Duration,
    since: HashMap<String, Instant>,
}

impl ForeignSandboxes {
    /// Lets a stranger stay for so long.
    pub(crate) fn new(after: Duration) -> ForeignSandboxes {
        ForeignSandboxes { after, since: HashMap::new() }
    }

    /// Takes in the strangers of this moment, all of them, and says whose time is over. Who is still there
    /// after that gets the same time again.
    pub(crate) fn due<'a>(
        &mut self,
        seen: impl Iterator<Item = &'a str>,
        now: Instant,
    ) -> Vec<String> {
        let mut due = Vec::new();
        let mut since = HashMap::new();
        for id in seen {
            let first = self.since.get(id).copied().unwrap_or(now);
            if now.duration_since(first) >= self.after {
                due.push(id.to_owned());
                since.insert(id.to_owned(), now);
            } else {
                since.insert(id.to_owned(), first);
            }
        }
        self.since = since;
        due
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/downward-api.md.

    use super::*;

    #[test]
    fn r154_a_stranger_goes_after_its_time_and_is_tried_again() {
        let begin = Instant::now();
        let at = |seconds: u64| begin + Duration::from_secs(seconds);
        let mut strangers = ForeignSandboxes::new(Duration::from_secs(60));
        let mut due = |ids: &[&str], seconds| strangers.due(ids.iter().copied(), at(seconds));
        assert!(due(&["a"], 0).is_empty());
        assert!(due(&["a", "b"], 59).is_empty());
        assert_eq!(due(&["a", "b"], 60), ["a"]);
        assert!(due(&["a", "b"], 61).is_empty(), "a removal takes its time");
        // A pod was heard of: b was none for a while.
        assert!(due(&["a"], 100).is_empty());
        assert_eq!(due(&["a", "b"], 120), ["a"]);
        assert!(due(&["b"], 179).is_empty());
        assert_eq!(due(&["b"], 180), ["b"]);
    }
}
