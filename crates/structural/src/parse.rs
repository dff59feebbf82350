//! From `openAPIV3Schema` to [`Schema`], within bounds.
//!
//! Reading judges types and sizes only; what a structural schema may say is decided in
//! [`crate::check`].

use std::fmt;

use serde_json::Value;

use crate::format::Format;
use crate::pattern::SchemaPattern;
use crate::raw::{Raw, RawAdditional};
use crate::schema::{
    Additional, DEPTH_MAX, JsonType, ListType, NODES_MAX, PATTERNS_MAX, Schema, ValidationRule,
    ValueConstraints,
};

/// Why a schema cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaError(String);

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SchemaError {}

pub(crate) fn parse(value: &Value) -> Result<Schema, SchemaError> {
    bounds(value)?;
    SchemaReader { patterns: 0 }.schema(value)
}

/// Whether a schema is small enough to be walked at all.
pub(crate) fn bounds(value: &Value) -> Result<(), SchemaError> {
    let mut nodes = 0;
    measure(value, 0, &mut nodes)
}

fn measure(value: &Value, depth: usize, nodes: &mut usize) -> Result<(), SchemaError> {
    *nodes += 1;
    if depth > DEPTH_MAX {
        return Err(SchemaError(format!("is nested more than {DEPTH_MAX} levels deep")));
    }
    if *nodes > NODES_MAX {
        return Err(SchemaError(format!("consists of more than {NODES_MAX} values")));
    }
    match value {
        Value::Array(items) => items.iter().try_for_each(|v| measure(v, depth + 1, nodes)),
        Value::Object(map) => map.values().try_for_each(|v| measure(v, depth + 1, nodes)),
        _ => Ok(()),
    }
}

struct SchemaReader {
    patterns: usize,
}

impl SchemaReader {
    fn schema(&mut self, value: &Value) -> Result<Schema, SchemaError> {
        let raw = Raw::new(value).ok_or_else(|| SchemaError("must be an object".to_owned()))?;
        let kind = match raw.kind() {
            "" => None,
            name => Some(
                JsonType::named(name).ok_or_else(|| SchemaError(format!("no type {name:?}")))?,
            ),
        };
        let int_or_string = raw.flag("x-kubernetes-int-or-string");
        Ok(Schema {
            kind,
            nullable: raw.flag("nullable"),
            default: raw.get("default").cloned(),
            properties: self.properties(raw)?,
            additional: match raw.additional() {
                None => Additional::Unsaid,
                Some(RawAdditional::Bool(allowed)) => Additional::Bool(allowed),
                Some(RawAdditional::Schema(_)) => {
                    Additional::Schema(self.required_sub(raw, "additionalProperties")?)
                }
            },
            items: self.sub(raw, "items")?,
            preserve_unknown: raw.flag("x-kubernetes-preserve-unknown-fields"),
            embedded: raw.flag("x-kubernetes-embedded-resource"),
            int_or_string,
            list_type: match raw.text("x-kubernetes-list-type") {
                "set" => ListType::Set,
                "map" => ListType::Map,
                _ => ListType::Atomic,
            },
            list_map_keys: texts(raw, "x-kubernetes-list-map-keys"),
            map_atomic: raw.text("x-kubernetes-map-type") == "atomic",
            rules: raw.list("x-kubernetes-validations").map(|(_, rule)| read_rule(rule)).collect(),
            limits: self.limits(raw, kind.filter(|_| !int_or_string))?,
        })
    }

    fn properties(
        &mut self,
        raw: Raw<'_>,
    ) -> Result<std::collections::BTreeMap<String, Schema>, SchemaError> {
        let Some(value) = raw.get("properties") else { return Ok(Default::default()) };
        let map = value
            .as_object()
            .ok_or_else(|| SchemaError("properties must be an object".to_owned()))?;
        map.iter().map(|(name, value)| Ok((name.clone(), self.schema(value)?))).collect()
    }

    fn sub(&mut self, raw: Raw<'_>, member: &str) -> Result<Option<Box<Schema>>, SchemaError> {
        raw.get(member).map(|value| Ok(Box::new(self.schema(value)?))).transpose()
    }

    fn required_sub(&mut self, raw: Raw<'_>, member: &str) -> Result<Box<Schema>, SchemaError> {
        let missing = || SchemaError(format!("{member} must be an object"));
        self.sub(raw, member)?.ok_or_else(missing)
    }

    fn list(&mut self, raw: Raw<'_>, member: &str) -> Result<Vec<Schema>, SchemaError> {
        raw.values(member).iter().map(|value| self.schema(value)).collect()
    }

    fn limits(
        &mut self,
        raw: Raw<'_>,
        kind: Option<JsonType>,
    ) -> Result<Option<Box<ValueConstraints>>, SchemaError> {
        if !raw.members().any(is_limit) {
            return Ok(None);
        }
        Ok(Some(Box::new(ValueConstraints {
            format: Format::named(raw.text("format"), kind),
            pattern: self.pattern(raw.text("pattern"))?,
            choices: raw.values("enum").to_vec(),
            required: texts(raw, "required"),
            maximum: number(raw, "maximum")?,
            exclusive_maximum: raw.flag("exclusiveMaximum"),
            minimum: number(raw, "minimum")?,
            exclusive_minimum: raw.flag("exclusiveMinimum"),
            multiple_of: number(raw, "multipleOf")?,
            max_length: integer(raw, "maxLength")?,
            min_length: integer(raw, "minLength")?,
            max_items: integer(raw, "maxItems")?,
            min_items: integer(raw, "minItems")?,
            max_properties: integer(raw, "maxProperties")?,
            min_properties: integer(raw, "minProperties")?,
            all_of: self.list(raw, "allOf")?,
            any_of: self.list(raw, "anyOf")?,
            one_of: self.list(raw, "oneOf")?,
            not: self.sub(raw, "not")?,
        })))
    }

    fn pattern(&mut self, text: &str) -> Result<Option<SchemaPattern>, SchemaError> {
        if text.is_empty() {
            return Ok(None);
        }
        self.patterns += 1;
        if self.patterns > PATTERNS_MAX {
            return Err(SchemaError(format!("has more than {PATTERNS_MAX} patterns")));
        }
        Ok(Some(SchemaPattern::new(text)))
    }
}

fn is_limit(member: &str) -> bool {
    const LIMITS: [&str; 19] = [
        "format",
        "pattern",
        "enum",
        "required",
        "maximum",
        "exclusiveMaximum",
        "minimum",
        "exclusiveMinimum",
        "multipleOf",
        "maxLength",
        "minLength",
        "maxItems",
        "minItems",
        "maxProperties",
        "minProperties",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
    ];
    LIMITS.contains(&member)
}

fn texts(raw: Raw<'_>, member: &str) -> Vec<String> {
    raw.strings(member).map(str::to_owned).collect()
}

fn number(raw: Raw<'_>, member: &str) -> Result<Option<f64>, SchemaError> {
    let wrong = || SchemaError(format!("{member} must be a number"));
    raw.get(member).map(|value| value.as_f64().ok_or_else(wrong)).transpose()
}

fn integer(raw: Raw<'_>, member: &str) -> Result<Option<i64>, SchemaError> {
    let wrong = || SchemaError(format!("{member} must be an integer"));
    #[expect(clippy::cast_possible_truncation, reason = "fractions are refused, sizes saturate")]
    let read = |value: &Value| {
        value.as_i64().or_else(|| value.as_f64().filter(|n| n.fract() == 0.0).map(|n| n as i64))
    };
    raw.get(member).map(|value| read(value).ok_or_else(wrong)).transpose()
}

fn read_rule(raw: Raw<'_>) -> ValidationRule {
    let text = |member| raw.text(member).to_owned();
    ValidationRule {
        rule: text("rule"),
        message: text("message"),
        message_expression: text("messageExpression"),
        reason: raw.text_set("reason").map(str::to_owned),
        field_path: text("fieldPath"),
        optional_old_self: raw.get("optionalOldSelf").and_then(Value::as_bool),
    }
}
