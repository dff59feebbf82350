//! Rows for tests: every kind of the facts table, and one custom kind.

use tenure_machinery::kind::{Dependents, Kind, NameRule, NoRules, Subresource, Verbs};
use tenure_schema::{Scope, facts};

const WRITE: &[&str] = &["get", "patch", "update"];

/// All kinds.
pub(crate) fn kinds() -> Vec<Kind> {
    let types = facts().types().iter().filter_map(|entry| Some((entry.name, entry.kind?)));
    let mut kinds: Vec<_> = types
        .filter(|(_, kind)| kind.scope != Scope::Subresource && !kind.segment.is_empty())
        .map(|(name, kind)| {
            let mut row = row(kind.group, kind.version, kind.kind, kind.segment, name);
            row.namespaced = kind.scope == Scope::Namespace;
            row
        })
        .collect();
    for kind in &mut kinds {
        adorn(kind);
    }
    kinds.push(row("example.com", "v1", "Widget", "widgets", ""));
    kinds
}

fn adorn(kind: &mut Kind) {
    let own: &'static str = match kind.kind.as_ref() {
        "Deployment" => "Deployment",
        "Pod" => "Pod",
        "Namespace" => "Namespace",
        review if review.ends_with("Review") => {
            kind.verbs = Verbs::CreateOnly;
            return;
        }
        _ => return,
    };
    let status = Subresource { name: "status", kind: own, group_version: None, verbs: WRITE };
    match own {
        "Deployment" => {
            kind.short_names.push("deploy".into());
            kind.categories.push("all".into());
            let elsewhere = Some(("autoscaling", "v1"));
            let scale = Subresource {
                name: "scale",
                kind: "Scale",
                group_version: elsewhere,
                verbs: WRITE,
            };
            kind.subresources = vec![scale, status];
        }
        "Pod" => {
            let other =
                |name, kind, group_version, verbs| Subresource { name, kind, group_version, verbs };
            kind.subresources = vec![
                other("eviction", "Eviction", Some(("policy", "v1")), &["create"]),
                other("exec", "PodExecOptions", None, &["create", "get"]),
                other("log", "Pod", None, &["get"]),
                status,
            ];
        }
        _ => kind.verbs = Verbs::NoDeleteCollection,
    }
}

fn row(
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    type_name: &'static str,
) -> Kind {
    Kind {
        group: group.into(),
        version: version.into(),
        kind: kind.into(),
        plural: plural.into(),
        singular: kind.to_lowercase().into(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: true,
        verbs: Verbs::All,
        type_name: type_name.into(),
        storage: plural.into(),
        subresources: Vec::new(),
        name_rule: NameRule::Subdomain,
        generation: false,
        status: None,
        unconditional_update: true,
        create_on_update: false,
        returns_deleted: false,
        dependents: Dependents::Delete,
        fields: Vec::new(),
        acted_on: tenure_machinery::kind::ActedOn::By("nobody but tests"),
        deprecated: None,
        rules: Box::new(NoRules),
    }
}
