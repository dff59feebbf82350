//! How scalars, keys and documents are read.

use serde_json::{Value, json};
use tenure_yaml::{YamlError, YamlLimits, to_json, to_json_lenient};

fn read(text: &str) -> Value {
    to_json(text.as_bytes(), YamlLimits::default())
        .unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

fn refused(text: &str) -> String {
    to_json(text.as_bytes(), YamlLimits::default()).unwrap_err().to_string()
}

#[test]
fn r27_booleans_of_yaml_1_1() {
    for text in ["y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "true", "True", "TRUE"] {
        assert_eq!(read(&format!("a: {text}")), json!({"a": true}), "{text}");
        assert_eq!(read(&format!("a: '{text}'")), json!({"a": text}), "{text}");
    }
    for text in ["n", "N", "no", "No", "NO", "off", "Off", "OFF", "false", "False", "FALSE"] {
        assert_eq!(read(&format!("a: {text}")), json!({"a": false}), "{text}");
    }
}

#[test]
fn r27_numbers() {
    for (text, expected) in [
        ("0777", json!(511)),
        ("-0777", json!(-511)),
        ("0", json!(0)),
        ("08", json!(8.0)),
        ("1_000", json!(1000)),
        ("0x1F", json!(31)),
        ("0b11", json!(3)),
        ("+5", json!(5)),
        ("-5", json!(-5)),
        ("1", json!(1)),
        ("1.0", json!(1.0)),
        ("1.5", json!(1.5)),
        ("1e3", json!(1000.0)),
        ("9007199254740993", json!(9_007_199_254_740_993_u64)),
        ("9223372036854775807", json!(i64::MAX)),
        ("-9223372036854775808", json!(i64::MIN)),
        ("18446744073709551615", json!(u64::MAX)),
        ("123456789012345678901", json!(123456789012345678901.0)),
        ("1.2.3", json!("1.2.3")),
        ("100m", json!("100m")),
        ("2026-11-15", json!("2026-11-15")),
        ("2026-11-15T04:05:06Z", json!("2026-11-15T04:05:06Z")),
    ] {
        let value = read(&format!("a: {text}"));
        assert_eq!(value["a"], expected, "{text}");
        assert_eq!(value["a"].is_f64(), expected.is_f64(), "{text}");
    }
}

#[test]
fn r27_numbers_that_json_lacks_are_refused() {
    for text in [".inf", "-.inf", ".nan", "1e999"] {
        assert!(refused(&format!("a: {text}")).starts_with("the YAML body cannot be read: "));
    }
}

#[test]
fn r27_nulls() {
    for text in ["", "~", "null", "Null", "NULL"] {
        assert_eq!(read(&format!("a: {text}")), json!({"a": null}), "{text}");
    }
    assert_eq!(read(""), json!(null));
    assert_eq!(read("# only a comment\n"), json!(null));
}

#[test]
fn r27_tags() {
    assert_eq!(read("a: !!binary aGVsbG8="), json!({"a": "aGVsbG8="}));
    assert_eq!(read("a: !!str 5"), json!({"a": "5"}));
    assert_eq!(read("a: !!int '5'"), json!({"a": 5}));
}

#[test]
fn r27_merge_keys() {
    let text = "base: &b {x: 1, y2: 2}\nnew:\n  <<: *b\n  x: 3\n";
    assert_eq!(read(text), json!({"base": {"x": 1, "y2": 2}, "new": {"x": 3, "y2": 2}}));
    let (value, repeated) = to_json_lenient(text.as_bytes(), YamlLimits::default()).unwrap();
    assert_eq!(value, read(text));
    assert!(repeated.is_empty());
}

#[test]
fn r27_keys_are_resolved_like_values() {
    assert_eq!(read("1: a\n2.5: b\ntrue: c\n"), json!({"1": "a", "2.5": "b", "true": "c"}));
    assert_eq!(read("on: push"), json!({"true": "push"}));
    assert_eq!(read("'on': push"), json!({"on": "push"}));
    assert!(refused("? [a]\n: b").starts_with("the YAML body cannot be read: "));
    assert!(refused("~: b").starts_with("the YAML body cannot be read: "));
}

#[test]
fn r27_duplicate_keys_are_errors() {
    assert_eq!(refused("a: 1\nb: 2\na: 3\n"), "the YAML body repeats a key: `a` at line 3");
    assert_eq!(refused("x:\n- y: 1\n  yes: 2\n"), "the YAML body repeats a key: `x[0].true`");
    assert_eq!(refused("1: a\n'1': b\n"), "the YAML body repeats a key: `1`");
}

#[test]
fn r27_duplicate_keys_can_be_reported_instead() {
    let lenient = |text: &str| {
        let (value, repeated) = to_json_lenient(text.as_bytes(), YamlLimits::default()).unwrap();
        (value, repeated.into_iter().map(|it| it.path).collect::<Vec<_>>())
    };
    let told = |text: &str| {
        let (_, repeated) = to_json_lenient(text.as_bytes(), YamlLimits::default()).unwrap();
        repeated.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(lenient("a: 1"), (json!({"a": 1}), vec![]));
    let text = "\nspec:\n  foo: 1\n  foo: 2\n";
    assert_eq!(told(text), ["line 4: key \"foo\" already set in map"]);
    assert_eq!(told("y: 1\nyes: 2\n"), ["key \"true\" already set in map"]);
    assert_eq!(
        lenient("a: 1\nspec:\n  c:\n  - p: 1\n  - p: 2\n    p: 3\na: 4\n"),
        (
            json!({"a": 4, "spec": {"c": [{"p": 1}, {"p": 3}]}}),
            vec!["spec.c[1].p".to_owned(), "a".to_owned()]
        )
    );
    assert_eq!(lenient("y: 1\nyes: 2\n"), (json!({"true": 2}), vec!["true".to_owned()]));
    let (value, repeated) = lenient("1: a\n1: b\n");
    assert_eq!((value, repeated.len()), (json!({"1": "b"}), 1));
}

#[test]
fn r27_documents() {
    assert_eq!(read("---\na: 1\n"), json!({"a": 1}));
    assert_eq!(read("%YAML 1.1\n---\na: 1\n...\n"), json!({"a": 1}));
    assert_eq!(read("\u{feff}a: 1\n"), json!({"a": 1}));
    assert!(refused("a: 1\n---\nb: 2\n").starts_with("the YAML body cannot be read: "));
}

#[test]
fn r27_block_scalars_and_json() {
    assert_eq!(
        read("a: |\n  one\n  two\nb: >-\n  one\n  two\n"),
        json!({"a": "one\ntwo\n", "b": "one two"})
    );
    let value = json!({"a": [1, 1.5, "x\u{1f600}", null, true, {"b": {}}], "c": "\n\"\\"});
    assert_eq!(read(&value.to_string()), value);
    assert_eq!(read("a:\n\t- 1".replace('\t', "").as_str()), json!({"a": [1]}));
}

#[test]
fn r27_errors_name_the_place() {
    let error = refused("a: 1\nb: [\n");
    assert!(error.contains("line "), "{error}");
    assert_eq!(to_json(b"a: \xff", YamlLimits::default()), Err(YamlError::Encoding { offset: 3 }));
}
