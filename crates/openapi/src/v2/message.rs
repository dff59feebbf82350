//! The document as protobuf: the messages of gnostic's OpenAPI v2, by name and number.
//!
//! Each message is a table of JSON members and field numbers. Members whose names start with `x-` are
//! extensions: they travel as text, which readers take as YAML. Members in no table are left out.

use serde_json::Value;

use super::wire::Writer;

/// The document as protobuf.
#[must_use]
pub fn protobuf(document: &Value) -> Vec<u8> {
    message(document, DOCUMENT, 16)
}

/// How a member is written.
#[derive(Clone, Copy)]
enum Form {
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

type Table = &'static [(&'static str, u32, Form)];

const DOCUMENT: Table = &[
    ("swagger", 1, Form::Text),
    ("info", 2, Form::One(info)),
    ("consumes", 6, Form::Texts),
    ("produces", 7, Form::Texts),
    ("paths", 8, Form::One(|paths| named(paths, 2, path_item))),
    ("definitions", 9, Form::One(|schemas| named(schemas, 1, schema))),
    ("security", 12, Form::Many(|security| named(security, 1, string_array))),
    ("securityDefinitions", 13, Form::One(|all| named(all, 1, security_definition))),
];

const INFO: Table =
    &[("title", 1, Form::Text), ("version", 2, Form::Text), ("description", 3, Form::Text)];

const API_KEY: Table = &[
    ("type", 1, Form::Text),
    ("name", 2, Form::Text),
    ("in", 3, Form::Text),
    ("description", 4, Form::Text),
];

const PATH_ITEM: Table = &[
    ("get", 2, Form::One(operation)),
    ("put", 3, Form::One(operation)),
    ("post", 4, Form::One(operation)),
    ("delete", 5, Form::One(operation)),
    ("options", 6, Form::One(operation)),
    ("head", 7, Form::One(operation)),
    ("patch", 8, Form::One(operation)),
    ("parameters", 9, Form::Many(parameters_item)),
];

const OPERATION: Table = &[
    ("tags", 1, Form::Texts),
    ("summary", 2, Form::Text),
    ("description", 3, Form::Text),
    ("operationId", 5, Form::Text),
    ("produces", 6, Form::Texts),
    ("consumes", 7, Form::Texts),
    ("parameters", 8, Form::Many(parameters_item)),
    ("responses", 9, Form::One(|all| named(all, 1, response))),
    ("schemes", 10, Form::Texts),
    ("deprecated", 11, Form::Flag),
];

const RESPONSE: Table =
    &[("description", 1, Form::Text), ("schema", 2, Form::One(|value| wrap(1, schema(value))))];

const BODY_PARAMETER: Table = &[
    ("description", 1, Form::Text),
    ("name", 2, Form::Text),
    ("in", 3, Form::Text),
    ("required", 4, Form::Flag),
    ("schema", 5, Form::One(schema)),
];

const QUERY_PARAMETER: Table = &[
    ("required", 1, Form::Flag),
    ("in", 2, Form::Text),
    ("description", 3, Form::Text),
    ("name", 4, Form::Text),
    ("allowEmptyValue", 5, Form::Flag),
    ("type", 6, Form::Text),
    ("format", 7, Form::Text),
    ("uniqueItems", 20, Form::Flag),
];

/// Parameters in a path and in a header have the same numbers.
const OTHER_PARAMETER: Table = &[
    ("required", 1, Form::Flag),
    ("in", 2, Form::Text),
    ("description", 3, Form::Text),
    ("name", 4, Form::Text),
    ("type", 5, Form::Text),
    ("format", 6, Form::Text),
    ("uniqueItems", 19, Form::Flag),
];

const SCHEMA: Table = &[
    ("$ref", 1, Form::Text),
    ("format", 2, Form::Text),
    ("title", 3, Form::Text),
    ("description", 4, Form::Text),
    ("default", 5, Form::Any),
    ("multipleOf", 6, Form::Double),
    ("maximum", 7, Form::Double),
    ("exclusiveMaximum", 8, Form::Flag),
    ("minimum", 9, Form::Double),
    ("exclusiveMinimum", 10, Form::Flag),
    ("maxLength", 11, Form::Whole),
    ("minLength", 12, Form::Whole),
    ("pattern", 13, Form::Text),
    ("maxItems", 14, Form::Whole),
    ("minItems", 15, Form::Whole),
    ("uniqueItems", 16, Form::Flag),
    ("maxProperties", 17, Form::Whole),
    ("minProperties", 18, Form::Whole),
    ("required", 19, Form::Texts),
    ("enum", 20, Form::Anys),
    ("additionalProperties", 21, Form::One(additional_properties)),
    ("type", 22, Form::One(string_array)),
    ("items", 23, Form::One(items)),
    ("allOf", 24, Form::Many(schema)),
    ("properties", 25, Form::One(|properties| named(properties, 1, schema))),
    ("readOnly", 27, Form::Flag),
    ("example", 30, Form::Any),
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
            let mut writer = Writer::default();
            // Said even when false, since it is a choice.
            writer.flag(2, *allowed);
            writer.finish()
        }
        other => wrap(1, schema(other)),
    }
}

/// One schema or several.
fn items(value: &Value) -> Vec<u8> {
    let mut writer = Writer::default();
    for item in one_or_many(value) {
        writer.bytes(1, &schema(item));
    }
    writer.finish()
}

/// One string or several.
fn string_array(value: &Value) -> Vec<u8> {
    let mut writer = Writer::default();
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
    let mut writer = Writer::default();
    writer.bytes(number, &inner);
    writer.finish()
}

/// A map, which is a list of names and values.
fn named(map: &Value, number: u32, value: fn(&Value) -> Vec<u8>) -> Vec<u8> {
    let mut writer = Writer::default();
    for (name, member) in map.as_object().into_iter().flatten() {
        writer.bytes(number, &pair(name, &value(member)));
    }
    writer.finish()
}

fn pair(name: &str, value: &[u8]) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.text(1, name);
    writer.bytes(2, value);
    writer.finish()
}

/// A value as text; JSON is YAML.
fn any(value: &Value) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.text(2, &value.to_string());
    writer.finish()
}

/// A message by its table; `extensions` is the field of members that start with `x-`.
fn message(value: &Value, table: Table, extensions: u32) -> Vec<u8> {
    let mut writer = Writer::default();
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

fn field(writer: &mut Writer, number: u32, form: Form, value: &Value) {
    match form {
        Form::Text => {
            if let Some(text) = value.as_str() {
                writer.text(number, text);
            }
        }
        Form::Texts => {
            for text in one_or_many(value).iter().filter_map(Value::as_str) {
                writer.text(number, text);
            }
        }
        Form::Flag => {
            if let Some(flag) = value.as_bool() {
                writer.flag(number, flag);
            }
        }
        Form::Whole => {
            if let Some(whole) = value.as_i64() {
                writer.whole(number, whole);
            }
        }
        Form::Double => {
            if let Some(double) = value.as_f64() {
                writer.double(number, double);
            }
        }
        Form::Any => writer.bytes(number, &any(value)),
        Form::Anys => {
            for value in one_or_many(value) {
                writer.bytes(number, &any(value));
            }
        }
        Form::One(make) => writer.bytes(number, &make(value)),
        Form::Many(make) => {
            for value in one_or_many(value) {
                writer.bytes(number, &make(value));
            }
        }
    }
}
