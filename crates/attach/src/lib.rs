//! What Tenure installs on a Kubernetes cluster that is already there, and how it leaves again.
//!
//! ```text
//!   install: feature, version of the server ──► text of YAML          (pure: nothing is asked, nothing written)
//!   uninstall: a client ──► what carries the feature's label ──► removed, in an order that nothing waits for
//! ```
//!
//! What runs on such a cluster follows its API and writes to it; that is started here as well.
//!
//! Law: `spec/attach.md`.

mod access;
mod api;
mod authorizer;
mod clock;
mod downward;
mod https;
mod leader;
mod probe;
mod report;
mod status;
mod version;

pub mod doctor;
pub mod install;
pub mod uninstall;

pub use access::{AccessAttachment, AccessSettings};
pub use api::{ApiError, server_version};
pub use authorizer::AuthorizerAttachment;
pub use downward::DownwardAttachment;
pub use https::{WebhookError, WebhookFiles, WebhookSettings, WebhookTlsError};
pub use report::{ReportAttachment, ReportSettings};
pub use version::{ServerVersion, UnreadableVersion};

/// The label that every installed object has, and its value (A3).
pub const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "tenure");
/// The label that says which feature an object belongs to (A3).
pub const FEATURE: &str = "tenure.dev/feature";
/// The label that says which release printed an object (A3).
pub const VERSION: &str = "tenure.dev/version";
/// The namespace of everything that has one.
pub const NAMESPACE: &str = "tenure-system";

/// A part of Tenure that is installed and removed by itself (A2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AttachFeature {
    /// Pods read their owner references.
    Downward,
    /// Who may read an object because another points at it, by Roles that are written.
    Access,
    /// What is wrong with owners, as metrics and Events.
    OwnershipReport,
}

impl AttachFeature {
    /// Its name in commands and labels.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            AttachFeature::Downward => "downward",
            AttachFeature::Access => "access",
            AttachFeature::OwnershipReport => "ownership-report",
        }
    }
}
