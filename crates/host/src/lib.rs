//! A control plane in one process: all wiring, no decisions.
//!
//! ```text
//!   Config ──► folder (lock) ──► pki, store, world ──► Api ──► listen
//!                                                      kubeconfig
//! ```
//!
//! Start with [`ControlPlane::start`]; [`Config::ephemeral`] gives one that leaves nothing behind.
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "a test may read the clock and the environment")
)]

pub mod authorization;
mod chores;
mod clock;
pub mod config;
pub mod control_plane;
pub mod error;
pub mod features;
pub mod folder;
mod given;
pub mod keys;
pub mod kubeconfig;
pub mod nodes;
pub mod pki;
pub mod server_record;
pub mod storage;
mod supervise;

pub use authorization::{AuthorizationModes, AuthorizationSource};
pub use config::{
    AuditLevel, AuditLog, Config, Durability, LoadProgress, ServerLimits, StorageMedium,
};
pub use control_plane::{ControlPlane, Hurry, POD_GRACE_MAX};
pub use error::HostStartError;
pub use features::{FEATURES, FeatureError, Features};
pub use given::{CertificateFiles, ClientAuthorities};
pub use nodes::{NodeOptions, NodeRuntime};
pub use tenure_driver::controller_names;
pub use tenure_server::admit::{
    AdmissionPlugin, AdmissionPluginError, AdmissionPlugins, OwnerChecks, RetentionOptions,
    ServiceRange, ServiceRangeError, admission_plugin_names,
};
pub use tenure_server::authenticate::fixed::{
    AuthenticationOptions, FixedTokens, FixedTokensError,
};
pub use tenure_server::kubernetes_version;
pub use tenure_server::reference::{AuthorizerMode, ReferenceOptions, expressions};
