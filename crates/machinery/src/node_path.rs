//! Paths of what a node serves, taken apart in one way by the server that passes requests on and by the
//! node that answers them: whoever judges a path and whoever routes it see the same segments
//! (downward-api R133a). Who may do what is decided elsewhere.
//!
//! ```text
//!   /%65xec//shop/web-1/app/  ── decoded once ──► /exec//shop/web-1/app/ ── split ──► exec, shop, web-1, app
//! ```

use std::fmt::Write as _;

/// What opens a stream into a pod or runs something, whatever the method of the request is.
const STREAMS: [&str; 6] = ["exec", "attach", "run", "portForward", "portProxy", "cri"];

/// A path on a node's port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePath {
    segments: Vec<String>,
    /// Whether it ends with a slash, which some servers want.
    open: bool,
}

impl NodePath {
    /// Takes a path apart, as it stands in a request. `None`: it has a broken escape, is not UTF-8, holds
    /// a control character or a backslash, or climbs (`.`, `..`).
    #[must_use]
    pub fn parse(raw: &str) -> Option<NodePath> {
        let decoded = decode(raw)?;
        let segments = decoded.split('/').filter(|segment| !segment.is_empty());
        let odd = |segment: &&str| {
            // What some servers cut off as a parameter of a segment does not hide a climb.
            let plain = segment.split(';').next().unwrap_or_default();
            matches!(plain, "." | "..")
        };
        if segments.clone().any(|segment| odd(&segment)) {
            return None;
        }
        if decoded.chars().any(|letter| letter.is_control() || letter == '\\') {
            return None;
        }
        let segments = segments.map(str::to_owned).collect();
        Some(NodePath { segments, open: decoded.ends_with('/') })
    }

    /// Its segments, decoded; none is empty.
    #[must_use]
    pub fn segments(&self) -> Vec<&str> {
        self.segments.iter().map(String::as_str).collect()
    }

    fn first(&self) -> &str {
        self.segments.first().map(String::as_str).unwrap_or_default()
    }

    /// Whether it leads to a command, a stream or whatever else is more than reading.
    #[must_use]
    pub fn streams(&self) -> bool {
        STREAMS.contains(&self.first())
    }

    /// The verb that access rules know a request by. Running something is no reading, though a WebSocket
    /// begins with GET (R132). Methods without a verb need one that covers all.
    #[must_use]
    pub fn verb(&self, method: &str) -> &'static str {
        match method {
            _ if self.streams() => "create",
            "GET" | "HEAD" => "get",
            "POST" => "create",
            "PUT" => "update",
            "PATCH" => "patch",
            "DELETE" => "delete",
            _ => "",
        }
    }

    /// The subresources of `nodes` of which one must be allowed.
    #[must_use]
    pub fn subresources(&self) -> &'static [&'static str] {
        match self.first() {
            "pods" | "runningpods" | "allocatedPods" => &["pods", "proxy"],
            "healthz" => &["healthz", "proxy"],
            "configz" => &["configz", "proxy"],
            "flagz" => &["configz"],
            "statusz" => &["statusz"],
            "stats" => &["stats"],
            "metrics" => &["metrics"],
            "logs" => &["log"],
            "checkpoint" => &["checkpoint"],
            _ => &["proxy"],
        }
    }
}

impl std::fmt::Display for NodePath {
    /// The one way to write it: everything but plain letters escaped, so that it is read as the same.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for segment in &self.segments {
            out.write_char('/')?;
            for byte in segment.bytes() {
                if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
                    out.write_char(char::from(byte))?;
                } else {
                    write!(out, "%{byte:02X}")?;
                }
            }
        }
        if self.open || self.segments.is_empty() {
            out.write_char('/')?;
        }
        Ok(())
    }
}

fn decode(raw: &str) -> Option<String> {
    let hex = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut out = Vec::with_capacity(raw.len());
    let mut rest = raw.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first != b'%' {
            out.push(first);
            continue;
        }
        let [high, low, after @ ..] = after else { return None };
        out.push(hex(*high)? << 4 | hex(*low)?);
        rest = after;
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    //! Rules of spec/downward-api.md.

    use super::*;

    #[test]
    fn r133a_every_spelling_of_a_path_is_judged_as_it_is_routed() {
        let exec = ["exec", "shop", "web", "app"];
        for raw in [
            "/exec/shop/web/app",
            "//exec/shop/web/app",
            "/%65xec/shop/web/app",
            "/%65%78%65%63/shop/web/app/",
            "/exec%2Fshop%2fweb/app",
            "exec/shop///web/app",
            "/%2F%2fexec/shop/web/app",
        ] {
            let path = NodePath::parse(raw).unwrap();
            assert_eq!(path.segments(), exec, "{raw}");
            for method in ["GET", "POST", "HEAD", "OPTIONS", "PUT"] {
                assert_eq!(path.verb(method), "create", "{method} {raw}");
            }
            assert_eq!(path.subresources(), ["proxy"], "{raw}");
            // Written again it is read as the same.
            assert_eq!(NodePath::parse(&path.to_string()).as_ref(), Some(&path), "{raw}");
        }
    }

    #[test]
    fn r133a_paths_that_climb_or_cannot_be_read_are_refused() {
        for raw in [
            "/pods/../exec/a/b/c",
            "/./exec/a/b/c",
            "/pods/%2e%2e/exec",
            "/pods/..%2fexec",
            "/pods/..;/exec",
            "/pods/.;x/exec",
            "/%zz",
            "/%4",
            "/%",
            "/%ff",
            "/a%00b",
            "/a%0d%0ab",
            "/a\\..\\exec",
        ] {
            assert_eq!(NodePath::parse(raw), None, "{raw}");
        }
        // Decoded once and no more.
        let twice = NodePath::parse("/%2565xec/a/b/c").unwrap();
        assert_eq!(twice.segments(), ["%65xec", "a", "b", "c"]);
        assert_eq!((twice.verb("GET"), twice.to_string()), ("get", "/%2565xec/a/b/c".to_owned()));
        assert_eq!(NodePath::parse("/Exec/a/b/c").unwrap().verb("GET"), "get");
    }

    #[test]
    fn r133a_what_is_asked_of_a_node_in_the_words_of_access_rules() {
        let all: &[(&str, &[&str])] = &[
            ("/pods", &["pods", "proxy"]),
            ("/runningpods/", &["pods", "proxy"]),
            ("/healthz/ping", &["healthz", "proxy"]),
            ("/configz", &["configz", "proxy"]),
            ("/metrics/cadvisor", &["metrics"]),
            ("/stats/summary", &["stats"]),
            ("/logs/", &["log"]),
            ("/checkpoint/a/b/c", &["checkpoint"]),
            ("/containerLogs/a/b/c", &["proxy"]),
            ("/", &["proxy"]),
        ];
        for (raw, subresources) in all {
            let path = NodePath::parse(raw).unwrap();
            assert_eq!(path.subresources(), *subresources, "{raw}");
            assert_eq!((path.verb("GET"), path.verb("DELETE")), ("get", "delete"), "{raw}");
            assert_eq!(path.verb("OPTIONS"), "", "{raw}");
            assert_eq!(path.to_string(), *raw);
        }
        for stream in ["run", "attach", "portForward", "portProxy", "cri"] {
            assert!(NodePath::parse(&format!("/{stream}/x")).unwrap().streams());
        }
    }
}
