//! Rules of spec/api-server.md, on the types of the facts table.

use proptest::prelude::*;
use serde_json::{Value, json};
use tenure_machinery::{Object, ObjectExt};
use tenure_schema::facts;

use super::{FieldManager, keep_times, update};
use crate::managed::{FieldSet, typed};
use crate::schema::{Deduced, MergeSchema, Structural, TypeSchema};

fn schema(name: &str) -> TypeSchema<'static> {
    TypeSchema::new(facts(), facts().type_id(name).expect("a known type"))
}

fn config_map() -> TypeSchema<'static> {
    schema("api.core.v1.ConfigMap")
}

fn object(json: Value) -> Object {
    let Value::Object(object) = json else { panic!("an object") };
    object
}

fn writer<'w>(manager: &'w str, now: &'w str) -> FieldManager<'w> {
    FieldManager { manager, api_version: "v1", subresource: "", now }
}

fn managed(object: &Object) -> Value {
    object.at(&["metadata", "managedFields"]).cloned().unwrap_or_default()
}

fn fields(object: &Object, at: usize) -> Value {
    managed(object).pointer(&format!("/{at}/fieldsV1")).cloned().unwrap_or_default()
}

fn managers(object: &Object) -> Vec<String> {
    let name = |entry: &Value| entry["manager"].as_str().unwrap_or_default().to_owned();
    object.list_at(&["metadata", "managedFields"]).iter().map(name).collect()
}

/// Writes `new` over `old` and returns it with its managers.
fn write<S: MergeSchema>(schema: &S, old: Option<&Object>, new: Value, manager: &str) -> Object {
    let mut new = object(new);
    update(schema, old, &mut new, &writer(manager, "2026-01-01T00:00:00Z"), &[]);
    new
}

#[test]
fn r92_an_entry() {
    let made = write(
        &config_map(),
        None,
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "c", "namespace": "n", "uid": "u", "labels": {"x": "1"},
                "finalizers": ["e.io/a"],
                "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "o", "uid": "7"}]},
            "data": {"a": "1", "b": "2"},
        }),
        "m1",
    );
    assert_eq!(
        managed(&made),
        json!([{
            "apiVersion": "v1", "fieldsType": "FieldsV1", "manager": "m1", "operation": "Update",
            "time": "2026-01-01T00:00:00Z",
            "fieldsV1": {
                "f:data": {".": {}, "f:a": {}, "f:b": {}},
                "f:metadata": {
                    "f:finalizers": {".": {}, "v:\"e.io/a\"": {}},
                    "f:labels": {".": {}, "f:x": {}},
                    "f:ownerReferences": {".": {}, "k:{\"uid\":\"7\"}": {}},
                },
            },
        }])
    );
}

#[test]
fn r92_dots_where_the_empty_object_has_nothing() {
    let made = write(
        &schema("api.apps.v1.Deployment"),
        None,
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
            "spec": {
                "progressDeadlineSeconds": 600, "replicas": 0, "revisionHistoryLimit": 10,
                "selector": {"matchLabels": {"app": "a"}},
                "strategy": {
                    "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"},
                    "type": "RollingUpdate",
                },
                "template": {
                    "metadata": {"labels": {"app": "a"}},
                    "spec": {
                        "containers": [{
                            "image": "img", "imagePullPolicy": "IfNotPresent", "name": "c",
                            "ports": [{"containerPort": 80}],
                            "resources": {}, "terminationMessagePath": "/dev/termination-log",
                            "terminationMessagePolicy": "File",
                        }],
                        "dnsPolicy": "ClusterFirst", "restartPolicy": "Always",
                        "schedulerName": "default-scheduler", "securityContext": {},
                        "terminationGracePeriodSeconds": 30,
                    },
                },
            },
            "status": {},
        }),
        "m1",
    );
    assert_eq!(
        fields(&made, 0),
        json!({"f:spec": {
            "f:progressDeadlineSeconds": {}, "f:replicas": {}, "f:revisionHistoryLimit": {},
            "f:selector": {},
            "f:strategy": {
                "f:rollingUpdate": {".": {}, "f:maxSurge": {}, "f:maxUnavailable": {}},
                "f:type": {},
            },
            "f:template": {
                "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
                "f:spec": {
                    "f:containers": {"k:{\"name\":\"c\"}": {
                        ".": {}, "f:image": {}, "f:imagePullPolicy": {}, "f:name": {},
                        "f:ports": {
                            ".": {},
                            "k:{\"containerPort\":80,\"protocol\":\"TCP\"}":
                                {".": {}, "f:containerPort": {}},
                        },
                        "f:resources": {}, "f:terminationMessagePath": {},
                        "f:terminationMessagePolicy": {},
                    }},
                    "f:dnsPolicy": {}, "f:restartPolicy": {}, "f:schedulerName": {},
                    "f:securityContext": {}, "f:terminationGracePeriodSeconds": {},
                },
            },
        }})
    );
}

#[test]
fn r92_inside_a_pointer_everything_is_new() {
    let made = write(
        &schema("api.core.v1.ReplicationController"),
        None,
        json!({"metadata": {"name": "r"}, "spec": {
            "replicas": 1, "selector": {"app": "a"},
            "template": {
                "metadata": {"labels": {"app": "a"}},
                "spec": {"containers": [{"name": "c"}], "securityContext": {}},
            },
        }}),
        "m1",
    );
    assert_eq!(
        fields(&made, 0),
        json!({"f:spec": {"f:replicas": {}, "f:selector": {}, "f:template": {
            ".": {},
            "f:metadata": {".": {}, "f:labels": {".": {}, "f:app": {}}},
            "f:spec": {
                ".": {},
                "f:containers": {".": {}, "k:{\"name\":\"c\"}": {".": {}, "f:name": {}}},
                "f:securityContext": {},
            },
        }}})
    );
}

#[test]
fn r92_custom_resources_start_from_nothing() {
    let crd = json!({"properties": {"spec": {"properties": {
        "replicas": {"type": "integer"},
        "parts": {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"]},
        "tags": {"x-kubernetes-list-type": "set"},
        "plain": {},
    }}}});
    let schema = Structural::new(&crd, Some(schema("apimachinery.meta.v1.ObjectMeta")));
    let body = json!({
        "apiVersion": "e.io/v1", "kind": "W",
        "metadata": {"name": "w", "labels": {"a": "b"}, "finalizers": ["e.io/f"]},
        "spec": {"replicas": 1, "parts": [{"id": 1, "x": {"y": 2}}], "tags": ["t"], "plain": [1]},
    });
    assert_eq!(
        fields(&write(&schema, None, body.clone(), "m"), 0),
        json!({
            "f:metadata": {
                "f:finalizers": {".": {}, "v:\"e.io/f\"": {}},
                "f:labels": {".": {}, "f:a": {}},
            },
            "f:spec": {
                ".": {}, "f:replicas": {}, "f:plain": {},
                "f:parts": {".": {}, "k:{\"id\":1}": {
                    ".": {}, "f:id": {}, "f:x": {".": {}, "f:y": {}}}},
                "f:tags": {".": {}, "v:\"t\"": {}},
            },
        })
    );
    assert_eq!(
        fields(&write(&Deduced, None, body, "m"), 0)["f:spec"],
        json!({".": {}, "f:replicas": {}, "f:plain": {}, "f:parts": {}, "f:tags": {}})
    );
}

#[test]
fn r94_changed_fields_move_and_removed_ones_vanish() {
    let old = write(
        &config_map(),
        None,
        json!({"metadata": {"name": "c"}, "data": {"a": "1", "b": "2"}}),
        "m1",
    );
    let new = write(
        &config_map(),
        Some(&old),
        json!({"metadata": {"name": "c"}, "data": {"a": "9", "c": "3"}}),
        "m2",
    );
    assert_eq!(managers(&new), ["m1", "m2"]);
    assert_eq!(fields(&new, 0), json!({"f:data": {}}));
    assert_eq!(fields(&new, 1), json!({"f:data": {"f:a": {}, "f:c": {}}}));
    let gone = write(&config_map(), Some(&new), json!({"metadata": {"name": "c"}}), "m3");
    assert_eq!(managed(&gone), Value::Null);
}

#[test]
fn r94_the_same_writer_keeps_one_entry() {
    let old = write(&config_map(), None, json!({"metadata": {}, "data": {"a": "1"}}), "m1");
    let new = json!({"metadata": {}, "data": {"a": "2", "b": "1"}});
    let new = write(&config_map(), Some(&old), new, "m1");
    assert_eq!(managers(&new), ["m1"]);
    assert_eq!(fields(&new, 0), json!({"f:data": {".": {}, "f:a": {}, "f:b": {}}}));
}

#[test]
fn r92_no_name_is_unknown_and_subresources_are_apart() {
    let old = write(&config_map(), None, json!({"metadata": {}, "data": {"a": "1"}}), "");
    assert_eq!(managers(&old), ["unknown"]);
    let mut new = object(json!({"metadata": {}, "data": {"a": "1", "b": "1"}}));
    let who = FieldManager { subresource: "status", ..writer("", "2026-01-02T00:00:00Z") };
    update(&config_map(), Some(&old), &mut new, &who, &[]);
    assert_eq!(managers(&new), ["unknown", "unknown"]);
    assert_eq!(managed(&new)[1]["subresource"], "status");
}

#[test]
fn r92_apply_entries_first_then_by_time() {
    let entry = |manager: &str, operation: &str, time: &str| {
        json!({"manager": manager, "operation": operation, "apiVersion": "v1", "time": time,
            "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:a": {}}}})
    };
    let old = object(json!({"metadata": {"managedFields": [
        entry("late", "Update", "2026-03-01T00:00:00Z"),
        entry("early", "Update", "2026-02-01T00:00:00Z"),
        entry("applier", "Apply", "2026-04-01T00:00:00Z"),
    ]}, "data": {"a": "1"}}));
    let new = json!({"metadata": {}, "data": {"a": "1", "b": "1"}});
    let new = write(&config_map(), Some(&old), new, "m1");
    assert_eq!(managers(&new), ["applier", "m1", "early", "late"]);
}

#[test]
fn r97_the_oldest_update_managers_are_joined() {
    let mut live = write(&config_map(), None, json!({"metadata": {}, "data": {}}), "m00");
    let mut body = json!({"metadata": {}, "data": {}});
    for number in 1..=12 {
        body["data"][format!("k{number:02}")] = json!("v");
        let mut new = object(body.clone());
        let (name, now) = (format!("m{number:02}"), format!("2026-01-01T00:00:{number:02}Z"));
        update(&config_map(), Some(&live), &mut new, &writer(&name, &now), &[]);
        live = new;
    }
    assert_eq!(managers(&live).len(), 10);
    assert_eq!(managers(&live)[0], "ancient-changes");
    assert_eq!(managed(&live)[0]["time"], "2026-01-01T00:00:03Z");
    let joined = json!({"f:data": {".": {}, "f:k01": {}, "f:k02": {}, "f:k03": {}}});
    assert_eq!(fields(&live, 0), joined);
}

#[test]
fn r98_reset_fields_are_never_owned() {
    let mut new = object(json!({"metadata": {}, "spec": {"hostNetwork": true},
        "status": {"reason": "Z", "conditions": [{"type": "A", "status": "True"}]}}));
    update(
        &schema("api.core.v1.Pod"),
        None,
        &mut new,
        &writer("m", "2026-01-01T00:00:00Z"),
        &[&["status"]],
    );
    assert_eq!(fields(&new, 0), json!({"f:spec": {"f:hostNetwork": {}}}));
}

#[test]
fn r99_resetting_and_omitting() {
    let body = |managed: Value| json!({"metadata": {"managedFields": managed}, "data": {"a": "2"}});
    let old = write(&config_map(), None, json!({"metadata": {}, "data": {"a": "1"}}), "m1");
    for reset in [json!([]), json!([{}])] {
        let new = write(&config_map(), Some(&old), body(reset), "m2");
        assert_eq!(managed(&new), Value::Null);
        let later = write(&config_map(), Some(&new), body(Value::Null), "m2");
        assert_eq!(managed(&later), Value::Null, "no new tracking without an apply");
    }
    let kept = write(&config_map(), Some(&old), json!({"metadata": {}, "data": {"a": "1"}}), "m2");
    assert_eq!(managed(&kept), managed(&old));

    let mut new = object(body(json!([])));
    let who = FieldManager { subresource: "status", ..writer("m2", "2026-01-02T00:00:00Z") };
    update(&config_map(), Some(&old), &mut new, &who, &[]);
    assert_eq!(managers(&new), ["m1", "m2"], "a subresource cannot reset");
}

#[test]
fn r94_nonsense_in_the_list_never_fails_a_write() {
    let old = write(&config_map(), None, json!({"metadata": {}, "data": {"a": "1"}}), "m1");
    for nonsense in [
        json!("x"),
        json!([1]),
        json!([{"operation": "Frobnicate"}]),
        json!([{"operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
            "fieldsV1": {"f": 1}}]),
        json!([{"operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV2"}]),
    ] {
        let body = json!({"metadata": {"managedFields": nonsense}, "data": {"a": "1"}});
        let new = write(&config_map(), Some(&old), body.clone(), "m2");
        assert_eq!(managed(&new), managed(&old), "the stored list stays");
        let stored = object(body);
        let new = json!({"metadata": {}, "data": {"a": "2"}});
        assert_eq!(managed(&write(&config_map(), Some(&stored), new, "m2")), Value::Null);
    }
}

#[test]
fn r62_times_alone_are_no_change() {
    let old = write(&config_map(), None, json!({"metadata": {}, "data": {"a": "1"}}), "m1");
    let mut new = old.clone();
    new.map_mut("metadata")["managedFields"][0]["time"] = json!("2027-01-01T00:00:00Z");
    let mut other = new.clone();
    keep_times(&old, &mut new);
    assert_eq!(new, old);
    other.insert("data".to_owned(), json!({"a": "2"}));
    keep_times(&old, &mut other);
    assert_eq!(managed(&other)[0]["time"], "2027-01-01T00:00:00Z");
}

#[test]
fn r95_duplicate_items_are_one_unit() {
    let pod = schema("api.core.v1.Pod");
    let body = |values: Value| json!({"metadata": {}, "spec": {"containers": [{"name": "c", "env": values}]}});
    let twice = json!([{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]);
    let old = write(&pod, None, body(twice.clone()), "m1");
    let env = "/f:spec/f:containers/k:{\"name\":\"c\"}/f:env";
    assert_eq!(fields(&old, 0).pointer(env), Some(&json!({".": {}, "k:{\"name\":\"A\"}": {}})));
    let same = write(&pod, Some(&old), body(twice), "m2");
    assert_eq!(managers(&same), ["m1"]);
    let once = write(&pod, Some(&old), body(json!([{"name": "A", "value": "2"}])), "m2");
    assert_eq!(
        fields(&once, 1).pointer(env),
        Some(&json!({"k:{\"name\":\"A\"}": {".": {}, "f:name": {}, "f:value": {}}}))
    );
}

/// Every field of the set must be found in the object.
fn exists<S: MergeSchema>(schema: &S, object: &Object, set: &FieldSet) -> bool {
    let all = typed::compare(schema, None, object).changed();
    let zero = typed::fields(schema, object);
    set.clone().difference(&all).difference(&zero).is_empty()
}

fn any_object() -> impl Strategy<Value = Value> {
    let text = || prop_oneof![Just("1"), Just("2")];
    let data = prop::collection::btree_map("[ab]", text(), 0..3);
    let finalizers = prop::collection::btree_set(prop_oneof![Just("e.io/x"), Just("e.io/y")], 0..3);
    let env = prop::collection::vec((prop_oneof![Just("A"), Just("B")], text()), 0..3);
    (data, finalizers, env).prop_map(|(labels, finalizers, env)| {
        let env: Vec<_> =
            env.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
        let mut metadata = json!({"labels": labels, "finalizers": finalizers});
        metadata.as_object_mut().expect("an object").retain(|_, part| {
            part.as_object().is_none_or(|map| !map.is_empty())
                && part.as_array().is_none_or(|list| !list.is_empty())
        });
        json!({"metadata": metadata, "spec": {"containers": [{"name": "c", "env": env}]}})
    })
}

proptest! {
    #[test]
    fn r94_owned_fields_exist_and_writes_settle(
        writes in prop::collection::vec((any_object(), 0usize..3), 1..6)
    ) {
        let pod = schema("api.core.v1.Pod");
        let mut live: Option<Object> = None;
        for (body, who) in writes {
            let manager = ["x", "y", "z"][who];
            let new = write(&pod, live.as_ref(), body.clone(), manager);
            for entry in new.list_at(&["metadata", "managedFields"]) {
                let set = FieldSet::from_json(&entry["fieldsV1"]).expect("well formed");
                prop_assert!(!set.is_empty());
                let mut bare = new.clone();
                bare.map_mut("metadata").remove("managedFields");
                prop_assert!(exists(&pod, &bare, &set), "{entry} {bare:?}");
            }
            let again = write(&pod, Some(&new), body, "other");
            if !managed(&new).is_null() {
                prop_assert_eq!(&again, &new);
            }
            live = Some(new);
        }
    }
}
