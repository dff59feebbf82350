//! Custom kinds: defined, discovered, explained, shown, checked, written, removed.

use std::io::{BufRead as _, BufReader};

use serde_json::json;

use super::harbour::{BOATS, boat};
use super::runner::rows;
use super::{Documented, Kubectl};

const CREATE: [&str; 3] = ["create", "--filename", "-"];
const APPLY: [&str; 3] = ["apply", "--filename", "-"];
const PLACE: Documented<'_> = Documented { kind: "Boat", group: "harbour.example", version: "v1" };

#[test]
fn a_custom_kind_is_listed_with_its_names() {
    let kubectl = Kubectl::harbour();
    let wide = kubectl.ok(&[
        "api-resources",
        "--api-group=harbour.example",
        "--output=wide",
        "--no-headers",
    ]);
    let found = &rows(&wide)[0];
    assert_eq!(found[..5], ["boats", "bt", "harbour.example/v1", "true", "Boat"]);
    let verbs = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
    kubectl.ends_with_verbs(wide.trim_end(), &verbs, "fleet");
    assert!(kubectl.ok(&["api-versions"]).lines().any(|line| line == "harbour.example/v1"));
    let said = kubectl.feed(&CREATE, &boat("anna", "port: kiel"));
    assert_eq!(said, "boat.harbour.example/anna created\n");
    // Every name of the kind leads to it.
    for name in [
        "bt",
        "boat",
        "boats",
        "Boat",
        "boats.harbour.example",
        "boats.v1.harbour.example",
        "fleet",
    ] {
        let said = kubectl.ok(&["get", name, "--output", "name"]);
        assert_eq!(said, "boat.harbour.example/anna\n", "{name}");
    }
    let definitions = kubectl.ok(&["get", "crd", "boats.harbour.example"]);
    assert_eq!(rows(&definitions)[0], ["NAME", "CREATED", "AT"]);
}

#[test]
fn tables_have_the_columns_of_the_definition() {
    let kubectl = Kubectl::harbour();
    kubectl.feed(&CREATE, &boat("anna", r#"port: kiel, crew: 3, built: "2001-02-03T04:05:06Z""#));
    kubectl.feed(&CREATE, &boat("berta", r#"port: riga, built: "2199-01-01T00:00:00Z""#));
    kubectl.feed(&CREATE, &boat("clara", "port: oslo"));
    let table = kubectl.ok(&["get", "boats"]);
    let found = rows(&table);
    assert_eq!(found[0], ["NAME", "PORT", "CREW", "BUILT", "AGE"]);
    assert_eq!(found[1][..3], ["anna", "kiel", "3"]);
    // A date is shown as the time since, in years when it is long ago; a time to come has none.
    assert!(found[1][3].contains('y') && found[1][4].ends_with('s'), "{table}");
    assert_eq!(found[2][..4], ["berta", "riga", "1", "<invalid>"]);
    // What is not there is left blank.
    assert_eq!((found[3].len(), &found[3][..3]), (4, &["clara", "oslo", "1"][..]), "{table}");
    kubectl.write_status(&BOATS, "anna", &json!({}), &json!({ "phase": "Afloat" }));
    let wide = kubectl.ok(&["get", "boats", "--output", "wide", "--sort-by=.spec.port"]);
    let found = rows(&wide);
    assert_eq!(found[0], ["NAME", "PORT", "CREW", "BUILT", "PHASE", "AGE"]);
    assert_eq!((found[1][0], found[1][4]), ("anna", "Afloat"), "{wide}");
    let columns = "custom-columns=NAME:.metadata.name,CREW:.spec.crew";
    let own = kubectl.ok(&["get", "boats", "anna", "--output", columns]);
    assert_eq!(rows(&own), [["NAME", "CREW"], ["anna", "3"]]);
}

#[test]
fn explain_tells_the_schema() {
    let kubectl = Kubectl::harbour();
    let text = kubectl.explained("boats", &PLACE);
    assert!(text.contains("Boat is a thing that floats."), "{text}");
    for line in ["apiVersion\t<string>", "spec\t<Object>", "status\t<Object>"] {
        assert!(text.contains(line), "`{line}` is not in\n{text}");
    }
    let spec = kubectl.explained("bt.spec", &PLACE);
    for line in [
        &kubectl.field_line("spec", "Object"),
        "What the boat should be.",
        "port\t<string> -required-",
        "crew\t<integer>",
        "cargo\t<[]Object>",
    ] {
        assert!(spec.contains(line), "`{line}` is not in\n{spec}");
    }
    let port = kubectl.explained("boat.spec.port", &PLACE);
    let line = kubectl.field_line("port", "string");
    assert!(port.contains(&line) && port.contains("Where it lies."), "{port}");
    let tons = kubectl.explained("boat.spec.cargo.tons", &PLACE);
    assert!(tons.contains(&kubectl.field_line("tons", "integer")), "{tons}");
    for arguments in [
        ["explain", "boats", "--recursive"],
        ["explain", "boats", "--api-version=harbour.example/v1"],
    ] {
        let text = kubectl.ok(&arguments);
        assert!(text.contains("Boat is a thing that floats."), "{text}");
    }
    let all = kubectl.ok(&["explain", "boats", "--recursive"]);
    // The fields of the metadata and those of the elements are told as well.
    for line in ["ownerReferences\t<[]", "cargo\t<[]Object>", "tons\t<integer>", "phase\t<string>"]
    {
        assert!(all.contains(line), "`{line}` is not in\n{all}");
    }
    let said = kubectl.fails(&["explain", "boats.spec.mast"]);
    assert!(said.contains("field \"mast\" does not exist"), "{said}");
}

#[test]
fn what_the_schema_forbids_is_told() {
    let kubectl = Kubectl::harbour();
    let refused = |spec: &str| kubectl.feed_until(&CREATE, &boat("anna", spec), 1).1;
    let told = refused("port: kiel, crew: 9");
    assert!(told.starts_with("The Boat \"anna\" is invalid: spec: Invalid value: "), "{told}");
    assert!(told.ends_with(": the crew must fit\n"), "{told}");
    let told = refused("port: k");
    assert!(told.contains("The Boat \"anna\" is invalid: "), "{told}");
    assert!(told.contains("spec.port: ") && told.contains("2"), "{told}");
    let told = refused("port: kiel, berths: 101");
    assert!(told.contains("spec.berths: Invalid value: 101: "), "{told}");
    let told = refused("port: 7");
    assert!(told.contains("string"), "{told}");
    kubectl.refuses_unknown(&boat("anna", "port: kiel, mast: 2"), "Boat.spec", "mast");
    assert_eq!(kubectl.ok(&["get", "boats", "--output", "name"]), "");
    let (done, warned) = kubectl.create_and_warn(&boat("anna", "port: kiel, mast: 2"));
    assert_eq!(done, "boat.harbour.example/anna created\n");
    assert!(warned.contains("Warning: unknown field \"spec.mast\""), "{warned}");
    assert_eq!(kubectl.value("bt/anna", ".spec"), r#"{"berths":8,"crew":1,"port":"kiel"}"#);
    // A patch is checked as well, and changes nothing.
    let said =
        kubectl.fails(&["patch", "bt", "anna", "--type=merge", "--patch={\"spec\":{\"crew\":9}}"]);
    assert!(said.contains("the crew must fit"), "{said}");
    assert_eq!(kubectl.value("bt/anna", ".spec.crew"), "1");
}

#[test]
fn status_and_scale_are_apart() {
    let kubectl = Kubectl::harbour();
    kubectl.feed(&CREATE, &boat("anna", "port: kiel, crew: 2"));
    let status = json!({ "phase": "Afloat", "aboard": 2, "selector": "boat=anna" });
    kubectl.write_status(&BOATS, "anna", &json!({ "port": "riga" }), &status);
    assert_eq!(kubectl.value("bt/anna", ".spec.port"), "kiel");
    assert_eq!(kubectl.value("bt/anna", ".metadata.generation"), "1");
    kubectl.wait_for_value("boat.harbour.example/anna", ".status.phase", "Afloat");
    // A plain write does not touch the status.
    let patch = r#"{"spec":{"port":"oslo"},"status":{"phase":"Sunk"}}"#;
    kubectl.ok(&["patch", "bt", "anna", "--type=merge", "--patch", patch]);
    assert_eq!(kubectl.value("bt/anna", ".status.phase"), "Afloat");
    assert_eq!(kubectl.value("bt/anna", ".metadata.generation"), "2");

    let said = kubectl.ok(&["scale", "bt/anna", "--replicas=4"]);
    assert_eq!(said, "boat.harbour.example/anna scaled\n");
    assert_eq!(kubectl.value("bt/anna", ".spec.crew"), "4");
    let path = format!("{}/anna/scale", BOATS.path);
    let scale: serde_json::Value =
        serde_json::from_str(&kubectl.ok(&["get", "--raw", &path])).unwrap();
    assert_eq!((&scale["apiVersion"], &scale["kind"]), (&json!("autoscaling/v1"), &json!("Scale")));
    assert_eq!(scale["spec"], json!({ "replicas": 4 }));
    assert_eq!(scale["status"], json!({ "replicas": 2, "selector": "boat=anna" }));
    let said = kubectl.fails(&["scale", "bt/anna", "--current-replicas=3", "--replicas=1"]);
    assert!(said.contains("xpected replicas to be 3, was 4"), "{said}");
    let said = kubectl.fails(&["scale", "bt/anna", "--replicas=9"]);
    assert!(said.contains("the crew must fit"), "{said}");
    assert_eq!(kubectl.value("bt/anna", ".spec.crew"), "4");
}

#[test]
fn a_watch_prints_the_columns() {
    let kubectl = Kubectl::harbour();
    kubectl.feed(&CREATE, &boat("anna", "port: kiel"));
    let arguments = ["get", "bt", "--watch", "--output-watch-events"];
    let mut child = kubectl.command(&arguments).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = move || -> String {
        let line = lines.next().expect("the watch goes on").unwrap();
        line.split_whitespace().take(4).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(next(), "EVENT NAME PORT CREW");
    assert_eq!(next(), "ADDED anna kiel 1");
    kubectl.ok(&["scale", "bt/anna", "--replicas=2"]);
    assert_eq!(next(), "MODIFIED anna kiel 2");
    kubectl.feed(&CREATE, &boat("berta", "port: riga"));
    assert_eq!(next(), "ADDED berta riga 1");
    kubectl.ok(&["delete", "bt", "anna"]);
    assert_eq!(next(), "DELETED anna kiel 2");
    // The end of the kind is the end of its objects, which a watch sees too.
    kubectl.ok(&["delete", "crd", "boats.harbour.example", "--wait=false"]);
    assert_eq!(next(), "DELETED berta riga 1");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_custom_object_lives_like_any_other() {
    let kubectl = Kubectl::harbour();
    let (object, shown) = ("bt/anna", "boat.harbour.example/anna");
    let manifest = boat("anna", "port: kiel, cargo: [{name: fish, tons: 2}]");
    assert_eq!(kubectl.feed(&APPLY, &manifest), format!("{shown} created\n"));
    assert_eq!(kubectl.feed(&APPLY, &manifest), format!("{shown} unchanged\n"));
    assert_eq!(kubectl.ok(&["label", object, "tier=front"]), format!("{shown} labeled\n"));
    assert_eq!(kubectl.ok(&["annotate", object, "note=a b"]), format!("{shown} annotated\n"));
    assert_eq!(
        kubectl.ok(&["get", "bt", "--selector", "tier=front", "--output", "name"]),
        format!("{shown}\n")
    );
    let operations = r#"[{"op":"add","path":"/spec/cargo/-","value":{"name":"salt"}}]"#;
    let said = kubectl.ok(&["patch", object, "--type=json", "--patch", operations]);
    assert_eq!(said, format!("{shown} patched\n"));
    assert_eq!(kubectl.value(object, ".spec.cargo[*].name"), "fish salt");
    // A strategic patch needs a type that the server knows.
    let said = kubectl.fails(&["patch", object, "--patch", r#"{"spec":{"crew":2}}"#]);
    let known = "application/json-patch+json, application/merge-patch+json";
    assert!(said.contains(&format!("accepted media types include: {known}")), "{said}");
    // Client-side apply merges as plain JSON does: the list is replaced.
    let (shown_diff, _) = kubectl.feed_until(&["diff", "--filename", "-"], &manifest, 1);
    assert!(shown_diff.contains("-  - name: salt"), "{shown_diff}");
    assert_eq!(kubectl.feed(&APPLY, &manifest), format!("{shown} configured\n"));
    assert_eq!(kubectl.value(object, ".spec.cargo[*].name"), "fish");
    let said = kubectl.edit(object, "s/port: kiel/port: riga/");
    assert_eq!(said, format!("{shown} edited\n"));
    assert_eq!(kubectl.value(object, ".spec.port"), "riga");
    let yaml = kubectl.ok(&["get", object, "--output", "yaml"]).replace("riga", "oslo");
    let said = kubectl.feed(&["replace", "--filename", "-"], &yaml);
    assert_eq!(said, format!("{shown} replaced\n"));
    let described = kubectl.ok(&["describe", object]);
    for line in ["Kind:         Boat", "API Version:  harbour.example/v1", "  Port:    oslo"] {
        assert!(described.contains(line), "`{line}` is not in\n{described}");
    }
    let said = kubectl.ok(&["delete", object]);
    assert!(said.starts_with("boat.harbour.example \"anna\" deleted"), "{said}");
    assert_eq!(kubectl.ok(&["get", "bt", "--output", "name"]), "");
}

#[test]
fn the_end_of_a_definition_is_the_end_of_its_objects() {
    let kubectl = Kubectl::harbour();
    for name in ["anna", "berta"] {
        kubectl.feed(&CREATE, &boat(name, "port: kiel"));
    }
    let said = kubectl.ok(&["delete", "crd", "boats.harbour.example"]);
    let told = "customresourcedefinition.apiextensions.k8s.io \"boats.harbour.example\" deleted";
    assert!(said.starts_with(told), "{said}");
    let said = kubectl.fails(&["get", "--raw", BOATS.path]);
    assert!(said.contains("could not find the requested resource"), "{said}");
    assert_eq!(kubectl.ok(&["api-resources", "--api-group=harbour.example", "--no-headers"]), "");
    let (_, said) = kubectl.feed_until(&CREATE, &boat("anna", "port: kiel"), 1);
    assert!(
        said.contains("no matches for kind \"Boat\" in version \"harbour.example/v1\""),
        "{said}"
    );
    // The kind comes back; its objects do not.
    kubectl.define();
    assert_eq!(kubectl.ok(&["get", "boats", "--output", "name"]), "");
}

/// CustomResourcePublishOpenAPI works for CRD without validation schema; preserving unknown fields at the schema
/// root; in an embedded object.
#[test]
fn members_that_no_schema_knows_are_kept_and_the_rest_is_explained() {
    let kubectl = Kubectl::start();
    let free = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let mut inside = free.clone();
    inside["description"] = json!("What may hold anything.");
    let embedded = json!({
        "type": "object", "description": "A thing with something free in it.",
        "properties": { "spec": inside, "status": { "type": "object" } },
    });
    for (kind, schema, at_root) in [("Open", free, true), ("Nested", embedded, false)] {
        let plural = format!("{}s", kind.to_lowercase());
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": { "name": format!("{plural}.free.example") },
            "spec": {
                "group": "free.example", "scope": "Namespaced", "names": { "plural": plural, "kind": kind },
                "versions": [{ "name": "v1", "served": true, "storage": true,
                    "schema": { "openAPIV3Schema": schema } }],
            },
        });
        kubectl.feed(&CREATE, &definition.to_string());
        let crd = format!("crd/{plural}.free.example");
        kubectl.ok(&["wait", &crd, "--for=condition=Established"]);
        let mut object = json!({
            "apiVersion": "free.example/v1", "kind": kind, "metadata": { "name": "it" },
            "spec": { "a": 1, "b": { "c": ["d"] } },
        });
        if at_root {
            object["any"] = json!("thing");
        }
        let shown = format!("{}.free.example/it", kind.to_lowercase());
        let text = object.to_string();
        let strict = ["create", "--validate=strict", "--filename", "-"];
        assert_eq!(kubectl.feed(&strict, &text), format!("{shown} created\n"));
        kubectl.ok(&["delete", &shown]);
        let strict = ["apply", "--validate=strict", "--filename", "-"];
        assert_eq!(kubectl.feed(&strict, &text), format!("{shown} created\n"));
        let newer = text.replace("\"d\"", "\"e\"");
        assert_eq!(kubectl.feed(&strict, &newer), format!("{shown} configured\n"));
        assert_eq!(kubectl.value(&shown, ".spec.b.c[0]"), "e");
        if at_root {
            assert_eq!(kubectl.value(&shown, ".any"), "thing");
        }
        let place = Documented { kind, group: "free.example", version: "v1" };
        let told = kubectl.explained(&plural, &place);
        let words = if at_root { "<empty>" } else { "A thing with something free in it." };
        assert!(told.contains(words), "{told}");
        if !at_root {
            let told = kubectl.explained(&format!("{plural}.spec"), &place);
            assert!(told.contains("What may hold anything."), "{told}");
        }
    }
}
