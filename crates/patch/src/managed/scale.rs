//! Managers of an object's replicas, as they appear on its Scale and come back from there.
//!
//! ```text
//!   parent's entries ── those that own replicas ──► entries of the Scale ── apply ──► parent's entries
//! ```

use std::collections::BTreeMap;

use serde_json::Value;
use tenure_machinery::Object;

use super::entry::{self, ManagedFieldsEntry, ManagedFieldsOperation};
use super::set::FieldSet;
use super::update::stored;

/// The version of a Scale.
pub const SCALE_VERSION: &str = "autoscaling/v1";
/// Where a Scale has its replicas.
const IN_SCALE: [&str; 2] = ["f:spec", "f:replicas"];

/// Where the parent has its replicas, in the version of the request and in the others.
#[derive(Clone, Debug)]
pub struct Replicas {
    api_version: String,
    /// By version; none where a version has no Scale. Entries of a version that is not here are nobody's.
    paths: BTreeMap<String, Option<Vec<String>>>,
}

impl Replicas {
    /// Replicas as these versions have them, asked for in one of them.
    #[must_use]
    pub fn new<'p>(
        api_version: &str,
        paths: impl IntoIterator<Item = (&'p str, Option<Vec<&'p str>>)>,
    ) -> Replicas {
        let steps =
            |path: Vec<&str>| path.into_iter().map(super::element::field).collect::<Vec<_>>();
        let paths = paths.into_iter();
        Replicas {
            api_version: api_version.to_owned(),
            paths: paths.map(|(version, path)| (version.to_owned(), path.map(steps))).collect(),
        }
    }

    /// The path of a version, if it has one.
    fn steps(&self, api_version: &str) -> Option<Vec<&str>> {
        let path = self.paths.get(api_version)?.as_ref()?;
        Some(path.iter().map(String::as_str).collect())
    }

    fn owned_by(&self, entry: &ManagedFieldsEntry) -> bool {
        self.steps(&entry.api_version).is_some_and(|steps| entry.fields.contains(&steps))
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
    /// here, and who got them gets them. What was written in a version that is gone is forgotten.
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
            if !self.paths.contains_key(&entry.api_version) {
                continue;
            }
            if let Some(steps) = self.steps(&entry.api_version)
                && entry.fields.contains(&steps)
            {
                match owners.iter().position(|owner| same(owner, &entry)) {
                    Some(at) => drop(owners.swap_remove(at)),
                    None => {
                        let replicas = FieldSet::from_paths([&steps[..]]);
                        entry.fields = entry.fields.difference(&replicas);
                    }
                }
            }
            if !entry.fields.is_empty() {
                entries.push(entry);
            }
        }
        let steps = self.steps(&self.api_version).unwrap_or_default();
        for owner in owners.into_iter().filter(|owner| owner.fields.contains(&IN_SCALE)) {
            entries.push(ManagedFieldsEntry {
                api_version: self.api_version.clone(),
                // A Scale does not keep when.
                time: None,
                fields: FieldSet::from_paths([&steps[..]]),
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

    fn apps() -> Replicas {
        Replicas::new("apps/v1", [("apps/v1", Some(vec!["spec", "replicas"]))])
    }

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
        let replicas = apps();
        let list = replicas.of_scale(&parent()).unwrap();
        assert_eq!(list.as_array().unwrap().len(), 1);
        assert_eq!(list[0]["manager"], "a");
        assert_eq!(list[0]["apiVersion"], "autoscaling/v1");
        assert_eq!(list[0]["fieldsV1"], json!({"f:spec": {"f:replicas": {}}}));
    }

    #[test]
    fn r82a_who_takes_the_replicas_on_the_scale_takes_them_from_the_parent() {
        let replicas = apps();
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
        let replicas = apps();
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

    #[test]
    fn r82a_each_version_has_its_own_path_and_a_version_that_is_gone_has_no_managers() {
        let entry = |manager: &str, version: &str, fields: Value| {
            json!({"manager": manager, "operation": "Apply", "apiVersion": version,
                "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": fields}})
        };
        let parent = json!({"metadata": {"managedFields": [
            entry("one", "e/v1", json!({"f:count": {}, "f:size": {}})),
            entry("two", "e/v2", json!({"f:count": {}})),
            entry("plain", "e/v3", json!({"f:count": {}, "f:replicas": {}})),
            entry("gone", "e/v0", json!({"f:replicas": {}})),
        ]}});
        let parent = parent.as_object().unwrap();
        let replicas = Replicas::new(
            "e/v2",
            [
                ("e/v1", Some(vec!["spec", "count"])),
                ("e/v2", Some(vec!["spec", "replicas"])),
                ("e/v3", None),
            ],
        );
        let list = replicas.of_scale(parent).unwrap();
        assert_eq!(list.as_array().unwrap().len(), 1, "{list}");
        assert_eq!(list[0]["manager"], "one");

        let scale = json!({"metadata": {"managedFields": [
            {"manager": "s", "operation": "Update", "apiVersion": "autoscaling/v1", "subresource": "scale",
                "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}}}]}});
        let list = replicas.of_parent(parent, scale.as_object().unwrap()).unwrap();
        let fields = |manager: &str| {
            let all = list.as_array().unwrap();
            all.iter()
                .find(|entry| entry["manager"] == manager)
                .map(|e| e["fieldsV1"]["f:spec"].clone())
        };
        assert_eq!(fields("one"), Some(json!({"f:size": {}})), "it lost its own path");
        assert_eq!(fields("two"), Some(json!({"f:count": {}})), "another version's path");
        assert_eq!(fields("plain"), Some(json!({"f:count": {}, "f:replicas": {}})));
        assert_eq!(fields("gone"), None);
        assert_eq!(fields("s"), Some(json!({"f:replicas": {}})));
    }
}
