//! The stored form: any bytes are read or refused, and what is read is written back the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tenure_store::format::{decode_entry, decode_key, encode_entry, encode_key};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(entry) = decode_entry(bytes) {
        let mut again = Vec::new();
        encode_entry(entry, &mut again);
        assert_eq!(bytes, again);
    }
    if let Ok((revision, key)) = decode_key(bytes) {
        let mut again = Vec::new();
        encode_key(revision, key, &mut again);
        assert_eq!(bytes, again);
    }
});
