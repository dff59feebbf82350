//! Bodies as JSON, YAML and protobuf: decoding by the table is refused or finds a fixed point.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use tenure_schema::{apply_defaults, decode, duplicate_fields, facts, protobuf};
use tenure_yaml::{YamlLimits, to_json_lenient};

fuzz_target!(|bytes: &[u8]| {
    let Some((first, body)) = bytes.split_first() else { return };
    let types = facts().types();
    let name = &types[usize::from(*first) * types.len() / 256].name;
    let of = facts().type_id(name).expect("a type is found by its name");
    let _ = duplicate_fields(body);
    let json = serde_json::from_slice::<Value>(body).ok();
    let yaml = to_json_lenient(body, YamlLimits::default()).ok().map(|(value, _)| value);
    let objects = [json, yaml].into_iter().flatten();
    for value in objects {
        let Value::Object(mut object) = value else { continue };
        if decode(of, &mut object).is_ok() {
            apply_defaults(of, &mut object);
            let before = object.clone();
            decode(of, &mut object).expect("what was decoded decodes again");
            assert_eq!(before, object);
        }
    }
    if let Ok(envelope) = protobuf::envelope(body) {
        let _ = protobuf::decode(of, envelope.raw);
    }
    let _ = protobuf::decode(of, body);
});
