//! Certificates and keys: made at the first start, kept in the data folder, made again when they
//! are about to expire or no longer name the server. No certificate of a user's own is read here.
//!
//! ```text
//!   authority ──signs──► serving   names and addresses of the server
//!             ──signs──► admin     CN kubernetes-admin, O system:masters
//!             ──signs──► users     as a test asks for them; kept nowhere
//!             ──signs──► nodes     what they serve with; kept by the nodes
//!   front proxy's authority ──signs──► front proxy   what the server shows to servers of other API groups
//!   service account key            signs tokens; belongs to no certificate
//! ```

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tenure_server::{CertifiedKey, FrontProxy};
use x509_parser::prelude::{FromDer, GeneralName, ParsedExtension, X509Certificate};

use crate::folder;

mod node;
mod user;

pub use node::NodeSigner;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const AUTHORITY_LIFE: Duration = Duration::from_secs(10 * 365 * DAY.as_secs());
const LEAF_LIFE: Duration = Duration::from_secs(365 * DAY.as_secs());
/// A certificate that would expire within this time is made again at the start.
const RENEW_BEFORE: Duration = Duration::from_secs(30 * DAY.as_secs());
/// Certificates begin a little in the past, for clients whose clock is late.
const CLOCK_LAG: Duration = Duration::from_secs(60 * 60);
/// A clock beyond this (the year 5138) is broken; the bound keeps dates representable.
const CLOCK_SECONDS_MAX: u64 = 100_000_000_000;

// Stored authorities are told apart by this name: change it and every folder gets a new one.
const AUTHORITY_NAME: &str = "tenure";
const SERVING_NAME: &str = "kube-apiserver";
const ADMIN_NAME: &str = "kubernetes-admin";
/// Of an authority of its own: whoever it signs for may speak for anybody, to servers that trust it.
const FRONT_PROXY_AUTHORITY_NAME: &str = "front-proxy-ca";
const FRONT_PROXY_NAME: &str = "front-proxy-client";
const ADMIN_GROUP: &str = "system:masters";

/// Why certificates could not be had.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// A file could not be read or written.
    #[error("`{}` cannot be read or written", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A stored certificate authority is not what was written.
    #[error("the certificate authority in `{}` is damaged", path.display())]
    Damaged {
        /// The folder with certificates and keys.
        path: PathBuf,
    },
    /// Making a certificate failed.
    #[error("a certificate could not be made")]
    Make(#[from] rcgen::Error),
    /// A certificate that was just made does not read as one.
    #[error("a certificate could not be given groups")]
    Groups,
}

/// A certificate and its private key, both in PEM form.
#[derive(Clone)]
pub struct CertificateKeyPair {
    /// The certificate.
    pub certificate_pem: String,
    /// The private key.
    pub key_pem: String,
}

impl std::fmt::Debug for CertificateKeyPair {
    /// Never shows the key.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Pair").field("certificate_pem", &self.certificate_pem).finish()
    }
}

impl CertificateKeyPair {
    /// The certificate in DER form; `None` if the PEM text is damaged.
    #[must_use]
    pub fn certificate(&self) -> Option<CertificateDer<'static>> {
        CertificateDer::from_pem_slice(self.certificate_pem.as_bytes()).ok()
    }

    /// The private key in DER form; `None` if the PEM text is damaged.
    #[must_use]
    pub fn key(&self) -> Option<PrivateKeyDer<'static>> {
        PrivateKeyDer::from_pem_slice(self.key_pem.as_bytes()).ok()
    }
}

/// All certificates and keys of one control plane.
#[derive(Clone, Debug)]
pub struct Pki {
    /// Signs the other two.
    pub authority: CertificateKeyPair,
    /// What the server shows.
    pub serving: CertificateKeyPair,
    /// What the administrator shows.
    pub admin: CertificateKeyPair,
    /// Signs what the server shows to servers of other API groups, and nothing else (api-server R131d).
    pub front_proxy_authority: CertificateKeyPair,
    /// What it shows to them.
    pub front_proxy: CertificateKeyPair,
    /// Signs service account tokens.
    pub service_account: ServiceAccountKey,
    /// The names and addresses of the server, which no node may have.
    names: BTreeSet<String>,
}

/// A P-256 key in PKCS#8 PEM form.
#[derive(Clone)]
pub struct ServiceAccountKey(pub String);

impl std::fmt::Debug for ServiceAccountKey {
    /// Never shows the key.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("ServiceAccountKey")
    }
}

/// The names and addresses that the serving certificate must bear.
#[must_use]
pub fn serving_names(listen: IpAddr, service: IpAddr, hostname: Option<&str>) -> BTreeSet<String> {
    let mut names: BTreeSet<String> = [
        "localhost",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
        "127.0.0.1",
        "::1",
    ]
    .into_iter()
    .map(str::to_owned)
    .collect();
    names.insert(service.to_string());
    // The unspecified address is nobody's name.
    if !listen.is_unspecified() {
        names.insert(listen.to_string());
    }
    let legal = |name: &&str| {
        !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte))
    };
    names.extend(hostname.filter(legal).map(str::to_ascii_lowercase));
    names
}

/// The name of this machine, if the system tells it.
#[must_use]
pub fn hostname() -> Option<String> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned())
}

impl Pki {
    /// New certificates, kept nowhere.
    pub fn in_memory(names: &BTreeSet<String>, now: SystemTime) -> Result<Pki, PkiError> {
        let authority = new_authority(AUTHORITY_NAME, now)?;
        let issuer = issuer(&authority, now)?;
        let front_proxy_authority = new_authority(FRONT_PROXY_AUTHORITY_NAME, now)?;
        Ok(Pki {
            front_proxy: new_front_proxy(&front_proxy_authority, now)?,
            front_proxy_authority,
            serving: new_serving(&issuer, names, now)?,
            admin: new_admin(&issuer, now)?,
            authority,
            service_account: ServiceAccountKey(KeyPair::generate()?.serialize_pem()),
            names: names.clone(),
        })
    }

    /// The certificates of a folder; what is absent, about to expire or out of date is made.
    pub fn in_folder(
        path: &Path,
        names: &BTreeSet<String>,
        now: SystemTime,
    ) -> Result<Pki, PkiError> {
        let files = PkiFolder { path };
        folder::make(path).map_err(|source| files.failed(path.to_owned(), source))?;
        let authority = files.authority("ca", AUTHORITY_NAME, now)?;
        let signed_by = authority_key_id(&authority);
        let current = |pair: &CertificateKeyPair, names| {
            is_current(pair, names, (AUTHORITY_NAME, signed_by.as_deref()), now)
        };
        let serving = match files.read_pair("server")?.filter(|pair| current(pair, names)) {
            Some(pair) => pair,
            None => {
                files.write_pair("server", new_serving(&issuer(&authority, now)?, names, now)?)?
            }
        };
        let none = BTreeSet::new();
        let admin = match files.read_pair("admin")?.filter(|pair| current(pair, &none)) {
            Some(pair) => pair,
            None => files.write_pair("admin", new_admin(&issuer(&authority, now)?, now)?)?,
        };
        let (front_proxy_authority, front_proxy) = files.front_proxy(now)?;
        let service_account = ServiceAccountKey(files.service_account_key()?);
        let names = names.clone();
        Ok(Pki {
            authority,
            serving,
            admin,
            front_proxy_authority,
            front_proxy,
            service_account,
            names,
        })
    }
}

impl Pki {
    /// As whom the server shows itself to servers of other API groups.
    #[must_use]
    pub fn front_proxy(&self) -> FrontProxy {
        FrontProxy {
            authority_pem: self.front_proxy_authority.certificate_pem.clone(),
            name: FRONT_PROXY_NAME,
            identity: CertifiedKey {
                chain: self.front_proxy.certificate_pem.clone().into_bytes(),
                key: self.front_proxy.key_pem.clone().into_bytes(),
            },
        }
    }

    /// A new pair by which the server knows its bearer as this user in these groups.
    pub fn user(
        &self,
        name: &str,
        groups: &[&str],
        now: SystemTime,
    ) -> Result<CertificateKeyPair, PkiError> {
        let mut params = params(name, now, LEAF_LIFE);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let issuer = issuer(&self.authority, now)?;
        let pair = sign(params, &issuer)?;
        user::with_groups(pair, name, groups, issuer.key())
    }
}

/// The files of a folder with certificates.
struct PkiFolder<'a> {
    path: &'a Path,
}

impl PkiFolder<'_> {
    fn failed(&self, path: PathBuf, source: io::Error) -> PkiError {
        PkiError::Io { path, source }
    }

    /// An empty file counts as absent: a power cut may leave one.
    fn read(&self, name: &str) -> Result<Option<String>, PkiError> {
        let path = self.path.join(name);
        match fs::read(&path) {
            Ok(bytes) if bytes.is_empty() => Ok(None),
            Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed(path, error)),
        }
    }

    fn write(&self, name: &str, text: &str) -> Result<(), PkiError> {
        let path = self.path.join(name);
        tenure_files::replace(&path, text.as_bytes()).map_err(|error| self.failed(path, error))
    }

    fn read_pair(&self, name: &str) -> Result<Option<CertificateKeyPair>, PkiError> {
        let certificate = self.read(&format!("{name}.crt"))?;
        let key = self.read(&format!("{name}.key"))?;
        Ok(certificate
            .zip(key)
            .map(|(certificate_pem, key_pem)| CertificateKeyPair { certificate_pem, key_pem }))
    }

    fn write_pair(
        &self,
        name: &str,
        pair: CertificateKeyPair,
    ) -> Result<CertificateKeyPair, PkiError> {
        self.write(&format!("{name}.key"), &pair.key_pem)?;
        self.write(&format!("{name}.crt"), &pair.certificate_pem)?;
        tracing::info!(name, "a certificate is made");
        Ok(pair)
    }

    /// A damaged authority is an error, since a new one would lock out every client that trusts it.
    fn authority(
        &self,
        file: &str,
        name: &str,
        now: SystemTime,
    ) -> Result<CertificateKeyPair, PkiError> {
        let Some(pair) = self.read_pair(file)? else {
            return self.write_pair(file, new_authority(name, now)?);
        };
        if !is_pair(&pair) {
            return Err(PkiError::Damaged { path: self.path.to_owned() });
        }
        let signed_by = authority_key_id(&pair);
        if is_current(&pair, &BTreeSet::new(), (name, signed_by.as_deref()), now) {
            return Ok(pair);
        }
        self.write_pair(file, new_authority(name, now)?)
    }

    /// The front proxy's authority, and what it signed.
    fn front_proxy(
        &self,
        now: SystemTime,
    ) -> Result<(CertificateKeyPair, CertificateKeyPair), PkiError> {
        let name = FRONT_PROXY_AUTHORITY_NAME;
        let authority = self.authority(name, name, now)?;
        let signed_by = authority_key_id(&authority);
        let current = |pair: &CertificateKeyPair| {
            is_current(pair, &BTreeSet::new(), (name, signed_by.as_deref()), now)
        };
        let pair = match self.read_pair(FRONT_PROXY_NAME)?.filter(current) {
            Some(pair) => pair,
            None => self.write_pair(FRONT_PROXY_NAME, new_front_proxy(&authority, now)?)?,
        };
        Ok((authority, pair))
    }

    fn service_account_key(&self) -> Result<String, PkiError> {
        if let Some(text) = self.read("service-account.key")? {
            if KeyPair::from_pem(&text).is_ok() {
                return Ok(text);
            }
            return Err(PkiError::Damaged { path: self.path.join("service-account.key") });
        }
        let text = KeyPair::generate()?.serialize_pem();
        self.write("service-account.key", &text)?;
        Ok(text)
    }
}

fn authority_params(name: &str, now: SystemTime) -> CertificateParams {
    let mut params = params(name, now, AUTHORITY_LIFE);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::CrlSign,
    ];
    params
}

fn new_authority(name: &str, now: SystemTime) -> Result<CertificateKeyPair, PkiError> {
    let key = KeyPair::generate()?;
    let certificate_pem = authority_params(name, now).self_signed(&key)?.pem();
    Ok(CertificateKeyPair { certificate_pem, key_pem: key.serialize_pem() })
}

/// Only name, key and usages of the authority enter what it signs, so its dates do not matter here.
fn issuer(
    authority: &CertificateKeyPair,
    now: SystemTime,
) -> Result<Issuer<'static, KeyPair>, PkiError> {
    issuer_named(AUTHORITY_NAME, authority, now)
}

fn issuer_named(
    name: &str,
    authority: &CertificateKeyPair,
    now: SystemTime,
) -> Result<Issuer<'static, KeyPair>, PkiError> {
    Ok(Issuer::new(authority_params(name, now), KeyPair::from_pem(&authority.key_pem)?))
}

fn new_serving(
    issuer: &Issuer<'static, KeyPair>,
    names: &BTreeSet<String>,
    now: SystemTime,
) -> Result<CertificateKeyPair, PkiError> {
    let mut params = params(SERVING_NAME, now, LEAF_LIFE);
    let names: Vec<String> = names.iter().cloned().collect();
    params.subject_alt_names = CertificateParams::new(names)?.subject_alt_names;
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    sign(params, issuer)
}

fn new_admin(
    issuer: &Issuer<'static, KeyPair>,
    now: SystemTime,
) -> Result<CertificateKeyPair, PkiError> {
    let mut params = params(ADMIN_NAME, now, LEAF_LIFE);
    params.distinguished_name.push(DnType::OrganizationName, ADMIN_GROUP);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    sign(params, issuer)
}

fn new_front_proxy(
    authority: &CertificateKeyPair,
    now: SystemTime,
) -> Result<CertificateKeyPair, PkiError> {
    let mut params = params(FRONT_PROXY_NAME, now, LEAF_LIFE);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    sign(params, &issuer_named(FRONT_PROXY_AUTHORITY_NAME, authority, now)?)
}

fn params(name: &str, now: SystemTime, life: Duration) -> CertificateParams {
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let now = Duration::from_secs(unix_seconds(now));
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = epoch + now.saturating_sub(CLOCK_LAG);
    params.not_after = epoch + now.saturating_add(life);
    params
}

fn sign(
    mut params: CertificateParams,
    issuer: &Issuer<'static, KeyPair>,
) -> Result<CertificateKeyPair, PkiError> {
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    let key = KeyPair::generate()?;
    let certificate_pem = params.signed_by(&key, issuer)?.pem();
    Ok(CertificateKeyPair { certificate_pem, key_pem: key.serialize_pem() })
}

fn unix_seconds(now: SystemTime) -> u64 {
    now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs().min(CLOCK_SECONDS_MAX)
}

/// Whether certificate and key can be read and belong together.
fn is_pair(pair: &CertificateKeyPair) -> bool {
    let Some(der) = pair.certificate() else { return false };
    let Ok((_, certificate)) = X509Certificate::from_der(&der) else { return false };
    KeyPair::from_pem(&pair.key_pem)
        .is_ok_and(|key| key.public_key_raw() == &*certificate.public_key().subject_public_key.data)
}

/// Whether a stored pair is sound, of this authority, valid for a while, and bears all `names`.
fn is_current(
    pair: &CertificateKeyPair,
    names: &BTreeSet<String>,
    (authority, signed_by): (&str, Option<&[u8]>),
    now: SystemTime,
) -> bool {
    let Some(der) = pair.certificate().filter(|_| is_pair(pair)) else { return false };
    let Ok((_, certificate)) = X509Certificate::from_der(&der) else { return false };
    let issued_here = common_name(certificate.issuer()) == Some(authority)
        && (certificate.is_ca() || key_id(&certificate, true).as_deref() == signed_by);
    let validity = certificate.validity();
    let now = i64::try_from(unix_seconds(now)).unwrap_or(i64::MAX);
    let renew_before = i64::try_from(RENEW_BEFORE.as_secs()).unwrap_or(i64::MAX);
    let in_time = validity.not_before.timestamp() <= now
        && now.saturating_add(renew_before) < validity.not_after.timestamp();
    issued_here && in_time && names.is_subset(&names_of(&certificate))
}

fn common_name<'a>(name: &'a x509_parser::x509::X509Name<'_>) -> Option<&'a str> {
    name.iter_common_name().next().and_then(|attribute| attribute.as_str().ok())
}

/// The key identifier that an authority's certificate gives itself.
fn authority_key_id(authority: &CertificateKeyPair) -> Option<Vec<u8>> {
    let der = authority.certificate()?;
    let (_, certificate) = X509Certificate::from_der(&der).ok()?;
    key_id(&certificate, false)
}

/// The key identifier of the issuer, or of the certificate's own key.
fn key_id(certificate: &X509Certificate<'_>, of_issuer: bool) -> Option<Vec<u8>> {
    certificate.extensions().iter().find_map(|extension| match extension.parsed_extension() {
        ParsedExtension::AuthorityKeyIdentifier(id) if of_issuer => {
            id.key_identifier.as_ref().map(|id| id.0.to_vec())
        }
        ParsedExtension::SubjectKeyIdentifier(id) if !of_issuer => Some(id.0.to_vec()),
        _ => None,
    })
}

/// The alternative names of a certificate, as [`serving_names`] writes them.
fn names_of(certificate: &X509Certificate<'_>) -> BTreeSet<String> {
    let Ok(Some(names)) = certificate.subject_alternative_name() else { return BTreeSet::new() };
    let text = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => address(bytes).map(|address| address.to_string()),
        _ => None,
    };
    names.value.general_names.iter().filter_map(text).collect()
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
