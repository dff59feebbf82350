//! Paths, queries, selectors, methods and names.

use super::{OBJECTS, is_status, with_server};

#[test]
fn hostile_paths_are_404() {
    // Outside the API the answer is text, as upstream's is.
    let elsewhere =
        ["/nope", "/api/v2", "/apis/nope/v1", "/../../etc/passwd", "/%00", "/api/v1/nothings"];
    let paths = [
        "/api/v1/namespaces/default/configmaps/a/b/c/d",
        "/api/v1/namespaces/default/configmaps/..%2f..%2fetc%2fpasswd",
        "/api/v1/namespaces/default/configmaps/%00",
        "/api/v1/namespaces/default/configmaps/%ff%fe",
        "/api/v1/namespaces/%2e%2e/configmaps/a",
        "/api/v1/namespaces/default/configmaps/$%7Bjndi:ldap%7D",
    ];
    with_server(|access| async move {
        for path in elsewhere {
            let code = access.once("GET", path, None).await.unwrap().code;
            assert!([404, 400, 301].contains(&code), "{path}: {code}");
        }
        for path in paths {
            let answer = access.once("GET", path, None).await.unwrap();
            is_status(&answer, 404, path);
        }
        // What nobody can read, or what is no name.
        for name in ["%zz", "%4", "..", "%2e", "a%25"] {
            let answer = access.once("GET", &format!("{OBJECTS}/{name}"), None).await.unwrap();
            is_status(&answer, 400, name);
        }
        let long = format!("{OBJECTS}/{}", "a".repeat(60_000));
        let answer = access.once("GET", &long, None).await.unwrap();
        assert!([404, 414, 431].contains(&answer.code), "{}", answer.code);
    });
}

#[test]
fn wrong_queries_are_400() {
    let queries = [
        "labelSelector=a%3D%3D%3Db",
        "labelSelector=%21%21",
        "labelSelector=a%20in%20(",
        "labelSelector=%00",
        "labelSelector=-a%3Db",
        "fieldSelector=metadata.name",
        "fieldSelector=data.k%3D1",
        "limit=x",
        "continue=nonsense",
        "continue=%ff%fe",
        "resourceVersion=x",
        "resourceVersion=-1",
        "watch=true&resourceVersion=x",
    ];
    with_server(|access| async move {
        for query in queries {
            let answer = access.once("GET", &format!("{OBJECTS}?{query}"), None).await.unwrap();
            is_status(&answer, 400, query);
        }
        // Selectors as long as a head may be: judged, not feared.
        let terms = vec!["a in (b,c,d,e,f)"; 1000].join(",").replace(' ', "%20");
        let answer =
            access.once("GET", &format!("{OBJECTS}?labelSelector={terms}"), None).await.unwrap();
        assert!([200, 400, 414, 431].contains(&answer.code), "{}", answer.code);
    });
}

#[test]
fn wrong_methods_are_405() {
    with_server(|access| async move {
        for (method, path) in [
            ("PUT", OBJECTS),
            ("PATCH", OBJECTS),
            ("POST", "/api/v1/namespaces/default/configmaps/a"),
            ("BREW", OBJECTS),
        ] {
            let answer = access.once(method, path, Some(b"{}")).await.unwrap();
            is_status(&answer, 405, method);
        }
    });
}

#[test]
fn wrong_names_are_422() {
    let long = "a".repeat(254);
    let names = ["UPPER", "a_b", "-a", "a..b", "a/b", "a b", "ä", &long];
    with_server(|access| async move {
        for name in names {
            let body = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
            let answer =
                access.once("POST", OBJECTS, Some(body.to_string().as_bytes())).await.unwrap();
            let status = is_status(&answer, 422, name);
            assert_eq!(status["details"]["causes"][0]["field"], "metadata.name", "{name}");
        }
    });
}

#[test]
fn broken_http_ends_the_connection_only() {
    let requests: [&[u8]; 5] = [
        b"\r\n\r\n\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /api HTTP/1.1\r\nhost: t\r\ncontent-length: -1\r\n\r\n",
        b"POST /api HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    ];
    with_server(|access| async move {
        for request in requests {
            let mut connection = access.connect().await.unwrap();
            connection.write(request).await.unwrap();
            let ended =
                tokio::time::timeout(std::time::Duration::from_secs(5), connection.answer());
            // A refusal, a closed connection, or waiting for more: all of them leave the server well.
            if let Ok(Ok(answer)) = ended.await {
                assert!((400..600).contains(&answer.code), "{request:?}: {}", answer.code);
            }
        }
        // Plain text where TLS is spoken.
        use tokio::io::AsyncWriteExt as _;
        let mut plain = tokio::net::TcpStream::connect(access.address()).await.unwrap();
        plain.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    });
}
