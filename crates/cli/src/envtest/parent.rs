//! Whether the process that started this one is still there. A test that was killed ends nothing, so what it started
//! ends by itself (api-server R178).
//!
//! Asked again and again: the system's own signal for this comes when the thread that started us ends, and in Java or
//! Python that may be long before the process does.

use std::os::unix::process::parent_id;
use std::time::Duration;

use crate::clock;

/// How often it is looked.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// The process that started this one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parent(u32);

impl Parent {
    /// Whoever it is now.
    pub(super) fn now() -> Parent {
        Parent(parent_id())
    }

    fn is_there(self) -> bool {
        parent_id() == self.0
    }

    /// Returns when it is gone.
    pub(super) async fn gone(self) {
        while self.is_there() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// The same for a thread of its own.
    pub(super) fn wait_until_gone(self) {
        while self.is_there() {
            clock::block_for(LOOK_EVERY);
        }
    }
}
