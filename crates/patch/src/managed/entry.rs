//! The list under `metadata.managedFields`: read leniently, written in one fixed order.

use serde_json::Value;
use tenure_machinery::Object;

use super::set::FieldSet;

/// The most entries a list may have to make sense; the server itself never comes near.
const ENTRIES_MAX: usize = 1_000;

/// What a manager did to own its fields. Apply sorts first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ManagedFieldsOperation {
    /// Server-side apply.
    Apply,
    /// Create, update or any other patch.
    Update,
}

impl ManagedFieldsOperation {
    /// The word in JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// The fields of one manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagedFieldsEntry {
    /// The name of the manager.
    pub manager: String,
    /// How it came to own them.
    pub operation: ManagedFieldsOperation,
    /// The version that the fields are written in.
    pub api_version: String,
    /// The subresource it wrote through, or empty.
    pub subresource: String,
    /// When it last changed something, in UTC seconds.
    pub time: Option<String>,
    /// The fields.
    pub fields: FieldSet,
}

impl ManagedFieldsEntry {
    /// Whether both entries are of one manager; an applier is the same in every version.
    #[must_use]
    pub fn is_same_manager(&self, other: &Self) -> bool {
        self.manager == other.manager
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.operation == ManagedFieldsOperation::Apply
                || self.api_version == other.api_version)
    }

    fn read(json: &Value) -> Option<Self> {
        let json = json.as_object()?;
        let text = |name: &str| json.get(name).and_then(Value::as_str).unwrap_or_default();
        let operation = match text("operation") {
            "Apply" => ManagedFieldsOperation::Apply,
            "Update" => ManagedFieldsOperation::Update,
            _ => return None,
        };
        if text("apiVersion").is_empty() || text("fieldsType") != "FieldsV1" {
            return None;
        }
        let fields = json.get("fieldsV1").unwrap_or(&Value::Null);
        Some(Self {
            manager: text("manager").to_owned(),
            operation,
            api_version: text("apiVersion").to_owned(),
            subresource: text("subresource").to_owned(),
            time: json.get("time").and_then(Value::as_str).map(str::to_owned),
            fields: FieldSet::from_json(fields).ok()?,
        })
    }

    fn into_json(self) -> Value {
        let mut json = Object::new();
        json.insert("apiVersion".to_owned(), self.api_version.into());
        json.insert("fieldsType".to_owned(), "FieldsV1".into());
        json.insert("fieldsV1".to_owned(), self.fields.into_json());
        json.insert("manager".to_owned(), self.manager.into());
        json.insert("operation".to_owned(), self.operation.word().into());
        if !self.subresource.is_empty() {
            json.insert("subresource".to_owned(), self.subresource.into());
        }
        if let Some(time) = self.time {
            json.insert("time".to_owned(), time.into());
        }
        Value::Object(json)
    }

    /// Older entries first. Times are UTC seconds, so their text sorts as they do.
    pub(crate) fn age(&self) -> (Option<&str>, &str, &str, &str) {
        (self.time.as_deref(), &self.manager, &self.api_version, &self.subresource)
    }
}

/// Reads `managedFields`; one entry that makes no sense spoils the list, as upstream holds.
pub(crate) fn read(list: Option<&Value>) -> Option<Vec<ManagedFieldsEntry>> {
    let list = match list {
        None | Some(Value::Null) => return Some(Vec::new()),
        Some(list) => list.as_array().filter(|list| list.len() <= ENTRIES_MAX)?,
    };
    let mut entries: Vec<ManagedFieldsEntry> = Vec::with_capacity(list.len());
    for json in list {
        let entry = ManagedFieldsEntry::read(json)?;
        match entries.iter_mut().find(|other| other.is_same_manager(&entry)) {
            Some(other) => *other = entry,
            None => entries.push(entry),
        }
    }
    Some(entries)
}

/// Whether each entry of a list says who manages what.
#[must_use]
pub fn is_readable(list: &Value) -> bool {
    read(Some(list)).is_some()
}

/// Writes the entries in their order; no entries is no list at all.
pub(crate) fn write(mut entries: Vec<ManagedFieldsEntry>) -> Option<Value> {
    if entries.is_empty() {
        return None;
    }
    entries
        .sort_by(|left, right| (left.operation, left.age()).cmp(&(right.operation, right.age())));
    Some(Value::Array(entries.into_iter().map(ManagedFieldsEntry::into_json).collect()))
}

/// Whether the list in a request asks to forget all managers: it is empty, or one empty entry.
pub(crate) fn is_reset(list: Option<&Value>) -> bool {
    match list {
        Some(Value::Array(list)) => match list.as_slice() {
            [] => true,
            [Value::Object(only)] => only.values().all(Value::is_null),
            _ => false,
        },
        _ => false,
    }
}
