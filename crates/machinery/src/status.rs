//! Failures as the `Status` object that clients branch on.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::Value;

use crate::field::{Errors, Reason};

/// A refused request: an HTTP code, a reason clients know, and details they read.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The HTTP code.
    pub code: u16,
    /// The machine-readable reason; empty when the code has none.
    pub reason: Cow<'static, str>,
    /// The sentence for people.
    pub message: String,
    /// What the request was about.
    pub details: Option<Box<Details>>,
    /// A `continue` token with which an expired walk may go on.
    pub resume: Option<String>,
}

/// Why a write was refused, for those who decide what to do next and know no HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteRefusal {
    /// The object, or one that it needs, is not there.
    Absent,
    /// Somebody else was first: it has changed, or is there already.
    Conflict,
    /// It may never be stored like this.
    Invalid,
    /// Whoever writes may not, or not so.
    Forbidden,
    /// Not now, but perhaps later.
    Busy,
    /// The server could not do it.
    Failed,
}

impl Failure {
    /// What a refused write comes down to.
    #[must_use]
    pub fn refusal(&self) -> WriteRefusal {
        match self.code {
            404 => WriteRefusal::Absent,
            409 => WriteRefusal::Conflict,
            400 | 413 | 415 | 422 => WriteRefusal::Invalid,
            429 => WriteRefusal::Busy,
            401..500 => WriteRefusal::Forbidden,
            _ => WriteRefusal::Failed,
        }
    }
}

/// The `details` of a [`Failure`].
#[derive(Clone, Debug, Default)]
pub struct Details {
    /// The object's name.
    pub name: String,
    /// The API group.
    pub group: String,
    /// The plural resource, or the Kind for invalid objects.
    pub kind: String,
    /// The object's uid.
    pub uid: String,
    /// One entry per wrong field.
    pub causes: Vec<StatusCause>,
    /// When to try again; zero means unsaid.
    pub retry_after_seconds: u32,
}

/// One entry of `details.causes`.
#[derive(Clone, Debug)]
pub struct StatusCause {
    /// Such as `FieldValueInvalid`; empty is left out.
    pub reason: String,
    /// The sentence.
    pub message: String,
    /// The dotted path; empty is left out.
    pub field: String,
}

impl Failure {
    /// A failure without details.
    #[must_use]
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Failure {
        let reason = Cow::Borrowed(reason);
        Failure { code, reason, message: message.into(), details: None, resume: None }
    }
    /// 400.
    #[must_use]
    pub fn bad_request(message: impl Into<String>) -> Failure {
        Failure::new(400, "BadRequest", message)
    }
    /// 404 for an object.
    #[must_use]
    pub fn not_found(group: &str, resource: &str, name: &str) -> Failure {
        let of = qualified(resource, group);
        Failure::new(404, "NotFound", format!("{of} \"{name}\" not found"))
            .about(group, resource, name)
    }
    /// 409 for a create.
    #[must_use]
    pub fn already_exists(group: &str, resource: &str, name: &str, prefix: &str) -> Failure {
        let of = qualified(resource, group);
        Failure::new(409, "AlreadyExists", format!("{prefix}{of} \"{name}\" already exists"))
            .about(group, resource, name)
    }
    /// 409 for a lost race or a failed precondition.
    #[must_use]
    pub fn conflict(group: &str, resource: &str, name: &str, why: &str) -> Failure {
        let of = qualified(resource, group);
        Failure::new(
            409,
            "Conflict",
            format!("Operation cannot be fulfilled on {of} \"{name}\": {why}"),
        )
        .about(group, resource, name)
    }
    /// 403 for an object.
    #[must_use]
    pub fn forbidden(group: &str, resource: &str, name: &str, why: &str) -> Failure {
        let of = qualified(resource, group);
        let message = match (of.is_empty(), name.is_empty()) {
            (true, _) => format!("forbidden: {why}"),
            (false, true) => format!("{of} is forbidden: {why}"),
            (false, false) => format!("{of} \"{name}\" is forbidden: {why}"),
        };
        Failure::new(403, "Forbidden", message).about(group, resource, name)
    }
    /// 422 with a cause per wrong field.
    #[must_use]
    pub fn invalid(group: &str, kind: &str, name: &str, errors: Errors) -> Failure {
        let causes = errors.into_causes();
        let mut listed: Vec<String> =
            causes.iter().map(|c| format!("{}: {}", c.field, c.message)).collect();
        // The sentence says nothing twice, whatever the list of causes does.
        let mut seen = BTreeSet::new();
        listed.retain(|text| seen.insert(text.clone()));
        let list = match listed.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let of = qualified(kind, group);
        let mut failure =
            Failure::new(422, "Invalid", format!("{of} \"{name}\" is invalid: {list}"))
                .about(group, kind, name);
        if let Some(details) = failure.details.as_mut() {
            details.causes = causes
                .into_iter()
                .map(|c| StatusCause {
                    reason: c.reason.as_str().to_owned(),
                    message: c.message,
                    field: c.field,
                })
                .collect();
        }
        failure
    }
    /// 422 about request options, such as `ListOptions`.
    #[must_use]
    pub fn invalid_options(kind: &str, reason: Reason, field: &str, message: &str) -> Failure {
        let mut errors = Errors::new();
        errors.push(reason, &crate::field::Path::Root.field(field), message);
        Failure::invalid("meta.k8s.io", kind, "", errors)
    }
    /// 405.
    #[must_use]
    pub fn method_not_allowed(verb: &str, resource: &str) -> Failure {
        Failure::new(
            405,
            "MethodNotAllowed",
            format!("{verb} is not supported on resources of kind \"{resource}\""),
        )
        .with(Details::default())
    }
    /// 500.
    #[must_use]
    pub fn internal(message: impl fmt::Display) -> Failure {
        Failure::new(500, "InternalError", format!("Internal error occurred: {message}"))
    }
    /// Names what the failure is about.
    #[must_use]
    pub fn about(self, group: &str, kind: &str, name: &str) -> Failure {
        self.with(Details {
            name: name.to_owned(),
            group: group.to_owned(),
            kind: kind.to_owned(),
            ..Details::default()
        })
    }
    /// Sets the details.
    #[must_use]
    pub fn with(mut self, details: Details) -> Failure {
        self.details = Some(Box::new(details));
        self
    }
    /// The `Status` object as JSON, its members in the order in which Go writes them: some clients
    /// show the text as it is.
    #[must_use]
    pub fn to_text(&self) -> String {
        let metadata = match &self.resume {
            Some(token) => object(&[("continue", string(token))]),
            None => object(&[]),
        };
        let details = self.details.as_deref().map(Details::to_text);
        object(&[
            ("kind", string("Status")),
            ("apiVersion", string("v1")),
            ("metadata", metadata),
            ("status", string("Failure")),
            ("message", string(&self.message)),
            ("reason", filled(&self.reason)),
            ("details", details.unwrap_or_default()),
            ("code", self.code.to_string()),
        ])
    }
}

impl Details {
    fn to_text(&self) -> String {
        let causes = self.causes.iter().map(StatusCause::to_text).collect::<Vec<_>>().join(",");
        let seconds = self.retry_after_seconds;
        object(&[
            ("name", filled(&self.name)),
            ("group", filled(&self.group)),
            ("kind", filled(&self.kind)),
            ("uid", filled(&self.uid)),
            ("causes", if causes.is_empty() { causes } else { format!("[{causes}]") }),
            ("retryAfterSeconds", if seconds > 0 { seconds.to_string() } else { String::new() }),
        ])
    }
}

impl StatusCause {
    fn to_text(&self) -> String {
        object(&[
            ("reason", filled(&self.reason)),
            ("message", filled(&self.message)),
            ("field", filled(&self.field)),
        ])
    }
}

/// A JSON object of members that are JSON already; those without a text are left out.
fn object(members: &[(&str, String)]) -> String {
    let members = members.iter().filter(|(_, text)| !text.is_empty());
    let members = members.map(|(name, text)| format!("\"{name}\":{text}")).collect::<Vec<_>>();
    format!("{{{}}}", members.join(","))
}

fn string(text: &str) -> String {
    Value::from(text).to_string()
}

/// A JSON string; nothing at all for an empty one.
fn filled(text: &str) -> String {
    if text.is_empty() { String::new() } else { string(text) }
}

use core::fmt;

fn qualified(resource: &str, group: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}
