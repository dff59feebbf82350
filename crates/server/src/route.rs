//! From what a request line asks for to who answers it: pure, and safe on hostile input.

use tenure_machinery::{RequestInfo, ResourcePath};

/// Who answers a request, before anything is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route<'a> {
    /// Something in the API: a resource, a collection or a subresource.
    Resource(&'a ResourcePath),
    /// `/api`.
    CoreVersions,
    /// `/apis`.
    Groups,
    /// `/apis/{group}`.
    Group(&'a str),
    /// `/api/v1` or `/apis/{group}/{version}`.
    GroupVersion(&'a str, &'a str),
    /// Any other path, such as `/healthz`.
    Other(&'a str),
}

impl Route<'_> {
    /// The route of a request. A path is served as it was authorized: what upstream reads as a resource but does
    /// not serve, such as `//api/v1/pods` or `/apis//v1/pods`, leads nowhere.
    #[must_use]
    pub fn of(info: &RequestInfo) -> Route<'_> {
        let path = info.path.as_str();
        if path.starts_with("//") {
            return Route::Other(path);
        }
        if let Some(resource) = &info.resource {
            let nowhere = !resource.core && resource.group.is_empty();
            return if nowhere { Route::Other(path) } else { Route::Resource(resource) };
        }
        let mut segments = path.trim_matches('/').split('/');
        let part = [segments.next(), segments.next(), segments.next(), segments.next()];
        match part {
            [Some("api"), None, ..] => Route::CoreVersions,
            [Some("api"), Some(version), None, _] => Route::GroupVersion("", version),
            [Some("apis"), None, ..] => Route::Groups,
            [Some("apis"), Some(group), None, _] if !group.is_empty() => Route::Group(group),
            [Some("apis"), Some(group), Some(version), None] if !group.is_empty() => {
                Route::GroupVersion(group, version)
            }
            _ => Route::Other(path),
        }
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use super::*;

    fn route(path: &str) -> String {
        match Route::of(&RequestInfo::new("GET", path, None)) {
            Route::Resource(path) => format!("{}/{}", path.version, path.resource),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn r2_discovery_takes_slashes_at_the_end() {
        for (path, wanted) in [
            ("/api", "CoreVersions"),
            ("/api/", "CoreVersions"),
            ("/apis//", "Groups"),
            ("/apis/apps/", "Group(\"apps\")"),
            ("/api/v1/", "GroupVersion(\"\", \"v1\")"),
            ("/apis/apps/v1", "GroupVersion(\"apps\", \"v1\")"),
            ("/api/v1/pods/", "v1/pods"),
        ] {
            assert_eq!(route(path), wanted, "{path}");
        }
    }

    #[test]
    fn r4_other_paths_stay_whole() {
        for path in [
            "/nope/x",
            "/",
            "//",
            "//api",
            "//healthz",
            "/healthz/",
            "//api/v1/pods",
            "/apis//v1",
            "/apis//v1/pods",
            "/apis//",
        ] {
            let served = path == "/apis//";
            assert_eq!(route(path) == format!("Other({path:?})"), !served, "{path}");
        }
    }
}
