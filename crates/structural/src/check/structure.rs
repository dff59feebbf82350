//! What makes a schema structural: every value has one place that says its type.
//!
//! Causes are sorted by their text, so that the order of members does not matter.

use tenure_machinery::{Errors, Path};

use crate::pattern;
use crate::raw::{Raw, RawAdditional};

#[derive(Clone, Copy, PartialEq, Eq)]
enum SchemaPosition {
    Root,
    Item,
    Field,
}

/// The first keyword that no structural schema can be made of.
pub(super) fn unsupported(schema: Raw<'_>) -> Option<String> {
    const NEVER: [&str; 7] = [
        "id",
        "$schema",
        "$ref",
        "patternProperties",
        "dependencies",
        "additionalItems",
        "definitions",
    ];
    let mut found = None;
    crate::raw::walk(schema, &mut |schema| {
        if found.is_some() {
            return;
        }
        found =
            schema.members().find(|m| NEVER.contains(m)).map(|m| format!("{m} is not supported"));
        if found.is_none() && schema.list("items").next().is_some() {
            found = Some("items must be one schema, not a list".to_owned());
        }
        let preserve = schema.get("x-kubernetes-preserve-unknown-fields");
        if found.is_none() && preserve.and_then(serde_json::Value::as_bool) == Some(false) {
            found = Some("x-kubernetes-preserve-unknown-fields must be true or absent".to_owned());
        }
    });
    found
}

/// Adds what is not structural; answers whether everything is.
pub(super) fn check(schema: Raw<'_>, path: &Path<'_>, errors: &mut Errors) -> bool {
    let mut found = Errors::new();
    invariants(schema, SchemaPosition::Root, path, &mut found);
    complete(schema, schema, path, path, &mut found);
    let mut causes = found.into_causes();
    causes.sort_by(|a, b| (&a.field, &a.message).cmp(&(&b.field, &b.message)));
    let clean = causes.is_empty();
    for cause in causes {
        errors.push(cause.reason, &Path::Root.field(&cause.field), cause.message);
    }
    clean
}

fn invariants(s: Raw<'_>, level: SchemaPosition, path: &Path<'_>, errors: &mut Errors) {
    match s.sub("items") {
        Some(items) => invariants(items, SchemaPosition::Item, &path.field("items"), errors),
        None if s.kind() == "array" => errors.required(&path.field("items"), "must be given"),
        None => {}
    }
    let properties = path.field("properties");
    for (name, property) in s.map("properties") {
        invariants(property, SchemaPosition::Field, &properties.key(name), errors);
    }
    if let Some(additional) = s.additional() {
        let at = path.field("additionalProperties");
        if level == SchemaPosition::Root {
            errors.forbidden(&at, "must not be used at the root");
        }
        if let RawAdditional::Schema(schema) = additional {
            invariants(schema, SchemaPosition::Field, &at, errors);
        }
    }
    extensions(s, path, errors);
    let any = is_int_or_string(s);
    let all = s.list("allOf").next().is_some_and(|(_, first)| is_int_or_string(first));
    limits(s, any, all, path, errors);
    types(s, level, path, errors);
    resource(s, level, path, errors);
}

fn extensions(s: Raw<'_>, path: &Path<'_>, errors: &mut Errors) {
    if !s.flag("x-kubernetes-int-or-string") {
        return;
    }
    for member in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
        if s.flag(member) {
            let why = "must be false if x-kubernetes-int-or-string is true";
            errors.invalid(&path.field(member), true, why);
        }
    }
}

fn types(s: Raw<'_>, level: SchemaPosition, path: &Path<'_>, errors: &mut Errors) {
    let at = path.field("type");
    let embedded = s.flag("x-kubernetes-embedded-resource");
    let free =
        s.flag("x-kubernetes-int-or-string") || s.flag("x-kubernetes-preserve-unknown-fields");
    match s.kind() {
        "" if embedded => errors.required(&at, "must be object for an embedded resource"),
        kind if embedded && kind != "object" => {
            let why = "must be object for an embedded resource";
            errors.invalid(&at, format_args!("{kind:?}"), why);
        }
        "" if !free => errors.required(
            &at,
            match level {
                SchemaPosition::Root => "must not be empty at the root",
                SchemaPosition::Item => "must not be empty for items of a list",
                SchemaPosition::Field => "must not be empty for members of an object",
            },
        ),
        _ => {}
    }
    if embedded && s.additional().is_some() {
        let why = "must not be used in an embedded resource";
        errors.forbidden(&path.field("additionalProperties"), why);
    }
    if level == SchemaPosition::Root && !matches!(s.kind(), "" | "object") {
        errors.invalid(&at, format_args!("{:?}", s.kind()), "must be object at the root");
    }
}

/// apiVersion, kind and metadata are given; a schema may hardly restrict them.
fn resource(s: Raw<'_>, level: SchemaPosition, path: &Path<'_>, errors: &mut Errors) {
    let embedded = s.flag("x-kubernetes-embedded-resource");
    let is_resource = level == SchemaPosition::Root || embedded;
    let properties = path.field("properties");
    for (name, wanted) in [("kind", "string"), ("apiVersion", "string"), ("metadata", "object")] {
        if let Some(found) = s.property(name).filter(|found| is_resource && found.kind() != wanted)
        {
            let at = properties.key(name);
            let why = format!("must be {wanted}");
            errors.invalid(&at.field("type"), format_args!("{:?}", found.kind()), &why);
        }
    }
    if let Some(metadata) = s.property("metadata").filter(|_| level == SchemaPosition::Root)
        && restricts_metadata(metadata)
    {
        let why = "may restrict only name and generateName, the rest is given";
        errors.forbidden(&properties.key("metadata"), why);
    }
    let preserve = s.flag("x-kubernetes-preserve-unknown-fields");
    if embedded && !preserve && !s.has_properties() {
        errors.required(
            &properties,
            "must not be empty for an embedded resource without \
             x-kubernetes-preserve-unknown-fields",
        );
    }
}

fn restricts_metadata(metadata: Raw<'_>) -> bool {
    metadata.members().any(|member| !matches!(member, "type" | "default" | "properties"))
        || metadata.map("properties").any(|(name, _)| !matches!(name, "name" | "generateName"))
}

/// The one place where types may stand in `anyOf`.
fn is_int_or_string(s: Raw<'_>) -> bool {
    let alternatives: Vec<Raw<'_>> = s.list("anyOf").map(|(_, schema)| schema).collect();
    let only = |schema: &Raw<'_>, kind| schema.kind() == kind && schema.members().count() == 1;
    matches!(alternatives.as_slice(), [a, b] if only(a, "integer") && only(b, "string"))
}

fn limits(s: Raw<'_>, skip_any: bool, skip_first: bool, path: &Path<'_>, errors: &mut Errors) {
    if !skip_any {
        let at = path.field("anyOf");
        s.list("anyOf").for_each(|(index, v)| nested(v, false, &at.index(index), errors));
    }
    let at = path.field("allOf");
    for (index, v) in s.list("allOf") {
        nested(v, skip_first && index == 0, &at.index(index), errors);
    }
    let at = path.field("oneOf");
    s.list("oneOf").for_each(|(index, v)| nested(v, false, &at.index(index), errors));
    if let Some(not) = s.sub("not") {
        nested(not, false, &path.field("not"), errors);
    }
    let pattern = s.text("pattern");
    if !pattern.is_empty()
        && let Err(why) = pattern::compile(pattern)
    {
        let why = format!("must be a regular expression, but {why}");
        errors.invalid(&path.field("pattern"), format_args!("{pattern:?}"), &why);
    }
}

/// Below a logical keyword a schema may constrain but say nothing about structure.
fn nested(v: Raw<'_>, skip_any: bool, path: &Path<'_>, errors: &mut Errors) {
    const FORBIDDEN: [&str; 12] = [
        "type",
        "additionalProperties",
        "default",
        "title",
        "description",
        "nullable",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
        "x-kubernetes-map-type",
    ];
    limits(v, skip_any, false, path, errors);
    if let Some(items) = v.sub("items") {
        nested(items, false, &path.field("items"), errors);
    }
    let properties = path.field("properties");
    for (name, property) in v.map("properties") {
        nested(property, false, &properties.key(name), errors);
    }
    for member in FORBIDDEN {
        let present = match member {
            "default" => v.get(member).is_some(),
            "additionalProperties" => match v.additional() {
                Some(RawAdditional::Bool(allowed)) => allowed,
                other => other.is_some(),
            },
            _ => v.members().any(|m| m == member),
        };
        if present {
            errors.forbidden(&path.field(member), "must not be set here for a structural schema");
        }
    }
    if !v.values("x-kubernetes-validations").is_empty() {
        let why = "must not be set here for a structural schema";
        errors.forbidden(&path.field("x-kubernetes-validations"), why);
    }
    if v.property("metadata").is_some() {
        errors.forbidden(&properties.key("metadata"), "must not be given in a nested schema");
    }
}

/// Whatever a logical keyword speaks of must exist in the structure.
fn complete(v: Raw<'_>, s: Raw<'_>, at: &Path<'_>, from: &Path<'_>, errors: &mut Errors) {
    if let Some(not) = v.sub("not") {
        complete_nested(not, Some(s), at, &from.field("not"), errors);
    }
    for member in ["allOf", "anyOf", "oneOf"] {
        let list = from.field(member);
        for (index, schema) in v.list(member) {
            complete_nested(schema, Some(s), at, &list.index(index), errors);
        }
    }
}

fn complete_nested(
    v: Raw<'_>,
    s: Option<Raw<'_>>,
    at: &Path<'_>,
    from: &Path<'_>,
    errors: &mut Errors,
) {
    let Some(s) = s else {
        errors.required(at, &format!("because {from} speaks of it"));
        return;
    };
    complete(v, s, at, from, errors);
    if let Some(items) = v.sub("items") {
        complete_nested(items, s.sub("items"), &at.field("items"), &from.field("items"), errors);
    }
    let (properties, spoken) = (at.field("properties"), from.field("properties"));
    for (name, schema) in v.map("properties") {
        complete_nested(schema, s.property(name), &properties.key(name), &spoken.key(name), errors);
    }
}
