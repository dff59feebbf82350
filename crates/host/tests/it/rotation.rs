//! Rules of spec/api-server.md: tokens outlive the change of the key that signs them, and no longer than
//! their own key.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use serde_json::Value;
use tenure_host::{Config, ControlPlane, HostStartError, keys};

use crate::client::{Client, pair};

const TOKEN: &str = "/api/v1/namespaces/default/serviceaccounts/default/token";
const SELF: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

/// A server over a folder, at an address: the issuer of its tokens bears it.
struct Running {
    plane: ControlPlane,
    client: Client,
    pki: std::path::PathBuf,
}

impl Running {
    async fn start(config: Config) -> Running {
        let pki = config.data_dir.clone().unwrap().join("pki");
        let plane = ControlPlane::start(config).await.unwrap();
        let authority_pem = fs::read_to_string(pki.join("ca.crt")).unwrap();
        let client = Client { address: plane.address(), authority_pem };
        Running { plane, client, pki }
    }

    async fn as_admin(&self, method: &str, path: &str, body: &str) -> Value {
        let read = |name: &str| fs::read_to_string(self.pki.join(name)).unwrap();
        let shown = pair(&read("admin.crt"), &read("admin.key"));
        let headers = [("content-type", "application/json")];
        let answer = self.client.send(Some(shown), method, path, &headers, body).await;
        assert!(answer.code < 300, "{path}: {}", answer.json);
        answer.json
    }

    async fn token(&self) -> String {
        let granted = self.as_admin("POST", TOKEN, r#"{"spec":{}}"#).await;
        granted["status"]["token"].as_str().unwrap().to_owned()
    }

    async fn code(&self, token: &str) -> u16 {
        let credential = format!("Bearer {token}");
        let headers = [("content-type", "application/json"), ("authorization", &credential)];
        self.client.send(None, "POST", SELF, &headers, "{}").await.code
    }

    /// The ids of all public keys, in order.
    async fn ids(&self) -> Vec<String> {
        let keys = self.as_admin("GET", "/openid/v1/jwks", "").await;
        let ids = keys["keys"].as_array().unwrap().iter();
        ids.map(|key| key["kid"].as_str().unwrap().to_owned()).collect()
    }
}

fn config(dir: &Path, listen: SocketAddr) -> Config {
    Config { listen, ..Config::new(dir.to_owned()) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r149_tokens_outlive_a_rotation_until_their_key_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let any = ([127, 0, 0, 1], 0).into();
    let server = Running::start(config(dir.path(), any)).await;
    let address = server.plane.address();
    let before = server.token().await;
    assert_eq!(server.code(&before).await, 201);
    assert!(matches!(keys::rotate(dir.path()), Err(keys::KeysError::Folder(_))), "it runs");
    server.plane.stop().await;

    let (new, old) = keys::rotate(dir.path()).unwrap();
    let server = Running::start(config(dir.path(), address)).await;
    assert_eq!(server.ids().await, [new.clone(), old.clone()]);
    let after = server.token().await;
    assert_eq!(server.code(&before).await, 201);
    assert_eq!(server.code(&after).await, 201);
    server.plane.stop().await;

    keys::remove(dir.path(), &old).unwrap();
    let server = Running::start(config(dir.path(), address)).await;
    assert_eq!(server.ids().await, [new]);
    assert_eq!(server.code(&before).await, 401);
    assert_eq!(server.code(&after).await, 201);
    server.plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r149_keys_from_files_verify_and_never_sign() {
    let dir = tempfile::tempdir().unwrap();
    let any = ([127, 0, 0, 1], 0).into();
    let file = dir.path().join("more.pem");
    let more = rcgen::KeyPair::generate().unwrap();
    fs::write(&file, more.public_key_pem()).unwrap();
    let data = dir.path().join("data");
    let with =
        |file: &Path| Config { service_account_keys: vec![file.to_owned()], ..config(&data, any) };
    let server = Running::start(with(&file)).await;
    assert_eq!(server.ids().await.len(), 2);
    let signing = keys::list(&data).unwrap().remove(0).id;
    assert_eq!(server.ids().await[0], signing);
    server.plane.stop().await;
    fs::write(&file, "no key").unwrap();
    for file in [&file, &dir.path().join("absent")] {
        let failed = ControlPlane::start(with(file)).await.unwrap_err();
        assert!(matches!(failed, HostStartError::Keys(_)), "{failed:?}");
        assert!(failed.to_string().contains(&file.display().to_string()), "{failed}");
    }
}
