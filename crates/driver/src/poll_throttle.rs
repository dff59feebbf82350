//! How often a follower looks at the log: at once when there is something to do, seldom when there is not.
//!
//! Waking for every write that concerns nobody would take the time of the requests themselves. So a
//! follower that looked in vain lets the next changes gather for a moment.

use std::time::Duration;

use tokio::time::Instant;

use crate::clock;

/// How long changes gather after a look in vain.
const BREATH: Duration = Duration::from_millis(5);

/// When a follower looks next.
#[derive(Debug, Default)]
pub(crate) struct PollThrottle {
    not_before: Option<Instant>,
}

impl PollThrottle {
    /// The follower has looked at what there was, and found something to do or not.
    pub(crate) fn looked(&mut self, found: bool) {
        self.not_before = (!found).then(|| clock::timer_instant() + BREATH);
    }

    /// Waits until there is something to read and it is time to.
    pub(crate) async fn ready<E>(
        &self,
        ready: impl Future<Output = Result<(), E>>,
    ) -> Result<(), E> {
        ready.await?;
        if let Some(at) = self.not_before {
            tokio::time::sleep_until(at).await;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_look_in_vain_lets_changes_gather_and_a_find_does_not() {
        let (mut pace, start) = (PollThrottle::default(), Instant::now());
        assert_eq!(pace.not_before, None, "the first look is at once");
        pace.looked(false);
        assert_eq!(pace.not_before, Some(start + BREATH));
        pace.looked(true);
        assert_eq!(pace.not_before, None);
    }
}
