//! The authorization webhook, asked by a server that was given the file we print.

use std::collections::BTreeSet;
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use serde_json::json;
use tempfile::TempDir;
use tenure_attach::install::{AuthorizationFile, authorization_config};
use tenure_attach::{AuthorizerAttachment, WebhookFiles, WebhookSettings};
use tenure_host::AuthorizationSource;

use super::*;
use crate::town::MERGE;

/// An authority, and what it has signed.
struct Authority(Issuer<'static, KeyPair>, String);

impl Authority {
    fn new() -> Authority {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Authority(Issuer::new(params, key), pem)
    }

    fn sign(&self, usage: ExtendedKeyUsagePurpose) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        params.extended_key_usages = vec![usage];
        (params.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }
}

/// A cluster whose server asks the webhook, and what the webhook needs.
struct Asking {
    town: Town,
    folder: TempDir,
    address: SocketAddr,
    authority: Authority,
}

impl Asking {
    async fn start() -> Asking {
        let folder = TempDir::new().unwrap();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let authority = Authority::new();
        write_certificate(folder.path(), &authority);
        let (certificate, key) = authority.sign(ExtendedKeyUsagePurpose::ClientAuth);
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "a",
            "clusters": [{ "name": "a", "cluster": {
                "server": format!("https://{address}/authorize"),
                "certificate-authority-data": STANDARD.encode(&authority.1),
            }}],
            "users": [{ "name": "a", "user": {
                "client-certificate-data": STANDARD.encode(certificate),
                "client-key-data": STANDARD.encode(key),
            }}],
            "contexts": [{ "name": "a", "context": { "cluster": "a", "user": "a" } }],
        });
        let path = folder.path().join("kubeconfig");
        fs::write(&path, kubeconfig.to_string()).unwrap();
        let file = AuthorizationFile {
            users: BTreeSet::from(["system:serviceaccount:default:edge".to_owned()]),
            groups: BTreeSet::new(),
            targets: BTreeSet::from(["secrets".to_owned()]),
            kubeconfig: path.to_str().unwrap().to_owned(),
        };
        let config = folder.path().join("authorization.yaml");
        fs::write(&config, authorization_config(SERVER, &file).unwrap()).unwrap();
        let follow = |settings: &mut tenure_cluster::Config| {
            settings.authorization = AuthorizationSource::File(config);
        };
        let origins = BTreeSet::from([("networking.k8s.io".to_owned(), "ingresses".to_owned())]);
        let wanted = AccessInstall {
            mode: AccessMode::Webhook,
            consumers: Vec::new(),
            origins,
            image: "x".into(),
        };
        let text = install::access(SERVER, &wanted).unwrap();
        assert!(!text.contains("escalate]") && !text.contains("kind: Deployment"));
        let town = furnish(Town::start_with(follow).await, &text).await;
        Asking { town, folder, address, authority }
    }

    async fn authorizer(&self) -> AuthorizerAttachment {
        let client = self
            .town
            .cluster
            .service_account_client("tenure-system", "tenure-access")
            .await
            .unwrap();
        let file = |name: &str| self.folder.path().join(name);
        let files = WebhookFiles {
            certificate: file("tls.crt"),
            key: file("tls.key"),
            clients: Some(file("ca.crt")),
        };
        let settings = WebhookSettings { serve: self.address, files, listen: None };
        AuthorizerAttachment::start(client, &settings).await.unwrap()
    }
}

fn write_certificate(folder: &Path, authority: &Authority) {
    let (certificate, key) = authority.sign(ExtendedKeyUsagePurpose::ServerAuth);
    fs::write(folder.join("tls.crt"), certificate).unwrap();
    fs::write(folder.join("tls.key"), key).unwrap();
    fs::write(folder.join("ca.crt"), &authority.1).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a10_a_consumer_reads_what_is_referenced_while_it_is() {
    let asking = Asking::start().await;
    let (town, _running) = (&asking.town, asking.authorizer().await);
    let edge = edge(town).await;
    town.made(INGRESSES, &ingress("web", "mine", &["a"])).await;
    reads_become(&edge, "default", "a", 200).await;
    assert_eq!(reads(&edge, "default", "b").await, 403);
    let listed = "/api/v1/namespaces/default/secrets?fieldSelector=metadata.name%3Da";
    assert_eq!(send(&edge, "GET", listed, "application/json", &Value::Null).await.0, 200);
    assert_eq!(
        send(&edge, "GET", "/api/v1/namespaces/default/secrets", "application/json", &Value::Null)
            .await
            .0,
        403
    );
    // No Role was written for it.
    let roles = town
        .get("/apis/rbac.authorization.k8s.io/v1/roles?labelSelector=tenure.dev/feature%3Daccess")
        .await;
    assert!(roles["items"].as_array().unwrap().is_empty(), "{roles}");
    for _ in 0..3 {
        let none = json!({ "spec": { "tls": [] } });
        town.send("PATCH", &format!("{INGRESSES}/web"), MERGE, &none).await;
        let took = reads_become(&edge, "default", "a", 403).await;
        assert!(took < Duration::from_secs(1), "{took:?}");
        let some = json!({ "spec": { "tls": [{ "secretName": "a" }] } });
        town.send("PATCH", &format!("{INGRESSES}/web"), MERGE, &some).await;
        reads_become(&edge, "default", "a", 200).await;
    }
    remove(town, &format!("{GROUP}/clusterreferenceconsumers/edge")).await;
    let took = reads_become(&edge, "default", "a", 403).await;
    assert!(took < Duration::from_secs(1), "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a10_a13_an_outage_is_felt_by_consumers_alone() {
    let asking = Asking::start().await;
    let town = &asking.town;
    let edge = edge(town).await;
    let running = asking.authorizer().await;
    town.made(INGRESSES, &ingress("web", "mine", &["a"])).await;
    reads_become(&edge, "default", "a", 200).await;
    drop(running);
    let code = reads(&edge, "default", "a").await;
    assert!(matches!(code, 403 | 500), "{code}");
    // Others, and other requests of the consumer, cause no call.
    let nobody = town.cluster.client_as("nobody", &[]);
    assert_eq!(reads(&nobody, "default", "a").await, 403);
    let path = "/api/v1/namespaces/default/configmaps/a";
    assert_eq!(send(&edge, "GET", path, "application/json", &Value::Null).await.0, 403);
    let _again = asking.authorizer().await;
    reads_become(&edge, "default", "a", 200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a11_whoever_shows_no_certificate_gets_no_answer_and_files_are_checked() {
    let asking = Asking::start().await;
    let running = asking.authorizer().await;
    assert_eq!(running.address(), asking.address);
    let mut stranger = kube::Config::new(format!("https://{}", asking.address).parse().unwrap());
    let authority = rustls_pem(&asking.authority.1);
    stranger.root_cert = Some(vec![authority]);
    let stranger = kube::Client::try_from(stranger).unwrap();
    let review = json!({ "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {} });
    let request = http::Request::post("/authorize").body(review.to_string().into_bytes()).unwrap();
    stranger.request::<Value>(request).await.unwrap_err();
    let client = asking.town.client.clone();
    let file = |name: &str| asking.folder.path().join(name);
    let settings = |certificate: &str, key: &str| WebhookSettings {
        serve: "127.0.0.1:0".parse().unwrap(),
        files: WebhookFiles {
            certificate: file(certificate),
            key: file(key),
            clients: Some(file("ca.crt")),
        },
        listen: None,
    };
    for (certificate, key, said) in [
        ("absent", "tls.key", "absent` cannot be read"),
        ("tls.key", "tls.key", "tls.key` holds no certificate"),
        ("tls.crt", "tls.crt", "tls.crt` holds no private key"),
    ] {
        let problem = AuthorizerAttachment::start(client.clone(), &settings(certificate, key))
            .await
            .err()
            .unwrap();
        assert!(problem.to_string().ends_with(said), "{problem}");
    }
}

fn rustls_pem(pem: &str) -> Vec<u8> {
    let body: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    STANDARD.decode(body).unwrap()
}
