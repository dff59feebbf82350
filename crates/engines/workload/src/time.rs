//! Times in objects: whole seconds, RFC 3339. The time itself always comes from the host.

use alloc::string::{String, ToString};
use core::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tenure_machinery::{Object, ObjectExt};

/// The time at a path.
#[must_use]
pub fn at(object: &Object, path: &[&str]) -> Option<Timestamp> {
    object.str_at(path)?.parse().ok()
}

/// `metadata.creationTimestamp`.
#[must_use]
pub fn created(object: &Object) -> Option<Timestamp> {
    at(object, &["metadata", "creationTimestamp"])
}

/// A time as objects write it.
#[must_use]
pub fn written(time: Timestamp) -> String {
    let whole = Timestamp::from_second(time.as_second()).unwrap_or(time);
    whole.to_string()
}

/// Some seconds after a time; the last time there is when that is too far.
#[must_use]
pub fn after(time: Timestamp, seconds: i64) -> Timestamp {
    time.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX)
}

/// How long it is from now until a time; nothing when it is past.
#[must_use]
pub fn until(time: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(time.duration_since(now)).unwrap_or_default()
}
