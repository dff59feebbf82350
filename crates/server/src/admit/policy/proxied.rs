//! The path behind a proxy, as policies see it (R164).

use tenure_machinery::ResourcePath;

/// The `path` of NodeProxyOptions, PodProxyOptions and ServiceProxyOptions: what follows `proxy` in the decoded path of
/// a request. None where the request ends there, or is about something else. A parameter `path` says nothing about it.
///
/// Slashes before it count as one, so that `//admin` does not pass for another path than `/admin`; a node, to which
/// no empty segment is passed on, is shown none at all.
pub(crate) fn proxied_path(path: &ResourcePath, decoded: &str) -> Option<String> {
    let segments = match (path.resource.as_str(), path.subresource.as_str()) {
        ("nodes", "proxy") => 5,
        ("pods" | "services", "proxy") => 7,
        _ => return None,
    };
    let behind = decoded.trim_start_matches('/').splitn(segments + 1, '/').nth(segments)?;
    let behind = behind.trim_start_matches('/');
    if path.resource != "nodes" {
        return Some(format!("/{behind}"));
    }
    let mut shown = String::new();
    for segment in behind.split('/').filter(|segment| !segment.is_empty()) {
        shown.push('/');
        shown.push_str(segment);
    }
    if shown.is_empty() || behind.ends_with('/') {
        shown.push('/');
    }
    Some(shown)
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.

    use super::*;

    fn shown(resource: &str, decoded: &str) -> Option<String> {
        let path = ResourcePath {
            resource: resource.to_owned(),
            subresource: "proxy".to_owned(),
            ..ResourcePath::default()
        };
        proxied_path(&path, decoded)
    }

    #[test]
    fn r164_the_path_behind_a_proxy_is_shown() {
        for (behind, pod, node) in [
            ("", None, None),
            ("/", Some("/"), Some("/")),
            ("//", Some("/"), Some("/")),
            ("/a", Some("/a"), Some("/a")),
            ("///a", Some("/a"), Some("/a")),
            ("/a//b/", Some("/a//b/"), Some("/a/b/")),
        ] {
            let pods = format!("/api/v1/namespaces/n/pods/x/proxy{behind}");
            assert_eq!(shown("pods", &pods).as_deref(), pod, "{behind}");
            let nodes = format!("/api/v1/nodes/x/proxy{behind}");
            assert_eq!(shown("nodes", &nodes).as_deref(), node, "{behind}");
        }
        assert_eq!(shown("pods/exec", "/api/v1/namespaces/n/pods/x/exec/a"), None);
    }
}
