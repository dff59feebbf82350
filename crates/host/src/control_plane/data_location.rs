//! Where the files of a control plane are: a folder that is kept, one that goes at the end, or none.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use tenure_token::KeySet;

use crate::authorization::AuthorizationSource;
use crate::clock;
use crate::config::{Config, StorageMedium};
use crate::error::HostStartError;
use crate::folder::{LockedDataFolder, TemporaryFolder};
use crate::given;
use crate::keys::{self, KeysError};
use crate::kubeconfig;
use crate::nodes::{NodeFolder, NodeRuntime, node_name};
use crate::pki::{self, Pki};
use crate::storage;

/// Where files go, and what must outlive the server.
#[derive(Debug)]
pub(super) enum DataLocation {
    Kept(LockedDataFolder),
    Temporary(TemporaryFolder),
    /// No file is written.
    Nowhere,
}

impl DataLocation {
    pub(super) fn prepare(config: &Config) -> Result<DataLocation, HostStartError> {
        let real = matches!(config.runtime, NodeRuntime::Real(_)) && config.nodes > 0;
        let Some(path) = &config.data_dir else {
            if !config.has_kubeconfig && !real {
                return Ok(DataLocation::Nowhere);
            }
            return TemporaryFolder::new()
                .map(DataLocation::Temporary)
                .map_err(HostStartError::Temporary);
        };
        let folder = LockedDataFolder::open(path)?;
        storage::settle(&folder)?;
        crate::folder::sweep_left();
        let nodes = match config.runtime {
            NodeRuntime::Real(_) => config.nodes,
            NodeRuntime::None => 0,
        };
        // Of an earlier start that had more, and was killed: nobody else looks for them.
        #[cfg(target_os = "linux")]
        tenure_node::runtime::process::clear_left(&folder.path().join("nodes"), |name| {
            (1..=nodes).any(|number| name == node_name(number).as_str())
        });
        Ok(DataLocation::Kept(folder))
    }

    pub(super) fn path(&self) -> Option<&Path> {
        match self {
            DataLocation::Kept(folder) => Some(folder.path()),
            DataLocation::Temporary(folder) => Some(folder.path()),
            DataLocation::Nowhere => None,
        }
    }

    /// Says where files go.
    pub(super) fn tell(&self) {
        match self {
            DataLocation::Kept(folder) => {
                tracing::info!(path = %folder.path().display(), "the data folder is ours");
            }
            DataLocation::Temporary(folder) => {
                let path = folder.path().display();
                tracing::info!(%path, "nothing is kept; the folder goes at the end");
            }
            DataLocation::Nowhere => tracing::info!("nothing is kept, and no file is written"),
        }
    }

    /// Where the kubeconfig will be written; fails early if it may not be.
    pub(super) fn kubeconfig(&self, config: &Config) -> Result<PathBuf, HostStartError> {
        let wanted = config.kubeconfig.clone().filter(|_| config.has_kubeconfig);
        let Some(path) = wanted.or_else(|| self.own_kubeconfig()) else {
            return Ok(PathBuf::new());
        };
        kubeconfig::check(&path)?;
        Ok(std::path::absolute(&path).unwrap_or(path))
    }

    /// The kubeconfig of the folder.
    pub(super) fn own_kubeconfig(&self) -> Option<PathBuf> {
        match self {
            DataLocation::Kept(folder) => Some(folder.kubeconfig()),
            DataLocation::Temporary(folder) => Some(folder.path().join("kubeconfig")),
            DataLocation::Nowhere => None,
        }
    }

    /// The folder of the store; `None` is memory.
    pub(super) fn store(&self, config: &Config) -> Option<PathBuf> {
        match self {
            DataLocation::Kept(folder) if config.store == StorageMedium::File => {
                Some(folder.store())
            }
            _ => None,
        }
    }

    /// What no pod may ever be given, wherever it lies.
    pub(super) fn private(&self, config: &Config, kubeconfig: &Path) -> Vec<PathBuf> {
        let folder = self.path().map(Path::to_owned);
        let audit = config.audit.as_ref().and_then(|audit| audit.file.clone());
        let keys = config.service_account_keys.iter().cloned();
        let authorization = match &config.authorization {
            AuthorizationSource::File(path) => Some(path.clone()),
            AuthorizationSource::Modes(modes) => modes.webhook.clone(),
            AuthorizationSource::Usual => None,
        };
        let files = audit.into_iter().chain(keys).chain(authorization);
        folder.into_iter().chain([kubeconfig.to_owned()]).chain(files).collect()
    }

    /// Where nodes of this process keep their files.
    pub(super) fn nodes(&self) -> NodeFolder {
        let path = self.path().unwrap_or(Path::new("")).join("nodes");
        NodeFolder { path, kept: matches!(self, DataLocation::Kept(_)) }
    }

    /// The key that signs tokens, those that signed before, and those that were asked for.
    pub(super) fn token_keys(&self, config: &Config, pki: &Pki) -> Result<KeySet, HostStartError> {
        let mut others = match self {
            DataLocation::Kept(folder) => {
                let pki = folder.pki();
                let path = |id: &str| pki.join("service-account").join(id);
                keys::older(&pki)?.into_iter().map(|(id, text)| (path(&id), text)).collect()
            }
            DataLocation::Temporary(_) | DataLocation::Nowhere => Vec::new(),
        };
        for path in &config.service_account_keys {
            let text = fs::read_to_string(path)
                .map_err(|source| KeysError::Io { path: path.clone(), source })?;
            others.push((path.clone(), text));
        }
        let signing = match &config.certificates.token_key {
            Some(path) => {
                let text = given::text(path)?;
                KeySet::from_pem(&text, &[])
                    .map_err(|source| KeysError::Unusable { path: path.clone(), source })?;
                text
            }
            None => pki.service_account.0.clone(),
        };
        for (path, text) in &others {
            // One by one, so that the message names the file.
            KeySet::from_pem(&signing, &[text])
                .map_err(|source| KeysError::Unusable { path: path.clone(), source })?;
        }
        let texts: Vec<&str> = others.iter().map(|(_, text)| text.as_str()).collect();
        KeySet::from_pem(&signing, &texts).map_err(|error| HostStartError::Tls(Box::new(error)))
    }

    pub(super) fn pki(&self, config: &Config) -> Result<Pki, HostStartError> {
        let hostname = pki::hostname();
        let service = IpAddr::V4(config.service_range.first());
        let names = pki::serving_names(config.listen.ip(), service, hostname.as_deref());
        let now = clock::system_time();
        Ok(match self {
            DataLocation::Kept(folder) => Pki::in_folder(&folder.pki(), &names, now)?,
            DataLocation::Temporary(_) | DataLocation::Nowhere => Pki::in_memory(&names, now)?,
        })
    }
}
