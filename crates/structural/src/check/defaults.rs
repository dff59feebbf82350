//! Defaults must be values that the schema itself accepts and does not prune.
//!
//! Defaults below `additionalProperties` are not looked at, as upstream does not.

use serde_json::{Value, json};
use tenure_machinery::{Errors, Path};

use crate::meta;
use crate::prune;
use crate::schema::Schema;
use crate::validate::{brief, validate_value};

/// Where in a resource a default would stand.
#[derive(Clone, Copy)]
struct DefaultContext<'a> {
    /// The resource around it.
    resource: &'a Schema,
    /// The way there.
    way: DefaultPath<'a>,
    /// Whether it is part of apiVersion, kind or metadata.
    in_meta: bool,
}

#[derive(Clone, Copy)]
enum DefaultPath<'a> {
    Root,
    Member(&'a DefaultPath<'a>, &'a str),
    Item(&'a DefaultPath<'a>),
}

/// Adds what is wrong with the defaults of a schema.
pub(super) fn check(schema: &Schema, path: &Path<'_>, errors: &mut Errors) {
    let place = DefaultContext { resource: schema, way: DefaultPath::Root, in_meta: false };
    node(schema, true, place, path, errors);
}

fn node(s: &Schema, root: bool, place: DefaultContext<'_>, path: &Path<'_>, errors: &mut Errors) {
    let resource = root || s.embedded;
    let place = if resource {
        DefaultContext { resource: s, way: DefaultPath::Root, in_meta: false }
    } else {
        place
    };
    if let Some(default) = &s.default {
        let at = path.field("default");
        if place.in_meta {
            in_metadata(default, s, place, &at, errors);
        } else {
            elsewhere(default, s, &at, errors);
        }
    }
    if let Some(items) = &s.items {
        let inner = DefaultContext { way: DefaultPath::Item(&place.way), ..place };
        node(items, false, inner, &path.field("items"), errors);
    }
    let properties = path.field("properties");
    for (name, property) in &s.properties {
        let in_meta = place.in_meta || (resource && prune::is_meta(name));
        let inner = DefaultContext { way: DefaultPath::Member(&place.way, name), in_meta, ..place };
        node(property, false, inner, &properties.key(name), errors);
    }
}

fn elsewhere(default: &Value, s: &Schema, at: &Path<'_>, errors: &mut Errors) {
    let mut pruned = default.clone();
    if !prune::prune_value(&mut pruned, s).is_empty() {
        errors.invalid(at, brief(default), "must not have unknown members");
    }
    let before = errors.causes().len();
    match meta::coerce_value(&mut default.clone(), s, at) {
        Err(fault) => {
            errors.invalid(&Path::Root.field(&fault.field), brief(default), &fault.why);
        }
        Ok(()) => meta::validate_embedded_value(default, s, at, errors),
    }
    if errors.causes().len() == before {
        validate_value(default, None, s, at, errors);
    }
}

/// A default inside metadata is judged in the resource it would make.
fn in_metadata(
    default: &Value,
    s: &Schema,
    place: DefaultContext<'_>,
    at: &Path<'_>,
    errors: &mut Errors,
) {
    let mut around = wrap(default.clone(), place.way);
    if let Value::Object(map) = &mut around {
        for (name, value) in [("apiVersion", json!("validation/v1")), ("kind", json!("Validation"))]
        {
            map.entry(name).or_insert(value);
        }
        let refused =
            meta::coerce(map, place.resource, meta::Wrong::Refuse).map_err(|f| f.to_string());
        let mut found = Errors::new();
        let as_resource = Schema { embedded: true, ..Schema::default() };
        meta::validate_embedded_value(&around, &as_resource, &Path::Root, &mut found);
        let fault = refused.err().or_else(|| {
            found.causes().first().map(|cause| format!("{}: {}", cause.field, cause.message))
        });
        if let Some(why) = fault {
            let why = format!("must make valid metadata, but {why}");
            errors.invalid(at, brief(default), &why);
            return;
        }
    }
    validate_value(default, None, s, at, errors);
}

fn wrap(value: Value, way: DefaultPath<'_>) -> Value {
    match way {
        DefaultPath::Root => value,
        DefaultPath::Member(parent, name) => wrap(json!({ name: value }), *parent),
        DefaultPath::Item(parent) => wrap(json!([value]), *parent),
    }
}
