//! What a webhook shows to API servers, and which of them it believes. Files are read again when they change;
//! what cannot be read leaves everything as it was.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;

/// Files in PEM form.
#[derive(Clone, Debug)]
pub struct WebhookFiles {
    /// The certificate that is shown, with those between it and its authority.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// Who signs the certificates of API servers; others get no answer. Everybody does without.
    pub clients: Option<PathBuf>,
}

/// Why nothing can be shown.
#[derive(Debug, thiserror::Error)]
pub enum WebhookTlsError {
    /// A file cannot be read.
    #[error("`{}` cannot be read", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file holds something else.
    #[error("`{}` holds no {what}", path.display())]
    Empty {
        /// Which.
        path: PathBuf,
        /// What it should hold.
        what: &'static str,
    },
    /// They do not belong together, or cannot be used.
    #[error("the certificate, its key and the authority of clients cannot be used")]
    Unusable(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// What is in force, and what was read to get there.
pub(super) struct FollowedTls {
    files: WebhookFiles,
    read: RwLock<[Vec<u8>; 3]>,
    config: RwLock<Arc<rustls::ServerConfig>>,
}

impl FollowedTls {
    pub(super) fn read(files: WebhookFiles) -> Result<FollowedTls, WebhookTlsError> {
        let read = contents(&files)?;
        let config = RwLock::new(Arc::new(config(&files, &read)?));
        Ok(FollowedTls { files, read: RwLock::new(read), config })
    }

    pub(super) fn config(&self) -> Arc<rustls::ServerConfig> {
        Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes over what changed; whether something did.
    pub(super) fn look(&self) -> Result<bool, WebhookTlsError> {
        let now = contents(&self.files)?;
        if *self.read.read().unwrap_or_else(PoisonError::into_inner) == now {
            return Ok(false);
        }
        let fresh = Arc::new(config(&self.files, &now)?);
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        *self.read.write().unwrap_or_else(PoisonError::into_inner) = now;
        Ok(true)
    }
}

fn contents(files: &WebhookFiles) -> Result<[Vec<u8>; 3], WebhookTlsError> {
    let read = |path: &Path| {
        fs::read(path)
            .map_err(|source| WebhookTlsError::Unreadable { path: path.to_owned(), source })
    };
    let clients = files.clients.as_deref().map(read).transpose()?.unwrap_or_default();
    Ok([read(&files.certificate)?, read(&files.key)?, clients])
}

fn config(
    files: &WebhookFiles,
    [certificate, key, clients]: &[Vec<u8>; 3],
) -> Result<rustls::ServerConfig, WebhookTlsError> {
    fn unusable(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> WebhookTlsError {
        WebhookTlsError::Unusable(error.into())
    }
    let chain = certificates(&files.certificate, certificate)?;
    let empty = |what| WebhookTlsError::Empty { path: files.key.clone(), what };
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| empty("private key"))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions().map_err(unusable)?;
    let builder = match &files.clients {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = rustls::RootCertStore::empty();
            for authority in certificates(path, clients)? {
                roots.add(authority).map_err(unusable)?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().map_err(unusable)?)
        }
    };
    let mut config = builder.with_single_cert(chain, key).map_err(unusable)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, WebhookTlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err(WebhookTlsError::Empty { path: path.to_owned(), what: "certificate" }),
    }
}
