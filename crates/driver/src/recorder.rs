//! Which event tells of a finding: a new one, an old one that happened again, or none (ownership R21).
//!
//! The rules are those of the recorder that upstream's controllers share. Time comes in; nothing is
//! written here.
//!
//! ```text
//!   Notice ──► too many from this source about this object? ──► none
//!          ──► more than ten alike in ten minutes? ──► one event that stands for all
//!          ──► said before? ──► its count rises       else ──► a new event
//! ```

use std::collections::{HashMap, VecDeque};

use serde_json::{Value, json};
use tenure_machinery::Object;

/// How many events about one object a source may tell at once.
const BURST: f64 = 25.0;
/// After a burst one more is told every so many seconds.
const REFILL_SECONDS: f64 = 300.0;
/// So many notices that differ only in their words are told one by one.
const ALIKE_MAX: usize = 10;
/// Notices further apart than this do not count as alike.
const ALIKE_SECONDS: i64 = 600;
/// How many events, sources and groups are remembered.
const REMEMBERED: usize = 4096;

/// Something worth telling about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Notice {
    /// The part of the control plane that tells it.
    pub source: &'static str,
    /// The object it is about, as `involvedObject` has it.
    pub about: Object,
    /// Whether it is a warning.
    pub warning: bool,
    /// One word in camel case.
    pub reason: String,
    /// A sentence.
    pub message: String,
}

/// What to write.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Telling {
    /// A new event in this namespace.
    New {
        /// Where it goes.
        namespace: String,
        /// What it says.
        event: Object,
    },
    /// An event that was written before happened once more.
    Again {
        /// Where it is.
        namespace: String,
        /// What it is called.
        name: String,
        /// How often it has happened now.
        count: i64,
        /// When it happened last.
        last: String,
        /// What it says now.
        message: String,
    },
}

#[derive(Debug)]
struct RecordedEvent {
    name: String,
    count: i64,
    first: String,
}

#[derive(Debug)]
struct Bucket {
    tokens: f64,
    at: i64,
}

#[derive(Debug, Default)]
struct Alike {
    messages: Vec<String>,
    at: i64,
}

/// Remembers what was told, for as long as the process runs.
#[derive(Debug, Default)]
pub(crate) struct EventRecorder {
    written: Remembered<RecordedEvent>,
    buckets: Remembered<Bucket>,
    alike: Remembered<Alike>,
}

impl EventRecorder {
    /// Decides how a notice is told at a time.
    pub(crate) fn tell(&mut self, notice: &Notice, now: jiff::Timestamp) -> Option<Telling> {
        let about = Value::Object(notice.about.clone()).to_string();
        let kind = if notice.warning { "Warning" } else { "Normal" };
        let group = format!("{} {kind} {} {about}", notice.source, notice.reason);
        let (message, identity) = self.combine(notice, &group, now.as_second());
        if !self.admit(&format!("{} {about}", notice.source), now.as_second()) {
            return None;
        }
        let namespace = match notice.about.get("namespace").and_then(Value::as_str) {
            Some(namespace) if !namespace.is_empty() => namespace.to_owned(),
            _ => "default".to_owned(),
        };
        let time = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        if let Some(written) = self.written.get_mut(&identity) {
            written.count = written.count.saturating_add(1);
            let (name, count) = (written.name.clone(), written.count);
            return Some(Telling::Again { namespace, name, count, last: time, message });
        }
        let object = notice.about.get("name").and_then(Value::as_str).unwrap_or_default();
        let name = format!("{object}.{:016x}", now.as_nanosecond());
        let first = RecordedEvent { name: name.clone(), count: 1, first: time.clone() };
        self.written.put(identity, first);
        let event = new_event(notice, kind, &namespace, &name, &message, &time, &time, 1);
        Some(Telling::New { namespace, event })
    }

    /// The event of a notice that was told before, written once more because the old one is gone.
    pub(crate) fn tell_anew(
        &mut self,
        notice: &Notice,
        name: &str,
        now: jiff::Timestamp,
    ) -> Option<Object> {
        let kind = if notice.warning { "Warning" } else { "Normal" };
        let written = self.written.entries.values_mut().find(|written| written.name == name)?;
        let object = notice.about.get("name").and_then(Value::as_str).unwrap_or_default();
        written.name = format!("{object}.{:016x}", now.as_nanosecond());
        let time = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let namespace = notice.about.get("namespace").and_then(Value::as_str).unwrap_or_default();
        let namespace = if namespace.is_empty() { "default" } else { namespace };
        let RecordedEvent { name, count, first } = written;
        Some(new_event(notice, kind, namespace, name, &notice.message, first, &time, *count))
    }

    /// The words to tell, and what makes two events the same one.
    fn combine(&mut self, notice: &Notice, group: &str, now: i64) -> (String, String) {
        let alike = self.alike.get_or_default(group);
        if now.saturating_sub(alike.at) > ALIKE_SECONDS {
            alike.messages.clear();
        }
        alike.at = now;
        if !alike.messages.contains(&notice.message) {
            alike.messages.push(notice.message.clone());
        }
        if alike.messages.len() < ALIKE_MAX {
            return (notice.message.clone(), format!("{group} {}", notice.message));
        }
        // One is let go so that the list stays short and still counts as full.
        alike.messages.remove(0);
        (format!("(combined from similar events): {}", notice.message), group.to_owned())
    }

    fn admit(&mut self, source: &str, now: i64) -> bool {
        if self.buckets.get_mut(source).is_none() {
            self.buckets.put(source.to_owned(), Bucket { tokens: BURST, at: now });
        }
        let Some(bucket) = self.buckets.get_mut(source) else { return true };
        #[expect(clippy::cast_precision_loss, reason = "seconds between two notices")]
        let passed = now.saturating_sub(bucket.at).max(0) as f64;
        bucket.tokens = (bucket.tokens + passed / REFILL_SECONDS).min(BURST);
        bucket.at = now;
        if bucket.tokens < 1.0 {
            return false;
        }
        bucket.tokens -= 1.0;
        true
    }
}

#[expect(clippy::too_many_arguments, reason = "the members of one event")]
fn new_event(
    notice: &Notice,
    kind: &str,
    namespace: &str,
    name: &str,
    message: &str,
    first: &str,
    last: &str,
    count: i64,
) -> Object {
    let event = json!({
        "metadata": { "name": name, "namespace": namespace },
        "involvedObject": notice.about,
        "reason": notice.reason,
        "message": message,
        "source": { "component": notice.source },
        "firstTimestamp": first,
        "lastTimestamp": last,
        "count": count,
        "type": kind,
        "reportingComponent": notice.source,
        "reportingInstance": "",
    });
    match event {
        Value::Object(event) => event,
        _ => Object::new(),
    }
}

/// A table that forgets what came first when it is full.
#[derive(Debug)]
struct Remembered<T> {
    entries: HashMap<String, T>,
    order: VecDeque<String>,
}

impl<T> Default for Remembered<T> {
    fn default() -> Remembered<T> {
        Remembered { entries: HashMap::new(), order: VecDeque::new() }
    }
}

impl<T> Remembered<T> {
    fn get_mut(&mut self, key: &str) -> Option<&mut T> {
        self.entries.get_mut(key)
    }

    fn put(&mut self, key: String, value: T) {
        if self.entries.insert(key.clone(), value).is_none() {
            self.order.push_back(key);
        }
        while self.order.len() > REMEMBERED {
            if let Some(oldest) = self.order.pop_front() {
                self.entries.remove(&oldest);
            }
        }
    }

    fn get_or_default(&mut self, key: &str) -> &mut T
    where
        T: Default,
    {
        if !self.entries.contains_key(key) {
            self.put(key.to_owned(), T::default());
        }
        self.entries.entry(key.to_owned()).or_default()
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/ownership.md.
    use super::*;

    fn notice(message: &str) -> Notice {
        let about = json!({"kind": "Pod", "namespace": "shop", "name": "p", "uid": "u"});
        Notice {
            source: "garbage-collector-controller",
            about: about.as_object().cloned().unwrap(),
            warning: true,
            reason: "OwnerRefInvalidNamespace".into(),
            message: message.into(),
        }
    }

    fn at(seconds: i64) -> jiff::Timestamp {
        jiff::Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    #[test]
    fn r21_the_same_notice_raises_the_count_of_its_event() {
        let mut recorder = EventRecorder::default();
        let Some(Telling::New { namespace, event }) = recorder.tell(&notice("a"), at(0)) else {
            panic!("a new event")
        };
        assert_eq!(namespace, "shop");
        assert_eq!(event["count"], 1);
        let again = recorder.tell(&notice("a"), at(5));
        let Some(Telling::Again { name, count, .. }) = again else { panic!("{again:?}") };
        assert_eq!((event["metadata"]["name"].as_str(), count), (Some(name.as_str()), 2));
        assert!(matches!(recorder.tell(&notice("b"), at(6)), Some(Telling::New { .. })));
    }

    #[test]
    fn r21_many_that_differ_only_in_words_are_combined() {
        let mut recorder = EventRecorder::default();
        for number in 0..ALIKE_MAX - 1 {
            let reported = recorder.tell(&notice(&number.to_string()), at(0));
            assert!(matches!(reported, Some(Telling::New { .. })), "{reported:?}");
        }
        let Some(Telling::New { event, .. }) = recorder.tell(&notice("x"), at(1)) else { panic!() };
        assert_eq!(event["message"], "(combined from similar events): x");
        let Some(Telling::Again { count, .. }) = recorder.tell(&notice("y"), at(2)) else {
            panic!()
        };
        assert_eq!(count, 2);
        let later = recorder.tell(&notice("z"), at(1000));
        let Some(Telling::New { event, .. }) = later else { panic!("{later:?}") };
        assert_eq!(event["message"], "z");
    }

    #[test]
    fn r21_a_burst_ends_after_25_and_one_follows_each_300_seconds() {
        let mut recorder = EventRecorder::default();
        let reported = (0..40).filter(|_| recorder.tell(&notice("a"), at(0)).is_some()).count();
        assert_eq!(reported, 25);
        assert!(recorder.tell(&notice("a"), at(299)).is_none());
        assert!(recorder.tell(&notice("a"), at(301)).is_some());
    }
}
