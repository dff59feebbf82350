//! Protobuf bodies of every type: refused, or an object that decoding by the table leaves as it is.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use tenure_schema::{TypeId, apply_defaults, decode, facts, protobuf};

fuzz_target!(|bytes: &[u8]| {
    let Some((pick, body)) = bytes.split_first_chunk::<2>() else { return };
    let types = facts().types();
    let of = TypeId(u16::from_le_bytes(*pick) % u16::try_from(types.len()).expect("few types"));
    read(of, body);
    if let Ok(envelope) = protobuf::envelope(body) {
        read(of, envelope.raw);
    }
});

fn read(of: TypeId, raw: &[u8]) {
    let Ok(mut object) = protobuf::decode(of, raw) else { return };
    // What was read can be said in JSON, and says the same there.
    let text = Value::Object(object.clone()).to_string();
    assert_eq!(serde_json::from_str::<Value>(&text).ok(), Some(Value::Object(object.clone())));
    if decode(of, &mut object).is_ok() {
        apply_defaults(of, &mut object);
        let before = object.clone();
        decode(of, &mut object).expect("what was decoded decodes again");
        assert_eq!(before, object);
    }
}
