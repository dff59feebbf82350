//! Which group and which version of it comes first, as APIServices number it (R41, R131f).
//!
//! Groups of definitions come behind all that the server has by itself; those of other servers stand where
//! their APIServices put them.

/// The group of APIServices themselves: before everything else, whatever anybody writes.
const REGISTRATION: &str = "apiregistration.k8s.io";
const REGISTRATION_PRIORITY: i64 = 20_001;

/// The numbers of groups that are there without a definition, in falling order.
const GROUPS: &[(&str, i64)] = &[
    ("", 18_000),
    ("apps", 17_800),
    ("events.k8s.io", 17_750),
    ("authentication.k8s.io", 17_700),
    ("authorization.k8s.io", 17_600),
    ("autoscaling", 17_500),
    ("batch", 17_400),
    ("certificates.k8s.io", 17_300),
    ("networking.k8s.io", 17_200),
    ("policy", 17_100),
    ("rbac.authorization.k8s.io", 17_000),
    ("storage.k8s.io", 16_800),
    ("admissionregistration.k8s.io", 16_700),
    ("apiextensions.k8s.io", 16_700),
    ("scheduling.k8s.io", 16_600),
    ("coordination.k8s.io", 16_500),
    ("node.k8s.io", 16_300),
    ("discovery.k8s.io", 16_200),
    ("resource.k8s.io", 16_200),
    ("flowcontrol.apiserver.k8s.io", 16_100),
    ("storagemigration.k8s.io", 15_800),
    ("lifecycle.k8s.io", 15_700),
    ("reference.authorization.k8s.io", 15_600),
    ("reference.tenure.dev", 15_500),
];

/// The number of a group of definitions.
const CUSTOM_GROUP: i64 = 1_000;
/// The number of a version of definitions.
const CUSTOM_VERSION: i64 = 100;

/// The place of a group and of a version within it; the greater number comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority {
    /// Of the group.
    pub group: i64,
    /// Of the version.
    pub version: i64,
}

/// The place of a group and version that this server serves without a definition; none for those it does not
/// register.
#[must_use]
pub fn builtin(group: &str, version: &str) -> Option<Priority> {
    let found = GROUPS.iter().find(|(name, _)| *name == group)?.1;
    let of_version = match (group, version) {
        ("", _) => 1,
        ("autoscaling", "v2") => 30,
        ("resource.k8s.io" | "flowcontrol.apiserver.k8s.io", "v1") => 21,
        (_, version) if version.contains("alpha") => 1,
        (_, version) if version.contains("beta") => 9,
        _ => 15,
    };
    Some(Priority { group: found, version: of_version })
}

/// The place of what a definition defines.
#[must_use]
pub const fn custom() -> Priority {
    Priority { group: CUSTOM_GROUP, version: CUSTOM_VERSION }
}

/// The place of what is served here.
pub(crate) fn local(group: &str, version: &str) -> Priority {
    if group == REGISTRATION {
        return Priority { group: REGISTRATION_PRIORITY, version: 15 };
    }
    builtin(group, version).unwrap_or(custom())
}

#[cfg(test)]
mod tests {
    //! Rules of `spec/api-server.md`.

    use super::*;

    #[test]
    fn r131f_built_in_groups_come_before_those_of_definitions() {
        assert!(GROUPS.is_sorted_by(|a, b| a.1 >= b.1));
        assert_eq!(builtin("apps", "v1"), Some(Priority { group: 17_800, version: 15 }));
        assert_eq!(builtin("example.com", "v1"), None);
        assert_eq!(builtin(REGISTRATION, "v1"), None);
        assert_eq!(local("example.com", "v1"), custom());
        let all = GROUPS.iter().map(|(name, _)| local(name, "v1").group);
        assert!(all.clone().all(|group| group > custom().group));
        assert!(all.clone().all(|group| group < local(REGISTRATION, "v1").group));
    }
}
