//! Trust bundles and certificates in the volumes of pods that really run: what upstream's end-to-end
//! tests ask of ClusterTrustBundles and of projected PodCertificates. Rules of spec/downward-api.md,
//! section 12.1.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DnType, IsCa, Issuer,
    KeyPair, SanType,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::house::{House, On};
use crate::kubectl::runner::Kubectl;

const SIGNER: &str = "e2e.example.com/own";
const REQUESTS: &str = "podcertificaterequests.certificates.k8s.io";

/// An authority of this name and the key it signs with.
fn authority(name: &str) -> (CertificateParams, KeyPair) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    (params, KeyPair::generate().unwrap())
}

fn authority_pem(name: &str) -> String {
    let (params, key) = authority(name);
    params.self_signed(&key).unwrap().pem().replace("\r\n", "\n")
}

fn bundle(name: &str, signer: Option<&str>, labels: Value, pem: &str) -> Value {
    json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "ClusterTrustBundle",
        "metadata": {"name": name, "labels": labels},
        "spec": {"signerName": signer, "trustBundle": pem},
    })
}

/// A pod that mounts each of these lists of sources as a volume, the first at `/certs/0`.
fn pod(house: &House, name: &str, script: &str, volumes: &[Vec<Value>]) -> Value {
    let named = |at: usize| format!("certs-{at}");
    let mounts = (0..volumes.len())
        .map(|at| json!({"name": named(at), "mountPath": format!("/certs/{at}")}));
    let sources = volumes.iter().enumerate();
    let sources =
        sources.map(|(at, sources)| json!({"name": named(at), "projected": {"sources": sources}}));
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
            "containers": [{
                "name": "main", "image": house.image(), "command": ["sh", "-c", script],
                "volumeMounts": mounts.collect::<Vec<_>>(),
            }],
            "volumes": sources.collect::<Vec<_>>(),
        },
    })
}

fn trust(mut source: Value, path: &str) -> Value {
    source["path"] = path.into();
    json!({"clusterTrustBundle": source})
}

/// The certificates of a text, whatever their order.
fn blocks(text: &str) -> BTreeSet<String> {
    let end = "-----END CERTIFICATE-----";
    let parts = text.split_inclusive(end).filter(|part| part.contains(end));
    parts.map(|part| part.trim().to_owned()).collect()
}

/// What events of a reason say about a pod.
fn told(house: &House, pod: &str, reason: &str) -> String {
    let selector = format!("reason={reason},involvedObject.name={pod}");
    house.kubectl.ok(&["get", "events", "--field-selector", &selector, "-o", "json"])
}

#[test]
fn r89_trust_bundles_by_name_by_signer_and_by_label_on_the_runtime_process() {
    read_trust_bundles(On::Process);
}

#[test]
fn r89_trust_bundles_by_name_by_signer_and_by_label_on_the_runtime_cri() {
    read_trust_bundles(On::Cri);
}

fn read_trust_bundles(on: On) {
    let Some(house) = House::open(on, &[]) else { return };
    let pems: Vec<String> = (0..5).map(|at| authority_pem(&format!("root-{at}"))).collect();
    let own = Some("test.test/one");
    for (at, (name, signer, labels)) in [
        ("test.test:one:0", own, json!({"alive": "true"})),
        ("test.test:one:1", own, json!({"alive": "true"})),
        ("test.test:one:2", own, json!({"alive": "false"})),
        ("test.test:two:3", Some("test.test/two"), json!({"alive": "true"})),
        ("plain", None, json!({})),
    ]
    .into_iter()
    .enumerate()
    {
        // What one bundle repeats is written once.
        let repeated = format!("{}{}", pems[at], pems[0]);
        house.create(&bundle(name, signer, labels, if at == 1 { &repeated } else { &pems[at] }));
    }
    let signer =
        |selector: Value| json!({"signerName": "test.test/one", "labelSelector": selector});
    let with = |mut source: Value| {
        source["optional"] = true.into();
        source
    };
    let rows = [
        (json!({"name": "plain"}), vec![4]),
        (with(json!({"name": "does-not-exist.at.all"})), vec![]),
        (signer(json!({"matchLabels": {"alive": "true"}})), vec![0, 1]),
        (signer(json!({"matchLabels": {"alive": "false"}})), vec![2]),
        (with(json!({"signerName": "test.test/one"})), vec![]),
        (with(signer(json!({"matchLabels": {"this": "nothing"}}))), vec![]),
        (signer(json!({})), vec![0, 1, 2]),
    ];
    let volumes: Vec<Vec<Value>> =
        rows.iter().map(|(source, _)| vec![trust(source.clone(), "roots.pem")]).collect();
    let script = "for at in 0 1 2 3 4 5 6; do echo \"## $(stat -Lc %a /certs/$at/roots.pem)\"; \
                  cat /certs/$at/roots.pem; done; echo done";
    house.create(&pod(&house, "reader", script, &volumes));
    house.phase("reader", "Succeeded");
    let log = house.log_with("reader", "done");
    let parts: Vec<&str> = log.split("## ").skip(1).collect();
    for ((source, wanted), part) in rows.iter().zip(&parts) {
        let wanted: BTreeSet<String> =
            wanted.iter().map(|at| pems[*at].trim().to_owned()).collect();
        assert!(part.starts_with("644\n"), "{part}");
        assert_eq!(part.matches("BEGIN").count(), wanted.len(), "{source}: {part}");
        assert_eq!(blocks(part.strip_prefix("644\n").unwrap()), wanted, "{source}");
    }
}

#[test]
fn r89_r89a_a_pod_waits_for_its_trust_bundle_and_hears_of_changes() {
    let Some(house) = House::open(On::Process, &[]) else { return };
    let (first, second) = (authority_pem("first"), authority_pem("second"));
    let selector = json!({"signerName": "test.test/one", "labelSelector": {}});
    let volumes =
        [vec![trust(json!({"name": "later"}), "roots.pem")], vec![trust(selector, "roots.pem")]];
    house.create(&pod(&house, "waits", "sleep 600", &volumes));
    for why in [
        "MountVolume.SetUp failed for volume \\\"certs-0\\\" : clustertrustbundle \\\\\\\"later",
        "combination of signerName and labelSelector matched zero ClusterTrustBundles",
    ] {
        let why = why.replace("\\\\\\\"", "\\\"");
        let look = || told(&house, "waits", "FailedMount");
        house.until("it is told", look, |all| all.contains(&why));
    }
    assert_eq!(house.kubectl.value("pod/waits", ".status.phase"), "Pending");
    house.create(&bundle("later", None, json!({}), &first));
    house.create(&bundle("test.test:one:1", Some("test.test/one"), json!({}), &first));
    house.phase("waits", "Running");
    let look = || blocks(&house.exec("waits", &["cat", "/certs/1/roots.pem"]));
    assert_eq!(look().len(), 1);
    house.create(&bundle("test.test:one:2", Some("test.test/one"), json!({}), &second));
    house.until("the file has both", look, |found| found.len() == 2);
    let patch = json!({"spec": {"trustBundle": second}}).to_string();
    house.kubectl.ok(&["patch", "clustertrustbundle", "later", "--type=merge", "-p", &patch]);
    let look = || house.exec("waits", &["cat", "/certs/0/roots.pem"]);
    house.until("the file changes", look, |found| found.trim() == second.trim());
    // What is gone stays where a pod reads it.
    house.kubectl.ok(&["delete", "clustertrustbundle", "later"]);
    let look = || told(&house, "waits", "FailedMount");
    let gone = "clustertrustbundle \\\"later\\\" not found";
    house.until("it is told", look, |all| all.matches(gone).count() > 0);
    assert_eq!(house.exec("waits", &["cat", "/certs/0/roots.pem"]).trim(), second.trim());
}

#[test]
fn r89_more_than_a_hundred_trust_bundles() {
    const COUNT: usize = 150;
    let Some(house) = House::open(On::Process, &[]) else { return };
    let signer = "test.test/hundreds";
    let name = |at: usize| format!("test.test:hundreds:{at}");
    let pems: Vec<String> = (0..COUNT).map(|at| authority_pem(&format!("root-{at}"))).collect();
    let items = pems.iter().enumerate();
    let items = items.map(|(at, pem)| bundle(&name(at), Some(signer), json!({}), pem));
    house.create(&json!({"apiVersion": "v1", "kind": "List", "items": items.collect::<Vec<_>>()}));
    let one = |at: usize| trust(json!({"name": name(at)}), &format!("root-{at}.pem"));
    let together: Vec<Value> = (0..COUNT).map(one).collect();
    let joined = trust(json!({"signerName": signer, "labelSelector": {}}), "all.pem");
    let mut volumes = vec![together, vec![joined]];
    volumes.extend((0..COUNT).map(|at| vec![one(at)]));
    let script = "cat /certs/0/root-77.pem; echo '##'; cat /certs/1/all.pem; echo '##'; \
                  cat /certs/101/root-99.pem; echo done";
    house.create(&pod(&house, "many", script, &volumes));
    house.phase("many", "Succeeded");
    let log = house.log_with("many", "done");
    let parts: Vec<BTreeSet<String>> = log.split("##").map(blocks).collect();
    let all = |range: &[String]| range.iter().map(|pem| pem.trim().to_owned()).collect();
    let wanted: [BTreeSet<String>; 3] = [all(&pems[77..78]), all(&pems), all(&pems[99..100])];
    assert_eq!(parts, wanted);
}

/// Signs whatever a pod asks of it, as upstream's test does: a SPIFFE name, for as long as was asked.
struct TestSigner {
    pem: String,
    over: Arc<AtomicBool>,
    /// The specifications that were signed.
    signed: Arc<Mutex<Vec<Value>>>,
    work: Option<std::thread::JoinHandle<()>>,
}

impl Drop for TestSigner {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        if let Some(work) = self.work.take() {
            let _ = work.join();
        }
    }
}

fn sign(issuer: &Issuer<'_, KeyPair>, authority_pem: &str, spec: &Value) -> Value {
    let text = |member: &str| spec[member].as_str().unwrap().to_owned();
    let request = STANDARD.decode(text("stubPKCS10Request")).unwrap();
    let mut asked = CertificateSigningRequestParams::from_der(&request.into()).unwrap();
    let path = format!("/ns/shop/sa/{}", text("serviceAccountName"));
    let path =
        spec["unverifiedUserAnnotations"]["spiffe/path-overriding"].as_str().unwrap_or(&path);
    let uri = format!("spiffe://cluster.local{path}");
    let dns = "server.shop.svc".try_into().unwrap();
    asked.params.subject_alt_names =
        vec![SanType::URI(uri.try_into().unwrap()), SanType::DnsName(dns)];
    let life = spec["maxExpirationSeconds"].as_i64().unwrap();
    let begins = jiff::Timestamp::now().as_second() - 60;
    let of = |seconds: i64| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds as u64);
    asked.params.not_before = of(begins).into();
    asked.params.not_after = of(begins + life).into();
    let leaf = asked.signed_by(issuer).unwrap().pem();
    let time = |seconds: i64| jiff::Timestamp::from_second(seconds).unwrap().to_string();
    json!({"status": {
        "certificateChain": format!("{leaf}{authority_pem}"),
        "notBefore": time(begins), "notAfter": time(begins + life),
        "beginRefreshAt": time(begins + life / 2),
        "conditions": [{"type": "Issued", "status": "True", "reason": "Issued", "message": "",
            "lastTransitionTime": time(begins)}],
    }})
}

fn answer(kubectl: &Kubectl, name: &str, status: &Value) {
    let patch = status.to_string();
    kubectl.ok(&["patch", REQUESTS, name, "--subresource=status", "--type=merge", "-p", &patch]);
}

fn unanswered(kubectl: &Kubectl, signer: &str) -> Vec<(String, Value)> {
    let all: Value =
        serde_json::from_str(&kubectl.ok(&["get", REQUESTS, "--output", "json"])).unwrap();
    let items = all["items"].as_array().unwrap().iter();
    let open = items.filter(|item| {
        item["spec"]["signerName"] == signer && item["status"]["conditions"].is_null()
    });
    open.map(|it| (it["metadata"]["name"].as_str().unwrap().to_owned(), it["spec"].clone()))
        .collect()
}

impl TestSigner {
    fn start(house: &Arc<House>) -> TestSigner {
        let (params, key) = authority("the signer");
        let pem = params.self_signed(&key).unwrap().pem();
        let (over, signed) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::default()));
        let (ends, keeps, house, own) =
            (Arc::clone(&over), Arc::clone(&signed), Arc::clone(house), pem.clone());
        let keeps: Arc<Mutex<Vec<Value>>> = keeps;
        let work = std::thread::spawn(move || {
            let issuer = Issuer::new(params, key);
            while !ends.load(Ordering::SeqCst) {
                for (name, spec) in unanswered(&house.kubectl, SIGNER) {
                    answer(&house.kubectl, &name, &sign(&issuer, &own, &spec));
                    keeps.lock().unwrap().push(spec);
                }
                std::thread::sleep(Duration::from_millis(200));
            }
        });
        TestSigner { pem, over, signed, work: Some(work) }
    }
}

fn certificate(mut source: Value) -> Value {
    source["signerName"] = SIGNER.into();
    json!({"podCertificate": source})
}

/// Key and certificates of a credential bundle.
fn credentials(text: &str) -> (PrivateKeyDer<'static>, Vec<CertificateDer<'static>>) {
    let key = PrivateKeyDer::from_pem_slice(text.as_bytes()).unwrap();
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    (key, chain.unwrap())
}

fn holds(certificate: &CertificateDer<'_>, text: &str) -> bool {
    certificate.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn r89b_pods_get_certificates_and_trust_each_other_on_the_runtime_process() {
    get_certificates(On::Process);
}

#[test]
fn r89b_pods_get_certificates_and_trust_each_other_on_the_runtime_cri() {
    get_certificates(On::Cri);
}

fn get_certificates(on: On) {
    let Some(house) = House::open(on, &[]) else { return };
    let house = Arc::new(house);
    let signer = TestSigner::start(&house);
    house.create(&bundle("e2e.example.com:own:1", Some(SIGNER), json!({}), &signer.pem));
    let volume = |source: Value| {
        let roots = json!({"signerName": SIGNER, "labelSelector": {}});
        vec![certificate(source), trust(roots, "roots.pem")]
    };
    let rows = [
        (
            "server",
            json!({"keyType": "ECDSAP256", "credentialBundlePath": "both.pem", "userAnnotations":
                {"spiffe/path-overriding": "/custom-workload"}}),
            86_400,
            "spiffe://cluster.local/custom-workload",
        ),
        (
            "client",
            json!({"keyType": "ED25519", "maxExpirationSeconds": 3600,
                "credentialBundlePath": "both.pem", "keyPath": "key.pem",
                "certificateChainPath": "chain.pem"}),
            3600,
            "spiffe://cluster.local/ns/shop/sa/default",
        ),
    ];
    let mut read = Vec::new();
    for (name, source, life, uri) in rows {
        house.create(&pod(&house, name, "sleep 600", &[volume(source)]));
        house.phase(name, "Running");
        let text = house.exec(name, &["cat", "/certs/0/both.pem"]);
        let (key, chain) = credentials(&text);
        assert!(holds(&chain[0], uri), "{name}");
        assert_eq!(chain.len(), 2);
        let spec = signer.signed.lock().unwrap().pop().unwrap();
        assert_eq!(spec["maxExpirationSeconds"], life, "{name}");
        assert_eq!(spec["podName"], name);
        let uid = house.kubectl.value(&format!("pod/{name}"), ".metadata.uid");
        assert_eq!(spec["podUID"], uid);
        let owners = house.kubectl.ok(&["get", REQUESTS, "-o", "json"]);
        assert!(owners.contains(&format!("\"uid\": \"{uid}\"")), "{owners}");
        read.push((key, chain, text));
    }
    let parts = house.exec("client", &["cat", "/certs/0/key.pem", "/certs/0/chain.pem"]);
    assert_eq!(parts, read[1].2);
    let roots = house.exec("client", &["cat", "/certs/0/roots.pem"]);
    let (client, server) = (read.pop().unwrap(), read.pop().unwrap());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(shake_hands((server.0, server.1), (client.0, client.1), &roots));
}

type Credentials = (PrivateKeyDer<'static>, Vec<CertificateDer<'static>>);

/// Each side shows its certificate and trusts the other's by the bundle of a pod.
async fn shake_hands(server: Credentials, client: Credentials, roots: &str) {
    let mut store = RootCertStore::empty();
    for root in CertificateDer::pem_slice_iter(roots.as_bytes()) {
        store.add(root.unwrap()).unwrap();
    }
    let (store, provider) = (Arc::new(store), Arc::new(rustls::crypto::ring::default_provider()));
    let verifier = WebPkiClientVerifier::builder_with_provider(store.clone(), provider.clone());
    let server = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(server.1, server.0)
        .unwrap();
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(store)
        .with_client_auth_cert(client.1, client.0)
        .unwrap();
    let (near, far) = tokio::io::duplex(1 << 16);
    let accepting = tokio::spawn(async move {
        let mut stream =
            tokio_rustls::TlsAcceptor::from(Arc::new(server)).accept(far).await.unwrap();
        let shown = stream.get_ref().1.peer_certificates().unwrap()[0].clone();
        assert!(holds(&shown, "spiffe://cluster.local/ns/shop/sa/default"));
        stream.write_all(b"hello").await.unwrap();
        stream.shutdown().await.unwrap();
    });
    let name = ServerName::try_from("server.shop.svc").unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(client));
    let mut stream = connector.connect(name, near).await.unwrap();
    let mut heard = String::new();
    stream.read_to_string(&mut heard).await.unwrap();
    assert_eq!(heard, "hello");
    accepting.await.unwrap();
}

#[test]
fn r89c_a_pod_waits_for_its_signer_and_hears_a_no() {
    let Some(house) = House::open(On::Process, &[]) else { return };
    let volume = |kind: &str| {
        vec![certificate(json!({"keyType": kind, "credentialBundlePath": "both.pem"}))]
    };
    house.create(&pod(&house, "waits", "sleep 600", &[volume("ECDSAP384")]));
    let failed = || told(&house, "waits", "FailedMount");
    house.until("it is told", failed, |all| all.contains("credential bundle is not issued yet"));
    assert_eq!(house.kubectl.value("pod/waits", ".status.phase"), "Pending");
    let open = unanswered(&house.kubectl, SIGNER);
    assert_eq!(open.len(), 1, "one request, however often the pod tries: {open:?}");
    let denied = json!({"status": {"conditions": [{"type": "Denied", "status": "True",
        "reason": "Policy", "message": "not for you", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    answer(&house.kubectl, &open[0].0, &denied);
    let look = || told(&house, "waits", "Denied");
    house.until("it is told", look, |all| all.contains("not for you"));
    house.until("it is told", failed, |all| all.contains("was permanently denied"));
    assert!(unanswered(&house.kubectl, SIGNER).is_empty(), "nobody asks again");
    house.create(&pod(&house, "rsa", "sleep 600", &[volume("RSA3072")]));
    let look = || told(&house, "rsa", "FailedMount");
    house.until("it is told", look, |all| all.contains("makes no keys of the type RSA3072"));
}
