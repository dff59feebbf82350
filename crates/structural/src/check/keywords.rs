//! Everything else that a schema must not say: forbidden keywords, wrong pairs, keys of lists.
//!
//! Expressions are looked at from outside only: that they are there, and where they point.

use serde_json::Value;
use tenure_machinery::{Errors, Path};

use crate::path;
use crate::prune::is_meta;
use crate::raw::{Raw, RawAdditional};
use crate::schema::JsonType;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// What is so at a node because of where it is.
#[derive(Clone, Copy)]
struct KeywordContext<'a> {
    /// Why there may be no default, if so.
    no_default: Option<&'a str>,
    /// Whether the node is part of apiVersion, kind or metadata.
    in_meta: bool,
}

pub(super) fn check(schema: Raw<'_>, path: &Path<'_>, errors: &mut Errors) {
    node(schema, true, KeywordContext { no_default: None, in_meta: false }, path, errors);
}

fn node(s: Raw<'_>, root: bool, place: KeywordContext<'_>, path: &Path<'_>, errors: &mut Errors) {
    unsupported_keywords(s, place, path, errors);
    if s.flag("uniqueItems") {
        let why = "must not be true: comparing all items takes too long";
        errors.forbidden(&path.field("uniqueItems"), why);
    }
    below(s, root, place, path, errors);
    if s.get("x-kubernetes-preserve-unknown-fields").and_then(Value::as_bool) == Some(false) {
        let at = path.field("x-kubernetes-preserve-unknown-fields");
        errors.invalid(&at, false, "must be true or absent");
    }
    map_type(s, path, errors);
    list_type(s, path, errors);
    keys(s, path, errors);
    rules(s, path, errors);
}

fn unsupported_keywords(
    s: Raw<'_>,
    place: KeywordContext<'_>,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    let kind = s.kind();
    if !kind.is_empty() && JsonType::named(kind).is_none() {
        errors.not_supported(&path.field("type"), kind, &TYPES);
    }
    if s.get("default").is_some()
        && let Some(why) = place.no_default
    {
        errors.forbidden(&path.field("default"), &format!("must not be set {why}"));
    }
    for member in ["id", "additionalItems", "patternProperties", "definitions", "dependencies"] {
        let set = match member {
            "additionalItems" | "dependencies" => s.get(member).is_some(),
            _ => s.members().any(|m| m == member),
        };
        if set {
            errors.forbidden(&path.field(member), &format!("{member} is not supported"));
        }
    }
    if s.get("$ref").is_some() {
        errors.forbidden(&path.field("$ref"), "$ref is not supported");
    }
    if kind == "null" {
        errors.forbidden(&path.field("type"), "must not be null; use nullable instead");
    }
    if !s.values("items").is_empty() {
        errors.forbidden(&path.field("items"), "must be one schema, not a list");
    }
    if place.in_meta && s.flag("x-kubernetes-embedded-resource") {
        let at = path.field("x-kubernetes-embedded-resource");
        errors.forbidden(&at, "must not be used inside metadata");
    }
}

fn below(s: Raw<'_>, root: bool, place: KeywordContext<'_>, path: &Path<'_>, errors: &mut Errors) {
    if let Some(additional) = s.additional() {
        let at = path.field("additionalProperties");
        if s.has_properties() && !matches!(additional, RawAdditional::Bool(true)) {
            errors.forbidden(&at, "additionalProperties and properties exclude each other");
        }
        if let RawAdditional::Schema(schema) = additional {
            let no_default = place.in_meta.then_some("in members that metadata may have");
            let inner = KeywordContext { no_default: no_default.or(place.no_default), ..place };
            node(schema, false, inner, &at, errors);
        }
    }
    let resource = root || s.flag("x-kubernetes-embedded-resource");
    let properties = path.field("properties");
    for (name, property) in s.map("properties") {
        let mut inner = place;
        if resource && is_meta(name) {
            inner.in_meta = true;
            if root {
                inner.no_default = Some("in apiVersion, kind or metadata of the object itself");
            }
        }
        node(property, false, inner, &properties.key(name), errors);
    }
    if let Some(not) = s.sub("not") {
        node(not, false, place, &path.field("not"), errors);
    }
    for member in ["allOf", "oneOf", "anyOf"] {
        let at = path.field(member);
        s.list(member).for_each(|(index, v)| node(v, false, place, &at.index(index), errors));
    }
    let at = path.field("definitions");
    s.map("definitions").for_each(|(name, v)| node(v, false, place, &at.key(name), errors));
    let at = path.field("items");
    if let Some(items) = s.sub("items") {
        node(items, false, place, &at, errors);
    }
    s.list("items").for_each(|(index, v)| node(v, false, place, &at.index(index), errors));
    let at = path.field("dependencies");
    s.map("dependencies").for_each(|(name, v)| node(v, false, place, &at.key(name), errors));
}

fn map_type(s: Raw<'_>, path: &Path<'_>, errors: &mut Errors) {
    let Some(map_type) = s.text_set("x-kubernetes-map-type") else { return };
    must_be("object", "x-kubernetes-map-type", s, path, errors);
    if !matches!(map_type, "atomic" | "granular") {
        let at = path.field("x-kubernetes-map-type");
        errors.not_supported(&at, map_type, &["atomic", "granular"]);
    }
}

fn must_be(kind: &str, because: &str, s: Raw<'_>, path: &Path<'_>, errors: &mut Errors) -> bool {
    let at = path.field("type");
    let why = format!("must be {kind} if {because} is given");
    match s.kind() {
        found if found == kind => return true,
        "" => errors.required(&at, &why),
        found => errors.invalid(&at, format_args!("{found:?}"), &why),
    }
    false
}

fn list_type(s: Raw<'_>, path: &Path<'_>, errors: &mut Errors) {
    let Some(list_type) = s.text_set("x-kubernetes-list-type") else { return };
    let is_list = must_be("array", "x-kubernetes-list-type", s, path, errors);
    if let Some(items) = s.sub("items").filter(|_| is_list && list_type == "set") {
        let member = match items.kind() {
            "array" => "x-kubernetes-list-type",
            "object" => "x-kubernetes-map-type",
            _ => "",
        };
        let atomic =
            items.text_set(member).unwrap_or(if items.kind() == "array" { "atomic" } else { "" });
        if !member.is_empty() && atomic != "atomic" {
            let why = "must be atomic for items of a list of type set";
            errors.invalid(&path.field("items").field(member), format_args!("{atomic:?}"), why);
        }
    }
    if !matches!(list_type, "atomic" | "set" | "map") {
        let at = path.field("x-kubernetes-list-type");
        errors.not_supported(&at, list_type, &["atomic", "set", "map"]);
    }
}

fn keys(s: Raw<'_>, path: &Path<'_>, errors: &mut Errors) {
    let list_type = s.text_set("x-kubernetes-list-type");
    let keys: Vec<&str> = s.strings("x-kubernetes-list-map-keys").collect();
    let at = path.field("x-kubernetes-list-type");
    match list_type {
        _ if keys.is_empty() => {}
        None => errors.required(&at, "must be map if x-kubernetes-list-map-keys is given"),
        Some("map") => {}
        Some(other) => {
            let why = "must be map if x-kubernetes-list-map-keys is given";
            errors.invalid(&at, format_args!("{other:?}"), why);
        }
    }
    if list_type == Some("map") {
        map_keys(s, &keys, path, errors);
    }
    if let Some(items) = s.sub("items").filter(|_| matches!(list_type, Some("map" | "set"))) {
        identities(items, &keys, list_type == Some("map"), &path.field("items"), errors);
    }
}

fn map_keys(s: Raw<'_>, keys: &[&str], path: &Path<'_>, errors: &mut Errors) {
    let at = path.field("x-kubernetes-list-map-keys");
    if keys.is_empty() {
        errors.required(&at, "must not be empty for a list of type map");
    }
    let list = path.field("items");
    let Some(items) = s.sub("items") else {
        if s.get("items").is_some() {
            errors.invalid(&list, "\"\"", "must be one schema for a list of type map");
        } else {
            errors.required(&list, "must be given for a list of type map");
        }
        return;
    };
    if items.kind() != "object" {
        let why = "must be object for items of a list of type map";
        errors.invalid(&list.field("type"), format_args!("{:?}", items.kind()), why);
        return;
    }
    let properties = list.field("properties");
    for (index, key) in keys.iter().enumerate() {
        match items.property(key).map(Raw::kind) {
            Some(kind @ ("array" | "object")) => {
                let of = properties.key(key);
                let why = "must be a scalar, since it is a key";
                errors.invalid(&of.field("type"), format_args!("{kind:?}"), why);
            }
            Some(_) => {}
            None => errors.invalid(&at, format_args!("{keys:?}"), "must name members of the items"),
        }
        if keys.iter().take(index).any(|other| other == key) {
            errors.invalid(&at, format_args!("{keys:?}"), "must not name a member twice");
        }
    }
}

/// What tells items apart is never null, and keys are always there.
fn identities(items: Raw<'_>, keys: &[&str], map: bool, path: &Path<'_>, errors: &mut Errors) {
    if items.flag("nullable") {
        errors.forbidden(&path.field("nullable"), "items of sets and maps must not be null");
    }
    let properties = path.field("properties");
    for key in keys.iter().filter(|_| map) {
        let Some(property) = items.property(key) else { continue };
        let at = properties.key(key);
        if property.get("default").is_none() && !items.strings("required").any(|r| r == *key) {
            errors.required(&at.field("default"), "a key must be required or have a default");
        }
        if property.flag("nullable") {
            errors.forbidden(&at.field("nullable"), "a key must not be null");
        }
    }
}

fn rules(s: Raw<'_>, path: &Path<'_>, errors: &mut Errors) {
    let list = path.field("x-kubernetes-validations");
    for (index, rule) in s.list("x-kubernetes-validations") {
        let at = list.index(index);
        expression(rule, &at, errors);
        if let Some(reason) = rule.text_set("reason").filter(|reason| !REASONS.contains(reason)) {
            errors.not_supported(&at.field("reason"), reason, &REASONS);
        }
        let field_path = rule.text("fieldPath");
        let of = at.field("fieldPath");
        if !field_path.is_empty() && field_path.trim().is_empty() {
            errors.invalid(&of, format_args!("{field_path:?}"), "must not be blank");
        }
        if has_break(field_path) {
            errors.invalid(&of, format_args!("{field_path:?}"), "must not have line breaks");
        }
        if !field_path.is_empty()
            && let Err(why) = path::follow(field_path, s, true)
        {
            let why = format!("must be a path that the schema knows, but {why}");
            errors.invalid(&of, format_args!("{field_path:?}"), &why);
        }
    }
}

fn expression(rule: Raw<'_>, at: &Path<'_>, errors: &mut Errors) {
    let (text, message) = (rule.text("rule").trim(), rule.text("message"));
    let of_message = at.field("message");
    if text.is_empty() {
        errors.required(&at.field("rule"), "an expression is needed");
    } else if !message.is_empty() && message.trim().is_empty() {
        errors.invalid(&of_message, format_args!("{message:?}"), "must not be blank");
    } else if has_break(message.trim()) {
        errors.invalid(&of_message, format_args!("{message:?}"), "must not have line breaks");
    } else if has_break(text) && message.is_empty() {
        errors.required(&of_message, "is needed for a rule of more than one line");
    }
    let computed = rule.text("messageExpression");
    if !computed.is_empty() && computed.trim().is_empty() {
        errors.required(&at.field("messageExpression"), "must not be blank");
    }
}

fn has_break(text: &str) -> bool {
    text.contains(['\n', '\r'])
}
