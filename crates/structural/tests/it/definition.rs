//! What definitions are: R118, R126 to R128, R130, R132, R133.

use serde_json::{Value, json};
use tenure_machinery::{Cx, Errors, Object, ObjectExt, Rules};
use tenure_structural::crd::{self, CustomResourceDefinitionRules, ReservedNames};

use crate::{Causes, assert_causes, object};

const NOW: &str = "2024-01-01T00:00:00Z";
const RULES: CustomResourceDefinitionRules = CustomResourceDefinitionRules { engine: None };

fn version(name: &str, storage: bool) -> Value {
    json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema":
        {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}})
}

fn definition(plural: &str, kind: &str, versions: Value) -> Object {
    object(json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind}, "versions": versions}}))
}

fn cx() -> Cx {
    Cx { now: NOW.to_owned(), uid: "u".to_owned(), subresource: None, unlabelled: false }
}

fn prepared(mut crd: Object) -> Object {
    RULES.default(&mut crd);
    RULES.prepare_create(&mut crd, &cx());
    crd
}

fn assert_created(crd: Object, list: &[(&str, &str)]) {
    let crd = prepared(crd);
    let mut errors = Errors::new();
    RULES.validate(&crd, &mut errors);
    assert_causes(&errors, list, &Value::Object(crd));
}

fn changed(crd: &Object, path: &str, value: Value) -> Object {
    let mut whole = Value::Object(crd.clone());
    *whole.pointer_mut(path).expect(path) = value;
    object(whole)
}

fn widgets() -> Object {
    definition("widgets", "Widget", json!([version("v1", true)]))
}

#[test]
fn r118_names_and_conversion_are_defaulted() {
    let crd = prepared(widgets());
    assert_eq!(
        crd["spec"]["names"],
        json!({"kind": "Widget", "listKind": "WidgetList", "plural": "widgets", "singular": "widget"})
    );
    assert_eq!(crd["spec"]["conversion"], json!({"strategy": "None"}));
    assert_eq!(crd["status"], json!({"storedVersions": ["v1"]}));
}

#[test]
fn r118_names_groups_and_versions_are_sane() {
    let crd = widgets();
    let cases: [(Object, &[(&str, &str)]); 12] = [
        (crd.clone(), &[]),
        (
            changed(&crd, "/metadata/name", json!("other.example.com")),
            &[("metadata.name", "Invalid")],
        ),
        (
            changed(&crd, "/spec/group", json!("nodots")),
            &[("metadata.name", "Invalid"), ("spec.group", "Invalid")],
        ),
        (
            changed(&crd, "/spec/versions", json!([version("v1", true), version("v2", true)])),
            &[("spec.versions", "Invalid"), ("status.storedVersions", "Invalid")],
        ),
        (
            changed(&crd, "/spec/versions", json!([version("v1", false)])),
            &[("spec.versions", "Invalid"), ("status.storedVersions", "Invalid")],
        ),
        (
            changed(&crd, "/spec/versions", json!([version("v1", true), version("v1", false)])),
            &[("spec.versions", "Invalid")],
        ),
        (
            changed(&crd, "/spec/versions", json!([])),
            &[("spec.versions", "Invalid"), ("status.storedVersions", "Invalid")],
        ),
        (
            changed(&crd, "/spec/versions/0/schema", json!(null)),
            &[("spec.versions[0].schema.openAPIV3Schema", "Required")],
        ),
        (
            changed(&crd, "/spec/versions/0/name", json!("1")),
            &[("spec.versions[0].name", "Invalid")],
        ),
        (changed(&crd, "/spec/scope", json!("World")), &[("spec.scope", "NotSupported")]),
        (
            changed(&crd, "/spec/names/kind", json!("")),
            &[
                ("spec.names.singular", "Required"),
                ("spec.names.kind", "Required"),
                ("spec.names.listKind", "Required"),
            ],
        ),
        (
            changed(&crd, "/spec/names/kind", json!("Wid_get")),
            &[
                ("spec.names.singular", "Invalid"),
                ("spec.names.kind", "Invalid"),
                ("spec.names.listKind", "Invalid"),
            ],
        ),
    ];
    for (crd, list) in cases {
        assert_created(crd, list);
    }
}

#[test]
fn r118_unequal_versions_are_judged_one_by_one() {
    let mut versions = json!([version("v1", true), version("v2", false)]);
    versions[1]["schema"]["openAPIV3Schema"] = json!({"type": "string"});
    assert_created(
        definition("widgets", "Widget", versions),
        &[("spec.versions[1].schema.openAPIV3Schema.type", "Invalid")],
    );
    let mut versions = json!([version("v1", true), version("v2", false)]);
    for index in 0..2 {
        versions[index]["schema"]["openAPIV3Schema"] = json!({"type": "string"});
    }
    assert_created(
        definition("widgets", "Widget", versions),
        &[("spec.validation.openAPIV3Schema.type", "Invalid")],
    );
}

#[test]
fn r118_protected_groups_need_approval() {
    let mut crd = widgets();
    crd["metadata"]["name"] = json!("widgets.x.k8s.io");
    crd["spec"]["group"] = json!("x.k8s.io");
    let at = "metadata.annotations[api-approved.kubernetes.io]";
    assert_created(crd.clone(), &[(at, "Required")]);
    crd["metadata"]["annotations"] = json!({crd::APPROVAL: "nonsense"});
    assert_created(crd.clone(), &[(at, "Invalid")]);
    crd["metadata"]["annotations"] = json!({crd::APPROVAL: "unapproved, a test"});
    assert_created(crd.clone(), &[]);
    let mut crd = prepared(crd);
    crd::settle(&mut crd, &ReservedNames::default(), NOW);
    let last = crd.list_at(&["status", "conditions"]).last().expect("a condition");
    assert_eq!(last["reason"], json!("UnapprovedAnnotation"));
}

#[test]
fn r118_what_places_objects_cannot_change() {
    let mut old = prepared(widgets());
    crd::settle(&mut old, &ReservedNames::default(), NOW);
    let table: [(&str, Value, Causes<'_>); 5] = [
        ("/spec/scope", json!("Cluster"), &[("spec.scope", "Invalid")]),
        ("/spec/group", json!("b.c"), &[("spec.group", "Invalid")]),
        ("/spec/names/plural", json!("b"), &[("spec.names.plural", "Invalid")]),
        ("/spec/names/kind", json!("B"), &[("spec.names.kind", "Invalid")]),
        ("/spec/names/singular", json!("b"), &[]),
    ];
    for (path, value, list) in table {
        let new = changed(&old, path, value);
        let mut errors = Errors::new();
        RULES.validate_update(&new, &old, &mut errors);
        assert_causes(&errors, list, &json!(path));
    }
}

#[test]
fn r118_stored_versions_remember() {
    let both = json!([version("v1", true), version("v2", false)]);
    let old = prepared(definition("widgets", "Widget", both));
    let moved = json!([version("v1", false), version("v2", true)]);
    let mut new = changed(&old, "/spec/versions", moved);
    RULES.prepare_update(&mut new, &old, &cx());
    assert_eq!(new["status"]["storedVersions"], json!(["v1", "v2"]));
    let mut gone = changed(&new, "/spec/versions", json!([version("v2", true)]));
    let mut errors = Errors::new();
    RULES.prepare_update(&mut gone, &new, &cx());
    RULES.validate(&gone, &mut errors);
    assert_causes(&errors, &[("status.storedVersions[0]", "Invalid")], &json!("gone"));
}

#[test]
fn r118_conversion_has_an_address() {
    let crd = prepared(widgets());
    let webhook = |config: Value| {
        json!({"strategy": "Webhook", "webhook":
            {"conversionReviewVersions": ["v1"], "clientConfig": config}})
    };
    let at = "spec.conversion.webhookClientConfig";
    let table: [(Value, Vec<(String, &str)>); 7] = [
        (webhook(json!({"url": "https://a/b"})), vec![]),
        (
            webhook(json!({"service": {"name": "a", "port": 0}})),
            vec![
                (format!("{at}.service.name"), "Required"),
                (format!("{at}.service.port"), "Invalid"),
            ],
        ),
        (webhook(json!({"service": {"name": "a", "namespace": "b", "path": "/c"}})), vec![]),
        (webhook(json!({})), vec![(at.to_owned(), "Required")]),
        (webhook(json!({"url": "http://a"})), vec![(format!("{at}.url"), "Invalid")]),
        (
            json!({"strategy": "Webhook"}),
            vec![
                (at.to_owned(), "Required"),
                ("spec.conversion.conversionReviewVersions".to_owned(), "Required"),
            ],
        ),
        (
            json!({"strategy": "Magic"}),
            vec![("spec.conversion.strategy".to_owned(), "NotSupported")],
        ),
    ];
    for (conversion, list) in table {
        let list: Vec<(&str, &str)> = list.iter().map(|(f, r)| (f.as_str(), *r)).collect();
        assert_created(changed(&crd, "/spec/conversion", conversion), &list);
    }
}

#[test]
fn r123_unknown_formats_are_told() {
    let mut crd = widgets();
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = json!({"type": "object", "properties":
        {"a": {"type": "string", "format": "no-such-format"}, "b": {"type": "string", "format": "date"}}});
    assert_eq!(RULES.warnings(&crd, None), ["unrecognized format \"no-such-format\""]);
    assert!(RULES.warnings(&crd, Some(&crd)).is_empty());
}

#[test]
fn r126_paths_of_scale_stay_in_their_halves() {
    let mut crd = widgets();
    crd["spec"]["versions"][0]["subresources"] = json!({"scale": {"specReplicasPath": ".status.a",
        "statusReplicasPath": "status.b", "labelSelectorPath": ".metadata.c"}});
    assert_created(
        crd,
        &[
            ("spec.subresources.scale.specReplicasPath", "Invalid"),
            ("spec.subresources.scale.statusReplicasPath", "Invalid"),
            ("spec.subresources.scale.labelSelectorPath", "Invalid"),
        ],
    );
}

#[test]
fn r127_columns_are_complete() {
    let mut crd = widgets();
    crd["spec"]["versions"][0]["additionalPrinterColumns"] = json!([
        {"name": "A", "type": "string", "jsonPath": ".spec.a"},
        {"type": "text", "format": "x"}]);
    assert_created(
        crd,
        &[
            ("spec.additionalPrinterColumns[1].name", "Required"),
            ("spec.additionalPrinterColumns[1].type", "Invalid"),
            ("spec.additionalPrinterColumns[1].format", "Invalid"),
            ("spec.additionalPrinterColumns[1].JSONPath", "Required"),
        ],
    );
}

#[test]
fn r128_selectable_fields_are_scalars_of_the_schema() {
    let mut crd = widgets();
    let names: Vec<String> = (0..9).map(|index| format!("f{index}")).collect();
    let properties: Object =
        names.iter().map(|name| (name.clone(), json!({"type": "string"}))).collect();
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = json!({"type": "object", "properties":
        {"spec": {"type": "object", "properties": properties},
         "o": {"type": "object", "properties": {}}}});
    let mut fields: Vec<Value> =
        names.iter().take(8).map(|name| json!({"jsonPath": format!(".spec.{name}")})).collect();
    crd["spec"]["versions"][0]["selectableFields"] = json!(fields);
    assert_created(crd.clone(), &[]);
    fields.push(json!({"jsonPath": ".spec.f8"}));
    crd["spec"]["versions"][0]["selectableFields"] = json!(fields);
    assert_created(crd.clone(), &[("spec.selectableFields", "TooMany")]);
    crd["spec"]["versions"][0]["selectableFields"] = json!([{"jsonPath": ".spec.f0"},
        {"jsonPath": ".spec.f0"}, {"jsonPath": ".spec.no"}, {"jsonPath": ".o"}, {}]);
    assert_created(
        crd,
        &[
            ("spec.selectableFields[1].jsonPath", "Duplicate"),
            ("spec.selectableFields[2].jsonPath", "Invalid"),
            ("spec.selectableFields[3].jsonPath", "Invalid"),
            ("spec.selectableFields[4].jsonPath", "Required"),
        ],
    );
}

fn shown(crd: &Object) -> Value {
    let mut status = crd["status"].clone();
    for condition in status["conditions"].as_array_mut().expect("conditions") {
        condition.as_object_mut().expect("a condition").remove("message");
    }
    status
}

#[test]
fn r130_free_names_are_accepted_and_established() {
    let mut crd = prepared(widgets());
    assert!(crd::settle(&mut crd, &ReservedNames::default(), NOW));
    assert_eq!(
        shown(&crd),
        json!({"acceptedNames": {"kind": "Widget", "listKind": "WidgetList", "plural": "widgets",
                "singular": "widget"},
            "conditions": [
                {"lastTransitionTime": NOW, "reason": "NoConflicts", "status": "True",
                    "type": "NamesAccepted"},
                {"lastTransitionTime": NOW, "reason": "InitialNamesAccepted", "status": "True",
                    "type": "Established"}],
            "storedVersions": ["v1"]})
    );
    assert!(!crd::settle(&mut crd, &ReservedNames::default(), "2025-01-01T00:00:00Z"));
}

#[test]
fn r130_taken_names_are_not() {
    let mut first = prepared(widgets());
    crd::settle(&mut first, &ReservedNames::default(), NOW);
    let mut second = prepared(definition("gadgets", "Widget", json!([version("v1", true)])));
    let held = ReservedNames::held([&first], "example.com", "gadgets.example.com");
    crd::settle(&mut second, &held, NOW);
    assert_eq!(
        shown(&second),
        json!({"acceptedNames": {"kind": "", "plural": "gadgets"},
            "conditions": [
                {"lastTransitionTime": NOW, "reason": "ListKindConflict", "status": "False",
                    "type": "NamesAccepted"},
                {"lastTransitionTime": NOW, "reason": "NotAccepted", "status": "False",
                    "type": "Established"}],
            "storedVersions": ["v1"]})
    );
    assert!(crd::kinds(&second, None).is_empty());
    crd::settle(&mut second, &ReservedNames::default(), "2025-01-01T00:00:00Z");
    assert!(crd::is_established(&second));
    assert_eq!(second["status"]["conditions"][0]["lastTransitionTime"], "2025-01-01T00:00:00Z");
}

/// A certificate, as base64 of PEM.
const AUTHORITY: &str = include_str!("authority.txt");

fn converted(bundle: &str) -> Object {
    let mut crd = widgets();
    crd["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
        "conversionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://a.example/", "caBundle": bundle}}});
    prepared(crd)
}

#[test]
fn r129_a_bundle_that_cannot_be_read_is_not_established() {
    let established = |bundle: &str| {
        let mut crd = converted(bundle);
        crd::settle(&mut crd, &ReservedNames::default(), NOW);
        let condition = crd["status"]["conditions"][1].clone();
        assert_eq!(crd::kinds(&crd, None).is_empty(), condition["status"] == "False");
        (condition["status"] == "True", condition["reason"].as_str().unwrap().to_owned())
    };
    let good = (true, "InitialNamesAccepted".to_owned());
    let bad = (false, "InvalidCABundle".to_owned());
    assert_eq!(established(""), good);
    assert_eq!(established(AUTHORITY.trim()), good);
    // A blank, text that is no PEM, a block of another kind, a certificate that is none, and no base64.
    for bundle in [
        "Cg==",
        "bm9uZQ==",
        "LS0tLS1CRUdJTiBYLS0tLS0KWVE9PQotLS0tLUVORCBYLS0tLS0K",
        "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCllRPT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=",
        "?",
    ] {
        assert_eq!(established(bundle), bad, "{bundle}");
    }
}

#[test]
fn r129_a_bundle_that_is_served_with_stays_readable() {
    let causes = |old: &str, new: &str| {
        let mut old = converted(old);
        crd::settle(&mut old, &ReservedNames::default(), NOW);
        let mut crd = converted(new);
        crd.insert("status".to_owned(), old["status"].clone());
        let mut errors = Errors::new();
        RULES.validate_update(&crd, &old, &mut errors);
        errors.causes().iter().map(|cause| cause.field.clone()).collect::<Vec<_>>()
    };
    let at = ["spec.conversion.webhookClientConfig.caBundle"];
    assert_eq!(causes(AUTHORITY.trim(), "Cg=="), at);
    assert_eq!(causes("", "Cg=="), at);
    assert!(causes(AUTHORITY.trim(), AUTHORITY.trim()).is_empty());
    assert!(causes("Cg==", "bm9uZQ==").is_empty(), "what is not established may stay wrong");
}

#[test]
fn r130_established_definitions_stay_so() {
    let mut crd = prepared(widgets());
    crd::settle(&mut crd, &ReservedNames::default(), NOW);
    crd["spec"]["names"]["shortNames"] = json!(["w"]);
    let mut held = ReservedNames::default();
    held.resources.insert("w".to_owned());
    crd::settle(&mut crd, &held, NOW);
    assert!(crd::is_established(&crd));
    assert_eq!(crd["status"]["conditions"][0]["reason"], "ShortNamesConflict");
    assert_eq!(crd["status"]["acceptedNames"].get("shortNames"), None);
}

#[test]
fn r132_a_definition_waits_for_its_instances() {
    let mut crd = prepared(widgets());
    crd::settle(&mut crd, &ReservedNames::default(), NOW);
    crd::begin_deletion(&mut crd, NOW);
    crd::begin_deletion(&mut crd, NOW);
    assert_eq!(crd["metadata"]["finalizers"], json!([crd::FINALIZER]));
    assert!(crd::is_terminating(&crd) && crd::has_finalizer(&crd));
}

#[test]
fn r133_versions_make_rows() {
    let mut versions = json!([version("v1", true), version("v2", false), version("v3", false)]);
    versions[0]["subresources"] = json!({"status": {}, "scale": {"specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.sel"}});
    versions[0]["selectableFields"] = json!([{"jsonPath": ".spec.color"}]);
    versions[1]["deprecated"] = json!(true);
    versions[2]["served"] = json!(false);
    let mut crd = prepared(definition("widgets", "Widget", versions));
    crd::settle(&mut crd, &ReservedNames::default(), NOW);
    let rows = crd::kinds(&crd, None);
    assert_eq!(rows.len(), 2);
    assert_eq!((rows[0].plural.as_ref(), rows[0].kind.as_ref()), ("widgets", "Widget"));
    assert_eq!(rows[0].storage, "example.com/widgets");
    assert_eq!(rows[0].fields[0].label, "spec.color");
    let parts: Vec<_> = rows[0].subresources.iter().map(|part| part.name).collect();
    assert_eq!(parts, ["status", "scale"]);
    assert!(rows[0].namespaced && rows[0].deprecated.is_none());
    assert_eq!(rows[1].deprecated.as_deref(), Some("example.com/v2 Widget is deprecated"));
    let all = crd::versions(&crd);
    let scale = all[0].scale.as_ref().expect("a scale");
    assert_eq!(scale.label_selector.as_deref(), Some(&["status".to_owned(), "sel".to_owned()][..]));
    assert!(!all[2].served);
}

#[test]
fn r126_counts_of_replicas_are_in_range() {
    let mut versions = json!([version("v1", true)]);
    versions[0]["subresources"] = json!({"status": {}, "scale": {"specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas"}});
    let mut crd = prepared(definition("widgets", "Widget", versions));
    crd::settle(&mut crd, &ReservedNames::default(), NOW);
    let row = crd::kinds(&crd, None).remove(0);
    let mut widget = object(json!({"apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": "w"}, "spec": {"replicas": -1}, "status": {"replicas": 3}}));
    let mut errors = Errors::new();
    row.rules.validate(&widget, &mut errors);
    assert_causes(&errors, &[(".spec.replicas", "Invalid")], &json!("replicas"));
    row.rules.prepare_create(&mut widget, &cx());
    assert_eq!(widget.get("status"), None);
    widget["kind"] = json!("Gadget");
    let mut errors = Errors::new();
    row.rules.validate(&widget, &mut errors);
    assert_causes(&errors, &[("kind", "Invalid")], &json!("kind"));
}
