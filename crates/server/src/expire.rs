//! Events end some time after they were last written (R146, R187).
//!
//! ```text
//!   world ──► Queue: key → when due ──► delete through the same door, if nobody wrote it meanwhile
//! ```
//!
//! The queue is made from the world at the start and follows the log, so the work is that of what is
//! written and what ends; nobody looks through everything. When an event was last written is told by the
//! log while the server runs; after a restart the times inside the event stand in for it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tenure_machinery::{Object, ObjectExt};
use tenure_world::{Change, Interest, Proposal, Record, Status, World};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::api::Api;

const PREFIX: &str = "/registry/events/";
/// How many deletes wait for the log at the same time.
const DELETES_AT_ONCE: usize = 256;
/// How long a delete that was not taken waits before it is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// Deletes events that were last written `life` ago, until the server stops.
pub async fn run(api: Arc<Api>, life: Duration) {
    let mut stop = api.stop.clone();
    while matches!(api.world.status(), Status::Running) {
        let state = api.world.current();
        let Ok(mut changes) = api.world.watch(state.revision(), Interest::Prefix(PREFIX.into()))
        else {
            continue;
        };
        let mut queue = Queue::of(&state, life);
        loop {
            let due = queue.first();
            let change = tokio::select! {
                () = stopped(&mut stop) => return,
                change = changes.next() => Some(change),
                () = until(due) => None,
            };
            match change {
                Some(Ok(change)) => queue.see(&change, Instant::now() + life),
                // A follower that fell behind begins again with the world as it is.
                Some(Err(_)) => break,
                None => expire(&api, &mut queue).await,
            }
        }
    }
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    // A sender that is gone can never ask again, so it counts as having asked.
    let _ = stop.wait_for(|asked| *asked).await;
}

/// Waits for a time; for ever if there is none.
async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// Which event is due when, soonest first.
#[derive(Debug, Default)]
struct Queue {
    // INVARIANT: both hold the same pairs.
    by_time: BTreeSet<(Instant, Arc<str>)>,
    by_key: HashMap<Arc<str>, Instant>,
}

impl Queue {
    /// The queue of a world that was just opened.
    fn of(state: &World, life: Duration) -> Queue {
        let (now, clock) = (Instant::now(), jiff::Timestamp::now().as_second());
        let mut queue = Queue::default();
        for record in state.range(PREFIX, None) {
            // A time ahead of the clock is somebody's mistake and earns nothing.
            let age = clock.saturating_sub(written(record, clock));
            let age = Duration::from_secs(u64::try_from(age).unwrap_or_default());
            queue.put(record.key(), now + life.saturating_sub(age));
        }
        queue
    }

    fn see(&mut self, change: &Change, due: Instant) {
        match &change.after {
            Some(record) => self.put(record.key(), due),
            None => self.remove(&change.key),
        }
    }

    fn put(&mut self, key: &Arc<str>, due: Instant) {
        if let Some(before) = self.by_key.insert(Arc::clone(key), due) {
            self.by_time.remove(&(before, Arc::clone(key)));
        }
        self.by_time.insert((due, Arc::clone(key)));
    }

    fn remove(&mut self, key: &Arc<str>) {
        if let Some(before) = self.by_key.remove(key) {
            self.by_time.remove(&(before, Arc::clone(key)));
        }
    }

    fn first(&self) -> Option<Instant> {
        self.by_time.first().map(|(due, _)| *due)
    }

    /// Takes some of what is due.
    fn take(&mut self, now: Instant, most: usize) -> Vec<Arc<str>> {
        let mut keys = Vec::new();
        while keys.len() < most
            && self.by_time.first().is_some_and(|(due, _)| *due <= now)
            && let Some((_, key)) = self.by_time.pop_first()
        {
            self.by_key.remove(&key);
            keys.push(key);
        }
        keys
    }
}

/// Deletes some of what is due; what was not taken comes again.
async fn expire(api: &Arc<Api>, queue: &mut Queue) {
    let state = api.world.current();
    let mut running = JoinSet::new();
    for key in queue.take(Instant::now(), DELETES_AT_ONCE) {
        let Some(record) = state.get(&key) else { continue };
        let proposal = Proposal::delete(Arc::clone(&key), record.revision());
        let world = api.world.clone();
        running.spawn(async move { (key, world.propose(proposal).await) });
    }
    while let Some(done) = running.join_next().await {
        // An event that was written or deleted meanwhile is seen as a change.
        if let Ok((key, Err(refused))) = done
            && !matches!(refused, tenure_world::Refused::Guard { .. })
        {
            tracing::debug!(%key, %refused, "an event could not be let go");
            queue.put(&key, Instant::now() + TRY_AGAIN);
        }
    }
}

/// When an event was last written, as far as it tells, in seconds since 1970; never later than `now`.
fn written(record: &Record, now: i64) -> i64 {
    let seconds = |text: &str| text.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_second);
    let mut times = vec![seconds(record.created())];
    if let Ok(object) = serde_json::from_slice::<Object>(record.bytes()) {
        for path in [&["lastTimestamp"][..], &["eventTime"], &["series", "lastObservedTime"]] {
            times.push(object.str_at(path).and_then(seconds));
        }
        let managers = object.list_at(&["metadata", "managedFields"]).iter();
        times.extend(
            managers.map(|entry| entry.get("time").and_then(Value::as_str).and_then(seconds)),
        );
    }
    times.into_iter().flatten().filter(|time| *time <= now).max().unwrap_or(now)
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use super::*;

    #[test]
    fn r187_the_queue_moves_what_is_written_and_forgets_what_is_gone() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let keys: Vec<Arc<str>> = ["a", "b", "c"].map(Arc::from).into();
        let mut queue = Queue::default();
        for (key, seconds) in keys.iter().zip([10, 20, 30]) {
            queue.put(key, at(seconds));
        }
        queue.put(&keys[0], at(40));
        queue.remove(&keys[1]);
        queue.remove(&keys[1]);
        assert_eq!(queue.first(), Some(at(30)));
        assert!(queue.take(at(29), 9).is_empty());
        assert_eq!(queue.take(at(50), 1), [Arc::clone(&keys[2])]);
        assert_eq!(queue.take(at(50), 9), [Arc::clone(&keys[0])]);
        assert!(queue.by_time.is_empty() && queue.by_key.is_empty());
    }
}
