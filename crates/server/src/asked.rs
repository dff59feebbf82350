//! What a request asks for, read from its line: which path, which verb, about which name. Nothing is looked up.

use http::Method;

use crate::query::Query;
use crate::registry::Registry;
use crate::route::{self, ResourcePath, Route};

/// A request line, understood.
pub(crate) struct Asked {
    pub(crate) method: Method,
    pub(crate) route: Route,
    pub(crate) query: Query,
    pub(crate) path: String,
    pub(crate) verb: &'static str,
    /// The name that access is checked for: from the path, or pinned by a field selector (R3).
    name: String,
}

impl Asked {
    pub(crate) fn new(parts: &http::request::Parts) -> Asked {
        let path = parts.uri.path().to_owned();
        let route = route::parse(&path);
        let query = Query::parse(parts.uri.query());
        let verb = verb(&parts.method, &route, &query);
        let name = match &route {
            Route::Resource(path) if !path.name.is_empty() => path.name.clone(),
            Route::Resource(_) => pinned_name(&query),
            _ => String::new(),
        };
        Asked { method: parts.method.clone(), route, query, path, verb, name }
    }

    pub(crate) fn resource(&self) -> Option<&ResourcePath> {
        match &self.route {
            Route::Resource(path) => Some(path),
            _ => None,
        }
    }

    pub(crate) fn mutating(&self) -> bool {
        matches!(self.method, Method::POST | Method::PUT | Method::PATCH | Method::DELETE)
    }

    pub(crate) fn served_resource(&self, registry: &Registry) -> (&str, &str) {
        match &self.route {
            Route::Resource(path)
                if registry.find(&path.group, &path.version, &path.resource).is_some() =>
            {
                (&path.group, &path.resource)
            }
            _ => ("", ""),
        }
    }

    pub(crate) fn attributes(&self) -> tenure_rbac::Asked<'_> {
        match &self.route {
            Route::Resource(path) => tenure_rbac::Asked::Resource {
                verb: self.verb,
                group: &path.group,
                resource: &path.resource,
                subresource: &path.subresource,
                namespace: &path.namespace,
                name: &self.name,
            },
            _ => tenure_rbac::Asked::Path { verb: self.verb, path: &self.path },
        }
    }
}

/// The verb of access rules and handlers (R3).
fn verb(method: &Method, route: &Route, query: &Query) -> &'static str {
    let Route::Resource(path) = route else {
        return match *method {
            Method::POST => "post",
            Method::PUT => "put",
            Method::PATCH => "patch",
            Method::DELETE => "delete",
            _ => "get",
        };
    };
    match (method.as_str(), path.name.is_empty()) {
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", true) => "deletecollection",
        ("DELETE", false) => "delete",
        (_, _) if path.watch => "watch",
        (_, true) if query.flag("watch") => "watch",
        (_, true) => "list",
        (_, false) => "get",
    }
}

fn pinned_name(query: &Query) -> String {
    tenure_core::selector::FieldSelector::parse(query.text("fieldSelector"))
        .ok()
        .and_then(|fields| fields.exact("metadata.name").map(str::to_owned))
        .filter(|name| tenure_machinery::name::path_segment(name).is_none())
        .unwrap_or_default()
}
