//! Label and field selectors: what parses prints as something that parses to the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tenure_core::selector::{FieldSelector, LabelSelector};

fuzz_target!(|text: &str| {
    if let Ok(selector) = LabelSelector::parse(text) {
        let again = LabelSelector::parse(&selector.to_string()).expect("what is printed parses");
        assert_eq!(selector, again);
        selector.matches(|_| Some("x"));
    }
    if let Ok(selector) = FieldSelector::parse(text) {
        let again = FieldSelector::parse(&selector.to_string()).expect("what is printed parses");
        assert_eq!(selector, again);
        selector.matches(|_| None);
    }
});
