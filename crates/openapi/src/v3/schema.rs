//! Component schemas: the types that paths name, and all that those refer to.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use tenure_machinery::kind::Kind;
use tenure_schema::{ApiType, Field, ListMerge, TypeFacts, TypeId, ValueType};

use super::{CustomSchema, descriptions, name};
use crate::put;

/// The schemas of one document, in the making.
pub(super) struct Schemas<'a> {
    facts: &'a TypeFacts,
    custom: CustomSchema<'a>,
    /// What the kinds of this document are called, by type name.
    served: BTreeMap<&'a str, Value>,
    /// Every version in this document, and the first of the core group.
    group_versions: BTreeSet<(&'a str, &'a str)>,
    done: BTreeMap<String, Value>,
}

impl<'a> Schemas<'a> {
    pub(super) fn new(facts: &'a TypeFacts, kinds: &[&'a Kind], custom: CustomSchema<'a>) -> Self {
        let served = kinds.iter().map(|kind| (kind.type_name.as_ref(), gvk(kind, ""))).collect();
        let here = kinds.iter().map(|kind| (kind.group.as_ref(), kind.version.as_ref()));
        let group_versions = std::iter::once(("", "v1")).chain(here).collect();
        Self { facts, custom, served, group_versions, done: BTreeMap::new() }
    }

    /// All schemas that were asked for.
    pub(super) fn finish(self) -> BTreeMap<String, Value> {
        self.done
    }

    /// A reference to a type of `meta/v1`.
    pub(super) fn meta(&mut self, name: &str) -> Value {
        match self.facts.type_id(&format!("apimachinery.meta.v1.{name}")) {
            Some(id) => self.reference(id),
            // Patch has no members of its own.
            None => self.plain(name::meta(name), json!({"type": "object"})),
        }
    }

    /// A reference to a kind's type.
    pub(super) fn kind(&mut self, kind: &Kind) -> Value {
        match self.facts.type_id(&kind.type_name) {
            Some(id) => self.reference(id),
            None => {
                let schema = self.custom_schema(kind);
                self.plain(name::of_kind(kind), schema)
            }
        }
    }

    /// A reference to the type of a group, version and kind, if the table has one.
    pub(super) fn named(&mut self, group: &str, version: &str, kind: &str) -> Option<Value> {
        let wanted = self.facts.types().iter().find(|entry| {
            entry.kind.is_some_and(|found| {
                (found.group, found.version, found.kind) == (group, version, kind)
            })
        })?;
        self.facts.type_id(wanted.name).map(|id| self.reference(id))
    }

    /// A reference to a kind's list.
    pub(super) fn list(&mut self, kind: &Kind) -> Value {
        let item = self.kind(kind);
        let metadata = self.meta("ListMeta");
        let schema = json!({
            "type": "object",
            "required": ["items"],
            "properties": {
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                "metadata": {"allOf": [metadata], "default": {}},
                "items": {"type": "array", "items": item},
            },
            "x-kubernetes-group-version-kind": [gvk(kind, "List")],
        });
        self.plain(format!("{}List", name::of_kind(kind)), schema)
    }

    /// A schema that is known as a whole.
    fn plain(&mut self, name: String, schema: Value) -> Value {
        let reference = json!({"$ref": name::pointer(&name)});
        self.done.entry(name).or_insert(schema);
        reference
    }

    /// A custom kind's own schema, with the members every object has.
    fn custom_schema(&mut self, kind: &Kind) -> Value {
        let metadata = self.meta("ObjectMeta");
        let mut schema = match (self.custom)(kind) {
            Some(Value::Object(schema)) => schema,
            _ => Map::from_iter([
                ("type".to_owned(), json!("object")),
                ("x-kubernetes-preserve-unknown-fields".to_owned(), json!(true)),
            ]),
        };
        let properties = schema.entry("properties").or_insert_with(|| json!({}));
        if let Some(properties) = properties.as_object_mut() {
            for (member, mut schema) in [
                ("apiVersion", json!({"type": "string"})),
                ("kind", json!({"type": "string"})),
                ("metadata", json!({"allOf": [metadata]})),
            ] {
                if let Some(sentence) = descriptions::of_every_object(member) {
                    put(&mut schema, "description", sentence);
                }
                properties.insert(member.to_owned(), schema);
            }
        }
        schema.insert("x-kubernetes-group-version-kind".to_owned(), json!([gvk(kind, "")]));
        Value::Object(schema)
    }

    /// A reference to a type of the table; the type and all it refers to are added first.
    fn reference(&mut self, id: TypeId) -> Value {
        let mut waiting = vec![id];
        while let Some(id) = waiting.pop() {
            let Some(entry) = self.facts.get(id) else { continue };
            let name = name::of_type(entry.name);
            if self.done.contains_key(&name) {
                continue;
            }
            // The name is taken before its members are walked, since types may hold themselves.
            self.done.insert(name.clone(), Value::Null);
            let schema = self.object(entry, &mut waiting);
            self.done.insert(name, schema);
        }
        let name = self.facts.get(id).map_or_else(String::new, |entry| name::of_type(entry.name));
        json!({"$ref": name::pointer(&name)})
    }

    fn object(&mut self, entry: &ApiType, waiting: &mut Vec<TypeId>) -> Value {
        let mut schema = json!({"type": "object"});
        let required: Vec<_> =
            entry.fields.iter().filter(|field| field.required).map(|field| field.json).collect();
        if !required.is_empty() {
            put(&mut schema, "required", json!(required));
        }
        if !entry.fields.is_empty() {
            let properties: Map<_, _> = entry
                .fields
                .iter()
                .map(|field| (field.json.to_owned(), self.member(entry, field, waiting)))
                .collect();
            put(&mut schema, "properties", Value::Object(properties));
        }
        if let Some(sentence) = descriptions::of_type(entry) {
            put(&mut schema, "description", sentence);
        }
        if entry.atomic {
            put(&mut schema, "x-kubernetes-map-type", "atomic");
        }
        let names = self.kind_names(entry);
        if !names.is_empty() {
            put(&mut schema, "x-kubernetes-group-version-kind", json!(names));
        }
        schema
    }

    /// What a type is called as a kind; options to delete are a kind of every group that takes them.
    fn kind_names(&self, entry: &ApiType) -> Vec<Value> {
        if let Some(served) = self.served.get(entry.name) {
            return vec![served.clone()];
        }
        if entry.name == "apimachinery.meta.v1.DeleteOptions" {
            let name = |(group, version): &(&str, &str)| json!({"group": group, "version": version, "kind": "DeleteOptions"});
            return self.group_versions.iter().map(name).collect();
        }
        let kind = entry.kind.iter();
        kind.map(|k| json!({"group": k.group, "version": k.version, "kind": k.kind})).collect()
    }

    fn member(&mut self, parent: &ApiType, field: &Field, waiting: &mut Vec<TypeId>) -> Value {
        let mut schema = self.shape(parent, field, &field.shape, waiting);
        if schema.get("$ref").is_some() {
            // Nothing may stand beside a reference, so it is wrapped.
            schema = json!({"allOf": [schema]});
        }
        if let Some(default) = default_value(field) {
            put(&mut schema, "default", default);
        }
        if let Some(sentence) = descriptions::of_member(parent, field) {
            put(&mut schema, "description", sentence);
        }
        if matches!(field.shape, ValueType::List(_)) {
            match &field.list {
                ListMerge::Atomic => put(&mut schema, "x-kubernetes-list-type", "atomic"),
                ListMerge::Set => put(&mut schema, "x-kubernetes-list-type", "set"),
                ListMerge::Map(keys) => {
                    put(&mut schema, "x-kubernetes-list-type", "map");
                    put(&mut schema, "x-kubernetes-list-map-keys", json!(keys));
                }
            }
        }
        if field.atomic && matches!(field.shape, ValueType::Map(_) | ValueType::Struct(_)) {
            put(&mut schema, "x-kubernetes-map-type", "atomic");
        }
        let strategy = match (field.merge_key, field.retain_keys) {
            (Some(_), true) => Some("merge,retainKeys"),
            (Some(_), false) => Some("merge"),
            (None, true) => Some("retainKeys"),
            (None, false) => None,
        };
        if let Some(strategy) = strategy {
            put(&mut schema, "x-kubernetes-patch-strategy", strategy);
        }
        if let Some(key) = field.merge_key.filter(|key| !key.is_empty()) {
            put(&mut schema, "x-kubernetes-patch-merge-key", key);
        }
        schema
    }

    fn shape(
        &mut self,
        parent: &ApiType,
        field: &Field,
        shape: &ValueType,
        waiting: &mut Vec<TypeId>,
    ) -> Value {
        match shape {
            ValueType::String => json!({"type": "string"}),
            ValueType::Bytes => json!({"type": "string", "format": "byte"}),
            ValueType::Bool => json!({"type": "boolean"}),
            ValueType::Int32 => json!({"type": "integer", "format": "int32"}),
            ValueType::Int64 => json!({"type": "integer", "format": "int64"}),
            ValueType::Double => json!({"type": "number", "format": "double"}),
            ValueType::Quantity => self.plain(
                "io.k8s.apimachinery.pkg.api.resource.Quantity".to_owned(),
                json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
            ),
            ValueType::IntOrString => self.plain(
                "io.k8s.apimachinery.pkg.util.intstr.IntOrString".to_owned(),
                json!({"format": "int-or-string",
                    "oneOf": [{"type": "integer"}, {"type": "string"}]}),
            ),
            ValueType::Time => self.time("Time"),
            ValueType::MicroTime => self.time("MicroTime"),
            ValueType::Any => self.anything(parent, field),
            ValueType::Struct(id) => {
                waiting.push(*id);
                let name = self.facts.get(*id).map_or_else(String::new, |t| name::of_type(t.name));
                json!({"$ref": name::pointer(&name)})
            }
            ValueType::List(item) => {
                json!({"type": "array", "items": self.shape(parent, field, item, waiting)})
            }
            ValueType::Map(value) => {
                let value = self.shape(parent, field, value, waiting);
                json!({"type": "object", "additionalProperties": value})
            }
        }
    }

    fn time(&mut self, name: &str) -> Value {
        self.plain(name::meta(name), json!({"type": "string", "format": "date-time"}))
    }

    /// What the table knows as anything has a name in documents, by where it stands.
    fn anything(&mut self, parent: &ApiType, field: &Field) -> Value {
        if let Some(own) = parent.name.strip_prefix("apiextensions_apiserver.") {
            let package = own.rsplit_once('.').map_or(own, |(package, _)| package);
            let name = format!("io.k8s.apiextensions-apiserver.pkg.apis.{package}.JSON");
            self.plain(name, json!({}))
        } else if field.json == "fieldsV1" {
            self.plain(name::meta("FieldsV1"), json!({"type": "object"}))
        } else {
            let name = "io.k8s.apimachinery.pkg.runtime.RawExtension";
            self.plain(name.to_owned(), json!({"type": "object"}))
        }
    }
}

fn gvk(kind: &Kind, suffix: &str) -> Value {
    json!({"group": kind.group, "version": kind.version, "kind": format!("{}{suffix}", kind.kind)})
}

/// The declared default, or the zero that is written for a member that cannot be left out.
fn default_value(field: &Field) -> Option<Value> {
    if let Some(default) = field.default {
        return serde_json::from_str(default).ok();
    }
    if !field.always || field.null {
        return None;
    }
    match field.shape {
        ValueType::String => Some(json!("")),
        ValueType::Bool => Some(json!(false)),
        ValueType::Int32 | ValueType::Int64 | ValueType::Double => Some(json!(0)),
        ValueType::Struct(_) => Some(json!({})),
        _ => None,
    }
}
