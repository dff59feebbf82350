//! Drops members that a schema does not know, and says where they were.
//!
//! What stands in metadata is left to [`crate::meta`]; values are never changed otherwise.

use std::fmt::Write as _;

use serde_json::Value;
use tenure_machinery::Object;

use crate::schema::{Additional, Schema};

/// Drops unknown members of a whole object; its apiVersion, kind and metadata stay.
///
/// Answers the paths of what went, sorted.
pub fn prune(object: &mut Object, schema: &Schema) -> Vec<String> {
    let mut pruner = Pruner::default();
    pruner.object(object, schema, true);
    pruner.unknown.sort();
    pruner.unknown
}

/// Drops unknown members below one value, such as a default.
pub fn prune_value(value: &mut Value, schema: &Schema) -> Vec<String> {
    let mut pruner = Pruner::default();
    pruner.value(value, Some(schema));
    pruner.unknown.sort();
    pruner.unknown
}

/// Whether a member is kept in objects that are resources.
pub(crate) fn is_meta(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind" | "metadata")
}

#[derive(Default)]
struct Pruner {
    path: String,
    unknown: Vec<String>,
}

impl Pruner {
    fn value(&mut self, value: &mut Value, schema: Option<&Schema>) {
        match (value, schema) {
            (Value::Object(map), Some(schema)) => self.object(map, schema, schema.embedded),
            (Value::Object(map), None) => {
                for name in map.keys() {
                    self.note(name);
                }
                map.clear();
            }
            (Value::Array(items), Some(schema)) if schema.preserve_unknown => {
                self.items(items, |this, item| {
                    if let Some(schema) = schema.items.as_deref() {
                        this.kept(item, schema);
                    }
                });
            }
            (Value::Array(items), schema) => {
                let schema = schema.and_then(|schema| schema.items.as_deref());
                self.items(items, |this, item| this.value(item, schema));
            }
            _ => {}
        }
    }

    fn object(&mut self, map: &mut Object, schema: &Schema, resource: bool) {
        map.retain(|name, value| {
            if resource && is_meta(name) {
                return true;
            }
            let property = schema.properties.get(name);
            let known = match (property, &schema.additional) {
                (Some(property), _) => Some(Some(property)),
                (None, Additional::Schema(schema)) => Some(Some(schema.as_ref())),
                (None, Additional::Bool(_)) => Some(None),
                (None, Additional::Unsaid) => None,
            };
            match known {
                Some(schema) => {
                    let length = self.enter(name);
                    self.value(value, schema);
                    self.path.truncate(length);
                    true
                }
                None if schema.preserve_unknown => true,
                None => {
                    self.note(name);
                    false
                }
            }
        });
    }

    /// Below a list that keeps unknown members, items keep theirs as well.
    fn kept(&mut self, value: &mut Value, schema: &Schema) {
        match value {
            Value::Object(map) => {
                for (name, value) in map.iter_mut() {
                    if schema.embedded && is_meta(name) {
                        continue;
                    }
                    let below = match (schema.member(name), &schema.additional) {
                        (Some(schema), _) => Some(schema),
                        (None, Additional::Bool(_)) => None,
                        (None, _) => continue,
                    };
                    let length = self.enter(name);
                    self.value(value, below);
                    self.path.truncate(length);
                }
            }
            Value::Array(items) => self.items(items, |this, item| {
                if let Some(schema) = schema.items.as_deref() {
                    this.kept(item, schema);
                }
            }),
            _ => {}
        }
    }

    fn items(&mut self, items: &mut [Value], mut each: impl FnMut(&mut Self, &mut Value)) {
        for (index, item) in items.iter_mut().enumerate() {
            let length = self.path.len();
            let _ = write!(self.path, "[{index}]");
            each(self, item);
            self.path.truncate(length);
        }
    }

    fn enter(&mut self, name: &str) -> usize {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        length
    }

    fn note(&mut self, name: &str) {
        let length = self.enter(name);
        self.unknown.push(self.path.clone());
        self.path.truncate(length);
    }
}

#[cfg(test)]
mod tests {
    //! Rules of `spec/api-server.md`.

    use serde_json::json;

    use super::*;

    fn run(schema: &Value, mut object: Value) -> (Value, Vec<String>) {
        let schema = Schema::parse(schema).expect("a schema");
        let unknown = prune(object.as_object_mut().expect("an object"), &schema);
        (object, unknown)
    }

    #[test]
    fn r121_unknown_members_go_and_are_named() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object",
            "properties": {"a": {"type": "string"}, "l": {"type": "array", "items":
                {"type": "object", "properties": {"k": {"type": "string"}}}}}}}});
        let object = json!({"apiVersion": "g/v1", "kind": "W", "metadata": {"name": "w", "x": 1},
            "spec": {"a": "1", "x": 1, "l": [{"k": "v"}, {"z": {"y": 1}}]}, "other": {}});
        let (object, unknown) = run(&schema, object);
        assert_eq!(
            object,
            json!({"apiVersion": "g/v1", "kind": "W", "metadata": {"name": "w", "x": 1},
                "spec": {"a": "1", "l": [{"k": "v"}, {}]}})
        );
        assert_eq!(unknown, ["other", "spec.l[1].z", "spec.x"]);
    }

    #[test]
    fn r121_below_the_extension_unknown_members_stay() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object",
            "properties": {"keep": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                "properties": {"p": {"type": "object", "properties": {}}}},
                "a": {"type": "string"}}}}});
        let object =
            json!({"spec": {"keep": {"x": {"y": [1, {"z": null}]}, "p": {"q": 1}}, "drop": 1}});
        let (object, unknown) = run(&schema, object);
        assert_eq!(object, json!({"spec": {"keep": {"x": {"y": [1, {"z": null}]}, "p": {}}}}));
        assert_eq!(unknown, ["spec.drop", "spec.keep.p.q"]);
    }

    #[test]
    fn r120_embedded_resources_keep_their_heads() {
        let schema = json!({"type": "object", "properties": {"t": {"type": "object",
            "x-kubernetes-embedded-resource": true,
            "properties": {"spec": {"type": "object", "properties": {}}}}}});
        let object = json!({"t": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"},
            "spec": {"free": 1}, "other": 1}});
        let (object, unknown) = run(&schema, object);
        assert_eq!(
            object,
            json!({"t": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {}}})
        );
        assert_eq!(unknown, ["t.other", "t.spec.free"]);
    }

    #[test]
    fn r121_a_map_of_anything_keeps_names_only() {
        let schema = json!({"type": "object", "properties": {"m": {"type": "object",
            "additionalProperties": true}}});
        let (object, unknown) = run(&schema, json!({"m": {"a": 1, "b": {"c": 2}}}));
        assert_eq!(object, json!({"m": {"a": 1, "b": {}}}));
        assert_eq!(unknown, ["m.b.c"]);
    }
}
