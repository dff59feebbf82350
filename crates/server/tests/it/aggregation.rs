//! Rules of spec/api-server.md: API groups that other servers serve (R131a–R131h), over TLS as they are for users.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tenure_https::{HttpsServer, HttpsSettings, StreamedBody};
use tenure_server::Peer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::house::*;

const API_SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const V1: &str = "/apis/fish.example/v1";
const FISHES: &str = "/apis/fish.example/v1/namespaces/default/fishes";
const NAME: &str = "v1.fish.example";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
/// The longest that something may take which should be at once, on a machine that is busy.
const SOON: Duration = Duration::from_secs(20);

/// What a server was asked.
#[derive(Clone, Debug)]
pub struct Asked {
    pub method: Method,
    pub uri: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// An aggregated API server that runs, with all that it was asked by clients.
pub struct Backend {
    server: HttpsServer,
    asked: Arc<Mutex<Vec<Asked>>>,
}

pub fn resources() -> Value {
    json!({ "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "fish.example/v1",
        "resources": [
            { "name": "fishes", "singularName": "fish", "namespaced": true, "kind": "Fish",
                "verbs": ["create", "delete", "get", "list", "watch"], "shortNames": ["fi"] },
            { "name": "fishes/status", "singularName": "", "namespaced": true, "kind": "Fish",
                "verbs": ["get"] },
        ] })
}

pub fn settings() -> HttpsSettings {
    HttpsSettings {
        names: vec!["fish.default.svc".to_owned()],
        clients: Some(front_proxy().authority_pem),
        ..HttpsSettings::default()
    }
}

pub fn text(code: u16, body: impl Into<Bytes>) -> Response<StreamedBody> {
    let body = Full::new(body.into()).map_err(|never| match never {}).boxed();
    Response::builder().status(code).header("content-type", JSON).body(body).unwrap()
}

/// A body whose parts come when they are sent.
fn streamed(
    parts: tokio::sync::mpsc::UnboundedReceiver<io::Result<Bytes>>,
) -> Response<StreamedBody> {
    let parts = stream::unfold(parts, |mut parts| async {
        let part = parts.recv().await?;
        Some((part.map(Frame::data), parts))
    });
    Response::new(BodyExt::boxed(StreamBody::new(parts)))
}

impl Backend {
    /// Serves its discovery, and everything else in this way.
    pub async fn start<F, A>(settings: HttpsSettings, answer: F) -> Backend
    where
        F: Fn(Asked) -> A + Send + Sync + 'static,
        A: Future<Output = Response<StreamedBody>> + Send + 'static,
    {
        let answer = Arc::new(answer);
        Backend::raw(settings, move |request, asked| {
            let answer = Arc::clone(&answer);
            async move {
                let (parts, body) = request.into_parts();
                let Ok(body) = body.collect().await else { return text(400, "") };
                let one = Asked {
                    method: parts.method,
                    uri: parts.uri.path_and_query().unwrap().to_string(),
                    headers: parts.headers,
                    body: body.to_bytes(),
                };
                let checks = one
                    .headers
                    .get("x-remote-user")
                    .is_some_and(|user| user == "system:kube-aggregator");
                if checks && one.uri == V1 {
                    return text(200, resources().to_string());
                }
                if checks {
                    return text(404, "");
                }
                asked.lock().unwrap().push(one.clone());
                answer(one).await
            }
        })
        .await
    }

    async fn raw<F, A>(settings: HttpsSettings, answer: F) -> Backend
    where
        F: Fn(Request<Incoming>, Arc<Mutex<Vec<Asked>>>) -> A + Send + Sync + 'static,
        A: Future<Output = Response<StreamedBody>> + Send + 'static,
    {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&asked);
        let server =
            HttpsServer::streaming(settings, move |request| answer(request, Arc::clone(&noted)))
                .await;
        Backend { server, asked }
    }

    /// A server that answers everything with `{}`.
    async fn plain() -> Backend {
        Backend::start(settings(), |_| async { text(200, "{}") }).await
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    fn api_service(&self) -> Value {
        json!({ "metadata": { "name": NAME }, "spec": {
            "group": "fish.example", "version": "v1", "groupPriorityMinimum": 2000,
            "versionPriority": 10, "caBundle": STANDARD.encode(&self.server.authority),
            "service": { "namespace": "default", "name": "fish", "port": self.server.address.port() },
        } })
    }

    /// Registers it: a Service that leads to this machine, and its APIService.
    async fn register(&self, house: &House) {
        house.made(SERVICES, service()).await;
        house.made(API_SERVICES, self.api_service()).await;
    }

    /// As [`Backend::register`]; it is available afterwards.
    pub async fn serve(&self, house: &House) {
        self.register(house).await;
        says(house, "True", "Passed").await;
    }
}

fn service() -> Value {
    json!({ "metadata": { "name": "fish" },
        "spec": { "type": "ExternalName", "externalName": "localhost" } })
}

/// Waits until an APIService says so of itself.
async fn says(house: &House, status: &str, reason: &str) -> Value {
    let path = format!("{API_SERVICES}/{NAME}");
    let begin = Instant::now();
    loop {
        let condition = house.get(&path).await.with(200)["status"]["conditions"][0].clone();
        if condition["status"] == status && condition["reason"] == reason {
            return condition;
        }
        assert!(begin.elapsed() < SOON, "{condition}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Lets somebody do this with fishes, and nothing else.
async fn may(house: &House, user: &str, verbs: &[&str]) -> Peer {
    const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
    let role = json!({ "metadata": { "name": user }, "rules": [
        { "apiGroups": ["fish.example"], "resources": ["*"], "verbs": verbs }] });
    house.made(&format!("{RBAC}/clusterroles"), role).await;
    let binding = json!({ "metadata": { "name": user },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user }] });
    house.made(&format!("{RBAC}/clusterrolebindings"), binding).await;
    peer(user, &["anglers"])
}

fn of(headers: &HeaderMap, name: &str) -> Vec<String> {
    let all = headers.get_all(name).iter();
    all.map(|value| value.to_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn r131a_requests_are_authorized_here_and_answered_there() {
    let house = House::new().await;
    let backend = Backend::start(settings(), |asked| async move {
        match asked.method {
            Method::POST => text(201, asked.body),
            _ => text(404, r#"{"kind":"Status","reason":"NotFound","code":404}"#),
        }
    })
    .await;
    backend.serve(&house).await;
    let angler = may(&house, "angler", &["create", "get"]).await;
    let body = json!({ "kind": "Fish", "metadata": { "name": "a" } }).to_string();
    let headers = [("content-type", "application/json; odd=1")];
    let path = format!("{FISHES}?dryRun=All");
    let made = house.ask_as(&angler, "POST", &path, &headers, body.clone()).await;
    assert_eq!((made.code, made.json["kind"].as_str()), (201, Some("Fish")));
    let found = house.ask_as(&angler, "GET", &format!("{FISHES}/a/status"), &[], "").await;
    assert_eq!((found.code, found.json["reason"].as_str()), (404, Some("NotFound")));
    let refused = house.ask_as(&angler, "DELETE", &format!("{FISHES}/a"), &[], "").await;
    assert_eq!(refused.code, 403, "{}", refused.json);
    let [created, read] = backend.asked().try_into().unwrap();
    assert_eq!((created.method, created.uri), (Method::POST, format!("{FISHES}?dryRun=All")));
    assert_eq!(created.body, body);
    assert_eq!(created.headers["content-type"], "application/json; odd=1");
    assert_eq!(read.uri, format!("{FISHES}/a/status"));
    // A version that nobody registered is nobody's.
    house.get("/apis/fish.example/v2/fishes").await.with(404);
}

#[tokio::test]
async fn r131a_an_api_service_takes_effect_and_ends_with_its_acknowledged_write() {
    let house = House::new().await;
    let backend = Backend::plain().await;
    house.get(FISHES).await.with(404);
    backend.register(&house).await;
    // It is passed on or refused for want of an answer, but nobody says that there is no such thing.
    assert_ne!(house.get(FISHES).await.code, 404);
    assert_eq!(house.get("/apis/fish.example").await.with(200)["versions"][0]["version"], "v1");
    says(&house, "True", "Passed").await;
    house.get(FISHES).await.with(200);
    house.delete(&format!("{API_SERVICES}/{NAME}")).await.with(200);
    house.get(FISHES).await.with(404);
    house.get("/apis/fish.example").await.with(404);
}

#[tokio::test]
async fn r131b_who_asks_is_said_by_this_server_alone() {
    let house = House::new().await;
    let backend = Backend::plain().await;
    backend.serve(&house).await;
    let angler = may(&house, "angler", &["get", "list"]).await;
    let spoofed = [
        ("x-remote-user", "kubernetes-admin"),
        ("X-Remote-Group", "system:masters"),
        ("x_remote_group", "system:masters"),
        ("x-remote-extra-a", "b"),
        ("x-remote-uid", "0"),
        ("x-forwarded-for", "10.0.0.1"),
        ("connection", "x-remote-user"),
        ("audit-id", "mine"),
    ];
    house.ask_as(&angler, "GET", FISHES, &spoofed, "").await.with(200);
    let acting = [("impersonate-user", "jane"), ("impersonate-group", "g")];
    house.ask("GET", FISHES, &acting, "").await.fails(403, "Forbidden");
    may(&house, "jane", &["list"]).await;
    house.ask("GET", FISHES, &acting, "").await.with(200);
    let [plain, acted] = backend.asked().try_into().unwrap();
    assert_eq!(of(&plain.headers, "x-remote-user"), ["angler"]);
    assert_eq!(of(&plain.headers, "x-remote-group"), ["anglers", "system:authenticated"]);
    assert_eq!(of(&plain.headers, "audit-id"), ["mine"]);
    for name in ["x_remote_group", "x-remote-extra-a", "x-remote-uid", "x-forwarded-for"] {
        assert!(of(&plain.headers, name).is_empty(), "{name}");
    }
    assert_eq!(of(&acted.headers, "x-remote-user"), ["jane"]);
    assert_eq!(of(&acted.headers, "x-remote-group"), ["g", "system:authenticated"]);
    assert!(acted.headers.keys().all(|name| !name.as_str().starts_with("impersonate-")));
}

#[tokio::test]
async fn r131b_a_token_stays_here() {
    let house = House::new().await;
    let backend = Backend::plain().await;
    backend.serve(&house).await;
    let token = "/api/v1/namespaces/default/serviceaccounts/default/token";
    let token = house.post(token, json!({ "spec": { "audiences": [] } })).await.with(201);
    let token = format!("Bearer {}", token["status"]["token"].as_str().unwrap());
    let account = "system:serviceaccount:default:default";
    may(&house, account, &["list"]).await;
    let nobody = Peer::new(None);
    let headers = [("authorization", token.as_str())];
    house.ask_as(&nobody, "GET", FISHES, &headers, "").await.with(200);
    let [asked] = backend.asked().try_into().unwrap();
    assert_eq!(of(&asked.headers, "x-remote-user"), [account]);
    assert!(!of(&asked.headers, "x-remote-uid").is_empty());
    assert!(of(&asked.headers, "authorization").is_empty());
}

#[tokio::test]
async fn r131b_a_path_that_two_readers_read_differently_is_not_passed_on() {
    let house = House::new().await;
    let backend = Backend::plain().await;
    backend.serve(&house).await;
    for path in [
        "/apis/fish.example/v1/../v2/fishes",
        "/apis/fish.example/v1/%2e%2e/%2e%2e/x",
        "/apis/fish.example/v1//fishes",
        "/apis/fish.example/v1/fishes/a%00b",
    ] {
        house.get(path).await.fails(400, "BadRequest");
    }
    assert!(backend.asked().is_empty());
    for method in ["TRACE", "CONNECT"] {
        assert_eq!(house.ask(method, FISHES, &[], "").await.code, 405, "{method}");
    }
    house.get("/apis/fish.example/v1/fishes?labelSelector=a%3Db;c&limit=1").await.with(200);
    let [asked] = backend.asked().try_into().unwrap();
    assert_eq!(asked.uri, "/apis/fish.example/v1/fishes?limit=1");
}

#[tokio::test]
async fn r131c_answers_come_as_they_are_and_nobody_is_sent_elsewhere() {
    let house = House::new().await;
    let backend = Backend::start(settings(), |asked| async move {
        let mut answer = text(200, "not json \u{1}");
        let headers = answer.headers_mut();
        headers.insert("content-type", "application/vnd.example".parse().unwrap());
        headers.insert("warning", "299 - \"old\"".parse().unwrap());
        if asked.uri.ends_with("elsewhere") {
            headers.insert("location", "https://169.254.169.254/".parse().unwrap());
            *answer.status_mut() = StatusCode::FOUND;
        }
        answer
    })
    .await;
    backend.serve(&house).await;
    let answer = house.get(FISHES).await;
    assert_eq!((answer.code, &answer.bytes[..]), (200, &b"not json \x01"[..]));
    assert_eq!(answer.headers["content-type"], "application/vnd.example");
    assert_eq!(answer.headers["warning"], "299 - \"old\"");
    let sent = house.get(&format!("{FISHES}/elsewhere")).await;
    assert_eq!(sent.code, 502);
    assert!(!sent.headers.contains_key("location"));
}

#[tokio::test]
async fn r131c_watches_are_passed_on_event_by_event() {
    let house = House::new().await;
    let (sender, receiver) = tokio::sync::mpsc::unbounded_channel::<io::Result<Bytes>>();
    let receiver = Arc::new(Mutex::new(Some(receiver)));
    let backend = Backend::start(settings(), move |_| {
        let receiver = receiver.lock().unwrap().take();
        async move {
            let Some(receiver) = receiver else { return text(500, "") };
            streamed(receiver)
        }
    })
    .await;
    backend.serve(&house).await;
    let angler = may(&house, "angler", &["watch"]).await;
    let request = Request::get(format!("{FISHES}?watch=true")).body(Full::default()).unwrap();
    let mut watch = house.send(&angler, request).await;
    assert_eq!(watch.status(), 200);
    for event in [r#"{"type":"ADDED"}"#, r#"{"type":"DELETED"}"#] {
        sender.send(Ok(Bytes::from(event))).unwrap();
        let frame = tokio::time::timeout(SOON, watch.body_mut().frame()).await.unwrap();
        assert_eq!(frame.unwrap().unwrap().into_data().unwrap(), event);
    }
    // It ends with the right to it, whatever is still to come.
    house.delete("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/angler").await.with(200);
    assert!(tokio::time::timeout(SOON, watch.body_mut().frame()).await.unwrap().is_none());
    drop(sender);
}

#[tokio::test]
async fn r131c_a_body_is_passed_on_while_it_comes() {
    let house = House::new().await;
    let backend = Backend::raw(settings(), |request, _| async move {
        if request.method() == Method::GET {
            return text(200, resources().to_string());
        }
        let first = request.into_body().frame().await;
        let first = first.and_then(Result::ok).and_then(|frame| frame.into_data().ok());
        text(200, first.unwrap_or_default())
    })
    .await;
    backend.serve(&house).await;
    let (sender, parts) = tokio::sync::mpsc::unbounded_channel();
    sender.send(Ok(Bytes::from_static(b"first"))).unwrap();
    let request = Request::post(FISHES).body(streamed(parts).into_body()).unwrap();
    // The rest never comes.
    let answered = tokio::time::timeout(SOON, Box::pin(house.api.call(request, admin()))).await;
    let answered = answered.unwrap();
    assert_eq!(answered.status(), 200);
    assert_eq!(answered.into_body().collect().await.unwrap().to_bytes(), "first");
    drop(sender);
}

#[tokio::test]
async fn r131c_a_server_that_hangs_or_resets_costs_nobody_else() {
    let house = House::new().await;
    let backend = Backend::start(settings(), |asked| async move {
        if asked.uri.contains("hangs") {
            std::future::pending::<()>().await;
        }
        if asked.uri.ends_with("breaks") {
            let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
            tokio::spawn(async move {
                sender.send(Ok(Bytes::from_static(b"{\"items\":["))).unwrap();
                tokio::time::sleep(Duration::from_millis(200)).await;
                let _ = sender.send(Err(io::Error::other("broken")));
            });
            return streamed(receiver);
        }
        text(200, "{}")
    })
    .await;
    backend.serve(&house).await;
    let hanging = format!("{FISHES}/hangs?timeout=300ms");
    let many = stream::iter(0..50).map(|_| house.get(&hanging)).buffer_unordered(50);
    let many = many.collect::<Vec<_>>();
    let other = async {
        house.made(CONFIG_MAPS, named("meanwhile")).await;
        house.get(&format!("{FISHES}/works")).await.with(200);
    };
    let (late, ()) = tokio::join!(many, other);
    assert!(late.iter().all(|answer| answer.code == 504), "{late:?}");
    // A part is never taken for the whole.
    let request = Request::get(format!("{FISHES}/breaks")).body(Full::default()).unwrap();
    let broken = house.send(admin(), request).await;
    assert_eq!(broken.status(), 200);
    assert!(broken.into_body().collect().await.is_err());
    // Gone altogether.
    drop(backend);
    let gone = house.get(&format!("{FISHES}/a")).await;
    assert_eq!(gone.code, 503);
    assert!(gone.bytes.starts_with(b"error trying to reach service: "), "{:?}", gone.bytes);
}

#[tokio::test]
async fn r131c_connections_that_become_something_else_are_carried() {
    let house = House::new().await;
    let backend = Backend::raw(settings(), |mut request, _| async move {
        if !request.headers().contains_key("upgrade") {
            return text(200, resources().to_string());
        }
        let upgrade = hyper::upgrade::on(&mut request);
        tokio::spawn(async move {
            let mut wire = TokioIo::new(upgrade.await.unwrap());
            let mut word = [0; 4];
            wire.read_exact(&mut word).await.unwrap();
            wire.write_all(&word).await.unwrap();
        });
        let mut answer = text(101, "");
        answer.headers_mut().insert("connection", "upgrade".parse().unwrap());
        answer.headers_mut().insert("upgrade", "echo".parse().unwrap());
        answer
    })
    .await;
    backend.serve(&house).await;
    let (ours, theirs) = tokio::io::duplex(1024);
    let api = Arc::clone(&house.api);
    let serving = hyper::service::service_fn(move |request: Request<Incoming>| {
        let api = Arc::clone(&api);
        async move { Ok::<_, std::convert::Infallible>(api.call(request, admin()).await) }
    });
    tokio::spawn(async move {
        let http = hyper::server::conn::http1::Builder::new();
        http.serve_connection(TokioIo::new(theirs), serving).with_upgrades().await
    });
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(ours)).await.unwrap();
    tokio::spawn(connection.with_upgrades());
    let request = Request::post(format!("{FISHES}/a/exec"))
        .header("connection", "Upgrade")
        .header("upgrade", "echo")
        .header("host", "here")
        .body(Full::<Bytes>::default())
        .unwrap();
    let mut answer = sender.send_request(request).await.unwrap();
    assert_eq!(answer.status(), 101);
    let mut wire = TokioIo::new(hyper::upgrade::on(&mut answer).await.unwrap());
    wire.write_all(b"ping").await.unwrap();
    let mut word = [0; 4];
    tokio::time::timeout(SOON, wire.read_exact(&mut word)).await.unwrap().unwrap();
    assert_eq!(&word, b"ping");
}

#[tokio::test]
async fn r131d_servers_learn_how_to_know_who_asks() {
    let house = House::new().await;
    let path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    let data = house.get(path).await.with(200)["data"].clone();
    for (key, value) in [
        ("client-ca-file", "the authority of clients"),
        ("requestheader-client-ca-file", &front_proxy().authority_pem),
        ("requestheader-allowed-names", r#"["front-proxy-client"]"#),
        ("requestheader-username-headers", r#"["X-Remote-User"]"#),
        ("requestheader-uid-headers", r#"["X-Remote-Uid"]"#),
        ("requestheader-group-headers", r#"["X-Remote-Group"]"#),
        ("requestheader-extra-headers-prefix", r#"["X-Remote-Extra-"]"#),
    ] {
        assert_eq!(data[key], value, "{key}");
    }
    let forged = json!({ "data": { "requestheader-client-ca-file": "mine" } });
    house.merge(path, forged).await.with(200);
    house.until_looks(path, |now| now["data"] == data).await;
    // This server takes such headers from nobody.
    let headers = [("x-remote-user", "kubernetes-admin"), ("x-remote-group", "system:masters")];
    let nobody = Peer::new(None);
    assert_eq!(house.ask_as(&nobody, "GET", CONFIG_MAPS, &headers, "").await.code, 403);
}

#[tokio::test]
async fn r131e_a_server_is_available_when_all_on_the_way_to_it_is() {
    let house = House::new().await;
    let backend = Backend::plain().await;
    house.made(API_SERVICES, backend.api_service()).await;
    let missing = says(&house, "False", "ServiceNotFound").await;
    assert_eq!(missing["message"], "service/fish in \"default\" is not present");
    let unavailable = house.get(FISHES).await;
    assert_eq!((unavailable.code, &unavailable.bytes[..]), (503, &b"service unavailable\n"[..]));
    let port = backend.server.address.port();
    let other = json!({ "metadata": { "name": "fish" }, "spec": { "ports": [{ "port": 1 }] } });
    house.made(SERVICES, other).await;
    says(&house, "False", "ServicePortError").await;
    let path = format!("{SERVICES}/fish");
    house.merge(&path, json!({ "spec": { "ports": [{ "port": port }] } })).await.with(200);
    says(&house, "False", "EndpointsNotFound").await;
    const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let slice = json!({ "metadata": { "name": "fish", "labels": { "kubernetes.io/service-name": "fish" } },
        "addressType": "IPv4", "endpoints": [{ "addresses": ["192.0.2.1"], "conditions": { "ready": false } }],
        "ports": [{ "name": "", "port": port }] });
    house.made(SLICES, slice).await;
    says(&house, "False", "MissingEndpoints").await;
    house.delete(&path).await.with(200);
    says(&house, "False", "ServiceNotFound").await;
    house.made(SERVICES, service()).await;
    says(&house, "True", "Passed").await;
    house.get(FISHES).await.with(200);
    // Taken back, the group is served here again, which it is not.
    house
        .merge(
            &format!("{API_SERVICES}/{NAME}"),
            json!({ "spec": { "service": null, "caBundle": null } }),
        )
        .await
        .with(200);
    says(&house, "True", "Local").await;
    house.get(FISHES).await.with(404);
}

#[tokio::test]
async fn r131e_only_the_server_that_is_meant_counts() {
    let house = House::new().await;
    let names = vec!["other.default.svc".to_owned()];
    let backend =
        Backend::start(HttpsSettings { names, ..settings() }, |_| async { text(200, "{}") });
    let backend = backend.await;
    backend.register(&house).await;
    says(&house, "False", "FailedDiscoveryCheck").await;
    let path = format!("{API_SERVICES}/{NAME}");
    let unchecked = json!({ "spec": { "caBundle": null, "insecureSkipTLSVerify": true } });
    house.merge(&path, unchecked).await.with(200);
    says(&house, "True", "Passed").await;
    let stranger = json!({ "spec": { "insecureSkipTLSVerify": false,
        "caBundle": STANDARD.encode(front_proxy().authority_pem) } });
    house.merge(&path, stranger).await.with(200);
    says(&house, "False", "FailedDiscoveryCheck").await;
    assert_eq!(house.get(FISHES).await.code, 503);
    assert!(backend.asked().is_empty());
}

#[tokio::test]
async fn r131f_discovery_names_what_others_serve() {
    let house = House::new().await;
    let rubbish = Arc::new(Mutex::new(None::<Vec<u8>>));
    let said = Arc::clone(&rubbish);
    let backend = Backend::raw(settings(), move |request, _| {
        let rubbish = said.lock().unwrap().clone();
        async move {
            match (request.uri().path(), rubbish) {
                (V1, Some(rubbish)) => text(200, rubbish),
                (V1, None) => text(200, resources().to_string()),
                ("/openapi/v3", _) => text(
                    200,
                    json!({ "paths": { "apis/fish.example/v1": {
                    "serverRelativeURL": "/openapi/v3/apis/fish.example/v1?hash=ABC" } } })
                    .to_string(),
                ),
                ("/openapi/v2", _) => text(
                    200,
                    json!({ "swagger": "2.0", "paths": {
                        "/apis/fish.example/v1/fishes": { "get": { "responses": { "200": {
                            "description": "OK", "schema": { "$ref": "#/definitions/Fish" } } } } },
                        "/api/v1/secrets": {},
                    }, "definitions": { "Fish": { "type": "object" }, "Bait": {} } })
                    .to_string(),
                ),
                ("/openapi/v3/apis/fish.example/v1", _) => text(200, r#"{"openapi":"3.0.0"}"#),
                _ => text(404, ""),
            }
        }
    })
    .await;
    backend.serve(&house).await;
    assert_eq!(house.get(V1).await.with(200), resources());
    let names = |list: &Value, of: fn(&Value) -> &Value| -> Vec<String> {
        let all = list.as_array().unwrap().iter();
        all.map(|group| of(group).as_str().unwrap().to_owned()).collect()
    };
    let groups = house.get("/apis").await.with(200);
    let groups = names(&groups["groups"], |group| &group["name"]);
    assert_eq!(groups.first().unwrap(), "apiregistration.k8s.io");
    assert_eq!(groups.last().unwrap(), "fish.example");
    let version = || async {
        let all = house.get_as("/apis", AGGREGATED).await.with(200);
        let mut all = all["items"].as_array().unwrap().clone();
        all.retain(|group| group["metadata"]["name"] == "fish.example");
        all[0]["versions"][0].clone()
    };
    let found = version().await;
    assert_eq!((&found["freshness"], &found["version"]), (&json!("Current"), &json!("v1")));
    assert_eq!(found["resources"][0]["resource"], "fishes");
    assert_eq!(found["resources"][0]["subresources"][0]["subresource"], "status");
    let index = house.get("/openapi/v3").await.with(200);
    let to = index["paths"]["apis/fish.example/v1"]["serverRelativeURL"].as_str().unwrap();
    assert_eq!(to, "/openapi/v3/apis/fish.example/v1?hash=ABC");
    assert_eq!(house.get(to).await.with(200)["openapi"], "3.0.0");
    let older = house.get("/openapi/v2").await.with(200);
    assert!(older["paths"]["/apis/fish.example/v1/fishes"]["get"].is_object());
    assert!(
        older["paths"]["/api/v1/secrets"].is_null()
            || older["paths"]["/api/v1/secrets"]["get"].is_object()
    );
    assert_eq!(older["definitions"]["Fish"]["type"], "object");
    assert!(older["definitions"]["Bait"].is_null());
    // Rubbish, or more than anybody reads, is not taken over.
    let touched = |n: usize| json!({ "spec": { "versionPriority": n } });
    let path = format!("{API_SERVICES}/{NAME}");
    for (n, said) in
        [b"\xff{".to_vec(), b"[]".to_vec(), vec![b' '; 4 << 20]].into_iter().enumerate()
    {
        *rubbish.lock().unwrap() = Some(said);
        let before = backend.server.requests();
        house.merge(&path, touched(n + 20)).await.with(200);
        let begin = Instant::now();
        // Two requests are a whole look, or one and a half of one that fails.
        while backend.server.requests() < before + 2 {
            assert!(begin.elapsed() < SOON);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        for _ in 0..5 {
            let found = version().await;
            assert_eq!((found.get("resources"), &found["freshness"]), (None, &json!("Stale")));
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    says(&house, "False", "FailedDiscoveryCheck").await;
}

#[tokio::test]
async fn r131g_what_is_served_here_has_api_services_of_its_own() {
    let house = House::new().await;
    let all = house.get(API_SERVICES).await.with(200);
    let names = names(&all);
    for name in ["v1.", "v1.apps", "v2.autoscaling", "v1.rbac.authorization.k8s.io"] {
        assert!(names.contains(&name), "{name}");
    }
    assert!(!names.contains(&"v1.apiregistration.k8s.io"));
    let apps = house.get(&format!("{API_SERVICES}/v1.apps")).await.with(200);
    let managed = &apps["metadata"]["labels"]["kube-aggregator.kubernetes.io/automanaged"];
    assert_eq!(managed, "onstart");
    assert_eq!(apps["status"]["conditions"][0]["reason"], "Local");
    // What the core of the API is cannot be given away.
    let given = json!({ "spec": { "service": { "namespace": "default", "name": "fish" } } });
    let answer = house.merge(&format!("{API_SERVICES}/v1."), given).await;
    assert!(answer.headers["warning"].to_str().unwrap().contains("always served here"));
    house.get(CONFIG_MAPS).await.with(200);
}

fn definition(served: bool) -> Value {
    let schema = json!({ "openAPIV3Schema": { "type": "object" } });
    json!({ "metadata": { "name": "fishes.fish.example" }, "spec": {
        "group": "fish.example", "scope": "Namespaced",
        "names": { "plural": "fishes", "singular": "fish", "kind": "Fish" },
        "versions": [
            { "name": "v1", "served": served, "storage": true, "schema": schema },
            { "name": "v2", "served": true, "storage": false, "schema": schema },
        ] } })
}

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

#[tokio::test]
async fn r131g_definitions_are_registered_for_as_long_as_they_serve_a_version() {
    let house = House::new().await;
    house.made(CRDS, definition(true)).await;
    let path = format!("{API_SERVICES}/{NAME}");
    let made = house.until_looks(&path, |one| one["metadata"]["uid"].is_string()).await;
    let managed = &made["metadata"]["labels"]["kube-aggregator.kubernetes.io/automanaged"];
    assert_eq!((managed, &made["spec"]["groupPriorityMinimum"]), (&json!("true"), &json!(1000)));
    // Put right while it is managed.
    let backend = Backend::plain().await;
    house.made(SERVICES, service()).await;
    let taken = json!({ "spec": backend.api_service()["spec"] });
    house.merge(&path, taken.clone()).await.with(200);
    house.until_looks(&path, |one| one["spec"].get("service").is_none()).await;
    // The name is taken: whoever wants the version has to take it over.
    house.post(API_SERVICES, backend.api_service()).await.fails(409, "AlreadyExists");
    let label = json!({ "kube-aggregator.kubernetes.io/automanaged": null });
    let mut taken = taken;
    taken["metadata"]["labels"] = label;
    house.merge(&path, taken).await.with(200);
    says(&house, "True", "Passed").await;
    house.get(FISHES).await.with(200);
    assert_eq!(backend.asked().len(), 1);
    let version = "/apis/fish.example/v2/namespaces/default/fishes";
    assert_eq!(house.get(version).await.with(200)["kind"], "FishList");
    // The end of the definition is not the end of what somebody else registered.
    house.delete(&format!("{CRDS}/fishes.fish.example")).await.with(200);
    house.until(&format!("{API_SERVICES}/v2.fish.example"), 404).await;
    house.get(&path).await.with(200);
}

#[tokio::test]
async fn r131g_whoever_registers_a_version_first_keeps_it() {
    let house = House::new().await;
    let backend = Backend::plain().await;
    backend.serve(&house).await;
    house.made(CRDS, definition(true)).await;
    house.until(&format!("{API_SERVICES}/v2.fish.example"), 200).await;
    house.get(FISHES).await.with(200);
    assert_eq!(backend.asked().len(), 1);
    house.delete(&format!("{API_SERVICES}/{NAME}")).await.with(200);
    house.until(&format!("{API_SERVICES}/{NAME}"), 200).await;
    assert_eq!(house.get(FISHES).await.with(200)["kind"], "FishList");
}
