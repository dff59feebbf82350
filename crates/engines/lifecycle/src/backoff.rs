//! How long a container that ended waits before it is started again (R101).

use core::time::Duration;

use crate::observation::ContainerTermination;

/// The curve: first wait, longest wait, and the run that forgets both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestartBackoff {
    /// The wait after the first restart.
    pub first: Duration,
    /// The longest wait.
    pub max: Duration,
    /// A run of this length begins the curve anew.
    pub reset: Duration,
    /// The wait before the next start; zero for the first restart.
    pub wait: Duration,
}

impl Default for RestartBackoff {
    fn default() -> RestartBackoff {
        RestartBackoff::curve(Duration::from_secs(10), Duration::from_secs(300))
    }
}

impl RestartBackoff {
    /// A curve from a first to a longest wait.
    #[must_use]
    pub const fn curve(first: Duration, max: Duration) -> RestartBackoff {
        RestartBackoff { first, max, reset: Duration::from_secs(600), wait: Duration::ZERO }
    }

    /// Takes an end into account: a long run begins the curve anew.
    pub fn ended(&mut self, ended: &ContainerTermination) {
        let ran = ended.started.zip(ended.finished).map(|(from, to)| to.duration_since(from));
        let ran = ran.and_then(|ran| Duration::try_from(ran).ok()).unwrap_or_default();
        if ran >= self.reset {
            self.wait = Duration::ZERO;
        }
    }

    /// Takes a start into account: the next waits longer.
    pub fn started_again(&mut self) {
        self.wait = match self.wait {
            Duration::ZERO => self.first.min(self.max),
            wait => wait.saturating_mul(2).min(self.max),
        };
    }
}
