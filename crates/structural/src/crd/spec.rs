//! What is wrong with the spec of a definition.
//!
//! Causes stand where upstream puts them: what is the same in all versions is judged once and said to
//! stand in the spec itself, under the names that its internal form has.

use serde_json::Value;
use tenure_machinery::validate::{objects, same, text};
use tenure_machinery::{Errors, Object, ObjectExt, Path, name};

use super::{conversion, status};
use crate::check;
use crate::custom::RuleEngine;
use crate::path;
use crate::raw::Raw;

/// How many selectable fields a version may have.
const SELECTABLE_MAX: usize = 8;
const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] =
    ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];

/// What all versions say alike, and so is judged once.
#[derive(Clone, Copy)]
struct CommonVersionFields {
    schema: bool,
    subresources: bool,
    columns: bool,
    selectable: bool,
}

impl CommonVersionFields {
    fn of(versions: &[Value]) -> CommonVersionFields {
        let alike = |member: &str| {
            let first = versions.first().and_then(|version| version.get(member));
            !versions.is_empty()
                && versions.iter().all(|version| same_or_unset(version.get(member), first))
        };
        CommonVersionFields {
            schema: alike("schema"),
            subresources: alike("subresources"),
            columns: alike("additionalPrinterColumns"),
            selectable: alike("selectableFields"),
        }
    }
}

/// Empty lists count as absent; empty objects do not, since `subresources: {}` says something.
fn same_or_unset(a: Option<&Value>, b: Option<&Value>) -> bool {
    let set = |value: Option<&Value>| {
        value.is_some_and(|v| !v.is_null() && v.as_array().is_none_or(|list| !list.is_empty()))
    };
    if set(a) || set(b) { a == b } else { true }
}

pub(super) fn validate(crd: &Object, engine: Option<&dyn RuleEngine>, errors: &mut Errors) {
    let empty = Object::new();
    let spec = crd.map_at(&["spec"]).unwrap_or(&empty);
    let path = Path::Root.field("spec");
    validate_group(spec, &path, errors);
    match text(spec, "scope") {
        "" => errors.required(&path.field("scope"), ""),
        "Cluster" | "Namespaced" => {}
        other => errors.not_supported(&path.field("scope"), other, &["Cluster", "Namespaced"]),
    }
    let versions = spec.list_at(&["versions"]);
    let shared = CommonVersionFields::of(versions);
    let at = path.field("versions");
    for (index, version) in objects(spec, "versions") {
        if schema_of(version).is_none() {
            let of = at.index(index);
            errors.required(&of.field("schema").field("openAPIV3Schema"), "");
        }
    }
    let judge = Judge { engine, errors };
    judge.versions(spec, versions, shared, &path);
}

fn schema_of(version: &Object) -> Option<&Value> {
    version.at(&["schema", "openAPIV3Schema"]).filter(|schema| !schema.is_null())
}

fn has_status(version: &Object) -> bool {
    version.at(&["subresources", "status"]).is_some_and(|status| !status.is_null())
}

fn validate_group(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    let group = text(spec, "group");
    let at = path.field("group");
    if group.is_empty() {
        errors.required(&at, "");
    } else if let Some(why) = name::dns_subdomain(group) {
        errors.invalid(&at, format_args!("{group:?}"), why);
    } else if !group.contains('.') {
        errors.invalid(&at, format_args!("{group:?}"), "must be a domain with at least one dot");
    }
}

struct Judge<'a> {
    engine: Option<&'a dyn RuleEngine>,
    errors: &'a mut Errors,
}

impl Judge<'_> {
    fn versions(
        mut self,
        spec: &Object,
        versions: &[Value],
        shared: CommonVersionFields,
        path: &Path<'_>,
    ) {
        let at = path.field("versions");
        let mut seen: Vec<&str> = Vec::new();
        let mut unique = true;
        for (index, version) in objects(spec, "versions") {
            let name = text(version, "name");
            unique &= !seen.contains(&name);
            seen.push(name);
            let of = at.index(index);
            if let Some(why) = name::dns_1035_label(name) {
                self.errors.invalid(&of.field("name"), format_args!("{name:?}"), why);
            }
            self.deprecation(version, &of);
            let own = CommonVersionFields {
                schema: !shared.schema,
                subresources: !shared.subresources,
                columns: !shared.columns,
                selectable: !shared.selectable,
            };
            self.parts(version, own, has_status(version), &of.field("schema"), &of);
        }
        if !unique {
            self.errors.invalid(&at, "\"\"", "must have versions with different names");
        }
        let storage = |version: &&Value| version.get("storage") == Some(&Value::Bool(true));
        if versions.iter().filter(storage).count() != 1 {
            self.errors.invalid(&at, "\"\"", "must have exactly one version for storage");
        }
        self.names(spec, path);
        if let Some(first) = versions.first().and_then(Value::as_object) {
            let any = versions.iter().filter_map(Value::as_object).any(has_status);
            self.parts(first, shared, any, &path.field("validation"), path);
        }
        conversion::validate(spec, path, self.errors);
    }

    /// What a version says, as far as it is wanted here.
    fn parts(
        &mut self,
        version: &Object,
        wanted: CommonVersionFields,
        status: bool,
        schema_path: &Path<'_>,
        path: &Path<'_>,
    ) {
        if let Some(schema) = schema_of(version).filter(|_| wanted.schema) {
            let at = schema_path.field("openAPIV3Schema");
            let read = check::check(schema, status, &at, self.errors);
            if let (Some(read), Some(engine)) = (read, self.engine) {
                engine.check(schema, &read, &at, self.errors);
            }
        }
        if wanted.subresources {
            self.subresources(version, &path.field("subresources"));
        }
        if wanted.columns {
            let at = path.field("additionalPrinterColumns");
            for (index, column) in objects(version, "additionalPrinterColumns") {
                self.column(column, &at.index(index));
            }
        }
        if wanted.selectable {
            self.selectable(version, &path.field("selectableFields"));
        }
    }

    fn names(&mut self, spec: &Object, path: &Path<'_>) {
        let empty = Object::new();
        let names = spec.map_at(&["names"]).unwrap_or(&empty);
        let at = path.field("names");
        for member in ["plural", "singular", "kind", "listKind"] {
            if text(names, member).is_empty() {
                self.errors.required(&at.field(member), "");
            }
        }
        status::validate_names(names, &at, self.errors);
    }

    fn deprecation(&mut self, version: &Object, path: &Path<'_>) {
        let Some(warning) = version.str_at(&["deprecationWarning"]) else { return };
        let mut faults = Vec::new();
        if version.bool_at(&["deprecated"]) != Some(true) {
            faults.push("may be set for deprecated versions only");
        } else {
            if warning.len() > 256 {
                faults.push("must have at most 256 characters");
            }
            if warning.is_empty() {
                faults.push("must not be empty");
            }
            if warning.chars().any(|c| c.is_control() || (c.is_whitespace() && c != ' ')) {
                faults.push("must have printable characters only");
            }
        }
        for why in faults {
            let at = path.field("deprecationWarning");
            self.errors.invalid(&at, format_args!("{warning:?}"), why);
        }
    }

    fn subresources(&mut self, version: &Object, path: &Path<'_>) {
        let Some(scale) = version.map_at(&["subresources", "scale"]) else { return };
        let at = path.field("scale");
        let paths: [(&str, &[&str], bool); 3] = [
            ("specReplicasPath", &[".spec."], true),
            ("statusReplicasPath", &[".status."], true),
            ("labelSelectorPath", &[".spec.", ".status."], false),
        ];
        for (member, below, required) in paths {
            let value = text(scale, member);
            let of = at.field(member);
            if value.is_empty() {
                if required {
                    self.errors.required(&of, "");
                }
            } else if let Some(why) = path::fault(value) {
                self.errors.invalid(&of, format_args!("{value:?}"), why);
            } else if !below.iter().any(|prefix| value.starts_with(prefix)) {
                let why = format!("must be a path below {}", below.join(" or "));
                self.errors.invalid(&of, format_args!("{value:?}"), &why);
            }
        }
    }

    fn column(&mut self, column: &Object, path: &Path<'_>) {
        if text(column, "name").is_empty() {
            self.errors.required(&path.field("name"), "");
        }
        let kind = text(column, "type");
        let why = format!("must be one of {}", COLUMN_TYPES.join(", "));
        if kind.is_empty() {
            self.errors.required(&path.field("type"), &why);
        } else if !COLUMN_TYPES.contains(&kind) {
            self.errors.invalid(&path.field("type"), format_args!("{kind:?}"), &why);
        }
        let format = text(column, "format");
        if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
            let why = format!("must be one of {}", COLUMN_FORMATS.join(", "));
            self.errors.invalid(&path.field("format"), format_args!("{format:?}"), &why);
        }
        let value = text(column, "jsonPath");
        if value.is_empty() {
            self.errors.required(&path.field("JSONPath"), "");
        } else if let Some(why) = path::fault(value) {
            self.errors.invalid(&path.field("JSONPath"), format_args!("{value:?}"), why);
        }
    }

    fn selectable(&mut self, version: &Object, path: &Path<'_>) {
        let fields: Vec<_> = objects(version, "selectableFields").collect();
        if fields.is_empty() {
            return;
        }
        let Some(schema) = schema_of(version).and_then(Raw::new) else {
            self.errors.invalid(path, "\"\"", "may be set only with a schema");
            return;
        };
        let mut seen: Vec<Vec<String>> = Vec::new();
        for (index, field) in fields {
            let value = text(field, "jsonPath");
            let entry = path.index(index);
            let at = entry.field("jsonPath");
            if value.is_empty() {
                self.errors.required(&at, "");
                continue;
            }
            let found = match path::follow(value, schema, false) {
                Ok(found) => found,
                Err(why) => {
                    let why = format!("is no path that can be followed: {why}");
                    self.errors.invalid(&at, format_args!("{value:?}"), &why);
                    continue;
                }
            };
            if found.members.first().is_some_and(|first| first == "metadata") {
                self.errors.invalid(&at, format_args!("{value:?}"), "must not lead into metadata");
            }
            let kind = found.schema.map_or("", Raw::kind);
            if !matches!(kind, "string" | "boolean" | "integer") {
                let why = "must lead to a string, a boolean or an integer";
                self.errors.invalid(&at, format_args!("{value:?}"), why);
            }
            if seen.contains(&found.members) {
                self.errors.duplicate(&at, format_args!("{value:?}"));
            } else {
                seen.push(found.members);
            }
        }
        if seen.len() > SELECTABLE_MAX {
            self.errors.too_many(path, seen.len(), SELECTABLE_MAX);
        }
    }
}

/// What may not change: where objects are stored and what they are called.
pub(super) fn validate_change(crd: &Object, old: &Object, errors: &mut Errors) {
    let path = Path::Root.field("spec");
    let names = path.field("names");
    let mut frozen = |at: &[&str], path: Path<'_>| {
        if !same(crd.at(at), old.at(at)) {
            let value = crd.at(at).unwrap_or(&Value::Null);
            errors.invalid(&path, value, "field is immutable");
        }
    };
    if status::is_established(old) {
        frozen(&["spec", "scope"], path.field("scope"));
        frozen(&["spec", "names", "kind"], names.field("kind"));
    }
    frozen(&["spec", "group"], path.field("group"));
    frozen(&["spec", "names", "plural"], names.field("plural"));
}
