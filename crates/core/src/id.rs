//! Names of groups, versions and resources.

use alloc::string::{String, ToString};
use core::fmt;

/// An API group and version, written `v1` or `apps/v1`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupVersion {
    /// Empty for the core group.
    pub group: String,
    /// Such as `v1` or `v1beta1`.
    pub version: String,
}

impl GroupVersion {
    /// Splits `apps/v1` or `v1`; `None` when the version is missing or there is more than one slash.
    #[must_use]
    pub fn parse(text: &str) -> Option<GroupVersion> {
        let (group, version) = text.split_once('/').unwrap_or(("", text));
        if version.is_empty() || version.contains('/') {
            return None;
        }
        Some(GroupVersion { group: group.to_string(), version: version.to_string() })
    }
}

impl fmt::Display for GroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            f.write_str(&self.version)
        } else {
            write!(f, "{}/{}", self.group, self.version)
        }
    }
}

/// A plural resource in its group, written `pods` or `deployments.apps` in messages.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupResource {
    /// Empty for the core group.
    pub group: String,
    /// The plural, lower-case name.
    pub resource: String,
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            f.write_str(&self.resource)
        } else {
            write!(f, "{}.{}", self.resource, self.group)
        }
    }
}
