//! Definitions of custom kinds, and objects of what they define: refused, or brought into a form that
//! stays as it is.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use tenure_machinery::{Cx, Errors, Object, Rules};
use tenure_schema::{decode, facts};
use tenure_server::rules::SchemaRuleEngine;
use tenure_structural::crd::{self, CustomResourceDefinitionRules, ReservedNames};
use tenure_structural::meta::{Wrong, coerce};
use tenure_structural::{RuleEngine, Schema, default, prune, validate};

fuzz_target!(|text: &str| {
    let Some((schema, object)) = text.split_once('\n') else { return };
    let Ok(raw) = serde_json::from_str::<Value>(schema) else { return };
    let object = serde_json::from_str::<Object>(object).unwrap_or_default();
    if let Some(raw) = accepted(&raw) {
        let schema = Schema::parse(&raw).expect("an accepted schema");
        let rules = SchemaRuleEngine.compile(&raw, &schema);
        let shown = settled(object.clone(), &schema);
        let mut errors = Errors::new();
        validate::validate(&shown, Some(&object), &schema, &mut errors);
        if let Some(rules) = rules {
            let mut errors = Errors::in_haste();
            rules.evaluate(&schema, &shown, Some(&object), &mut errors);
        }
    } else if let Ok(schema) = Schema::parse(&raw) {
        // A definition that was stored before may have a schema that is refused today, with a
        // default that is not of its type: then the form need not stay, but nothing may break.
        brought(object, &schema);
    }
});

/// The schema as a legal definition carries it.
fn accepted(raw: &Value) -> Option<Value> {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.example.com" },
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": { "plural": "widgets", "kind": "Widget" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": raw },
                "subresources": { "status": {} },
            }],
        },
    });
    let Value::Object(mut definition) = definition else { return None };
    let name = "apiextensions_apiserver.apiextensions.v1.CustomResourceDefinition";
    let of = facts().type_id(name).expect("a type of the table");
    decode(of, &mut definition).ok()?;
    let rules = CustomResourceDefinitionRules { engine: Some(Arc::new(SchemaRuleEngine)) };
    rules.default(&mut definition);
    let cx = Cx {
        now: "2024-01-01T00:00:00Z".into(),
        uid: "u".into(),
        subresource: None,
        unlabelled: false,
    };
    rules.prepare_create(&mut definition, &cx);
    let mut errors = Errors::new();
    rules.validate(&definition, &mut errors);
    rules.warnings(&definition, None);
    if !errors.is_empty() {
        return None;
    }
    crd::settle(&mut definition, &ReservedNames::default(), &cx.now);
    assert_eq!(crd::kinds(&definition, Some(&SchemaRuleEngine)).len(), 1);
    crd::versions(&definition).into_iter().next()?.schema
}

/// The object in the form of the schema.
fn brought(mut object: Object, schema: &Schema) -> Object {
    let _ = coerce(&mut object.clone(), schema, Wrong::Refuse);
    let _ = coerce(&mut object, schema, Wrong::Drop);
    prune::prune(&mut object, schema);
    default::default(&mut object, schema);
    object
}

/// The object in the form of the schema, which it then has.
fn settled(object: Object, schema: &Schema) -> Object {
    let object = brought(object, schema);
    let mut again = object.clone();
    assert!(prune::prune(&mut again, schema).is_empty(), "pruned twice");
    default::default(&mut again, schema);
    assert_eq!(again, object);
    object
}
