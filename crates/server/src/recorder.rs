//! Who has read what, for those who want to take broad access away (referential authorization R135).
//!
//! Reads of Secrets, of ConfigMaps and of whatever a strategy points at are counted by who, what and with which
//! program; names only, no contents, in bounded memory. `GET /debug/tenure/access` shows them, with `?user=NAME` those
//! of one user; roles allow that as they allow any path (`nonResourceURLs`). The answer:
//!
//! ```json
//! {
//!   "since": "2026-01-01T00:00:00Z",
//!   "dropped": 0,
//!   "filteredLists": false,
//!   "reads": [{
//!     "user": "system:serviceaccount:edge:edge",
//!     "verb": "get",
//!     "group": "",
//!     "resource": "secrets",
//!     "namespace": "prod",
//!     "name": "web-tls",
//!     "userAgent": "edge/1.2",
//!     "count": 3,
//!     "denied": 0,
//!     "fresh": 0,
//!     "referenced": true,
//!     "first": "2026-01-01T00:00:05Z",
//!     "last": "2026-01-01T00:10:05Z"
//!   }]
//! }
//! ```
//!
//! - `since`: when recording began. `dropped`: how many reads did not fit.
//! - `filteredLists`: whether consumers see their part of collections that they may not read whole (R155).
//! - `verb`: `get`, `list` or `watch`. `namespace`: empty for all namespaces, or for what lives in none.
//! - `name`: empty for a whole collection; a list or watch of one name has that name.
//! - `count`: how often it was allowed; `denied`: how often not.
//! - `fresh`: how many of them began anew, as a program does when it starts: lists from their first page, and
//!   watches that ask for the present state.
//! - `referenced`: whether a reference would have allowed it, when it was last asked for.
//!
//! Entries are sorted by user, verb, group, resource, namespace, name and user agent. Nothing is decided here.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use http::HeaderMap;
use http::header::USER_AGENT;
use serde_json::{Value, json};
use tenure_rbac::RequestAttributes;

use crate::api::{RequestLine, header};
use crate::authenticate::User;
use crate::clock::now;
use crate::reference::ReferenceAuthorizer;

/// Where the records are shown.
pub const PATH: &str = "/debug/tenure/access";

/// How many distinct reads are kept, in all and of one user.
const KEPT_MAX: usize = 16_384;
const KEPT_OF_USER_MAX: usize = 4_096;
/// What is kept of a User-Agent header.
const AGENT_MAX: usize = 128;
/// Longer names and namespaces name nothing.
const NAME_MAX: usize = 253;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RecorderKey {
    user: Box<str>,
    verb: Box<str>,
    group: Box<str>,
    resource: Box<str>,
    namespace: Box<str>,
    name: Box<str>,
    agent: Box<str>,
}

struct ReadStats {
    count: u64,
    denied: u64,
    fresh: u64,
    referenced: bool,
    first: String,
    last: String,
}

/// What came of a read.
#[derive(Clone, Copy, Debug)]
struct ReadOutcome {
    allowed: bool,
    /// Whether a reference would have allowed it.
    referenced: bool,
    /// Whether it began anew.
    fresh: bool,
}

/// The records of one server.
pub(crate) struct AccessRecorder {
    since: String,
    kept: Mutex<RecorderState>,
}

#[derive(Default)]
struct RecorderState {
    entries: BTreeMap<RecorderKey, ReadStats>,
    of_user: HashMap<Box<str>, usize>,
    dropped: u64,
}

impl Default for AccessRecorder {
    fn default() -> AccessRecorder {
        AccessRecorder { since: now(), kept: Mutex::default() }
    }
}

impl AccessRecorder {
    /// Records a request, if it reads what references may lead to.
    pub(crate) fn request(
        &self,
        standing: &ReferenceAuthorizer,
        user: &User,
        line: &RequestLine,
        headers: &HeaderMap,
        allowed: bool,
    ) {
        let requested = line.attributes();
        let RequestAttributes::Resource { verb, group, resource, subresource: "", .. } = requested
        else {
            return;
        };
        let held = group.is_empty() && matches!(resource, "secrets" | "configmaps");
        let reads = matches!(verb, "get" | "list" | "watch");
        if !reads || !(held || standing.is_pointed_at(group, resource)) {
            return;
        }
        let text = |name| line.query().text(name);
        let fresh = match verb {
            "list" => text("continue").is_empty(),
            "watch" => {
                line.query().flag("sendInitialEvents")
                    || matches!(text("resourceVersion"), "" | "0")
            }
            _ => false,
        };
        let referenced = standing.leads_to(user, &requested);
        let agent = header(headers, USER_AGENT.as_str()).unwrap_or_default();
        self.saw(user, &requested, agent, ReadOutcome { allowed, referenced, fresh });
    }

    fn saw(&self, user: &User, requested: &RequestAttributes<'_>, agent: &str, came: ReadOutcome) {
        let RequestAttributes::Resource { verb, group, resource, name, .. } = *requested else {
            return;
        };
        let namespace = requested.object_namespace();
        if name.len() > NAME_MAX || namespace.len() > NAME_MAX {
            return;
        }
        let key = RecorderKey {
            user: user.name.as_str().into(),
            verb: verb.into(),
            group: group.into(),
            resource: resource.into(),
            namespace: namespace.into(),
            name: name.into(),
            agent: agent.chars().take(AGENT_MAX).collect::<String>().into(),
        };
        let now = now();
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).add(key, now, came);
    }

    /// How many distinct reads are kept.
    pub(crate) fn count(&self) -> usize {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).entries.len()
    }

    /// What was recorded; of one user, if one is named.
    pub(crate) fn show(&self, user: Option<&str>) -> Value {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let of_user =
            kept.entries.iter().filter(|(key, _)| user.is_none_or(|user| *key.user == *user));
        let reads: Vec<Value> = of_user
            .map(|(key, entry)| {
                json!({
                    "user": key.user, "verb": key.verb, "group": key.group, "resource": key.resource,
                    "namespace": key.namespace, "name": key.name, "userAgent": key.agent,
                    "count": entry.count, "denied": entry.denied, "fresh": entry.fresh,
                    "referenced": entry.referenced, "first": entry.first, "last": entry.last,
                })
            })
            .collect();
        json!({ "since": self.since, "dropped": kept.dropped, "reads": reads })
    }
}

impl RecorderState {
    fn add(&mut self, key: RecorderKey, now: String, came: ReadOutcome) {
        if !self.entries.contains_key(&key) && !self.has_room(&key.user) {
            self.dropped = self.dropped.saturating_add(1);
            return;
        }
        let entry = self.entries.entry(key).or_insert_with(|| ReadStats {
            count: 0,
            denied: 0,
            fresh: 0,
            referenced: false,
            first: now.clone(),
            last: String::new(),
        });
        let raise = |count: &mut u64, by: bool| *count = count.saturating_add(u64::from(by));
        raise(&mut entry.count, came.allowed);
        raise(&mut entry.denied, !came.allowed);
        raise(&mut entry.fresh, came.allowed && came.fresh);
        entry.referenced = came.referenced;
        entry.last = now;
    }

    /// Takes a place for one more read of a user, if there is one.
    fn has_room(&mut self, user: &str) -> bool {
        if self.entries.len() >= KEPT_MAX {
            return false;
        }
        let of_user = self.of_user.entry(user.into()).or_default();
        let room = *of_user < KEPT_OF_USER_MAX;
        *of_user += usize::from(room);
        room
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/referential-authorization.md.

    use super::*;

    fn saw(recorder: &AccessRecorder, user: &str, name: &str) {
        let user = User { name: user.to_owned(), ..User::default() };
        let requested = RequestAttributes::Resource {
            verb: "get",
            group: "",
            resource: "secrets",
            subresource: "",
            namespace: "prod",
            name,
        };
        let came = ReadOutcome { allowed: true, referenced: false, fresh: false };
        recorder.saw(&user, &requested, &"agent".repeat(100), came);
    }

    #[test]
    fn r135_memory_is_bounded_and_what_is_dropped_is_counted() {
        let recorder = AccessRecorder::default();
        for at in 0..=KEPT_OF_USER_MAX {
            saw(&recorder, "loud", &format!("s{at}"));
        }
        saw(&recorder, "loud", "s0");
        saw(&recorder, "quiet", "s0");
        saw(&recorder, "quiet", &"long".repeat(100));
        let shown = recorder.show(None);
        assert_eq!(shown["dropped"], 1);
        assert_eq!(shown["reads"].as_array().unwrap().len(), KEPT_OF_USER_MAX + 1);
        let quiet = recorder.show(Some("quiet"));
        assert_eq!(quiet["reads"].as_array().unwrap().len(), 1);
        assert_eq!(quiet["reads"][0]["count"], 1);
        assert_eq!(quiet["reads"][0]["userAgent"].as_str().unwrap().len(), AGENT_MAX);
        assert_eq!(recorder.show(Some("loud"))["reads"][0]["count"], 2);
        for user in 0..4 {
            (0..KEPT_OF_USER_MAX)
                .for_each(|at| saw(&recorder, &format!("u{user}"), &format!("s{at}")));
        }
        assert_eq!(recorder.show(None)["reads"].as_array().unwrap().len(), KEPT_MAX);
    }
}
