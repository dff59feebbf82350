//! Metadata in custom objects, at the root and in embedded resources.
//!
//! Wrong types are refused or dropped, unknown members are dropped and named, and what is left is
//! held to the rules of metadata. Whether names collide is not known here.

use jiff::Timestamp;
use serde_json::Value;
use tenure_machinery::{Errors, Object, ObjectExt, Path, name, validate};

use crate::schema::{Additional, Schema};

/// Metadata, apiVersion or kind of the wrong type: the request cannot be read at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataTypeError {
    /// Where.
    pub field: String,
    /// What should stand there.
    pub why: String,
}

impl std::fmt::Display for MetadataTypeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.field, self.why)
    }
}

impl std::error::Error for MetadataTypeError {}

/// What becomes of metadata of the wrong type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// The object is refused: it comes from a client.
    Refuse,
    /// The member goes: the object comes from storage.
    Drop,
}

/// Brings the metadata of an object and of the resources inside it into shape.
///
/// Answers the paths of unknown members that went, sorted.
///
/// # Errors
///
/// Names the first member of the wrong type, unless those are dropped.
pub fn coerce(
    object: &mut Object,
    schema: &Schema,
    wrong: Wrong,
) -> Result<Vec<String>, MetadataTypeError> {
    let mut coercer = Coercer { wrong, unknown: Vec::new() };
    coercer.object(object, schema, true, &Path::Root)?;
    coercer.unknown.sort();
    Ok(coercer.unknown)
}

/// The same below one value, such as a default.
pub(crate) fn coerce_value(
    value: &mut Value,
    schema: &Schema,
    path: &Path<'_>,
) -> Result<(), MetadataTypeError> {
    Coercer { wrong: Wrong::Refuse, unknown: Vec::new() }.value(value, schema, path)
}

struct Coercer {
    wrong: Wrong,
    unknown: Vec<String>,
}

impl Coercer {
    fn value(
        &mut self,
        value: &mut Value,
        schema: &Schema,
        at: &Path<'_>,
    ) -> Result<(), MetadataTypeError> {
        match (value, &schema.items) {
            (Value::Object(map), _) => self.object(map, schema, schema.embedded, at),
            (Value::Array(list), Some(items)) => {
                for (index, item) in list.iter_mut().enumerate() {
                    self.value(item, items, &at.index(index))?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn object(
        &mut self,
        map: &mut Object,
        schema: &Schema,
        resource: bool,
        at: &Path<'_>,
    ) -> Result<(), MetadataTypeError> {
        if resource {
            for member in ["apiVersion", "kind"] {
                if map.get(member).is_some_and(|value| !value.is_string()) {
                    self.fault(&at.field(member), "must be a string")?;
                    map.remove(member);
                }
            }
            self.metadata(map, &at.field("metadata"))?;
        }
        for (name, value) in map.iter_mut() {
            match (schema.properties.get(name), &schema.additional) {
                (Some(property), _) => self.value(value, property, &at.field(name))?,
                (None, Additional::Schema(schema)) => self.value(value, schema, &at.key(name))?,
                (None, _) => {}
            }
        }
        Ok(())
    }

    fn fault(&self, at: &Path<'_>, why: &str) -> Result<(), MetadataTypeError> {
        match self.wrong {
            Wrong::Drop => Ok(()),
            Wrong::Refuse => Err(MetadataTypeError { field: at.to_string(), why: why.to_owned() }),
        }
    }

    fn metadata(&mut self, map: &mut Object, at: &Path<'_>) -> Result<(), MetadataTypeError> {
        match map.get_mut("metadata") {
            None => {}
            Some(Value::Object(meta)) => self.members(meta, &META, at)?,
            Some(Value::Null) => {
                map.insert("metadata".to_owned(), Value::Object(Object::new()));
            }
            Some(_) => {
                self.fault(at, "must be an object")?;
                map.remove("metadata");
            }
        }
        Ok(())
    }

    /// Keeps members that are known, rightly typed and not empty.
    fn members(
        &mut self,
        map: &mut Object,
        known: &MetadataSchema,
        at: &Path<'_>,
    ) -> Result<(), MetadataTypeError> {
        let mut result = Ok(());
        map.retain(|name, value| {
            if result.is_err() {
                return true;
            }
            let at = at.field(name);
            let Some((_, member)) = known.iter().find(|(known, _)| known == name) else {
                self.unknown.push(at.to_string());
                return false;
            };
            match self.member(value, *member, &at) {
                Ok(keep) => keep,
                Err(fault) => {
                    result = Err(fault);
                    true
                }
            }
        });
        result
    }

    /// Whether a known member stays.
    fn member(
        &mut self,
        value: &mut Value,
        is: Is,
        at: &Path<'_>,
    ) -> Result<bool, MetadataTypeError> {
        let fits = match (is, &mut *value) {
            (_, Value::Null) => return Ok(false),
            (Is::Text, Value::String(text)) => !text.is_empty(),
            (Is::Integer, Value::Number(number)) if number.is_i64() => number.as_i64() != Some(0),
            (Is::Seconds, Value::Number(number)) if number.is_i64() => true,
            (Is::Flag, Value::Bool(_)) | (Is::Anything, _) => true,
            (Is::Time, Value::String(text)) if is_time(text) => settle_time(text),
            (Is::Texts, Value::Object(map)) if map.values().all(is_text) => !map.is_empty(),
            (Is::TextList, Value::Array(list)) if list.iter().all(Value::is_string) => {
                !list.is_empty()
            }
            (Is::List(shape), Value::Array(list)) => {
                for (index, item) in list.iter_mut().enumerate() {
                    let at = at.index(index);
                    match item {
                        Value::Object(map) => self.members(map, shape, &at)?,
                        _ => {
                            self.fault(&at, "must be an object")?;
                            return Ok(false);
                        }
                    }
                }
                !list.is_empty()
            }
            _ => {
                self.fault(at, is.words())?;
                false
            }
        };
        Ok(fits)
    }
}

fn is_text(value: &Value) -> bool {
    value.is_string() || value.is_null()
}

/// As upstream reads times of metadata: RFC 3339, with any fraction and any offset.
fn is_time(text: &str) -> bool {
    let letters = text.as_bytes().get(10) == Some(&b'T');
    letters && crate::format::Format::DateTime.holds(text) && text.parse::<Timestamp>().is_ok()
}

/// Writes a time as upstream does, in whole seconds of UTC, so that what a client sends back in
/// other words is not a change; whether it stays, since the first instant of the year 1 is unset.
fn settle_time(text: &mut String) -> bool {
    let Ok(time) = text.parse::<Timestamp>() else { return false };
    *text = time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    text != "0001-01-01T00:00:00Z"
}

type MetadataSchema = [(&'static str, Is)];

/// What a member of metadata is.
#[derive(Clone, Copy)]
enum Is {
    Text,
    Integer,
    /// An integer of which zero is not the same as none.
    Seconds,
    Flag,
    Time,
    Anything,
    Texts,
    TextList,
    List(&'static MetadataSchema),
}

impl Is {
    const fn words(self) -> &'static str {
        match self {
            Is::Text => "must be a string",
            Is::Integer | Is::Seconds => "must be an integer",
            Is::Flag => "must be true or false",
            Is::Time => "must be a time such as 2024-01-31T10:00:00Z",
            Is::Anything => "may be anything",
            Is::Texts => "must be a map of strings",
            Is::TextList => "must be a list of strings",
            Is::List(_) => "must be a list of objects",
        }
    }
}

const META: [(&str, Is); 15] = [
    ("name", Is::Text),
    ("generateName", Is::Text),
    ("namespace", Is::Text),
    ("selfLink", Is::Text),
    ("uid", Is::Text),
    ("resourceVersion", Is::Text),
    ("generation", Is::Integer),
    ("creationTimestamp", Is::Time),
    ("deletionTimestamp", Is::Time),
    ("deletionGracePeriodSeconds", Is::Seconds),
    ("labels", Is::Texts),
    ("annotations", Is::Texts),
    ("ownerReferences", Is::List(&OWNER)),
    ("finalizers", Is::TextList),
    ("managedFields", Is::List(&MANAGED)),
];

const OWNER: [(&str, Is); 6] = [
    ("apiVersion", Is::Text),
    ("kind", Is::Text),
    ("name", Is::Text),
    ("uid", Is::Text),
    ("controller", Is::Flag),
    ("blockOwnerDeletion", Is::Flag),
];

const MANAGED: [(&str, Is); 7] = [
    ("manager", Is::Text),
    ("operation", Is::Text),
    ("apiVersion", Is::Text),
    ("time", Is::Time),
    ("fieldsType", Is::Text),
    ("fieldsV1", Is::Anything),
    ("subresource", Is::Text),
];

/// What is wrong with the resources inside an object; its own metadata is judged by the server.
pub fn validate_embedded(object: &Object, schema: &Schema, errors: &mut Errors) {
    in_object(object, schema, false, &Path::Root, errors);
}

/// The same below one value, such as a default.
pub(crate) fn validate_embedded_value(
    value: &Value,
    schema: &Schema,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    match (value, &schema.items) {
        (Value::Object(map), _) => in_object(map, schema, schema.embedded, path, errors),
        (Value::Array(list), Some(items)) => {
            for (index, item) in list.iter().enumerate() {
                validate_embedded_value(item, items, &path.index(index), errors);
            }
        }
        _ => {}
    }
}

fn in_object(map: &Object, schema: &Schema, resource: bool, path: &Path<'_>, errors: &mut Errors) {
    if resource {
        validate_head(map, path, errors);
    }
    for (name, value) in map {
        match (schema.properties.get(name), &schema.additional) {
            (Some(property), _) => {
                validate_embedded_value(value, property, &path.field(name), errors);
            }
            (None, Additional::Schema(schema)) => {
                validate_embedded_value(value, schema, &path.key(name), errors);
            }
            (None, _) => {}
        }
    }
}

fn validate_head(map: &Object, path: &Path<'_>, errors: &mut Errors) {
    for member in ["apiVersion", "kind"] {
        let at = path.field(member);
        match map.get(member) {
            None => errors.required(&at, ""),
            Some(Value::String(text)) if text.is_empty() => {
                errors.invalid(&at, "\"\"", "must not be empty");
            }
            Some(Value::String(text)) => {
                let fault = match member {
                    "kind" => name::dns_1035_label(&text.to_lowercase()),
                    _ => (text.matches('/').count() > 1).then_some("must be group/version"),
                };
                if let Some(why) = fault {
                    errors.invalid(&at, format_args!("{text:?}"), why);
                }
            }
            Some(other) => errors.invalid(&at, other, "must be a string"),
        }
    }
    match map.get("metadata") {
        None => {}
        Some(Value::Object(meta)) => validate_meta(meta, &path.field("metadata"), errors),
        Some(other) => errors.invalid(&path.field("metadata"), other, "must be an object"),
    }
}

/// Answers what is wrong with a name.
type NameCheck = fn(&str) -> Option<&'static str>;

fn validate_meta(meta: &Object, path: &Path<'_>, errors: &mut Errors) {
    let checks: [(&str, NameCheck); 3] = [
        ("generateName", name::path_segment),
        ("name", name::path_segment),
        ("namespace", name::dns_label),
    ];
    for (member, check) in checks {
        let text = validate::text(meta, member);
        if let Some(why) = check(text).filter(|_| !text.is_empty()) {
            errors.invalid(&path.field(member), format_args!("{text:?}"), why);
        }
    }
    if let Some(labels) = meta.map_at(&["labels"]) {
        validate::validate_labels(labels, &path.field("labels"), errors);
    }
    if let Some(annotations) = meta.map_at(&["annotations"]) {
        let at = path.field("annotations");
        tenure_machinery::meta::validate_annotations(annotations, &at, errors);
    }
    let owners = path.field("ownerReferences");
    for (index, owner) in validate::objects(meta, "ownerReferences") {
        for member in ["apiVersion", "kind", "name", "uid"] {
            if validate::text(owner, member).is_empty() {
                errors.required(&owners.index(index).field(member), "must not be empty");
            }
        }
    }
    for finalizer in meta.list_at(&["finalizers"]).iter().filter_map(Value::as_str) {
        for why in name::qualified_name_faults(finalizer) {
            errors.invalid(&path.field("finalizers"), format_args!("{finalizer:?}"), why);
        }
    }
}

#[cfg(test)]
mod tests {
    //! Rules of `spec/api-server.md`.

    use serde_json::json;

    use super::*;

    fn schema() -> Schema {
        Schema::parse(&json!({"type": "object", "properties": {"spec": {"type": "object",
            "properties": {"t": {"type": "object", "x-kubernetes-embedded-resource": true,
                "x-kubernetes-preserve-unknown-fields": true}}}}}))
        .expect("a schema")
    }

    #[test]
    fn r134_wrong_types_are_refused_on_write_and_dropped_on_read() {
        let table = [
            (json!({"metadata": {"name": "w", "labels": {"a": 1}}}), "metadata.labels"),
            (json!({"metadata": {"name": "w", "labels": "x"}}), "metadata.labels"),
            (json!({"metadata": {"name": 1}}), "metadata.name"),
            (json!({"metadata": []}), "metadata"),
            (json!({"kind": 1}), "kind"),
            (
                json!({"metadata": {"ownerReferences": [{"uid": 1}]}}),
                "metadata.ownerReferences[0].uid",
            ),
            (json!({"metadata": {"creationTimestamp": "now"}}), "metadata.creationTimestamp"),
            (
                json!({"spec": {"t": {"metadata": {"finalizers": "x"}}}}),
                "spec.t.metadata.finalizers",
            ),
        ];
        for (object, field) in table {
            let mut object = object.as_object().expect("an object").clone();
            let fault = coerce(&mut object.clone(), &schema(), Wrong::Refuse).expect_err(field);
            assert_eq!(fault.field, field);
            coerce(&mut object, &schema(), Wrong::Drop).expect("nothing is refused");
            coerce(&mut object, &schema(), Wrong::Refuse).expect("nothing wrong is left");
        }
    }

    #[test]
    fn r134_times_are_settled_to_whole_seconds() {
        for (sent, kept) in [
            ("2024-01-31T10:00:00Z", json!("2024-01-31T10:00:00Z")),
            ("2024-01-31T10:00:00.000Z", json!("2024-01-31T10:00:00Z")),
            ("2024-01-31T10:00:00.999Z", json!("2024-01-31T10:00:00Z")),
            ("2024-01-31T12:00:00+02:00", json!("2024-01-31T10:00:00Z")),
            ("0001-01-01T00:00:00Z", Value::Null),
        ] {
            let mut object = json!({"metadata": {"creationTimestamp": sent,
                "managedFields": [{"manager": "m", "time": sent}]}});
            let map = object.as_object_mut().expect("an object");
            coerce(map, &schema(), Wrong::Refuse).expect("a time");
            assert_eq!(object["metadata"]["creationTimestamp"], kept, "{sent}");
            assert_eq!(object["metadata"]["managedFields"][0]["time"], kept, "{sent}");
        }
        for wrong in ["2024-01-31 10:00:00Z", "2024-01-31", "2024-02-30T10:00:00Z", "T"] {
            let mut object = json!({"metadata": {"creationTimestamp": wrong}});
            let map = object.as_object_mut().expect("an object");
            coerce(map, &schema(), Wrong::Refuse).expect_err(wrong);
        }
    }

    #[test]
    fn r120_embedded_metadata_keeps_known_members_only() {
        let mut object = json!({"metadata": {"name": "w", "bad": 1, "creationTimestamp": null},
            "spec": {"t": {"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "x", "labels": {"a": "b"}, "bogus": 1}, "spec": {"free": 1}}}});
        let map = object.as_object_mut().expect("an object");
        let unknown = coerce(map, &schema(), Wrong::Refuse).expect("no wrong type");
        assert_eq!(unknown, ["metadata.bad", "spec.t.metadata.bogus"]);
        assert_eq!(object["metadata"], json!({"name": "w"}));
        assert_eq!(object["spec"]["t"]["metadata"], json!({"name": "x", "labels": {"a": "b"}}));
    }

    #[test]
    fn r120_embedded_resources_need_version_and_kind() {
        let object = json!({"spec": {"t": {"foo": 1}}});
        let mut errors = Errors::new();
        validate_embedded(object.as_object().expect("an object"), &schema(), &mut errors);
        let found: Vec<_> =
            errors.causes().iter().map(|c| (c.field.as_str(), c.reason.as_str())).collect();
        assert_eq!(
            found,
            [("spec.t.apiVersion", "FieldValueRequired"), ("spec.t.kind", "FieldValueRequired")]
        );
    }
}
