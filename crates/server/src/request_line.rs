//! A request line, understood once for whoever authorizes, answers, counts and writes it down.

use std::borrow::Cow;

use http::Method;
use tenure_core::selector::FieldSelector;
use tenure_machinery::query::Query;
use tenure_machinery::{RequestInfo, ResourcePath};

use crate::registry::Registry;
use crate::route::Route;

/// The method and what the line asks for.
pub(crate) struct RequestLine {
    pub(crate) method: Method,
    info: RequestInfo,
}

impl RequestLine {
    pub(crate) fn new(parts: &http::request::Parts) -> RequestLine {
        let info = RequestInfo::new(parts.method.as_str(), parts.uri.path(), parts.uri.query());
        RequestLine { method: parts.method.clone(), info }
    }

    /// The verb of access rules and handlers (R3).
    pub(crate) fn verb(&self) -> &str {
        &self.info.verb
    }

    pub(crate) fn owned_verb(&self) -> Cow<'static, str> {
        self.info.verb.clone()
    }

    /// The path with its escapes decoded.
    pub(crate) fn path(&self) -> &str {
        &self.info.path
    }

    pub(crate) fn query(&self) -> &Query {
        &self.info.query
    }

    pub(crate) fn is_malformed(&self) -> bool {
        self.info.is_malformed
    }

    pub(crate) fn route(&self) -> Route<'_> {
        Route::of(&self.info)
    }

    pub(crate) fn resource(&self) -> Option<&ResourcePath> {
        self.info.resource.as_ref()
    }

    pub(crate) fn mutating(&self) -> bool {
        matches!(self.method, Method::POST | Method::PUT | Method::PATCH | Method::DELETE)
    }

    /// The group and resource if they are served, else nothing.
    pub(crate) fn served_resource(&self, registry: &Registry) -> (&str, &str) {
        match self.resource() {
            Some(path) if registry.find(&path.group, &path.version, &path.resource).is_some() => {
                (&path.group, &path.resource)
            }
            _ => ("", ""),
        }
    }

    /// Whether it names one object, in its path or by a selector.
    pub(crate) fn is_about_one(&self) -> bool {
        self.resource().is_some_and(|path| !path.checked_name().is_empty())
    }

    /// The node whose pods are selected, if just one is. Selectors narrow what is read or deleted as a
    /// collection, and not by the old form of a watch (R3).
    pub(crate) fn selected_node(&self) -> Option<String> {
        let narrows = matches!(self.verb(), "list" | "watch" | "deletecollection");
        if !narrows || self.resource().is_none_or(|path| path.prefix.is_some()) {
            return None;
        }
        let fields = FieldSelector::parse(self.query().text("fieldSelector"));
        fields.ok().and_then(|fields| fields.exact("spec.nodeName").map(str::to_owned))
    }

    /// What access is checked for (R3).
    pub(crate) fn attributes(&self) -> tenure_rbac::RequestAttributes<'_> {
        match self.resource() {
            Some(path) => tenure_rbac::RequestAttributes::Resource {
                verb: self.verb(),
                group: &path.group,
                resource: &path.resource,
                subresource: &path.subresource,
                namespace: &path.namespace,
                name: path.checked_name(),
            },
            None => tenure_rbac::RequestAttributes::Path { verb: self.verb(), path: self.path() },
        }
    }
}
