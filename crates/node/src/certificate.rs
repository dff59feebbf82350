//! The certificate of a node's own port. A node of the server's process is given one; any other asks the
//! server for it, keeps it in its folder, and asks again before it ends (R133). Who is let in by the
//! port is not decided here.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use serde_json::{Value, json};
use tenure_machinery::ObjectExt as _;
use tokio::sync::watch;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::client::Client;
use crate::clock;

const PATH: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const SIGNER: &str = "kubernetes.io/kubelet-serving";
/// How long the server may take to sign.
const SIGN_LIMIT: Duration = Duration::from_secs(30);
/// How long a node that got no certificate waits before it asks again.
const ASK_AGAIN: Duration = Duration::from_secs(10);

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// What the port shows, now.
#[derive(Debug)]
pub(crate) struct ServingCertificate(RwLock<Arc<CertifiedKey>>);

impl ServingCertificate {
    fn put(&self, certified: CertifiedKey) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(certified);
    }
}

impl ResolvesServerCert for ServingCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// A certificate and its key, both in PEM form.
pub(crate) type PemPair = (String, String);

/// Shows what was given.
pub(crate) fn given(pair: &PemPair) -> Result<Arc<ServingCertificate>, Failed> {
    Ok(Arc::new(ServingCertificate(RwLock::new(Arc::new(certified(pair)?)))))
}

/// Shows one that the node made for itself, which nobody has a reason to trust.
pub(crate) fn own(name: &str) -> Result<Arc<ServingCertificate>, Failed> {
    let own = rcgen::generate_simple_self_signed(vec![name.to_owned()])?;
    given(&(own.cert.pem(), own.signing_key.serialize_pem()))
}

/// Asks for certificates, and where they are kept.
pub(crate) struct CertificateRenewer {
    pub(crate) client: Client,
    /// The name of the node.
    pub(crate) name: String,
    /// A kept certificate is worth something only to those who trust this authority.
    pub(crate) authority_pem: String,
    /// The node's folder.
    pub(crate) folder: PathBuf,
}

impl CertificateRenewer {
    /// Keeps a signed certificate on the port, for ever; `signed` turns true with the first.
    pub(crate) async fn keep(
        self: Arc<CertificateRenewer>,
        shown: Arc<ServingCertificate>,
        signed: watch::Sender<bool>,
    ) {
        let mut kept = self.kept();
        loop {
            let pair = match kept.take() {
                Some(pair) => Ok(pair),
                None => self.ask().await,
            };
            let rest = match pair.and_then(|pair| self.show(&shown, &pair)) {
                Ok(rest) => {
                    signed.send_replace(true);
                    rest
                }
                Err(error) => {
                    tracing::warn!(
                        %error,
                        "the server has signed no certificate for this node"
                    );
                    ASK_AGAIN
                }
            };
            tokio::time::sleep(rest).await;
        }
    }

    /// Shows a pair, and says after which time the next is needed.
    fn show(&self, shown: &ServingCertificate, pair: &PemPair) -> Result<Duration, Failed> {
        shown.put(certified(pair)?);
        // One that cannot be kept is asked for again at the next start.
        if let Err(error) = tenure_files::replace(&self.file(), self.text(pair).as_bytes()) {
            tracing::warn!(%error, "the node's certificate could not be kept");
        }
        Ok(renew_in(&pair.0).unwrap_or(ASK_AGAIN).max(ASK_AGAIN))
    }

    /// Asks the server, and waits for its answer.
    async fn ask(&self) -> Result<PemPair, Failed> {
        let (request, key) = request(&self.name)?;
        let object = json!({
            "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
            "metadata": {"generateName": "csr-"},
            "spec": {
                "signerName": SIGNER, "request": STANDARD.encode(request),
                "usages": ["digital signature", "server auth"],
            },
        });
        let object = object.as_object().cloned().unwrap_or_default();
        let made = self.client.post(PATH, &object).await?;
        let path = format!("{PATH}/{}", made.name());
        let waited = async {
            let mut pause = Duration::from_millis(10);
            loop {
                let seen = self.client.get(&path).await?;
                if let Some(text) = seen.str_at(&["status", "certificate"]) {
                    return Ok(String::from_utf8(STANDARD.decode(text)?)?);
                }
                if let Some(why) = refused(seen.list_at(&["status", "conditions"])) {
                    return Err(Failed::from(why));
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_secs(1));
            }
        };
        let late = |_| Failed::from(format!("nobody answered {}", made.name()));
        let certificate = tokio::time::timeout(SIGN_LIMIT, waited).await.map_err(late)??;
        Ok((certificate, key))
    }

    fn file(&self) -> PathBuf {
        self.folder.join("serving.pem")
    }

    /// The file: certificate, key, and the authority that signed it.
    fn text(&self, pair: &PemPair) -> String {
        format!("{}{}{}", pair.0, pair.1, self.authority_pem)
    }

    /// The pair of an earlier start, if it is still good for a while.
    fn kept(&self) -> Option<PemPair> {
        let text = std::fs::read_to_string(self.file()).ok()?;
        let at = text.find("-----BEGIN PRIVATE KEY-----")?;
        let (certificate, rest) = text.split_at_checked(at)?;
        let key = rest.strip_suffix(self.authority_pem.as_str())?;
        renew_in(certificate).filter(|rest| !rest.is_zero())?;
        Some((certificate.to_owned(), key.to_owned()))
    }
}

/// Why there will be no certificate.
fn refused(conditions: &[Value]) -> Option<String> {
    conditions.iter().filter_map(Value::as_object).find_map(|condition| {
        let kind = condition.str_at(&["type"])?;
        let why = condition.str_at(&["message"]).unwrap_or_default();
        matches!(kind, "Denied" | "Failed").then(|| format!("{kind}: {why}"))
    })
}

/// A request for this node, and the key behind it; both in PEM form.
fn request(name: &str) -> Result<PemPair, Failed> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(vec![name.to_owned()])?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "system:nodes");
    params.distinguished_name.push(DnType::CommonName, format!("system:node:{name}"));
    Ok((params.serialize_request(&key)?.pem()?, key.serialize_pem()))
}

fn certified((certificate, key): &PemPair) -> Result<CertifiedKey, Failed> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate.as_bytes()).collect();
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes())?;
    let provider = rustls::crypto::ring::default_provider();
    Ok(CertifiedKey::from_der(chain?, key, &provider)?)
}

/// After how long a certificate has lived four fifths of its life; zero if it has.
fn renew_in(certificate: &str) -> Option<Duration> {
    let der = CertificateDer::from_pem_slice(certificate.as_bytes()).ok()?;
    let (_, parsed) = X509Certificate::from_der(&der).ok()?;
    let (from, to) = (parsed.validity().not_before, parsed.validity().not_after);
    let life = to.timestamp().saturating_sub(from.timestamp());
    let due = from.timestamp().saturating_add(life / 5 * 4);
    let now = clock::system_time().duration_since(UNIX_EPOCH).ok()?.as_secs();
    Some(Duration::from_secs(u64::try_from(due).ok()?.saturating_sub(now)))
}

#[cfg(test)]
mod tests {
    //! Rules of spec/downward-api.md.
    use super::*;
    use crate::client::Server;

    #[test]
    fn r133_a_kept_certificate_is_shown_again_only_for_the_same_authority() {
        let folder = tempfile::tempdir().unwrap();
        let authority = rcgen::generate_simple_self_signed(vec!["ca".to_owned()]).unwrap();
        let server = Server { url: "https://127.0.0.1:1".to_owned(), ..Server::default() };
        let keeper = |authority_pem: String| CertificateRenewer {
            client: Client::new(&server).unwrap(),
            name: "a".to_owned(),
            authority_pem,
            folder: folder.path().to_owned(),
        };
        let first = keeper(authority.cert.pem());
        assert!(first.kept().is_none());
        let own = rcgen::generate_simple_self_signed(vec!["a".to_owned()]).unwrap();
        let pair = (own.cert.pem(), own.signing_key.serialize_pem());
        let shown = given(&pair).unwrap();
        assert!(first.show(&shown, &pair).unwrap() > Duration::from_secs(24 * 60 * 60));
        assert_eq!(first.kept(), Some(pair));
        assert!(keeper(own.cert.pem()).kept().is_none(), "another authority signs now");
        std::fs::write(first.file(), "-----BEGIN PRIVATE KEY-----").unwrap();
        assert!(first.kept().is_none());
    }
}
