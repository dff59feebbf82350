//! Rules of spec/downward-api.md: requests that a node answers, as the API server passes them on.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tenure_machinery::{Object, ObjectExt};
use tenure_server::connect::{Connecting, Dialer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

use crate::house::*;

const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";

/// Nodes that repeat what they hear.
pub(crate) struct Nodes;

impl Dialer for Nodes {
    fn dial<'a>(&'a self, name: &'a str, node: &'a Object) -> Connecting<'a> {
        assert_eq!(node.name(), name);
        Box::pin(async move {
            if name == "away" {
                return Err(io::Error::other("connection refused"));
            }
            let (near, far) = tokio::io::duplex(4096);
            Ok(Box::new(serve(near, far).await) as _)
        })
    }
}

/// An agent that repeats what it hears: in words, or as a stream if that is what is wanted.
async fn serve(near: DuplexStream, far: DuplexStream) -> DuplexStream {
    let answer = service_fn(|mut request: Request<Incoming>| async move {
        let path = request.uri().to_string();
        let mut response = Response::new(Full::new(Bytes::new()));
        if request.headers().get("upgrade").is_some_and(|asked| asked == "tcp") {
            if path.ends_with("/81") {
                *response.status_mut() = http::StatusCode::BAD_GATEWAY;
                *response.body_mut() = Full::new("nobody listens".into());
                return Ok(response);
            }
            *response.status_mut() = http::StatusCode::SWITCHING_PROTOCOLS;
            response.headers_mut().insert("upgrade", "tcp".parse().unwrap());
            response.headers_mut().insert("connection", "Upgrade".parse().unwrap());
            tokio::spawn(port(path, hyper::upgrade::on(&mut request)));
            return Ok::<_, Infallible>(response);
        }
        if request.headers().contains_key("upgrade") {
            *response.status_mut() = http::StatusCode::SWITCHING_PROTOCOLS;
            response.headers_mut().insert("upgrade", "x".parse().unwrap());
            response.headers_mut().insert("connection", "Upgrade".parse().unwrap());
            let upgraded = hyper::upgrade::on(&mut request);
            tokio::spawn(async move {
                let mut wire = TokioIo::new(upgraded.await.unwrap());
                wire.write_all(format!("{path} ").as_bytes()).await.unwrap();
                let mut heard = Vec::new();
                wire.read_to_end(&mut heard).await.unwrap();
                wire.write_all(&heard).await.unwrap();
                wire.shutdown().await.unwrap();
            });
            return Ok::<_, Infallible>(response);
        }
        let secrets = ["authorization", "impersonate-user", "cookie"];
        assert!(secrets.iter().all(|name| !request.headers().contains_key(*name)));
        let (code, text) = match path.as_str() {
            path if path.contains("/waits") => (
                400,
                "container \"a\" in pod \"waits\" is waiting to start: ContainerCreating".into(),
            ),
            path if path.contains("/gone") => (404, "pod \"gone\" does not exist".into()),
            path if path.contains("/broken") => (500, "the disk is on fire".into()),
            path => {
                let method = request.method().clone();
                let path = path.to_owned();
                let body = request.into_body().collect().await.unwrap().to_bytes();
                (200, format!("{method} {path} {}", String::from_utf8_lossy(&body)))
            }
        };
        *response.status_mut() = http::StatusCode::from_u16(code).unwrap();
        *response.body_mut() = Full::new(text.into());
        Ok(response)
    });
    tokio::spawn(
        hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(far), answer)
            .with_upgrades(),
    );
    near
}

/// A pod's program behind a port: says where it was reached, and repeats the request.
async fn port(at: String, upgraded: hyper::upgrade::OnUpgrade) {
    let answer = service_fn(move |request: Request<Incoming>| {
        let at = at.clone();
        async move {
            let told = ["authorization", "impersonate-user", "x-own", "cookie"].map(|name| {
                request.headers().get(name).map_or("-", |value| value.to_str().unwrap()).to_owned()
            });
            let (method, path) = (request.method().clone(), request.uri().to_string());
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let body = String::from_utf8_lossy(&body);
            let text = format!("{at} {method} {path} {} {body}", told.join(" "));
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(text))))
        }
    });
    let wire = upgraded.await.unwrap();
    hyper::server::conn::http1::Builder::new().serve_connection(wire, answer).await.unwrap();
}

fn pod(name: &str, containers: &[&str]) -> Value {
    let containers: Vec<Value> =
        containers.iter().map(|name| json!({"name": name, "image": "i"})).collect();
    json!({"metadata": {"name": name}, "spec": {"containers": containers}})
}

/// A server with a node `n` that answers, a node `away` that does not, and a few pods.
async fn house() -> House {
    furnished(House::new().await).await
}

pub(crate) async fn furnished(house: House) -> House {
    house.api.put_dialer(Arc::new(Nodes));
    for node in ["n", "away"] {
        house.made("/api/v1/nodes", named(node)).await;
    }
    for one in ["web", "waits", "gone", "broken"] {
        house.bound(pod(one, &["a"])).await;
    }
    house.bound(pod("two", &["a", "b"])).await;
    house.made(PODS, pod("free", &["a"])).await;
    house.made(PODS, pod("lost", &["a"])).await;
    let to_away = json!({"target": {"name": "away"}});
    house.made(&format!("{PODS}/lost/binding"), to_away).await;
    house
}

pub(crate) const UPGRADE: [(&str, &str); 2] = [("connection", "Upgrade"), ("upgrade", "x")];

#[tokio::test]
async fn r116_the_parameters_of_a_log_reach_the_node() {
    let house = house().await;
    for (query, theirs) in [
        ("", ""),
        (
            "container=a&follow=true&previous=1&timestamps=true",
            "follow=true&previous=true&timestamps=true",
        ),
        ("tailLines=0&limitBytes=7&sinceSeconds=3", "tailLines=0&limitBytes=7&sinceSeconds=3"),
        ("sinceTime=2026-01-02T03:04:05%2B01:00", "sinceTime=2026-01-02T02%3A04%3A05Z"),
        ("stream=Stderr", "stream=Stderr"),
        ("follow=false", ""),
    ] {
        let answer = house.get(&format!("{PODS}/web/log?{query}")).await;
        assert_eq!(answer.code, 200, "{query}");
        assert_eq!(answer.headers["content-type"], "text/plain");
        let said = String::from_utf8_lossy(&answer.bytes).into_owned();
        assert_eq!(said, format!("GET /containerLogs/default/web/a?{theirs} "));
    }
}

#[tokio::test]
async fn r116_parameters_that_cannot_be_are_refused() {
    let house = house().await;
    for (query, code, why) in [
        (
            "sinceSeconds=1&sinceTime=2026-01-02T03:04:05Z",
            422,
            "PodLogOptions \"web\" is invalid: : Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified",
        ),
        (
            "tailLines=-1",
            422,
            "PodLogOptions \"web\" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            "limitBytes=0",
            422,
            "PodLogOptions \"web\" is invalid: limitBytes: Invalid value: 0: must be greater than 0",
        ),
        (
            "sinceSeconds=0",
            422,
            "PodLogOptions \"web\" is invalid: sinceSeconds: Invalid value: 0: must be greater than 0",
        ),
        (
            "stream=Stdout&tailLines=1",
            422,
            "PodLogOptions \"web\" is invalid: : Forbidden: `tailLines` and specific `stream` are mutually exclusive for now",
        ),
        ("tailLines=x", 400, "tailLines: `x` is not a whole number"),
    ] {
        let answer = house.get(&format!("{PODS}/web/log?{query}")).await;
        assert_eq!((answer.code, answer.json["message"].as_str().unwrap()), (code, why));
    }
    let answer = house.get(&format!("{PODS}/web/log?stream=x")).await;
    assert_eq!(answer.code, 422);
    assert_eq!(answer.json["details"]["causes"][0]["field"], "stream");
}

#[tokio::test]
async fn r123_who_cannot_be_answered_is_told_why() {
    let house = house().await;
    for (pod, query, code, why) in [
        ("two", "", 400, "a container name must be specified for pod two, choose one of: [a b]"),
        ("web", "container=x", 400, "container x is not valid for pod web"),
        (
            "waits",
            "",
            400,
            "container \"a\" in pod \"waits\" is waiting to start: ContainerCreating",
        ),
        ("gone", "", 404, "the server could not find the requested resource ( pods/log gone)"),
        ("broken", "", 500, "Internal error occurred: the disk is on fire"),
        (
            "lost",
            "",
            500,
            "Internal error occurred: error dialing backend: node \"away\" cannot be reached",
        ),
        ("none", "", 404, "pods \"none\" not found"),
    ] {
        let answer = house.get(&format!("{PODS}/{pod}/log?{query}")).await;
        assert_eq!((answer.code, answer.json["message"].as_str().unwrap()), (code, why), "{pod}");
    }
    // A pod that nobody has taken has an empty log.
    let answer = house.get(&format!("{PODS}/free/log")).await;
    assert_eq!((answer.code, answer.bytes.len()), (204, 0));
}

#[tokio::test]
async fn r125_streams_need_a_pod_on_a_node_and_a_connection_to_turn_into_one() {
    let house = house().await;
    for (method, path, headers, code, why) in [
        (
            "GET",
            "two/exec?command=x",
            &UPGRADE[..],
            400,
            "a container name must be specified for pod two, choose one of: [a b]",
        ),
        ("POST", "web/attach?container=x", &UPGRADE, 400, "container x is not valid for pod web"),
        ("POST", "free/portforward", &UPGRADE, 400, "pod free does not have a host assigned"),
        ("POST", "web/exec?command=x", &[], 400, "Upgrade request required"),
        ("GET", "web/portforward?ports=x", &UPGRADE, 400, "ports: `x` is not a whole number"),
        (
            "GET",
            "lost/exec?command=x",
            &UPGRADE,
            500,
            "Internal error occurred: error dialing backend: node \"away\" cannot be reached",
        ),
        (
            "PUT",
            "web/exec?command=x",
            &UPGRADE,
            405,
            "put is not supported on resources of kind \"pods\"",
        ),
    ] {
        let answer = house.ask(method, &format!("{PODS}/{path}"), headers, "").await;
        assert_eq!((answer.code, answer.json["message"].as_str().unwrap()), (code, why), "{path}");
    }
}

#[tokio::test]
async fn r132_a_websocket_needs_the_right_to_create() {
    let house = house().await;
    let role = json!({
        "metadata": {"name": "reader"},
        "rules": [{"apiGroups": [""], "resources": ["pods/exec", "pods/attach", "pods/portforward", "pods/log"], "verbs": ["get"]}],
    });
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    house.made(&format!("{roles}/roles"), role).await;
    let binding = json!({
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "rita"}],
    });
    house.made(&format!("{roles}/rolebindings"), binding).await;
    let rita = peer("rita", &[]);
    for stream in ["exec", "attach", "portforward"] {
        let path = format!("{PODS}/web/{stream}?command=x");
        let answer = house.ask_as(&rita, "GET", &path, &UPGRADE, "").await;
        assert_eq!(answer.code, 403);
        let why = format!(
            "pods \"web\" is forbidden: User \"rita\" cannot create resource \"pods/{stream}\" in API group \"\" in the namespace \"default\""
        );
        assert_eq!(answer.json["message"], why);
    }
    assert_eq!(house.ask_as(&rita, "GET", &format!("{PODS}/web/log"), &[], "").await.code, 200);
    let nobody = peer("nobody", &[]);
    assert_eq!(house.ask_as(&nobody, "GET", &format!("{PODS}/web/log"), &[], "").await.code, 403);
}

#[tokio::test]
async fn r132a_what_runs_something_on_a_node_needs_the_right_to_create() {
    let house = house().await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    for (user, verb) in [("rita", "get"), ("carl", "create")] {
        let role = json!({
            "metadata": {"name": user},
            "rules": [{"apiGroups": [""], "resources": ["nodes/proxy"], "verbs": [verb]}],
        });
        house.made(&format!("{rbac}/clusterroles"), role).await;
        let binding = json!({
            "metadata": {"name": user},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        });
        house.made(&format!("{rbac}/clusterrolebindings"), binding).await;
    }
    let (rita, carl) = (peer("rita", &[]), peer("carl", &[]));
    let proxy = "/api/v1/nodes/n/proxy";
    let ask = async |peer: &tenure_server::Peer, method: &str, path: &str| {
        house.ask_as(peer, method, &format!("{proxy}{path}"), &[], "").await.code
    };
    for path in [
        "/exec/shop/web/main",
        "//exec/shop/web/main",
        "/%65xec/shop/web/main",
        "/exec%2Fshop/web/main",
        "/attach/shop/web/main",
        "/run/shop/web/main",
        "/portForward/shop/web",
        "/portProxy/shop/web/80",
        "/cri/exec/token",
    ] {
        assert_eq!(ask(&rita, "GET", path).await, 403, "{path}");
        assert_eq!(ask(&carl, "POST", path).await, 200, "{path}");
    }
    assert_eq!(ask(&rita, "GET", "/stats/summary").await, 200);
    assert_eq!(ask(&rita, "GET", "/Exec/shop/web/main").await, 200, "nothing of a node is there");
    for path in ["/pods/%2e%2e/exec/a/b/c", "/./exec/a/b/c", "/pods/..;/exec", "/%zz"] {
        assert_eq!(ask(&rita, "GET", path).await, 400, "{path}");
    }
}

/// Speaks HTTP/1.1 to the server over a pipe, as the socket does.
pub(crate) async fn upgraded(house: &House, path: &str) -> TokioIo<hyper::upgrade::Upgraded> {
    let (near, far) = tokio::io::duplex(4096);
    let api = Arc::clone(&house.api);
    let service = service_fn(move |request: Request<Incoming>| {
        let api = Arc::clone(&api);
        async move { Ok::<_, Infallible>(api.call(request, admin()).await) }
    });
    tokio::spawn(
        hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(far), service)
            .with_upgrades(),
    );
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(near)).await.unwrap();
    tokio::spawn(connection.with_upgrades());
    let mut request = Request::post(path).header("host", "here");
    for (name, value) in UPGRADE {
        request = request.header(name, value);
    }
    let answer = sender.send_request(request.body(Empty::<Bytes>::new()).unwrap()).await.unwrap();
    assert_eq!(answer.status(), 101, "{path}");
    assert_eq!(answer.headers()["upgrade"], "x");
    TokioIo::new(hyper::upgrade::on(answer).await.unwrap())
}

#[tokio::test]
async fn r125_r133_a_stream_is_carried_both_ways() {
    let house = house().await;
    for (path, theirs) in [
        (
            "web/exec?command=sh&command=-c&command=a%20%26+b&stdin=true&stdout=true&stderr=false&tty=true",
            "/exec/default/web/a?input=1&output=1&tty=1&command=sh&command=-c&command=a%20%26%20b",
        ),
        ("two/attach?container=b&stdout=1&stderr=1", "/attach/default/two/b?output=1&error=1"),
        (
            "web/portforward?ports=80,81&ports=82",
            "/portForward/default/web?port=80&port=81&port=82",
        ),
    ] {
        let mut wire = upgraded(&house, &format!("{PODS}/{path}")).await;
        wire.write_all(b"hello").await.unwrap();
        wire.shutdown().await.unwrap();
        let mut heard = String::new();
        wire.read_to_string(&mut heard).await.unwrap();
        assert_eq!(heard, format!("{theirs} hello"));
    }
}

#[tokio::test]
async fn r133_streams_end_with_the_server() {
    let house = house().await;
    let mut wire = upgraded(&house, &format!("{PODS}/web/attach?stdout=1")).await;
    house.stop();
    let mut heard = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(5), wire.read_to_end(&mut heard)).await;
    ended.expect("the stream ends").ok();
}

#[tokio::test]
async fn r133_a_node_is_asked_through_its_proxy() {
    let house = house().await;
    for (method, path, theirs) in [
        ("GET", "/api/v1/nodes/n/proxy/", "GET / "),
        ("GET", "/api/v1/nodes/n/proxy/stats/summary?a=%20b", "GET /stats/summary?a=%20b "),
        ("POST", "/api/v1/nodes/n/proxy/run/a%2Fb", "POST /run/a/b body"),
        // One spelling reaches the node, so that it reads what was judged here (R133a).
        ("GET", "/api/v1/nodes/n/proxy//%73tats/", "GET /stats/ "),
    ] {
        let body = if method == "POST" { "body" } else { "" };
        let headers = [
            ("impersonate-user", "kubernetes-admin"),
            ("impersonate-group", "system:masters"),
            ("cookie", "c"),
        ];
        let answer = house.ask(method, path, &headers, body).await;
        assert_eq!(answer.code, 200, "{path}: {answer:?}");
        assert_eq!(String::from_utf8_lossy(&answer.bytes), theirs);
    }
    let answer = house.get("/api/v1/nodes/none/proxy/pods").await;
    assert_eq!(
        (answer.code, answer.json["message"].as_str().unwrap()),
        (404, "nodes \"none\" not found")
    );
}

#[tokio::test]
async fn r133_a_port_of_a_pod_is_asked_through_its_proxy() {
    let house = house().await;
    let mut ported = pod("ported", &["a"]);
    ported["spec"]["containers"][0]["ports"] = json!([{"containerPort": 8080}]);
    house.bound(ported).await;
    let headers = [
        ("impersonate-user", "kubernetes-admin"),
        ("impersonate-group", "system:masters"),
        ("x-own", "o"),
        ("cookie", "c"),
    ];
    for (method, path, theirs) in [
        ("GET", "web:90/proxy/", "/portProxy/default/web/90 GET / - - o c "),
        (
            "GET",
            "http:web:90/proxy/a%2Fb?c=%20d",
            "/portProxy/default/web/90 GET /a%2Fb?c=%20d - - o c ",
        ),
        ("POST", "ported/proxy/run", "/portProxy/default/ported/8080 POST /run - - o c body"),
        ("DELETE", "web/proxy/", "/portProxy/default/web/80 DELETE / - - o c "),
    ] {
        let body = if method == "POST" { "body" } else { "" };
        let answer = house.ask(method, &format!("{PODS}/{path}"), &headers, body).await;
        assert_eq!(String::from_utf8_lossy(&answer.bytes), theirs);
        assert_eq!(answer.code, 200, "{path}");
    }
    for (path, code, why) in [
        ("web:81/proxy/", 503, "error trying to reach service: nobody listens"),
        ("none:80/proxy", 404, "pods \"none\" not found"),
        ("free:80/proxy", 400, "pod free does not have a host assigned"),
        ("web:http/proxy", 400, "`http` is not the number of a port of pod web"),
        ("https:web:80/proxy", 400, "only http can be spoken to what is behind this proxy"),
        ("a:b:c:d/proxy", 400, "invalid pod request \"a:b:c:d\""),
        (
            "lost:80/proxy/",
            500,
            "Internal error occurred: error dialing backend: node \"away\" cannot be reached",
        ),
    ] {
        let answer = house.get(&format!("{PODS}/{path}")).await;
        assert_eq!((answer.code, answer.json["message"].as_str().unwrap()), (code, why), "{path}");
    }
}

/// The endpoints of the service `s`, of which one is ready.
fn slice() -> Value {
    json!({
        "metadata": {"name": "s-1", "labels": {"kubernetes.io/service-name": "s"}},
        "addressType": "IPv4",
        "endpoints": [
            {"addresses": ["10.0.0.1"], "conditions": {"ready": false},
             "targetRef": {"kind": "Pod", "name": "two", "namespace": "default"}},
            {"addresses": ["10.0.0.2"], "conditions": {"ready": true},
             "targetRef": {"kind": "Pod", "name": "web", "namespace": "default"}},
        ],
        "ports": [{"name": "web", "port": 9090}],
    })
}

#[tokio::test]
async fn r133_a_service_is_asked_through_a_ready_endpoint() {
    let house = house().await;
    let ports = json!([{"name": "web", "port": 80}, {"name": "more", "port": 81}]);
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": ports}});
    house.made(SERVICES, service).await;
    let get = async |path: &str| house.get(&format!("{SERVICES}/{path}")).await;
    let none = get("s:80/proxy").await;
    assert_eq!(
        (none.code, none.json["message"].as_str().unwrap()),
        (503, "no endpoints available for service \"s\"")
    );
    house.made(SLICES, slice()).await;
    for path in ["s:80/proxy/x", "s:web/proxy/x", "http:s:web/proxy/x"] {
        let answer = get(path).await;
        let said = String::from_utf8_lossy(&answer.bytes).into_owned();
        assert_eq!(said, "/portProxy/default/web/9090 GET /x - - - - ", "{path}");
    }
    for (path, code, why) in [
        ("s:82/proxy", 503, "no service port 82 found for service \"s\""),
        ("s:more/proxy", 503, "no endpoints available for service \"s\""),
        ("none:80/proxy", 404, "services \"none\" not found"),
    ] {
        let answer = get(path).await;
        assert_eq!((answer.code, answer.json["message"].as_str().unwrap()), (code, why), "{path}");
    }
}

#[tokio::test]
async fn r133g_every_method_is_passed_on_and_readers_are_led_to_a_folder() {
    let house = house().await;
    let ports = json!([{"name": "web", "port": 80}]);
    house.made(SERVICES, json!({"metadata": {"name": "s"}, "spec": {"ports": ports}})).await;
    house.made(SLICES, slice()).await;
    for (proxy, place) in
        [(format!("{PODS}/web/proxy"), "web/80"), (format!("{SERVICES}/s:80/proxy"), "web/9090")]
    {
        for method in ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"] {
            let told = |path: &str| match method {
                "HEAD" => String::new(),
                _ => format!("/portProxy/default/{place} {method} {path} - - - - "),
            };
            let deep = format!("/some/path/with/{method}");
            let answer = house.ask(method, &format!("{proxy}{deep}"), &[], "").await;
            assert_eq!((answer.code, answer.text()), (200, &*told(&deep)), "{method} {proxy}");
            let answer = house.ask(method, &format!("{proxy}?method={method}"), &[], "").await;
            if matches!(method, "GET" | "HEAD") {
                assert_eq!((answer.code, answer.text()), (301, ""), "{method} {proxy}");
                assert_eq!(answer.header("location"), format!("{proxy}/?method={method}"));
            } else {
                let told = told(&format!("/?method={method}"));
                assert_eq!((answer.code, answer.text()), (200, &*told), "{method} {proxy}");
            }
        }
        assert_eq!(house.ask("TRACE", &proxy, &[], "").await.code, 405);
    }
    let answer = house.get("/api/v1/nodes/n/proxy").await;
    assert_eq!((answer.code, answer.header("location")), (301, "/api/v1/nodes/n/proxy/"));
}

/// Nodes whose connections stand and say nothing, or fail in ways that tell what is there.
struct Odd;

impl Dialer for Odd {
    fn dial<'a>(&'a self, name: &'a str, _node: &'a Object) -> Connecting<'a> {
        Box::pin(async move {
            match name {
                "mute" => {
                    let (near, far) = tokio::io::duplex(4096);
                    tokio::spawn(async move {
                        let _held = far;
                        std::future::pending::<()>().await;
                    });
                    Ok(Box::new(near) as _)
                }
                "closed" => Err(io::Error::from(io::ErrorKind::ConnectionRefused)),
                _ => Err(io::Error::other("10.0.0.1:22 does not prove that it is a node: SSH")),
            }
        })
    }
}

#[tokio::test]
async fn r133d_what_stands_where_a_node_says_it_is_stays_in_the_log() {
    let house = House::new().await;
    house.api.put_dialer(Arc::new(Odd));
    for node in ["closed", "other"] {
        house.made("/api/v1/nodes", named(node)).await;
        let answer = house.get(&format!("/api/v1/nodes/{node}/proxy/pods")).await;
        let said = answer.fails(500, "InternalError")["message"].to_string();
        assert_eq!(
            said.replace(node, "NODE"),
            "\"Internal error occurred: error dialing backend: node \\\"NODE\\\" cannot be reached\""
        );
    }
}

#[tokio::test]
async fn r133e_neither_a_silent_node_nor_a_slow_sender_is_waited_for_for_ever() {
    let house = House::new().await;
    house.api.put_dialer(Arc::new(Odd));
    house.made("/api/v1/nodes", named("mute")).await;
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    let answer = house.get("/api/v1/nodes/mute/proxy/pods").await;
    answer.fails(500, "InternalError");
    assert!(began.elapsed() < Duration::from_secs(90), "{:?}", began.elapsed());
    let request = Request::builder().method("POST").uri("/api/v1/nodes/mute/proxy/run");
    let request = request.body(crate::http::Silence).unwrap();
    let began = tokio::time::Instant::now();
    let answered = Box::pin(house.api.call(request, admin())).await;
    assert_eq!(answered.status(), 504);
    assert!(began.elapsed() < Duration::from_secs(90), "{:?}", began.elapsed());
}

/// Engines that show one file to whoever gets so far.
struct Shows;

impl tenure_server::engine_api::EngineApi for Shows {
    fn graph(&self, _uids: Vec<String>) -> tenure_server::engine_api::Asking<'_, String> {
        Box::pin(async { String::new() })
    }
    fn settle(
        &self,
        upto: tenure_core::Revision,
    ) -> tenure_server::engine_api::Asking<'_, Result<tenure_core::Revision, String>> {
        Box::pin(async move { Ok(upto) })
    }
    fn health(&self) -> Vec<(&'static str, Result<(), String>)> {
        Vec::new()
    }
    fn volumes(&self, _namespace: &str, _name: &str) -> Option<Value> {
        Some(json!({ "text": "what a ConfigMap holds" }))
    }
    fn metrics(&self) -> String {
        String::new()
    }
}

#[tokio::test]
async fn r162_files_are_shown_to_who_may_read_what_they_are_made_of() {
    let house = House::new().await;
    house.api.put_engines(Arc::new(Shows));
    const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
    let group = "rbac.authorization.k8s.io";
    for (name, rules, place) in [
        ("path", json!([{ "verbs": ["get"], "nonResourceURLs": ["/debug/*"] }]), ""),
        (
            "objects",
            json!([{ "verbs": ["get"], "apiGroups": [""], "resources": ["pods", "configmaps", "secrets"] }]),
            "namespaces/default/",
        ),
    ] {
        let role = json!({ "metadata": { "name": name }, "rules": rules });
        house.made(&format!("{RBAC}/clusterroles"), role).await;
        let kind = if place.is_empty() { "clusterrolebindings" } else { "rolebindings" };
        let subject = |name| json!({ "apiGroup": group, "kind": "User", "name": name });
        let subjects = match name {
            "path" => json!([subject("path"), subject("both")]),
            _ => json!([subject("both")]),
        };
        let binding = json!({
            "metadata": { "name": name }, "subjects": subjects,
            "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": name },
        });
        house.made(&format!("{RBAC}/{place}{kind}"), binding).await;
    }
    for (who, namespace, code) in [
        ("path", "default", 403),
        ("both", "default", 200),
        ("both", "kube-system", 403),
        ("both", "", 403),
    ] {
        let path = format!("/debug/simulated/volumes?namespace={namespace}&pod=p");
        let answer = house.ask_as(&peer(who, &[]), "GET", &path, &[], "").await;
        assert_eq!(answer.code, code, "{who} {namespace:?}: {}", answer.text());
    }
}
