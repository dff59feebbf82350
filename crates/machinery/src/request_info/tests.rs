//! Rules of spec/api-server.md: the table of requests and what they ask for.

use super::*;

/// Group, version, namespace, resource, subresource and name of a request, behind its verb.
fn read(method: &str, target: &str) -> String {
    let (path, query) = target.split_once('?').map_or((target, None), |(p, q)| (p, Some(q)));
    let info = RequestInfo::new(method, path, query);
    match info.resource {
        Some(of) => {
            let group = if of.core { "core" } else { &of.group };
            let name = of.checked_name();
            let RequestInfo { verb, .. } = info;
            format!(
                "{verb} {group}/{} {}:{}/{} {name}",
                of.version, of.namespace, of.resource, of.subresource
            )
        }
        None => format!("{} {}", info.verb, info.path),
    }
}

fn check(rows: &[(&str, &str, &str)]) {
    for (method, target, wanted) in rows {
        assert_eq!(read(method, target), *wanted, "{method} {target}");
    }
}

#[test]
fn r2_paths_are_taken_apart_as_upstream_does() {
    check(&[
        ("GET", "/api/v1/namespaces", "list core/v1 :namespaces/ "),
        ("GET", "/api/v1/namespaces/other", "get core/v1 other:namespaces/ other"),
        ("GET", "/api/v1/namespaces/other/pods", "list core/v1 other:pods/ "),
        ("GET", "/api/v1/namespaces/other/pods/foo", "get core/v1 other:pods/ foo"),
        ("HEAD", "/api/v1/namespaces/other/pods/foo", "get core/v1 other:pods/ foo"),
        ("GET", "/api/v1/pods", "list core/v1 :pods/ "),
        ("HEAD", "/api/v1/pods", "list core/v1 :pods/ "),
        ("GET", "/api/v1/namespaces/other/pods/foo/status", "get core/v1 other:pods/status foo"),
        (
            "GET",
            "/api/v1/namespaces/other/pods/foo/proxy/subpath",
            "get core/v1 other:pods/proxy foo",
        ),
        (
            "PUT",
            "/api/v1/namespaces/other/finalize",
            "update core/v1 other:namespaces/finalize other",
        ),
        ("PUT", "/api/v1/namespaces/other/status", "update core/v1 other:namespaces/status other"),
        ("PATCH", "/api/v1/namespaces/other/pods/foo", "patch core/v1 other:pods/ foo"),
        ("DELETE", "/api/v1/namespaces/other/pods/foo", "delete core/v1 other:pods/ foo"),
        ("POST", "/api/v1/namespaces/other/pods", "create core/v1 other:pods/ "),
        (
            "POST",
            "/api/v1/namespaces/other/pods/foo/eviction",
            "create core/v1 other:pods/eviction foo",
        ),
        ("DELETE", "/api/v1/nodes", "deletecollection core/v1 :nodes/ "),
        ("DELETE", "/api/v1/namespaces", "deletecollection core/v1 :namespaces/ "),
        ("DELETE", "/api/v1/namespaces/other/pods", "deletecollection core/v1 other:pods/ "),
        (
            "DELETE",
            "/apis/extensions/v1/namespaces/other/pods",
            "deletecollection extensions/v1 other:pods/ ",
        ),
        ("POST", "/apis/extensions/v1/namespaces/other/pods", "create extensions/v1 other:pods/ "),
        (
            "POST",
            "/apis/extensions/v1beta3/namespaces/other/pods",
            "create extensions/v1beta3 other:pods/ ",
        ),
        ("GET", "/apis/batch/v1/job/foo/scale", "get batch/v1 :job/scale foo"),
        ("GET", "/api/v1/namespaces/a/namespaces/b", "get core/v1 a:namespaces/ b"),
        ("GET", "/apis/g/v1/namespaces/a", "get g/v1 a:namespaces/ a"),
    ]);
}

#[test]
fn r2_old_forms_have_their_verb_in_the_path() {
    check(&[
        ("GET", "/api/v1/proxy/namespaces/other/pods/foo", "proxy core/v1 other:pods/ foo"),
        (
            "GET",
            "/api/v1/proxy/namespaces/other/pods/foo/sub/path",
            "proxy core/v1 other:pods/ foo",
        ),
        ("POST", "/api/v1/proxy/nodes/foo", "proxy core/v1 :nodes/ foo"),
        ("GET", "/api/v1/watch/pods", "watch core/v1 :pods/ "),
        ("DELETE", "/api/v1/watch/pods", "watch core/v1 :pods/ "),
        ("GET", "/api/v1/watch/namespaces/other/pods", "watch core/v1 other:pods/ "),
        ("GET", "/api/v1/watch/namespaces/other/pods/foo", "watch core/v1 other:pods/ foo"),
        ("GET", "/api/v1/watch/namespaces/other", "watch core/v1 other:namespaces/ other"),
        ("GET", "/api/v1/watch/pods?watch=false", "watch core/v1 :pods/ "),
        ("GET", "/api/v1/watch", "watch core/v1 :/ "),
        ("GET", "/api/v1/watch/", "watch core/v1 :/ "),
        ("GET", "/api/v1/proxy", "proxy core/v1 :/ "),
    ]);
}

#[test]
fn r2_other_paths_ask_for_no_resource() {
    check(&[
        ("GET", "/", "get /"),
        ("GET", "", "get "),
        ("GET", "/api", "get /api"),
        ("GET", "/api/", "get /api/"),
        ("GET", "/api/version/", "get /api/version/"),
        ("GET", "/apis/group/version/", "get /apis/group/version/"),
        ("GET", "/apis/version/resource", "get /apis/version/resource"),
        ("GET", "/badprefix/version/resource", "get /badprefix/version/resource"),
        ("HEAD", "/healthz", "head /healthz"),
        ("OPTIONS", "/healthz", "options /healthz"),
        ("Foo", "/healthz", "foo /healthz"),
        ("GET", "/%68ealthz", "get /healthz"),
    ]);
}

#[test]
fn r2_doubled_slashes_leave_an_empty_segment() {
    check(&[
        ("GET", "//api/v1/namespaces/n/pods/a", "get core/v1 n:pods/ a"),
        ("GET", "/api//v1/namespaces/n/pods/a", "get core/ :v1/n namespaces"),
        ("GET", "/api/v1/namespaces//secrets", "list core/v1 :secrets/ "),
        ("GET", "/api/v1/namespaces/n//pods/a", "get core/v1 n:/a pods"),
        ("GET", "/api/v1/namespaces/n/pods//a", "list core/v1 n:pods/a "),
        ("DELETE", "/api/v1/namespaces/n/pods//a", "deletecollection core/v1 n:pods/a "),
        ("GET", "/api/v1/namespaces/n/pods/a//", "get core/v1 n:pods/ a"),
        ("GET", "/api/v1/namespaces/", "list core/v1 :namespaces/ "),
        ("GET", "/apis//v1/pods/a", "get /v1 :pods/ a"),
        ("GET", "/api/v1/namespaces//namespaces/n", "get core/v1 :namespaces/ n"),
    ]);
    let inside = |path| RequestInfo::new("GET", path, None).resource.map(|of| of.in_namespace);
    assert_eq!(inside("/api/v1/namespaces//namespaces/n"), Some(true));
    assert_eq!(inside("/api/v1/namespaces/n"), Some(false));
    assert_eq!(inside("/api/v1/namespaces/n/status"), Some(false));
    // An object that is called like a subresource of namespaces cannot be reached, as upstream.
    assert_eq!(read("GET", "/api/v1/namespaces/n/status/a"), "get core/v1 n:namespaces/status n");
}

#[test]
fn r2_escapes_are_decoded_before_the_path_is_taken_apart() {
    check(&[
        ("GET", "/api/v1/namespaces/n%2Fsecrets", "list core/v1 n:secrets/ "),
        ("GET", "/api/v1/namespaces/n/%73ecrets/a", "get core/v1 n:secrets/ a"),
        ("GET", "/apis/g/v1/roles/system%3Aa", "get g/v1 :roles/ system:a"),
        ("GET", "/api/v1/namespaces/n/pods/a%252Fb", "get core/v1 n:pods/ a%2Fb"),
        ("GET", "/api/v1/namespaces/n/pods/a+b", "get core/v1 n:pods/ a+b"),
    ]);
    assert!(RequestInfo::new("GET", "/api/v1/pods/%zz", None).is_malformed);
    assert!(!RequestInfo::new("GET", "/api/v1/pods/%2e%2E", None).is_malformed);
}

#[test]
fn r3_verbs_come_from_method_and_query() {
    check(&[
        ("GET", "/api/v1/pods?watch=true", "watch core/v1 :pods/ "),
        ("GET", "/api/v1/pods?watch=false", "list core/v1 :pods/ "),
        ("GET", "/api/v1/pods?watch=1", "watch core/v1 :pods/ "),
        ("GET", "/api/v1/pods?watch=0", "list core/v1 :pods/ "),
        ("GET", "/api/v1/pods?watch", "watch core/v1 :pods/ "),
        ("GET", "/api/v1/pods?watch=banana", "watch core/v1 :pods/ "),
        ("GET", "/api/v1/pods?watch=FALSE", "list core/v1 :pods/ "),
        ("GET", "/api/v1/pods?limit=1;watch=1", "list core/v1 :pods/ "),
        ("GET", "/api/v1/pods/a?watch=1", "get core/v1 :pods/ a"),
        ("POST", "/api/v1/pods?watch=1", "create core/v1 :pods/ "),
        ("OPTIONS", "/api/v1/pods/a", " core/v1 :pods/ a"),
        ("TRACE", "/api/v1/pods", " core/v1 :pods/ "),
        ("get", "/api/v1/pods", " core/v1 :pods/ "),
        ("FOO", "/api/v1/pods/a", " core/v1 :pods/ a"),
    ]);
}

#[test]
fn r3_selectors_name_what_is_listed_or_watched() {
    let pods = "/apis/group/version/resource";
    for (method, query, wanted) in [
        ("GET", "fieldSelector=metadata.name=a", "list :a"),
        ("GET", "fieldSelector=metadata.name%3D%3Da", "list :a"),
        ("HEAD", "fieldSelector=metadata.name=a", "list :a"),
        ("GET", "watch=true&fieldSelector=metadata.name=a", "watch :a"),
        ("GET", "fieldSelector=foo=bar&labelSelector=baz=qux", "list :"),
        ("GET", "fieldSelector=metadata.name=a,foo", "list :"),
        ("GET", "fieldSelector=metadata.name=a,foo&watch=true", "watch :"),
        ("GET", "fieldSelector=metadata.name=a,foo&watch=false", "list :"),
        ("GET", "fieldSelector=metadata.name=a,metadata.name=b", "list :a"),
        ("GET", "fieldSelector=foo=bar,metadata.name=a", "list :a"),
        ("GET", "fieldSelector=metadata.name!=a", "list :"),
        ("GET", "fieldSelector=metadata.name=a&fieldSelector=metadata.name=b", "list :a"),
        ("GET", "fieldSelector=metadata.name=..", "list :"),
        ("GET", "fieldSelector=metadata.name=a/b", "list :"),
        ("GET", "fieldSelector=metadata.name=", "list :"),
        // What cannot be read is answered with 400, to those who may list everything.
        ("GET", "fieldSelector=metadata.name=a&limit=x", "list :"),
        ("GET", "fieldSelector=metadata.name=a&timeoutSeconds=", "list :"),
        ("GET", "fieldSelector=metadata.name=a&labelSelector=,", "list :"),
        ("DELETE", "fieldSelector=metadata.name=a", "deletecollection :"),
        ("POST", "fieldSelector=metadata.name=a", "create :"),
        ("PUT", "fieldSelector=metadata.name=a", "update :"),
        ("PATCH", "fieldSelector=metadata.name=a", "patch :"),
        ("FOO", "fieldSelector=metadata.name=a", " :"),
    ] {
        let info = RequestInfo::new(method, pods, Some(query));
        let of = info.resource.expect("a resource");
        assert_eq!(format!("{} :{}", info.verb, of.checked_name()), wanted, "{method} {query}");
    }
    check(&[
        // The old form of a watch takes no names from selectors.
        ("GET", "/apis/g/v/watch/things?fieldSelector=metadata.name=foo", "watch g/v :things/ "),
        ("GET", "/apis/g/v/watch/things/a?fieldSelector=metadata.name=b", "watch g/v :things/ a"),
        ("GET", "/apis/g/v/things/a?fieldSelector=metadata.name=b", "get g/v :things/ a"),
        ("GET", "/apis/g/v/things//s?fieldSelector=metadata.name=b", "list g/v :things/s b"),
    ]);
}
