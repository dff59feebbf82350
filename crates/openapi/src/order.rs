//! In which order groups, versions and resources are listed.

use std::cmp::{Ordering, Reverse};

use tenure_machinery::kind::Kind;

use crate::priority;
use crate::remote::RemoteVersion;

/// One version of a group and its kinds, plurals in byte order.
pub(crate) struct VersionKinds<'a> {
    pub(crate) version: &'a str,
    pub(crate) kinds: Vec<&'a Kind>,
    /// Another server, if that one serves the version.
    pub(crate) remote: Option<&'a RemoteVersion<'a>>,
}

/// A group and its versions, the preferred one first.
pub(crate) struct GroupVersions<'a> {
    pub(crate) name: &'a str,
    pub(crate) versions: Vec<VersionKinds<'a>>,
}

/// All groups: built-in ones in order of appearance, then those of custom kinds by name.
pub(crate) fn groups<'a>(kinds: &[&'a Kind]) -> Vec<GroupVersions<'a>> {
    let mut names: Vec<&str> = Vec::new();
    let mut custom: Vec<&str> = Vec::new();
    for kind in kinds {
        let list = if kind.type_name.is_empty() { &mut custom } else { &mut names };
        if !list.contains(&kind.group.as_ref()) {
            list.push(&kind.group);
        }
    }
    custom.retain(|name| !names.contains(name));
    custom.sort_unstable();
    names.extend(custom);
    names.into_iter().filter_map(|name| group(kinds, name)).collect()
}

/// One group; `None` when no kind is in it.
pub(crate) fn group<'a>(kinds: &[&'a Kind], name: &str) -> Option<GroupVersions<'a>> {
    let mut found: Option<GroupVersions<'a>> = None;
    for kind in kinds.iter().copied().filter(|kind| kind.group == name) {
        let group =
            found.get_or_insert_with(|| GroupVersions { name: &kind.group, versions: Vec::new() });
        match group.versions.iter_mut().find(|version| version.version == kind.version) {
            Some(version) => version.kinds.push(kind),
            None => {
                let version = &kind.version;
                group.versions.push(VersionKinds { version, kinds: vec![kind], remote: None });
            }
        }
    }
    let mut group = found?;
    group.versions.sort_by(|a, b| compare_versions(a.version, b.version));
    for version in &mut group.versions {
        version.kinds.sort_by(|a, b| a.plural.cmp(&b.plural));
    }
    Some(group)
}

/// As [`groups`], with what other servers serve where their APIServices put it (R131f).
pub(crate) fn merged<'a>(
    kinds: &[&'a Kind],
    remote: &'a [RemoteVersion<'a>],
) -> Vec<GroupVersions<'a>> {
    let mut all = groups(kinds);
    if remote.is_empty() {
        return all;
    }
    for found in remote {
        let version =
            VersionKinds { version: found.version, kinds: Vec::new(), remote: Some(found) };
        match all.iter_mut().find(|group| group.name == found.group) {
            Some(group) => group.versions.push(version),
            None => all.push(GroupVersions { name: found.group, versions: vec![version] }),
        }
    }
    for group in &mut all {
        let name = group.name;
        if group.versions.iter().any(|version| version.remote.is_some()) {
            group.versions.sort_by(|a, b| {
                let first = version_priority(name, b).cmp(&version_priority(name, a));
                first.then_with(|| compare_versions(a.version, b.version))
            });
        }
    }
    all.sort_by(|a, b| {
        let first = group_priority(b).cmp(&group_priority(a));
        first.then_with(|| a.name.cmp(b.name))
    });
    all
}

fn version_priority(group: &str, version: &VersionKinds<'_>) -> i64 {
    let own = || priority::local(group, version.version).version;
    version.remote.map_or_else(own, |remote| remote.version_priority)
}

/// The greatest of a group's versions.
fn group_priority(group: &GroupVersions<'_>) -> i64 {
    let own = |version: &str| priority::local(group.name, version).group;
    let each = group.versions.iter();
    let each = each.map(|v| v.remote.map_or_else(|| own(v.version), |r| r.group_priority));
    each.max().unwrap_or_default()
}

/// Stable before beta before alpha, higher numbers first, other names last and by name.
#[must_use]
pub fn compare_versions(a: &str, b: &str) -> Ordering {
    match (rank(a), rank(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

fn rank(version: &str) -> Option<(u8, Reverse<u64>, Reverse<u64>)> {
    let rest = version.strip_prefix('v')?;
    let (stability, major, minor) = if let Some((major, minor)) = rest.split_once("alpha") {
        (2, major, minor)
    } else if let Some((major, minor)) = rest.split_once("beta") {
        (1, major, minor)
    } else {
        (0, rest, "0")
    };
    Some((stability, Reverse(number(major)?), Reverse(number(minor)?)))
}

/// Digits only: signs and leading zeros make a version unusual.
fn number(text: &str) -> Option<u64> {
    let plain = text == "0" || !text.starts_with('0');
    if plain && text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    //! Rules of `spec/api-server.md`.

    use super::*;

    #[test]
    fn r131f_groups_of_other_servers_stand_where_their_numbers_put_them() {
        let all = crate::sample::kinds();
        let kinds: Vec<_> = all.iter().collect();
        let version = |group, version, group_priority, version_priority| RemoteVersion {
            group,
            version,
            group_priority,
            version_priority,
            resources: &[],
            current: true,
        };
        let remote = [
            version("last.example", "v1", 1, 1),
            version("metrics.k8s.io", "v1beta1", 100, 100),
            version("first.example", "v1", 20_000, 1),
            version("example.com", "v9", 1, 1),
            version("example.com", "v1beta1", 1, 200),
        ];
        let merged = merged(&kinds, &remote);
        let names: Vec<_> = merged.iter().map(|group| group.name).collect();
        let place = |name| names.iter().position(|known| *known == name).expect(name);
        assert_eq!(names[..2], ["apiregistration.k8s.io", "first.example"]);
        assert!(place("apps") < place("example.com"));
        assert!(place("example.com") < place("metrics.k8s.io"));
        assert_eq!(names[names.len() - 2..], ["metrics.k8s.io", "last.example"]);
        let mixed = &merged[place("example.com")];
        let versions: Vec<_> = mixed.versions.iter().map(|version| version.version).collect();
        assert_eq!(versions.first(), Some(&"v1beta1"));
        assert_eq!(versions.last(), Some(&"v9"));
        // Without them nothing moves.
        let plain: Vec<_> = groups(&kinds).iter().map(|group| group.name).collect();
        let same: Vec<_> = super::merged(&kinds, &[]).iter().map(|group| group.name).collect();
        assert_eq!(plain, same);
    }

    #[test]
    fn r41_stable_versions_come_first_and_higher_numbers_before_lower() {
        let mut versions =
            ["foo10", "v1alpha1", "v10", "v2beta1", "v1", "v2", "foo1", "v1beta2", "v1beta1"];
        versions.sort_by(|a, b| compare_versions(a, b));
        assert_eq!(
            versions,
            ["v10", "v2", "v1", "v2beta1", "v1beta2", "v1beta1", "v1alpha1", "foo1", "foo10"]
        );
    }
}
