//! Rules of spec/api-server.md, on the types of the facts table.

use proptest::prelude::*;
use serde_json::{Value, json};
use tenure_machinery::{Object, ObjectExt};
use tenure_schema::facts;

use super::{Application, ApplyError, LAST_APPLIED, apply};
use crate::managed::{FieldManager, update};
use crate::merge::without_nulls;
use crate::schema::TypeSchema;

fn schema(name: &str) -> TypeSchema<'static> {
    TypeSchema::new(facts(), facts().type_id(name).expect("a known type"))
}

fn object(json: Value) -> Object {
    let Value::Object(object) = json else { panic!("an object") };
    object
}

/// A server for objects of one type, without defaults.
struct Server {
    schema: TypeSchema<'static>,
    live: Option<Object>,
    seconds: u32,
}

impl Server {
    fn new(name: &str) -> Self {
        Self { schema: schema(name), live: None, seconds: 0 }
    }

    fn config_map() -> Self {
        Self::new("api.core.v1.ConfigMap")
    }

    fn pod_template() -> Self {
        Self::new("api.core.v1.PodTemplate")
    }

    fn store(&mut self, object: Object) {
        let Value::Object(mut object) = without_nulls(&Value::Object(object)) else { return };
        object.retain(|name, value| {
            name == "metadata" || value.as_object().is_none_or(|map| !map.is_empty())
        });
        self.live = Some(object);
    }

    fn now(&mut self) -> String {
        self.seconds += 1;
        format!("2026-01-01T00:{:02}:{:02}Z", self.seconds / 60, self.seconds % 60)
    }

    fn try_apply(&mut self, manager: &str, config: Value, force: bool) -> Result<(), ApplyError> {
        let now = self.now();
        let who = FieldManager { manager, api_version: "v1", subresource: "", now: &now };
        let config = object(config);
        let request = Application { config: &config, who, reset: &[&["status"]], force };
        let object = apply(&self.schema, self.live.as_mut(), &request)?;
        self.store(object);
        Ok(())
    }

    fn apply(&mut self, manager: &str, config: Value) {
        self.try_apply(manager, config, false).expect("no conflict");
    }

    fn put(&mut self, manager: &str, body: Value) {
        let now = self.now();
        let who = FieldManager { manager, api_version: "v1", subresource: "", now: &now };
        let mut new = object(body);
        update(&self.schema, self.live.as_ref(), &mut new, &who, &[&["status"]]);
        self.store(new);
    }

    fn conflicts(&mut self, manager: &str, config: Value) -> Vec<String> {
        match self.try_apply(manager, config, false) {
            Err(ApplyError::Conflicts(conflicts)) => {
                conflicts.into_iter().map(|conflict| conflict.field).collect()
            }
            other => panic!("expected conflicts, got {other:?}"),
        }
    }

    fn at(&self, path: &str) -> Value {
        let live = Value::Object(self.live.clone().unwrap_or_default());
        live.pointer(path).cloned().unwrap_or_default()
    }

    /// Each manager with its fields.
    fn owners(&self) -> Vec<(String, Value)> {
        let live = self.live.as_ref().expect("an object");
        let owner = |entry: &Value| {
            let word = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
            (format!("{} {}", word("manager"), word("operation")), entry["fieldsV1"].clone())
        };
        live.list_at(&["metadata", "managedFields"]).iter().map(owner).collect()
    }
}

fn data(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data})
}

fn containers(list: Value) -> Value {
    json!({"metadata": {"name": "t"}, "template": {"spec": {"containers": list}}})
}

#[test]
fn r100_apply_creates_with_one_entry() {
    let mut server = Server::config_map();
    server.apply("m1", data(json!({"a": "1"})));
    assert_eq!(
        server.at("/metadata/managedFields"),
        json!([{"apiVersion": "v1", "fieldsType": "FieldsV1", "manager": "m1",
            "operation": "Apply", "time": "2026-01-01T00:00:01Z",
            "fieldsV1": {"f:data": {"f:a": {}}}}])
    );
}

#[test]
fn r93_equal_values_are_shared_and_others_conflict() {
    let mut server = Server::config_map();
    server.apply("m1", data(json!({"a": "1", "b": "1"})));
    server.apply("m2", data(json!({"a": "1"})));
    assert_eq!(server.at("/metadata/managedFields/0/manager"), "m2");
    assert_eq!(server.at("/metadata/managedFields/0/time"), Value::Null, "ownership alone");
    let fields = server.conflicts("m3", data(json!({"a": "2", "b": "2", "new": "1"})));
    assert_eq!(fields, [".data.a", ".data.a", ".data.b"]);
    assert_eq!(server.at("/data"), json!({"a": "1", "b": "1"}));
}

#[test]
fn r93_force_moves_fields() {
    let mut server = Server::config_map();
    server.apply("m1", data(json!({"a": "1", "b": "1"})));
    server.try_apply("m2", data(json!({"a": "2"})), true).expect("forced");
    assert_eq!(
        server.owners(),
        [
            ("m1 Apply".to_owned(), json!({"f:data": {"f:b": {}}})),
            ("m2 Apply".to_owned(), json!({"f:data": {"f:a": {}}})),
        ]
    );
    server.try_apply("m2", data(json!({"a": "2", "b": "3"})), true).expect("forced");
    assert_eq!(server.owners().len(), 1, "an entry without fields disappears");
}

#[test]
fn r93_omission_removes_what_nobody_else_owns() {
    let mut server = Server::config_map();
    server.apply("m1", data(json!({"a": "1", "b": "1", "c": "1", "d": "1"})));
    server.apply("m2", data(json!({"b": "1"})));
    server.put("m3", {
        let mut body = data(json!({"a": "1", "b": "1", "c": "2", "d": "1"}));
        body["metadata"]["managedFields"] = server.at("/metadata/managedFields");
        body
    });
    server.apply("m1", data(json!({"a": "1"})));
    assert_eq!(server.at("/data"), json!({"a": "1", "b": "1", "c": "2"}));
    server.apply("m2", json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}));
    assert_eq!(server.at("/data"), json!({"a": "1", "c": "2"}));
}

#[test]
fn r93_giving_up_everything_leaves_nothing() {
    let mut server = Server::config_map();
    let mut config = data(json!({"a": "1"}));
    config["metadata"]["labels"] = json!({"l": "1"});
    server.apply("m1", config);
    server.apply("m1", json!({"metadata": {"name": "c"}}));
    assert_eq!(
        server.live,
        Some(object(json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}
        })))
    );
}

#[test]
fn r62_repeating_an_apply_changes_nothing() {
    let mut server = Server::config_map();
    server.apply("m1", data(json!({"a": "1"})));
    let before = server.live.clone();
    server.apply("m1", data(json!({"a": "1"})));
    assert_eq!(server.live, before);
}

#[test]
fn r95_items_belong_to_their_appliers() {
    let mut server = Server::pod_template();
    let (a, b) = (json!({"name": "a", "image": "1"}), json!({"name": "b", "image": "2"}));
    let more = json!({"name": "b", "image": "2", "command": ["x"]});
    server.apply("m1", containers(json!([a, more])));
    server.apply("m2", containers(json!([b])));
    server.apply("m1", containers(json!([a])));
    assert_eq!(server.at("/template/spec/containers"), json!([a, b]));
    let step = |name: &str| format!("k:{{\"name\":\"{name}\"}}");
    let owned = |name: &str| {
        let item = json!({".": {}, "f:image": {}, "f:name": {}});
        json!({"f:template": {"f:spec": {"f:containers": {step(name): item}}}})
    };
    assert_eq!(
        server.owners(),
        [("m2 Apply".to_owned(), owned("b")), ("m1 Apply".to_owned(), owned("a"))]
    );
    let other = containers(json!([{"name": "b", "image": "9"}]));
    assert_eq!(server.conflicts("m3", other), [".template.spec.containers[name=\"b\"].image"]);
}

#[test]
fn r95_a_missing_key_takes_its_default() {
    let mut server = Server::pod_template();
    let ports = |list: Value| containers(json!([{"name": "a", "ports": list}]));
    server.apply("m1", ports(json!([{"containerPort": 80}])));
    server.apply("m2", ports(json!([{"containerPort": 80, "protocol": "TCP", "name": "x"}])));
    assert_eq!(
        server.at("/template/spec/containers/0/ports"),
        json!([{"containerPort": 80, "name": "x", "protocol": "TCP"}])
    );
}

#[test]
fn r95_sets_have_one_owner_per_value() {
    let mut server = Server::config_map();
    let finalizers = |list: Value| json!({"metadata": {"name": "c", "finalizers": list}});
    server.apply("m1", finalizers(json!(["e.io/a", "e.io/b"])));
    server.apply("m2", finalizers(json!(["e.io/c", "e.io/b"])));
    assert_eq!(server.at("/metadata/finalizers"), json!(["e.io/a", "e.io/c", "e.io/b"]));
    server.apply("m1", finalizers(json!([])));
    assert_eq!(server.at("/metadata/finalizers"), json!(["e.io/c", "e.io/b"]));
}

#[test]
fn r95_atomic_values_have_one_owner() {
    let mut server = Server::new("api.core.v1.Service");
    server.apply("m1", json!({"metadata": {}, "spec": {"selector": {"a": "1"}}}));
    let other = json!({"metadata": {}, "spec": {"selector": {"b": "1"}}});
    assert_eq!(server.conflicts("m2", other.clone()), [".spec.selector"]);
    server.try_apply("m2", other, true).expect("forced");
    assert_eq!(server.at("/spec/selector"), json!({"b": "1"}));
}

#[test]
fn r95_duplicate_keys_in_a_configuration_are_refused() {
    let mut server = Server::pod_template();
    for list in [json!([{"name": "a"}, {"name": "a"}]), json!([{"image": "a"}])] {
        let refused = server.try_apply("m1", containers(list), true);
        assert!(matches!(refused, Err(ApplyError::Invalid(_))), "{refused:?}");
    }
}

#[test]
fn r95_live_duplicates_do_not_hinder_others() {
    let mut server = Server::pod_template();
    let twice = json!([{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]);
    server.put("m1", containers(json!([{"name": "a", "env": twice}])));
    let env = json!([{"name": "B", "value": "1"}]);
    server.apply("m2", containers(json!([{"name": "a", "env": env}])));
    let all = server.at("/template/spec/containers/0/env");
    assert_eq!(all.as_array().map(Vec::len), Some(3));
    server.apply("m2", containers(json!([{"name": "a"}])));
    assert_eq!(server.at("/template/spec/containers/0/env"), twice);
}

#[test]
fn r95_a_further_live_copy_makes_room_for_what_is_new() {
    let mut server = Server::pod_template();
    let named = |name: &str| json!({"name": name, "value": "1"});
    server
        .put("m1", containers(json!([{"name": "a", "env": [named("A"), named("A"), named("B")]}])));
    server
        .try_apply("m2", containers(json!([{"name": "a", "env": [named("A"), named("C")]}])), true)
        .unwrap();
    let all = server.at("/template/spec/containers/0/env");
    let names: Vec<&str> =
        all.as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["A", "C", "B"]);
}

#[test]
fn r96_what_was_there_before_goes_to_a_stand_in() {
    let mut server = Server::config_map();
    server.live = Some(object(data(json!({"a": "1", "b": "2"}))));
    server.apply("m1", data(json!({"a": "1", "c": "3"})));
    assert_eq!(
        server.owners(),
        [
            ("m1 Apply".to_owned(), json!({"f:data": {"f:a": {}, "f:c": {}}})),
            (
                "before-first-apply Update".to_owned(),
                json!({"f:data": {".": {}, "f:a": {}, "f:b": {}}})
            ),
        ]
    );
    assert_eq!(server.conflicts("m1", data(json!({"b": "9"}))), [".data.b"]);
}

/// As upstream: an entry without fields counts as tracking until a write drops it, and after an
/// apply that leaves nobody the next one is a first apply again.
#[test]
fn r96_a_manager_of_nothing_delays_the_stand_in() {
    let nothing = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}});
    let mut live = data(json!({"a": "1"}));
    live["metadata"]["managedFields"] = json!([
        {"manager": "m0", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    ]);
    let mut server = Server::config_map();
    server.live = Some(object(live));
    server.apply("m1", nothing.clone());
    assert_eq!(server.owners(), []);
    server.apply("m1", nothing.clone());
    let stand_in =
        ("before-first-apply Update".to_owned(), json!({"f:data": {".": {}, "f:a": {}}}));
    assert_eq!(server.owners(), [stand_in]);
    let settled = server.live.clone();
    server.apply("m1", nothing);
    assert_eq!(server.live, settled);
}

#[test]
fn r96_kubectl_takes_over_its_client_side_past() {
    let mut body = data(json!({"a": "1", "b": "2"}));
    body["metadata"]["annotations"] = json!({LAST_APPLIED: body.to_string()});
    let mut server = Server::config_map();
    server.put("kubectl-client-side-apply", body);
    assert_eq!(server.conflicts("other", data(json!({"a": "5"}))), [".data.a"]);
    server.apply("kubectl", data(json!({"a": "5"})));
    assert_eq!(server.at("/data"), json!({"a": "5", "b": "2"}));
    let annotation = server.at("/metadata/annotations")[LAST_APPLIED].clone();
    assert_eq!(annotation, format!("{}\n", data(json!({"a": "5"}))));
}

#[test]
fn r98_reset_fields_are_not_owned() {
    let mut server = Server::new("api.core.v1.Pod");
    let config = json!({"metadata": {}, "spec": {"hostNetwork": true}, "status": {"reason": "Z"}});
    server.apply("m1", config);
    assert_eq!(
        server.owners(),
        [("m1 Apply".to_owned(), json!({"f:spec": {"f:hostNetwork": {}}}))]
    );
}

/// Configurations without empty lists: those are for decoding to make nothing of.
fn any_config() -> impl Strategy<Value = Value> {
    let value = || prop_oneof![Just("1"), Just("2")];
    let env = prop::collection::btree_map(prop_oneof![Just("A"), Just("B")], value(), 0..3);
    let items = prop::collection::btree_map(prop_oneof![Just("a"), Just("b")], env, 1..3);
    items.prop_map(|items| {
        let env = |env: &std::collections::BTreeMap<&str, &str>| -> Vec<Value> {
            env.iter().map(|(name, value)| json!({"name": name, "value": value})).collect()
        };
        let item = |(name, vars): (&str, _)| match env(&vars) {
            none if none.is_empty() => json!({"name": name}),
            some => json!({"name": name, "env": some}),
        };
        containers(items.into_iter().map(item).collect())
    })
}

proptest! {
    /// Whatever others did, the configuration is in the object afterwards, and repeating it is free.
    #[test]
    fn r93_apply_settles(
        requests in prop::collection::vec((any_config(), 0usize..3, any::<bool>()), 1..6)
    ) {
        let mut server = Server::pod_template();
        // With one manager that never leaves, no apply counts as the first.
        server.put("base", json!({"metadata": {"name": "t", "labels": {"a": "b"}}}));
        for (config, who, force) in requests {
            let manager = ["x", "y", "z"][who];
            let before = server.live.clone();
            if server.try_apply(manager, config.clone(), force).is_err() {
                prop_assert!(!force);
                prop_assert_eq!(&server.live, &before);
                continue;
            }
            let listed = config.pointer("/template/spec/containers").cloned().unwrap_or_default();
            for wanted in listed.as_array().into_iter().flatten() {
                let all = server.at("/template/spec/containers");
                let found = all.as_array().into_iter().flatten();
                let found: Vec<_> = found.filter(|item| item["name"] == wanted["name"]).collect();
                prop_assert_eq!(found.len(), 1);
                for var in wanted["env"].as_array().into_iter().flatten() {
                    let env = found[0]["env"].as_array().cloned().unwrap_or_default();
                    prop_assert!(env.contains(var), "{} in {:?}", var, env);
                }
            }
            let settled = server.live.clone();
            server.try_apply(manager, config, false).expect("nothing left to conflict");
            prop_assert_eq!(&server.live, &settled);
        }
    }
}
