//! What is applied to a cluster, as YAML. It is rendered here and never written anywhere (A1): the same
//! arguments give the same bytes.

mod access;
mod authorizer;
mod downward;
mod report;
mod template;

pub(crate) use access::SHARDS;
pub use access::{AccessInstall, AccessMode, access};
pub use authorizer::{AuthorizationFile, authorization_config};
pub(crate) use downward::downward_objects;
pub use downward::{DownwardWebhook, downward};
pub use report::{ReportInstall, ownership_report};

use crate::{AttachFeature, ServerVersion};

/// Why nothing can be printed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InstallError {
    /// The server lacks what the feature is made of.
    #[error("`{}` needs Kubernetes {needs}, and the server is of {server}", feature.name())]
    TooOld {
        /// What was wanted.
        feature: AttachFeature,
        /// The first version that has it all.
        needs: ServerVersion,
        /// The version of the server.
        server: ServerVersion,
    },
    /// The server needs a webhook, and nobody said who signs its certificate.
    #[error("a server of {server} needs a webhook, and who signs its certificate")]
    NoAuthority {
        /// The version of the server.
        server: ServerVersion,
    },
    /// What should be a certificate is none.
    #[error("the authority of the webhook is no certificate in PEM form")]
    NoCertificate,
    /// A text of our own cannot be read; a test holds that it can.
    #[error("a printed object is broken: {0}")]
    Broken(String),
    /// No request would reach the authorizer.
    #[error("nobody would ask: name a user or group, and a resource")]
    Nobody,
    /// Something is called what it cannot be called.
    #[error("`{name}` is not the name of {what}")]
    Name {
        /// What it should be.
        what: &'static str,
        /// What it is called.
        name: String,
    },
}

/// Whether a text is a DNS subdomain of at most so many bytes.
fn is_subdomain(text: &str, bytes_max: usize) -> bool {
    let is_label = |label: &str| {
        let inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !label.is_empty()
            && label.bytes().all(inside)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= bytes_max && text.split('.').all(is_label)
}
