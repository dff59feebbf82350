//! What runs a command needs the right to run it, on the server's door and on the node's.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::json;
use tenure_client_tests::server::Server;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::caller::Caller;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
/// Every way to write a path that leads to a command.
const PATHS: [&str; 9] = [
    "/exec/default/web/c?command=id",
    "//exec/default/web/c?command=id",
    "/%65xec/default/web/c?command=id",
    "/%65%78%65%63/default/web/c?command=id",
    "/exec%2Fdefault%2Fweb%2Fc?command=id",
    "/%2fexec/default/web/c?command=id",
    "/run/default/web/c?cmd=id",
    "/%61ttach/default/web/c",
    "/port%46orward/default/web",
];

/// The code that the node's own port answers with.
async fn asked(address: &str, authority: &CertificateDer<'static>, token: &str, path: &str) -> u16 {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(authority.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let socket = TcpStream::connect(address).await.unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let name = ServerName::try_from("node-1").unwrap();
    let mut stream = connector.connect(name, socket).await.unwrap();
    let head = format!(
        "GET {path} HTTP/1.1\r\nhost: node-1\r\nauthorization: Bearer {token}\r\n\
         connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
         sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         sec-websocket-protocol: v4.channel.k8s.io\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut first = [0; 12];
    stream.read_exact(&mut first).await.unwrap();
    std::str::from_utf8(&first[9..]).unwrap().parse().unwrap()
}

#[tokio::test]
async fn whoever_may_only_read_from_a_node_runs_nothing_there() {
    let server = Server::start(&["--ephemeral", "--nodes", "1", "--runtime", "process"]).unwrap();
    let admin = Caller::new(server.access().unwrap());
    let role = json!({"metadata": {"name": "reader"}, "rules": [
        {"verbs": ["get"], "apiGroups": [""], "resources": ["nodes/proxy"]}]});
    admin.create(&format!("{RBAC}/clusterroles"), role).await;
    admin.create(ACCOUNTS, json!({"metadata": {"name": "reader"}})).await;
    let binding = json!({
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "default", "name": "reader"}],
    });
    admin.create(&format!("{RBAC}/clusterrolebindings"), binding).await;
    let begin = Instant::now();
    let node = loop {
        let node = admin.get("/api/v1/nodes/node-1").await;
        if node.json["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"].is_u64() {
            break node.json;
        }
        assert!(
            begin.elapsed() < Duration::from_secs(60),
            "the node never came: {}",
            server.said()
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    // Over the server.
    let reader = admin.acting_as(
        "system:serviceaccount:default:reader",
        &["system:serviceaccounts", "system:authenticated"],
    );
    let proxy = "/api/v1/nodes/node-1/proxy";
    assert_eq!(reader.get(&format!("{proxy}/healthz")).await.code, 200);
    for path in PATHS {
        let answer = reader.get(&format!("{proxy}{path}")).await;
        assert_eq!(answer.code, 403, "{path}: {}", answer.json);
    }
    // On the node's own port.
    let token = admin.create(&format!("{ACCOUNTS}/reader/token"), json!({"spec": {}})).await;
    let token = token["status"]["token"].as_str().unwrap();
    let kubeconfig = std::fs::read_to_string(server.kubeconfig()).unwrap();
    let authority = kubeconfig
        .lines()
        .find_map(|line| line.trim().strip_prefix("certificate-authority-data: "))
        .unwrap();
    let authority = STANDARD.decode(authority).unwrap();
    let authority = CertificateDer::from_pem_slice(&authority).unwrap();
    let port = &node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"];
    let addresses = node["status"]["addresses"].as_array().unwrap();
    // The other address is the one that its pods know.
    let mut ips = addresses.iter().filter_map(|entry| entry["address"].as_str());
    let address = format!("{}:{port}", ips.find(|ip| ip.starts_with("127.")).unwrap());
    assert_eq!(asked(&address, &authority, token, "/healthz").await, 200, "it may read");
    for path in PATHS {
        assert_eq!(asked(&address, &authority, token, path).await, 403, "{path}");
    }
    for path in ["/pods/../exec/default/web/c", "/./exec/default/web/c", "/pods/..;/exec/a/b/c"] {
        assert_eq!(asked(&address, &authority, token, path).await, 400, "{path}");
    }
}
