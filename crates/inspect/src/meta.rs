//! The metadata of objects, read from the wire: identity, ownership, deletion and who wrote which
//! finalizer. Content never enters.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::wire::or_default;

/// One owner reference as it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    /// The group and version.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The name.
    pub name: String,
    /// The uid.
    pub uid: String,
    /// Whether the owner is the managing controller.
    pub controller: Option<bool>,
    /// Whether the owner's foreground deletion waits.
    pub block_owner_deletion: Option<bool>,
}

/// The metadata of one object.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectMetadata {
    /// Its name.
    pub name: String,
    /// Its namespace; empty for what lives in none.
    pub namespace: String,
    /// Its uid.
    pub uid: String,
    /// The revision it was read at.
    pub resource_version: String,
    /// When it was created.
    pub creation_timestamp: Option<Timestamp>,
    /// When it is to be gone, if its deletion has begun.
    pub deletion_timestamp: Option<Timestamp>,
    /// How long it was given to end.
    pub deletion_grace_period_seconds: Option<i64>,
    /// What must be done before it goes.
    #[serde(deserialize_with = "or_default")]
    pub finalizers: Vec<String>,
    /// Its owners.
    #[serde(deserialize_with = "or_default")]
    pub owner_references: Vec<OwnerReference>,
    /// Who wrote what; kept only where there are finalizers.
    pub managed_fields: Option<Box<RawValue>>,
}

/// Who wrote something last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastWriter {
    /// The name that the client gave itself.
    pub manager: String,
    /// When.
    pub time: Option<Timestamp>,
}

#[derive(Deserialize)]
struct Managed {
    #[serde(default)]
    manager: String,
    #[serde(default)]
    time: Option<Timestamp>,
    #[serde(rename = "fieldsV1", default)]
    fields: Map<String, Value>,
}

impl ObjectMetadata {
    /// Whether its deletion has begun.
    #[must_use]
    pub fn terminating(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// When its deletion was asked for: the end of its grace period, less that period.
    #[must_use]
    pub fn deleted_at(&self) -> Option<Timestamp> {
        let grace =
            jiff::SignedDuration::from_secs(self.deletion_grace_period_seconds.unwrap_or(0));
        self.deletion_timestamp.and_then(|end| end.checked_sub(grace).ok())
    }

    /// The last writer of a finalizer, as `managedFields` tell.
    #[must_use]
    pub fn writer_of(&self, finalizer: &str) -> Option<LastWriter> {
        let entries: Vec<Managed> =
            serde_json::from_str(self.managed_fields.as_ref()?.get()).ok()?;
        let element = format!("v:\"{finalizer}\"");
        let wrote = |entry: &Managed| {
            let list = entry.fields.get("f:metadata").and_then(|m| m.get("f:finalizers"));
            list.is_some_and(|list| list.get(&element).is_some())
        };
        let newest = entries.into_iter().filter(wrote).max_by_key(|entry| entry.time)?;
        Some(LastWriter { manager: newest.manager, time: newest.time })
    }

    /// Lets go of what nobody will ask for.
    pub(crate) fn slim(mut self) -> ObjectMetadata {
        if self.finalizers.is_empty() {
            self.managed_fields = None;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> ObjectMetadata {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn the_last_writer_of_a_finalizer_is_found() {
        let meta = read(
            r#"{"name":"a","uid":"1","finalizers":["example.com/x"],"managedFields":[
            {"manager":"old","time":"2026-01-01T00:00:00Z","fieldsV1":{"f:metadata":{"f:finalizers":{".":{},"v:\"example.com/x\"":{}}}}},
            {"manager":"new","time":"2026-01-02T00:00:00Z","fieldsV1":{"f:metadata":{"f:finalizers":{"v:\"example.com/x\"":{}}}}},
            {"manager":"other","time":"2026-01-03T00:00:00Z","fieldsV1":{"f:spec":{}}}]}"#,
        );
        assert_eq!(meta.writer_of("example.com/x").unwrap().manager, "new");
        assert_eq!(meta.writer_of("example.com/y"), None);
    }

    #[test]
    fn managed_fields_are_dropped_where_no_finalizer_is() {
        let meta = read(r#"{"name":"a","uid":"1","managedFields":[]}"#).slim();
        assert!(meta.managed_fields.is_none());
    }

    #[test]
    fn deletion_began_a_grace_period_before_its_end() {
        let meta =
            read(r#"{"deletionTimestamp":"2026-01-01T00:00:30Z","deletionGracePeriodSeconds":30}"#);
        assert_eq!(meta.deleted_at(), Some("2026-01-01T00:00:00Z".parse().unwrap()));
    }
}
