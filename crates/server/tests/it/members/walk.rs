//! Every member of a kind: the way to it, a value for it, and how it is put into an object.

use serde_json::{Map, Value, json};
use tenure_schema::{ApiType, Field, TypeId, ValueType, facts};

use super::table::{Entry, Table};

/// A member somewhere in a kind.
pub struct Member {
    /// The members on the way, itself last.
    pub way: Vec<&'static str>,
    fields: Vec<&'static Field>,
    /// The type it is a member of.
    pub api_type: &'static ApiType,
    pub field: &'static Field,
}

/// All members of a kind but those below one that nothing is promised of.
pub fn members(type_name: &str, table: &Table) -> Vec<Member> {
    let facts = facts();
    let id = facts.type_id(type_name).unwrap();
    let mut out = Vec::new();
    look(facts.get(id).unwrap(), &mut vec![id], &mut Vec::new(), table, &mut out);
    out
}

fn look(
    api_type: &'static ApiType,
    types: &mut Vec<TypeId>,
    way: &mut Vec<&'static Field>,
    table: &Table,
    out: &mut Vec<Member>,
) {
    for field in &api_type.fields {
        let frame = way.is_empty() && ["apiVersion", "kind"].contains(&field.json);
        if frame {
            continue;
        }
        way.push(field);
        let names = way.iter().map(|field| field.json).collect();
        out.push(Member { way: names, fields: way.clone(), api_type, field });
        let key = (api_type.name, field.json);
        let ends = matches!(table.get(key), Some(Entry::Nothing(_) | Entry::StoredOnly));
        let within = inner(&field.shape).or(field.object);
        if let Some(id) = within.filter(|id| !ends && !types.contains(id)) {
            types.push(id);
            look(facts().get(id).unwrap(), types, way, table, out);
            types.pop();
        }
        way.pop();
    }
}

fn inner(shape: &ValueType) -> Option<TypeId> {
    match shape {
        ValueType::Struct(id) => Some(*id),
        ValueType::List(items) | ValueType::Map(items) => inner(items),
        _ => None,
    }
}

impl Member {
    /// A value of its type.
    pub fn value(&self) -> Value {
        value(&self.field.shape, 0)
    }

    /// Puts a value where the member is.
    pub fn set(&self, object: &mut Value, new: Value) {
        self.parent(object).insert(self.field.json.to_owned(), new);
    }

    /// Puts a value where the member is, unless one is there; what is missing on the way is made.
    pub fn put(&self, object: &mut Value, new: Value) {
        self.parent(object).entry(self.field.json.to_owned()).or_insert(new);
    }

    /// The object that has the member.
    pub fn parent<'a>(&self, object: &'a mut Value) -> &'a mut Map<String, Value> {
        let mut at = object;
        for field in self.fields.split_last().unwrap().1 {
            at = within(at, field);
        }
        at.as_object_mut().unwrap()
    }
}

/// The first object in a member.
fn within<'a>(object: &'a mut Value, field: &'static Field) -> &'a mut Value {
    let entry = object.as_object_mut().unwrap().entry(field.json.to_owned()).or_insert(Value::Null);
    let empty = match &*entry {
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        other => other.is_null(),
    };
    if empty {
        *entry = match &field.shape {
            ValueType::Any => json!({}),
            shape => value(shape, 0),
        };
    }
    let map = matches!(field.shape, ValueType::Map(_));
    let inner = if entry.is_array() {
        entry.as_array_mut().unwrap().first_mut().unwrap()
    } else if map {
        entry.as_object_mut().unwrap().values_mut().next().unwrap()
    } else {
        entry
    };
    if !inner.is_object() {
        *inner = json!({});
    }
    inner
}

/// A value of a type; of an object what clients must send.
fn value(shape: &ValueType, depth: usize) -> Value {
    match shape {
        ValueType::String => json!("a"),
        ValueType::Bytes => json!("YQ=="),
        ValueType::Bool => json!(true),
        ValueType::Int32 | ValueType::Int64 | ValueType::IntOrString => json!(1),
        ValueType::Double => json!(1.0),
        ValueType::Quantity => json!("1"),
        ValueType::Time => json!("2026-01-02T03:04:05Z"),
        ValueType::MicroTime => json!("2026-01-02T03:04:05.000006Z"),
        ValueType::Any => json!({"a": 1}),
        ValueType::Struct(id) => {
            let api_type = facts().get(*id).unwrap();
            let needed = api_type.fields.iter().filter(|field| field.required && depth < 6);
            let named = needed.map(|field| (field.json.to_owned(), value(&field.shape, depth + 1)));
            Value::Object(named.collect())
        }
        ValueType::List(items) => json!([value(items, depth)]),
        ValueType::Map(values) => json!({"a": value(values, depth)}),
    }
}
