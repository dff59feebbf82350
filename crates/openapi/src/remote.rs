//! Versions of groups that other servers serve: what of their discovery is taken over, and in which form.
//!
//! ```text
//!   APIResourceList of a stranger ──► resources: known members of the right types, so many at most
//!                                        └──► one version of the aggregated document
//! ```
//!
//! Nothing that a stranger writes is copied without being looked at.

use serde_json::{Map, Value, json};

/// So many resources of one version are taken over.
const RESOURCES_MAX: usize = 1_000;
/// So many verbs, short names or categories of one resource are taken over.
const WORDS_MAX: usize = 64;
/// No name in discovery is longer.
const NAME_BYTES_MAX: usize = 253;

/// A version of a group that another server serves.
#[derive(Clone, Copy, Debug)]
pub struct RemoteVersion<'a> {
    /// The group.
    pub group: &'a str,
    /// The version.
    pub version: &'a str,
    /// The place of the group; the greatest of its versions counts.
    pub group_priority: i64,
    /// The place of the version within the group.
    pub version_priority: i64,
    /// Its resources, as [`resources`] read them.
    pub resources: &'a [Value],
    /// Whether the server says so now.
    pub current: bool,
}

/// The resources of an `APIResourceList`; `None` if the document is none, or is about something else.
#[must_use]
pub fn resources(document: &Value, group: &str, version: &str) -> Option<Vec<Value>> {
    let is_list = document.get("kind").and_then(Value::as_str) == Some("APIResourceList");
    let about = document.get("groupVersion").and_then(Value::as_str);
    if !is_list || about != Some(format!("{group}/{version}").as_str()) {
        return None;
    }
    let listed = document.get("resources")?.as_array()?;
    if listed.len() > RESOURCES_MAX {
        return None;
    }
    listed.iter().map(resource).collect()
}

fn resource(from: &Value) -> Option<Value> {
    let from = from.as_object()?;
    let mut entry = Map::new();
    let name = word(from.get("name")?)?;
    entry.insert("name".to_owned(), name.into());
    entry.insert("kind".to_owned(), word(from.get("kind")?)?.into());
    let namespaced = from.get("namespaced").is_some_and(|value| value == &Value::Bool(true));
    entry.insert("namespaced".to_owned(), namespaced.into());
    for member in ["singularName", "group", "version"] {
        if let Some(value) = from.get(member) {
            entry.insert(member.to_owned(), word(value)?.into());
        }
    }
    for member in ["verbs", "shortNames", "categories"] {
        let Some(value) = from.get(member).filter(|value| !value.is_null()) else { continue };
        let words = value.as_array().filter(|words| words.len() <= WORDS_MAX)?;
        let words: Option<Vec<Value>> =
            words.iter().map(|value| word(value).map(Value::from)).collect();
        entry.insert(member.to_owned(), words?.into());
    }
    Some(Value::Object(entry))
}

fn word(value: &Value) -> Option<&str> {
    let plain = |text: &&str| text.len() <= NAME_BYTES_MAX && !text.chars().any(char::is_control);
    value.as_str().filter(plain)
}

/// One version as the aggregated document has it.
pub(crate) fn aggregated(remote: &RemoteVersion<'_>) -> Value {
    let freshness = if remote.current { "Current" } else { "Stale" };
    let mut entry = json!({"version": remote.version, "freshness": freshness});
    let resources = aggregated_resources(remote);
    if !resources.is_empty() {
        crate::put(&mut entry, "resources", resources);
    }
    entry
}

fn aggregated_resources(remote: &RemoteVersion<'_>) -> Vec<Value> {
    let mut found: Vec<Value> = Vec::new();
    for resource in remote.resources {
        let name = text(resource, "name");
        let Some((parent, subresource)) = name.split_once('/') else {
            let mut entry = main(name, resource);
            // A subresource may have been listed before what it belongs to.
            match found.iter_mut().find(|known| text(known, "resource") == name) {
                Some(known) => {
                    if let Some(subresources) = known.get("subresources") {
                        crate::put(&mut entry, "subresources", subresources.clone());
                    }
                    *known = entry;
                }
                None => found.push(entry),
            }
            continue;
        };
        let entry = json!({
            "subresource": subresource, "responseKind": kind(resource), "verbs": verbs(resource),
        });
        let place = found.iter().position(|known| text(known, "resource") == parent);
        let place = place.unwrap_or_else(|| {
            let scope = scope(resource);
            let none = json!({"group": "", "version": "", "kind": ""});
            found.push(json!({"resource": parent, "responseKind": none, "scope": scope,
                "singularResource": "", "verbs": []}));
            found.len() - 1
        });
        let Some(Value::Object(known)) = found.get_mut(place) else { continue };
        let list = known.entry("subresources").or_insert_with(|| json!([]));
        if let Value::Array(list) = list {
            list.push(entry);
        }
    }
    found
}

fn main(name: &str, resource: &Value) -> Value {
    let mut entry = json!({
        "resource": name,
        "responseKind": kind(resource),
        "scope": scope(resource),
        "singularResource": text(resource, "singularName"),
        "verbs": verbs(resource),
    });
    for member in ["shortNames", "categories"] {
        if let Some(words) = resource.get(member) {
            crate::put(&mut entry, member, words.clone());
        }
    }
    entry
}

fn kind(resource: &Value) -> Value {
    let of = |member| text(resource, member);
    json!({"group": of("group"), "version": of("version"), "kind": of("kind")})
}

fn scope(resource: &Value) -> &'static str {
    let namespaced = resource.get("namespaced").and_then(Value::as_bool).unwrap_or_default();
    if namespaced { "Namespaced" } else { "Cluster" }
}

fn verbs(resource: &Value) -> Value {
    resource.get("verbs").cloned().unwrap_or_else(|| json!([]))
}

fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value.get(member).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    //! Rules of `spec/api-server.md`.

    use super::*;

    fn list(resources: Value) -> Value {
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "a.example/v1",
            "resources": resources})
    }

    #[test]
    fn r131f_what_a_stranger_lists_is_taken_over_as_far_as_it_is_a_list() {
        let read = |document: &Value| resources(document, "a.example", "v1");
        let good = list(json!([
            {"name": "fishes/status", "kind": "Fish", "namespaced": true, "verbs": ["get"]},
            {"name": "fishes", "singularName": "fish", "kind": "Fish", "namespaced": true,
                "verbs": ["get", "list"], "shortNames": ["fi"], "storageVersionHash": "x", "odd": {}},
            {"name": "reviews", "kind": "Review", "namespaced": false, "verbs": null, "group": "b"},
        ]));
        let found = read(&good).expect("a list");
        assert_eq!(found[1].get("odd"), None, "what is not known is left out");
        let remote = RemoteVersion {
            group: "a.example",
            version: "v1",
            group_priority: 1,
            version_priority: 1,
            resources: &found,
            current: true,
        };
        assert_eq!(
            aggregated(&remote),
            json!({"version": "v1", "freshness": "Current", "resources": [
                {"resource": "fishes", "scope": "Namespaced", "singularResource": "fish",
                    "responseKind": {"group": "", "version": "", "kind": "Fish"},
                    "verbs": ["get", "list"], "shortNames": ["fi"], "subresources": [
                        {"subresource": "status", "verbs": ["get"],
                            "responseKind": {"group": "", "version": "", "kind": "Fish"}}]},
                {"resource": "reviews", "scope": "Cluster", "singularResource": "", "verbs": [],
                    "responseKind": {"group": "b", "version": "", "kind": "Review"}},
            ]})
        );
        let stale = RemoteVersion { resources: &[], current: false, ..remote };
        assert_eq!(aggregated(&stale), json!({"version": "v1", "freshness": "Stale"}));
        let many: Vec<Value> = (0..=RESOURCES_MAX)
            .map(|n| json!({"name": format!("r{n}"), "kind": "R", "verbs": []}))
            .collect();
        let mut elsewhere = good.clone();
        elsewhere["groupVersion"] = json!("b.example/v1");
        for bad in [
            json!(null),
            json!({"kind": "APIResourceList"}),
            json!({"kind": "Status", "groupVersion": "a.example/v1", "resources": []}),
            elsewhere,
            list(json!([{"kind": "Fish"}])),
            list(json!([{"name": 5, "kind": "Fish"}])),
            list(json!([{"name": "a\nb", "kind": "Fish"}])),
            list(json!([{"name": "n".repeat(254), "kind": "Fish"}])),
            list(json!([{"name": "a", "kind": "A", "verbs": [1]}])),
            list(json!({})),
            list(Value::Array(many)),
        ] {
            assert_eq!(read(&bad), None, "{bad}");
        }
    }
}
