//! Rules of spec/downward-api.md, section 7: the policy that is printed, run by our own CEL.

use alloc::format;
use alloc::string::{String, ToString};

use serde_json::{Value, json};
use tenure_cel::{Bindings, CostBudget, Env, compile};
use tenure_yaml::YamlLimits;

use crate::policy::owner_references;

const CARRIER: &str = "metadata.annotations['tenure.dev/owner-references']";

fn documents(strict: bool) -> (Value, Value) {
    let text = owner_references(strict);
    let (policy, binding) = text.split_once("\n---\n").unwrap();
    let read = |text: &str| tenure_yaml::to_json(text.as_bytes(), YamlLimits::default()).unwrap();
    (read(policy), read(binding))
}

/// A value as CEL writes it; members of one map may differ in type.
fn literal(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let members = map.iter().map(|(name, value)| format!("{name:?}: {}", literal(value)));
            format!("dyn({{{}}})", members.collect::<alloc::vec::Vec<_>>().join(", "))
        }
        Value::Array(list) => {
            let items = list.iter().map(literal).collect::<alloc::vec::Vec<_>>();
            format!("dyn([{}])", items.join(", "))
        }
        other => format!("dyn({other})"),
    }
}

/// Whether the policy lets an object through.
fn admits(strict: bool, kind: &str, object: &Value, old: &Value) -> bool {
    let (policy, _) = documents(strict);
    let spec = &policy["spec"];
    let mut expression = spec["validations"][0]["expression"].as_str().unwrap().to_string();
    // Variables may use earlier ones, so the last is put in first.
    for variable in spec["variables"].as_array().unwrap().iter().rev() {
        let name = format!("variables.{}", variable["name"].as_str().unwrap());
        let value = format!("({})", variable["expression"].as_str().unwrap());
        expression = expression.replace(&name, &value);
    }
    let expression = expression
        .replace("request.kind.kind", &format!("'{kind}'"))
        .replace("oldObject", &literal(old))
        .replace("dyn(object)", &literal(object));
    let program =
        compile(&expression, &Env::new()).unwrap_or_else(|why| panic!("{why}\n{expression}"));
    let value = program.eval(&Bindings::new(), &mut CostBudget::for_object());
    value.unwrap_or_else(|why| panic!("{why:?}")).as_bool().unwrap()
}

fn holding(members: &[&str], spec: &Value) -> Value {
    members.iter().rev().fold(spec.clone(), |inner, member| json!({ *member: inner }))
}

/// Every place a path may stand in.
fn places(field: &str) -> [Value; 5] {
    let from = json!({ "fieldRef": { "fieldPath": field } });
    let variable = json!([{ "name": "A", "value": "x" }, { "name": "E", "valueFrom": from }]);
    let plain = json!([{ "name": "c" }]);
    let item = json!({ "path": "f", "fieldRef": { "fieldPath": field } });
    [
        json!({ "containers": [{ "name": "c", "env": variable }] }),
        json!({ "containers": plain, "initContainers": [{ "name": "i", "env": variable }] }),
        json!({ "containers": plain, "ephemeralContainers": [{ "name": "e", "env": variable }] }),
        json!({ "containers": plain, "volumes": [{ "emptyDir": {} }, { "downwardAPI": { "items": [item] } }] }),
        json!({ "containers": plain, "volumes": [{ "projected": { "sources": [
            { "configMap": { "name": "m" } }, { "downwardAPI": { "items": [item] } },
        ] } }] }),
    ]
}

const KINDS: [(&str, &[&str]); 9] = [
    ("Pod", &["spec"]),
    ("PodTemplate", &["template", "spec"]),
    ("ReplicationController", &["spec", "template", "spec"]),
    ("DaemonSet", &["spec", "template", "spec"]),
    ("Deployment", &["spec", "template", "spec"]),
    ("ReplicaSet", &["spec", "template", "spec"]),
    ("StatefulSet", &["spec", "template", "spec"]),
    ("Job", &["spec", "template", "spec"]),
    ("CronJob", &["spec", "jobTemplate", "spec", "template", "spec"]),
];

#[test]
fn r57_both_spellings_in_every_place_of_every_kind() {
    for (kind, members) in KINDS {
        for field in ["metadata.ownerReferences", CARRIER] {
            for spec in places(field) {
                let object = holding(members, &spec);
                assert!(!admits(false, kind, &object, &Value::Null), "{kind} {object}");
            }
        }
        for field in ["metadata.name", "metadata.annotations['other']", "metadata.annotations"] {
            for spec in places(field) {
                let object = holding(members, &spec);
                assert!(admits(false, kind, &object, &Value::Null), "{kind} {object}");
            }
        }
    }
}

#[test]
fn r57_the_policy_matches_every_kind() {
    let (policy, _) = documents(false);
    let rules = policy["spec"]["matchConstraints"]["resourceRules"].as_array().unwrap();
    let matched: String = rules.iter().map(|rule| rule["resources"].to_string()).collect();
    for (kind, _) in KINDS {
        assert!(matched.contains(&format!("\"{}s\"", kind.to_lowercase())), "{kind} {matched}");
    }
    assert!(matched.contains("pods/ephemeralcontainers"));
}

#[test]
fn r59_what_is_stored_may_be_changed_elsewhere() {
    let [uses, ..] = places("metadata.ownerReferences");
    let [plain, ..] = places("metadata.name");
    let (uses, plain) = (json!({ "spec": uses }), json!({ "spec": plain }));
    assert!(admits(false, "Pod", &uses, &uses));
    assert!(!admits(false, "Pod", &uses, &plain));
    assert!(admits(false, "Pod", &plain, &uses));
}

#[test]
fn r59_the_binding_chooses_namespaces_by_label() {
    let (policy, binding) = documents(false);
    assert_eq!(binding["spec"]["policyName"], policy["metadata"]["name"]);
    assert_eq!(binding["spec"]["validationActions"], json!(["Deny"]));
    assert_eq!(
        binding["spec"]["matchResources"]["namespaceSelector"]["matchLabels"],
        json!({ "downward.tenure.dev/owner-references": "forbid" })
    );
    assert_eq!(policy["spec"]["validations"][0]["reason"], "Forbidden");
}

#[test]
fn r60_a_strict_policy_refuses_all_annotations_in_a_file() {
    let [.., file] = places("metadata.annotations");
    let object = json!({ "spec": file });
    assert!(admits(false, "Pod", &object, &Value::Null));
    assert!(!admits(true, "Pod", &object, &Value::Null));
}
