//! Paths of references: what parses is read as itself, is followed within its budget, and fails nowhere else.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use tenure_reference::path::{JsonPath, RESULTS_MAX};

// The path, a line's end, and an object to follow it in.
fuzz_target!(|text: &str| {
    let (text, object) = text.split_once('\n').unwrap_or((text, "{}"));
    let object: Value = serde_json::from_str(object).unwrap_or_default();
    for parse in [JsonPath::parse, JsonPath::parse_relative] {
        match parse(text) {
            Ok(path) => {
                let again = parse(path.text()).expect("what it is read as parses");
                assert_eq!(again.text(), path.text());
                let found = path.evaluate(&object);
                assert_eq!(again.evaluate(&object), found);
                if let Ok(found) = found {
                    assert!(found.len() <= if path.is_singular() { 1 } else { RESULTS_MAX });
                }
            }
            Err(error) => assert!(text.is_char_boundary(error.offset)),
        }
    }
});
