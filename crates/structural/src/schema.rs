//! The schema of one version of a custom kind, as a tree that is quick to walk.
//!
//! Built once per definition by [`Schema::parse`]; never changed afterwards, and it knows nothing of
//! the objects it is used on.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use crate::format::Format;
use crate::parse::{self, SchemaError};
use crate::pattern::SchemaPattern;

/// How deeply a schema may nest, counted in JSON levels.
pub const DEPTH_MAX: usize = 160;
/// How many JSON values a schema may consist of.
pub const NODES_MAX: usize = 500_000;
/// How many patterns one schema may have.
pub const PATTERNS_MAX: usize = 4_000;

/// What a value must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of the schema language")]
pub enum JsonType {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

impl JsonType {
    /// The type of that name.
    #[must_use]
    pub fn named(text: &str) -> Option<JsonType> {
        Some(match text {
            "object" => JsonType::Object,
            "array" => JsonType::Array,
            "string" => JsonType::String,
            "integer" => JsonType::Integer,
            "number" => JsonType::Number,
            "boolean" => JsonType::Boolean,
            _ => return None,
        })
    }

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            JsonType::Object => "object",
            JsonType::Array => "array",
            JsonType::String => "string",
            JsonType::Integer => "integer",
            JsonType::Number => "number",
            JsonType::Boolean => "boolean",
        }
    }
}

/// How the items of a list relate to one another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListType {
    /// The list is one value.
    #[default]
    Atomic,
    /// Items are unique.
    Set,
    /// Items are unique in their keys.
    Map,
}

/// What members beyond `properties` may be.
#[derive(Debug, Default)]
pub enum Additional {
    /// Nothing is said.
    #[default]
    Unsaid,
    /// All or none.
    Bool(bool),
    /// Whatever this schema allows.
    Schema(Box<Schema>),
}

/// One node of the tree.
#[derive(Debug, Default)]
pub struct Schema {
    /// What the value must be, unless that is free.
    pub kind: Option<JsonType>,
    /// Whether null is a value.
    pub nullable: bool,
    /// What stands for a missing value.
    pub default: Option<Value>,
    /// Members by name.
    pub properties: BTreeMap<String, Schema>,
    /// The other members.
    pub additional: Additional,
    /// The items of a list.
    pub items: Option<Box<Schema>>,
    /// Whether unknown members stay.
    pub preserve_unknown: bool,
    /// Whether the value is an object with apiVersion, kind and metadata.
    pub embedded: bool,
    /// Whether the value is an integer or a string.
    pub int_or_string: bool,
    /// How items relate.
    pub list_type: ListType,
    /// The keys of a list of type map.
    pub list_map_keys: Vec<String>,
    /// Whether the members of an object are one value.
    pub map_atomic: bool,
    /// Rules in the expression language, as written.
    pub rules: Vec<ValidationRule>,
    /// What else values must meet; most nodes have none.
    pub(crate) limits: Option<Box<ValueConstraints>>,
}

/// What values must meet besides their type.
#[derive(Debug, Default)]
pub(crate) struct ValueConstraints {
    pub(crate) format: Option<Format>,
    pub(crate) pattern: Option<SchemaPattern>,
    pub(crate) choices: Vec<Value>,
    pub(crate) required: Vec<String>,
    pub(crate) maximum: Option<f64>,
    pub(crate) exclusive_maximum: bool,
    pub(crate) minimum: Option<f64>,
    pub(crate) exclusive_minimum: bool,
    pub(crate) multiple_of: Option<f64>,
    pub(crate) max_length: Option<i64>,
    pub(crate) min_length: Option<i64>,
    pub(crate) max_items: Option<i64>,
    pub(crate) min_items: Option<i64>,
    pub(crate) max_properties: Option<i64>,
    pub(crate) min_properties: Option<i64>,
    pub(crate) all_of: Vec<Schema>,
    pub(crate) any_of: Vec<Schema>,
    pub(crate) one_of: Vec<Schema>,
    pub(crate) not: Option<Box<Schema>>,
}

/// One entry of `x-kubernetes-validations`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValidationRule {
    /// The expression.
    pub rule: String,
    /// What to say when it fails.
    pub message: String,
    /// The expression that says it.
    pub message_expression: String,
    /// The reason of the cause, such as `FieldValueInvalid`.
    pub reason: Option<String>,
    /// Where the cause stands, relative to the value.
    pub field_path: String,
    /// Whether the rule also runs without an old value.
    pub optional_old_self: Option<bool>,
}

/// One step from a schema to a schema inside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchemaStep {
    /// Into the property of that name.
    Property(String),
    /// Into the items.
    Items,
    /// Into the schema of all other members.
    Additional,
}

impl fmt::Display for SchemaStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SchemaStep::Property(name) => write!(f, "properties[{name}]"),
            SchemaStep::Items => f.write_str("items"),
            SchemaStep::Additional => f.write_str("additionalProperties"),
        }
    }
}

/// A rule and where it stands.
#[derive(Clone, Debug)]
pub struct CelRule<'a> {
    /// The way from the root of the schema.
    pub path: Vec<SchemaStep>,
    /// Its place among the rules of its node.
    pub index: usize,
    /// The node that carries it: the type of `self`.
    pub schema: &'a Schema,
    /// The rule.
    pub rule: &'a ValidationRule,
}

impl CelRule<'_> {
    /// Where causes about the rule stand, relative to `openAPIV3Schema`.
    #[must_use]
    pub fn field(&self) -> String {
        let mut text: String = self.path.iter().map(|step| format!("{step}.")).collect();
        text.push_str(&format!("x-kubernetes-validations[{}]", self.index));
        text
    }
}

impl Schema {
    /// Reads `openAPIV3Schema`.
    ///
    /// # Errors
    ///
    /// Says what cannot be read: too deep, too large, or a member of the wrong type. Whether the
    /// schema is legal is the question of [`crate::check::check`].
    pub fn parse(value: &Value) -> Result<Schema, SchemaError> {
        parse::parse(value)
    }

    /// The schema of a member.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<&Schema> {
        match (self.properties.get(name), &self.additional) {
            (Some(property), _) => Some(property),
            (None, Additional::Schema(schema)) => Some(schema),
            (None, _) => None,
        }
    }

    /// Every rule in the tree, parents before children.
    pub fn cel_rules(&self) -> impl Iterator<Item = CelRule<'_>> {
        let mut found = Vec::new();
        self.collect_rules(&mut Vec::new(), &mut found);
        found.into_iter()
    }

    fn collect_rules<'a>(&'a self, path: &mut Vec<SchemaStep>, found: &mut Vec<CelRule<'a>>) {
        for (index, rule) in self.rules.iter().enumerate() {
            found.push(CelRule { path: path.clone(), index, schema: self, rule });
        }
        let mut below = |step: SchemaStep, schema: &'a Schema| {
            path.push(step);
            schema.collect_rules(path, found);
            path.pop();
        };
        for (name, schema) in &self.properties {
            below(SchemaStep::Property(name.clone()), schema);
        }
        if let Some(items) = &self.items {
            below(SchemaStep::Items, items);
        }
        if let Additional::Schema(schema) = &self.additional {
            below(SchemaStep::Additional, schema);
        }
    }

    /// The most items a list, members a map or characters a string may have, where that is said.
    #[must_use]
    pub fn size_max(&self) -> Option<i64> {
        let limits = self.limits.as_deref()?;
        match self.kind {
            Some(JsonType::Array) => limits.max_items,
            Some(JsonType::Object) => limits.max_properties,
            Some(JsonType::String) => limits.max_length,
            _ => None,
        }
    }

    /// The format, if it is one that is enforced.
    #[must_use]
    pub fn format(&self) -> Option<&'static str> {
        self.limits.as_deref().and_then(|limits| limits.format).map(Format::as_str)
    }

    /// Whether a member must be present.
    #[must_use]
    pub fn requires(&self, name: &str) -> bool {
        self.limits.as_deref().is_some_and(|limits| limits.required.iter().any(|r| r == name))
    }

    /// The values an enumeration allows; empty when there is none.
    #[must_use]
    pub fn choices(&self) -> &[Value] {
        self.limits.as_deref().map_or(&[], |limits| &limits.choices)
    }
}
