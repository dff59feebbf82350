//! Every type of the table, written as protobuf by the table and read back. The tags are not put to the test
//! here, but every shape in every place is.

use proptest::prelude::*;
use serde_json::Value;
use tenure_machinery::Object;
use tenure_schema::{ApiType, TypeId, ValueType, decode, facts, protobuf};

use super::every_type;
use crate::random::{Dice, members};

fn varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// A member of variable length.
fn number(tag: u32, number: i64, out: &mut Vec<u8>) {
    varint(u64::from(tag) << 3, out);
    varint(number as u64, out);
}

/// A member with a length.
fn bytes(tag: u32, bytes: &[u8], out: &mut Vec<u8>) {
    varint((u64::from(tag) << 3) | 2, out);
    varint(bytes.len() as u64, out);
    out.extend(bytes);
}

fn seconds_and_nanoseconds(said: &str) -> Vec<u8> {
    let time: jiff::Timestamp = said.parse().unwrap();
    let mut out = Vec::new();
    number(1, time.as_second(), &mut out);
    number(2, i64::from(time.subsec_nanosecond()), &mut out);
    out
}

fn one(tag: u32, shape: &ValueType, value: &Value, out: &mut Vec<u8>) {
    use base64::Engine as _;
    let mut inner = Vec::new();
    match (shape, value) {
        (ValueType::String, _) => inner.extend(value.as_str().unwrap().bytes()),
        (ValueType::Bytes, _) => {
            let text = value.as_str().unwrap();
            inner = base64::engine::general_purpose::STANDARD.decode(text).unwrap();
        }
        (ValueType::Bool, _) => return number(tag, value.as_bool().unwrap().into(), out),
        (ValueType::Int32 | ValueType::Int64, _) => {
            return number(tag, value.as_i64().unwrap(), out);
        }
        (ValueType::Double, _) => {
            varint((u64::from(tag) << 3) | 1, out);
            return out.extend(value.as_f64().unwrap().to_le_bytes());
        }
        (ValueType::Time | ValueType::MicroTime, Value::Null) => {}
        (ValueType::Time | ValueType::MicroTime, _) => {
            inner = seconds_and_nanoseconds(value.as_str().unwrap());
        }
        (ValueType::Quantity, _) => bytes(1, value.as_str().unwrap().as_bytes(), &mut inner),
        (ValueType::IntOrString, Value::String(text)) => {
            number(1, 1, &mut inner);
            bytes(3, text.as_bytes(), &mut inner);
        }
        (ValueType::IntOrString, _) => number(2, value.as_i64().unwrap(), &mut inner),
        (ValueType::Any, _) => bytes(1, value.to_string().as_bytes(), &mut inner),
        (ValueType::Struct(id), _) => {
            inner = written(facts().get(*id).unwrap(), value.as_object().unwrap());
        }
        (ValueType::List(each), _) => {
            value.as_array().into_iter().flatten().for_each(|item| one(1, each, item, &mut inner));
        }
        (ValueType::Map(_), _) => panic!("a map inside a list or a map"),
    }
    bytes(tag, &inner, out);
}

/// The message that says the object.
fn written(of: &ApiType, object: &Object) -> Vec<u8> {
    let mut out = Vec::new();
    for field in of.fields.iter().filter(|field| field.tag > 0) {
        match (&field.shape, object.get(field.json)) {
            (_, None | Some(Value::Null)) => {}
            (ValueType::List(each), Some(value)) => {
                let items = value.as_array().unwrap();
                items.iter().for_each(|item| one(field.tag, each, item, &mut out));
            }
            (ValueType::Map(each), Some(value)) => {
                for (key, value) in value.as_object().unwrap() {
                    let mut entry = Vec::new();
                    bytes(1, key.as_bytes(), &mut entry);
                    one(2, each, value, &mut entry);
                    bytes(field.tag, &entry, &mut out);
                }
            }
            (shape, Some(value)) => one(field.tag, shape, value, &mut out),
        }
    }
    for (tag, inner) in &of.inlines {
        bytes(*tag, &written(facts().get(*inner).unwrap(), object), &mut out);
    }
    out
}

/// Takes out what protobuf cannot say: members without a tag, and those of more than one form, which have
/// tests of their own. A list that is null inside a map comes back empty.
fn prune(of: &ApiType, object: &mut Object) {
    object.retain(|name, _| {
        of.field(name).is_some_and(|field| field.object.is_none()) && reachable(of, name)
    });
    for (name, value) in object {
        prune_value(&of.field(name).unwrap().shape, value);
    }
}

fn reachable(of: &ApiType, name: &str) -> bool {
    of.field(name).is_some_and(|field| field.tag > 0)
        || of.inlines.iter().any(|(_, inner)| reachable(facts().get(*inner).unwrap(), name))
}

fn prune_value(shape: &ValueType, value: &mut Value) {
    match (shape, value) {
        (ValueType::Struct(id), Value::Object(object)) => prune(facts().get(*id).unwrap(), object),
        (ValueType::List(each), Value::Array(items)) => {
            items.iter_mut().for_each(|item| prune_value(each, item));
        }
        (ValueType::Map(each), Value::Object(entries)) => {
            for value in entries.values_mut() {
                if matches!(**each, ValueType::List(_)) && value.is_null() {
                    *value = Value::Array(Vec::new());
                }
                prune_value(each, value);
            }
        }
        // Go writes a number without a fraction as an integer.
        (ValueType::Double, Value::Number(number)) => {
            if let Some(whole) = number.as_f64().filter(|number| number.fract() == 0.0) {
                *number = (whole as i64).into();
            }
        }
        _ => {}
    }
}

fn comes_back(id: TypeId, seed: u64) {
    let of = facts().get(id).unwrap();
    let mut said = members(id, 0, &mut Dice(seed));
    decode(id, &mut said).unwrap();
    prune(of, &mut said);
    let mut found = protobuf::decode(id, &written(of, &said)).unwrap();
    decode(id, &mut said).unwrap();
    decode(id, &mut found).unwrap();
    assert_eq!(Value::Object(found), Value::Object(said), "{}", of.name);
}

#[test]
fn r22_every_type_comes_back_from_protobuf() {
    every_type().for_each(|id| (0..8).for_each(|seed| comes_back(id, seed * 7_919)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn r22_random_objects_come_back_from_protobuf(seed in any::<u64>(), pick in any::<u16>()) {
        comes_back(TypeId(pick % u16::try_from(facts().types().len()).unwrap()), seed);
    }
}

#[test]
fn r22_no_two_members_of_a_type_share_a_tag() {
    for of in facts().types() {
        let tags = of.fields.iter().map(|field| field.tag).filter(|tag| *tag > 0);
        let mut tags: Vec<u32> = tags.chain(of.inlines.iter().map(|(tag, _)| *tag)).collect();
        tags.sort_unstable();
        assert!(tags.windows(2).all(|pair| pair[0] != pair[1]), "{}: {tags:?}", of.name);
    }
}

#[test]
fn r22_no_type_lies_open_in_itself() {
    fn depth(of: &ApiType, steps: usize) -> usize {
        assert!(steps < 8, "{}", of.name);
        let inner = of.inlines.iter().map(|(_, id)| depth(facts().get(*id).unwrap(), steps + 1));
        inner.max().unwrap_or(steps)
    }
    assert!(facts().types().iter().map(|of| depth(of, 0)).max() >= Some(2));
}

#[test]
fn r22_the_types_of_request_bodies_have_tags() {
    for name in [
        "apimachinery.meta.v1.DeleteOptions",
        "apimachinery.meta.v1.Status",
        "api.policy.v1.Eviction",
        "api.autoscaling.v1.Scale",
        "api.core.v1.Binding",
        "api.authentication.v1.TokenRequest",
        "api.authentication.v1.TokenReview",
        "api.authentication.v1.SelfSubjectReview",
        "api.authorization.v1.SubjectAccessReview",
        "api.authorization.v1.LocalSubjectAccessReview",
        "api.authorization.v1.SelfSubjectAccessReview",
        "api.authorization.v1.SelfSubjectRulesReview",
    ] {
        let of = facts().get(crate::id(name)).unwrap();
        let untagged = of.fields.iter().filter(|field| field.tag == 0);
        let names: Vec<&str> = untagged.map(|field| field.json).collect();
        assert_eq!(names, ["apiVersion", "kind"], "{name}");
    }
}
