//! Answers of conversion webhooks: two objects in the wanted version, each still the same, or refused; never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tenure_server::fuzzing;

fuzz_target!(|body: &[u8]| {
    let _ = fuzzing::conversion_answer(body);
});
