//! What types and operations are called in documents.

use tenure_machinery::kind::Kind;

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// A type of `meta/v1`.
pub(super) fn meta(name: &str) -> String {
    format!("{META}.{name}")
}

/// The full name of a type in the facts table.
pub(super) fn of_type(name: &str) -> String {
    let roots = [
        ("apimachinery.", "io.k8s.apimachinery.pkg.apis."),
        ("apiextensions_apiserver.", "io.k8s.apiextensions-apiserver.pkg.apis."),
        ("kube_aggregator.", "io.k8s.kube-aggregator.pkg.apis."),
        ("api.", "io.k8s.api."),
    ];
    roots
        .iter()
        .find_map(|(short, long)| Some(format!("{long}{}", name.strip_prefix(short)?)))
        .unwrap_or_else(|| name.to_owned())
}

/// The full name of a kind's type; custom kinds are named by their group, back to front.
pub(super) fn of_kind(kind: &Kind) -> String {
    if kind.type_name.is_empty() {
        let group: Vec<_> = kind.group.rsplit('.').collect();
        format!("{}.{}.{}", group.join("."), kind.version, kind.kind)
    } else {
        of_type(&kind.type_name)
    }
}

/// A reference to a schema of the same document.
pub(super) fn pointer(name: &str) -> String {
    format!("#/components/schemas/{name}")
}

/// `RbacAuthorizationV1`, the middle of every operation's name.
pub(super) fn operation_scope(group: &str, version: &str) -> String {
    format!("{}{}", camel(group), capital(version))
}

/// `rbacAuthorization_v1`, the tag of every operation.
pub(super) fn tag(group: &str, version: &str) -> String {
    let camel = camel(group);
    let mut letters = camel.chars();
    let first = letters.next().map(|letter| letter.to_ascii_lowercase());
    format!("{}_{version}", first.into_iter().chain(letters).collect::<String>())
}

fn camel(group: &str) -> String {
    if group.is_empty() {
        return "Core".to_owned();
    }
    group.trim_end_matches(".k8s.io").split(['.', '-']).map(capital).collect()
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}
