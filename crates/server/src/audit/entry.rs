//! One line of the audit log: what it says, and what it never says.

use std::borrow::Cow;
use std::io::Read;
use std::net::IpAddr;

use bytes::Bytes;
use http::HeaderMap;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tenure_machinery::Failure;
use tenure_machinery::query::percent_decode;
use tenure_schema::TypeId;

use super::AuditLevel;
use super::policy::AuditDecision;
use crate::api::BODY_BYTES_MAX;
use crate::authenticate::User;
use crate::query::FieldValidation;
use crate::review::user_info;
use crate::write::decode::{self, ExpectedType};

/// Agents beyond this length are cut.
const AGENT_BYTES_MAX: usize = 1024;
/// More forwarding addresses than this are not believed to be a path.
const SOURCES_MAX: usize = 16;
/// An unpacked answer may be this large; a larger one is left out.
const OBJECT_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// How far a request has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum AuditStage {
    /// The head of a long answer has gone out.
    Started,
    /// Everything has gone out.
    #[default]
    Complete,
    /// The handler failed.
    Panic,
}

impl AuditStage {
    /// As it stands in a line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            AuditStage::Started => "ResponseStarted",
            AuditStage::Complete => "ResponseComplete",
            AuditStage::Panic => "Panic",
        }
    }
}

/// What a line says.
#[derive(Clone, Default)]
pub(crate) struct AuditEvent {
    /// What the policy says of it, once that is known.
    pub(crate) rule: Option<AuditDecision>,
    /// Whether there are no bodies whatever the policy says.
    pub(crate) is_internal: bool,
    pub(crate) stage: AuditStage,
    pub(crate) id: String,
    /// The path, its escapes decoded.
    pub(crate) path: String,
    pub(crate) uri: String,
    pub(crate) verb: Cow<'static, str>,
    /// Who asked; `None` when no credential was believed.
    pub(crate) user: Option<User>,
    /// On whose behalf.
    pub(crate) acting: Option<User>,
    /// The verb that limits it, if one does.
    pub(crate) constraint: Option<&'static str>,
    pub(crate) sources: Vec<IpAddr>,
    pub(crate) agent: String,
    pub(crate) object: Option<ObjectRef>,
    pub(crate) received: Timestamp,
    /// When the stage was reached.
    pub(crate) at: Timestamp,
    /// Whether access was granted, and why; `None` when it never came to that.
    pub(crate) decision: Option<(bool, String)>,
    /// Why a follower wanted it, back to what a client did; empty for requests.
    pub(crate) cause: String,
    /// What policies said of it.
    pub(crate) annotations: Vec<(String, String)>,
    /// Why the credential was refused; the client is not told.
    pub(crate) refused: Option<&'static str>,
    pub(crate) body: Bytes,
    pub(crate) media: String,
    /// What a protobuf body is read as.
    pub(crate) type_id: Option<TypeId>,
    pub(crate) kind: String,
    pub(crate) code: u16,
    pub(crate) failure: Option<Failure>,
    pub(crate) response: Bytes,
    pub(crate) response_gzip: bool,
    /// Whether a body was too large to be kept.
    pub(crate) truncated: bool,
}

/// The object of a request, as far as the path tells.
#[derive(Clone, Default)]
pub(crate) struct ObjectRef {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl ObjectRef {
    /// Whether bodies hold secrets, so that they are never written down.
    pub(crate) fn is_confidential(&self) -> bool {
        let subresource = self.subresource.as_str();
        match (self.group.as_str(), self.resource.as_str()) {
            ("", "secrets" | "configmaps") => true,
            ("", "serviceaccounts") => subresource == "token",
            ("authentication.k8s.io", "tokenreviews" | "tokenrequests") => true,
            _ => false,
        }
    }

    /// Where a client would ask for it.
    pub(crate) fn path(&self) -> String {
        let mut path = match self.group.as_str() {
            "" => format!("/api/{}", self.version),
            group => format!("/apis/{group}/{}", self.version),
        };
        let place = if self.namespace.is_empty() { "" } else { "namespaces" };
        for part in [place, &self.namespace, &self.resource, &self.name, &self.subresource] {
            if !part.is_empty() {
                path.push('/');
                path.push_str(part);
            }
        }
        path
    }

    fn to_json(&self, failure: Option<&Failure>) -> Value {
        // A create has no name in its path; a refusal of it tells the name.
        let reported = failure
            .and_then(|failure| failure.details.as_deref())
            .filter(|reported| reported.kind == self.resource && reported.group == self.group)
            .map_or("", |reported| &reported.name);
        let name = if self.name.is_empty() { reported } else { &self.name };
        texts([
            ("apiGroup", self.group.as_str()),
            ("apiVersion", &self.version),
            ("resource", &self.resource),
            ("subresource", &self.subresource),
            ("namespace", &self.namespace),
            ("name", name),
        ])
    }
}

impl AuditEvent {
    /// About how many bytes it holds while it waits.
    pub(super) fn weight(&self) -> usize {
        let bodies = self.body.len() + self.response.len();
        bodies + self.uri.len() + self.agent.len() + self.cause.len()
    }

    /// How much of this request may be written down.
    pub(crate) fn level(&self) -> AuditLevel {
        match &self.object {
            Some(object) if object.is_confidential() => AuditLevel::Metadata,
            _ if self.is_internal => AuditLevel::Metadata,
            _ => self.rule.as_ref().and_then(|rule| rule.level).unwrap_or_default(),
        }
    }

    /// Whether the policy wants a line at this stage.
    pub(super) fn tells(&self) -> bool {
        self.rule.as_ref().is_some_and(|rule| rule.tells(self.stage))
    }

    /// A body without what the policy leaves out.
    fn shown(&self, mut object: Value) -> Value {
        if self.rule.as_ref().is_some_and(|rule| rule.omits_managed_fields) {
            drop_managed_fields(&mut object);
        }
        object
    }

    /// The line, without its end.
    pub(super) fn line(&self) -> Vec<u8> {
        let mut line = Map::new();
        let mut say = |name: &str, value: Value| line.insert(name.to_owned(), value);
        say("kind", "Event".into());
        say("apiVersion", "audit.k8s.io/v1".into());
        say("level", self.level().name().into());
        say("auditID", self.id.as_str().into());
        say("stage", self.stage.name().into());
        say("requestURI", self.uri.as_str().into());
        say("verb", (*self.verb).into());
        say("user", self.user.as_ref().map_or_else(|| json!({}), user_info));
        if let Some(user) = &self.acting {
            say("impersonatedUser", user_info(user));
        }
        if let Some(constraint) = self.constraint {
            let reported = json!({ "impersonationConstraint": constraint });
            say("authenticationMetadata", reported);
        }
        let sources = self.sources.iter().map(ToString::to_string);
        say("sourceIPs", sources.collect());
        if !self.agent.is_empty() {
            say("userAgent", self.agent.as_str().into());
        }
        if let Some(object) = &self.object {
            say("objectRef", object.to_json(self.failure.as_ref()));
        }
        say("responseStatus", self.status());
        if self.level() >= AuditLevel::Request
            && let Some(object) = self.request_object()
        {
            say("requestObject", self.shown(object));
        }
        if self.level() >= AuditLevel::RequestResponse
            && let Some(object) = self.response_object()
        {
            say("responseObject", self.shown(object));
        }
        say("requestReceivedTimestamp", time(self.received));
        say("stageTimestamp", time(self.at));
        say("annotations", self.annotations());
        serde_json::to_vec(&line).unwrap_or_default()
    }

    fn status(&self) -> Value {
        let mut status = Map::new();
        status.insert("metadata".into(), json!({}));
        status.insert("code".into(), self.code.into());
        if let Some(failure) = &self.failure {
            status.insert("status".into(), "Failure".into());
            status.insert("reason".into(), failure.reason.as_ref().into());
            let confidential = self.object.as_ref().is_some_and(ObjectRef::is_confidential);
            if let Some(refused) = self.refused {
                status.insert("message".into(), format!("Unauthorized: {refused}").into());
            } else if !confidential || matches!(failure.code, 403 | 404 | 409) {
                // The sentence about a body that was not understood may repeat it.
                status.insert("message".into(), failure.message.as_str().into());
            }
        }
        Value::Object(status)
    }

    fn annotations(&self) -> Value {
        let mut annotations = Map::new();
        if let Some((allowed, reason)) = &self.decision {
            let decision = if *allowed { "allow" } else { "forbid" };
            annotations.insert("authorization.k8s.io/decision".into(), decision.into());
            annotations.insert("authorization.k8s.io/reason".into(), reason.as_str().into());
        }
        if !self.cause.is_empty() {
            annotations.insert("tenure.dev/cause".into(), self.cause.as_str().into());
        }
        for (key, value) in &self.annotations {
            annotations.insert(key.clone(), value.as_str().into());
        }
        if self.truncated {
            annotations.insert("audit.k8s.io/truncated".into(), "true".into());
        }
        Value::Object(annotations)
    }

    /// The body of the request; nothing if it could not be understood.
    fn request_object(&self) -> Option<Value> {
        if self.body.is_empty() {
            return None;
        }
        let media = match self.media.as_str() {
            "application/apply-patch+yaml" => "application/yaml",
            media if media.ends_with("+json") => "application/json",
            media => media,
        };
        let expected = match &*self.verb {
            "delete" | "deletecollection" => {
                ExpectedType::named("apimachinery.meta.v1.DeleteOptions", "DeleteOptions")
            }
            _ => ExpectedType { type_id: self.type_id, kind: &self.kind },
        };
        let read = decode::parse(media, &self.body, FieldValidation::Ignore, expected);
        read.ok().map(|(value, _)| value)
    }

    /// The body of the answer, if it is an object.
    fn response_object(&self) -> Option<Value> {
        if !self.response_gzip {
            return serde_json::from_slice(&self.response).ok();
        }
        let unpacked = flate2::read::GzDecoder::new(&*self.response).take(OBJECT_BYTES_MAX);
        serde_json::from_reader(std::io::BufReader::new(unpacked)).ok()
    }
}

/// Of an object, or of those of a list.
fn drop_managed_fields(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    for item in object.get_mut("items").and_then(Value::as_array_mut).into_iter().flatten() {
        drop_managed_fields(item);
    }
}

fn texts<const N: usize>(members: [(&str, &str); N]) -> Value {
    let said = members.into_iter().filter(|(_, text)| !text.is_empty());
    Value::Object(said.map(|(name, text)| (name.to_owned(), text.into())).collect())
}

fn time(at: Timestamp) -> Value {
    at.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string().into()
}

/// Where a request came from: what proxies say, and at the end the other side of the connection, which
/// nobody can make up.
pub(crate) fn sources(headers: &HeaderMap, address: Option<IpAddr>) -> Vec<IpAddr> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let forwarded = text("x-forwarded-for").unwrap_or_default();
    let mut sources: Vec<IpAddr> =
        forwarded.split(',').filter_map(|part| part.trim().parse().ok()).collect();
    sources.truncate(SOURCES_MAX);
    let real = text("x-real-ip").and_then(|text| text.trim().parse::<IpAddr>().ok());
    sources.extend(real.filter(|real| !sources.contains(real)));
    sources.extend(address.filter(|address| sources.last() != Some(address)));
    sources
}

/// The request line as written: credentials that stand in a query are left out.
pub(super) fn uri(uri: &http::Uri) -> String {
    let Some(query) = uri.query() else { return uri.path().to_owned() };
    let mut text = format!("{}?", uri.path());
    for (at, pair) in query.split('&').enumerate() {
        if at > 0 {
            text.push('&');
        }
        match pair.split_once('=') {
            Some((name, _)) if is_credential(name) => {
                text.push_str(name);
                text.push_str("=REDACTED");
            }
            _ => text.push_str(pair),
        }
    }
    text
}

/// A name may be written with escapes, so it is read the way a server would.
fn is_credential(name: &str) -> bool {
    let name = percent_decode(name, true).unwrap_or(Cow::Borrowed(name));
    ["access_token", "id_token", "token"].iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// The agent, cut to a bound at a letter.
pub(super) fn agent(text: &str) -> String {
    let end = text.char_indices().map(|(at, letter)| at + letter.len_utf8());
    let end = end.take_while(|end| *end <= AGENT_BYTES_MAX).last().unwrap_or_default();
    text.get(..end).unwrap_or_default().to_owned()
}

/// Whether a body of this size is kept.
pub(super) const fn fits(bytes: usize) -> bool {
    bytes <= BODY_BYTES_MAX
}
