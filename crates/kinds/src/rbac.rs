//! Role, ClusterRole and their bindings.
//!
//! Whether the caller may grant what a role says is the server's check.

use serde_json::Value;
use tenure_machinery::validate::{objects, objects_mut, text, validate_label_selector};
use tenure_machinery::{Errors, Object, ObjectExt, Path, Rules, name};

use crate::stored::member;

/// Rules of Role.
pub(crate) struct RoleRules;
/// Rules of ClusterRole.
pub(crate) struct ClusterRoleRules;
/// Rules of RoleBinding.
pub(crate) struct BindingRules;
/// Rules of ClusterRoleBinding.
pub(crate) struct ClusterBindingRules;

const GROUP: &str = "rbac.authorization.k8s.io";

impl Rules for RoleRules {
    fn validate(&self, object: &Object, errors: &mut Errors) {
        validate_rules(object, true, errors);
    }

    fn validate_last(&self, object: &Object, errors: &mut Errors) {
        validate_verbs(object, errors);
    }
}

impl Rules for ClusterRoleRules {
    fn validate(&self, object: &Object, errors: &mut Errors) {
        validate_rules(object, false, errors);
        let Some(aggregation) = object.map_at(&["aggregationRule"]) else { return };
        let rule = Path::Root.field("aggregationRule");
        let list = rule.field("clusterRoleSelectors");
        if aggregation.list_at(&["clusterRoleSelectors"]).is_empty() {
            errors.required(&list, "needs at least one selector");
        }
        for (index, selector) in objects(aggregation, "clusterRoleSelectors") {
            let mut wrong = Errors::new();
            validate_label_selector(selector, &list.index(index), &mut wrong);
            if !wrong.is_empty() {
                // What nobody can select by is told of the whole as well.
                wrong.invalid(&list.index(index), Value::Null, "is no label selector");
            }
            errors.append(wrong);
        }
    }

    fn validate_last(&self, object: &Object, errors: &mut Errors) {
        validate_verbs(object, errors);
    }
}

impl Rules for BindingRules {
    fn default(&self, object: &mut Object) {
        default_binding(object);
    }
    fn validate(&self, object: &Object, errors: &mut Errors) {
        validate_binding(object, &["Role", "ClusterRole"], true, errors);
    }
    fn validate_last(&self, object: &Object, errors: &mut Errors) {
        validate_binding_names(object, errors);
    }
    fn validate_update(&self, object: &Object, old: &Object, errors: &mut Errors) {
        validate_role_kept(object, old, errors);
    }
}

impl Rules for ClusterBindingRules {
    fn default(&self, object: &mut Object) {
        default_binding(object);
    }
    fn validate(&self, object: &Object, errors: &mut Errors) {
        validate_binding(object, &["ClusterRole"], false, errors);
    }
    fn validate_last(&self, object: &Object, errors: &mut Errors) {
        validate_binding_names(object, errors);
    }
    fn validate_update(&self, object: &Object, old: &Object, errors: &mut Errors) {
        validate_role_kept(object, old, errors);
    }
}

fn default_binding(object: &mut Object) {
    if let Some(role) = member(object, "roleRef")
        && text(role, "apiGroup").is_empty()
    {
        role.insert("apiGroup".to_owned(), GROUP.into());
    }
    for subject in objects_mut(object, "subjects") {
        let person = matches!(text(subject, "kind"), "User" | "Group");
        if person && text(subject, "apiGroup").is_empty() {
            subject.insert("apiGroup".to_owned(), GROUP.into());
        }
    }
}

fn validate_rules(role: &Object, namespaced: bool, errors: &mut Errors) {
    let list = Path::Root.field("rules");
    for (index, rule) in objects(role, "rules") {
        let path = list.index(index);
        let empty = |member: &str| rule.list_at(&[member]).is_empty();
        if !empty("nonResourceURLs") {
            let path = path.field("nonResourceURLs");
            let value = rule.get("nonResourceURLs").unwrap_or(&Value::Null);
            if namespaced {
                errors.invalid(&path, value, "a role in a namespace covers resources only");
            }
            if !empty("apiGroups") || !empty("resources") || !empty("resourceNames") {
                errors.invalid(&path, value, "a rule covers resources or URLs, not both");
            }
            continue;
        }
        if empty("apiGroups") {
            errors.required(&path.field("apiGroups"), "needs at least one group");
        }
        if empty("resources") {
            errors.required(&path.field("resources"), "needs at least one resource");
        }
    }
}

fn validate_verbs(role: &Object, errors: &mut Errors) {
    let list = Path::Root.field("rules");
    for (index, rule) in objects(role, "rules") {
        if rule.list_at(&["verbs"]).is_empty() {
            errors.required(&list.index(index).field("verbs"), "needs at least one verb");
        }
    }
}

fn validate_binding_names(binding: &Object, errors: &mut Errors) {
    let list = Path::Root.field("subjects");
    for (index, subject) in objects(binding, "subjects") {
        if text(subject, "name").is_empty() {
            errors.required(&list.index(index).field("name"), "");
        }
    }
    if binding.str_at(&["roleRef", "name"]).unwrap_or_default().is_empty() {
        errors.required(&Path::Root.field("roleRef").field("name"), "");
    }
}

fn validate_binding(binding: &Object, kinds: &[&str], namespaced: bool, errors: &mut Errors) {
    let path = Path::Root.field("roleRef");
    let part = |member: &str| binding.str_at(&["roleRef", member]).unwrap_or_default();
    // Defaults fill the group only where there is a roleRef at all.
    if !matches!(part("apiGroup"), GROUP) {
        errors.not_supported(&path.field("apiGroup"), part("apiGroup"), &[GROUP]);
    }
    if !kinds.contains(&part("kind")) {
        errors.not_supported(&path.field("kind"), part("kind"), kinds);
    }
    for why in name::path_segment_faults(part("name")) {
        errors.invalid(&path.field("name"), format_args!("{:?}", part("name")), why);
    }
    let list = Path::Root.field("subjects");
    for (index, subject) in objects(binding, "subjects") {
        validate_subject(subject, namespaced, &list.index(index), errors);
    }
}

fn validate_subject(subject: &Object, namespaced: bool, path: &Path<'_>, errors: &mut Errors) {
    let (name, group) = (text(subject, "name"), text(subject, "apiGroup"));
    match text(subject, "kind") {
        "ServiceAccount" => {
            if !name.is_empty() {
                for why in name::dns_subdomain_faults(name) {
                    errors.invalid(&path.field("name"), format_args!("{name:?}"), why);
                }
            }
            if !group.is_empty() {
                errors.not_supported(&path.field("apiGroup"), group, &[""]);
            }
            if !namespaced && text(subject, "namespace").is_empty() {
                errors.required(&path.field("namespace"), "");
            }
        }
        "User" | "Group" => {
            if group != GROUP {
                errors.not_supported(&path.field("apiGroup"), group, &[GROUP]);
            }
        }
        other => {
            errors.not_supported(&path.field("kind"), other, &["ServiceAccount", "User", "Group"]);
        }
    }
}

fn validate_role_kept(object: &Object, old: &Object, errors: &mut Errors) {
    if object.get("roleRef") != old.get("roleRef") {
        let value = object.get("roleRef").unwrap_or(&Value::Null);
        errors.invalid(&Path::Root.field("roleRef"), value, "cannot change roleRef");
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use serde_json::{Value, json};

    use super::GROUP;
    use crate::check::{created, faults, row, update_faults};

    #[test]
    fn r136_role_rules() {
        let cases = [
            (
                json!({"apiGroups": [""], "resources": ["pods"]}),
                vec!["rules[0].verbs FieldValueRequired"],
            ),
            (
                json!({"verbs": ["get"]}),
                vec![
                    "rules[0].apiGroups FieldValueRequired",
                    "rules[0].resources FieldValueRequired",
                ],
            ),
            (
                json!({"verbs": ["get"], "nonResourceURLs": ["/x"]}),
                vec!["rules[0].nonResourceURLs FieldValueInvalid"],
            ),
            (json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}), vec![]),
            (
                json!({}),
                vec![
                    "rules[0].apiGroups FieldValueRequired",
                    "rules[0].resources FieldValueRequired",
                    "rules[0].verbs FieldValueRequired",
                ],
            ),
        ];
        for (rule, expected) in cases {
            assert_eq!(faults(&row(GROUP, "Role"), json!({"rules": [rule]})), expected);
        }
        let urls = json!({"rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}]});
        assert!(faults(&row(GROUP, "ClusterRole"), urls).is_empty());
    }

    fn binding(role: Value, subjects: Value) -> Value {
        json!({"roleRef": role, "subjects": subjects})
    }

    #[test]
    fn r136_binding_defaults() {
        let body = binding(
            json!({"kind": "Role", "name": "r"}),
            json!([{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "default",
                "namespace": "n"}]),
        );
        assert_eq!(
            created(&row(GROUP, "RoleBinding"), body),
            binding(
                json!({"apiGroup": GROUP, "kind": "Role", "name": "r"}),
                json!([{"apiGroup": GROUP, "kind": "User", "name": "u"},
                    {"kind": "ServiceAccount", "name": "default", "namespace": "n"}]),
            )
        );
    }

    #[test]
    fn r136_binding_faults() {
        let role = json!({"kind": "Role", "name": "r"});
        let cases = [
            (
                binding(json!({"kind": "Pod", "name": "r"}), json!([])),
                vec!["roleRef.kind FieldValueNotSupported"],
            ),
            (binding(role.clone(), json!([{"kind": "ServiceAccount", "name": "x"}])), vec![]),
            (
                binding(role, json!([{"kind": "Robot", "name": "x"}])),
                vec!["subjects[0].kind FieldValueNotSupported"],
            ),
        ];
        for (body, expected) in cases {
            assert_eq!(faults(&row(GROUP, "RoleBinding"), body), expected);
        }
        // Names that are missing are told last.
        let nameless = json!([{"kind": "Robot"}, {"kind": "User"}]);
        assert_eq!(
            faults(&row(GROUP, "RoleBinding"), binding(json!({"kind": "Pod"}), nameless)),
            [
                "roleRef.kind FieldValueNotSupported",
                "subjects[0].kind FieldValueNotSupported",
                "subjects[0].name FieldValueRequired",
                "subjects[1].name FieldValueRequired",
                "roleRef.name FieldValueRequired",
            ]
        );
        let account = json!([{"kind": "ServiceAccount", "name": "x"}]);
        let cluster = binding(json!({"kind": "ClusterRole", "name": "r"}), account);
        assert_eq!(
            faults(&row(GROUP, "ClusterRoleBinding"), cluster),
            ["subjects[0].namespace FieldValueRequired"]
        );
    }

    #[test]
    fn r136_selectors_that_nobody_can_select_by() {
        let gathering =
            |selectors: Value| json!({"aggregationRule": {"clusterRoleSelectors": selectors}});
        let list = "aggregationRule.clusterRoleSelectors";
        let cases = [
            (json!([]), vec![format!("{list} FieldValueRequired")]),
            (json!([{}, {"matchLabels": {"a": "b"}}]), vec![]),
            (
                json!([{}, {"matchLabels": {"a": "b d"}}]),
                vec![
                    format!("{list}[1].matchLabels FieldValueInvalid"),
                    format!("{list}[1] FieldValueInvalid"),
                ],
            ),
            (
                json!([{"matchExpressions": [{"key": "a", "operator": "In"}]}]),
                vec![
                    format!("{list}[0].matchExpressions[0].values FieldValueRequired"),
                    format!("{list}[0] FieldValueInvalid"),
                ],
            ),
        ];
        for (selectors, expected) in cases {
            assert_eq!(faults(&row(GROUP, "ClusterRole"), gathering(selectors)), expected);
        }
    }

    #[test]
    fn r136_role_ref_is_frozen() {
        for kind in ["RoleBinding", "ClusterRoleBinding"] {
            let to = |name: &str| binding(json!({"kind": "ClusterRole", "name": name}), json!([]));
            assert_eq!(
                update_faults(&row(GROUP, kind), to("a"), to("b")),
                ["roleRef FieldValueInvalid"]
            );
        }
    }
}
