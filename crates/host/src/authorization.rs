//! Who decides who may do what: the configuration in its file, read at the start and again when it changes
//! (api-server R154a).
//!
//! ```text
//!   file ──► YAML ──► AuthorizationConfiguration ──► kubeconfigs of its webhooks ──► the server
//!     └──── every second: has one of these files changed? a fault leaves everything as it was ────┘
//! ```
//!
//! What the fields mean is the server's matter.

mod client;

use std::error::Error as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tenure_server::AuthorizerChain;
use tenure_server::authorize::WebhookEndpoint;
use tenure_server::authorize::configuration::AuthorizationConfiguration;
use tenure_yaml::YamlLimits;
use tokio::sync::watch;

use client::FileReader;

/// How often is looked whether a file has changed.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often a file that cannot be read is told of while that lasts.
const TELL_EVERY: u32 = 60;

/// Who decides, as it was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AuthorizationSource {
    /// Nobody said.
    #[default]
    Usual,
    /// A file says, which is followed.
    File(PathBuf),
    /// Flags say, once and for all.
    Modes(AuthorizationModes),
}

/// Who decides, as flags say it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthorizationModes {
    /// Such as `RBAC`, in the order in which they are asked.
    pub modes: Vec<String>,
    /// The kubeconfig that leads to the webhook.
    pub webhook: Option<PathBuf>,
    /// The API version of the reviews that it gets.
    pub version: String,
    /// How long what it allows is kept.
    pub authorized_ttl: Duration,
    /// How long what it does not allow is kept.
    pub unauthorized_ttl: Duration,
}

/// Why nobody can decide as it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum AuthorizationError {
    /// A file cannot be read.
    #[error("`{}` cannot be read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is no YAML.
    #[error("the authorization configuration `{}` cannot be read as YAML: {why}", path.display())]
    NoYaml {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// Fields are wrong.
    #[error("the authorization configuration{} is wrong: {}", of(path.as_deref()), faults.join("; "))]
    Wrong {
        /// The file; none where flags say it.
        path: Option<PathBuf>,
        /// Each with its field.
        faults: Vec<String>,
    },
    /// A webhook cannot be called.
    #[error("the kubeconfig `{}` of an authorization webhook cannot be used: {why}", path.display())]
    Kubeconfig {
        /// The kubeconfig.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A webhook cannot be called with these certificates.
    #[error("an authorization webhook cannot be called: {0}")]
    Webhook(String),
}

fn of(path: Option<&Path>) -> String {
    path.map(|path| format!(" `{}`", path.display())).unwrap_or_default()
}

/// A configuration with everything that was read for it.
struct LoadedConfiguration {
    configuration: AuthorizationConfiguration,
    endpoints: Vec<WebhookEndpoint>,
    text: Vec<u8>,
}

/// Follows the file of a configuration.
pub(crate) struct AuthorizationFollower {
    path: PathBuf,
    access: Arc<AuthorizerChain>,
    started_with: AuthorizationConfiguration,
    in_force: (AuthorizationConfiguration, Vec<WebhookEndpoint>),
    /// All files, as they were when they were last read, whatever came of it.
    seen: Vec<(PathBuf, Option<Vec<u8>>)>,
    /// How often was looked.
    looks: u32,
}

/// Tells the server who decides. Answers with what follows the file, if a file says it.
///
/// # Errors
/// It cannot be so, in words that name the field or file.
pub(crate) fn configure(
    source: &AuthorizationSource,
    access: &Arc<AuthorizerChain>,
) -> Result<Option<AuthorizationFollower>, AuthorizationError> {
    let mut reader = FileReader::default();
    let (path, loaded) = match source {
        AuthorizationSource::Usual => return Ok(None),
        AuthorizationSource::Modes(modes) => (None, of_modes(modes, &mut reader)?),
        AuthorizationSource::File(path) => (Some(path), of_file(path, &mut reader)?),
    };
    let LoadedConfiguration { configuration, endpoints, text } = loaded;
    access.configure(&configuration, endpoints.clone()).map_err(AuthorizationError::Webhook)?;
    let names: Vec<&str> = configuration.authorizers.iter().map(|one| one.name.as_str()).collect();
    tracing::info!(authorizers = names.join(","), "who decides who may do what");
    let Some(path) = path else { return Ok(None) };
    access.show_configuration(&text);
    Ok(Some(AuthorizationFollower {
        path: path.clone(),
        access: Arc::clone(access),
        started_with: configuration.clone(),
        in_force: (configuration, endpoints),
        seen: reader.into_files(),
        looks: 0,
    }))
}

fn of_file(
    path: &Path,
    reader: &mut FileReader,
) -> Result<LoadedConfiguration, AuthorizationError> {
    let text = reader.read(path)?;
    let document = tenure_yaml::to_json(&text, YamlLimits::default()).map_err(|error| {
        AuthorizationError::NoYaml { path: path.into(), why: error.to_string() }
    })?;
    let configuration = checked(Some(path), AuthorizationConfiguration::read(&document))?;
    let endpoints = endpoints(&configuration, reader)?;
    Ok(LoadedConfiguration { configuration, endpoints, text })
}

/// The short form says what a file could say.
fn of_modes(
    modes: &AuthorizationModes,
    reader: &mut FileReader,
) -> Result<LoadedConfiguration, AuthorizationError> {
    let seconds = |duration: &Duration| format!("{}ns", duration.as_nanos());
    let authorizers = modes.modes.iter().map(|mode| {
        if mode != "Webhook" {
            return json!({ "type": mode, "name": mode.to_lowercase() });
        }
        let kept = |ttl: &Duration| !ttl.is_zero();
        json!({ "type": mode, "name": "default", "webhook": {
            "timeout": "30s", "subjectAccessReviewVersion": modes.version,
            "failurePolicy": "NoOpinion",
            "authorizedTTL": seconds(&modes.authorized_ttl),
            "unauthorizedTTL": seconds(&modes.unauthorized_ttl),
            "cacheAuthorizedRequests": kept(&modes.authorized_ttl),
            "cacheUnauthorizedRequests": kept(&modes.unauthorized_ttl),
            "connectionInfo": {
                "type": "KubeConfigFile",
                "kubeConfigFile": modes.webhook.as_ref().map(|path| path.display().to_string()),
            },
        }})
    });
    let authorizers: Vec<_> = authorizers.collect();
    let document = json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthorizationConfiguration",
        "authorizers": authorizers,
    });
    let configuration = checked(None, AuthorizationConfiguration::read(&document))?;
    let endpoints = endpoints(&configuration, reader)?;
    Ok(LoadedConfiguration { configuration, endpoints, text: Vec::new() })
}

fn checked(
    path: Option<&Path>,
    read: Result<AuthorizationConfiguration, tenure_machinery::Errors>,
) -> Result<AuthorizationConfiguration, AuthorizationError> {
    read.map_err(|errors| {
        let causes = errors.into_causes().into_iter();
        let faults = causes.map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
        AuthorizationError::Wrong { path: path.map(Path::to_owned), faults }
    })
}

fn endpoints(
    configuration: &AuthorizationConfiguration,
    reader: &mut FileReader,
) -> Result<Vec<WebhookEndpoint>, AuthorizationError> {
    configuration
        .webhooks()
        .map(|(_, webhook)| client::endpoint(&webhook.kubeconfig, reader))
        .collect()
}

impl AuthorizationFollower {
    /// Reads the files again whenever one of them changes, until the end is asked for.
    pub(crate) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        loop {
            tokio::select! {
                _ = stop.wait_for(|asked| *asked) => return,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            // Files may be on a disk that is slow.
            let looked = tokio::task::spawn_blocking(move || {
                self.look();
                self
            });
            match looked.await {
                Ok(back) => self = back,
                Err(error) => {
                    tracing::error!(%error, "the authorization configuration is followed no longer");
                    return;
                }
            }
        }
    }

    /// Reads everything again if something has changed, and now and then as long as a file cannot be read.
    fn look(&mut self) {
        self.looks = self.looks.wrapping_add(1);
        let now: Vec<_> =
            self.seen.iter().map(|(path, _)| (path.clone(), client::bytes(path).ok())).collect();
        let is_unreadable = now.iter().any(|(_, bytes)| bytes.is_none());
        let tells_again = is_unreadable && self.looks.is_multiple_of(TELL_EVERY);
        if now == self.seen && !tells_again {
            return;
        }
        let mut reader = FileReader::default();
        let read = of_file(&self.path, &mut reader);
        // From here on the files are followed that were looked for now, whether they are there or not.
        self.seen = reader.into_files();
        if let Err(error) = read.and_then(|loaded| self.take(loaded)) {
            self.access.count_reload(false);
            let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
            tracing::error!("the authorization configuration stays as it was: {error}{cause}");
        }
    }

    fn take(&mut self, loaded: LoadedConfiguration) -> Result<(), AuthorizationError> {
        let LoadedConfiguration { configuration, endpoints, text } = loaded;
        let missing = configuration.missing_of(&self.started_with);
        if !missing.is_empty() {
            let why = format!("types that the server was started with are missing: {missing:?}");
            return Err(wrong(&self.path, why));
        }
        let added = self.started_with.missing_of(&configuration);
        if !added.is_empty() {
            let why = format!("types are added that need a new start: {added:?}");
            return Err(wrong(&self.path, why));
        }
        if self.in_force == (configuration.clone(), endpoints.clone()) {
            return Ok(());
        }
        self.access
            .configure(&configuration, endpoints.clone())
            .map_err(AuthorizationError::Webhook)?;
        self.in_force = (configuration, endpoints);
        self.access.count_reload(true);
        self.access.show_configuration(&text);
        tracing::info!(path = %self.path.display(), "the authorization configuration was read again");
        Ok(())
    }
}

fn wrong(path: &Path, why: String) -> AuthorizationError {
    let faults = vec![format!("authorizers: {why}")];
    AuthorizationError::Wrong { path: Some(path.to_owned()), faults }
}

#[cfg(test)]
mod tests;
