//! Certificates and keys that somebody else made, read from files at the start: what a kube-apiserver is given
//! (api-server R148, R149, R173). Nothing is made or written here; what the server makes for itself is in [`crate::pki`].
//!
//! ```text
//!   serving              shown to clients          else of the server's own authority
//!   client authorities   whose clients are known   else the server's own
//!   token key            signs tokens              else the server's own
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tenure_server::listen::Tls;

use crate::error::HostStartError;
use crate::pki::{CertificateKeyPair, Pki};

/// Where certificates and keys come from that the server does not make itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateFiles {
    /// What is shown to clients: the certificate, behind it those between it and its authority, and its key.
    pub serving: Option<(PathBuf, PathBuf)>,
    /// Whose client certificates are believed.
    pub client_authorities: ClientAuthorities,
    /// The key that signs service-account tokens.
    pub token_key: Option<PathBuf>,
}

/// Whose client certificates are believed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ClientAuthorities {
    /// The server's own authority, which signs its administrator.
    #[default]
    Own,
    /// Those in a file, and no others.
    File(PathBuf),
    /// Nobody's.
    Nobody,
}

/// Certificates and keys as they were read.
pub(crate) struct ServingParts {
    /// What is shown to clients, as PEM.
    serving: CertificateKeyPair,
    /// Whose client certificates are believed, as PEM; empty for nobody's.
    pub(crate) client_authority_pem: String,
    /// What others verify the server by, as PEM.
    pub(crate) authority_pem: String,
}

impl ServingParts {
    /// Reads what is given, and takes the rest from the server's own.
    pub(crate) fn read(
        files: &CertificateFiles,
        own: &Pki,
    ) -> Result<ServingParts, HostStartError> {
        let (serving, authority_pem) = match &files.serving {
            None => (own.serving.clone(), own.authority.certificate_pem.clone()),
            Some((certificate, key)) => {
                let certificate_pem = text(certificate)?;
                // Who signed it is not said; its last certificate is as near to that as it gets.
                let pair = CertificateKeyPair {
                    certificate_pem: certificate_pem.clone(),
                    key_pem: text(key)?,
                };
                (pair, certificate_pem)
            }
        };
        let client_authority_pem = match &files.client_authorities {
            ClientAuthorities::Own => own.authority.certificate_pem.clone(),
            ClientAuthorities::File(path) => text(path)?,
            ClientAuthorities::Nobody => String::new(),
        };
        Ok(ServingParts { serving, client_authority_pem, authority_pem })
    }

    /// The TLS side of the socket.
    pub(crate) fn tls(&self) -> Result<Tls, HostStartError> {
        let failed = |what: &str| HostStartError::Tls(format!("{what} is not in PEM form").into());
        let chain = certificates(&self.serving.certificate_pem);
        let chain = chain.filter(|chain| !chain.is_empty());
        let chain = chain.ok_or_else(|| failed("the serving certificate"))?;
        let key = PrivateKeyDer::from_pem_slice(self.serving.key_pem.as_bytes());
        let key = key.map_err(|_| failed("the key of the serving certificate"))?;
        let clients = certificates(&self.client_authority_pem)
            .filter(|found| found.is_empty() == self.client_authority_pem.is_empty())
            .ok_or_else(|| failed("the authority of clients"))?;
        Tls::new(chain, key, clients).map_err(|error| HostStartError::Tls(Box::new(error)))
    }
}

fn certificates(pem: &str) -> Option<Vec<CertificateDer<'static>>> {
    CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<_, _>>().ok()
}

/// A file that is named in a setting.
pub(crate) fn text(path: &Path) -> Result<String, HostStartError> {
    fs::read_to_string(path)
        .map_err(|source| HostStartError::File { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::pki::serving_names;

    fn own() -> Pki {
        let nowhere = [0, 0, 0, 0].into();
        Pki::in_memory(&serving_names(nowhere, nowhere, None), SystemTime::now()).unwrap()
    }

    #[test]
    fn r173_what_is_given_is_taken_and_the_rest_is_made() {
        let dir = tempfile::tempdir().unwrap();
        let (own, other) = (own(), self::own());
        let file = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let certificate = file("apiserver.crt", &other.serving.certificate_pem);
        let files = CertificateFiles {
            serving: Some((certificate, file("apiserver.key", &other.serving.key_pem))),
            client_authorities: ClientAuthorities::File(file(
                "ca",
                &other.authority.certificate_pem,
            )),
            token_key: None,
        };
        let parts = ServingParts::read(&files, &own).unwrap();
        assert_eq!(parts.serving.certificate_pem, other.serving.certificate_pem);
        assert_eq!(parts.client_authority_pem, other.authority.certificate_pem);
        parts.tls().unwrap();
        let usual = ServingParts::read(&CertificateFiles::default(), &own).unwrap();
        assert_eq!(usual.client_authority_pem, own.authority.certificate_pem);
        usual.tls().unwrap();
        let nobody = CertificateFiles { client_authorities: ClientAuthorities::Nobody, ..files };
        ServingParts::read(&nobody, &own).unwrap().tls().unwrap();
    }

    #[test]
    fn what_is_no_certificate_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "no certificate").unwrap();
        let own = own();
        let clients = CertificateFiles {
            client_authorities: ClientAuthorities::File(path.clone()),
            ..CertificateFiles::default()
        };
        let told = |files: &CertificateFiles| {
            let parts = ServingParts::read(files, &own);
            parts.and_then(|parts| parts.tls()).unwrap_err().causes().join(" ")
        };
        assert_eq!(told(&clients), "the authority of clients is not in PEM form");
        let serving = (path.clone(), path.clone());
        let serving = CertificateFiles { serving: Some(serving), ..CertificateFiles::default() };
        assert_eq!(told(&serving), "the serving certificate is not in PEM form");
        let absent = ClientAuthorities::File(dir.path().join("none"));
        let absent = CertificateFiles { client_authorities: absent, ..CertificateFiles::default() };
        let error = ServingParts::read(&absent, &own).err().unwrap();
        assert!(error.to_string().contains("none` cannot be read"), "{error}");
    }
}
