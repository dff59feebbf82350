//! Managers of an object's replicas, as they appear on its Scale and come back from there.
//!
//! ```text
//!   parent's entries ── those that own replicas ──► entries of the Scale ── apply ──► parent's entries
//! ```

use serde_json::Value;
use tenure_machinery::Object;

use super::entry::{self, ManagedFieldsEntry, ManagedFieldsOperation};
use super::set::FieldSet;
use super::update::stored;

/// The version of a Scale.
pub const SCALE_VERSION: &str = "autoscaling/v1";
/// Where a Scale has its replicas.
const IN_SCALE: [&str; 2] = ["f:spec", "f:replicas"];

/// Where the parent has its replicas, in the version of the request.
#[derive(Clone, Debug)]
pub struct Replicas {
    api_version: String,
    path: Vec<String>,
    /// Whether other versions of the group have them there as well.
    everywhere: bool,
}

impl Replicas {
    /// Replicas at `path` in this version, and in all versions if `everywhere`.
    #[must_use]
    pub fn new(api_version: &str, path: &[&str], everywhere: bool) -> Replicas {
        Replicas {
            api_version: api_version.to_owned(),
            path: path.iter().map(|step| super::element::field(step)).collect(),
            everywhere,
        }
    }

    fn steps(&self) -> Vec<&str> {
        self.path.iter().map(String::as_str).collect()
    }

    fn owned_by(&self, entry: &ManagedFieldsEntry) -> bool {
        (self.everywhere || entry.api_version == self.api_version)
            && entry.fields.contains(&self.steps())
    }

    /// The list that the Scale has: each manager of the replicas, as one of the Scale's.
    #[must_use]
    pub fn of_scale(&self, parent: &Object) -> Option<Value> {
        let owners = stored(Some(parent)).into_iter().filter(|entry| self.owned_by(entry));
        let of_scale = owners.map(|entry| ManagedFieldsEntry {
            api_version: SCALE_VERSION.to_owned(),
            fields: FieldSet::from_paths([&IN_SCALE[..]]),
            ..entry
        });
        entry::write(of_scale.collect())
    }

    /// The list that the parent has after its Scale was written: who lost the replicas there loses them
    /// here, and who got them gets them.
    #[must_use]
    pub fn of_parent(&self, parent: &Object, scale: &Object) -> Option<Value> {
        let mut owners = stored(Some(scale));
        // An entry of updates is told from others by its version as well, which on a Scale is never the parent's.
        let same = |a: &ManagedFieldsEntry, b: &ManagedFieldsEntry| {
            (&a.manager, a.operation, &a.subresource) == (&b.manager, b.operation, &b.subresource)
                && (a.operation == ManagedFieldsOperation::Apply || a.api_version == b.api_version)
        };
        let mut entries = Vec::new();
        for mut entry in stored(Some(parent)) {
            if self.owned_by(&entry) {
                match owners.iter().position(|owner| same(owner, &entry)) {
                    Some(at) => drop(owners.swap_remove(at)),
                    None => {
                        let replicas = FieldSet::from_paths([&self.steps()[..]]);
                        entry.fields = entry.fields.difference(&replicas);
                    }
                }
            }
            if !entry.fields.is_empty() {
                entries.push(entry);
            }
        }
        for owner in owners.into_iter().filter(|owner| owner.fields.contains(&IN_SCALE)) {
            entries.push(ManagedFieldsEntry {
                api_version: self.api_version.clone(),
                // A Scale does not keep when.
                time: None,
                fields: FieldSet::from_paths([&self.steps()[..]]),
                ..owner
            });
        }
        entry::write(entries)
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use serde_json::json;

    use super::*;

    fn parent() -> Object {
        let list = json!([
            {"manager": "a", "operation": "Apply", "apiVersion": "apps/v1", "time": "2024-01-01T00:00:00Z",
                "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}, "f:paused": {}}}},
            {"manager": "b", "operation": "Update", "apiVersion": "apps/v1",
                "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:paused": {}}}},
        ]);
        json!({"metadata": {"managedFields": list}}).as_object().cloned().unwrap()
    }

    #[test]
    fn r82a_who_owns_the_replicas_owns_them_on_the_scale() {
        let replicas = Replicas::new("apps/v1", &["spec", "replicas"], true);
        let list = replicas.of_scale(&parent()).unwrap();
        assert_eq!(list.as_array().unwrap().len(), 1);
        assert_eq!(list[0]["manager"], "a");
        assert_eq!(list[0]["apiVersion"], "autoscaling/v1");
        assert_eq!(list[0]["fieldsV1"], json!({"f:spec": {"f:replicas": {}}}));
    }

    #[test]
    fn r82a_who_takes_the_replicas_on_the_scale_takes_them_from_the_parent() {
        let replicas = Replicas::new("apps/v1", &["spec", "replicas"], true);
        let scale = json!({"metadata": {"managedFields": [
            {"manager": "s", "operation": "Apply", "apiVersion": "autoscaling/v1", "subresource": "scale",
                "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
            {"manager": "t", "operation": "Update", "apiVersion": "autoscaling/v1", "subresource": "scale",
                "fieldsType": "FieldsV1", "fieldsV1": {"f:status": {"f:replicas": {}}}},
        ]}});
        let list = replicas.of_parent(&parent(), scale.as_object().unwrap()).unwrap();
        let shown: Vec<(&str, &Value)> = list
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| (entry["manager"].as_str().unwrap(), &entry["fieldsV1"]))
            .collect();
        let taken = json!({"f:spec": {"f:replicas": {}}});
        let left = json!({"f:spec": {"f:paused": {}}});
        assert_eq!(shown, [("s", &taken), ("a", &left), ("b", &left)]);
        assert_eq!(list[0]["subresource"], "scale");
        assert_eq!(list[0]["apiVersion"], "apps/v1");
        assert!(list[0].get("time").is_none());
        assert_eq!(list[1]["time"], "2024-01-01T00:00:00Z");
    }

    #[test]
    fn r82a_an_updater_that_has_the_replicas_gets_an_entry_of_their_own() {
        let replicas = Replicas::new("apps/v1", &["spec", "replicas"], true);
        let owned = json!({"f:spec": {"f:paused": {}, "f:replicas": {}}});
        let parent = json!({"metadata": {"managedFields": [
            {"manager": "u", "operation": "Update", "apiVersion": "apps/v1", "time": "2024-01-01T00:00:00Z",
                "fieldsType": "FieldsV1", "fieldsV1": owned},
        ]}});
        // As the Scale shows the parent's entries, and as a write of the same value leaves them.
        let scale =
            json!({"metadata": {"managedFields": replicas.of_scale(parent.as_object().unwrap())}});
        let parent = parent.as_object().unwrap();
        let list = replicas.of_parent(parent, scale.as_object().unwrap()).unwrap();
        assert_eq!(list.as_array().unwrap().len(), 2);
        let (kept, taken) =
            (json!({"f:spec": {"f:paused": {}}}), json!({"f:spec": {"f:replicas": {}}}));
        let find = |fields: &Value| {
            list.as_array().unwrap().iter().find(|entry| entry["fieldsV1"] == *fields).unwrap()
        };
        assert_eq!(find(&kept)["time"], "2024-01-01T00:00:00Z");
        assert_eq!(find(&taken)["apiVersion"], "apps/v1");
        assert!(find(&taken).get("time").is_none());
    }
}
