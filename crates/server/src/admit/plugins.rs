//! Which admission plugins there are, by upstream's names and in its order, and which of them are on (R161).
//!
//! ```text
//!   --enable-admission-plugins, --disable-admission-plugins ──► AdmissionPlugins ──► api.plugins.on(…)
//! ```
//!
//! What a plugin does lives in a file of its own. A plugin more is a variant and a row here, and a question where
//! its work is done.

/// A plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are upstream's")]
pub enum AdmissionPlugin {
    AlwaysAdmit,
    NamespaceAutoProvision,
    NamespaceLifecycle,
    NamespaceExists,
    LimitPodHardAntiAffinityTopology,
    LimitRanger,
    ServiceAccount,
    NodeRestriction,
    TaintNodesByCondition,
    AlwaysPullImages,
    ImagePolicyWebhook,
    PodSecurity,
    PodNodeSelector,
    Priority,
    DefaultTolerationSeconds,
    PodTolerationRestriction,
    EventRateLimit,
    ExtendedResourceToleration,
    DefaultStorageClass,
    StorageObjectInUseProtection,
    PodGroupProtection,
    OwnerReferencesPermissionEnforcement,
    PersistentVolumeClaimResize,
    RuntimeClass,
    CertificateApproval,
    CertificateSigning,
    ClusterTrustBundleAttest,
    CertificateSubjectRestriction,
    DefaultIngressClass,
    DenyServiceExternalIPs,
    PodTopologyLabels,
    PodGroupWorkloadExists,
    NodeDeclaredFeatureValidator,
    JobValidation,
    PodResizeValidator,
    MutatingAdmissionPolicy,
    MutatingAdmissionWebhook,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionWebhook,
    ResourceQuota,
    AlwaysDeny,
}

/// What becomes of a plugin's name here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PluginStatus {
    /// It works, and is on unless it is switched off.
    On,
    /// It works, and is off unless it is switched on.
    Off,
    /// Its name is known, and it has nothing to do here, for this reason.
    Idle(&'static str),
    /// It cannot be switched on, for this reason.
    Absent(&'static str),
}

use AdmissionPlugin as P;
use PluginStatus::{Absent, Idle, Off, On};

const NO_KINDS: &str = "the kinds it looks at are not served";

/// Every plugin, in the order in which upstream runs them.
const PLUGINS: [(AdmissionPlugin, &str, PluginStatus); 41] = [
    (P::AlwaysAdmit, "AlwaysAdmit", Idle("it never did anything")),
    (
        P::NamespaceAutoProvision,
        "NamespaceAutoProvision",
        Absent("namespaces are made by whoever wants them"),
    ),
    (P::NamespaceLifecycle, "NamespaceLifecycle", On),
    (P::NamespaceExists, "NamespaceExists", Off),
    (P::LimitPodHardAntiAffinityTopology, "LimitPodHardAntiAffinityTopology", Off),
    (P::LimitRanger, "LimitRanger", On),
    (P::ServiceAccount, "ServiceAccount", On),
    (P::NodeRestriction, "NodeRestriction", On),
    (P::TaintNodesByCondition, "TaintNodesByCondition", On),
    (P::AlwaysPullImages, "AlwaysPullImages", Off),
    (P::ImagePolicyWebhook, "ImagePolicyWebhook", Absent("a validating webhook does what it did")),
    (P::PodSecurity, "PodSecurity", On),
    (
        P::PodNodeSelector,
        "PodNodeSelector",
        Absent("a mutating webhook can give the pods of a namespace a node selector"),
    ),
    (P::Priority, "Priority", On),
    (P::DefaultTolerationSeconds, "DefaultTolerationSeconds", On),
    (
        P::PodTolerationRestriction,
        "PodTolerationRestriction",
        Absent("an admission policy can restrict the tolerations of a namespace's pods"),
    ),
    (
        P::EventRateLimit,
        "EventRateLimit",
        Absent("users wait in lines of their own instead, see `--max-mutating-requests-inflight`"),
    ),
    (P::ExtendedResourceToleration, "ExtendedResourceToleration", Off),
    (P::DefaultStorageClass, "DefaultStorageClass", On),
    (P::StorageObjectInUseProtection, "StorageObjectInUseProtection", On),
    (P::PodGroupProtection, "PodGroupProtection", Idle(NO_KINDS)),
    (P::OwnerReferencesPermissionEnforcement, "OwnerReferencesPermissionEnforcement", On),
    (P::PersistentVolumeClaimResize, "PersistentVolumeClaimResize", On),
    (P::RuntimeClass, "RuntimeClass", On),
    (P::CertificateApproval, "CertificateApproval", On),
    (P::CertificateSigning, "CertificateSigning", On),
    (P::ClusterTrustBundleAttest, "ClusterTrustBundleAttest", On),
    (P::CertificateSubjectRestriction, "CertificateSubjectRestriction", On),
    (P::DefaultIngressClass, "DefaultIngressClass", On),
    (P::DenyServiceExternalIPs, "DenyServiceExternalIPs", Off),
    (P::PodTopologyLabels, "PodTopologyLabels", On),
    (P::PodGroupWorkloadExists, "PodGroupWorkloadExists", Idle(NO_KINDS)),
    (
        P::NodeDeclaredFeatureValidator,
        "NodeDeclaredFeatureValidator",
        Idle("nodes declare no features here"),
    ),
    (P::JobValidation, "JobValidation", Idle(NO_KINDS)),
    (P::PodResizeValidator, "PodResizeValidator", On),
    (P::MutatingAdmissionPolicy, "MutatingAdmissionPolicy", On),
    (P::MutatingAdmissionWebhook, "MutatingAdmissionWebhook", On),
    (P::ValidatingAdmissionPolicy, "ValidatingAdmissionPolicy", On),
    (P::ValidatingAdmissionWebhook, "ValidatingAdmissionWebhook", On),
    (P::ResourceQuota, "ResourceQuota", On),
    (P::AlwaysDeny, "AlwaysDeny", Absent("nothing could be written, not even what a start writes")),
];

/// The plugins that are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmissionPlugins(u64);

/// Why plugins cannot be as somebody wants them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdmissionPluginError {
    /// Nobody knows the name.
    #[error("there is no admission plugin `{0}`")]
    Unknown(String),
    /// It is to be on and off.
    #[error("the admission plugin `{0}` is switched on and off")]
    Both(&'static str),
    /// It cannot be switched on.
    #[error("the admission plugin `{name}` is not there: {why}")]
    Absent {
        /// Its name.
        name: &'static str,
        /// Why, and what to do instead.
        why: &'static str,
    },
}

impl AdmissionPluginError {
    /// What the user can do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            AdmissionPluginError::Unknown(name) => {
                let plain = |name: &str| name.to_lowercase();
                let like = names().find(|known| plain(known) == plain(name));
                let like = like.map(|like| format!("perhaps `{like}`; ")).unwrap_or_default();
                format!("{like}there are: {}", names().collect::<Vec<_>>().join(", "))
            }
            AdmissionPluginError::Both(_) => "leave it out of one of the two lists".to_owned(),
            AdmissionPluginError::Absent { .. } => "leave it out".to_owned(),
        }
    }
}

/// The names of those that can be switched on or off, in the order in which upstream runs them.
fn names() -> impl Iterator<Item = &'static str> {
    PLUGINS.iter().filter(|(.., status)| matches!(status, On | Off)).map(|(_, name, _)| *name)
}

impl Default for AdmissionPlugins {
    fn default() -> AdmissionPlugins {
        let on = PLUGINS.iter().filter(|(.., status)| *status == On);
        AdmissionPlugins(on.fold(0, |bits, (plugin, ..)| bits | bit(*plugin)))
    }
}

fn bit(plugin: AdmissionPlugin) -> u64 {
    1 << (plugin as u32)
}

impl AdmissionPlugins {
    /// Those that are on by default, with some more and without others.
    ///
    /// # Errors
    /// A name is unknown, stands in both lists, or is of a plugin that cannot be switched on.
    pub fn read<'a>(
        enable: impl IntoIterator<Item = &'a str>,
        disable: impl IntoIterator<Item = &'a str>,
    ) -> Result<AdmissionPlugins, AdmissionPluginError> {
        let (mut on, mut off) = (0, 0);
        for name in disable {
            let (plugin, ..) = find(name)?;
            off |= bit(plugin);
        }
        for name in enable {
            let (plugin, name, status) = find(name)?;
            if let Absent(why) = status {
                return Err(AdmissionPluginError::Absent { name, why });
            }
            if off & bit(plugin) != 0 {
                return Err(AdmissionPluginError::Both(name));
            }
            if let Idle(why) = status {
                tracing::warn!(plugin = name, why, "an admission plugin does nothing here");
            }
            on |= bit(plugin);
        }
        Ok(AdmissionPlugins((AdmissionPlugins::default().0 | on) & !off))
    }

    /// Whether a plugin is on.
    #[must_use]
    pub fn on(self, plugin: AdmissionPlugin) -> bool {
        self.0 & bit(plugin) != 0
    }

    /// The same without one.
    #[must_use]
    pub fn without(self, plugin: AdmissionPlugin) -> AdmissionPlugins {
        AdmissionPlugins(self.0 & !bit(plugin))
    }
}

fn find(name: &str) -> Result<(AdmissionPlugin, &'static str, PluginStatus), AdmissionPluginError> {
    let found = PLUGINS.iter().find(|(_, known, _)| *known == name);
    found.copied().ok_or_else(|| AdmissionPluginError::Unknown(name.to_owned()))
}

/// What `--help` says of the plugins that can be switched: those that are on, or those that are off.
#[must_use]
pub fn admission_plugin_names(on: bool) -> Vec<&'static str> {
    let wanted = if on { On } else { Off };
    PLUGINS.iter().filter(|(.., status)| *status == wanted).map(|(_, name, _)| *name).collect()
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.

    use super::*;

    #[test]
    fn r161_every_plugin_has_one_row_under_its_own_name() {
        let mut bits = 0;
        for (plugin, name, _) in PLUGINS {
            assert_eq!(format!("{plugin:?}"), name);
            assert_eq!(bits & bit(plugin), 0, "{name} twice");
            bits |= bit(plugin);
        }
        assert_eq!(bits.count_ones(), 41);
    }

    #[test]
    fn r161_lists_switch_plugins_on_and_off() {
        let usual = AdmissionPlugins::default();
        assert!(usual.on(P::ServiceAccount) && usual.on(P::ResourceQuota));
        assert!(!usual.on(P::AlwaysPullImages) && !usual.on(P::AlwaysDeny));
        let read = AdmissionPlugins::read(["AlwaysPullImages", "LimitRanger"], ["ServiceAccount"]);
        let read = read.unwrap();
        assert!(read.on(P::AlwaysPullImages) && read.on(P::LimitRanger));
        assert!(!read.on(P::ServiceAccount));
        assert_eq!(AdmissionPlugins::read([], []).unwrap(), usual);
        // What is off already, and what does nothing, may be switched off.
        AdmissionPlugins::read([], ["AlwaysPullImages", "AlwaysDeny", "JobValidation"]).unwrap();
    }

    #[test]
    fn r161_a_name_that_is_wrong_is_told_with_the_list() {
        let wrong = AdmissionPlugins::read(["serviceaccount"], []).unwrap_err();
        assert_eq!(wrong.to_string(), "there is no admission plugin `serviceaccount`");
        let hint = wrong.hint();
        assert!(hint.starts_with("perhaps `ServiceAccount`; there are: NamespaceLifecycle, "));
        assert!(hint.ends_with("ValidatingAdmissionWebhook, ResourceQuota"), "{hint}");
        let wrong = AdmissionPlugins::read([], ["None"]).unwrap_err();
        assert!(wrong.hint().starts_with("there are: "), "{}", wrong.hint());
        let both = AdmissionPlugins::read(["Priority"], ["Priority"]).unwrap_err();
        assert_eq!(both, AdmissionPluginError::Both("Priority"));
        for name in ["AlwaysDeny", "NamespaceAutoProvision", "EventRateLimit"] {
            let absent = AdmissionPlugins::read([name], []).unwrap_err();
            assert!(matches!(absent, AdmissionPluginError::Absent { .. }), "{name}");
        }
    }
}
