//! A control plane of its own for one test, and requests to it. No test lives here.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;
use tenure_attach::ServerVersion;
use tenure_cluster::Cluster;

/// What is seen a moment after it was asked for.
const PATIENCE: Duration = Duration::from_secs(20);

/// The version to install for.
pub(crate) const SERVER: ServerVersion = ServerVersion { major: 1, minor: 36 };

/// A cluster that knows nothing of Tenure's own features.
pub(crate) struct Town {
    pub(crate) cluster: Cluster,
    pub(crate) client: kube::Client,
}

impl Town {
    pub(crate) async fn start() -> Town {
        Town::start_with(|_| {}).await
    }

    pub(crate) async fn start_with(change: impl FnOnce(&mut tenure_cluster::Config)) -> Town {
        let plain = |config: &mut tenure_cluster::Config| {
            change(config);
            config.reference_kinds = false;
            config.features.downward_owner_references = false;
            config.features.controllers_as_owners = false;
        };
        let cluster = Cluster::builder().configure(plain).start().await.unwrap();
        let client = cluster.client();
        Town { cluster, client }
    }

    /// One request; the code of the answer and what it says.
    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        kind: &str,
        body: &Value,
    ) -> (u16, Value) {
        send(&self.client, method, path, kind, body).await
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let (code, found) = self.send("GET", path, JSON, &Value::Null).await;
        assert_eq!(code, 200, "{path}: {found}");
        found
    }

    pub(crate) async fn create(&self, path: &str, object: &Value) -> (u16, Value) {
        self.send("POST", path, JSON, object).await
    }

    /// Creates, which must succeed.
    pub(crate) async fn made(&self, path: &str, object: &Value) -> Value {
        let (code, made) = self.create(path, object).await;
        assert_eq!(code, 201, "{path}: {made}");
        made
    }

    pub(crate) async fn apply(&self, path: &str, object: &Value) -> (u16, Value) {
        let path = format!("{path}?fieldManager=test&force=true");
        self.send("PATCH", &path, APPLY, object).await
    }

    /// Applies every document of a text.
    pub(crate) async fn apply_all(&self, text: &str) -> Vec<Value> {
        let mut applied = Vec::new();
        for object in documents(text) {
            let path = path_of(&object);
            let (code, stored) = self.apply(&path, &object).await;
            assert!(code < 300, "{path}: {stored}");
            applied.push(stored);
        }
        applied
    }

    /// Every object there is, but for what controllers write all the time.
    pub(crate) async fn inventory(&self) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        let found = kube::discovery::Discovery::new(self.client.clone()).run_aggregated().await;
        for group in found.unwrap().groups() {
            for (kind, can) in group.recommended_resources() {
                if !can.operations.iter().any(|verb| verb == "list") || kind.plural == "events" {
                    continue;
                }
                let root = if kind.group.is_empty() { "/api" } else { "/apis" };
                let list = self.get(&format!("{root}/{}/{}", kind.api_version, kind.plural)).await;
                for item in list["items"].as_array().into_iter().flatten() {
                    let meta = &item["metadata"];
                    all.insert(format!(
                        "{} {} {} {}",
                        kind.plural, meta["namespace"], meta["name"], meta["uid"]
                    ));
                }
            }
        }
        all
    }

    /// Reads an object until it is as wanted.
    pub(crate) async fn until(
        &self,
        path: &str,
        what: &str,
        is_it: impl Fn(&Value) -> bool,
    ) -> Value {
        let mut last = Value::Null;
        let waiting = async {
            loop {
                last = self.get(path).await;
                if is_it(&last) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let in_time = tokio::time::timeout(PATIENCE, waiting).await;
        assert!(in_time.is_ok(), "never {what}: {last}");
        last
    }
}

pub(crate) const JSON: &str = "application/json";
pub(crate) const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

pub(crate) async fn send(
    client: &kube::Client,
    method: &str,
    path: &str,
    kind: &str,
    body: &Value,
) -> (u16, Value) {
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let request = http::Request::builder().method(method).uri(path).header("content-type", kind);
    let request = request.header("accept", JSON).body(body).unwrap();
    match client.request::<Value>(request).await {
        Ok(found) if method == "POST" => (201, found),
        Ok(found) => (200, found),
        Err(kube::Error::Api(status)) => (status.code, status.message.clone().into()),
        Err(error) => panic!("{method} {path}: {error}"),
    }
}

/// The objects in a text of YAML.
pub(crate) fn documents(text: &str) -> Vec<Value> {
    let read =
        |text: &str| tenure_yaml::to_json(text.as_bytes(), tenure_yaml::YamlLimits::default());
    text.split("\n---\n").map(|text| read(text).unwrap()).collect()
}

/// Where an object of a kind that is installed is.
pub(crate) fn path_of(object: &Value) -> String {
    let version = object["apiVersion"].as_str().unwrap();
    let kind = object["kind"].as_str().unwrap().to_lowercase();
    let plural = match kind.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None => format!("{kind}s"),
    };
    let name = object["metadata"]["name"].as_str().unwrap();
    let root = if version.contains('/') { "/apis" } else { "/api" };
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("{root}/{version}/namespaces/{namespace}/{plural}/{name}"),
        None => format!("{root}/{version}/{plural}/{name}"),
    }
}
