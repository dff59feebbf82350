//! Rules of spec/api-server.md.

use http::Uri;

use super::*;

fn line(method: &str, path: &str) -> (RequestLine, http::request::Parts) {
    let (parts, ()) = Request::builder().method(method).uri(path).body(()).unwrap().into_parts();
    (RequestLine::new(&parts), parts)
}

#[test]
fn r131b_the_path_that_was_authorized_is_the_one_that_is_passed_on() {
    let passed = |path: &str| {
        let (line, parts) = line("GET", path);
        passed_path(&line, parts.uri.path()).ok()
    };
    for (path, wanted) in [
        ("/apis/a.example/v1/fishes?watch=1&a=b;c", "/apis/a.example/v1/fishes?watch=1"),
        ("/apis/a.example/v1/", "/apis/a.example/v1/"),
        ("/%61pis/a.example/v1/fishes/%7Ea", "/apis/a.example/v1/fishes/~a"),
        // A slash that was escaped separated segments where the request was authorized.
        ("/apis/a.example/v1/namespaces/n%2Ffishes", "/apis/a.example/v1/namespaces/n/fishes"),
        ("/apis/a.example/v1/fishes/a%3Fb", "/apis/a.example/v1/fishes/a%3Fb"),
    ] {
        assert_eq!(passed(path).as_deref(), Some(wanted), "{path}");
    }
    for path in [
        "/apis/a.example/v1/../v2/fishes",
        "/apis/a.example/v1/%2e%2e/v2/fishes",
        "/apis/a.example/v1/..;x/fishes",
        "/apis/a.example/v1//fishes",
        "/apis/a.example/v1/a%5Cb",
        "/apis/a.example/v1/a%0Ab",
    ] {
        assert_eq!(passed(path), None, "{path}");
    }
}

#[test]
fn r131b_credentials_and_what_is_about_one_connection_stay_here() {
    let (mut parts, ()) =
        Request::get(Uri::from_static("/apis/a.example/v1")).body(()).unwrap().into_parts();
    for (name, value) in [
        ("accept", "application/json"),
        ("authorization", "Bearer x"),
        ("proxy-authorization", "Basic x"),
        ("x-remote-user", "admin"),
        ("x_remote_group", "system:masters"),
        ("x-remote-extra-scopes", "all"),
        ("impersonate-user", "admin"),
        ("x-forwarded-for", "10.0.0.1"),
        ("connection", "close, x-private"),
        ("x-private", "1"),
        ("te", "trailers"),
        ("transfer-encoding", "chunked"),
        ("content-length", "5"),
        ("host", "here"),
        ("upgrade", "h2c"),
        ("audit-id", "mine"),
        ("cookie", "a=b"),
    ] {
        parts.headers.append(name, HeaderValue::from_static(value));
    }
    let passed = passed_headers(&parts.headers, false, "known");
    let mut names: Vec<&str> = passed.keys().map(HeaderName::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["accept", "audit-id", "cookie"]);
    assert_eq!(passed["audit-id"], "known");
}

#[test]
fn r131b_who_asks_is_written_so_that_it_is_read_as_the_same() {
    let user = User {
        name: "jürgen".into(),
        uid: "7".into(),
        groups: vec!["a,b".into(), "c".into()],
        extra: [("example.com/p%q".to_owned(), vec!["1".to_owned(), "2".to_owned()])].into(),
    };
    let mut headers = HeaderMap::new();
    RemoteUser::of(&user).put(&mut headers).unwrap();
    assert_eq!(headers["x-remote-user"].as_bytes(), "jürgen".as_bytes());
    assert_eq!(headers["x-remote-uid"], "7");
    let groups: Vec<_> = headers.get_all("x-remote-group").iter().collect();
    assert_eq!(groups, ["a,b", "c"]);
    let extra: Vec<_> = headers.get_all("x-remote-extra-example.com%2fp%25q").iter().collect();
    assert_eq!(extra, ["1", "2"]);
    for bad in ["a\nX-Remote-Group: system:masters", "a\0"] {
        let user = User { name: bad.into(), ..User::default() };
        assert!(RemoteUser::of(&user).put(&mut HeaderMap::new()).is_err(), "{bad:?}");
    }
}
