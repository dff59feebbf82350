//! The owner references of pods for the pods themselves (A50 to A57): the native path is rewritten to an annotation,
//! and that annotation is kept true. By policies where the server has them, and nothing runs; else by a webhook.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::InstallError;
use super::access::is_image;
use super::template::{documents, fill};
use crate::{AttachFeature, ServerVersion};

/// An annotation that nobody guards is never written, so these come first.
const GUARD: &str = include_str!("../../objects/downward-guard.yaml");
const POLICIES: [&str; 3] = [
    GUARD,
    include_str!("../../objects/downward-pods.yaml"),
    include_str!("../../objects/downward-templates.yaml"),
];

/// What the webhook of an older server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DownwardWebhook {
    /// Who signed the certificate in the Secret `tenure-downward-tls`, as PEM.
    pub authority: String,
    /// What runs.
    pub image: String,
}

/// What gives pods of a server of this version their owner references. The version alone chooses between policies
/// and webhook, never both: a webhook would still be asked about objects that policies have rewritten (A1).
///
/// # Errors
/// The server is too old for the guarding policies, or it needs a webhook and nothing is known of that.
pub fn downward(
    server: ServerVersion,
    webhook: Option<&DownwardWebhook>,
) -> Result<String, InstallError> {
    let feature = AttachFeature::Downward;
    if server >= ServerVersion::MUTATING_POLICIES {
        return Ok(documents(feature, &POLICIES));
    }
    let needs = ServerVersion::VALIDATING_POLICIES;
    if server < needs {
        return Err(InstallError::TooOld { feature, needs, server });
    }
    let Some(DownwardWebhook { authority, image }) = webhook else {
        return Err(InstallError::NoAuthority { server });
    };
    if !authority.contains("-----BEGIN CERTIFICATE-----") {
        return Err(InstallError::NoCertificate);
    }
    if !is_image(image) {
        return Err(InstallError::Name { what: "an image", name: image.clone() });
    }
    let (image, authority) = (format!("'{image}'"), STANDARD.encode(authority));
    let text = include_str!("../../objects/downward-webhook.yaml");
    let running = fill(text, &[("IMAGE", &image), ("AUTHORITY", &authority)]);
    let namespace = include_str!("../../objects/namespace.yaml");
    Ok(documents(feature, &[GUARD, namespace, &running]))
}

/// The policies as objects.
pub(crate) fn downward_objects(server: ServerVersion) -> Result<Vec<Value>, InstallError> {
    let (feature, needs) = (AttachFeature::Downward, ServerVersion::MUTATING_POLICIES);
    if server < needs {
        return Err(InstallError::TooOld { feature, needs, server });
    }
    let text = downward(server, None)?;
    let read = |text: &str| {
        tenure_yaml::to_json(text.as_bytes(), tenure_yaml::YamlLimits::default())
            .map_err(|error| InstallError::Broken(error.to_string()))
    };
    text.split("\n---\n").map(read).collect()
}
