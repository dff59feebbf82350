//! Levels and versions, and what the labels of a namespace say about them.

use std::fmt;

use tenure_machinery::{Errors, Path};

/// How much a pod may do, from everything to little.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodSecurityLevel {
    /// Everything.
    Privileged,
    /// Nothing that is known to reach the node.
    Baseline,
    /// What hardened pods do.
    Restricted,
}

/// A version of the standards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodSecurityVersion {
    /// The newest there is.
    Latest,
    /// That of Kubernetes 1.x.
    Minor(u32),
}

/// A level as it was in a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelVersion {
    /// The level.
    pub level: PodSecurityLevel,
    /// The version.
    pub version: PodSecurityVersion,
}

/// What a namespace wants of its pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodSecurityLevels {
    /// Pods beyond this are refused.
    pub enforce: LevelVersion,
    /// Pods beyond this are written into the audit log.
    pub audit: LevelVersion,
    /// Whoever writes pods beyond this is warned.
    pub warn: LevelVersion,
}

const PREFIX: &str = "pod-security.kubernetes.io/";
const LEVELS: &str = "must be one of privileged, baseline, restricted";
const VERSIONS: &str = "must be \"latest\" or \"v1.x\"";

impl PodSecurityLevel {
    fn parse(text: &str) -> Option<PodSecurityLevel> {
        match text {
            "privileged" => Some(PodSecurityLevel::Privileged),
            "baseline" => Some(PodSecurityLevel::Baseline),
            "restricted" => Some(PodSecurityLevel::Restricted),
            _ => None,
        }
    }
}

impl PodSecurityVersion {
    /// `latest`, or `v1.` and a number without leading zeros.
    fn parse(text: &str) -> Option<PodSecurityVersion> {
        if text == "latest" {
            return Some(PodSecurityVersion::Latest);
        }
        let digits = text.strip_prefix("v1.")?;
        let plain = digits.bytes().all(|byte| byte.is_ascii_digit())
            && (digits == "0" || !digits.starts_with('0'));
        // Where a number ends for us no version will ever be.
        plain.then(|| digits.parse().ok().map(PodSecurityVersion::Minor)).flatten()
    }

    /// Whether it is this minor version or newer.
    pub(super) fn reaches(self, minor: u32) -> bool {
        match self {
            PodSecurityVersion::Latest => true,
            PodSecurityVersion::Minor(own) => own >= minor,
        }
    }
}

impl LevelVersion {
    const PRIVILEGED: LevelVersion =
        LevelVersion { level: PodSecurityLevel::Privileged, version: PodSecurityVersion::Latest };
}

impl PodSecurityLevels {
    /// Where no label says anything: everything is allowed.
    pub const PRIVILEGED: PodSecurityLevels = PodSecurityLevels {
        enforce: LevelVersion::PRIVILEGED,
        audit: LevelVersion::PRIVILEGED,
        warn: LevelVersion::PRIVILEGED,
    };

    /// What the labels of a namespace ask for, and what is wrong with them.
    ///
    /// A wrong level counts as restricted where it is enforced and as privileged where it only informs; a wrong
    /// version counts as the newest.
    pub fn from_labels<'a>(
        labels: impl Iterator<Item = (&'a str, &'a str)>,
        errors: &mut Errors,
    ) -> PodSecurityLevels {
        let mut policy = PodSecurityLevels::PRIVILEGED;
        let mut of: [Option<&str>; 6] = [None; 6];
        const NAMES: [&str; 6] =
            ["enforce", "enforce-version", "audit", "audit-version", "warn", "warn-version"];
        for (name, value) in labels {
            let Some(name) = name.strip_prefix(PREFIX) else { continue };
            if let Some((_, slot)) = NAMES.iter().zip(&mut of).find(|(known, _)| **known == name) {
                *slot = Some(value);
            }
        }
        let [enforce, enforce_version, audit, audit_version, warn, warn_version] = of;
        if let Some(level) = read(enforce, "enforce", PodSecurityLevel::parse, LEVELS, errors) {
            policy.enforce.level = level.unwrap_or(PodSecurityLevel::Restricted);
            // Whoever enforces is warned as well; but not by a level that nobody knows.
            if warn.is_none() && level.is_some() {
                policy.warn.level = policy.enforce.level;
            }
        }
        if let Some(version) =
            read(enforce_version, "enforce-version", PodSecurityVersion::parse, VERSIONS, errors)
        {
            policy.enforce.version = version.unwrap_or(PodSecurityVersion::Latest);
        }
        if warn.is_none()
            && warn_version.is_none()
            && policy.warn.level > PodSecurityLevel::Privileged
        {
            policy.warn.version = policy.enforce.version;
        }
        if let Some(level) = read(audit, "audit", PodSecurityLevel::parse, LEVELS, errors) {
            policy.audit.level = level.unwrap_or(PodSecurityLevel::Privileged);
        }
        if let Some(version) =
            read(audit_version, "audit-version", PodSecurityVersion::parse, VERSIONS, errors)
        {
            policy.audit.version = version.unwrap_or(PodSecurityVersion::Latest);
        }
        if let Some(level) = read(warn, "warn", PodSecurityLevel::parse, LEVELS, errors) {
            policy.warn.level = level.unwrap_or(PodSecurityLevel::Privileged);
        }
        if let Some(version) =
            read(warn_version, "warn-version", PodSecurityVersion::parse, VERSIONS, errors)
        {
            policy.warn.version = version.unwrap_or(PodSecurityVersion::Latest);
        }
        policy
    }

    /// Whether a label of a namespace is about pod security.
    #[must_use]
    pub fn is_label(name: &str) -> bool {
        name.starts_with(PREFIX)
    }

    /// Whether it neither refuses nor tells anything.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.enforce.level == PodSecurityLevel::Privileged && self.informs_nobody()
    }

    /// Whether nobody is warned and nothing is audited.
    #[must_use]
    pub fn informs_nobody(&self) -> bool {
        self.audit.level == PodSecurityLevel::Privileged
            && self.warn.level == PodSecurityLevel::Privileged
    }
}

/// Reads one label: `None` if it is absent, `Some(None)` if it is wrong, which is also reported.
fn read<T>(
    value: Option<&str>,
    name: &str,
    parse: impl Fn(&str) -> Option<T>,
    why: &str,
    errors: &mut Errors,
) -> Option<Option<T>> {
    let value = value?;
    let parsed = parse(value);
    if parsed.is_none() {
        let metadata = Path::Root.field("metadata");
        let labels = metadata.field("labels");
        errors.invalid(&labels.key(&format!("{PREFIX}{name}")), format_args!("{value:?}"), why);
    }
    Some(parsed)
}

impl fmt::Display for LevelVersion {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            PodSecurityLevel::Privileged => "privileged",
            PodSecurityLevel::Baseline => "baseline",
            PodSecurityLevel::Restricted => "restricted",
        };
        match self.version {
            PodSecurityVersion::Latest => write!(to, "{level}:latest"),
            PodSecurityVersion::Minor(minor) => write!(to, "{level}:v1.{minor}"),
        }
    }
}
