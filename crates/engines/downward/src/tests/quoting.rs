//! Rules of spec/downward-api.md, section 4: maps and quoting.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use proptest::prelude::*;
use serde_json::json;

use super::object;
use crate::quote::{format_map, go_quote};

/// Made with Go's `strconv.Quote` and the tables of Unicode 15.0: the bytes in hexadecimal, a space,
/// what Go wrote. Both sides of every edge of what is printable are in it.
const GOLDEN: &str = include_str!("quote.golden");

fn from_hex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}

#[test]
fn r23_quotes_as_go_does() {
    let mut count = 0;
    // Lines end with a line feed only: other breaks may stand inside quotes.
    for line in GOLDEN.split('\n').filter(|line| !line.is_empty()) {
        let (bytes, want) = line.split_once(' ').unwrap();
        assert_eq!(go_quote(&from_hex(bytes)), want, "{bytes}");
        count += 1;
    }
    assert!(count > 500, "{count}");
}

#[test]
fn r23_the_cases_of_the_rule() {
    for (text, want) in [
        ("\"\\", r#""\"\\""#),
        ("\x07\x08\x0c\n\r\t\x0b", r#""\a\b\f\n\r\t\v""#),
        ("\x00\x1f\x7f", r#""\x00\x1f\x7f""#),
        ("\u{a0}\u{feff}", r#""\u00a0\ufeff""#),
        ("\u{e0001}", r#""\U000e0001""#),
        ("é 😀", "\"é 😀\""),
    ] {
        assert_eq!(go_quote(text.as_bytes()), want);
    }
    assert_eq!(go_quote(b"a\xffb"), r#""a\xffb""#);
}

#[test]
fn r22_one_line_for_each_key_in_order() {
    let map = object(json!({ "b": "2\n", "a": "1", "B/c": "x=\"y\"" }));
    assert_eq!(format_map(&map), "B/c=\"x=\\\"y\\\"\"\na=\"1\"\nb=\"2\\n\"");
    assert_eq!(format_map(&object(json!({}))), "");
    assert_eq!(format_map(&object(json!({ "a": "" }))), "a=\"\"");
}

proptest! {
    #[test]
    fn r22_every_value_stays_on_its_line(values in prop::collection::btree_map("[a-z]{1,5}", any::<String>(), 0..6)) {
        let map = values.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect();
        let text = format_map(&map);
        prop_assert_eq!(text.lines().count(), values.len());
        for (line, (key, value)) in text.split('\n').zip(&values) {
            prop_assert_eq!(line.to_string(), format!("{key}={}", go_quote(value.as_bytes())));
        }
    }
}
