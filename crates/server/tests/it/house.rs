//! A whole API server without a socket, and short ways to talk to it. No test lives here.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt, Full};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use tenure_core::Revision;
use tenure_kinds::downward::Downward;
use tenure_kinds::retention::RetentionOptions;
use tenure_server::admit::{AdmissionPlugins, DynamicAdmission, OwnerChecks, ServiceRange};
use tenure_server::authenticate::fixed::AuthenticationOptions;
use tenure_server::reference::{self, AuthorizerMode, ReferenceOptions};
use tenure_server::rules::SchemaRuleEngine;
use tenure_server::{
    ApiConfig, ApiServer, AuditSink, AuthorizerChain, Body, CertifiedKey, FrontProxy, Peer,
    ServedKinds, ServerLimits, bootstrap,
};
use tenure_store::MemoryLog;
use tenure_token::KeySet;
use tenure_world::{Change, LockStep, World, WorldHandle, WorldOptions};
use tokio::sync::watch;

/// The longest a test waits for something that should happen at once.
const PATIENCE: Duration = Duration::from_secs(10);

pub const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub const PODS: &str = "/api/v1/namespaces/default/pods";
pub const SECRETS: &str = "/api/v1/namespaces/default/secrets";
pub const SERVICES: &str = "/api/v1/namespaces/default/services";
pub const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
pub const NAMESPACES: &str = "/api/v1/namespaces";
pub const JSON: &str = "application/json";
pub const JSON_PATCH: &str = "application/json-patch+json";
pub const MERGE: &str = "application/merge-patch+json";
pub const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// What a house may have that others have not.
struct Plan {
    token_keys: KeySet,
    audit: Option<Arc<AuditSink>>,
    owners: OwnerChecks,
    collects_garbage: bool,
    history_bytes: u64,
    quota: Option<u64>,
    queue: usize,
    limits: ServerLimits,
    retention: RetentionOptions,
    references: ReferenceOptions,
    /// Groups of built-in kinds that are not served.
    left_out: &'static [&'static str],
    authentication: AuthenticationOptions,
    plugins: AdmissionPlugins,
    lags: bool,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            token_keys: new_keys(),
            audit: None,
            owners: OwnerChecks::default(),
            collects_garbage: false,
            history_bytes: WorldOptions::default().history_bytes,
            quota: None,
            queue: WorldOptions::default().queue,
            limits: ServerLimits::default(),
            retention: RetentionOptions::default(),
            references: ReferenceOptions::default(),
            left_out: &[],
            authentication: AuthenticationOptions::default(),
            plugins: AdmissionPlugins::default(),
            lags: false,
        }
    }
}

/// An index that is always one commit behind: what tests of revocation must find out.
struct Late {
    index: Box<dyn LockStep>,
    held: Vec<Arc<Change>>,
}

impl LockStep for Late {
    fn start(&mut self, world: &World) {
        self.index.start(world);
    }

    fn apply(&mut self, world: &World, changes: &[Arc<Change>]) {
        self.index.apply(world, &std::mem::replace(&mut self.held, changes.to_vec()));
    }
}

/// An API server with its followers; ends when it is dropped.
pub struct House {
    pub api: Arc<ApiServer>,
    pub world: WorldHandle,
    kinds: Arc<ServedKinds>,
    access: Arc<AuthorizerChain>,
    admission: Arc<DynamicAdmission>,
    stop: watch::Sender<bool>,
}

/// A response, read whole.
#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    pub headers: HeaderMap,
    pub bytes: Bytes,
    /// Null if the body is no JSON.
    pub json: Value,
}

impl Drop for House {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
    }
}

/// Who asks: a member of these groups, known by certificate.
pub fn peer(name: &str, groups: &[&str]) -> Peer {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    // A name holds one value of each type, so a second group comes under the type's number.
    let kinds = [DnType::OrganizationName, DnType::CustomDnType(vec![2, 5, 4, 10])];
    assert!(groups.len() <= kinds.len(), "more groups than a certificate of rcgen holds");
    for (kind, group) in kinds.into_iter().zip(groups) {
        params.distinguished_name.push(kind, *group);
    }
    let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
    Peer::new(Some(certificate.der()))
}

/// The administrator.
pub fn admin() -> &'static Peer {
    static ADMIN: OnceLock<Peer> = OnceLock::new();
    ADMIN.get_or_init(|| peer("kubernetes-admin", &["system:masters"]))
}

/// As whom servers of other API groups know the server of a test.
pub fn front_proxy() -> FrontProxy {
    static MADE: OnceLock<FrontProxy> = OnceLock::new();
    let make = || {
        let (key, own) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, "front-proxy-ca");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority_pem = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, "front-proxy-client");
        let chain = params.signed_by(&own, &issuer).unwrap().pem().into_bytes();
        let identity = CertifiedKey { chain, key: own.serialize_pem().into_bytes() };
        FrontProxy { authority_pem, name: "front-proxy-client", identity }
    };
    MADE.get_or_init(make).clone()
}

/// A new key for tokens.
fn new_keys() -> KeySet {
    KeySet::from_pem(&KeyPair::generate().unwrap().serialize_pem(), &[]).unwrap()
}

impl House {
    /// A ready server over an empty memory.
    pub async fn new() -> House {
        House::built(Plan::default()).await
    }

    /// As [`House::new`], with these keys for tokens and this audit log.
    pub async fn with(token_keys: KeySet, audit: Option<Arc<AuditSink>>) -> House {
        House::built(Plan { token_keys, audit, ..Plan::default() }).await
    }

    /// A server that expects a collector, which does not run here.
    pub async fn collecting() -> House {
        House::built(Plan { collects_garbage: true, ..Plan::default() }).await
    }

    /// As [`House::collecting`], with this audit log, and so many bytes of the past for those who follow.
    pub async fn followed(audit: Option<Arc<AuditSink>>, history_bytes: u64) -> House {
        let collects_garbage = true;
        House::built(Plan { collects_garbage, audit, history_bytes, ..Plan::default() }).await
    }

    /// A server whose objects may have so many bytes.
    pub async fn bounded(quota: u64) -> House {
        House::built(Plan { quota: Some(quota), ..Plan::default() }).await
    }

    /// A server whose sequencer has room for so many writes that wait.
    pub async fn narrow(queue: usize) -> House {
        House::built(Plan { queue, ..Plan::default() }).await
    }

    /// A server on which so much runs at a time.
    pub async fn limited(limits: ServerLimits) -> House {
        House::built(Plan { limits, ..Plan::default() }).await
    }

    /// A server that treats owner references in another way.
    pub async fn checking(owners: OwnerChecks) -> House {
        House::built(Plan { owners, ..Plan::default() }).await
    }

    /// A server that treats the opt-in to retention in another way.
    pub async fn retaining(retention: RetentionOptions) -> House {
        House::built(Plan { retention, ..Plan::default() }).await
    }

    /// A server that treats references in another way.
    pub async fn referring(references: ReferenceOptions) -> House {
        House::built(Plan { references, ..Plan::default() }).await
    }

    /// A server without the kinds of references.
    pub async fn without_references() -> House {
        let references =
            ReferenceOptions { authorizer: AuthorizerMode::Off, ..ReferenceOptions::default() };
        House::built(Plan { references, left_out: &reference::GROUPS, ..Plan::default() }).await
    }

    /// A server with some admission plugins on that are off elsewhere, and others off.
    pub async fn switching(on: &[&str], off: &[&str]) -> House {
        let plugins = AdmissionPlugins::read(on.iter().copied(), off.iter().copied()).unwrap();
        House::built(Plan { plugins, ..Plan::default() }).await
    }

    /// A server that knows its users in another way.
    pub async fn knowing(authentication: AuthenticationOptions) -> House {
        House::built(Plan { authentication, ..Plan::default() }).await
    }

    /// A server that learns of references one commit too late.
    pub async fn lagging() -> House {
        House::built(Plan { lags: true, ..Plan::default() }).await
    }

    /// Another server over the same world, with other features of the downward API.
    pub fn twin(&self, downward: Downward) -> House {
        let (stop, stopping) = watch::channel(false);
        let api = ApiServer::new(ApiConfig {
            world: self.world.clone(),
            kinds: Arc::clone(&self.kinds),
            access: Arc::clone(&self.access),
            token_keys: new_keys(),
            audit: None,
            authority_pem: "the authority".into(),
            front_proxy: None,
            client_authority_pem: "the authority of clients".into(),
            authentication: AuthenticationOptions::default(),
            plugins: AdmissionPlugins::default(),
            service_range: ServiceRange::default(),
            address: ([127, 0, 0, 1], 6443).into(),
            stop: stopping,
            owners: OwnerChecks::default(),
            collects_garbage: false,
            retention: RetentionOptions::default(),
            downward,
            admission: Arc::clone(&self.admission),
            limits: ServerLimits::default(),
        });
        let (kinds, access) = (Arc::clone(&self.kinds), Arc::clone(&self.access));
        let admission = Arc::clone(&self.admission);
        House { api, world: self.world.clone(), kinds, access, admission, stop }
    }

    async fn built(plan: Plan) -> House {
        let Plan {
            token_keys,
            audit,
            owners,
            collects_garbage,
            history_bytes,
            quota,
            queue,
            limits,
            retention,
            references,
            left_out,
            authentication,
            plugins,
            lags,
        } = plan;
        let kinds = Arc::new(ServedKinds::without(Some(Arc::new(SchemaRuleEngine)), left_out));
        let access = Arc::new(AuthorizerChain::new(references));
        let layout = Arc::clone(&kinds);
        let admission = Arc::new(DynamicAdmission::default());
        let mut referring = access.reference_feed(&kinds);
        if lags {
            referring = Box::new(Late { index: referring, held: Vec::new() });
        }
        let mut indexes = vec![kinds.feed(), access.feed(), referring];
        indexes.extend(admission.feeds());
        let options = WorldOptions {
            layout,
            indexes,
            history_bytes,
            quota,
            queue,
            ..WorldOptions::default()
        };
        let world = tenure_world::open(Box::new(MemoryLog::keeping()), options).unwrap();
        let (stop, stopping) = watch::channel(false);
        let api = ApiServer::new(ApiConfig {
            world: world.clone(),
            kinds: Arc::clone(&kinds),
            access: Arc::clone(&access),
            token_keys,
            audit,
            authority_pem: "the authority".into(),
            front_proxy: Some(front_proxy()),
            client_authority_pem: "the authority of clients".into(),
            authentication,
            plugins,
            service_range: ServiceRange::default(),
            address: ([127, 0, 0, 1], 6443).into(),
            stop: stopping,
            owners,
            collects_garbage,
            retention,
            downward: Downward::default(),
            admission: Arc::clone(&admission),
            limits,
        });
        Box::pin(bootstrap::bootstrap(&api, bootstrap::FirstContents::ALL)).await.unwrap();
        tokio::spawn(reference::run(Arc::clone(&api)));
        crate::controllers::start(&api, stop.subscribe());
        House { api, world, kinds, access, admission, stop }
    }

    /// Asks the server to end, as its host would.
    pub fn stop(&self) {
        self.stop.send(true).unwrap();
    }

    /// Sends anything as anybody.
    pub async fn send(&self, peer: &Peer, request: Request<Full<Bytes>>) -> Response<Body> {
        Box::pin(self.api.call(request, peer)).await
    }

    /// Sends a request as administrator, with these headers.
    pub async fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        self.ask_as(admin(), method, path, headers, body).await
    }

    /// Sends a request as somebody.
    pub async fn ask_as(
        &self,
        peer: &Peer,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        Answer::read(self.send(peer, build(method, path, headers, body)).await).await
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], "").await
    }

    /// As [`House::get`], with an Accept header.
    pub async fn get_as(&self, path: &str, accept: &str) -> Answer {
        self.ask("GET", path, &[("accept", accept)], "").await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        let body = named_as_its_pod(path, body);
        self.ask("POST", path, &[("content-type", JSON)], body.to_string()).await
    }

    pub async fn put(&self, path: &str, body: Value) -> Answer {
        self.ask("PUT", path, &[("content-type", JSON)], body.to_string()).await
    }

    pub async fn patch(&self, path: &str, kind: &str, body: Value) -> Answer {
        self.ask("PATCH", path, &[("content-type", kind)], body.to_string()).await
    }

    pub async fn merge(&self, path: &str, body: Value) -> Answer {
        self.patch(path, MERGE, body).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.ask("DELETE", path, &[], "").await
    }

    pub async fn delete_with(&self, path: &str, options: Value) -> Answer {
        self.ask("DELETE", path, &[("content-type", JSON)], options.to_string()).await
    }

    /// Creates and insists.
    pub async fn made(&self, path: &str, body: Value) -> Value {
        self.post(path, body).await.with(201)
    }

    /// A ConfigMap in `default`.
    pub async fn config_map(&self, name: &str) -> Value {
        self.made(CONFIG_MAPS, named(name)).await
    }

    /// Opens a watch and insists that it starts.
    pub async fn watch(&self, path: &str) -> Stream {
        self.watch_as(path, JSON).await
    }

    pub async fn watch_as(&self, path: &str, accept: &str) -> Stream {
        let response = self.send(admin(), build("GET", path, &[("accept", accept)], "")).await;
        assert_eq!(response.status(), 200, "{path}");
        Stream { body: response.into_body(), rest: Vec::new() }
    }

    /// Waits until a path answers this code.
    pub async fn until(&self, path: &str, code: u16) -> Answer {
        let end = tokio::time::Instant::now() + PATIENCE;
        loop {
            let answer = self.get(path).await;
            if answer.code == code {
                return answer;
            }
            assert!(tokio::time::Instant::now() < end, "{path} stays {answer:?}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Waits until what a path answers looks as wanted.
    pub async fn until_looks(&self, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let end = tokio::time::Instant::now() + PATIENCE;
        loop {
            let answer = self.get(path).await;
            if wanted(&answer.json) {
                return answer.json;
            }
            assert!(tokio::time::Instant::now() < end, "{path} stays {answer:?}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Puts a pod on a node, where it gets its grace; answers its path.
    pub async fn bound(&self, body: Value) -> String {
        let path = format!("{PODS}/{}", name(&body));
        self.made(PODS, body).await;
        self.made(&format!("{path}/binding"), json!({ "target": { "name": "n" } })).await;
        path
    }

    /// Opens a watch as somebody, and insists that it starts.
    pub async fn watch_by(&self, peer: &Peer, path: &str) -> Stream {
        let response = self.send(peer, build("GET", path, &[], "")).await;
        assert_eq!(response.status(), 200, "{path}");
        Stream { body: response.into_body(), rest: Vec::new() }
    }

    /// Who decides who may do what.
    pub fn access(&self) -> &AuthorizerChain {
        &self.access
    }

    pub fn revision(&self) -> Revision {
        self.world.current().revision()
    }

    /// Forgets everything but the newest state.
    pub async fn compact(&self) {
        self.world.compact(self.revision()).await.unwrap();
    }
}

/// A request, not yet sent.
pub fn build(
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> Request<Full<Bytes>> {
    let mut request = Request::builder().method(Method::from_bytes(method.as_bytes()).unwrap());
    request = request.uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Full::new(body.into())).unwrap()
}

impl Answer {
    async fn read(response: Response<Body>) -> Answer {
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let json = serde_json::from_slice(&bytes).unwrap_or_default();
        Answer { code: parts.status.as_u16(), headers: parts.headers, bytes, json }
    }

    /// The body, if the code is this one.
    #[track_caller]
    pub fn with(self, code: u16) -> Value {
        assert_eq!(self.code, code, "{}", String::from_utf8_lossy(&self.bytes));
        self.json
    }

    /// Checks that this is a Status with that code and reason (R33).
    #[track_caller]
    pub fn fails(self, code: u16, reason: &str) -> Value {
        assert_eq!(self.code, code, "{}", String::from_utf8_lossy(&self.bytes));
        assert_eq!(self.json["kind"], "Status");
        assert_eq!(self.json["status"], "Failure");
        assert_eq!(self.json["reason"], reason);
        assert_eq!(self.json["code"], code);
        self.json
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.bytes).unwrap()
    }

    /// The texts of all warnings.
    pub fn warnings(&self) -> Vec<String> {
        let all = self.headers.get_all("warning").iter();
        all.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
    }
}

/// An open watch.
pub struct Stream {
    body: Body,
    rest: Vec<u8>,
}

impl Stream {
    /// The stream in the body of a response.
    pub fn of(body: Body) -> Stream {
        Stream { body, rest: Vec::new() }
    }

    /// The next event; `None` at the end of the stream.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(at) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=at).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame = tokio::time::timeout(PATIENCE, self.body.frame()).await;
            let Some(frame) = frame.expect("the watch is silent") else {
                assert!(self.rest.is_empty(), "the stream ended inside a line");
                return None;
            };
            self.rest.extend(frame.unwrap().into_data().unwrap());
        }
    }

    /// The next event, however long that takes; `None` at the end of the stream.
    #[allow(dead_code, reason = "the tests of the driver use it")]
    pub async fn next_unhurried(&mut self) -> Option<Value> {
        while !self.rest.contains(&b'\n') {
            let frame = self.body.frame().await?;
            self.rest.extend(frame.ok()?.into_data().ok()?);
        }
        self.next().await
    }

    /// The next events as `TYPE name`.
    pub async fn expect(&mut self, events: &[&str]) {
        for event in events {
            assert_eq!(brief(&self.next().await.expect("the watch ended")), *event);
        }
    }

    /// Whether nothing comes for a while.
    pub async fn is_silent(&mut self) -> bool {
        self.rest.is_empty()
            && tokio::time::timeout(Duration::from_millis(30), self.body.frame()).await.is_err()
    }
}

/// `ADDED a`.
pub fn brief(event: &Value) -> String {
    let name = event["object"]["metadata"]["name"].as_str().unwrap_or_default();
    format!("{} {name}", event["type"].as_str().unwrap()).trim_end().to_owned()
}

/// An object with a name and nothing else.
pub fn named(name: &str) -> Value {
    json!({ "metadata": { "name": name } })
}

/// A ConfigMap with labels.
pub fn labelled(name: &str, labels: Value) -> Value {
    json!({ "metadata": { "name": name, "labels": labels } })
}

/// A ConfigMap that waits for its finalizer.
pub fn held(name: &str) -> Value {
    json!({ "metadata": { "name": name, "finalizers": ["example.com/hold"] } })
}

pub fn pod(name: &str) -> Value {
    json!({
        "metadata": { "name": name, "labels": { "app": "a" } },
        "spec": { "containers": [{ "name": "c", "image": "example.com/app:v1" }] },
    })
}

pub fn deployment(name: &str) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": {
            "replicas": 1,
            "selector": { "matchLabels": { "app": "a" } },
            "template": {
                "metadata": { "labels": { "app": "a" } },
                "spec": { "containers": [{ "name": "c", "image": "example.com/app:v1" }] },
            },
        },
    })
}

/// The names in a list.
pub fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(name).collect()
}

pub fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

/// `namespace/name`.
pub fn key(object: &Value) -> String {
    format!("{}/{}", object["metadata"]["namespace"].as_str().unwrap(), name(object))
}

pub fn version(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().unwrap()
}

/// The fields of all causes, in order.
pub fn fields(status: &Value) -> Vec<&str> {
    let causes = status["details"]["causes"].as_array().unwrap();
    causes.iter().map(|cause| cause["field"].as_str().unwrap_or_default()).collect()
}

/// A binding or an eviction says the name of the pod in its path; tests of other things need not repeat it.
fn named_as_its_pod(path: &str, mut body: Value) -> Value {
    let parts: Vec<&str> = path.split(['/', '?']).collect();
    if let Some([pod, "binding" | "eviction"]) =
        parts.windows(2).find(|pair| matches!(pair[1], "binding" | "eviction"))
        && body.is_object()
        && body.pointer("/metadata/name").is_none()
    {
        body["metadata"]["name"] = (*pod).into();
    }
    body
}
