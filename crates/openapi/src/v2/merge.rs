//! What other servers say in OpenAPI v2, added to the document of this one (R131f).
//!
//! Of a stranger's document only the paths of its own version are taken, and the definitions that they lead
//! to. A name that has another meaning here gets a number, as upstream does it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

/// Where definitions are referred to.
const DEFINITIONS: &str = "#/definitions/";
/// Definitions of the machinery mean the same everywhere: those of this server stay.
const MACHINERY: &str = "io.k8s.apimachinery.";
/// So many paths and definitions of one version are taken over.
const PARTS_MAX: usize = 2_000;
/// So often a name is tried again with another number.
const NUMBERS: usize = 100;

/// The part of another server's document that is about one version: `paths`, and the `definitions` they need.
#[must_use]
pub fn part(document: &Value, group: &str, version: &str) -> Option<Value> {
    if document.get("swagger").and_then(Value::as_str) != Some("2.0") {
        return None;
    }
    let root = format!("/apis/{group}/{version}");
    let mine = |path: &str| {
        path.strip_prefix(&root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let all = document.get("paths")?.as_object()?;
    let paths: Map<String, Value> = all
        .iter()
        .filter(|(path, item)| mine(path) && item.is_object())
        .map(|(path, item)| (path.clone(), item.clone()))
        .collect();
    let known = document.get("definitions").and_then(Value::as_object);
    let mut definitions = Map::new();
    let mut wanted: Vec<String> = Vec::new();
    paths.values().for_each(|item| refers(item, &mut |name| wanted.push(name.to_owned())));
    while let Some(name) = wanted.pop() {
        let found = known.and_then(|known| known.get(&name)).filter(|found| found.is_object());
        let Some(found) = found.filter(|_| !definitions.contains_key(&name)) else { continue };
        refers(found, &mut |name| wanted.push(name.to_owned()));
        definitions.insert(name, found.clone());
        if definitions.len() > PARTS_MAX {
            return None;
        }
    }
    let some = !paths.is_empty() && paths.len() <= PARTS_MAX;
    some.then(|| json!({"paths": paths, "definitions": definitions}))
}

/// Adds such a part to the document of this server.
pub fn add(document: &mut Value, part: &Value) {
    let members = |value: &Value, name: &str| {
        value.get(name).and_then(Value::as_object).cloned().unwrap_or_default()
    };
    let mut definitions = members(document, "definitions");
    let (theirs, paths) = (members(part, "definitions"), members(part, "paths"));
    let mut renamed = BTreeMap::new();
    let mut taken: BTreeSet<String> = BTreeSet::new();
    for (name, definition) in &theirs {
        let same = definitions.get(name).is_some_and(|own| own == definition);
        let free = !definitions.contains_key(name);
        if same || name.starts_with(MACHINERY) && !free {
            continue;
        }
        let fits =
            |candidate: &String| !definitions.contains_key(candidate) && !taken.contains(candidate);
        let numbered = (2..NUMBERS).map(|number| format!("{name}_v{number}"));
        let Some(new) = std::iter::once(name.clone()).chain(numbered).find(fits) else { continue };
        taken.insert(new.clone());
        renamed.insert(name.clone(), new);
    }
    for (name, definition) in theirs {
        if let Some(new) = renamed.get(&name) {
            let mut definition = definition;
            rename(&mut definition, &renamed);
            definitions.insert(new.clone(), definition);
        }
    }
    let Some(document) = document.as_object_mut() else { return };
    document.insert("definitions".to_owned(), Value::Object(definitions));
    let all = document.entry("paths").or_insert_with(|| json!({}));
    let Some(all) = all.as_object_mut() else { return };
    for (path, mut item) in paths {
        rename(&mut item, &renamed);
        all.insert(path, item);
    }
}

/// Shows every definition that a value refers to.
fn refers(value: &Value, visit: &mut dyn FnMut(&str)) {
    match value {
        Value::Object(members) => {
            let to = members.get("$ref").and_then(Value::as_str);
            to.and_then(|to| to.strip_prefix(DEFINITIONS)).into_iter().for_each(&mut *visit);
            members.values().for_each(|member| refers(member, visit));
        }
        Value::Array(items) => items.iter().for_each(|item| refers(item, visit)),
        _ => {}
    }
}

/// Lets a value refer to the new names.
fn rename(value: &mut Value, names: &BTreeMap<String, String>) {
    match value {
        Value::Object(members) => {
            if let Some(Value::String(to)) = members.get_mut("$ref")
                && let Some(new) = to.strip_prefix(DEFINITIONS).and_then(|name| names.get(name))
            {
                *to = format!("{DEFINITIONS}{new}");
            }
            members.values_mut().for_each(|member| rename(member, names));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| rename(item, names)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use super::*;

    fn get(to: &str) -> Value {
        json!({"get": {"responses": {"200": {"schema": {"$ref": format!("{DEFINITIONS}{to}")}}}}})
    }

    fn stranger() -> Value {
        json!({"swagger": "2.0", "paths": {
            "/apis/fish.example/v1/fishes": get("Fish"),
            "/apis/fish.example/v10/fishes": get("Other"),
            "/api/v1/secrets": get("Secret"),
        }, "definitions": {
            "Fish": {"type": "object", "properties": {
                "fin": {"$ref": "#/definitions/Fin"},
                "metadata": {"$ref": "#/definitions/io.k8s.apimachinery.Meta"}}},
            "Fin": {"type": "object", "properties": {"fish": {"$ref": "#/definitions/Fish"}}},
            "io.k8s.apimachinery.Meta": {"type": "object", "description": "theirs"},
            "Other": {"type": "object"}, "Secret": {"type": "object"},
        }})
    }

    #[test]
    fn r131f_of_a_strangers_document_only_its_own_version_is_taken() {
        let part = part(&stranger(), "fish.example", "v1").unwrap();
        let keys = |name: &str| part[name].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys("paths"), ["/apis/fish.example/v1/fishes"]);
        assert_eq!(keys("definitions"), ["Fin", "Fish", "io.k8s.apimachinery.Meta"]);
        assert_eq!(super::part(&stranger(), "fish.example", "v2"), None);
        assert_eq!(super::part(&json!({"swagger": "3.0"}), "fish.example", "v1"), None);
    }

    #[test]
    fn r131f_names_that_mean_something_else_here_get_a_number() {
        let own = json!({"type": "object", "description": "ours"});
        let mut document = json!({"paths": {"/a": {}}, "definitions": {
            "Fish": own, "io.k8s.apimachinery.Meta": own}});
        let part = part(&stranger(), "fish.example", "v1").unwrap();
        add(&mut document, &part);
        let path = &document["paths"]["/apis/fish.example/v1/fishes"];
        assert_eq!(path, &get("Fish_v2"));
        assert_eq!(document["definitions"]["Fish"], own);
        assert_eq!(document["definitions"]["io.k8s.apimachinery.Meta"], own);
        let fin = &document["definitions"]["Fin"]["properties"]["fish"]["$ref"];
        assert_eq!(fin, "#/definitions/Fish_v2");
        let before = document.clone();
        add(&mut document, &json!({"paths": 1, "definitions": []}));
        assert_eq!(document, before, "rubbish adds nothing");
    }
}
