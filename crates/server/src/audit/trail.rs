//! What becomes known of a request on its way, and the promise that it is written down.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use tenure_machinery::{Failure, ResourcePath};

use super::entry::{self, AuditStage, ObjectRef};
use super::tail::Tail;
use super::{AuditEvent, AuditLevel, AuditSink, sources};
use crate::authenticate::User;
use crate::body::Body;
use crate::clock;
use crate::registry::ServedKind;
use crate::request::ResourceRequest;
use crate::request_line::RequestLine;

/// The client left before it was answered; what it asked for may have happened all the same.
const CLIENT_LEFT: u16 = 499;

/// The line of one request while it is served; does nothing when there is no audit log.
///
/// INVARIANT: a trail that was begun ends as a line, also when the handler panics or the client leaves.
#[derive(Default)]
pub(crate) struct AuditContext {
    line: Option<PendingAuditEntry>,
    /// Where the line goes if the request becomes a stream.
    stream: Option<Arc<AuditEntryGuard>>,
}

/// A line and where it is said.
type PendingAuditEntry = (Arc<AuditSink>, Box<AuditEvent>);

/// A line that is said when nobody holds it any more.
#[derive(Default)]
struct AuditEntryGuard(Mutex<Option<PendingAuditEntry>>);

impl Drop for AuditEntryGuard {
    fn drop(&mut self) {
        let line = self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((audit, entry)) = line {
            audit.say(entry);
        }
    }
}

/// Held by a stream for as long as it lasts; the last line of its request comes when it is dropped.
pub(crate) struct AuditGuard(#[expect(dead_code, reason = "held, not read")] Arc<AuditEntryGuard>);

impl AuditContext {
    /// Begins with what the head of the request tells.
    pub(crate) fn begin(
        audit: Option<&Arc<AuditSink>>,
        parts: &http::request::Parts,
        line: &RequestLine,
        address: Option<IpAddr>,
        id: &str,
    ) -> AuditContext {
        let Some(audit) = audit else { return AuditContext::default() };
        let agent = text(&parts.headers, "user-agent");
        let entry = AuditEvent {
            id: id.to_owned(),
            uri: entry::uri(&parts.uri),
            path: line.path().to_owned(),
            verb: line.owned_verb(),
            sources: sources(&parts.headers, address),
            agent: entry::agent(agent),
            object: line.resource().map(object),
            received: clock::timestamp(),
            ..AuditEvent::default()
        };
        AuditContext { line: Some((Arc::clone(audit), Box::new(entry))), stream: None }
    }

    /// Begins for a follower of this process, which sends no head, no body and reads no answer.
    pub(crate) fn within(
        audit: Option<&Arc<AuditSink>>,
        request: &ResourceRequest,
        verb: &'static str,
        id: impl FnOnce() -> String,
    ) -> AuditContext {
        let Some(audit) = audit else { return AuditContext::default() };
        let kind = &request.served.kind;
        let object = ObjectRef {
            group: kind.group.to_string(),
            version: kind.version.to_string(),
            resource: kind.plural.to_string(),
            subresource: request.subresource.clone(),
            namespace: request.namespace.clone(),
            name: request.name.clone(),
        };
        let entry = AuditEvent {
            is_internal: true,
            id: id(),
            uri: object.path(),
            verb: verb.into(),
            user: Some(account(&request.user.name)),
            agent: request.agent.clone(),
            object: Some(object),
            received: clock::timestamp(),
            ..AuditEvent::default()
        };
        AuditContext { line: Some((Arc::clone(audit), Box::new(entry))), stream: None }
    }

    /// What a follower decided on.
    pub(crate) fn because(&mut self, why: impl FnOnce() -> String) {
        if let Some(entry) = self.entry() {
            entry.cause = why();
        }
    }

    /// Ends with what a follower learns.
    pub(crate) fn close(mut self, came: Result<u16, &Failure>) {
        let Some((audit, mut entry)) = self.line.take() else { return };
        entry.code = came.unwrap_or_else(|failure| failure.code);
        entry.failure = came.err().cloned();
        audit.say(entry);
    }

    /// Ends because what a follower had looked at has changed.
    pub(crate) fn lost(mut self) {
        let Some(object) = self.entry().and_then(|entry| entry.object.as_ref()) else { return };
        let (group, resource, name) = (&object.group, &object.resource, &object.name);
        let why = "it has changed since it was looked at";
        let failure = Failure::conflict(group, resource, name, why);
        self.close(Err(&failure));
    }

    fn entry(&mut self) -> Option<&mut AuditEvent> {
        self.line.as_mut().map(|(_, entry)| &mut **entry)
    }

    /// Who asks.
    pub(crate) fn user(&mut self, user: &User) {
        if let Some(entry) = self.entry() {
            entry.user = Some(user.clone());
        }
        self.decide();
    }

    /// Looks up what the policy says, now that it is known who asks.
    fn decide(&mut self) {
        if let Some((audit, entry)) = &mut self.line {
            audit.decide(entry);
        }
    }

    /// No credential was believed.
    pub(crate) fn refused(&mut self, why: &'static str) {
        if let Some(entry) = self.entry() {
            entry.refused = Some(why);
        }
        self.decide();
    }

    /// On whose behalf.
    pub(crate) fn acting(&mut self, user: &User, constraint: Option<&'static str>) {
        if let Some(entry) = self.entry() {
            entry.acting = Some(user.clone());
            entry.constraint = constraint;
        }
    }

    /// What the authorizers said.
    pub(crate) fn decided(&mut self, allowed: bool, reason: impl FnOnce() -> String) {
        if let Some(entry) = self.entry() {
            entry.decision = Some((allowed, reason()));
        }
    }

    /// The kind behind the path and the body, once it has been read.
    pub(crate) fn body(&mut self, served: &ServedKind, media: &str, body: &Bytes) {
        let Some(entry) = self.entry().filter(|entry| entry.level() >= AuditLevel::Request) else {
            return;
        };
        entry.type_id = served.type_id;
        entry.kind = served.kind.kind.as_ref().to_owned();
        media.clone_into(&mut entry.media);
        entry.body = body.clone();
    }

    /// What the handler learned: the name of what was made.
    pub(crate) fn handled(&mut self, request: &ResourceRequest) {
        let Some(entry) = self.entry() else { return };
        if let Some(object) = entry.object.as_mut() {
            object.name.clone_from(&request.name);
        }
        entry.annotations.clone_from(&request.annotations);
    }

    /// The request may become a stream, whose end is the request's end.
    pub(crate) fn streams(&mut self) -> AuditGuard {
        AuditGuard(Arc::clone(self.stream.get_or_insert_default()))
    }

    /// Ends with the answer. The line of a long answer, or of one that is written down, comes with its
    /// last byte.
    pub(crate) fn end(mut self, mut response: Response<Body>) -> Response<Body> {
        let failure = response.extensions_mut().remove::<Failure>();
        self.decide();
        let Some((audit, mut entry)) = self.line.take() else { return response };
        entry.code = response.status().as_u16();
        entry.failure = failure;
        let stream = self.stream.take();
        let upgraded = response.status() == StatusCode::SWITCHING_PROTOCOLS;
        let good = response.status().is_success() || upgraded;
        let long = (entry.verb == "watch" || stream.is_some()) && good;
        if long {
            let started = AuditEvent { stage: AuditStage::Started, ..AuditEvent::clone(&entry) };
            audit.say(Box::new(started));
        }
        if let Some(stream) = stream.filter(|_| upgraded) {
            *stream.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((audit, entry));
            return response;
        }
        let keep = !long && entry.level() >= AuditLevel::RequestResponse && is_json(&response);
        if !keep && !long {
            audit.say(entry);
            return response;
        }
        entry.response_gzip = response.headers().contains_key(http::header::CONTENT_ENCODING);
        response.map(|body| Tail::new(body, audit, entry, keep).boxed())
    }
}

impl Drop for AuditContext {
    fn drop(&mut self) {
        let Some((audit, mut entry)) = self.line.take() else { return };
        if std::thread::panicking() {
            entry.stage = AuditStage::Panic;
            entry.code = 500;
        } else {
            entry.code = CLIENT_LEFT;
        }
        audit.say(entry);
    }
}

/// A service account, as its own token would make it known.
fn account(name: &str) -> User {
    let groups = ["serviceaccounts", "serviceaccounts:kube-system", "authenticated"];
    let groups = groups.iter().map(|group| format!("system:{group}")).collect();
    User { name: name.to_owned(), groups, ..User::default() }
}

fn is_json(response: &Response<Body>) -> bool {
    text(response.headers(), "content-type").starts_with("application/json")
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

fn object(path: &ResourcePath) -> ObjectRef {
    ObjectRef {
        group: path.group.clone(),
        version: path.version.clone(),
        resource: path.resource.clone(),
        subresource: path.subresource.clone(),
        namespace: path.namespace.clone(),
        name: path.name.clone(),
    }
}
