//! Paths of fields: what parses is written back as it was, and only a backslash changes a key.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tenure_core::field_path::{FieldPath, split_subscript};

fuzz_target!(|text: &str| {
    match FieldPath::parse(text) {
        Ok(path) => {
            // The old name of the node is the one path that has another today.
            if text != "spec.host" {
                assert_eq!(path.to_string(), text);
            }
            if let FieldPath::Key { map, key, escaped } = &path {
                let (base, written) = split_subscript(text).expect("a key is in a subscript");
                assert_eq!(base, map.as_str());
                assert_eq!(*escaped, written.contains('\\'));
                assert_eq!(*escaped, key != written);
            }
        }
        Err(error) => {
            assert!(text.is_char_boundary(error.offset));
            assert!(error.to_string().ends_with(text));
        }
    }
});
