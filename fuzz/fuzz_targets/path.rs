//! Request paths and queries: any text is taken apart without a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tenure_server::route::{Route, parse, percent_decode};

fuzz_target!(|text: &str| {
    let (path, query) = text.split_once('?').unwrap_or((text, ""));
    if let Route::Resource(found) = parse(path) {
        assert!(!found.version.is_empty(), "a resource path has a version");
    }
    // Decoding never makes a text longer, except where broken bytes become replacement characters.
    assert!(percent_decode(query, true).len() <= 3 * query.len());
});
