//! A kubeconfig that leads to a webhook: where it is, whom to trust, as whom to come (api-server R154a).
//!
//! Programs and plugins that a kubeconfig may name are never run.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use tenure_machinery::{Object, ObjectExt};
use tenure_server::authorize::{CertifiedKey, TlsSettings, WebhookEndpoint};
use tenure_yaml::YamlLimits;

use super::AuthorizationError;

/// The longest file that is read.
const BYTES_MAX: u64 = 3 << 20;

/// Reads files and remembers them, so that changes are seen.
#[derive(Default)]
pub(super) struct FileReader {
    files: Vec<(PathBuf, Option<Vec<u8>>)>,
}

impl FileReader {
    pub(super) fn read(&mut self, path: &Path) -> Result<Vec<u8>, AuthorizationError> {
        let read = bytes(path);
        self.files.push((path.to_owned(), read.as_ref().ok().cloned()));
        read.map_err(|source| AuthorizationError::Unreadable { path: path.to_owned(), source })
    }

    pub(super) fn into_files(self) -> Vec<(PathBuf, Option<Vec<u8>>)> {
        self.files
    }
}

/// What a file holds. A pipe or a device might never end.
pub(super) fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > BYTES_MAX {
        true => Err(io::Error::other("it is too long")),
        false => Ok(bytes),
    }
}

/// Where a kubeconfig leads.
pub(super) fn endpoint(
    path: &Path,
    reader: &mut FileReader,
) -> Result<WebhookEndpoint, AuthorizationError> {
    let text = reader.read(path)?;
    let mut kubeconfig = WebhookKubeconfig { path, reader };
    kubeconfig.endpoint(&text)
}

struct WebhookKubeconfig<'a> {
    path: &'a Path,
    reader: &'a mut FileReader,
}

/// Members of a user that mean something that is not done here.
const USER_UNKNOWN: [&str; 6] =
    ["exec", "auth-provider", "as", "as-uid", "as-groups", "as-user-extra"];

impl WebhookKubeconfig<'_> {
    fn wrong(&self, why: impl Into<String>) -> AuthorizationError {
        AuthorizationError::Kubeconfig { path: self.path.to_owned(), why: why.into() }
    }

    fn endpoint(&mut self, text: &[u8]) -> Result<WebhookEndpoint, AuthorizationError> {
        let document = tenure_yaml::to_json(text, YamlLimits::default())
            .map_err(|error| self.wrong(format!("it is no YAML: {error}")))?;
        let Value::Object(config) = document else {
            return Err(self.wrong("it is no mapping"));
        };
        let current = self.text(&config, "current-context")?;
        if current.is_empty() {
            return Err(self.wrong("current-context: Required value"));
        }
        let context = self.named(&config, "contexts", "context", current)?;
        let cluster = self.text(&context, "cluster")?;
        let cluster = self.named(&config, "clusters", "cluster", cluster)?;
        let user = match self.text(&context, "user")? {
            "" => Object::new(),
            user => self.named(&config, "users", "user", user)?,
        };
        let url = self.text(&cluster, "server")?.to_owned();
        if !url.starts_with("https://") {
            return Err(self.wrong(format!("clusters: server: {url:?} must begin with https://")));
        }
        let tls = self.tls(&cluster, &user)?;
        let authorization = self.authorization(&user)?;
        Ok(WebhookEndpoint { url, tls, authorization })
    }

    fn tls(&mut self, cluster: &Object, user: &Object) -> Result<TlsSettings, AuthorizationError> {
        if !self.text(cluster, "proxy-url")?.is_empty() {
            return Err(self.wrong("clusters: proxy-url: proxies are not used"));
        }
        let unverified = match cluster.get("insecure-skip-tls-verify") {
            None | Some(Value::Null) => false,
            Some(Value::Bool(flag)) => *flag,
            Some(_) => {
                return Err(self.wrong("clusters: insecure-skip-tls-verify: must be true or false"));
            }
        };
        let authorities = self.material(cluster, "certificate-authority")?;
        if unverified && authorities.is_some() {
            let why =
                "clusters: insecure-skip-tls-verify and certificate-authority exclude each other";
            return Err(self.wrong(why));
        }
        let name = self.text(cluster, "tls-server-name")?;
        let chain = self.material(user, "client-certificate")?;
        let key = self.material(user, "client-key")?;
        let identity = match (chain, key) {
            (Some(chain), Some(key)) => Some(CertifiedKey { chain, key }),
            (None, None) => None,
            _ => {
                let why = "users: client-certificate and client-key need each other";
                return Err(self.wrong(why));
            }
        };
        Ok(TlsSettings {
            authorities: authorities.unwrap_or_default(),
            server_name: Some(name.to_owned()).filter(|name| !name.is_empty()),
            unverified,
            identity,
        })
    }

    fn authorization(&mut self, user: &Object) -> Result<Option<String>, AuthorizationError> {
        if let Some(member) = USER_UNKNOWN.iter().find(|member| user.contains_key(**member)) {
            return Err(self.wrong(format!("users: {member}: is not supported here")));
        }
        // As upstream: the file counts more than what stands here.
        let token = match self.text(user, "tokenFile")? {
            "" => self.text(user, "token")?.to_owned(),
            file => {
                let place = self.place(file);
                let bytes = self.reader.read(&place)?;
                let text = String::from_utf8(bytes);
                text.map_err(|_| self.wrong("users: tokenFile: is no text"))?.trim().to_owned()
            }
        };
        let (name, password) = (self.text(user, "username")?, self.text(user, "password")?);
        match (token.is_empty(), name.is_empty() && password.is_empty()) {
            (true, true) => Ok(None),
            (false, true) => Ok(Some(format!("Bearer {token}"))),
            (true, false) => {
                Ok(Some(format!("Basic {}", STANDARD.encode(format!("{name}:{password}")))))
            }
            (false, false) => Err(self.wrong("users: a token and a username exclude each other")),
        }
    }

    /// What stands in base64, or in a file that is named; the first counts more, as upstream.
    fn material(
        &mut self,
        of: &Object,
        member: &str,
    ) -> Result<Option<Vec<u8>>, AuthorizationError> {
        let data = self.text(of, &format!("{member}-data"))?;
        if !data.is_empty() {
            let decoded = STANDARD.decode(data);
            return decoded
                .map(Some)
                .map_err(|_| self.wrong(format!("{member}-data: is no base64")));
        }
        match self.text(of, member)? {
            "" => Ok(None),
            file => {
                let place = self.place(file);
                self.reader.read(&place).map(Some)
            }
        }
    }

    /// Paths are below the folder of the kubeconfig.
    fn place(&self, file: &str) -> PathBuf {
        self.path.parent().unwrap_or(Path::new("/")).join(file)
    }

    fn text<'o>(&self, of: &'o Object, member: &str) -> Result<&'o str, AuthorizationError> {
        match of.get(member) {
            None | Some(Value::Null) => Ok(""),
            Some(Value::String(text)) => Ok(text),
            Some(_) => Err(self.wrong(format!("{member}: must be a string"))),
        }
    }

    /// An entry of a list, by its name.
    fn named(
        &self,
        config: &Object,
        list: &str,
        member: &str,
        name: &str,
    ) -> Result<Object, AuthorizationError> {
        let mut entries = config.list_at(&[list]).iter().filter_map(Value::as_object);
        let found = entries.find(|entry| entry.str_at(&["name"]) == Some(name));
        let found = found.ok_or_else(|| self.wrong(format!("{list}: there is no {name:?}")))?;
        match found.get(member) {
            Some(Value::Object(entry)) => Ok(entry.clone()),
            _ => Err(self.wrong(format!("{list}: {name:?} has no {member}"))),
        }
    }
}
