//! Bodies that nobody should send. They are answered; nothing panics, nothing grows.

use proptest::prelude::*;
use tenure_schema::facts;

use super::*;

const POD: &str = "api.core.v1.Pod";
const SCHEMA: &str = "apiextensions_apiserver.apiextensions.v1.JSONSchemaProps";

fn refused(of: &str, raw: &[u8]) -> String {
    protobuf::decode(id(of), raw).unwrap_err().message
}

#[test]
fn r22_a_pod_cut_anywhere_is_answered() {
    let whole = body("v1", "Pod", pods::rich().encode_to_vec());
    let opened = (0..whole.len()).filter(|length| protobuf::envelope(&whole[..*length]).is_ok());
    // Only a cut between two of the four members leaves an envelope.
    assert_eq!(opened.count(), 3);
    let raw = protobuf::envelope(&whole).unwrap().raw;
    let read = (1..raw.len()).filter(|length| protobuf::decode(id(POD), &raw[..*length]).is_ok());
    // Between metadata, spec and status.
    assert_eq!(read.count(), 2);
}

#[test]
fn r22_a_pod_with_any_byte_changed_is_answered() {
    let whole = pods::rich().encode_to_vec();
    for at in 0..whole.len() {
        for change in [0x01, 0x07, 0x80, 0xff] {
            let mut changed = whole.clone();
            changed[at] ^= change;
            if let Ok(mut object) = protobuf::decode(id(POD), &changed) {
                let _ = decode(id(POD), &mut object);
            }
        }
    }
}

#[test]
fn r22_what_is_not_an_envelope_is_refused() {
    for body in
        [&b""[..], b"k8s", b"k8s\0", b"{}", b"k8s\x01\x0a\x00", b"k8s\0\x0a\x05a", b"k8s\0\xff"]
    {
        assert!(protobuf::envelope(body).is_err(), "{body:x?}");
    }
    let bare = protobuf::envelope(b"k8s\0\x0a\x00").unwrap();
    assert_eq!((&*bare.api_version, &*bare.kind, bare.raw), ("", "", &[][..]));
}

#[test]
fn r22_faults_name_the_member() {
    let rows: [(&str, &[u8], &str); 9] = [
        // metadata as a number.
        (POD, &[0x08, 0x01], "metadata: the wire type does not fit the member"),
        // metadata.name as a number.
        (POD, &[0x0a, 0x02, 0x08, 0x01], "metadata.name: the wire type does not fit the member"),
        (POD, &[0x0a, 0x03, 0x0a, 0x01, 0xff], "metadata.name: text that is not UTF-8"),
        (POD, &[0x0a, 0x03, 0x0a, 0x05, b'a'], "metadata: the message ends too early"),
        (POD, &[0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f], "the message ends too early"),
        (POD, &[0x0b, 0x0c], "a group or an unknown wire type"),
        // data: {"k": not UTF-8}.
        (
            "api.core.v1.ConfigMap",
            &[0x12, 0x06, 0x0a, 0x01, b'k', 0x12, 0x01, 0xff],
            "data.k: text that is not UTF-8",
        ),
        // data: raw bytes that are not JSON.
        (
            "api.apps.v1.ControllerRevision",
            &[0x12, 0x03, 0x0a, 0x01, b'{'],
            "data: raw bytes that are not JSON",
        ),
        // maximum: not a number.
        (SCHEMA, &[0x49, 0, 0, 0, 0, 0, 0, 0xf8, 0x7f], "maximum: a number that JSON cannot say"),
    ];
    for (of, raw, expected) in rows {
        assert_eq!(refused(of, raw), expected);
    }
}

#[test]
fn r22_unknown_tags_are_stepped_over() {
    let mut raw = core::Pod { metadata: metadata("it"), ..Default::default() }.encode_to_vec();
    // Tag 1000 in each form of the wire, the first tag again, and merged into the first.
    raw.extend([0xc0, 0x3e, 0x01]);
    raw.extend([0xc1, 0x3e, 1, 2, 3, 4, 5, 6, 7, 8]);
    raw.extend([0xc2, 0x3e, 0x01, 0xff]);
    raw.extend([0xc5, 0x3e, 1, 2, 3, 4]);
    raw.extend([0x0a, 0x03, 0x0a, 0x01, b'z']);
    let found = protobuf::decode(id(POD), &raw).unwrap();
    assert_eq!(found.keys().collect::<Vec<_>>(), ["metadata"]);
    assert_eq!(found["metadata"]["name"], "z");
    assert_eq!(found["metadata"]["namespace"], "default");
}

#[test]
fn r22_repeated_numbers_may_be_packed() {
    // supplementalGroups is tag 4: packed 1 and 300, then 5 on its own.
    let raw = [0x22, 0x03, 0x01, 0xac, 0x02, 0x20, 0x05];
    let found = protobuf::decode(id("api.core.v1.PodSecurityContext"), &raw).unwrap();
    assert_eq!(found["supplementalGroups"], json!([1, 300, 5]));
}

/// Schemas within schemas, `levels` deep, each under this tag.
fn nested(tag: u8, levels: usize) -> Vec<u8> {
    let mut raw = Vec::new();
    for _ in 0..levels {
        let mut outer = Vec::new();
        prost::encoding::encode_key(
            u32::from(tag),
            prost::encoding::WireType::LengthDelimited,
            &mut outer,
        );
        prost::encoding::encode_varint(raw.len() as u64, &mut outer);
        outer.extend(&raw);
        raw = outer;
    }
    raw
}

#[test]
fn r22_deep_messages_are_refused_and_shallow_ones_can_be_read_again() {
    // `not` is a schema; `allOf` a list of them.
    for tag in [28, 25] {
        assert!(refused(SCHEMA, &nested(tag, 500)).contains("nested too deeply"));
        assert!(refused(SCHEMA, &nested(tag, 20_000)).contains("nested too deeply"));
        let deepest =
            (0..500).rev().find_map(|n| protobuf::decode(id(SCHEMA), &nested(tag, n)).ok());
        let text = serde_json::to_string(&deepest.unwrap()).unwrap();
        assert!(serde_json::from_str::<Value>(&text).is_ok());
    }
    protobuf::decode(id(SCHEMA), &nested(25, 50)).unwrap();
}

#[test]
fn r22_raw_json_may_not_be_deep_either() {
    let deep = |levels: usize| {
        let mut inner = Vec::new();
        let text = "[".repeat(levels) + &"]".repeat(levels);
        prost::encoding::bytes::encode(1, &text.into_bytes(), &mut inner);
        let mut raw = Vec::new();
        prost::encoding::bytes::encode(2, &inner, &mut raw);
        protobuf::decode(id("api.apps.v1.ControllerRevision"), &raw)
    };
    assert!(deep(100).is_ok());
    assert_eq!(deep(125).unwrap_err().message, "data: nested too deeply");
    assert_eq!(deep(10_000).unwrap_err().message, "data: raw bytes that are not JSON");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn r22_random_bytes_are_answered(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..200),
        pick in any::<u16>(),
    ) {
        let of = TypeId(pick % u16::try_from(facts().types().len()).unwrap());
        if let Ok(mut object) = protobuf::decode(of, &bytes) {
            let _ = decode(of, &mut object);
        }
        bytes.splice(0..0, *b"k8s\0");
        let _ = protobuf::envelope(&bytes);
    }

    // Small tags and lengths find their way deeper into a message than random bytes do.
    #[test]
    fn r22_random_members_are_answered(
        rows in proptest::collection::vec((1_u8..50, 0_u8..6, 0_u8..20), 0..60),
        pick in any::<u16>(),
    ) {
        let bytes: Vec<u8> = rows
            .iter()
            .flat_map(|(tag, wire, next)| {
                let key = (u16::from(*tag) << 3) | u16::from(*wire);
                let mut out = Vec::new();
                prost::encoding::encode_varint(u64::from(key), &mut out);
                out.push(*next);
                out
            })
            .collect();
        let of = TypeId(pick % u16::try_from(facts().types().len()).unwrap());
        if let Ok(mut object) = protobuf::decode(of, &bytes) {
            let _ = decode(of, &mut object);
        }
    }
}

#[test]
fn r22_every_type_reads_from_nothing() {
    for of in every_type() {
        assert_eq!(protobuf::decode(of, &[]).map(|object| object.len()), Ok(0));
    }
}
