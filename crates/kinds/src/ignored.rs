//! Members of kinds that somebody acts on, which themselves are stored and nobody acts on (R255).
//!
//! `members.txt` says of every other member who does; a test holds the two and the table of types together.

/// A member that is stored only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IgnoredMember {
    /// The type of the facts table that has it.
    pub type_name: &'static str,
    /// Its name in JSON.
    pub member: &'static str,
    /// Texts that ask for what happens anyway.
    pub harmless: &'static [&'static str],
    /// What does not happen.
    pub why: &'static str,
}

const fn member(
    type_name: &'static str,
    member: &'static str,
    harmless: &'static [&'static str],
    why: &'static str,
) -> IgnoredMember {
    IgnoredMember { type_name, member, harmless, why }
}

/// All of them, by type.
pub const IGNORED: &[IgnoredMember] = &[
    member("api.batch.v1.JobSpec", "scheduling", &[], "pods are scheduled one by one"),
    member(
        "api.core.v1.AppArmorProfile",
        "type",
        &["Unconfined"],
        "containers run without a profile of AppArmor",
    ),
    member("api.core.v1.EmptyDirVolumeSource", "mode", &[], "the folder is open to everybody"),
    member("api.core.v1.GRPCAction", "mode", &[], "probes connect without TLS"),
    member("api.core.v1.HTTPGetAction", "protocol", &[], "probes speak HTTP/1.1"),
    member(
        "api.core.v1.NodeSpec",
        "podPreemptionPolicy",
        &[],
        "preemption is the same on all nodes",
    ),
    member(
        "api.core.v1.PersistentVolumeClaimSpec",
        "volumeAttributesClassName",
        &[],
        "volumes are not modified by it",
    ),
    member(
        "api.core.v1.PersistentVolumeSpec",
        "volumeAttributesClassName",
        &[],
        "volumes are not modified by it",
    ),
    member("api.core.v1.PodSecurityContext", "seLinuxOptions", &[], NO_LABELS),
    member(
        "api.core.v1.PodSecurityContext",
        "supplementalGroupsPolicy",
        &["Merge"],
        "whether groups of the image count is up to the runtime",
    ),
    member(
        "api.core.v1.PodSpec",
        "evictionResponders",
        &[],
        "nobody is asked before the pod is evicted",
    ),
    member("api.core.v1.PodSpec", "schedulingGroup", &[], "pods are scheduled one by one"),
    member(
        "api.core.v1.SecurityContext",
        "procMount",
        &["Default"],
        "/proc is masked as by default",
    ),
    member("api.core.v1.SecurityContext", "seLinuxOptions", &[], NO_LABELS),
    member("api.core.v1.ServiceSpec", "externalIPs", &[], NO_TRAFFIC),
    member("api.core.v1.ServiceSpec", "loadBalancerSourceRanges", &[], NO_TRAFFIC),
    member("api.core.v1.ServiceSpec", "trafficDistribution", &[], NO_TRAFFIC),
    member(
        "api.core.v1.VolumeMount",
        "bindMountOptions",
        &[],
        "mounts have no options of their own",
    ),
    member(
        "api.core.v1.VolumeMount",
        "recursiveReadOnly",
        &["Disabled", "IfPossible"],
        "mounts inside the volume stay as they are",
    ),
];

const NO_LABELS: &str = "processes have no labels of SELinux";
const NO_TRAFFIC: &str = "traffic to Services does not follow it";
