//! From a request line to what it asks for, in the words of access rules (R2, R3).
//!
//! ```text
//!   GET /api/v1/namespaces/shop/pods?fieldSelector=metadata.name=web
//!        └ list ┘           └ namespace   └ resource            └ name
//! ```
//!
//! The one place where a path, a method and a query become a verb, a resource and a name: whoever authorizes and
//! whoever answers read the same result, so no path means one thing to the first and another to the second.
//! Nothing is looked up; what is not served is understood all the same, and refused later.

use std::borrow::Cow;

use tenure_core::selector::{FieldSelector, LabelSelector};

use crate::name::path_segment;
use crate::query::{Query, percent_decode};

/// A request line, understood.
#[derive(Clone, Debug)]
pub struct RequestInfo {
    /// The verb of access rules: of resources such as `list`, empty where a method means nothing to them;
    /// elsewhere the method in lower case.
    pub verb: Cow<'static, str>,
    /// The path with its escapes decoded.
    pub path: String,
    /// Whether an escape in the path is broken, so that nobody can say which path is meant.
    pub is_malformed: bool,
    /// The parameters.
    pub query: Query,
    /// What of the API is asked for; `None` for every other path.
    pub resource: Option<ResourcePath>,
}

/// A path into the API, taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourcePath {
    /// Whether the path begins with `/api`, where only the core group is.
    pub core: bool,
    /// Empty for core.
    pub group: String,
    /// Such as `v1`.
    pub version: String,
    /// The namespace that access is checked in; a Namespace is in itself. Empty for the whole cluster.
    pub namespace: String,
    /// Whether the path goes through `namespaces/{namespace}/` to what it asks for.
    pub in_namespace: bool,
    /// Plural resource.
    pub resource: String,
    /// What the path names; empty for a collection.
    pub name: String,
    /// The one name that a list or watch selects; empty for any other request, and when `name` is not.
    pub selected_name: String,
    /// Such as `status`; empty for the object itself.
    pub subresource: String,
    /// The word before the resource in the old forms `…/watch/…` and `…/proxy/…`.
    pub prefix: Option<Prefix>,
    /// Whether segments were left over (a path deeper than any subresource).
    pub deeper: bool,
}

/// A word that stood before resources once; the first is still served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefix {
    /// `…/watch/…`.
    Watch,
    /// `…/proxy/…`.
    Proxy,
}

impl ResourcePath {
    /// The name that access is checked for.
    #[must_use]
    pub fn checked_name(&self) -> &str {
        if self.name.is_empty() { &self.selected_name } else { &self.name }
    }

    /// The namespace of the object or collection itself; a Namespace is in none.
    #[must_use]
    pub fn object_namespace(&self) -> &str {
        if self.in_namespace { &self.namespace } else { "" }
    }
}

impl RequestInfo {
    /// Reads a request line; the path as it came, with escapes.
    #[must_use]
    pub fn new(method: &str, raw_path: &str, raw_query: Option<&str>) -> RequestInfo {
        let decoded = percent_decode(raw_path, false);
        let is_malformed = decoded.is_none();
        let path = decoded.unwrap_or(Cow::Borrowed(raw_path)).into_owned();
        let query = Query::parse(raw_query);
        let mut resource = resource_path(&path);
        let verb = match &mut resource {
            None => lower_case(method),
            Some(resource) => {
                let verb = verb(method, resource, &query);
                // Selectors narrow what is read; whoever writes names what is written in the path.
                if resource.prefix.is_none() && matches!(verb, "list" | "watch") {
                    resource.selected_name = selected_name(&query).unwrap_or_default();
                }
                Cow::Borrowed(verb)
            }
        };
        RequestInfo { verb, path, is_malformed, query, resource }
    }
}

/// The segments of a path. Slashes at its ends are none; a doubled slash has an empty segment between.
fn resource_path(path: &str) -> Option<ResourcePath> {
    let mut segments = path.trim_matches('/').split('/');
    let mut found = ResourcePath::default();
    match segments.next() {
        Some("api") => found.core = true,
        Some("apis") => segments.next()?.clone_into(&mut found.group),
        _ => return None,
    }
    segments.next()?.clone_into(&mut found.version);
    let mut first = segments.next()?;
    found.prefix = match first {
        "watch" => Some(Prefix::Watch),
        "proxy" => Some(Prefix::Proxy),
        _ => None,
    };
    if found.prefix.is_some() {
        // Without anything behind it, the word leads to no resource.
        first = segments.next().unwrap_or_default();
    }
    let mut behind = segments.clone();
    if first == "namespaces"
        && let Some(namespace) = behind.next()
    {
        namespace.clone_into(&mut found.namespace);
        // `/namespaces/{n}/status` and `/finalize` belong to the Namespace itself.
        if let Some(resource) = behind.next().filter(|word| !matches!(*word, "status" | "finalize"))
        {
            found.in_namespace = true;
            first = resource;
            segments = behind;
        }
    }
    first.clone_into(&mut found.resource);
    segments.next().unwrap_or_default().clone_into(&mut found.name);
    if found.prefix != Some(Prefix::Proxy) {
        segments.next().unwrap_or_default().clone_into(&mut found.subresource);
    }
    found.deeper = segments.next().is_some();
    Some(found)
}

fn verb(method: &str, path: &ResourcePath, query: &Query) -> &'static str {
    match (path.prefix, method, path.name.is_empty()) {
        (Some(Prefix::Watch), _, _) => "watch",
        (Some(Prefix::Proxy), _, _) => "proxy",
        (None, "POST", _) => "create",
        (None, "PUT", _) => "update",
        (None, "PATCH", _) => "patch",
        (None, "DELETE", true) => "deletecollection",
        (None, "DELETE", false) => "delete",
        (None, "GET" | "HEAD", false) => "get",
        (None, "GET" | "HEAD", true) if query.flag("watch") => "watch",
        (None, "GET" | "HEAD", true) => "list",
        _ => "",
    }
}

/// The name that a selector asks for, where all options of the list can be read and the name could be one.
fn selected_name(query: &Query) -> Option<String> {
    let fields = FieldSelector::parse(query.get("fieldSelector")?).ok()?;
    let name = fields.exact("metadata.name").filter(|name| path_segment(name).is_none())?;
    LabelSelector::parse(query.text("labelSelector")).ok()?;
    query.number("limit").ok()?;
    query.number("timeoutSeconds").ok()?;
    Some(name.to_owned())
}

fn lower_case(method: &str) -> Cow<'static, str> {
    Cow::Borrowed(match method {
        "GET" => "get",
        "HEAD" => "head",
        "POST" => "post",
        "PUT" => "put",
        "PATCH" => "patch",
        "DELETE" => "delete",
        "OPTIONS" => "options",
        _ => return Cow::Owned(method.to_lowercase()),
    })
}

#[cfg(test)]
mod tests;
