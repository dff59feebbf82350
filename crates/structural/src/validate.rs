//! Whether values meet a schema, in the order and with the reasons that clients know.
//!
//! The walk is that of upstream's validator: at each value the type, then the logical schemas, text,
//! numbers, lists, enumerations and members. Rules in the expression language, repeated items and
//! metadata are judged elsewhere.

mod logic;
mod number;

use serde_json::Value;
use tenure_machinery::field::FieldError;
use tenure_machinery::{Errors, Object, Path, Reason};

use crate::prune::is_meta;
use crate::ratchet::Old;
use crate::schema::{Additional, JsonType, Schema, ValueConstraints};

/// How many causes one object may have; the rest would tell nobody anything.
const CAUSES_MAX: usize = 1_000;

/// What is wrong with a whole object; on update, unchanged parts are not blamed.
pub fn validate(object: &Object, old: Option<&Object>, schema: &Schema, errors: &mut Errors) {
    let looks_at_the_whole = |limits: &ValueConstraints| {
        limits.min_properties.is_some()
            || limits.not.is_some()
            || !limits.choices.is_empty()
            || [&limits.all_of, &limits.any_of, &limits.one_of].iter().any(|list| !list.is_empty())
    };
    if schema.limits.as_deref().is_some_and(looks_at_the_whole) {
        // Few schemas judge the object as a value, so only they pay for a copy.
        let value = Value::Object(object.clone());
        let old = old.map(|old| Value::Object(old.clone()));
        return validate_value(&value, old.as_ref(), schema, &Path::Root, errors);
    }
    let walk = SchemaValidator { base: &Path::Root };
    let mut out = ValidationOutcome::default();
    walk.object(
        object,
        &Value::Null,
        old.map(|old| Old::of(old, schema)),
        schema,
        &Path::Root,
        &mut out,
    );
    if old.is_none_or(|old| old != object) {
        out.report(errors);
    }
}

/// What is wrong with one value, such as a status or a default.
pub fn validate_value(
    value: &Value,
    old: Option<&Value>,
    schema: &Schema,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    let walk = SchemaValidator { base: path };
    let old = old.map(|old| Old::new(old, schema));
    walk.ratcheted(value, old, schema, path).report(errors);
}

/// What a walk below one value found.
#[derive(Default)]
struct ValidationOutcome {
    causes: Vec<FieldError>,
    /// How many checks held: the alternative with the most is the one explained.
    matches: usize,
}

impl ValidationOutcome {
    fn add(&mut self, reason: Reason, field: String, message: String) {
        if self.causes.len() < CAUSES_MAX {
            self.causes.push(FieldError { reason, message, field });
        }
    }

    fn merge(&mut self, other: ValidationOutcome) {
        self.matches += other.matches;
        let room = CAUSES_MAX.saturating_sub(self.causes.len());
        self.causes.extend(other.causes.into_iter().take(room));
    }

    /// Merges what may repeat causes that are known already.
    fn merge_new(&mut self, other: ValidationOutcome) {
        self.matches += other.matches;
        for cause in other.causes {
            if self.causes.len() < CAUSES_MAX && !self.causes.contains(&cause) {
                self.causes.push(cause);
            }
        }
    }

    fn is_valid(&self) -> bool {
        self.causes.is_empty()
    }

    fn report(self, errors: &mut Errors) {
        for cause in self.causes {
            errors.push(cause.reason, &Path::Root.field(&cause.field), cause.message);
        }
    }
}

struct SchemaValidator<'p> {
    /// Where causes about more than one value stand.
    base: &'p Path<'p>,
}

/// How upstream writes the path of a cause that has none.
fn shown(path: &Path<'_>) -> String {
    if matches!(path, Path::Root) { "<nil>".to_owned() } else { path.to_string() }
}

/// A value in a message: large ones are cut.
pub(crate) fn brief(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(256) {
        None => text,
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
    }
}

impl SchemaValidator<'_> {
    fn invalid(&self, path: &Path<'_>, value: &Value, why: &str, out: &mut ValidationOutcome) {
        let message = format!("Invalid value: {}: {path} in body {why}", brief(value));
        out.add(Reason::Invalid, shown(path), message);
    }

    fn wrong_type(
        &self,
        path: &Path<'_>,
        value: &Value,
        wanted: &str,
        out: &mut ValidationOutcome,
    ) {
        let message = format!(
            "Invalid value: {}: {path} in body must be of type {wanted}, not {}",
            brief(value),
            type_of(value)
        );
        out.add(Reason::TypeInvalid, shown(path), message);
    }

    /// A cause that upstream gives no path of its own.
    fn whole(&self, message: String, out: &mut ValidationOutcome) {
        out.add(Reason::Invalid, shown(self.base), format!("Invalid value: \"\": {message}"));
    }

    /// Validates, and forgives what has not changed.
    fn ratcheted(
        &self,
        value: &Value,
        old: Option<Old<'_>>,
        schema: &Schema,
        path: &Path<'_>,
    ) -> ValidationOutcome {
        let mut out = self.value(value, old, schema, path);
        if !out.is_valid() && old.is_some_and(|old| old.unchanged(value)) {
            out.causes.clear();
        }
        out
    }

    fn value(
        &self,
        value: &Value,
        old: Option<Old<'_>>,
        schema: &Schema,
        path: &Path<'_>,
    ) -> ValidationOutcome {
        let mut out = ValidationOutcome::default();
        let empty = ValueConstraints::default();
        let limits = schema.limits.as_deref().unwrap_or(&empty);
        if value.is_null() {
            self.null(value, schema, limits, path, &mut out);
            return out;
        }
        if schema.kind.is_some() || schema.int_or_string || limits.format.is_some() {
            self.check_type(value, schema, path, &mut out);
        }
        self.logic(value, old, limits, path, &mut out);
        match value {
            Value::String(text) => self.text(text, value, limits, path, &mut out),
            Value::Number(_) => self.number(value, schema, limits, path, &mut out),
            Value::Array(items) => self.items(items, value, old, schema, path, &mut out),
            _ => {}
        }
        self.choice(value, limits, path, &mut out);
        out.matches += 2;
        if let Value::Object(map) = value {
            self.object(map, value, old, schema, path, &mut out);
        }
        out
    }

    /// Null is told apart by type and enumeration only.
    fn null(
        &self,
        value: &Value,
        schema: &Schema,
        limits: &ValueConstraints,
        path: &Path<'_>,
        out: &mut ValidationOutcome,
    ) {
        match wanted(schema) {
            Some(wanted) if !schema.nullable => self.wrong_type(path, value, wanted, out),
            _ => out.matches += 1,
        }
        self.choice(value, limits, path, out);
    }

    fn check_type(
        &self,
        value: &Value,
        schema: &Schema,
        path: &Path<'_>,
        out: &mut ValidationOutcome,
    ) {
        let fits = if schema.int_or_string {
            value.is_string() || number::is_integer(value)
        } else {
            match schema.kind {
                None => true,
                Some(JsonType::Object) => value.is_object(),
                Some(JsonType::Array) => value.is_array(),
                Some(JsonType::String) => value.is_string(),
                Some(JsonType::Boolean) => value.is_boolean(),
                Some(JsonType::Number) => value.is_number(),
                Some(JsonType::Integer) => number::is_integer(value),
            }
        };
        out.matches += 1 + usize::from(fits);
        if !fits {
            self.wrong_type(path, value, wanted(schema).unwrap_or_default(), out);
        }
    }

    fn text(
        &self,
        text: &str,
        value: &Value,
        limits: &ValueConstraints,
        path: &Path<'_>,
        out: &mut ValidationOutcome,
    ) {
        let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
        if let Some(most) = limits.max_length.filter(|most| length > *most) {
            let message = format!("Too long: may not be more than {most} bytes");
            out.add(Reason::TooLong, shown(path), message);
        } else if let Some(least) = limits.min_length.filter(|least| length < *least) {
            let why = format!("must have at least {least} characters");
            self.invalid(path, value, &why, out);
        } else if let Some(pattern) = limits.pattern.as_ref().filter(|p| !p.matches(text)) {
            self.invalid(path, value, &format!("must match '{}'", pattern.text()), out);
        }
        if let Some(format) = limits.format.filter(|format| !format.holds(text)) {
            self.wrong_type(path, value, format.as_str(), out);
        }
        out.matches += 1 + usize::from(limits.format.is_some());
    }

    fn items(
        &self,
        items: &[Value],
        value: &Value,
        old: Option<Old<'_>>,
        schema: &Schema,
        path: &Path<'_>,
        out: &mut ValidationOutcome,
    ) {
        if let Some(schema) = &schema.items {
            let old = old.and_then(Old::items);
            for (index, item) in items.iter().enumerate() {
                let old = old.as_ref().and_then(|old| old.find(item));
                out.merge(self.ratcheted(item, old, schema, &path.index(index)));
            }
        }
        if let Some(limits) = schema.limits.as_deref() {
            let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
            if let Some(least) = limits.min_items.filter(|least| length < *least) {
                self.invalid(path, value, &format!("must have at least {least} items"), out);
            }
            self.too_many(length, limits.max_items, path, out);
        }
        out.matches += 2;
    }

    fn too_many(
        &self,
        length: i64,
        most: Option<i64>,
        path: &Path<'_>,
        out: &mut ValidationOutcome,
    ) {
        if let Some(most) = most.filter(|most| length > *most) {
            let message = format!("Too many: {length}: must have at most {most} items");
            out.add(Reason::TooMany, shown(path), message);
        }
    }

    fn choice(
        &self,
        value: &Value,
        limits: &ValueConstraints,
        path: &Path<'_>,
        out: &mut ValidationOutcome,
    ) {
        if limits.choices.is_empty() || limits.choices.iter().any(|c| number::same(value, c)) {
            return;
        }
        let list: Vec<String> = limits
            .choices
            .iter()
            .map(|choice| match choice {
                Value::String(text) => format!("{text:?}"),
                other => format!("{:?}", other.to_string()),
            })
            .collect();
        let message =
            format!("Unsupported value: {}: supported values: {}", brief(value), list.join(", "));
        out.add(Reason::NotSupported, shown(path), message);
    }

    fn object(
        &self,
        map: &Object,
        value: &Value,
        old: Option<Old<'_>>,
        schema: &Schema,
        path: &Path<'_>,
        out: &mut ValidationOutcome,
    ) {
        let limits = schema.limits.as_deref();
        let length = i64::try_from(map.len()).unwrap_or(i64::MAX);
        if let Some(least) = limits.and_then(|l| l.min_properties).filter(|least| length < *least) {
            self.invalid(path, value, &format!("must have at least {least} members"), out);
        }
        self.too_many(length, limits.and_then(|l| l.max_properties), path, out);
        for (name, value) in map.iter().filter(|(name, _)| !schema.properties.contains_key(*name)) {
            match &schema.additional {
                Additional::Bool(false) => {
                    self.invalid(path, value, &format!("must not have a member {name:?}"), out);
                }
                Additional::Schema(schema) => {
                    let old = old.and_then(|old| old.member(name));
                    out.merge(self.ratcheted(value, old, schema, &path.field(name)));
                }
                _ => {}
            }
        }
        for (name, schema) in &schema.properties {
            let Some(value) = map.get(name) else { continue };
            // Both objects were read in the same version, so changes of these two do not show.
            let hidden = matches!(path, Path::Root) && is_meta(name) && name != "metadata";
            let old = old.filter(|_| !hidden).and_then(|old| old.member(name));
            out.merge(self.ratcheted(value, old, schema, &path.field(name)));
        }
        for name in limits.map_or(&[][..], |limits| &limits.required) {
            if !map.contains_key(name) {
                let field = path.field(name).to_string();
                out.add(Reason::Required, field, "Required value".to_owned());
            }
        }
        out.matches += 1;
    }
}

fn wanted(schema: &Schema) -> Option<&'static str> {
    if schema.int_or_string {
        return Some("integer,string");
    }
    schema.kind.map(JsonType::as_str)
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) if number::is_integer(value) => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
