//! From a path and a method to what is asked: pure, and safe on hostile input.

use std::borrow::Cow;

/// What a request is about, before anything is looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// Something in the API: a resource, a collection or a subresource.
    Resource(ResourcePath),
    /// `/api`.
    CoreVersions,
    /// `/apis`.
    Groups,
    /// `/apis/{group}`.
    Group(String),
    /// `/api/v1` or `/apis/{group}/{version}`.
    GroupVersion(String, String),
    /// Any other path, such as `/healthz`.
    Other(String),
}

/// A resource path, taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourcePath {
    /// Empty for core.
    pub group: String,
    /// Such as `v1`.
    pub version: String,
    /// Empty for cluster scope or all namespaces.
    pub namespace: String,
    /// Plural resource.
    pub resource: String,
    /// Empty for a collection.
    pub name: String,
    /// Such as `status`; empty for the object itself.
    pub subresource: String,
    /// Whether the old `…/watch/…` form asks for a watch.
    pub watch: bool,
    /// Whether segments were left over (a path deeper than any subresource).
    pub deeper: bool,
}

/// Takes a path apart. Percent-encoded segments are decoded; an encoded slash stays inside its segment.
#[must_use]
pub fn parse(path: &str) -> Route {
    let mut segments = path.split('/').filter(|s| !s.is_empty()).map(decode);
    let Some(first) = segments.next() else { return Route::Other("/".to_owned()) };
    let rest: Vec<String> = segments.collect();
    match (first.as_str(), rest.as_slice()) {
        ("api", []) => Route::CoreVersions,
        ("api", [version]) => Route::GroupVersion(String::new(), version.clone()),
        ("api", [version, resource @ ..]) => resource_path(String::new(), version, resource),
        ("apis", []) => Route::Groups,
        ("apis", [group]) => Route::Group(group.clone()),
        ("apis", [group, version]) => Route::GroupVersion(group.clone(), version.clone()),
        ("apis", [group, version, resource @ ..]) => {
            resource_path(group.clone(), version, resource)
        }
        _ => Route::Other(path.to_owned()),
    }
}

fn resource_path(group: String, version: &str, segments: &[String]) -> Route {
    let mut path = ResourcePath { group, version: version.to_owned(), ..ResourcePath::default() };
    let segments = match segments {
        [first, rest @ ..] if first == "watch" && !rest.is_empty() => {
            path.watch = true;
            rest
        }
        all => all,
    };
    let rest = match segments {
        // `/namespaces/{n}/status` and `/finalize` belong to the Namespace itself.
        [word, _, sub] if word == "namespaces" && (sub == "status" || sub == "finalize") => {
            segments
        }
        [word, namespace, rest @ ..] if word == "namespaces" && !rest.is_empty() => {
            path.namespace.clone_from(namespace);
            rest
        }
        all => all,
    };
    let mut rest = rest.iter();
    path.resource = rest.next().cloned().unwrap_or_default();
    path.name = rest.next().cloned().unwrap_or_default();
    path.subresource = rest.next().cloned().unwrap_or_default();
    path.deeper = rest.next().is_some();
    Route::Resource(path)
}

fn decode(segment: &str) -> String {
    percent_decode(segment, false).into_owned()
}

/// Decodes `%41`; also `+` as a space when reading queries. Broken escapes stay as they are, bytes that
/// are not UTF-8 become replacement characters.
#[must_use]
pub fn percent_decode(text: &str, plus_is_space: bool) -> Cow<'_, str> {
    let escaped = text.contains('%') || (plus_is_space && text.contains('+'));
    if !escaped {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                let ahead = bytes.clone().next().zip(bytes.clone().nth(1));
                match ahead.and_then(|(high, low)| Some(hex(high)? << 4 | hex(low)?)) {
                    Some(value) => {
                        out.push(value);
                        bytes.nth(1);
                    }
                    None => out.push(b'%'),
                }
            }
            b'+' if plus_is_space => out.push(b' '),
            other => out.push(other),
        }
    }
    Cow::Owned(String::from_utf8_lossy(&out).into_owned())
}

fn hex(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|d| u8::try_from(d).ok())
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use super::*;

    fn resource(path: &str) -> ResourcePath {
        match parse(path) {
            Route::Resource(path) => path,
            other => panic!("{path} is {other:?}"),
        }
    }

    #[test]
    fn r2_paths_are_taken_apart() {
        let pod = resource("/api/v1/namespaces/shop/pods/web/log");
        assert_eq!(
            (pod.group.as_str(), pod.version.as_str(), pod.namespace.as_str()),
            ("", "v1", "shop")
        );
        assert_eq!(
            (pod.resource.as_str(), pod.name.as_str(), pod.subresource.as_str()),
            ("pods", "web", "log")
        );
        let deployment = resource("/apis/apps/v1/deployments");
        assert_eq!(
            (deployment.group.as_str(), deployment.resource.as_str()),
            ("apps", "deployments")
        );
        assert!(deployment.name.is_empty());
    }

    #[test]
    fn r2_namespace_status_and_finalize_are_subresources() {
        for sub in ["status", "finalize"] {
            let path = resource(&format!("/api/v1/namespaces/shop/{sub}"));
            assert_eq!(path.resource, "namespaces");
            assert_eq!(path.name, "shop");
            assert_eq!(path.subresource, sub);
            assert!(path.namespace.is_empty());
        }
        let pods = resource("/api/v1/namespaces/shop/pods");
        assert_eq!((pods.namespace.as_str(), pods.resource.as_str()), ("shop", "pods"));
        let one = resource("/api/v1/namespaces/shop");
        assert_eq!((one.resource.as_str(), one.name.as_str()), ("namespaces", "shop"));
    }

    #[test]
    fn r2_old_watch_form_is_kept() {
        let path = resource("/api/v1/watch/namespaces/shop/pods/web");
        assert!(path.watch);
        assert_eq!((path.namespace.as_str(), path.name.as_str()), ("shop", "web"));
    }

    #[test]
    fn r4_other_paths_stay_whole() {
        assert_eq!(parse("/nope/x"), Route::Other("/nope/x".into()));
        assert_eq!(parse("/"), Route::Other("/".into()));
        assert_eq!(parse("/api/v1"), Route::GroupVersion(String::new(), "v1".into()));
    }

    #[test]
    fn r60_an_encoded_slash_stays_in_its_segment() {
        let role = resource("/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Aa%2Fb");
        assert_eq!(role.name, "system:a/b");
        assert_eq!(percent_decode("%zz%4", false), "%zz%4");
        assert_eq!(percent_decode("a+b%20c", true), "a b c");
    }
}
