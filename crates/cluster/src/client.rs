//! Clients of kube-rs for a cluster: the administrator, any user, any service account. Each client
//! has connections of its own, since those end with the runtime of the test that used them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::config::AuthInfo;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use tenure_host::pki::CertificateKeyPair;

use crate::cluster::Cluster;

/// Longer than any test, shorter than what a server would cut.
const TOKEN_SECONDS: u32 = 60 * 60;

impl Cluster {
    /// A client that may do everything.
    ///
    /// In a plain `#[test]` use it inside [`Cluster::block_on`].
    #[must_use]
    #[track_caller]
    pub fn client(&self) -> kube::Client {
        self.connect(self.config())
    }

    /// A client that the cluster knows as this user in these groups, by a certificate.
    ///
    /// The group `system:authenticated` need not be named. Until a role is bound to the user or one
    /// of the groups, such a client may do next to nothing.
    #[must_use]
    #[track_caller]
    pub fn client_as(&self, user: &str, groups: &[&str]) -> kube::Client {
        self.connect(self.config_as(user, groups))
    }

    /// A client with a token of a service account, which must exist.
    ///
    /// # Errors
    /// There is no such service account.
    pub async fn service_account_client(
        &self,
        namespace: &str,
        name: &str,
    ) -> kube::Result<kube::Client> {
        let token = self.service_account_token(namespace, name).await?;
        Ok(self.connect(self.config_with(&json!({ "token": token }))))
    }

    /// A token of a service account, which must exist, for clients in any language.
    ///
    /// # Errors
    /// There is no such service account.
    pub async fn service_account_token(&self, namespace: &str, name: &str) -> kube::Result<String> {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
        let body = json!({ "spec": { "expirationSeconds": TOKEN_SECONDS } }).to_string();
        let request = http::Request::post(path)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(body.into_bytes())
            .map_err(kube::Error::HttpError)?;
        let answer: Value = self.client().request(request).await?;
        Ok(answer.pointer("/status/token").and_then(Value::as_str).unwrap_or_default().to_owned())
    }

    /// What [`Cluster::client`] is made from, for clients with other timeouts or layers.
    #[must_use]
    #[track_caller]
    pub fn config(&self) -> kube::Config {
        self.config_of(self.administrator())
    }

    /// What [`Cluster::client_as`] is made from.
    #[must_use]
    #[track_caller]
    pub fn config_as(&self, user: &str, groups: &[&str]) -> kube::Config {
        self.config_of(&self.identity(user, groups))
    }

    #[track_caller]
    fn config_of(&self, pair: &CertificateKeyPair) -> kube::Config {
        self.config_with(&json!({
            "client-certificate-data": STANDARD.encode(&pair.certificate_pem),
            "client-key-data": STANDARD.encode(&pair.key_pem),
        }))
    }

    /// Who the client is comes in the words of a kubeconfig.
    #[track_caller]
    #[expect(clippy::expect_used, reason = "the server has used the same URL and certificate")]
    fn config_with(&self, who: &Value) -> kube::Config {
        let url = self.url().parse().expect("the URL of the server is one");
        let authority = CertificateDer::from_pem_slice(self.authority_pem().as_bytes())
            .expect("the authority's certificate is in PEM form");
        let mut config = kube::Config::new(url);
        config.root_cert = Some(vec![authority.to_vec()]);
        config.auth_info =
            serde_json::from_value::<AuthInfo>(who.clone()).expect("these are words of kube's");
        config
    }

    #[track_caller]
    #[expect(clippy::expect_used, reason = "the server has used the same certificates")]
    fn connect(&self, config: kube::Config) -> kube::Client {
        let _inside = self.runtime();
        kube::Client::try_from(config).expect("a client can be made from what the server uses")
    }
}
