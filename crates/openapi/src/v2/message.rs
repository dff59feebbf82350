//! The document as protobuf: the messages of gnostic's OpenAPI v2, by name and number.
//!
//! Each message is a table of JSON members and field numbers. Members whose names start with `x-` are
//! extensions: they travel as text, which readers take as YAML. Members in no table are left out.

use serde_json::Value;

use super::wire::ProtobufWriter;

/// The document as protobuf.
#[must_use]
pub fn protobuf(document: &Value) -> Vec<u8> {
    message(document, DOCUMENT, 16)
}

/// How a member is written.
#[derive(Clone, Copy)]
enum MemberEncoding {
    Text,
    Texts,
    Flag,
    Whole,
    Double,
    /// Any value, as text.
    Any,
    Anys,
    /// A message, made by a function.
    One(fn(&Value) -> Vec<u8>),
    Many(fn(&Value) -> Vec<u8>),
}

type MessageFields = &'static [(&'static str, u32, MemberEncoding)];

const DOCUMENT: MessageFields = &[
    ("swagger", 1, MemberEncoding::Text),
    ("info", 2, MemberEncoding::One(info)),
    ("consumes", 6, MemberEncoding::Texts),
    ("produces", 7, MemberEncoding::Texts),
    ("paths", 8, MemberEncoding::One(|paths| named(paths, 2, path_item))),
    ("definitions", 9, MemberEncoding::One(|schemas| named(schemas, 1, schema))),
    ("security", 12, MemberEncoding::Many(|security| named(security, 1, string_array))),
    ("securityDefinitions", 13, MemberEncoding::One(|all| named(all, 1, security_definition))),
];

const INFO: MessageFields = &[
    ("title", 1, MemberEncoding::Text),
    ("version", 2, MemberEncoding::Text),
    ("description", 3, MemberEncoding::Text),
];

const API_KEY: MessageFields = &[
    ("type", 1, MemberEncoding::Text),
    ("name", 2, MemberEncoding::Text),
    ("in", 3, MemberEncoding::Text),
    ("description", 4, MemberEncoding::Text),
];

const PATH_ITEM: MessageFields = &[
    ("get", 2, MemberEncoding::One(operation)),
    ("put", 3, MemberEncoding::One(operation)),
    ("post", 4, MemberEncoding::One(operation)),
    ("delete", 5, MemberEncoding::One(operation)),
    ("options", 6, MemberEncoding::One(operation)),
    ("head", 7, MemberEncoding::One(operation)),
    ("patch", 8, MemberEncoding::One(operation)),
    ("parameters", 9, MemberEncoding::Many(parameters_item)),
];

const OPERATION: MessageFields = &[
    ("tags", 1, MemberEncoding::Texts),
    ("summary", 2, MemberEncoding::Text),
    ("description", 3, MemberEncoding::Text),
    ("operationId", 5, MemberEncoding::Text),
    ("produces", 6, MemberEncoding::Texts),
    ("consumes", 7, MemberEncoding::Texts),
    ("parameters", 8, MemberEncoding::Many(parameters_item)),
    ("responses", 9, MemberEncoding::One(|all| named(all, 1, response))),
    ("schemes", 10, MemberEncoding::Texts),
    ("deprecated", 11, MemberEncoding::Flag),
];

const RESPONSE: MessageFields = &[
    ("description", 1, MemberEncoding::Text),
    ("schema", 2, MemberEncoding::One(|value| wrap(1, schema(value)))),
];

const BODY_PARAMETER: MessageFields = &[
    ("description", 1, MemberEncoding::Text),
    ("name", 2, MemberEncoding::Text),
    ("in", 3, MemberEncoding::Text),
    ("required", 4, MemberEncoding::Flag),
    ("schema", 5, MemberEncoding::One(schema)),
];

const QUERY_PARAMETER: MessageFields = &[
    ("required", 1, MemberEncoding::Flag),
    ("in", 2, MemberEncoding::Text),
    ("description", 3, MemberEncoding::Text),
    ("name", 4, MemberEncoding::Text),
    ("allowEmptyValue", 5, MemberEncoding::Flag),
    ("type", 6, MemberEncoding::Text),
    ("format", 7, MemberEncoding::Text),
    ("uniqueItems", 20, MemberEncoding::Flag),
];

/// Parameters in a path and in a header have the same numbers.
const OTHER_PARAMETER: MessageFields = &[
    ("required", 1, MemberEncoding::Flag),
    ("in", 2, MemberEncoding::Text),
    ("description", 3, MemberEncoding::Text),
    ("name", 4, MemberEncoding::Text),
    ("type", 5, MemberEncoding::Text),
    ("format", 6, MemberEncoding::Text),
    ("uniqueItems", 19, MemberEncoding::Flag),
];

const SCHEMA: MessageFields = &[
    ("$ref", 1, MemberEncoding::Text),
    ("format", 2, MemberEncoding::Text),
    ("title", 3, MemberEncoding::Text),
    ("description", 4, MemberEncoding::Text),
    ("default", 5, MemberEncoding::Any),
    ("multipleOf", 6, MemberEncoding::Double),
    ("maximum", 7, MemberEncoding::Double),
    ("exclusiveMaximum", 8, MemberEncoding::Flag),
    ("minimum", 9, MemberEncoding::Double),
    ("exclusiveMinimum", 10, MemberEncoding::Flag),
    ("maxLength", 11, MemberEncoding::Whole),
    ("minLength", 12, MemberEncoding::Whole),
    ("pattern", 13, MemberEncoding::Text),
    ("maxItems", 14, MemberEncoding::Whole),
    ("minItems", 15, MemberEncoding::Whole),
    ("uniqueItems", 16, MemberEncoding::Flag),
    ("maxProperties", 17, MemberEncoding::Whole),
    ("minProperties", 18, MemberEncoding::Whole),
    ("required", 19, MemberEncoding::Texts),
    ("enum", 20, MemberEncoding::Anys),
    ("additionalProperties", 21, MemberEncoding::One(additional_properties)),
    ("type", 22, MemberEncoding::One(string_array)),
    ("items", 23, MemberEncoding::One(items)),
    ("allOf", 24, MemberEncoding::Many(schema)),
    ("properties", 25, MemberEncoding::One(|properties| named(properties, 1, schema))),
    ("readOnly", 27, MemberEncoding::Flag),
    ("example", 30, MemberEncoding::Any),
];

fn info(value: &Value) -> Vec<u8> {
    message(value, INFO, 7)
}

fn path_item(value: &Value) -> Vec<u8> {
    message(value, PATH_ITEM, 10)
}

fn operation(value: &Value) -> Vec<u8> {
    message(value, OPERATION, 13)
}

/// A response is written out, the first of two choices; the other is a reference.
fn response(value: &Value) -> Vec<u8> {
    wrap(1, message(value, RESPONSE, 5))
}

fn schema(value: &Value) -> Vec<u8> {
    message(value, SCHEMA, 31)
}

/// Only keys in headers are spoken of here, which are the second of six choices.
fn security_definition(value: &Value) -> Vec<u8> {
    wrap(2, message(value, API_KEY, 5))
}

/// A parameter is one of several messages, three deep, by where it stands.
fn parameters_item(value: &Value) -> Vec<u8> {
    let parameter = match value.get("in").and_then(Value::as_str) {
        Some("body") => wrap(1, message(value, BODY_PARAMETER, 6)),
        Some("header") => wrap(2, wrap(1, message(value, OTHER_PARAMETER, 22))),
        Some("path") => wrap(2, wrap(4, message(value, OTHER_PARAMETER, 22))),
        _ => wrap(2, wrap(3, message(value, QUERY_PARAMETER, 23))),
    };
    wrap(1, parameter)
}

fn additional_properties(value: &Value) -> Vec<u8> {
    match value {
        Value::Bool(allowed) => {
            let mut writer = ProtobufWriter::default();
            // Said even when false, since it is a choice.
            writer.flag(2, *allowed);
            writer.finish()
        }
        other => wrap(1, schema(other)),
    }
}

/// One schema or several.
fn items(value: &Value) -> Vec<u8> {
    let mut writer = ProtobufWriter::default();
    for item in one_or_many(value) {
        writer.bytes(1, &schema(item));
    }
    writer.finish()
}

/// One string or several.
fn string_array(value: &Value) -> Vec<u8> {
    let mut writer = ProtobufWriter::default();
    for text in one_or_many(value).iter().filter_map(Value::as_str) {
        writer.text(1, text);
    }
    writer.finish()
}

fn one_or_many(value: &Value) -> &[Value] {
    value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice)
}

/// A message around another.
fn wrap(number: u32, inner: Vec<u8>) -> Vec<u8> {
    let mut writer = ProtobufWriter::default();
    writer.bytes(number, &inner);
    writer.finish()
}

/// A map, which is a list of names and values.
fn named(map: &Value, number: u32, value: fn(&Value) -> Vec<u8>) -> Vec<u8> {
    let mut writer = ProtobufWriter::default();
    for (name, member) in map.as_object().into_iter().flatten() {
        writer.bytes(number, &pair(name, &value(member)));
    }
    writer.finish()
}

fn pair(name: &str, value: &[u8]) -> Vec<u8> {
    let mut writer = ProtobufWriter::default();
    writer.text(1, name);
    writer.bytes(2, value);
    writer.finish()
}

/// A value as text; JSON is YAML.
fn any(value: &Value) -> Vec<u8> {
    let mut writer = ProtobufWriter::default();
    writer.text(2, &value.to_string());
    writer.finish()
}

/// A message by its table; `extensions` is the field of members that start with `x-`.
fn message(value: &Value, table: MessageFields, extensions: u32) -> Vec<u8> {
    let mut writer = ProtobufWriter::default();
    let Some(members) = value.as_object() else { return writer.finish() };
    for (name, number, form) in table {
        if let Some(member) = members.get(*name) {
            field(&mut writer, *number, *form, member);
        }
    }
    for (name, extension) in members.iter().filter(|(name, _)| name.starts_with("x-")) {
        writer.bytes(extensions, &pair(name, &any(extension)));
    }
    writer.finish()
}

fn field(writer: &mut ProtobufWriter, number: u32, form: MemberEncoding, value: &Value) {
    match form {
        MemberEncoding::Text => {
            if let Some(text) = value.as_str() {
                writer.text(number, text);
            }
        }
        MemberEncoding::Texts => {
            for text in one_or_many(value).iter().filter_map(Value::as_str) {
                writer.text(number, text);
            }
        }
        MemberEncoding::Flag => {
            if let Some(flag) = value.as_bool() {
                writer.flag(number, flag);
            }
        }
        MemberEncoding::Whole => {
            if let Some(whole) = value.as_i64() {
                writer.whole(number, whole);
            }
        }
        MemberEncoding::Double => {
            if let Some(double) = value.as_f64() {
                writer.double(number, double);
            }
        }
        MemberEncoding::Any => writer.bytes(number, &any(value)),
        MemberEncoding::Anys => {
            for value in one_or_many(value) {
                writer.bytes(number, &any(value));
            }
        }
        MemberEncoding::One(make) => writer.bytes(number, &make(value)),
        MemberEncoding::Many(make) => {
            for value in one_or_many(value) {
                writer.bytes(number, &make(value));
            }
        }
    }
}
