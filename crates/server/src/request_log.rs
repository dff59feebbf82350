//! What the log says of requests: a span that what happens meanwhile is told in, and one line at the end.
//!
//! Where nobody reads it (the target [`TARGET`] is off), nothing is written together and nothing is allocated.

use std::time::Duration;

use http::Response;
use http_body::Body as _;
use tenure_machinery::ResourcePath;
use tracing::Span;
use tracing::field::Empty;

use crate::authenticate::User;
use crate::body::Body;
use crate::request_line::RequestLine;

/// Under which name requests are told, so that they can be chosen or left out as a whole.
const TARGET: &str = "tenure::request";

/// One request, as far as it is told; one that is dropped before its answer is told as well.
pub(crate) struct RequestLog {
    span: Span,
    ended: bool,
}

impl Drop for RequestLog {
    fn drop(&mut self) {
        if !self.ended && !self.span.is_disabled() {
            tracing::info!(target: TARGET, parent: &self.span, "given up before its answer");
        }
    }
}

impl RequestLog {
    /// A request begins.
    pub(crate) fn begin(line: &RequestLine) -> RequestLog {
        let span = tracing::info_span!(
            target: TARGET,
            "request",
            verb = line.verb(),
            resource = Empty,
            user = Empty,
            code = Empty,
            revision = Empty,
        );
        if !span.is_disabled()
            && let Some(path) = line.resource()
        {
            span.record("resource", qualified(path).as_str());
        }
        RequestLog { span, ended: false }
    }

    /// The span that the work for it belongs to.
    pub(crate) fn span(&self) -> Span {
        self.span.clone()
    }

    /// Who it is, is known now.
    pub(crate) fn user(&self, user: &User) {
        if !self.span.is_disabled() {
            self.span.record("user", user.name.as_str());
        }
    }

    /// It is answered. The revision is that of the state by then; whatever the request wrote is in it. The
    /// query is left out: it may hold what only the client may know.
    pub(crate) fn end(
        &mut self,
        line: &RequestLine,
        response: &Response<Body>,
        revision: impl FnOnce() -> u64,
        took: Duration,
    ) {
        self.ended = true;
        if self.span.is_disabled() {
            return;
        }
        self.span.record("code", response.status().as_u16());
        self.span.record("revision", revision());
        tracing::info!(
            target: TARGET,
            parent: &self.span,
            method = line.method.as_str(),
            path = line.path(),
            ms = took.as_micros() as f64 / 1_000.0,
            // Not known of watches, and of what is compressed on its way.
            bytes = response.body().size_hint().exact(),
            "answered",
        );
    }
}

/// Such as `pods/log` or `deployments.apps`.
fn qualified(path: &ResourcePath) -> String {
    let mut name = path.resource.to_string();
    for (sign, part) in [(".", &*path.group), ("/", &*path.subresource)] {
        if !part.is_empty() {
            name = name + sign + part;
        }
    }
    name
}
