//! Which cluster is looked at and as whom, and what can be wrong with that.

use std::path::PathBuf;

use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::reader::ClusterReader;

/// Which cluster, and as whom.
#[derive(Clone, Debug, Default)]
pub struct ConnectionOptions {
    /// The kubeconfig file; `KUBECONFIG` or the usual place without.
    pub kubeconfig: Option<PathBuf>,
    /// The context in it; the current one without.
    pub context: Option<String>,
    /// The namespace; the context's without.
    pub namespace: Option<String>,
}

/// Why a cluster could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The kubeconfig says nothing that can be used.
    #[error("no cluster can be reached with this kubeconfig")]
    Kubeconfig(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The server does not answer.
    #[error("the cluster at `{url}` does not answer")]
    Unreachable {
        /// Where.
        url: String,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
    /// The server answers and refuses.
    #[error("the cluster at `{url}` says no")]
    Refused {
        /// Where.
        url: String,
        /// What it says.
        message: String,
    },
}

impl ReadError {
    /// Everything underneath, in order.
    #[must_use]
    pub fn causes(&self) -> Vec<String> {
        if let ReadError::Refused { message, .. } = self {
            return vec![message.clone()];
        }
        let mut causes: Vec<String> = Vec::new();
        let mut next = std::error::Error::source(self);
        while let Some(cause) = next {
            let text = cause.to_string();
            // Libraries repeat what is underneath in their own sentence.
            if !causes.iter().any(|said| said.ends_with(&text)) {
                causes.push(text);
            }
            next = cause.source();
        }
        causes
    }

    /// What can be done about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            ReadError::Kubeconfig(_) => "name one with --kubeconfig or KUBECONFIG, and --context",
            ReadError::Unreachable { .. } => "see whether it runs with `kubectl version`",
            ReadError::Refused { .. } => "see who you are with `kubectl auth whoami`",
        }
    }
}

impl ClusterReader {
    /// Finds the cluster and makes a client; nothing is asked yet.
    ///
    /// # Errors
    /// The kubeconfig is missing or wrong.
    pub async fn connect(access: &ConnectionOptions) -> Result<ClusterReader, ReadError> {
        fn wrong(error: impl std::error::Error + Send + Sync + 'static) -> ReadError {
            ReadError::Kubeconfig(Box::new(error))
        }
        let options =
            KubeConfigOptions { context: access.context.clone(), ..KubeConfigOptions::default() };
        let config = match &access.kubeconfig {
            Some(file) => {
                let kubeconfig = Kubeconfig::read_from(file).map_err(wrong)?;
                kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(wrong)?
            }
            None if access.context.is_some() => {
                kube::Config::from_kubeconfig(&options).await.map_err(wrong)?
            }
            None => kube::Config::infer().await.map_err(wrong)?,
        };
        let namespace =
            access.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let url = config.cluster_url.to_string();
        let client = kube::Client::try_from(config).map_err(wrong)?;
        Ok(ClusterReader { client, url, namespace })
    }

    /// What went wrong with a request to this cluster.
    #[must_use]
    pub fn failed(&self, error: kube::Error) -> ReadError {
        match error {
            kube::Error::Api(status) => {
                ReadError::Refused { url: self.url.clone(), message: status.message.clone() }
            }
            error => ReadError::Unreachable { url: self.url.clone(), source: Box::new(error) },
        }
    }
}
