//! Rule R156 of `spec/api-server.md`: the roles and bindings every cluster starts with.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tenure_rbac::bootstrap::{self, DefaultRbacObject};
use tenure_rbac::{Rbac, Reconciled, Role, RoleBinding, missing, reconcile};

use crate::fixture::{may, rule, urls};

fn cluster() -> Rbac {
    let mut rbac = Rbac::new();
    for expected in bootstrap::objects() {
        match RoleBinding::from_object(&expected.object) {
            Some(binding) => rbac.put_binding(binding),
            None => rbac.put_role(Role::from_object(&expected.object)),
        }
    }
    rbac
}

fn expected(resource: &str, name: &str) -> DefaultRbacObject {
    let found = bootstrap::objects()
        .into_iter()
        .find(|object| object.resource == resource && object.name == name);
    found.unwrap_or_else(|| panic!("{resource} {name}"))
}

#[test]
fn r156_the_roles_of_the_rule_exist() {
    let names: BTreeSet<String> = bootstrap::roles().into_iter().map(|role| role.name).collect();
    for name in "cluster-admin system:discovery system:basic-user system:public-info-viewer admin \
                 edit view system:aggregate-to-admin system:aggregate-to-edit \
                 system:aggregate-to-view system:auth-delegator system:monitoring \
                 system:service-account-issuer-discovery system:node system:node-proxier \
                 system:kube-scheduler system:kube-controller-manager system:volume-scheduler \
                 system:persistent-volume-provisioner system:kubelet-api-admin \
                 system:certificates.k8s.io:certificatesigningrequests:nodeclient \
                 system:certificates.k8s.io:kubelet-serving-approver \
                 system:controller:deployment-controller system:controller:replicaset-controller \
                 system:controller:statefulset-controller system:controller:job-controller \
                 system:controller:generic-garbage-collector \
                 extension-apiserver-authentication-reader"
        .split(' ')
    {
        assert!(names.contains(name), "{name}");
    }
}

#[test]
fn r156_objects_are_labelled_annotated_and_said_once() {
    let mut seen = BTreeSet::new();
    for DefaultRbacObject { resource, namespace, name, object } in bootstrap::objects() {
        let metadata = &object["metadata"];
        assert_eq!(metadata["labels"][bootstrap::LABEL.0], bootstrap::LABEL.1, "{name}");
        assert_eq!(metadata["annotations"][bootstrap::AUTO_UPDATE.0], "true", "{name}");
        assert_eq!(metadata["name"], name.as_str());
        assert_eq!(metadata["namespace"].as_str().unwrap_or_default(), namespace);
        assert!(seen.insert((resource, namespace, name)));
    }
    assert_eq!(seen.len(), 144);
}

#[test]
fn r156_rules_are_whole_and_their_lists_sorted() {
    for role in bootstrap::roles() {
        assert!(role.gathers.is_some() || !role.rules.is_empty(), "{}", role.name);
        for rule in &role.rules {
            let named = !rule.api_groups.is_empty() && !rule.resources.is_empty();
            assert!(named == rule.non_resource_urls.is_empty(), "{} {rule}", role.name);
            assert!(role.namespace.is_empty() || named, "{} {rule}", role.name);
            for list in [
                &rule.verbs,
                &rule.api_groups,
                &rule.resources,
                &rule.resource_names,
                &rule.non_resource_urls,
            ] {
                assert!(list.is_sorted(), "{} {rule}", role.name);
            }
            let texts = rule.verbs.iter().chain(&rule.resources).chain(&rule.resource_names);
            assert!(texts.chain(&rule.non_resource_urls).all(|text| !text.is_empty()), "{rule}");
        }
    }
}

#[test]
fn r156_every_binding_names_a_role_that_exists() {
    let rbac = cluster();
    for binding in bootstrap::bindings() {
        let home = match binding.role.kind() {
            "Role" => binding.namespace.as_str(),
            _ => "",
        };
        assert!(rbac.role(home, binding.role.name()).is_some(), "{}", binding.name);
    }
}

#[test]
fn r156_view_is_less_than_edit_is_less_than_admin() {
    let rbac = cluster();
    let rules = |name| &rbac.role("", name).expect("a role").rules;
    assert_eq!(missing(rules("edit"), rules("view")), []);
    assert_eq!(missing(rules("admin"), rules("edit")), []);
    assert_eq!(missing(rules("cluster-admin"), rules("admin")), []);
    assert!(!missing(rules("view"), rules("edit")).is_empty());
    assert!(!missing(rules("edit"), rules("admin")).is_empty());
    let secrets = rule("get", "core", "secrets");
    assert_eq!(missing(rules("view"), std::slice::from_ref(&secrets)), [secrets]);
    assert_eq!(rules("cluster-admin").as_slice(), [rule("*", "*", "*"), urls("*", "*")]);
}

#[test]
fn r156_standing_bindings_let_everybody_discover_and_nobody_more() {
    let rbac = cluster();
    let signed_in = ["system:authenticated"];
    for text in [
        "get /api",
        "get /apis/apps/v1",
        "get /openapi/v3",
        "get /version",
        "get /healthz",
        "create selfsubjectaccessreviews.authorization.k8s.io",
        "create selfsubjectreviews.authentication.k8s.io",
    ] {
        assert!(may(&rbac, "jane", &signed_in, text), "{text}");
    }
    assert!(!may(&rbac, "jane", &signed_in, "get pods in default"));
    assert!(!may(&rbac, "jane", &signed_in, "get /metrics"));
    let anonymous = ["system:unauthenticated"];
    for text in ["get /healthz", "get /livez", "get /readyz", "get /version"] {
        assert!(may(&rbac, "system:anonymous", &anonymous, text), "{text}");
    }
    assert!(!may(&rbac, "system:anonymous", &anonymous, "get /api"));
    assert!(may(&rbac, "root", &["system:masters"], "delete nodes named n"));
    assert!(may(&rbac, "prometheus", &["system:monitoring"], "get /metrics"));
    let account = "system:serviceaccount:default:default";
    assert!(may(&rbac, account, &["system:serviceaccounts"], "get /openid/v1/jwks"));
    let scheduler = "system:kube-scheduler";
    assert!(may(&rbac, scheduler, &[], "create pods/binding in default named web"));
    let collector = "system:serviceaccount:kube-system:generic-garbage-collector";
    assert!(may(&rbac, collector, &[], "delete widgets.example.com in default named x"));
    assert!(!may(&rbac, "system:node:n", &["system:nodes"], "get pods"), "bound to nobody");
}

#[test]
fn r156_what_is_as_expected_stays() {
    for expected in bootstrap::objects() {
        assert_eq!(reconcile(&expected.object, &expected.object), Reconciled::Same);
    }
}

#[test]
fn r156_missing_rules_are_added_and_others_kept() {
    let role = expected("clusterroles", "system:discovery");
    let mut existing = role.object.clone();
    let extra = json!({"verbs": ["get"], "nonResourceURLs": ["/mine", "/api"]});
    existing["rules"] = json!([extra]);
    let Reconciled::Update(object) = reconcile(&existing, &role.object) else { panic!() };
    assert_eq!(object["rules"][0], extra);
    let rules = Role::from_object(&object).rules;
    assert_eq!(missing(&rules, &Role::from_object(&role.object).rules), []);
    assert!(rules.iter().skip(1).all(|rule| *rule != urls("get", "/api")), "held already");
    existing["rules"] = Value::Null;
    assert!(matches!(reconcile(&existing, &role.object), Reconciled::Update(_)));
}

#[test]
fn r156_missing_subjects_labels_and_annotations_are_added() {
    let binding = expected("clusterrolebindings", "system:public-info-viewer");
    let mut existing = binding.object.clone();
    let mine = json!({"kind": "ServiceAccount", "name": "a", "namespace": "b"});
    existing["subjects"] = json!([mine]);
    existing["metadata"] = json!({"name": binding.name, "labels": {"mine": "1"}});
    let Reconciled::Update(object) = reconcile(&existing, &binding.object) else { panic!() };
    assert_eq!(object["subjects"].as_array().map(Vec::len), Some(3));
    assert_eq!(object["subjects"][0], mine);
    assert_eq!(object["metadata"]["labels"]["mine"], "1");
    assert_eq!(object["metadata"]["labels"][bootstrap::LABEL.0], bootstrap::LABEL.1);
    assert_eq!(object["metadata"]["annotations"][bootstrap::AUTO_UPDATE.0], "true");
}

#[test]
fn r156_a_binding_to_another_role_is_made_anew() {
    let binding = expected("clusterrolebindings", "system:discovery");
    let mut existing = binding.object.clone();
    existing["roleRef"]["name"] = "view".into();
    assert_eq!(reconcile(&existing, &binding.object), Reconciled::Recreate);
}

#[test]
fn r156_whoever_opted_out_is_left_alone() {
    let role = expected("clusterroles", "system:discovery");
    let mut existing = role.object.clone();
    existing["rules"] = json!([]);
    existing["metadata"]["annotations"][bootstrap::AUTO_UPDATE.0] = "false".into();
    assert_eq!(reconcile(&existing, &role.object), Reconciled::Same);
}

#[test]
fn r156_aggregation_is_kept_as_it_should_be() {
    let view = expected("clusterroles", "view");
    let mut existing = view.object.clone();
    existing["rules"] = json!([]);
    assert_eq!(reconcile(&existing, &view.object), Reconciled::Same, "gathering fills it");
    existing.remove("aggregationRule");
    let Reconciled::Update(object) = reconcile(&existing, &view.object) else { panic!() };
    assert_eq!(object["aggregationRule"], view.object["aggregationRule"]);
    let plain = expected("clusterroles", "cluster-admin");
    let mut existing = plain.object.clone();
    existing.insert("aggregationRule".into(), view.object["aggregationRule"].clone());
    let Reconciled::Update(object) = reconcile(&existing, &plain.object) else { panic!() };
    assert_eq!(object, plain.object);
}
