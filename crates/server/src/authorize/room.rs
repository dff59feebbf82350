//! How many calls of one webhook are under way, and how many of them for one user (R154c).
//!
//! A webhook that hangs keeps those waiting who must ask it, and nobody else: not for longer than their time, and not
//! more of them than there is room for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How many calls are under way.
const CALLS_MAX: usize = 256;
/// How many of them for one user, so that nobody takes all.
const CALLS_OF_USER_MAX: usize = 64;
/// How many wait for their turn.
const WAITING_MAX: usize = 2_048;

/// The room that there is.
pub(super) struct CallRoom {
    calls: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    users: Arc<Mutex<HashMap<Arc<str>, UserRoom>>>,
}

struct UserRoom {
    calls: Arc<Semaphore>,
    /// How many wait or call.
    holders: usize,
}

impl Default for CallRoom {
    fn default() -> CallRoom {
        CallRoom {
            calls: Arc::new(Semaphore::new(CALLS_MAX)),
            waiting: Arc::new(Semaphore::new(WAITING_MAX)),
            users: Arc::default(),
        }
    }
}

/// A place among the calls; given back when it is dropped.
pub(super) struct CallPlace {
    _call: OwnedSemaphorePermit,
    _own: OwnedSemaphorePermit,
    _holder: RoomHolder,
}

/// Lets the room of a user be forgotten when nobody needs it.
struct RoomHolder {
    users: Arc<Mutex<HashMap<Arc<str>, UserRoom>>>,
    user: Arc<str>,
}

impl Drop for RoomHolder {
    fn drop(&mut self) {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(room) = users.get_mut(&self.user) {
            room.holders -= 1;
            if room.holders == 0 {
                users.remove(&self.user);
            }
        }
    }
}

impl CallRoom {
    /// Waits for a place; there is none where too many wait.
    pub(super) async fn enter(&self, user: &str) -> Option<CallPlace> {
        let waiting = Arc::clone(&self.waiting).try_acquire_owned().ok()?;
        let (holder, own) = self.of_user(user);
        // Those of one user wait for one another first, and take no place meanwhile.
        let own = own.acquire_owned().await.ok()?;
        let call = Arc::clone(&self.calls).acquire_owned().await.ok()?;
        drop(waiting);
        Some(CallPlace { _call: call, _own: own, _holder: holder })
    }

    fn of_user(&self, user: &str) -> (RoomHolder, Arc<Semaphore>) {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let user: Arc<str> = Arc::from(user);
        let new = || UserRoom { calls: Arc::new(Semaphore::new(CALLS_OF_USER_MAX)), holders: 0 };
        let room = users.entry(Arc::clone(&user)).or_insert_with(new);
        room.holders += 1;
        let calls = Arc::clone(&room.calls);
        (RoomHolder { users: Arc::clone(&self.users), user }, calls)
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.

    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn r154c_one_user_leaves_room_for_others() {
        let room = CallRoom::default();
        let mut held = Vec::new();
        for _ in 0..CALLS_OF_USER_MAX {
            held.push(room.enter("greedy").await.unwrap());
        }
        let late = tokio::time::timeout(Duration::from_secs(1), room.enter("greedy")).await;
        assert!(late.is_err(), "one more of the same user waits");
        assert!(room.enter("modest").await.is_some());
        held.pop();
        assert!(room.enter("greedy").await.is_some());
        held.clear();
        assert!(room.users.lock().unwrap().is_empty(), "nobody is remembered");
    }

    #[tokio::test(start_paused = true)]
    async fn r154c_a_full_line_refuses_at_once() {
        let room = CallRoom::default();
        let names: Vec<String> = (0..WAITING_MAX).map(|user| format!("w{user}")).collect();
        let mut held = Vec::new();
        for user in 0..CALLS_MAX {
            held.push(room.enter(&user.to_string()).await.unwrap());
        }
        let mut lines = Vec::new();
        for user in &names {
            let mut waits = Box::pin(room.enter(user));
            let waited = tokio::time::timeout(Duration::ZERO, &mut waits).await;
            assert!(waited.is_err());
            lines.push(waits);
        }
        assert!(room.enter("one too many").await.is_none());
        drop(lines);
        assert_eq!(room.users.lock().unwrap().len(), CALLS_MAX, "those who gave up are forgotten");
    }
}
