//! Rules of spec/referential-authorization.md.

mod selectors;

use serde_json::{Value, json};
use tenure_machinery::{Errors, Kind, Object};

use super::{GROUP, Selectors, ServedResource, Surroundings, TripleView, line, validate, warnings};

/// A cluster that serves Secrets, Nodes, and Gateways in two versions.
struct Cluster {
    lets_everybody: bool,
    selectors: Selectors,
}

impl Surroundings for Cluster {
    fn served(&self, group: &str, resource: &str) -> Option<ServedResource> {
        let served = |namespaced, versions: &[&str]| {
            let versions = versions.iter().map(|&version| version.to_owned()).collect();
            Some(ServedResource { namespaced, versions })
        };
        match (group, resource) {
            ("", "secrets" | "configmaps") => served(true, &["v1"]),
            ("", "nodes") => served(false, &["v1"]),
            ("example.com", "gateways") => served(true, &["v1", "v1beta1"]),
            _ => None,
        }
    }
    fn resource_of(&self, group: &str, kind: &str) -> Option<String> {
        (group.is_empty() && kind == "Secret").then(|| "secrets".to_owned())
    }
    fn expression_fault(&self, expression: &str) -> Option<String> {
        expression.contains("wrong").then(|| "compilation failed: wrong".to_owned())
    }
    fn lets_everybody(&self) -> bool {
        self.lets_everybody
    }
    fn selectors(&self) -> Selectors {
        self.selectors
    }
}

const CLUSTER: Cluster = Cluster { lets_everybody: false, selectors: Selectors::ALL };

fn row(kind: &str) -> Kind {
    crate::check::row(GROUP, kind)
}

fn object(value: Value) -> Object {
    value.as_object().cloned().unwrap()
}

fn causes(kind: &str, value: Value, old: Option<Value>) -> Vec<(String, String)> {
    let mut errors = Errors::new();
    let old = old.map(object);
    validate(&row(kind), &object(value), old.as_ref(), &CLUSTER, &mut errors);
    let each = errors.into_causes().into_iter();
    each.map(|c| (format!("{} {}", c.field, &c.reason.as_str()["FieldValue".len()..]), c.message))
        .collect()
}

fn faults(kind: &str, value: Value) -> Vec<String> {
    causes(kind, value, None).into_iter().map(|(fault, _)| fault).collect()
}

fn told(kind: &str, value: Value, old: Option<Value>) -> Vec<String> {
    let old = old.map(object);
    let around = Cluster { lets_everybody: true, ..CLUSTER };
    warnings(&row(kind), &object(value), old.as_ref(), &around)
}

fn gateways() -> Value {
    json!({"group": "example.com", "resource": "gateways"})
}

fn secrets() -> Value {
    json!({"group": "", "resource": "secrets"})
}

fn consumer() -> Value {
    json!({
        "metadata": {"name": "c"},
        "subject": {"kind": "ServiceAccount", "name": "contour", "namespace": "contour-system"},
        "references": [{"origin": gateways(), "target": secrets(), "purpose": "tls-serving"}],
    })
}

fn strategy() -> Value {
    json!({
        "metadata": {"name": "s"},
        "origin": gateways(),
        "versions": [{"version": "v1", "references": [
            {"path": ".spec.ref.name", "target": secrets(), "purpose": "tls-serving"},
        ]}],
    })
}

fn grant() -> Value {
    let mut grant = json!({
        "metadata": {"name": "g", "namespace": "prod-tls"},
        "origin": gateways(), "target": secrets(), "purpose": "tls-serving",
    });
    grant["origin"]["namespace"] = json!("prod");
    grant["target"]["names"] = json!(["acme-tls"]);
    grant
}

/// The object with one member replaced; null removes it.
fn with(mut value: Value, pointer: &str, member: Value) -> Value {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let parent = value.pointer_mut(parent).unwrap();
    match (parent, member) {
        (Value::Object(map), Value::Null) => drop(map.remove(name)),
        (Value::Object(map), member) => drop(map.insert(name.to_owned(), member)),
        (Value::Array(list), member) => list[name.parse::<usize>().unwrap()] = member,
        _ => panic!("{pointer}"),
    }
    value
}

#[test]
fn valid_objects_have_no_faults_and_nothing_to_tell() {
    for (kind, value) in [
        ("ClusterReferenceConsumer", consumer()),
        ("ReferenceStrategy", strategy()),
        ("ReferenceGrant", grant()),
    ] {
        assert_eq!(causes(kind, value.clone(), None), []);
        assert_eq!(told(kind, value, None), [""; 0]);
    }
}

#[test]
fn referencegrant_validation_r10_a_consumer_has_a_subject() {
    let none = with(consumer(), "/subject", Value::Null);
    assert_eq!(faults("ClusterReferenceConsumer", none), ["subject Required"]);
}

#[test]
fn referencegrant_validation_r11_subjects_are_of_three_kinds() {
    let robot = with(consumer(), "/subject/kind", json!("Robot"));
    let found = causes("ClusterReferenceConsumer", robot, None);
    assert_eq!(found[0].0, "subject.kind NotSupported");
    assert!(found[0].1.ends_with("\"Group\", \"ServiceAccount\", \"User\""), "{}", found[0].1);
}

#[test]
fn referencegrant_validation_r12_a_subject_has_a_name() {
    let nobody = with(consumer(), "/subject/name", json!(""));
    assert_eq!(faults("ClusterReferenceConsumer", nobody), ["subject.name Required"]);
}

#[test]
fn referencegrant_validation_r13_a_service_account_has_a_namespace() {
    let nowhere = with(consumer(), "/subject/namespace", Value::Null);
    assert_eq!(faults("ClusterReferenceConsumer", nowhere), ["subject.namespace Required"]);
}

#[test]
fn referencegrant_validation_r14_users_and_groups_have_none() {
    for kind in ["User", "Group"] {
        let placed = with(consumer(), "/subject/kind", json!(kind));
        assert_eq!(faults("ClusterReferenceConsumer", placed), ["subject.namespace Invalid"]);
    }
}

#[test]
fn referencegrant_validation_r15_a_service_account_may_be_named_as_a_user() {
    let user = json!({"kind": "User", "name": "system:serviceaccount:ns:name"});
    let user = with(consumer(), "/subject", user);
    assert_eq!(causes("ClusterReferenceConsumer", user.clone(), None), []);
    let lines = told("ClusterReferenceConsumer", user, None);
    assert!(lines[0].starts_with("subject: ") && lines[0].ends_with("use kind ServiceAccount"));
}

#[test]
fn referencegrant_validation_r16_references_are_required() {
    for none in [json!([]), Value::Null] {
        let none = with(consumer(), "/references", none);
        assert_eq!(faults("ClusterReferenceConsumer", none), ["references Required"]);
    }
}

#[test]
fn referencegrant_validation_r17_purposes_are_labels() {
    let long = "p".repeat(64);
    for (bad, kind) in
        [("TLS_Serving", "Invalid"), ("9tls", "Invalid"), (&long, "Invalid"), ("", "Required")]
    {
        let at = |of: Value, pointer: &str| with(of, pointer, json!(bad));
        assert_eq!(
            faults("ClusterReferenceConsumer", at(consumer(), "/references/0/purpose")),
            [format!("references[0].purpose {kind}")]
        );
        assert_eq!(faults("ReferenceGrant", at(grant(), "/purpose")), [format!("purpose {kind}")]);
        assert_eq!(
            faults("ReferenceStrategy", at(strategy(), "/versions/0/references/0/purpose")),
            [format!("versions[0].references[0].purpose {kind}")]
        );
    }
}

#[test]
fn referencegrant_validation_r18_resources_are_named() {
    let none = with(grant(), "/target/resource", json!(""));
    assert_eq!(faults("ReferenceGrant", none), ["target.resource Required"]);
    let none = with(strategy(), "/origin", Value::Null);
    assert_eq!(faults("ReferenceStrategy", none), ["origin Required"]);
}

#[test]
fn referencegrant_validation_r19_resources_are_plural_and_exact() {
    for bad in ["Secret", "secrets/status", "*"] {
        let at = with(strategy(), "/versions/0/references/0/target/resource", json!(bad));
        let found = causes("ReferenceStrategy", at, None);
        assert_eq!(found[0].0, "versions[0].references[0].target.resource Invalid");
        assert_eq!(
            found[0].1.contains("the resource of kind Secret is \"secrets\""),
            bad == "Secret"
        );
    }
}

#[test]
fn d25_a_kind_that_was_typed_gets_the_name_of_its_resource() {
    let typed = with(grant(), "/target/resource", json!("Secret"));
    let found = causes("ReferenceGrant", typed, None);
    assert!(found[0].1.contains("the resource of kind Secret is \"secrets\""), "{}", found[0].1);
}

#[test]
fn d17_there_is_no_wildcard_for_groups_and_resources() {
    for member in ["/origin/group", "/origin/resource", "/target/group", "/target/resource"] {
        assert!(
            !faults("ReferenceGrant", with(grant(), member, json!("*"))).is_empty(),
            "{member}"
        );
    }
}

#[test]
fn referencegrant_validation_r20_groups_are_domains() {
    let core = causes("ReferenceGrant", with(grant(), "/target/group", json!("core")), None);
    assert_eq!(core[0].0, "target.group Invalid");
    assert!(core[0].1.ends_with("the core group is written as \"\""));
    for bad in ["Example.com", "*", "a b"] {
        let found = faults("ReferenceGrant", with(grant(), "/origin/group", json!(bad)));
        assert_eq!(found, ["origin.group Invalid"], "{bad}");
    }
    for pointer in ["/origin/group", "/target/group"] {
        let found = faults("ReferenceGrant", with(grant(), pointer, Value::Null));
        let field = pointer.trim_start_matches('/').replace('/', ".");
        assert_eq!(found, [format!("{field} Required")]);
    }
}

#[test]
fn referencegrant_validation_r21_a_version_stands_once() {
    let mut twice = strategy();
    let version = twice["versions"][0].clone();
    twice["versions"].as_array_mut().unwrap().push(version);
    assert_eq!(faults("ReferenceStrategy", twice), ["versions[1].version Duplicate"]);
}

#[test]
fn referencegrant_validation_r22_versions_are_required() {
    let none = with(strategy(), "/versions", json!([]));
    assert_eq!(faults("ReferenceStrategy", none), ["versions Required"]);
}

#[test]
fn referencegrant_validation_r23_paths_parse() {
    for bad in [".spec[", "..name", ".spec.refs[?(@.kind=='x'].name", "{range .items[*]}"] {
        let at = with(strategy(), "/versions/0/references/0/path", json!(bad));
        let found = causes("ReferenceStrategy", at, None);
        assert_eq!(found[0].0, "versions[0].references[0].path Invalid");
        assert!(found[0].1.contains("at byte "), "{}", found[0].1);
    }
    let long = format!(".{}", "a".repeat(1024));
    let at = with(strategy(), "/versions/0/references/0/path", json!(long));
    assert_eq!(faults("ReferenceStrategy", at), ["versions[0].references[0].path TooLong"]);
    let mut entry = strategy()["versions"][0]["references"][0].clone();
    entry.as_object_mut().unwrap().remove("path");
    entry["expression"] = json!("wrong");
    let at = with(strategy(), "/versions/0/references/0", entry);
    assert_eq!(faults("ReferenceStrategy", at), ["versions[0].references[0].expression Invalid"]);
}

#[test]
fn referencegrant_validation_r24_a_class_is_one_value() {
    for many in [".spec.classes[*]", ".spec[?(@.a)].b", ".spec[0:2]", ".spec['a','b']"] {
        let at = with(strategy(), "/versions/0/classPath", json!(many));
        assert_eq!(faults("ReferenceStrategy", at), ["versions[0].classPath Invalid"], "{many}");
    }
    let one = with(strategy(), "/versions/0/classPath", json!(".spec.className"));
    assert_eq!(causes("ReferenceStrategy", one, None), []);
}

#[test]
fn referencegrant_validation_r25_path_or_expression() {
    let both = with(strategy(), "/versions/0/references/0/expression", json!("[]"));
    assert_eq!(faults("ReferenceStrategy", both), ["versions[0].references[0] Invalid"]);
    let none = with(strategy(), "/versions/0/references/0/path", Value::Null);
    assert_eq!(faults("ReferenceStrategy", none), ["versions[0].references[0].path Required"]);
}

#[test]
fn referencegrant_validation_r26_names_are_sixteen_at_most() {
    let names = |count: usize| json!((0..count).map(|n| format!("n{n}")).collect::<Vec<_>>());
    let sixteen = with(grant(), "/target/names", names(16));
    assert_eq!(causes("ReferenceGrant", sixteen, None), []);
    let found = causes("ReferenceGrant", with(grant(), "/target/names", names(17)), None);
    assert_eq!(found[0].0, "target.names TooMany");
    assert!(found[0].1.starts_with("Too many: 17"), "{}", found[0].1);
}

#[test]
fn d20_the_limit_of_names_is_per_grant() {
    assert_eq!(super::NAMES_MAX, 16);
}

#[test]
fn referencegrant_validation_r27_a_name_stands_once() {
    let twice = with(grant(), "/target/names", json!(["a", "b", "a"]));
    assert_eq!(faults("ReferenceGrant", twice), ["target.names[2] Duplicate"]);
}

#[test]
fn referencegrant_validation_r28_names_are_exact() {
    for bad in ["", ".", "..", "a/b", "a%b", "*", &"n".repeat(254)] {
        let found = faults("ReferenceGrant", with(grant(), "/target/names", json!([bad])));
        assert_eq!(found, ["target.names[0] Invalid"], "{bad}");
    }
}

#[test]
fn d18_there_is_no_wildcard_for_names() {
    let star = with(grant(), "/target/names", json!(["*"]));
    assert_eq!(faults("ReferenceGrant", star), ["target.names[0] Invalid"]);
}

#[test]
fn referencegrant_validation_r29_an_origin_in_namespaces_has_one() {
    let absent = with(grant(), "/origin/namespace", Value::Null);
    assert_eq!(faults("ReferenceGrant", absent.clone()), ["origin.namespace Required"]);
    let empty = with(grant(), "/origin/namespace", json!(""));
    assert_eq!(faults("ReferenceGrant", empty), ["origin.namespace Required"]);
    let mut nodes = with(grant(), "/origin", json!({"group": "", "resource": "nodes"}));
    assert_eq!(causes("ReferenceGrant", nodes.clone(), None), []);
    nodes["origin"]["namespace"] = json!("prod");
    assert_eq!(faults("ReferenceGrant", nodes), ["origin.namespace Invalid"]);
    let unserved = with(absent, "/origin/group", json!("other.example.com"));
    assert_eq!(causes("ReferenceGrant", unserved.clone(), None), []);
    assert!(told("ReferenceGrant", unserved, None)[0].starts_with("origin: "));
}

#[test]
fn referencegrant_validation_r30_namespaces_are_labels() {
    for bad in ["*", "a.b", "Prod", &"n".repeat(64)] {
        let found = faults("ReferenceGrant", with(grant(), "/origin/namespace", json!(bad)));
        assert_eq!(found, ["origin.namespace Invalid"], "{bad}");
    }
}

#[test]
fn d9_there_is_no_wildcard_for_the_namespace_of_origins() {
    let star = with(grant(), "/origin/namespace", json!("*"));
    assert_eq!(faults("ReferenceGrant", star), ["origin.namespace Invalid"]);
}

#[test]
fn referencegrant_validation_r31_a_grant_within_a_namespace_is_told_apart() {
    let local = with(grant(), "/origin/namespace", json!("prod-tls"));
    assert_eq!(causes("ReferenceGrant", local.clone(), None), []);
    let lines = told("ReferenceGrant", local, None);
    assert!(lines[0].starts_with("origin.namespace: ") && lines[0].contains("need no grant"));
}

#[test]
fn referencegrant_validation_r32_the_origin_of_a_strategy_stays() {
    let other = with(strategy(), "/origin", json!({"group": "", "resource": "configmaps"}));
    let found = causes("ReferenceStrategy", other, Some(strategy()));
    assert_eq!(found[0].0, "origin Invalid");
    assert!(found[0].1.ends_with("field is immutable"));
    assert_eq!(causes("ReferenceStrategy", strategy(), Some(strategy())), []);
}

#[test]
fn r10_r16_r17_all_faults_come_together_in_the_order_of_the_fields() {
    let bad = json!({
        "metadata": {"name": "c"},
        "classNames": ["a", "a", "B"],
        "references": [
            {"origin": {"resource": "Gateway"}, "target": {"group": "core"}, "purpose": "9"},
        ],
    });
    assert_eq!(
        faults("ClusterReferenceConsumer", bad),
        [
            "subject Required",
            "classNames[1] Duplicate",
            "classNames[2] Invalid",
            "references[0].origin.group Required",
            "references[0].origin.resource Invalid",
            "references[0].target.group Invalid",
            "references[0].target.resource Required",
            "references[0].purpose Invalid",
        ]
    );
}

#[test]
fn limits_of_lists_and_doubles_of_references() {
    let mut twice = consumer();
    let entry = twice["references"][0].clone();
    twice["references"].as_array_mut().unwrap().push(entry.clone());
    assert_eq!(faults("ClusterReferenceConsumer", twice), ["references[1] Duplicate"]);
    let classes: Vec<String> = (0..65).map(|n| format!("c{n}")).collect();
    let many = with(consumer(), "/classNames", json!(classes));
    assert_eq!(faults("ClusterReferenceConsumer", many), ["classNames TooMany"]);
    let many: Vec<Value> = (0..65)
        .map(|n| {
            let mut entry = entry.clone();
            entry["purpose"] = json!(format!("p{n}"));
            entry
        })
        .collect();
    let many = with(consumer(), "/references", json!(many));
    assert_eq!(faults("ClusterReferenceConsumer", many), ["references TooMany"]);
    let version = strategy()["versions"][0].clone();
    let many: Vec<Value> = (0..17)
        .map(|n| {
            let mut version = version.clone();
            version["version"] = json!(format!("v{n}"));
            version
        })
        .collect();
    let many = with(strategy(), "/versions", json!(many));
    assert_eq!(faults("ReferenceStrategy", many), ["versions TooMany"]);
    let long = "[".repeat(4097);
    let mut entry = strategy()["versions"][0]["references"][0].clone();
    entry.as_object_mut().unwrap().remove("path");
    entry["expression"] = json!(long);
    let long = with(strategy(), "/versions/0/references/0", entry);
    assert_eq!(faults("ReferenceStrategy", long), ["versions[0].references[0].expression TooLong"]);
}

#[test]
fn d10_a_star_among_classes_is_accepted_and_so_is_the_unset_class() {
    let classes = with(consumer(), "/classNames", json!(["*", "", "contour"]));
    assert_eq!(causes("ClusterReferenceConsumer", classes, None), []);
}

#[test]
fn r33_an_extra_bracket_is_told_with_the_path_as_it_is_read() {
    let path = "$.spec.refs[[?(@.group=='' && @.kind=='Secret')].name";
    let at = with(strategy(), "/versions/0/references/0/path", json!(path));
    assert_eq!(causes("ReferenceStrategy", at.clone(), None), []);
    let lines = told("ReferenceStrategy", at, None);
    assert_eq!(
        lines,
        ["versions[0].references[0].path: the path has an extra `[`; it is read as \
          `$.spec.refs[?(@.group=='' && @.kind=='Secret')].name`"]
    );
}

#[test]
fn r34_what_is_not_served_is_told() {
    let at = with(strategy(), "/versions/0/references/0/target/group", json!("other.io"));
    assert_eq!(
        told("ReferenceStrategy", at, None),
        [
            "versions[0].references[0].target: secrets.other.io is not served by this cluster; has no effect \
          until it is"
        ]
    );
}

#[test]
fn r35_a_grant_without_names_is_told_to_grant_nothing() {
    for names in [Value::Null, json!([])] {
        let none = with(grant(), "/target/names", names);
        assert_eq!(causes("ReferenceGrant", none.clone(), None), []);
        assert!(told("ReferenceGrant", none, None)[0].starts_with("target.names: "));
    }
}

#[test]
fn r36_what_an_update_revokes_is_told() {
    let changes = [
        (with(grant(), "/origin/namespace", json!("other")), "origin: "),
        (with(grant(), "/target/resource", json!("configmaps")), "target: "),
        (with(grant(), "/purpose", json!("backend")), "purpose: "),
        (with(grant(), "/target/names", json!(["b"])), "target.names: "),
    ];
    for (new, field) in changes {
        let lines = told("ReferenceGrant", new, Some(grant()));
        assert_eq!(
            lines,
            [format!(
                "{field}this update revokes secrets \"acme-tls\" for tls-serving from \
                 gateways.example.com in namespace \"prod\""
            )]
        );
    }
    let more = with(grant(), "/target/names", json!(["acme-tls", "b"]));
    assert!(told("ReferenceGrant", more, Some(grant())).is_empty());
}

#[test]
fn r37_a_strategy_of_which_no_version_is_served_is_inert() {
    let other = with(strategy(), "/versions/0/version", json!("v2"));
    let lines = told("ReferenceStrategy", other, None);
    assert!(
        lines[0].starts_with("versions: none is served, so the strategy is inert"),
        "{lines:?}"
    );
}

#[test]
fn r41_unequal_without_a_test_of_existence_is_told() {
    let path = ".spec.refs[?(@.kind != 'Secret')].name";
    let at = with(strategy(), "/versions/0/references/0/path", json!(path));
    let lines = told("ReferenceStrategy", at, None);
    assert!(lines[0].starts_with("versions[0].references[0].path: "), "{lines:?}");
    let tested = ".spec.refs[?(@.kind && @.kind != 'Secret')].name";
    let at = with(strategy(), "/versions/0/references/0/path", json!(tested));
    assert!(told("ReferenceStrategy", at, None).is_empty());
}

#[test]
fn r84_everybody_is_no_consumer_unless_it_is_development() {
    for name in ["system:anonymous", "system:unauthenticated", "system:authenticated"] {
        let kind = if name == "system:anonymous" { "User" } else { "Group" };
        let everybody = with(consumer(), "/subject", json!({"kind": kind, "name": name}));
        let found = faults("ClusterReferenceConsumer", everybody.clone());
        assert_eq!(found, ["subject.name Forbidden"], "{name}");
        assert!(told("ClusterReferenceConsumer", everybody, None)[0].starts_with("subject.name: "));
    }
}

#[test]
fn warnings_are_at_most_256_bytes_and_keep_whole_characters() {
    let cut = line("target", &"ä".repeat(300));
    assert!(cut.len() <= 256 && cut.starts_with("target: ä") && cut.ends_with('…'));
    assert_eq!(line("a", "b"), "a: b");
}

#[test]
fn triples_name_the_one_member_that_differs() {
    let (a, b) = (object(grant()), object(with(grant(), "/purpose", json!("backend"))));
    assert_eq!(
        TripleView::read(&a).only_difference(&TripleView::read(&b)),
        Some(("purpose", "backend"))
    );
    assert_eq!(TripleView::read(&a).only_difference(&TripleView::read(&a)), None);
    let c = object(with(with(grant(), "/purpose", json!("x")), "/origin/group", json!("")));
    assert_eq!(TripleView::read(&a).only_difference(&TripleView::read(&c)), None);
}

#[test]
fn d1_fields_are_called_origin_target_and_purpose_and_a_grant_has_a_namespace() {
    let old = json!({
        "metadata": {"name": "g", "namespace": "n"},
        "from": gateways(), "to": secrets(),
    });
    assert_eq!(
        faults("ReferenceGrant", old),
        ["origin Required", "target Required", "purpose Required"]
    );
    assert_eq!(causes("ReferenceGrant", grant(), None), []);
}
