//! Answers of admission webhooks: read in both versions, and their patches applied, or refused; never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tenure_server::fuzzing;

fuzz_target!(|body: &[u8]| {
    let _ = fuzzing::admission_answer(body);
});
