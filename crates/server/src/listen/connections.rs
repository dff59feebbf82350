//! How many connections there may be, and which one gives way when there is no room (api-server R243).
//!
//! ```text
//!   accept ──► room? ─ yes ─► held until it ends
//!                └── no ──► the one that has been idle for longest is closed; none is idle: refused
//! ```
//!
//! What keeps connections busy has bounds of its own: seats, queues, bytes and watches (`fair`).

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use http::Response;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use tokio::sync::Notify;

use crate::body::Body;

/// All connections of one listener.
pub(super) struct Connections {
    most: usize,
    begin: Instant,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    // INVARIANT: holds a connection from its acceptance until its `Held` is dropped.
    by_number: BTreeMap<u64, Arc<Activity>>,
    next: u64,
}

/// What a connection is doing.
pub(super) struct Activity {
    begin: Instant,
    requests: AtomicU32,
    /// When it was last busy, in milliseconds.
    last_busy: AtomicU64,
    closed: Notify,
}

/// A place among the connections, until this is dropped.
pub(super) struct Held {
    connections: Arc<Connections>,
    number: u64,
    activity: Arc<Activity>,
}

impl Connections {
    pub(super) fn new(most: usize) -> Arc<Connections> {
        Arc::new(Connections { most: most.max(1), begin: Instant::now(), open: Mutex::default() })
    }

    /// A place for one more; none if all are taken by connections that are busy.
    pub(super) fn add(self: &Arc<Connections>) -> Option<Held> {
        let mut open = self.lock();
        if open.by_number.len() >= self.most {
            let idle = open.by_number.iter().filter(|(_, activity)| activity.is_idle());
            let longest =
                idle.min_by_key(|(_, activity)| activity.last_busy.load(Ordering::Relaxed));
            let number = longest.map(|(number, _)| *number)?;
            // Its place is free at once, its socket a moment later.
            open.by_number.remove(&number)?.closed.notify_one();
        }
        let (number, activity) = (open.next, Arc::new(Activity::new(self.begin)));
        open.next += 1;
        open.by_number.insert(number, Arc::clone(&activity));
        Some(Held { connections: Arc::clone(self), number, activity })
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        // Nothing panics while it is held.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    pub(super) fn activity(&self) -> Arc<Activity> {
        Arc::clone(&self.activity)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.connections.lock().by_number.remove(&self.number);
    }
}

impl Activity {
    fn new(begin: Instant) -> Activity {
        let activity = Activity {
            begin,
            requests: AtomicU32::new(0),
            last_busy: AtomicU64::new(0),
            closed: Notify::new(),
        };
        activity.was_busy();
        activity
    }

    /// Resolves when another connection got its place.
    pub(super) async fn closed(&self) {
        self.closed.notified().await;
    }

    /// A request begins; it ends when this is dropped.
    pub(super) fn request(self: &Arc<Activity>) -> Busy {
        self.requests.fetch_add(1, Ordering::Relaxed);
        Busy(Arc::clone(self))
    }

    fn is_idle(&self) -> bool {
        self.requests.load(Ordering::Relaxed) == 0
    }

    fn was_busy(&self) {
        let now = u64::try_from(self.begin.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_busy.store(now, Ordering::Relaxed);
    }
}

/// A request that is being answered.
pub(super) struct Busy(Arc<Activity>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.was_busy();
        self.0.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Busy {
    /// The answer, which keeps its connection busy until the last byte is sent.
    pub(super) fn until_sent(self, response: Response<Body>) -> Response<Body> {
        response.map(|body| BodyExt::boxed_unsync(Sending { body, _busy: self }))
    }
}

/// A body on its way.
struct Sending {
    body: Body,
    _busy: Busy,
}

impl http_body::Body for Sending {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn r243_the_connection_that_is_idle_for_longest_gives_way() {
        let connections = Connections::new(2);
        let first = connections.add().unwrap();
        std::thread::sleep(Duration::from_millis(3));
        let second = connections.add().unwrap();
        std::thread::sleep(Duration::from_millis(3));
        // The first was busy since, so the second has been idle for longer.
        drop(first.activity().request());
        let third = connections.add().unwrap();
        let open: Vec<u64> = connections.lock().by_number.keys().copied().collect();
        assert_eq!(open, [first.number, third.number]);
        drop(second);
        assert_eq!(connections.lock().by_number.len(), 2, "it left already");
    }

    #[test]
    fn r243_busy_connections_stay_and_one_more_is_refused() {
        let connections = Connections::new(1);
        let held = connections.add().unwrap();
        let busy = held.activity().request();
        assert!(connections.add().is_none());
        let response = busy.until_sent(Response::new(crate::body::full("x")));
        assert!(connections.add().is_none(), "the answer is not sent yet");
        drop(response);
        assert!(connections.add().is_some());
    }
}
