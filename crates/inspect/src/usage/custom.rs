//! Kinds that others defined: every text in them may be a name, and a member that speaks of secrets probably is one.

use serde_json::{Map, Value};
use tenure_kinds::podspec::ReferenceKind;

use super::{Looking, text};

/// How deep an object is searched; the server refuses deeper ones.
const DEPTH_MAX: usize = 64;

impl Looking<'_> {
    /// What an object of an unknown kind mentions, outside its metadata and status.
    pub(super) fn custom(&mut self, object: &Map<String, Value>) {
        for (member, value) in object {
            if !matches!(member.as_str(), "metadata" | "status" | "apiVersion" | "kind") {
                self.walk(member, value, None, self.namespace, 0);
            }
        }
    }

    /// Goes through a value. `of` is the kind that the members above speak of, `place` the namespace they name.
    fn walk(
        &mut self,
        member: &str,
        value: &Value,
        of: Option<ReferenceKind>,
        place: &str,
        depth: usize,
    ) {
        if depth > DEPTH_MAX {
            return;
        }
        let of = spoken_of(member).or(of);
        match value {
            Value::String(name) => self.named(member, name, of, place),
            Value::Array(list) => {
                for item in list {
                    self.walk(member, item, of, place, depth + 1);
                }
            }
            Value::Object(map) => {
                // Something that looks like a pod is one.
                if map.get("containers").is_some_and(Value::is_array) {
                    self.pod(map);
                }
                let of = kind_said(map).or(of);
                let said = text(map, "namespace");
                let place = if said.is_empty() { place } else { said };
                for (member, value) in map {
                    if member != "namespace" {
                        self.walk(member, value, of, place, depth + 1);
                    }
                }
            }
            _ => {}
        }
    }

    fn named(&mut self, member: &str, name: &str, of: Option<ReferenceKind>, place: &str) {
        const HOW: &str = "a text that equals its name";
        if member == "key" || name.is_empty() {
            return;
        }
        let (place, name) = name.split_once('/').unwrap_or((place, name));
        match of {
            Some(kind) if !place.is_empty() => {
                self.uses(kind, place, name);
                self.may_use(place, name, HOW);
            }
            // It says no namespace and lives in none: it may mean any.
            _ if place.is_empty() => {
                let places: Vec<&String> = self.names.places.keys().collect();
                let found: Vec<usize> =
                    places.into_iter().flat_map(|place| self.names.called(place, name)).collect();
                for subject in found {
                    self.push(subject, Some(HOW));
                }
            }
            _ => self.may_use(place, name, HOW),
        }
    }
}

/// The kind that the name of a member speaks of.
fn spoken_of(member: &str) -> Option<ReferenceKind> {
    let member = member.to_lowercase();
    if member.contains("secret") {
        return Some(ReferenceKind::Secret);
    }
    member.contains("configmap").then_some(ReferenceKind::ConfigMap)
}

/// The kind that a reference says.
fn kind_said(map: &Map<String, Value>) -> Option<ReferenceKind> {
    match text(map, "kind") {
        "Secret" => Some(ReferenceKind::Secret),
        "ConfigMap" => Some(ReferenceKind::ConfigMap),
        _ => None,
    }
}
