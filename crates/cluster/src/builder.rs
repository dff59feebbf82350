//! What may differ from one cluster to the next. What is not said is as small and fast as it gets.

use std::net::SocketAddr;
use std::path::PathBuf;

use tenure_host::{Config, StorageMedium};

use crate::cluster::{Cluster, StartError};

/// A cluster that has yet to be started; see [`Cluster::builder`].
#[derive(Clone, Debug)]
#[must_use = "nothing happens until it is started"]
pub struct Builder {
    config: Config,
}

impl Builder {
    pub(crate) fn new() -> Builder {
        Builder { config: Config::ephemeral() }
    }

    /// Keeps objects and certificates in this folder, from one cluster to the next; a write is
    /// acknowledged when it is on disk.
    ///
    /// Without it everything is kept in memory. A folder serves one cluster at a time: drop the
    /// first before the second is started.
    pub fn data_dir(mut self, folder: impl Into<PathBuf>) -> Builder {
        self.config.data_dir = Some(folder.into());
        self.config.store = StorageMedium::File;
        self
    }

    /// Listens on this address; without it, on any free port of the loopback address.
    pub fn listen(mut self, address: SocketAddr) -> Builder {
        self.config.listen = address;
        self
    }

    /// Writes the kubeconfig of the administrator to this file, which must be absent, empty or one
    /// that an earlier cluster wrote.
    pub fn kubeconfig(mut self, file: impl Into<PathBuf>) -> Builder {
        self.config.kubeconfig = Some(file.into());
        self
    }

    /// Changes any setting of the control plane, also those that have no method of their own here.
    pub fn configure(mut self, change: impl FnOnce(&mut Config)) -> Builder {
        change(&mut self.config);
        self
    }

    /// Starts it; when this returns, the server is ready.
    ///
    /// # Errors
    /// The address or the folder cannot be used, or the system lacks threads or sockets.
    pub async fn start(self) -> Result<Cluster, StartError> {
        Cluster::with(self.config).await
    }

    /// As [`Builder::start`], for tests that are not async.
    ///
    /// # Errors
    /// As for [`Builder::start`].
    pub fn start_blocking(self) -> Result<Cluster, StartError> {
        Cluster::with_blocking(self.config)
    }
}
