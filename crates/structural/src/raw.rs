//! A reader's view of `openAPIV3Schema` as it stands in the definition.
//!
//! Absent, null and empty members read alike, as they do once upstream has decoded them. Nothing is
//! judged here.

use serde_json::Value;
use tenure_machinery::Object;

/// One schema object.
#[derive(Clone, Copy)]
pub(crate) struct Raw<'a>(&'a Object);

/// What `additionalProperties` may be.
#[derive(Clone, Copy)]
pub(crate) enum RawAdditional<'a> {
    Bool(bool),
    Schema(Raw<'a>),
}

impl<'a> Raw<'a> {
    pub(crate) fn new(value: &'a Value) -> Option<Raw<'a>> {
        value.as_object().map(Raw)
    }

    pub(crate) fn get(self, member: &str) -> Option<&'a Value> {
        self.0.get(member).filter(|value| !value.is_null())
    }

    pub(crate) fn text(self, member: &str) -> &'a str {
        self.get(member).and_then(Value::as_str).unwrap_or_default()
    }

    /// The text of a member that is told apart from an absent one.
    pub(crate) fn text_set(self, member: &str) -> Option<&'a str> {
        self.get(member).and_then(Value::as_str)
    }

    pub(crate) fn flag(self, member: &str) -> bool {
        self.get(member).and_then(Value::as_bool).unwrap_or_default()
    }

    pub(crate) fn kind(self) -> &'a str {
        self.text("type")
    }

    pub(crate) fn sub(self, member: &str) -> Option<Raw<'a>> {
        self.get(member).and_then(Raw::new)
    }

    /// The schemas of `allOf`, `anyOf`, `oneOf`, or of `items` given as a list.
    pub(crate) fn list(self, member: &str) -> impl Iterator<Item = (usize, Raw<'a>)> {
        self.values(member)
            .iter()
            .enumerate()
            .filter_map(|(index, value)| Some((index, Raw::new(value)?)))
    }

    pub(crate) fn values(self, member: &str) -> &'a [Value] {
        self.get(member).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn strings(self, member: &str) -> impl Iterator<Item = &'a str> {
        self.values(member).iter().filter_map(Value::as_str)
    }

    /// The schemas of `properties`, `definitions` or `dependencies`, by name.
    pub(crate) fn map(self, member: &str) -> impl Iterator<Item = (&'a str, Raw<'a>)> {
        self.get(member)
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .filter_map(|(name, value)| Some((name.as_str(), Raw::new(value)?)))
    }

    pub(crate) fn property(self, name: &str) -> Option<Raw<'a>> {
        self.get("properties").and_then(|all| all.get(name)).and_then(Raw::new)
    }

    pub(crate) fn has_properties(self) -> bool {
        self.map("properties").next().is_some()
    }

    pub(crate) fn additional(self) -> Option<RawAdditional<'a>> {
        match self.get("additionalProperties")? {
            Value::Bool(allowed) => Some(RawAdditional::Bool(*allowed)),
            Value::Object(schema) => Some(RawAdditional::Schema(Raw(schema))),
            _ => None,
        }
    }

    pub(crate) fn additional_schema(self) -> Option<Raw<'a>> {
        match self.additional()? {
            RawAdditional::Schema(schema) => Some(schema),
            RawAdditional::Bool(_) => None,
        }
    }

    /// The names of all members that say something.
    pub(crate) fn members(self) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(|(_, value)| says(value)).map(|(name, _)| name.as_str())
    }
}

fn says(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(map) => !map.is_empty(),
        _ => true,
    }
}

/// Calls `visit` for every schema reachable from this one, in any position.
pub(crate) fn walk<'a>(schema: Raw<'a>, visit: &mut dyn FnMut(Raw<'a>)) {
    visit(schema);
    for member in ["properties", "definitions", "dependencies", "patternProperties"] {
        schema.map(member).for_each(|(_, sub)| walk(sub, visit));
    }
    for member in ["allOf", "anyOf", "oneOf", "items"] {
        schema.list(member).for_each(|(_, sub)| walk(sub, visit));
    }
    for member in ["items", "not", "additionalProperties", "additionalItems"] {
        if let Some(sub) = schema.sub(member) {
            walk(sub, visit);
        }
    }
}
