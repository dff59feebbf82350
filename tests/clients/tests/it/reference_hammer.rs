//! Rules of spec/referential-authorization.md: revocation over HTTP (R122, R123). A service account hammers the one
//! Secret that a Gateway refers to, with its own token, while the legs of the join go and come back.
//!
//! ```text
//!   phase   4k granted ──► 4k+1 going ──► 4k+2 revoked ──► 4k+3 coming ──► 4k+4 granted …
//! ```
//!
//! A phase begins when the server has acknowledged the change. What was asked and answered within a phase that is
//! sure has a sure answer. The same against a server that lags: crates/server/tests/it/reference/hammer.rs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tenure_client_tests::Server;
use tenure_client_tests::wire::Access;

const ROUNDS: usize = 150;
const READERS: usize = 3;
const WATCHERS: usize = 2;
/// More than anything here takes on a busy machine.
const LONG: Duration = Duration::from_secs(30);

const CORE: &str = "/api/v1/namespaces";
const GROUP: &str = "/apis/reference.authorization.k8s.io/v1alpha1";
const SECRET: &str = "/api/v1/namespaces/prod-tls/secrets/acme-tls";
const ONE: &str = "/api/v1/namespaces/prod-tls/secrets?fieldSelector=metadata.name%3Dacme-tls";
const INGRESSES: &str = "/apis/networking.k8s.io/v1/namespaces/prod/ingresses";

const GRANTED: u64 = 0;
const REVOKED: u64 = 2;

/// What is taken away and given back: a path to delete, a path to create at, what to create.
type Leg = (String, String, Value);

/// What everybody shares.
struct Ground {
    admin: Access,
    account: Access,
    phase: AtomicU64,
    /// The last sure phase in which each reader had an answer.
    heard: Vec<AtomicU64>,
    open: AtomicUsize,
    answers: AtomicUsize,
    done: AtomicBool,
}

impl Ground {
    async fn send(&self, method: &str, path: &str, body: &Value) -> Value {
        let kind = if method == "PATCH" { "merge-patch+json" } else { "json" };
        let body = (!body.is_null()).then(|| body.to_string().into_bytes());
        let mut connection = self.admin.connect().await.unwrap();
        let kind = format!("application/{kind}");
        let answer = connection.send_as(method, path, &kind, body.as_deref()).await.unwrap();
        assert!(answer.code < 300, "{method} {path}: {}", String::from_utf8_lossy(&answer.body));
        answer.json().unwrap()
    }

    fn phase(&self) -> u64 {
        self.phase.load(SeqCst)
    }

    async fn until(&self, what: &str, so: impl Fn() -> bool) {
        let begin = Instant::now();
        while !so() {
            assert!(begin.elapsed() < LONG, "phase {}: not in time: {what}", self.phase());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    async fn next_phase(&self) -> u64 {
        self.phase.fetch_add(1, SeqCst) + 1
    }

    async fn heard_by_all(&self, phase: u64) {
        let heard = || self.heard.iter().all(|last| last.load(SeqCst) == phase);
        self.until("every reader has an answer", heard).await;
    }

    /// Gets and lists on a connection that stays open.
    async fn read(&self, me: usize) {
        let mut connection = self.account.connect().await.unwrap();
        for path in [SECRET, ONE].iter().cycle() {
            if self.done.load(SeqCst) {
                return;
            }
            let before = self.phase();
            let code = connection.send("GET", path, None).await.unwrap().code;
            if self.phase() != before {
                continue;
            }
            match before % 4 {
                GRANTED => assert_eq!(code, 200, "phase {before}: {path}"),
                REVOKED => assert_eq!(code, 403, "phase {before}: {path}"),
                _ => continue,
            }
            self.answers.fetch_add(1, SeqCst);
            self.heard[me].store(before, SeqCst);
        }
    }

    /// Watches whenever that is granted, to the end of the watch.
    async fn watch(&self) {
        while !self.done.load(SeqCst) {
            let before = self.phase();
            if before % 4 != GRANTED {
                tokio::time::sleep(Duration::from_millis(1)).await;
                continue;
            }
            let connection = self.account.connect().await.unwrap();
            let opened = connection.watch(&format!("{ONE}&watch=1")).await;
            if self.phase() != before {
                continue;
            }
            let mut events = opened.unwrap();
            self.open.fetch_add(1, SeqCst);
            let mut last = Value::Null;
            while let Some(event) = events.event().await.unwrap() {
                let label = event["object"]["metadata"]["labels"]["phase"].as_str();
                let later = label.is_some_and(|phase| phase.parse::<u64>().unwrap() > before);
                assert!(!later, "a watch of phase {before} got what came later: {event}");
                last = event;
            }
            self.open.fetch_sub(1, SeqCst);
            assert_eq!((&last["type"], &last["object"]["code"]), (&json!("ERROR"), &json!(403)));
        }
    }

    /// Takes a leg away and gives it back; answers how long open watches lasted.
    async fn flip(&self, (path, at, body): &Leg) -> Duration {
        self.next_phase().await;
        self.send("DELETE", path, &Value::Null).await;
        let revoked = self.next_phase().await;
        let begin = Instant::now();
        let label = json!({ "metadata": { "labels": { "phase": revoked.to_string() } } });
        self.send("PATCH", SECRET, &label).await;
        self.until("open watches end", || self.open.load(SeqCst) == 0).await;
        let lasted = begin.elapsed();
        self.heard_by_all(revoked).await;
        self.next_phase().await;
        self.send("POST", at, body).await;
        let granted = self.next_phase().await;
        self.heard_by_all(granted).await;
        self.until("watches open", || self.open.load(SeqCst) > 0).await;
        lasted
    }
}

/// Everything the join hangs on, made once; each of it can go and come back.
async fn legs(ground: &Ground) -> Vec<Leg> {
    let origin = json!({ "group": "networking.k8s.io", "resource": "ingresses" });
    let target = json!({ "group": "", "resource": "secrets" });
    // Ingresses name Secrets beside them; an expression lets them name one elsewhere.
    let expression = "self.spec.tls.map(t, {'name': t.secretName, 'namespace': dyn('prod-tls')})";
    let strategy = json!({
        "apiVersion": "reference.authorization.k8s.io/v1alpha1", "kind": "ReferenceStrategy",
        "metadata": { "name": "ingresses" }, "origin": origin,
        "versions": [{ "version": "v1", "classPath": ".spec.ingressClassName", "references": [
            { "expression": expression, "target": target, "purpose": "tls-serving" },
        ] }],
    });
    let consumer = json!({
        "apiVersion": "reference.authorization.k8s.io/v1alpha1", "kind": "ClusterReferenceConsumer",
        "metadata": { "name": "edge" },
        "subject": { "kind": "ServiceAccount", "namespace": "prod", "name": "edge" },
        "classNames": ["edge"],
        "references": [{ "origin": origin, "target": target, "purpose": "tls-serving" }],
    });
    let grant = json!({
        "apiVersion": "reference.authorization.k8s.io/v1alpha1", "kind": "ReferenceGrant",
        "metadata": { "name": "edge" },
        "origin": { "group": "networking.k8s.io", "resource": "ingresses", "namespace": "prod" },
        "target": { "group": "", "resource": "secrets", "names": ["acme-tls"] },
        "purpose": "tls-serving",
    });
    let ingress = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": { "name": "edge" },
        "spec": {
            "ingressClassName": "edge", "tls": [{ "secretName": "acme-tls" }],
            "defaultBackend": { "service": { "name": "web", "port": { "number": 80 } } },
        },
    });
    let grants = format!("{GROUP}/namespaces/prod-tls/referencegrants");
    let legs = [
        (grants, grant, "edge"),
        (INGRESSES.to_owned(), ingress, "edge"),
        (format!("{GROUP}/clusterreferenceconsumers"), consumer, "edge"),
        (format!("{GROUP}/referencestrategies"), strategy, "ingresses"),
    ];
    let mut made = Vec::new();
    for (at, body, name) in legs {
        ground.send("POST", &at, &body).await;
        made.push((format!("{at}/{name}"), at, body));
    }
    made
}

async fn ground(server: &Server) -> Ground {
    let admin = server.access().unwrap();
    let mut ground = Ground {
        account: admin.clone(),
        admin,
        phase: AtomicU64::new(0),
        heard: (0..READERS).map(|_| AtomicU64::new(u64::MAX)).collect(),
        open: AtomicUsize::new(0),
        answers: AtomicUsize::new(0),
        done: AtomicBool::new(false),
    };
    for namespace in ["prod", "prod-tls"] {
        let body =
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } });
        ground.send("POST", CORE, &body).await;
    }
    let account = format!("{CORE}/prod/serviceaccounts");
    let named = |kind: &str, name: &str| json!({ "apiVersion": "v1", "kind": kind, "metadata": { "name": name } });
    ground.send("POST", &account, &named("ServiceAccount", "edge")).await;
    ground.send("POST", &format!("{CORE}/prod-tls/secrets"), &named("Secret", "acme-tls")).await;
    let asked =
        json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {} });
    let given = ground.send("POST", &format!("{account}/edge/token"), &asked).await;
    let token = given["status"]["token"].as_str().unwrap();
    ground.account = Access::bearer(server.kubeconfig(), token).unwrap();
    ground
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r122_r123_no_read_over_http_begun_after_a_revocation_succeeds() {
    let server = Server::ephemeral().unwrap();
    let ground = Arc::new(ground(&server).await);
    let legs = legs(&ground).await;
    let mut tasks = tokio::task::JoinSet::new();
    for me in 0..READERS {
        let ground = Arc::clone(&ground);
        tasks.spawn(async move { ground.read(me).await });
    }
    for _ in 0..WATCHERS {
        let ground = Arc::clone(&ground);
        tasks.spawn(async move { ground.watch().await });
    }
    ground.heard_by_all(0).await;
    let mut lasted = Vec::new();
    for round in 0..ROUNDS {
        // A reader that found something has ended with it.
        if let Some(ended) = tasks.try_join_next() {
            ended.unwrap();
        }
        lasted.push(ground.flip(&legs[round % legs.len()]).await);
    }
    ground.done.store(true, SeqCst);
    ground.send("DELETE", &legs[0].0, &Value::Null).await;
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    lasted.sort();
    let answers = ground.answers.load(SeqCst);
    assert!(answers >= ROUNDS * 2 * READERS, "{answers} answers");
    println!("{answers} sure answers; watches lasted {:?} (median)", lasted[ROUNDS / 2]);
}
