//! What patches are made of, after spec/api-server.md R164a.

use serde_json::{Value as Json, json};
use tenure_cel::{Bindings, CostBudget, DeclaredType, Env, Value, compile};

fn env() -> Env {
    Env::new().with_shape("object", &DeclaredType::any()).with_patches()
}

/// What an expression makes of this object, as JSON.
fn made(expression: &str, object: &Json) -> Result<Json, String> {
    let program = compile(expression, &env()).map_err(|error| error.message)?;
    let any = DeclaredType::any();
    let object = Value::from_json(object, &any).map_err(|error| error.message)?;
    let mut budget = CostBudget::for_object();
    let bindings = Bindings::new().bind("object", object);
    let value = program.eval(&bindings, &mut budget).map_err(|error| error.message)?;
    value.to_json(&mut budget).map_err(|error| error.message)
}

fn type_of(expression: &str) -> String {
    compile(expression, &env()).map_or_else(|error| error.message, |p| p.result_type().to_string())
}

#[test]
fn r164a_objects_and_operations_become_json() {
    let object = json!({"spec": {"replicas": 2, "list": [{"a": 1}]}});
    for (expression, wanted) in [
        ("Object{}", json!({})),
        (
            "Object{spec: Object.spec{replicas: object.spec.replicas + 1, on: true, half: 0.5}}",
            json!({"spec": {"replicas": 3, "on": true, "half": 0.5}}),
        ),
        (
            "Object{metadata: Object.metadata{labels: {'a': 'b', ?'c': optional.none()}, ?name: object.?nothing}}",
            json!({"metadata": {"labels": {"a": "b"}}}),
        ),
        ("Object{?metadata: optional.of({'x': 1u})}", json!({"metadata": {"x": 1}})),
        (
            "Object{spec: Object.spec{list: object.spec.list + [Object.spec.list{a: 2}]}}",
            json!({"spec": {"list": [{"a": 1}, {"a": 2}]}}),
        ),
        ("Object{`a.b/c`: 1, namespace: 'n'}", json!({"a.b/c": 1, "namespace": "n"})),
        (
            "Object{t: timestamp('2024-01-02T03:04:05Z'), d: duration('90s'), b: b'ab', n: null}",
            json!({"t": "2024-01-02T03:04:05Z", "d": "90s", "b": "YWI=", "n": null}),
        ),
        (
            "[JSONPatch{op: 'add', path: '/a/' + jsonpatch.escapeKey('x~/y'), value: Object.b{c: [1]}},
              JSONPatch{op: 'move', from: '/a', path: '/b'}]",
            json!([{"op": "add", "path": "/a/x~0~1y", "value": {"c": [1]}},
                {"op": "move", "from": "/a", "path": "/b"}]),
        ),
        (
            "[JSONPatch{op: 'add', path: '/m', value: {
                'field': string(Object{f: 'x'}.f), 'op': JSONPatch{op: 'o'}.op,
                'has': string(has(Object{f: 1}.f)) + string(has(Object{}.f)),
                'same': string(Object{f: 1} == Object{f: 1}) + string(Object{f: 1} == Object{f: 2})
                    + string(Object{} == Object{}),
                'patch': string(JSONPatch{value: 1} == JSONPatch{value: 1}),
             }}]",
            json!([{"op": "add", "path": "/m", "value": {"field": "x", "op": "o", "has": "truefalse",
                "same": "truefalsetrue", "patch": "true"}}]),
        ),
    ] {
        assert_eq!(made(expression, &object), Ok(wanted), "{expression}");
    }
}

#[test]
fn r164a_types_are_checked() {
    for (expression, wanted) in [
        ("Object{}", "Object"),
        ("Object.spec{}", "Object.spec"),
        ("[JSONPatch{}]", "list(JSONPatch)"),
        ("true ? [JSONPatch{}] : []", "list(JSONPatch)"),
        ("[]", "list(dyn)"),
        ("Object{a: 1}.a", "dyn"),
    ] {
        assert_eq!(type_of(expression), wanted, "{expression}");
    }
    for (expression, wanted) in [
        ("JSONPatch{op: 1}", "expected type of field 'op' is 'string' but provided type is 'int'"),
        ("JSONPatch{at: 'x'}", "undefined field 'at'"),
        ("JSONPatch{}.at", "undefined field 'at'"),
        ("Other{}", "undeclared reference to 'Other'"),
        ("Objects{}", "undeclared reference to 'Objects'"),
        ("Object{in: 1}", "mismatched input 'in'"),
        ("Object{a}", "mismatched input '}' expecting ':'"),
        ("Object{?a: 1}", "optional_type(int)"),
        ("[Object.a{}, Object.b{}]", "expected type 'Object.a' but found 'Object.b'"),
    ] {
        let found = type_of(expression);
        assert!(found.contains(wanted), "{expression}: {found}");
    }
    let plain = |text: &str| compile(text, &Env::new()).map(drop).map_err(|error| error.message);
    for (expression, wanted) in [
        ("Object{}", "undeclared reference to 'Object'"),
        ("JSONPatch{}", "undeclared reference to 'JSONPatch'"),
        ("jsonpatch.escapeKey('a')", "undeclared reference to"),
    ] {
        let refused = plain(expression).unwrap_err();
        assert!(refused.contains(wanted), "{expression}: {refused}");
    }
}

#[test]
fn r164a_a_struct_stands_where_its_type_says() {
    for (expression, wanted) in [
        (
            "Object{spec: Object.specx{}}",
            "unexpected type name \"Object.specx\", expected \"Object.spec\"",
        ),
        (
            "Object{a: [{'k': Object.a{b: Object.b{}}}]}",
            "unexpected type name \"Object.b\", expected \"Object.a.b\"",
        ),
        (
            "[JSONPatch{value: Object.a.b{c: Object.a.c{}}}]",
            "unexpected type name \"Object.a.c\", expected \"Object.a.b.c\"",
        ),
        ("Object{a: {1: 2}}", "keys are no strings"),
        ("Object{a: quantity('1')}", "kubernetes.Quantity has no form in JSON"),
        ("Object{a: optional.none()}", "optional_type has no form in JSON"),
        ("Object{a: 0.0 / 0.0}", "NaN has no form in JSON"),
    ] {
        let refused = made(expression, &json!({})).unwrap_err();
        assert!(refused.contains(wanted), "{expression}: {refused}");
    }
    assert!(made("Object{a: [{'k': Object.a{b: Object.a.b{}}}]}", &json!({})).is_ok());
}

#[test]
fn r164a_what_is_made_has_bounds() {
    // Each round doubles what the JSON holds, at next to no cost for the expression.
    let doubling = (1..40).fold("cel.bind(x0, ['some text'], ".to_owned(), |text, round| {
        text + &format!("cel.bind(x{round}, [x{0}, x{0}], ", round - 1)
    });
    let doubling = format!("{doubling}Object{{a: x39}}{}", ")".repeat(40));
    let refused = made(&doubling, &json!({})).unwrap_err();
    assert!(refused.contains("larger than") || refused.contains("cost limit"), "{refused}");
    let deep = |last: usize| {
        let binds = (1..last).fold("cel.bind(x0, [1], ".to_owned(), |text, round| {
            text + &format!("cel.bind(x{round}, [[[[[x{}]]]]], ", round - 1)
        });
        format!("{binds}Object{{a: x{}}}{}", last - 1, ")".repeat(last))
    };
    assert!(made(&deep(20), &json!({})).is_ok());
    assert!(made(&deep(60), &json!({})).unwrap_err().contains("nests deeper"));
    // What is copied from the data is paid for as well.
    let large = json!({"data": "x".repeat(2 * 1024 * 1024)});
    assert!(made("Object{a: object.data}", &large).is_ok());
    let refused = made("Object{a: object.data, b: object}", &large).unwrap_err();
    assert!(refused.contains("larger than"), "{refused}");
}

#[test]
fn r164a_a_struct_costs_what_upstream_counts() {
    let cost = |expression: &str| {
        let program = compile(expression, &env()).unwrap();
        let mut budget = CostBudget::for_object();
        let before = budget.remaining();
        program.eval(&Bindings::new(), &mut budget).unwrap();
        before - budget.remaining()
    };
    assert_eq!(cost("Object{}"), 40);
    assert_eq!(cost("Object{spec: Object.spec{replicas: 3}}"), 80);
    assert_eq!(cost("[JSONPatch{op: 'add'}]"), 50);
}
