//! Flags of `tenure up` that say who decides who may do what. What they mean is decided elsewhere.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::path::path;
use super::{Switch, time};

#[derive(Debug, Args)]
pub(crate) struct AuthorizationFlags {
    /// A file that says who decides who may do what: an AuthorizationConfiguration, as Kubernetes has it
    ///
    /// It is read again when it, or a file that it leads to, changes. A file that is wrong changes nothing then.
    #[arg(long, value_name = "FILE", value_parser = path())]
    pub(crate) authorization_config: Option<PathBuf>,

    /// The same as a list, without conditions: AlwaysAllow, AlwaysDeny, Node, RBAC, Reference, Webhook
    #[arg(long, value_name = "MODES", value_delimiter = ',')]
    #[arg(conflicts_with = "authorization_config")]
    pub(crate) authorization_mode: Vec<String>,

    /// The kubeconfig that leads to the server asked in mode Webhook
    #[arg(long, value_name = "FILE", value_parser = path(), requires = "authorization_mode")]
    pub(crate) authorization_webhook_config_file: Option<PathBuf>,

    /// The version of the SubjectAccessReviews that it is asked with [default: v1beta1]
    #[arg(long, value_name = "VERSION", requires = "authorization_webhook_config_file")]
    pub(crate) authorization_webhook_version: Option<ReviewVersionFlag>,

    /// How long what it allows is kept; 0 keeps nothing [default: 5m]
    #[arg(long, value_name = "TIME", value_parser = time)]
    #[arg(requires = "authorization_webhook_config_file")]
    pub(crate) authorization_webhook_cache_authorized_ttl: Option<Duration>,

    /// How long what it does not allow is kept; 0 keeps nothing [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = time)]
    #[arg(requires = "authorization_webhook_config_file")]
    pub(crate) authorization_webhook_cache_unauthorized_ttl: Option<Duration>,

    /// Whether the kinds that are about references are built in
    ///
    /// With `off` nothing is decided by references, and CustomResourceDefinitions may define these kinds.
    #[arg(long, value_name = "SWITCH", default_value = "on")]
    pub(crate) reference_kinds: Switch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReviewVersionFlag {
    /// As it is today
    V1,
    /// As it was
    V1beta1,
}
