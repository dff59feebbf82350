//! Short ways to say roles, bindings and questions.

use serde_json::Value;
use tenure_rbac::{
    BindingSubject, PolicyRule, Rbac, RbacDecision, RequestAttributes, Requester, Role,
    RoleBinding, RoleRef,
};

/// A list from words; `core` is the core group.
fn list(words: &str) -> Vec<String> {
    words.split(' ').map(|word| if word == "core" { "" } else { word }.to_owned()).collect()
}

/// Verbs, groups, resources.
pub(crate) fn rule(verbs: &str, groups: &str, resources: &str) -> PolicyRule {
    PolicyRule {
        verbs: list(verbs),
        api_groups: list(groups),
        resources: list(resources),
        ..PolicyRule::default()
    }
}

/// The same for some names only.
pub(crate) fn named(verbs: &str, groups: &str, resources: &str, names: &str) -> PolicyRule {
    PolicyRule { resource_names: list(names), ..rule(verbs, groups, resources) }
}

/// Verbs and paths.
pub(crate) fn urls(verbs: &str, urls: &str) -> PolicyRule {
    PolicyRule { verbs: list(verbs), non_resource_urls: list(urls), ..PolicyRule::default() }
}

/// A role; a ClusterRole when the namespace is empty.
pub(crate) fn role(namespace: &str, name: &str, rules: &[PolicyRule]) -> Role {
    Role {
        namespace: namespace.into(),
        name: name.into(),
        rules: rules.to_vec(),
        ..Role::default()
    }
}

/// A binding: `role` and each of `subjects` is `Kind:name`, an account `Account:namespace/name`.
pub(crate) fn binding(namespace: &str, name: &str, role: &str, subjects: &str) -> RoleBinding {
    let role = match role.split_once(':') {
        Some(("Role", name)) => RoleRef::Role(name.into()),
        Some(("ClusterRole", name)) => RoleRef::ClusterRole(name.into()),
        other => panic!("{other:?}"),
    };
    let subject = |text: &str| match text.split_once(':') {
        Some(("User", name)) => BindingSubject::User(name.into()),
        Some(("Group", name)) => BindingSubject::Group(name.into()),
        Some(("Account", text)) => {
            let (namespace, name) = text.split_once('/').expect("an account with a slash");
            BindingSubject::ServiceAccount { namespace: namespace.into(), name: name.into() }
        }
        other => panic!("{other:?}"),
    };
    let subjects = subjects.split_whitespace().map(subject).collect();
    RoleBinding { namespace: namespace.into(), name: name.into(), role, subjects }
}

/// A question in words: `get pods/log.group in namespace named name`, or `get /path`.
pub(crate) fn asked(text: &str) -> RequestAttributes<'_> {
    let words: Vec<&str> = text.split(' ').collect();
    let after = |word: &str| {
        let place = words.iter().position(|have| *have == word);
        place.map_or("", |place| words[place + 1])
    };
    let (verb, what) = (words[0], words[1]);
    if what.starts_with('/') {
        return RequestAttributes::Path { verb, path: what };
    }
    let (full, group) = what.split_once('.').unwrap_or((what, ""));
    let (resource, subresource) = full.split_once('/').unwrap_or((full, ""));
    let (namespace, name) = (after("in"), after("named"));
    RequestAttributes::Resource { verb, group, resource, subresource, namespace, name }
}

/// Whether `user` in the groups may do what the text says.
pub(crate) fn may(rbac: &Rbac, user: &str, groups: &[&str], text: &str) -> bool {
    let groups: Vec<String> = groups.iter().map(|group| (*group).to_owned()).collect();
    rbac.allows(&Requester { user, groups: &groups }, &asked(text)).is_allowed()
}

/// The sentence for why it is allowed.
pub(crate) fn why(rbac: &Rbac, user: &str, groups: &[&str], text: &str) -> String {
    let groups: Vec<String> = groups.iter().map(|group| (*group).to_owned()).collect();
    match rbac.allows(&Requester { user, groups: &groups }, &asked(text)) {
        RbacDecision::Allow(granted) => granted.to_string(),
        RbacDecision::NoOpinion => String::new(),
    }
}

/// One user `u` who holds these rules in the whole cluster.
pub(crate) fn holding(rules: &[PolicyRule]) -> Rbac {
    let mut rbac = Rbac::new();
    rbac.put_role(role("", "r", rules));
    rbac.put_binding(binding("", "b", "ClusterRole:r", "User:u"));
    rbac
}

/// The map of a JSON object.
pub(crate) fn object(value: Value) -> serde_json::Map<String, Value> {
    match value {
        Value::Object(object) => object,
        other => panic!("{other}"),
    }
}
