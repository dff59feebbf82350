//! When events end: some time after they were last written (api-server R146, R187).
//!
//! ```text
//!   world ──► Expiry: key ─► when due ──► the host deletes what is due, if nobody wrote it meanwhile
//! ```
//!
//! The queue is made from what there is at the start and follows the log, so the work is that of what is
//! written and what ends; nobody looks through everything. It is no [`crate::Controller`]: events come by the
//! thousand, and none of them needs to be read to live on.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tenure_machinery::{Object, ObjectExt};

use crate::time;

/// Which event is due when, soonest first. Times are told since some moment that the host chose.
#[derive(Debug)]
pub struct Expiry {
    life: Duration,
    // INVARIANT: both hold the same pairs.
    by_time: BTreeSet<(Duration, Arc<str>)>,
    by_key: BTreeMap<Arc<str>, Duration>,
}

impl Expiry {
    /// No events, each of which would live so long after it was last written.
    #[must_use]
    pub fn new(life: Duration) -> Expiry {
        Expiry { life, by_time: BTreeSet::new(), by_key: BTreeMap::new() }
    }

    /// Takes in an event that was there when the host began: the times inside it say how old it is.
    pub fn found(&mut self, key: &Arc<str>, event: &Object, clock: Timestamp, now: Duration) {
        // A time ahead of the clock is somebody's mistake and earns nothing.
        let age = clock.as_second().saturating_sub(written(event, clock).as_second());
        let age = Duration::from_secs(u64::try_from(age).unwrap_or_default());
        self.put(key, now.saturating_add(self.life.saturating_sub(age)));
    }

    /// An event was written now.
    pub fn written(&mut self, key: &Arc<str>, now: Duration) {
        self.put(key, now.saturating_add(self.life));
    }

    /// An event is gone.
    pub fn gone(&mut self, key: &str) {
        if let Some((key, before)) = self.by_key.remove_entry(key) {
            self.by_time.remove(&(before, key));
        }
    }

    /// An event could not be deleted: it is due again after this time.
    pub fn again(&mut self, key: &Arc<str>, due: Duration) {
        self.put(key, due);
    }

    /// When the first is due.
    #[must_use]
    pub fn due(&self) -> Option<Duration> {
        self.by_time.first().map(|(due, _)| *due)
    }

    /// Takes some of what is due.
    pub fn take(&mut self, now: Duration, most: usize) -> Vec<Arc<str>> {
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

    fn put(&mut self, key: &Arc<str>, due: Duration) {
        if let Some(before) = self.by_key.insert(Arc::clone(key), due) {
            self.by_time.remove(&(before, Arc::clone(key)));
        }
        self.by_time.insert((due, Arc::clone(key)));
    }
}

/// When an event was last written, as far as it tells; never later than the clock.
fn written(event: &Object, clock: Timestamp) -> Timestamp {
    let times = [
        &["metadata", "creationTimestamp"][..],
        &["lastTimestamp"],
        &["eventTime"],
        &["series", "lastObservedTime"],
    ];
    let managers =
        event.list_at(&["metadata", "managedFields"]).iter().filter_map(Value::as_object);
    let times = times.iter().filter_map(|path| time::at(event, path));
    let times = times.chain(managers.filter_map(|entry| time::at(entry, &["time"])));
    times.filter(|time| *time <= clock).max().unwrap_or(clock)
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use serde_json::json;

    use super::*;

    const LIFE: Duration = Duration::from_secs(100);

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn r187_the_queue_moves_what_is_written_and_forgets_what_is_gone() {
        let keys: Vec<Arc<str>> = ["a", "b", "c"].map(Arc::from).into();
        let mut expiry = Expiry::new(LIFE);
        for (key, seconds) in keys.iter().zip([10, 20, 30]) {
            expiry.written(key, at(seconds));
        }
        expiry.written(&keys[0], at(40));
        expiry.gone(&keys[1]);
        expiry.gone(&keys[1]);
        assert_eq!(expiry.due(), Some(at(130)));
        assert!(expiry.take(at(129), 9).is_empty());
        assert_eq!(expiry.take(at(150), 1), [Arc::clone(&keys[2])]);
        assert_eq!(expiry.take(at(150), 9), [Arc::clone(&keys[0])]);
        assert!(expiry.by_time.is_empty() && expiry.by_key.is_empty());
    }

    #[test]
    fn r187_what_was_there_before_has_the_rest_of_its_time() {
        let clock: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let key: Arc<str> = "a".into();
        let due = |event: Value| {
            let mut expiry = Expiry::new(LIFE);
            expiry.found(&key, event.as_object().unwrap(), clock, at(5));
            expiry.due()
        };
        let created = json!({"creationTimestamp": "2026-01-01T00:00:00Z"});
        assert_eq!(due(json!({"metadata": created})), Some(at(45)));
        assert_eq!(
            due(json!({"metadata": created, "lastTimestamp": "2026-01-01T00:00:30Z"})),
            Some(at(75))
        );
        assert_eq!(
            due(json!({"metadata": created, "eventTime": "2999-01-01T00:00:00Z"})),
            Some(at(45)),
            "the future is no time"
        );
        assert_eq!(due(json!({})), Some(at(105)));
        let long_ago = json!({"creationTimestamp": "2020-01-01T00:00:00Z"});
        assert_eq!(due(json!({"metadata": long_ago})), Some(at(5)));
    }
}
