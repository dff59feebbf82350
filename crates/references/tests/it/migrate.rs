//! From grants of the Gateway API to grants of this one. Rules of spec/referential-authorization.md.

use serde_json::{Value, json};
use tenure_references::migrate::{
    Converted, GatewayGrants, Honoured, InUse, MigrationContext, MigrationPlan, NAMES_MAX,
    RemovalScope, SourceGrant, Weight, convert, convert_all, is_source, verify,
};
use tenure_references::{
    Grant, Obj, ObjectName, RefIndex, RefQuery, Reference, Resource, ServedType, Strategy,
};

const GATEWAY: &str = "gateway.networking.k8s.io";

fn strategy(name: &str, paths: &[(&str, &str, &str)]) -> Strategy {
    let references: Vec<Value> = paths
        .iter()
        .map(|(path, resource, purpose)| {
            json!({ "path": path, "target": { "group": "", "resource": resource }, "purpose": purpose })
        })
        .collect();
    let object = json!({
        "metadata": { "name": name },
        "origin": { "group": GATEWAY, "resource": name },
        "versions": [{ "version": "v1", "references": references }],
    });
    Strategy::from_object(object.as_object().unwrap()).unwrap()
}

fn strategies() -> Vec<Strategy> {
    vec![
        strategy("gateways", &[(".spec.refs[*].name", "secrets", "tls-serving")]),
        strategy("httproutes", &[(".spec.backendRefs[*].name", "services", "backend")]),
    ]
}

fn source(from: &[Value], to: &[Value]) -> Value {
    json!({
        "apiVersion": format!("{GATEWAY}/v1beta1"),
        "kind": "ReferenceGrant",
        "metadata": { "namespace": "prod-tls", "name": "old" },
        "spec": { "from": from, "to": to },
    })
}

fn from(kind: &str, namespace: &str) -> Value {
    json!({ "group": GATEWAY, "kind": kind, "namespace": namespace })
}

fn to(kind: &str, name: &str) -> Value {
    match name {
        "" => json!({ "group": "", "kind": kind }),
        name => json!({ "group": "", "kind": kind, "name": name }),
    }
}

fn facts(strategies: &[Strategy]) -> MigrationContext<'_> {
    MigrationContext { strategies, ..MigrationContext::default() }
}

fn names(converted: &Converted) -> Vec<String> {
    let name = |grant: &Value| grant["metadata"]["name"].as_str().unwrap().to_owned();
    converted.grants().iter().map(name).collect()
}

fn codes(converted: &Converted) -> Vec<(Weight, &str)> {
    converted.notes.iter().map(|note| (note.weight, note.code)).collect()
}

fn reference(origin: (&str, &str), target: (&str, &str), purpose: &str) -> Reference {
    Reference {
        origin: ObjectName {
            resource: Resource::new(GATEWAY, origin.0),
            namespace: "prod".into(),
            name: "web".into(),
        },
        target: ObjectName {
            resource: Resource::new("", target.0),
            namespace: origin.1.into(),
            name: target.1.into(),
        },
        purpose: purpose.into(),
    }
}

#[test]
fn m1_both_spellings_are_read_and_never_both_at_once() {
    let strategies = strategies();
    let plain = source(&[from("Gateway", "prod")], &[to("Secret", "acme")]);
    assert!(is_source(&plain));
    let expected = json!({
        "apiVersion": "reference.authorization.k8s.io/v1alpha1",
        "kind": "ReferenceGrant",
        "metadata": { "name": "old-gateways-secrets", "namespace": "prod-tls" },
        "origin": { "group": GATEWAY, "resource": "gateways", "namespace": "prod" },
        "target": { "group": "", "resource": "secrets", "names": ["acme"] },
        "purpose": "tls-serving",
    });
    assert_eq!(convert(&plain, &facts(&strategies)).grants(), std::slice::from_ref(&expected));
    // The examples of the KEP: other words, and a group left out.
    let mut words = plain.clone();
    words["spec"] = json!({
        "origin": [from("Gateway", "prod")],
        "target": [{ "kind": "Secret", "name": "acme" }],
    });
    assert_eq!(convert(&words, &facts(&strategies)).grants(), [expected]);
    words["spec"]["to"] = json!([to("Secret", "acme")]);
    let both = convert(&words, &facts(&strategies));
    assert!(both.grants().is_empty());
    assert_eq!(codes(&both), [(Weight::Error, "unreadable")]);
    for other in [json!({ "apiVersion": "v1", "kind": "Secret" }), expected_new()] {
        assert!(!is_source(&other));
        assert!(!convert(&other, &facts(&strategies)).is_whole());
    }
}

/// A grant of this API is no source.
fn expected_new() -> Value {
    json!({ "apiVersion": "reference.authorization.k8s.io/v1alpha1", "kind": "ReferenceGrant" })
}

#[test]
fn m2_one_grant_for_each_origin_target_and_purpose_and_sixteen_names_in_each() {
    let strategies = [
        strategy(
            "gateways",
            &[
                (".spec.a[*].name", "secrets", "tls-serving"),
                (".spec.b[*].name", "secrets", "tls-client-validation"),
                (".spec.c[*].name", "configmaps", "parameters"),
            ],
        ),
        strategy("httproutes", &[(".spec.backendRefs[*].name", "services", "backend")]),
    ];
    let both = source(
        &[from("Gateway", "prod"), from("HTTPRoute", "prod")],
        &[to("ConfigMap", "b"), to("ConfigMap", "a"), to("ConfigMap", "b")],
    );
    let made = convert(&both, &facts(&strategies[..1]));
    assert_eq!(names(&made), ["old-gateways-configmaps"]);
    assert_eq!(made.grants()[0]["target"]["names"], json!(["a", "b"]));
    // Several purposes: their names say which is which.
    let made =
        convert(&source(&[from("Gateway", "prod")], &[to("Secret", "a")]), &facts(&strategies));
    assert_eq!(
        names(&made),
        ["old-gateways-secrets-tls-client-validation", "old-gateways-secrets-tls-serving",]
    );
    // More than sixteen names.
    let many: Vec<Value> = (0..33).map(|n| to("ConfigMap", &format!("n{n:02}"))).collect();
    let made = convert(&source(&[from("Gateway", "prod")], &many), &facts(&strategies));
    let numbered = [1, 2, 3].map(|n| format!("old-gateways-configmaps-{n}"));
    assert_eq!(names(&made), numbered);
    let size = |grant: &Value| grant["target"]["names"].as_array().unwrap().len();
    let sizes: Vec<usize> = made.grants().iter().map(size).collect();
    assert_eq!(sizes, [NAMES_MAX, NAMES_MAX, 1]);
    // Two namespaces of one kind: two grants, two names.
    let two = [from("Gateway", "prod"), from("Gateway", "stage")];
    let made = convert(&source(&two, &[to("ConfigMap", "a")]), &facts(&strategies));
    assert_eq!(names(&made), ["old-gateways-configmaps-prod", "old-gateways-configmaps-stage"]);
    // A name that would be too long ends in a hash, and stays another than its neighbour.
    let long = |end: &str| {
        let mut object = source(&[from("Gateway", "prod")], &[to("ConfigMap", "a")]);
        object["metadata"]["name"] = format!("{}{end}", "n".repeat(250)).into();
        names(&convert(&object, &facts(&strategies)))[0].to_owned()
    };
    assert_eq!(long("a").len(), 253);
    assert_ne!(long("a"), long("b"));
    // Two sources whose grants would have one name: the second takes the next free number.
    let mut other = source(&[from("Gateway", "a-gateways-configmaps")], &[to("ConfigMap", "a")]);
    other["spec"]["from"].as_array_mut().unwrap().push(from("Gateway", "b"));
    let mut same = source(&[from("Gateway", "prod")], &[to("ConfigMap", "a")]);
    same["metadata"]["name"] = "old-gateways-configmaps-a".into();
    let all = convert_all(&[other, same], &facts(&strategies));
    let plan = MigrationPlan::new(&all, [], RemovalScope::Sources);
    let created = plan.steps.iter().map(|step| step.grant()["metadata"]["name"].as_str().unwrap());
    assert_eq!(
        created.collect::<Vec<_>>(),
        [
            "old-gateways-configmaps-a-gateways-configmaps",
            "old-gateways-configmaps-b",
            "old-gateways-configmaps-a-gateways-configmaps-1",
        ]
    );
    // An origin that is named twice is granted to once.
    let twice = [from("Gateway", "prod"), from("Gateway", "prod")];
    let made = convert(&source(&twice, &[to("ConfigMap", "a")]), &facts(&strategies));
    assert_eq!(names(&made), ["old-gateways-configmaps"]);
}

#[test]
fn m3_kinds_are_looked_up_and_never_guessed() {
    let strategies = strategies();
    let unknown = source(&[from("Gateway", "prod")], &[to("Widget", "a")]);
    let made = convert(&unknown, &facts(&strategies));
    assert!(made.grants().is_empty());
    assert_eq!(codes(&made), [(Weight::Error, "unknown-kind")]);
    assert_eq!(made.notes[0].field, "spec.to[0]");
    // What a cluster serves is asked first.
    let served = [ServedType {
        resource: Resource::new("", "secrets"),
        kind: "Widget".into(),
        namespaced: true,
        versions: vec!["v1".into()],
    }];
    let made = convert(&unknown, &MigrationContext { served: &served, ..facts(&strategies) });
    assert_eq!(names(&made), ["old-gateways-secrets"]);
    let nobody = source(&[from("Nothing", "prod")], &[to("Secret", "a")]);
    assert_eq!(convert(&nobody, &facts(&strategies)).notes[0].field, "spec.from[0]");
}

#[test]
fn m4_what_cannot_be_converted_is_said() {
    let strategies = strategies();
    let all_secrets = source(&[from("Gateway", "prod")], &[to("Secret", "")]);
    // Every name: nobody looked which are in use.
    let made = convert(&all_secrets, &facts(&strategies));
    assert!(made.grants().is_empty());
    assert_eq!(codes(&made), [(Weight::Error, "wildcard")]);
    // Every name: those in use from this namespace, for this purpose.
    let mut elsewhere = reference(("gateways", "prod-tls"), ("secrets", "not-mine"), "tls-serving");
    elsewhere.origin.namespace = "stage".into();
    let references = [
        reference(("gateways", "prod-tls"), ("secrets", "acme"), "tls-serving"),
        reference(("gateways", "prod-tls"), ("secrets", "beta"), "tls-serving"),
        reference(("gateways", "other"), ("secrets", "far"), "tls-serving"),
        reference(("gateways", "prod-tls"), ("secrets", "else"), "another"),
        elsewhere,
    ];
    let in_use = InUse::from_iter(&references);
    let looked = MigrationContext { in_use: Some(&in_use), ..facts(&strategies) };
    let made = convert(&all_secrets, &looked);
    assert_eq!(made.grants()[0]["target"]["names"], json!(["acme", "beta"]));
    assert_eq!(codes(&made), [(Weight::Warning, "snapshot-of-wildcard")]);
    // No strategy knows what such references are for: an error, with one to begin with.
    let made =
        convert(&source(&[from("TCPRoute", "prod")], &[to("Secret", "a")]), &facts(&strategies));
    assert_eq!(codes(&made), [(Weight::Error, "no-strategy")]);
    assert!(made.notes[0].text.contains("resource: tcproutes}"), "{}", made.notes[0].text);
    // A bundled one knows, and is not in force.
    let bundled = MigrationContext { bundled: &strategies, ..MigrationContext::default() };
    let made = convert(&source(&[from("Gateway", "prod")], &[to("Secret", "a")]), &bundled);
    assert_eq!(names(&made), ["old-gateways-secrets"]);
    assert_eq!(codes(&made), [(Weight::Warning, "inert")]);
    // Services: reading one is not sending traffic to it.
    let made = convert(
        &source(&[from("HTTPRoute", "prod")], &[to("Service", "web")]),
        &facts(&strategies),
    );
    assert_eq!(made.grants()[0]["purpose"], "backend");
    assert_eq!(codes(&made), [(Weight::Note, "data-path")]);
    // Origins without a namespace, and one is named.
    let served = [ServedType {
        resource: Resource::new(GATEWAY, "gatewayclasses"),
        kind: "GatewayClass".into(),
        namespaced: false,
        versions: vec!["v1".into()],
    }];
    let made = convert(
        &source(&[from("GatewayClass", "prod")], &[to("Secret", "a")]),
        &MigrationContext { served: &served, ..facts(&strategies) },
    );
    assert_eq!(codes(&made), [(Weight::Error, "cluster-scoped-origin")]);
}

fn grants(converted: &Converted) -> Vec<Grant> {
    let read = |grant: &Value| Grant::from_object(grant.as_object().unwrap()).unwrap();
    converted.grants().iter().map(read).collect()
}

#[test]
fn m5_old_and_new_verdicts_are_compared_reference_by_reference() {
    let strategies = strategies();
    let references = [
        reference(("gateways", "prod-tls"), ("secrets", "acme"), "tls-serving"),
        reference(("gateways", "prod-tls"), ("secrets", "late"), "tls-serving"),
        reference(("gateways", "prod"), ("secrets", "local"), "tls-serving"),
        reference(("gateways", "other"), ("secrets", "never"), "tls-serving"),
    ];
    let object = source(&[from("Gateway", "prod")], &[to("Secret", "")]);
    let sources = [SourceGrant::read(&object).unwrap()];
    // Made when everything was seen: nothing is lost or won.
    let in_use = InUse::from_iter(&references);
    let looked = MigrationContext { in_use: Some(&in_use), ..facts(&strategies) };
    let made = convert(&object, &looked);
    assert!(verify(&sources, &grants(&made), &references, &[]).is_empty());
    // Made before one came: it is lost.
    let one = InUse::from_iter(&references[..1]);
    let early = MigrationContext { in_use: Some(&one), ..facts(&strategies) };
    let turned = verify(&sources, &grants(&convert(&object, &early)), &references, &[]);
    assert_eq!(turned.len(), 1);
    assert!(turned[0].lost && turned[0].reference.target.name == "late");
    // A grant that nobody had before.
    let turned = verify(&[], &grants(&made), &references, &[]);
    assert_eq!(turned.iter().map(|turned| turned.lost).collect::<Vec<_>>(), [false, false]);
}

#[test]
fn m6_old_grants_can_be_honoured_in_checks_and_never_let_anybody_read() {
    let served: Vec<ServedType> = [(GATEWAY, "gateways", "Gateway"), ("", "secrets", "Secret")]
        .into_iter()
        .map(|(group, resource, kind)| ServedType {
            resource: Resource::new(group, resource),
            kind: kind.to_owned(),
            namespaced: true,
            versions: vec!["v1".to_owned()],
        })
        .collect();
    let mut index = RefIndex::new();
    index.serve(served.clone());
    index.put_strategy(strategies().remove(0));
    index.put_origin(
        &Resource::new(GATEWAY, "gateways"),
        &json!({
            "apiVersion": format!("{GATEWAY}/v1"),
            "metadata": { "namespace": "prod", "name": "web" },
            "spec": { "refs": [{ "name": "acme", "namespace": "prod-tls" }] },
        }),
    );
    index.mark_all_synced();
    let query = |name: &'static str| RefQuery {
        origin: Obj { group: GATEWAY, resource: "gateways", namespace: "prod", name: "web" },
        target: Obj { group: "", resource: "secrets", namespace: "prod-tls", name },
        purpose: "tls-serving",
        class: None,
        subject: None,
    };
    let mut old = GatewayGrants::new(served);
    assert!(!old.check(&index, &query("acme")).is_allowed());
    let object = source(&[from("Gateway", "prod")], &[to("Secret", "")]);
    old.put(&object);
    assert_eq!(old.check(&index, &query("acme")), Honoured::Old("prod-tls", "old"));
    // Any name, but only where a reference is.
    assert!(!old.check(&index, &query("other")).is_allowed());
    assert!(!index.check(&query("acme")).is_allowed());
    old.remove(&object);
    assert!(!old.check(&index, &query("acme")).is_allowed());
}
