//! One request to a resource, as handlers see it.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use tenure_machinery::Failure;
use tenure_rbac::RequestAttributes;
use tenure_world::Precondition;

use crate::access::AuthorizerChain;
use crate::authenticate::User;
use crate::authorize::Consultation;
use crate::negotiate::{NegotiatedFormat, Offer, negotiate};
use crate::permit::Permit;
use crate::query::Query;
use crate::registry::ServedKind;
use crate::response::{Include, Style};

/// What was asked of which resource, by whom.
pub struct ResourceRequest {
    /// The kind behind the path.
    pub served: Arc<ServedKind>,
    /// Empty for cluster scope or all namespaces.
    pub namespace: String,
    /// Empty for a collection.
    pub name: String,
    /// Such as `status`; empty for the object itself.
    pub subresource: String,
    /// The verb that was authorized; empty for requests of the server itself.
    pub verb: Cow<'static, str>,
    /// Decoded query parameters.
    pub query: Query,
    /// The Accept header.
    pub accept: Option<String>,
    /// The bare media type of the body.
    pub content_type: String,
    /// The User-Agent header.
    pub agent: String,
    /// Whether the client takes gzip.
    pub gzip: bool,
    /// Who asks.
    pub user: Arc<User>,
    /// What they may do, and in which states.
    pub(crate) permit: Permit,
    /// What webhooks say about what else they may do.
    pub(crate) consultation: Consultation,
    /// The body, read whole.
    pub body: Bytes,
    /// Texts for Warning headers, in order.
    pub warnings: Vec<String>,
    /// What policies say for the audit log, by key.
    pub annotations: Vec<(String, String)>,
    /// What else must still hold when it is written; followers rely on other objects, clients cannot.
    pub relied_on: Vec<Precondition>,
    /// Whether the object as it was sent says of itself what only the server sets, as it stands.
    pub(crate) restates_identity: bool,
    /// How many objects the collection has that it is about, counted as far as that makes a difference.
    pub(crate) collection_objects: usize,
}

impl ResourceRequest {
    /// Whether who asks may do something else as well. Whoever asks this does so within
    /// [`Consultation::settle`]: a webhook may have to be asked.
    pub(crate) fn may(&self, access: &AuthorizerChain, requested: &RequestAttributes<'_>) -> bool {
        self.consultation.may(access, &self.user, requested)
    }

    /// As [`ResourceRequest::may`], but what the user may do only because something refers to it does not count
    /// (referential authorization R104).
    pub(crate) fn may_without_references(
        &self,
        access: &AuthorizerChain,
        requested: &RequestAttributes<'_>,
    ) -> bool {
        self.consultation.may_without_references(access, &self.user, requested)
    }

    /// The agreed answer form.
    pub fn wanted(&self, offer: Offer) -> Result<NegotiatedFormat, Failure> {
        negotiate(self.accept.as_deref(), offer)
    }

    /// Indentation, compression and row objects.
    pub fn style(&self) -> Result<Style, Failure> {
        let include = match self.query.text("includeObject") {
            "" | "Metadata" => Include::Metadata,
            "None" => Include::None,
            "Object" => Include::Object,
            other => {
                return Err(Failure::bad_request(format!(
                    "includeObject: `{other}` is none of None, Metadata, Object"
                )));
            }
        };
        let pretty = match self.query.get("pretty") {
            Some(text) => matches!(text, "true" | "1"),
            None => ["curl", "Wget", "Mozilla/5.0"].iter().any(|tool| self.agent.starts_with(tool)),
        };
        Ok(Style { pretty, gzip: self.gzip, include })
    }

    /// The name under which this writer's fields are recorded (R94).
    #[must_use]
    pub fn manager(&self, given: Option<&str>) -> String {
        if let Some(given) = given.filter(|name| !name.is_empty()) {
            return given.to_owned();
        }
        let agent = self.agent.split('/').next().unwrap_or_default();
        let name: String = agent.chars().filter(|c| !c.is_control()).take(128).collect();
        if name.is_empty() { "unknown".to_owned() } else { name }
    }

    /// The namespace that access to what the path names is checked in; a Namespace is in itself.
    #[must_use]
    pub fn access_namespace(&self) -> &str {
        let kind = &self.served.kind;
        let of_namespace = kind.group.is_empty() && kind.kind == "Namespace";
        if of_namespace { &self.name } else { &self.namespace }
    }

    /// Tells the client something, once.
    pub fn warn(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.warnings.contains(&text) {
            self.warnings.push(text);
        }
    }
}
