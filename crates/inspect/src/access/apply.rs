//! Rules of spec/referential-authorization.md: what `kubectl apply` makes of a live object and a file: three sides are joined, so that fields which somebody
//! else wrote stay, and fields that were applied before and are no longer in the file go.

use serde_json::{Map, Value};

/// Where kubectl keeps what it applied last.
const LAST: &str = "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration";

/// Lists of built-in kinds that are joined item by item, and the member that tells items apart. All other lists
/// are replaced.
const KEYED: [(&str, &[&str]); 12] = [
    ("containers", &["name"]),
    ("initContainers", &["name"]),
    ("ephemeralContainers", &["name"]),
    ("volumes", &["name"]),
    ("env", &["name"]),
    ("imagePullSecrets", &["name"]),
    ("secrets", &["name"]),
    ("volumeMounts", &["mountPath"]),
    ("volumeDevices", &["devicePath"]),
    ("ports", &["containerPort", "port"]),
    ("hostAliases", &["ip"]),
    ("ownerReferences", &["uid"]),
];

/// The object after the file was applied to it.
pub(super) fn applied(live: &Value, file: &Value) -> Value {
    let last = live.pointer(LAST).and_then(Value::as_str);
    let last: Value = last.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let group = live.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    // Only kinds that kubectl knows say which lists are joined.
    let known = matches!(group.split_once('/'), None | Some(("apps" | "batch", _)));
    joined("", live, &last, file, known)
}

fn joined(member: &str, live: &Value, last: &Value, file: &Value, known: bool) -> Value {
    match (live, file) {
        (Value::Object(live), Value::Object(file)) => {
            let nothing = Map::new();
            let last = last.as_object().unwrap_or(&nothing);
            let mut result = live.clone();
            result.retain(|name, _| !last.contains_key(name) || file.contains_key(name));
            for (name, wanted) in file {
                if wanted.is_null() {
                    result.remove(name);
                    continue;
                }
                let before = last.get(name).unwrap_or(&Value::Null);
                let value = match result.get(name) {
                    Some(value) => joined(name, value, before, wanted, known),
                    None => wanted.clone(),
                };
                result.insert(name.clone(), value);
            }
            Value::Object(result)
        }
        (Value::Array(live), Value::Array(file)) => {
            let keys = KEYED.iter().find(|(list, _)| known && *list == member);
            let key = keys.and_then(|(_, keys)| {
                let all_have =
                    |key: &&&str| live.iter().chain(file).all(|it| it.get(**key).is_some());
                keys.iter().find(all_have)
            });
            match key {
                Some(key) => Value::Array(items(key, live, last, file, known)),
                None => Value::Array(file.clone()),
            }
        }
        _ => file.clone(),
    }
}

/// Lists joined item by item.
fn items(key: &str, live: &[Value], last: &Value, file: &[Value], known: bool) -> Vec<Value> {
    let find = |list: &[Value], item: &Value| {
        list.iter().find(|other| other.get(key) == item.get(key)).cloned()
    };
    let last = last.as_array().map(Vec::as_slice).unwrap_or_default();
    let kept = live.iter().filter(|item| find(last, item).is_none() || find(file, item).is_some());
    let mut result: Vec<Value> = kept
        .map(|item| match find(file, item) {
            Some(wanted) => {
                let before = find(last, item).unwrap_or_default();
                joined("", item, &before, &wanted, known)
            }
            None => item.clone(),
        })
        .collect();
    result.extend(file.iter().filter(|item| find(live, item).is_none()).cloned());
    result
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn with_last(mut live: Value, last: &Value) -> Value {
        live["metadata"] = json!({ "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": last.to_string() } });
        live
    }

    #[test]
    fn r134_what_others_wrote_stays_and_what_was_applied_before_goes() {
        let live = json!({ "apiVersion": "example.com/v1", "spec": {
            "mine": 1, "theirs": 2, "list": [1, 2], "inner": { "mine": 1, "theirs": 2 } } });
        let last = json!({ "spec": { "mine": 1, "list": [1, 2], "inner": { "mine": 1 } } });
        let file = json!({ "apiVersion": "example.com/v1", "spec": {
            "new": 3, "list": [3], "inner": { "mine": 4 } } });
        let after = applied(&with_last(live, &last), &file);
        let expected =
            json!({ "theirs": 2, "new": 3, "list": [3], "inner": { "mine": 4, "theirs": 2 } });
        assert_eq!(after["spec"], expected);
    }

    #[test]
    fn r134_without_a_record_nothing_goes_that_the_file_does_not_name() {
        let live = json!({ "apiVersion": "example.com/v1", "spec": { "a": 1, "b": { "c": 1 } } });
        let after = applied(&live, &json!({ "spec": { "b": { "c": null, "d": 2 } } }));
        assert_eq!(after["spec"], json!({ "a": 1, "b": { "d": 2 } }));
    }

    #[test]
    fn r134_lists_of_built_in_kinds_are_joined_by_their_keys() {
        let live = json!({ "apiVersion": "v1", "spec": { "volumes": [
            { "name": "a", "secret": { "secretName": "x" } }, { "name": "b" } ] } });
        let file = json!({ "apiVersion": "v1", "spec": { "volumes": [{ "name": "c" }] } });
        let names = |after: &Value| -> Vec<String> {
            let all = after["spec"]["volumes"].as_array().unwrap();
            all.iter().map(|it| it["name"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(names(&applied(&live, &file)), ["a", "b", "c"]);
        let last = json!({ "spec": { "volumes": [{ "name": "b" }] } });
        assert_eq!(names(&applied(&with_last(live, &last), &file)), ["a", "c"]);
    }
}
