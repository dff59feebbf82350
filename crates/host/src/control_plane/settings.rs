//! What the configuration of a control plane and its features mean to the server and to nodes.

use tenure_server::ApiServer;
use tenure_server::admit::{AdmissionPlugin, Downward, OwnerChecks, RetentionOptions};
use tenure_server::reference::{AuthorizerMode, ReferenceOptions, Selectors};

use crate::config::Config;
use crate::features::Features;

/// Lets whoever measures see which features are on.
pub(super) fn show_features(api: &ApiServer, features: &Features) {
    for (feature, on) in features.each() {
        api.show_feature(feature.name, feature.usual, on);
    }
}

/// What pods may read of themselves.
pub(super) fn readable(config: &Config) -> Downward {
    Downward {
        owner_references: config.features.downward_owner_references,
        file_users: config.features.volume_file_users,
        volume_parity: config.features.downward_volume_parity,
    }
}

/// How references are treated; features switch filtered lists and selectors.
pub(super) fn references(config: &Config) -> ReferenceOptions {
    let features = &config.features;
    let selectors = Selectors {
        namespaces: features.grant_namespace_selector,
        classes: features.consumer_class_selector,
    };
    let filtered_lists = features.reference_filtered_lists;
    let authorizer = match config.reference_kinds {
        true => config.references.authorizer,
        false => AuthorizerMode::Off,
    };
    ReferenceOptions { filtered_lists, selectors, authorizer, ..config.references }
}

/// How owner references are treated; upstream's plugin of the kind switches the refusals off as well.
pub(super) fn owners(config: &Config) -> OwnerChecks {
    let on = config.admission_plugins.on(AdmissionPlugin::OwnerReferencesPermissionEnforcement);
    OwnerChecks { enforced: config.owners.enforced && on, ..config.owners }
}

/// What is said of retention; nobody may opt in while the feature is off.
pub(super) fn retention(config: &Config) -> RetentionOptions {
    let enabled = config.retention.enabled && config.features.controllers_as_owners;
    RetentionOptions { enabled, ..config.retention.clone() }
}

/// What nodes are told about the downward API.
pub(super) fn downward_on_nodes(features: &Features) -> tenure_downward::DownwardApiOptions {
    let mut settings = tenure_downward::DownwardApiOptions::default();
    settings.extra.owner_references = features.downward_owner_references;
    settings.extra.volume_parity = features.downward_volume_parity;
    settings
}
