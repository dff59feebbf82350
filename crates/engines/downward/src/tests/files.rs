//! Rules of spec/downward-api.md, sections 9, 11 and 12: what is in a volume and what it depends on.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use proptest::prelude::*;
use serde_json::{Value, json};
use tenure_machinery::Object;

use super::{Shelf, object};
use crate::inputs::{ValueInput, pod_changed, pod_inputs, volume_inputs};
use crate::path::clean_path;
use crate::payload::{Payload, collect_payload, set_up_failed};
use crate::view::{RuntimeView, TokenWanted, tokens_wanted};

fn pod() -> Object {
    object(json!({
        "metadata": { "namespace": "ns", "name": "p", "labels": { "a": "1" } },
        "spec": { "containers": [{ "name": "c", "resources": { "limits": { "cpu": "2" } } }] },
    }))
}

fn collect(volume: Value, shelf: &Shelf) -> Result<Payload, String> {
    let volume = object(volume);
    collect_payload(&volume, &pod(), &RuntimeView::default(), shelf)
        .map_err(|error| error.to_string())
}

fn shown(payload: &Payload) -> String {
    let line = |(path, file): (&String, &crate::payload::PayloadFile)| {
        let owner = file.owner.map(|owner| format!(" {owner}")).unwrap_or_default();
        format!("{path} {:o}{owner} {}\n", file.mode, String::from_utf8_lossy(&file.bytes))
    };
    payload.iter().map(line).collect()
}

fn files(volume: Value, shelf: &Shelf) -> String {
    shown(&collect(volume, shelf).unwrap())
}

fn name_at(path: &str) -> Value {
    json!({ "path": path, "fieldRef": { "fieldPath": "metadata.name" } })
}

#[test]
fn r62_paths_stay_inside_the_volume() {
    for (path, want) in [
        ("a", "a"),
        ("./a", "a"),
        ("a//b", "a/b"),
        ("a/b/c", "a/b/c"),
        (".x", ".x"),
        ("x..y", "x..y"),
        ("a/..b", "a/..b"),
    ] {
        assert_eq!(clean_path(path).unwrap(), want, "{path}");
    }
    for (path, why) in [
        ("", "must not be empty: \"\""),
        ("/a", "must be relative path: /a"),
        ("a/../b", "must not contain '..': a/../b"),
        ("..", "must not contain '..': .."),
        ("..data", "must not start with '..': ..data"),
        ("./..x", "must not start with '..': ./..x"),
        (".", "must name a file, not the volume: ."),
        ("a\0b", "must not contain a NUL byte"),
    ] {
        assert_eq!(clean_path(path).unwrap_err().to_string(), format!("invalid path: {why}"));
    }
    assert!(clean_path(&"x".repeat(255)).is_ok());
    assert!(clean_path(&"x".repeat(256)).is_err());
    assert!(clean_path(&"x/".repeat(2048)).is_ok());
    assert!(clean_path(&"x/".repeat(2049)).is_err());
}

#[test]
fn r62e_modes_of_item_and_volume() {
    let volume = json!({ "downwardAPI": { "defaultMode": 0o400, "items": [
        name_at("a"), { "path": "b", "mode": 0o640, "fieldRef": { "fieldPath": "metadata.name" } },
    ] } });
    assert_eq!(files(volume, &Shelf::default()), "a 400 p\nb 640 p\n");
    let volume = json!({ "downwardAPI": { "items": [name_at("a")] } });
    assert_eq!(files(volume, &Shelf::default()), "a 644 p\n");
}

#[test]
fn r62f_the_last_item_of_a_path_wins() {
    let volume = json!({ "downwardAPI": { "items": [
        name_at("a"), { "path": "./a", "fieldRef": { "fieldPath": "metadata.namespace" } },
    ] } });
    assert_eq!(files(volume, &Shelf::default()), "a 644 ns\n");
}

#[test]
fn r62g_the_later_source_wins() {
    let shelf = Shelf::default().config_map("m", json!({ "data": { "a": "map", "b": "map" } }));
    let volume = json!({ "projected": { "sources": [
        { "downwardAPI": { "items": [name_at("a"), name_at("c")] } },
        { "configMap": { "name": "m" } },
        { "downwardAPI": { "items": [name_at("./b")] } },
    ] } });
    assert_eq!(files(volume, &shelf), "a 644 map\nb 644 p\nc 644 p\n");
}

#[test]
fn r62h_a_file_is_no_folder() {
    let volume =
        json!({ "downwardAPI": { "items": [name_at("a/b/c"), name_at("a"), name_at("ab")] } });
    let why = collect(volume, &Shelf::default()).unwrap_err();
    assert_eq!(why, "`a` cannot be a file and the folder of `a/b/c`");
}

#[test]
fn r62j_users_of_item_and_volume() {
    let volume = json!({ "downwardAPI": { "defaultUser": 1000, "items": [
        name_at("a"), { "path": "b", "user": 7, "fieldRef": { "fieldPath": "metadata.name" } },
    ] } });
    assert_eq!(files(volume, &Shelf::default()), "a 644 1000 p\nb 644 7 p\n");
}

#[test]
fn r62l_no_items_is_an_empty_folder() {
    assert_eq!(collect(json!({ "downwardAPI": {} }), &Shelf::default()), Ok(Payload::new()));
    assert_eq!(collect(json!({ "emptyDir": {} }), &Shelf::default()), Ok(Payload::new()));
}

#[test]
fn r16_r28_files_of_resources() {
    let item = json!({ "path": "cpu", "resourceFieldRef": {
        "containerName": "c", "resource": "limits.cpu", "divisor": "1m" } });
    assert_eq!(
        files(json!({ "downwardAPI": { "items": [item] } }), &Shelf::default()),
        "cpu 644 2000\n"
    );
}

#[test]
fn r77_r78_missing_objects_and_keys() {
    let shelf = Shelf::default()
        .config_map("m", json!({ "data": { "k": "v" }, "binaryData": { "b": "AP8=" } }))
        .secret("s", &[("k", b"hidden")]);
    let map = |name: &str, items: Value, optional: bool| json!({ "configMap": { "name": name, "items": items, "optional": optional } });
    let secret = |name: &str, items: Value, optional: bool| json!({ "secret": { "secretName": name, "items": items, "optional": optional } });
    let item = |key: &str| json!([{ "key": key, "path": "x" }]);
    assert_eq!(files(map("m", json!([]), false), &shelf), "b 644 \0\u{fffd}\nk 644 v\n");
    assert_eq!(files(map("m", item("b"), false), &shelf), "x 644 \0\u{fffd}\n");
    assert_eq!(files(secret("s", json!(null), false), &shelf), "k 644 hidden\n");
    assert_eq!(files(map("m", item("no"), true), &shelf), "");
    assert_eq!(files(map("no", json!([]), true), &shelf), "");
    assert_eq!(files(secret("no", item("k"), true), &shelf), "");
    let why = collect(map("no", json!([]), false), &shelf).unwrap_err();
    assert_eq!(why, "configmap \"no\" not found");
    let why = collect(secret("no", json!([]), false), &shelf).unwrap_err();
    assert_eq!(why, "secret \"no\" not found");
    let why = collect(map("m", item("no"), false), &shelf).unwrap_err();
    assert_eq!(why, "configmap references non-existent config key: no");
    let why = collect(secret("s", item("no"), false), &shelf).unwrap_err();
    assert_eq!(why, "references non-existent secret key: no");
}

#[test]
fn r77_a_failed_set_up_is_told_in_the_words_people_look_for() {
    let volume = object(json!({ "name": "v", "configMap": { "name": "x" } }));
    let error = collect_payload(&volume, &pod(), &RuntimeView::default(), &Shelf::default());
    assert_eq!(
        set_up_failed("v", error.unwrap_err()),
        "MountVolume.SetUp failed for volume \"v\" : configmap \"x\" not found"
    );
}

#[test]
fn r88_a_small_object_cannot_ask_for_much_memory() {
    let items = |count: usize| {
        let item = |number: usize| json!({ "key": "k", "path": format!("f{number}") });
        let items: Vec<_> = (0..count).map(item).collect();
        json!({ "configMap": { "name": "m", "items": items } })
    };
    let map = json!({ "data": { "k": "x".repeat(1 << 20) } });
    let shelf = Shelf::default().config_map("m", map);
    assert_eq!(collect(items(64), &shelf).unwrap().len(), 64);
    assert_eq!(collect(items(65), &shelf).unwrap_err(), "the files take more than 67108864 bytes");
}

#[test]
fn r86_every_bad_item_is_told() {
    let volume = json!({ "projected": { "sources": [
        { "downwardAPI": { "items": [
            { "path": "a", "fieldRef": { "fieldPath": "spec.nodeName" } },
            { "path": "b", "resourceFieldRef": { "containerName": "x", "resource": "limits.cpu" } },
            name_at("../c"),
            name_at("d"),
        ] } },
        { "configMap": { "name": "no" } },
    ] } });
    assert_eq!(
        collect(volume, &Shelf::default()).unwrap_err(),
        "[unsupported fieldPath: spec.nodeName, container x not found, \
         invalid path: must not contain '..': ../c, configmap \"no\" not found]"
    );
}

#[test]
fn r73_tokens_are_asked_for_before_and_belong_to_one_user() {
    let volume = object(json!({ "projected": { "defaultMode": 0o444, "sources": [
        { "serviceAccountToken": { "path": "token", "expirationSeconds": 3607 } },
        { "serviceAccountToken": { "path": "vault", "audience": "vault" } },
    ] } }));
    assert_eq!(
        tokens_wanted(&volume),
        [
            TokenWanted { audience: None, expiration_seconds: 3607 },
            TokenWanted { audience: Some("vault".into()), expiration_seconds: 3600 },
        ]
    );
    let collect = |spec: Value| {
        let pod = object(json!({ "spec": spec }));
        let files = collect_payload(&volume, &pod, &RuntimeView::default(), &Shelf::default());
        shown(&files.unwrap())
    };
    let plain = json!({ "containers": [{ "name": "c" }] });
    assert_eq!(
        collect(plain),
        "token 444 token for the server, 3607 s\nvault 444 token for vault, 3600 s\n"
    );
    let group = json!({ "containers": [{}], "securityContext": { "fsGroup": 1 } });
    assert!(collect(group).starts_with("token 600 token"));
    let user = json!({ "containers": [{}, { "securityContext": { "runAsUser": 9 } }],
        "securityContext": { "runAsUser": 9 } });
    assert!(collect(user).starts_with("token 600 9 token"));
    let users = json!({ "containers": [{}, { "securityContext": { "runAsUser": 8 } }],
        "securityContext": { "runAsUser": 9 } });
    assert!(collect(users).starts_with("token 444 token"));
}

fn inputs(volume: Value) -> String {
    let names: Vec<String> =
        volume_inputs(&object(volume)).iter().map(ToString::to_string).collect();
    names.join(" ")
}

#[test]
fn r71_each_volume_knows_what_it_is_made_from() {
    let field = |path: &str| json!({ "path": "x", "fieldRef": { "fieldPath": path } });
    assert_eq!(
        inputs(json!({ "downwardAPI": { "items": [
            field("metadata.annotations['foo']"), field("metadata.labels"), field("metadata.name"),
            field("metadata.ownerReferences"), field("metadata.labels['a']"),
        ] } })),
        "annotation:foo labels label:a ownerReferences"
    );
    assert_eq!(inputs(json!({ "configMap": { "name": "m" } })), "configmap:m");
    assert_eq!(inputs(json!({ "secret": { "secretName": "s" } })), "secret:s");
    assert_eq!(inputs(json!({ "emptyDir": {} })), "");
    assert_eq!(
        inputs(json!({ "projected": { "sources": [
            { "serviceAccountToken": { "path": "t" } },
            { "configMap": { "name": "m" } },
            { "secret": { "name": "s" } },
            { "downwardAPI": { "items": [{ "path": "c", "resourceFieldRef": {
                "containerName": "c", "resource": "limits.cpu" } }] } },
        ] } })),
        "resources allocatable configmap:m secret:s token"
    );
}

#[test]
fn r71_an_unrelated_change_touches_nothing() {
    let before = pod();
    let mut after = before.clone();
    after["metadata"]["annotations"] = json!({ "foo": "1" });
    after["metadata"]["ownerReferences"] = json!([{ "uid": "1" }]);
    let changed = |input: ValueInput| pod_changed(&BTreeSet::from([input]), &before, &after);
    assert!(changed(ValueInput::Annotations));
    assert!(changed(ValueInput::Annotation("foo".into())));
    assert!(changed(ValueInput::OwnerReferences));
    for input in [
        ValueInput::Annotation("bar".into()),
        ValueInput::Labels,
        ValueInput::Label("a".into()),
        ValueInput::Resources,
        ValueInput::ConfigMap("m".into()),
        ValueInput::Token,
    ] {
        assert!(!changed(input.clone()), "{input}");
    }
    let mut after = before.clone();
    after["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "3".into();
    assert!(pod_changed(&BTreeSet::from([ValueInput::Resources]), &before, &after));
}

#[test]
fn r70_a_pod_needs_what_its_volumes_and_variables_need() {
    let pod = object(json!({ "spec": {
        "imagePullSecrets": [{ "name": "pull" }],
        "volumes": [{ "configMap": { "name": "m" } }],
        "initContainers": [{ "envFrom": [{ "configMapRef": { "name": "init" } }, { "secretRef": { "name": "from" } }] }],
        "containers": [{ "env": [
            { "name": "A", "valueFrom": { "secretKeyRef": { "name": "key", "key": "k" } } },
            { "name": "B", "valueFrom": { "configMapKeyRef": { "name": "map", "key": "k" } } },
            { "name": "C", "valueFrom": { "fieldRef": { "fieldPath": "status.podIP" } } },
        ] }],
    } }));
    let names: Vec<String> = pod_inputs(&pod).iter().map(ToString::to_string).collect();
    assert_eq!(
        names.join(" "),
        "podIPs configmap:init configmap:m configmap:map secret:from secret:key secret:pull"
    );
}

proptest! {
    #[test]
    fn r62_a_clean_path_never_leads_out(path in r"[a./\u{0}]{0,12}") {
        if let Ok(clean) = clean_path(&path) {
            prop_assert!(!clean.starts_with('/') && !clean.starts_with(".."));
            prop_assert!(clean.split('/').all(|element| !matches!(element, "" | "." | "..")));
            prop_assert_eq!(clean_path(&clean), Ok(clean.clone()));
        }
    }
}
