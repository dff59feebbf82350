//! In which order groups, versions and resources are listed.

use std::cmp::{Ordering, Reverse};

use tenure_machinery::kind::Kind;

/// One version of a group and its kinds, plurals in byte order.
pub(crate) struct VersionKinds<'a> {
    pub(crate) version: &'a str,
    pub(crate) kinds: Vec<&'a Kind>,
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
            None => group.versions.push(VersionKinds { version: &kind.version, kinds: vec![kind] }),
        }
    }
    let mut group = found?;
    group.versions.sort_by(|a, b| compare_versions(a.version, b.version));
    for version in &mut group.versions {
        version.kinds.sort_by(|a, b| a.plural.cmp(&b.plural));
    }
    Some(group)
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
