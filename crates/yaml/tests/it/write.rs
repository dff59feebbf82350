//! What is written reads back as the same value.

use proptest::prelude::*;
use serde_json::{Value, json};
use tenure_yaml::{YamlLimits, from_json, to_json, to_json_lenient};

fn back(value: &Value) -> Value {
    let text = from_json(value);
    to_json(text.as_bytes(), YamlLimits::default())
        .unwrap_or_else(|error| panic!("{error}\n{text}\n{value}"))
}

#[test]
fn r27_a_pod_is_written_like_kubectl_does() {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "a", "labels": {"on": "yes"}, "annotations": {"m": "0777"}},
        "spec": {"containers": [{"name": "c", "args": [], "tty": false}], "x": null, "w": 1.0}
    });
    assert_eq!(
        from_json(&pod),
        "apiVersion: v1\nkind: Pod\nmetadata:\n  annotations:\n    m: \"0777\"\n  labels:\n    \
         \"on\": \"yes\"\n  name: a\nspec:\n  containers:\n  - args: []\n    name: c\n    tty: \
         false\n  w: 1.0\n  x: null\n"
    );
    assert_eq!(back(&pod), pod);
}

#[test]
fn r27_texts_that_look_like_something_else_stay_texts() {
    for text in [
        "",
        " ",
        "y",
        "no",
        "on",
        "~",
        "null",
        "true",
        "1",
        "0777",
        "1_000",
        "1e3",
        ".5",
        ".inf",
        "0x1F",
        "0b1",
        "0o7",
        "1:30",
        "2026-11-15",
        "-",
        "- a",
        "a: b",
        "#",
        "a #b",
        "'",
        "\"",
        "*a",
        "&a",
        "!a",
        "|",
        ">",
        "%",
        "@",
        "`",
        "{",
        "[",
        "<<",
        "=",
        "? a",
        "\n",
        "a\n",
        "a\n\n",
        "\na",
        " a",
        "a ",
        "a\n b\n",
        " a\nb",
        "\t",
        "a\tb",
        "\u{7f}",
        "\u{85}",
        "\u{2028}",
        "\0",
        "\r",
        "a\r\nb",
        "---",
        "...",
        "--- a",
        "\u{feff}a",
        "+1",
        "+",
        "é",
        "\u{1f600}",
        "1.",
        "-0",
    ] {
        for value in [json!(text), json!({ "k": text }), json!([text]), json!({ text: [text] })] {
            assert_eq!(back(&value), value, "{}", from_json(&value));
        }
    }
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{0,6}",
        r#"([ab]|[ \n\t:#,'"\[\]{}&*!|>%@`?.=<~\\-]|[0-9eExo_+]|é){0,12}"#,
        "yes|no|on|off|y|n|null|true|[0-9]{1,3}",
        any::<String>(),
        "[a-z ]{90,120}",
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (-50i32..50).prop_map(|n| Value::from(f64::from(n) / 4.0)),
        text().prop_map(Value::String),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
            proptest::collection::btree_map(text(), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn r27_read_is_the_inverse_of_write(value in value()) {
        prop_assert_eq!(back(&value), value);
    }

    #[test]
    fn r27_json_is_yaml(value in value()) {
        let json = value.to_string();
        // YAML allows these characters as escapes only.
        let controls = ['\u{feff}', '\u{fffe}', '\u{ffff}'];
        prop_assume!(!json.contains(|c| matches!(c, '\u{7f}'..='\u{9f}') || controls.contains(&c)));
        let read = to_json(json.as_bytes(), YamlLimits::default());
        prop_assert_eq!(read, Ok(value));
    }

    #[test]
    fn r27_any_text_is_read_or_refused(
        text in r#"([ab1]|[ \n\t:#,'"\[\]{}&*!|>%@`?.=<~\\-]|: |- |\n  |<<: |\*a|&a ){0,40}"#,
    ) {
        let strict = to_json(text.as_bytes(), YamlLimits::default());
        let lenient = to_json_lenient(text.as_bytes(), YamlLimits::default());
        if let Ok(value) = strict {
            prop_assert_eq!(lenient, Ok((value, vec![])));
        }
    }
}
