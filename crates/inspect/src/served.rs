//! What a cluster serves: its kinds as discovery tells them, and how people name them.
//!
//! Names are read as kubectl reads them: plural, singular, short name or kind, alone or followed by
//! a group, or by a version and a group.

use serde::Deserialize;

use crate::wire::or_default;

/// One kind in one version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiscoveredResource {
    /// The group; empty for the core.
    pub group: String,
    /// The version.
    pub version: String,
    /// The kind.
    pub kind: String,
    /// The plural, as in paths.
    pub plural: String,
    /// The singular.
    pub singular: String,
    /// Short names.
    pub short_names: Vec<String>,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// What may be done with it.
    pub verbs: Vec<String>,
}

impl DiscoveredResource {
    /// Group and version as objects write them.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            return self.version.clone();
        }
        format!("{}/{}", self.group, self.version)
    }

    /// The plural with its group, as people write it.
    #[must_use]
    pub fn qualified(&self) -> String {
        if self.group.is_empty() {
            return self.plural.clone();
        }
        format!("{}.{}", self.plural, self.group)
    }

    /// The path of all its objects, of those in a namespace, or of one.
    #[must_use]
    pub fn path(&self, namespace: &str, name: &str) -> String {
        let root = if self.group.is_empty() { "/api" } else { "/apis" };
        let mut path = format!("{root}/{}", self.api_version());
        if self.namespaced && !namespace.is_empty() {
            path.push_str("/namespaces/");
            path.push_str(&escaped(namespace));
        }
        path.push('/');
        path.push_str(&self.plural);
        if !name.is_empty() {
            path.push('/');
            path.push_str(&escaped(name));
        }
        path
    }

    /// Whether something may be done with it.
    #[must_use]
    pub fn can(&self, verb: &str) -> bool {
        self.verbs.iter().any(|known| known == verb)
    }

    /// Whether a collector would look after its objects (R133).
    #[must_use]
    pub fn collected(&self) -> bool {
        self.plural != "events" && ["delete", "list", "watch"].iter().all(|verb| self.can(verb))
    }

    fn called(&self, word: &str) -> bool {
        self.plural.eq_ignore_ascii_case(word)
            || self.singular.eq_ignore_ascii_case(word)
            || self.kind.eq_ignore_ascii_case(word)
            || self.short_names.iter().any(|short| short.eq_ignore_ascii_case(word))
    }
}

/// Names come from clients and may hold anything that a reference may.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// All kinds in all versions, the preferred version of a group first.
#[derive(Clone, Debug, Default)]
pub struct DiscoveredKinds {
    rows: Vec<DiscoveredResource>,
}

impl DiscoveredKinds {
    /// The kinds in these rows; earlier rows are preferred.
    #[must_use]
    pub fn new(rows: Vec<DiscoveredResource>) -> DiscoveredKinds {
        DiscoveredKinds { rows }
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &DiscoveredResource> {
        self.rows.iter()
    }

    /// Each resource once, in the version that is preferred.
    pub fn preferred(&self) -> impl Iterator<Item = &DiscoveredResource> {
        let mut seen = std::collections::HashSet::new();
        self.rows.iter().filter(move |row| seen.insert((&row.group, &row.plural)))
    }

    /// The kind of a group, version and kind.
    #[must_use]
    pub fn find(&self, api_version: &str, kind: &str) -> Option<&DiscoveredResource> {
        self.rows.iter().find(|row| row.kind == kind && row.api_version() == api_version)
    }

    /// The kind that people call so.
    #[must_use]
    pub fn called(&self, word: &str) -> Option<&DiscoveredResource> {
        let (name, rest) = word.split_once('.').unwrap_or((word, ""));
        let at = |row: &&DiscoveredResource| {
            let version_and_group = format!("{}.{}", row.version, row.group);
            row.called(name)
                && (rest.is_empty()
                    || row.group == rest
                    || version_and_group == rest
                    || version_and_group.trim_end_matches('.') == rest)
        };
        // The exact plural wins over anybody's short name.
        let exact = |row: &&DiscoveredResource| row.plural.eq_ignore_ascii_case(name) && at(row);
        self.rows.iter().find(exact).or_else(|| self.rows.iter().find(at))
    }

    /// Kinds whose name begins like this, for hints.
    #[must_use]
    pub fn like(&self, word: &str) -> Vec<String> {
        let name = word.split('.').next().unwrap_or(word).to_lowercase();
        let start: String = name.chars().take(3).collect();
        let near = |row: &&DiscoveredResource| !start.is_empty() && row.plural.starts_with(&start);
        self.preferred().filter(near).map(|row| row.singular_or_kind()).take(4).collect()
    }
}

impl DiscoveredResource {
    fn singular_or_kind(&self) -> String {
        if self.singular.is_empty() { self.kind.to_lowercase() } else { self.singular.clone() }
    }
}

/// A discovery document of either form: groups with everything in them, or one version's list.
#[derive(Debug, Deserialize)]
pub(crate) struct DiscoveryDocument {
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) items: Vec<GroupDiscovery>,
    /// Only the older form has these.
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) groups: Vec<OldGroup>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct GroupDiscovery {
    #[serde(default, deserialize_with = "or_default")]
    metadata: GroupName,
    #[serde(default, deserialize_with = "or_default")]
    versions: Vec<VersionDiscovery>,
}

#[derive(Debug, Default, Deserialize)]
struct GroupName {
    #[serde(default, deserialize_with = "or_default")]
    name: String,
}

#[derive(Debug, Deserialize)]
struct VersionDiscovery {
    version: String,
    #[serde(default, deserialize_with = "or_default")]
    resources: Vec<ResourceDiscovery>,
    /// `Stale` when the server behind an aggregated API does not answer.
    #[serde(default, deserialize_with = "or_default")]
    freshness: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResourceDiscovery {
    resource: String,
    #[serde(default, deserialize_with = "or_default")]
    response_kind: Option<ResponseKind>,
    #[serde(default, deserialize_with = "or_default")]
    scope: String,
    #[serde(default, deserialize_with = "or_default")]
    singular_resource: String,
    #[serde(default, deserialize_with = "or_default")]
    short_names: Vec<String>,
    #[serde(default, deserialize_with = "or_default")]
    verbs: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct ResponseKind {
    #[serde(default, deserialize_with = "or_default")]
    kind: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OldGroup {
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) versions: Vec<OldVersion>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OldVersion {
    pub(crate) group_version: String,
}

/// The older form: what one version of one group serves.
#[derive(Debug, Deserialize)]
pub(crate) struct OldList {
    #[serde(default, deserialize_with = "or_default")]
    resources: Vec<OldResource>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct OldResource {
    name: String,
    #[serde(default, deserialize_with = "or_default")]
    singular_name: String,
    #[serde(default, deserialize_with = "or_default")]
    namespaced: bool,
    #[serde(default, deserialize_with = "or_default")]
    kind: String,
    #[serde(default, deserialize_with = "or_default")]
    verbs: Vec<String>,
    #[serde(default, deserialize_with = "or_default")]
    short_names: Vec<String>,
}

impl DiscoveryDocument {
    /// The rows of the newer form, and the versions whose servers do not answer.
    pub(crate) fn rows(self) -> (Vec<DiscoveredResource>, Vec<String>) {
        let (mut rows, mut stale) = (Vec::new(), Vec::new());
        for group in self.items {
            for version in group.versions {
                if version.freshness == "Stale" {
                    stale.push(format!("{}/{}", group.metadata.name, version.version));
                }
                for resource in version.resources {
                    rows.push(DiscoveredResource {
                        group: group.metadata.name.clone(),
                        version: version.version.clone(),
                        kind: resource.response_kind.map(|kind| kind.kind).unwrap_or_default(),
                        plural: resource.resource,
                        singular: resource.singular_resource,
                        short_names: resource.short_names,
                        namespaced: resource.scope == "Namespaced",
                        verbs: resource.verbs,
                    });
                }
            }
        }
        (rows, stale)
    }
}

impl OldList {
    /// The rows of one version.
    pub(crate) fn rows(self, group_version: &str) -> Vec<DiscoveredResource> {
        let (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
        let whole = self.resources.into_iter().filter(|resource| !resource.name.contains('/'));
        whole
            .map(|resource| DiscoveredResource {
                group: group.to_owned(),
                version: version.to_owned(),
                kind: resource.kind,
                plural: resource.name,
                singular: resource.singular_name,
                short_names: resource.short_names,
                namespaced: resource.namespaced,
                verbs: resource.verbs,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(
        group: &str,
        version: &str,
        kind: &str,
        plural: &str,
        short: &str,
    ) -> DiscoveredResource {
        DiscoveredResource {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
            plural: plural.into(),
            singular: kind.to_lowercase(),
            short_names: vec![short.into()],
            namespaced: true,
            verbs: vec!["list".into()],
        }
    }

    fn kinds() -> DiscoveredKinds {
        DiscoveredKinds::new(vec![
            row("", "v1", "Pod", "pods", "po"),
            row("apps", "v1", "Deployment", "deployments", "deploy"),
            row("apps", "v1beta1", "Deployment", "deployments", "deploy"),
            row("example.com", "v1", "Deployment", "deployments", "pods"),
        ])
    }

    #[test]
    fn kinds_are_named_as_kubectl_names_them() {
        let kinds = kinds();
        let found =
            |word: &str| kinds.called(word).map(|row| (row.group.as_str(), row.version.as_str()));
        for word in ["deploy", "deployment", "deployments", "Deployment", "deployments.apps"] {
            assert_eq!(found(word), Some(("apps", "v1")), "{word}");
        }
        assert_eq!(found("deployments.v1beta1.apps"), Some(("apps", "v1beta1")));
        assert_eq!(found("deployment.example.com"), Some(("example.com", "v1")));
        assert_eq!(found("pods"), Some(("", "v1")));
        assert_eq!(found("pods.v1"), Some(("", "v1")));
        assert_eq!(found("pods.v1."), Some(("", "v1")));
        assert_eq!(found("boats"), None);
        assert_eq!(found("pods.apps"), None);
        assert_eq!(kinds.like("depl"), ["deployment", "deployment"]);
    }

    #[test]
    fn paths_hold_whatever_a_reference_names() {
        let pod = row("", "v1", "Pod", "pods", "po");
        assert_eq!(pod.path("shop", "a/b"), "/api/v1/namespaces/shop/pods/a%2Fb");
        assert_eq!(row("apps", "v1", "X", "xs", "").path("", ""), "/apis/apps/v1/xs");
    }

    #[test]
    fn both_forms_of_discovery_are_read() {
        let new: DiscoveryDocument = serde_json::from_str(
            r#"{"items":[{"metadata":{"name":"apps"},"versions":[{"version":"v1","freshness":"Stale",
            "resources":[{"resource":"deployments","responseKind":{"kind":"Deployment"},
            "scope":"Namespaced","singularResource":"deployment","verbs":["list"]}]}]}]}"#,
        )
        .unwrap();
        let (rows, stale) = new.rows();
        assert_eq!(rows[0].qualified(), "deployments.apps");
        assert_eq!(stale, ["apps/v1"]);
        let old: OldList = serde_json::from_str(
            r#"{"resources":[{"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod",
            "verbs":["list"]},{"name":"pods/log","kind":"Pod"}]}"#,
        )
        .unwrap();
        assert_eq!(old.rows("v1").len(), 1);
    }
}
