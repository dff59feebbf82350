//! What somebody asked for: as an audit log tells it (`audit.k8s.io/v1`, one JSON object in a line), or as the
//! recorder of a server does.

use std::collections::BTreeSet;
use std::io::BufRead;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// A line that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum WrongLine {
    /// It cannot be read.
    #[error("line {0} cannot be read")]
    Unreadable(usize, #[source] std::io::Error),
    /// It is no JSON.
    #[error("line {0} is no JSON")]
    NotJson(usize, #[source] serde_json::Error),
    /// It is JSON, and no audit event.
    #[error("line {0} is no event of audit.k8s.io: `{1}` is missing or wrong")]
    NotAnEvent(usize, &'static str),
}

/// A request that was let in, once or more often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedRequest {
    /// When, first.
    pub at: Option<Timestamp>,
    /// When, last.
    pub last: Option<Timestamp>,
    /// How often.
    pub times: usize,
    /// What was done.
    pub verb: String,
    /// The API group.
    pub group: String,
    /// The plural name.
    pub resource: String,
    /// The part of the object; empty for all of it.
    pub subresource: String,
    /// The namespace; empty for all.
    pub namespace: String,
    /// The name; empty for all.
    pub name: String,
    /// The program that asked.
    pub agent: String,
    /// Whether it begins anew: a list, or a watch that wants everything first.
    pub fresh: bool,
}

/// The requests of one user.
#[derive(Clone, Debug, Default)]
pub struct Records {
    /// Where they come from, in words.
    pub source: String,
    /// When they begin, if that is known better than by the first of them.
    pub since: Option<Timestamp>,
    /// How many are missing because there was no room.
    pub dropped: u64,
    /// Whether the server shows consumers their part of whole collections (R155), if it says so.
    pub filtered_lists: Option<bool>,
    /// The requests that were let in, in the order of the source.
    pub requests: Vec<RecordedRequest>,
}

impl Records {
    /// Reads the requests of a user from a log. A line that is cut off at the end is still being written.
    ///
    /// # Errors
    /// A line is no audit event.
    pub fn read(from: impl BufRead, user: &str, source: &str) -> Result<Records, WrongLine> {
        let mut records = Records { source: source.to_owned(), ..Records::default() };
        let mut seen = BTreeSet::new();
        let mut broken = None;
        for (number, line) in (1..).zip(from.lines()) {
            let line = line.map_err(|error| WrongLine::Unreadable(number, error))?;
            if line.trim().is_empty() {
                continue;
            }
            if let Some((number, error)) = broken.take() {
                return Err(WrongLine::NotJson(number, error));
            }
            match serde_json::from_str(&line) {
                Ok(event) => records.take(&event, number, user, &mut seen)?,
                Err(error) if error.is_eof() => broken = Some((number, error)),
                Err(error) => return Err(WrongLine::NotJson(number, error)),
            }
        }
        Ok(records)
    }

    fn take(
        &mut self,
        event: &Value,
        number: usize,
        user: &str,
        seen: &mut BTreeSet<String>,
    ) -> Result<(), WrongLine> {
        let text = |at: &str| event.pointer(at).and_then(Value::as_str).unwrap_or_default();
        let wrong = |field| WrongLine::NotAnEvent(number, field);
        if text("/kind") != "Event" || !text("/apiVersion").starts_with("audit.k8s.io/") {
            return Err(wrong("kind"));
        }
        let verb = text("/verb");
        if verb.is_empty() {
            return Err(wrong("verb"));
        }
        // Whoever is acted as asks; the one who acts is another.
        let asks = match text("/impersonatedUser/username") {
            "" => text("/user/username"),
            acted => acted,
        };
        let code = event.pointer("/responseStatus/code").and_then(Value::as_u64).unwrap_or(200);
        let resource = text("/objectRef/resource");
        let answered = matches!(text("/stage"), "ResponseStarted" | "ResponseComplete");
        if asks != user || matches!(code, 401 | 403) || resource.is_empty() || !answered {
            return Ok(());
        }
        // A watch is told when it starts and when it ends.
        if !text("/auditID").is_empty() && !seen.insert(text("/auditID").to_owned()) {
            return Ok(());
        }
        let query = text("/requestURI").split_once('?').map_or("", |(_, query)| query);
        let name = match text("/objectRef/name") {
            "" => selected_name(query).unwrap_or_default(),
            name => name.to_owned(),
        };
        let has = |wanted: &str| query.split('&').any(|part| part == wanted);
        let at = text("/requestReceivedTimestamp").parse().ok();
        self.requests.push(RecordedRequest {
            at,
            last: at,
            times: 1,
            verb: verb.to_owned(),
            group: text("/objectRef/apiGroup").to_owned(),
            resource: resource.to_owned(),
            subresource: text("/objectRef/subresource").to_owned(),
            namespace: text("/objectRef/namespace").to_owned(),
            name,
            agent: text("/userAgent").to_owned(),
            fresh: verb == "list" || (verb == "watch" && has("sendInitialEvents=true")),
        });
        Ok(())
    }

    /// What the recorder of a server tells of a user; `None` if it is no such answer.
    #[must_use]
    pub fn of_server(answer: &Value, user: &str) -> Option<Records> {
        let reads = answer.get("reads")?.as_array()?;
        let mut records = Records {
            source: "the recorder of the server".to_owned(),
            since: answer.get("since").and_then(Value::as_str).and_then(|at| at.parse().ok()),
            dropped: answer.get("dropped").and_then(Value::as_u64).unwrap_or_default(),
            filtered_lists: answer.get("filteredLists").and_then(Value::as_bool),
            requests: Vec::new(),
        };
        for read in reads {
            let text = |key: &str| read.get(key).and_then(Value::as_str).unwrap_or_default();
            let number = |key: &str| read.get(key).and_then(Value::as_u64).unwrap_or_default();
            if text("user") != user || number("count") == 0 {
                continue;
            }
            records.requests.push(RecordedRequest {
                at: text("first").parse().ok(),
                last: text("last").parse().ok(),
                times: usize::try_from(number("count")).unwrap_or(usize::MAX),
                verb: text("verb").to_owned(),
                group: text("group").to_owned(),
                resource: text("resource").to_owned(),
                subresource: String::new(),
                namespace: text("namespace").to_owned(),
                name: text("name").to_owned(),
                agent: text("userAgent").to_owned(),
                fresh: number("fresh") > 0,
            });
        }
        Some(records)
    }

    /// Only what happened within a time before the last request.
    pub fn keep_last(&mut self, window: std::time::Duration) {
        let window = SignedDuration::try_from(window).unwrap_or(SignedDuration::MAX);
        let last = self.requests.iter().filter_map(|request| request.last).max();
        let Some(first) = last.and_then(|last| last.checked_sub(window).ok()) else { return };
        self.requests.retain(|request| request.last.is_none_or(|at| at >= first));
        self.since = self.since.map(|since| since.max(first));
    }
}

/// The name that a field selector asks for; `None` for another selector.
fn selected_name(query: &str) -> Option<String> {
    let selector = query.split('&').find_map(|part| part.strip_prefix("fieldSelector="))?;
    let selector = decoded(selector)?;
    selector.split(',').find_map(|term| {
        let value = term.strip_prefix("metadata.name=")?;
        Some(value.strip_prefix('=').unwrap_or(value).to_owned())
    })
}

/// A part of a query as it was meant; `None` when it was meant as nothing.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                let (high, low) = (digit(rest.next()?)?, digit(rest.next()?)?);
                u8::try_from(high * 16 + low).ok()?
            }
            b'+' => b' ',
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}
