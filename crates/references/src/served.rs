//! Looking up what is served: rows of types, and the version at which a strategy reads its origins (R58).

use tenure_reference::{Resource, ServedType, Strategy};

/// What is served of a type.
pub(crate) fn row<'s>(served: &'s [ServedType], resource: &Resource) -> Option<&'s ServedType> {
    served.iter().find(|row| row.resource == *resource)
}

/// The version at which a strategy reads its origins; `None` while none of its versions is served.
pub(crate) fn active_version<'s>(
    served: &'s [ServedType],
    strategy: &Strategy,
) -> Option<&'s String> {
    let listed =
        |version: &&String| strategy.versions.iter().any(|paths| paths.version == **version);
    row(served, &strategy.origin)?.versions.iter().find(listed)
}

/// A type as kube-rs wants it, at a version or at the preferred one.
#[cfg(feature = "kube")]
pub(crate) fn api_resource(
    row: &ServedType,
    version: Option<&str>,
) -> Option<kube::core::ApiResource> {
    let version = version.or(row.versions.first().map(String::as_str))?;
    let Resource { group, resource } = &row.resource;
    let api_version = match group.as_str() {
        "" => version.to_owned(),
        group => format!("{group}/{version}"),
    };
    Some(kube::core::ApiResource {
        group: group.clone(),
        version: version.to_owned(),
        api_version,
        kind: row.kind.clone(),
        plural: resource.clone(),
    })
}
