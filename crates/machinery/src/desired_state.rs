//! Whether an object says what is wanted of it, whatever defaults stand beside, and putting it right where it
//! does not.

use serde_json::Value;

use crate::object::{Object, ObjectExt};

/// Has an object say what is wanted; answers whether something was wrong.
///
/// Lists count as wholes. Metadata and the cluster IP of a Service, which stay as they are, do not count.
pub fn put_right(object: &mut Object, wanted: &Object) -> bool {
    let mut wrong = false;
    for (name, value) in wanted.iter().filter(|(name, _)| counts(name)) {
        if let (true, Some(spec)) = (name == "spec", value.as_object()) {
            wrong |= put_right(object.map_mut("spec"), spec);
        } else if !object.get(name).is_some_and(|stored| says(stored, value)) {
            object.insert(name.clone(), value.clone());
            wrong = true;
        }
    }
    wrong
}

fn counts(name: &str) -> bool {
    !matches!(name, "metadata" | "clusterIP" | "apiVersion" | "kind")
}

/// Whether what is stored says what is wanted.
fn says(stored: &Value, wanted: &Value) -> bool {
    match (stored, wanted) {
        (Value::Object(stored), Value::Object(wanted)) => wanted
            .iter()
            .all(|(name, value)| stored.get(name).is_some_and(|stored| says(stored, value))),
        (Value::Array(stored), Value::Array(wanted)) => {
            stored.len() == wanted.len()
                && stored.iter().zip(wanted).all(|(stored, wanted)| says(stored, wanted))
        }
        _ => stored == wanted,
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Object {
        value.as_object().cloned().unwrap_or_default()
    }

    #[test]
    fn r79_what_is_wrong_is_put_right_and_the_rest_stays() {
        let wanted = object(json!({
            "metadata": {"name": "kubernetes"},
            "spec": {"clusterIP": "10.0.0.1", "ports": [{"port": 443}], "type": "ClusterIP"},
        }));
        let good = json!({
            "metadata": {"name": "kubernetes", "labels": {"a": "b"}},
            "spec": {"clusterIP": "10.0.0.9", "ports": [{"port": 443, "protocol": "TCP"}],
                "type": "ClusterIP", "more": 1},
        });
        let mut same = object(good.clone());
        assert!(!put_right(&mut same, &wanted));
        assert_eq!(Value::Object(same), good);
        let mut wrong = object(good.clone());
        wrong.map_mut("spec").insert("ports".into(), json!([{"port": 443}, {"port": 80}]));
        assert!(put_right(&mut wrong, &wanted));
        assert_eq!(wrong["spec"]["ports"], json!([{"port": 443}]));
        assert_eq!(
            (&wrong["spec"]["clusterIP"], &wrong["metadata"]),
            (&json!("10.0.0.9"), &good["metadata"])
        );
    }
}
