//! Rules of spec/retention.md, R12 to R18: which mentions of a ConfigMap or Secret count.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::object;
use crate::podspec::{ReferenceKind, default_pod_spec, references, template_references};
use ReferenceKind::{ConfigMap, Secret};

/// The table of the rules: a path in the specification and the kind of what it names.
const SITES: [(&str, ReferenceKind); 26] = [
    ("containers[].env[].valueFrom.configMapKeyRef.name", ConfigMap),
    ("containers[].env[].valueFrom.secretKeyRef.name", Secret),
    ("containers[].envFrom[].configMapRef.name", ConfigMap),
    ("containers[].envFrom[].secretRef.name", Secret),
    ("initContainers[].env[].valueFrom.configMapKeyRef.name", ConfigMap),
    ("initContainers[].env[].valueFrom.secretKeyRef.name", Secret),
    ("initContainers[].envFrom[].configMapRef.name", ConfigMap),
    ("initContainers[].envFrom[].secretRef.name", Secret),
    ("ephemeralContainers[].env[].valueFrom.configMapKeyRef.name", ConfigMap),
    ("ephemeralContainers[].env[].valueFrom.secretKeyRef.name", Secret),
    ("ephemeralContainers[].envFrom[].configMapRef.name", ConfigMap),
    ("ephemeralContainers[].envFrom[].secretRef.name", Secret),
    ("imagePullSecrets[].name", Secret),
    ("volumes[].configMap.name", ConfigMap),
    ("volumes[].secret.secretName", Secret),
    ("volumes[].projected.sources[].configMap.name", ConfigMap),
    ("volumes[].projected.sources[].secret.name", Secret),
    ("volumes[].azureFile.secretName", Secret),
    ("volumes[].cephfs.secretRef.name", Secret),
    ("volumes[].cinder.secretRef.name", Secret),
    ("volumes[].csi.nodePublishSecretRef.name", Secret),
    ("volumes[].flexVolume.secretRef.name", Secret),
    ("volumes[].iscsi.secretRef.name", Secret),
    ("volumes[].rbd.secretRef.name", Secret),
    ("volumes[].scaleIO.secretRef.name", Secret),
    ("volumes[].storageos.secretRef.name", Secret),
];

type Names = BTreeSet<(ReferenceKind, String)>;

fn extracted(spec: &Value) -> (Names, usize) {
    let spec = object(spec.clone());
    let found = references(&spec);
    let names = found.names.iter().map(|(kind, name)| (*kind, (*name).to_owned())).collect();
    (names, found.guessed)
}

fn names(list: &[(ReferenceKind, &str)]) -> Names {
    list.iter().map(|(kind, name)| (*kind, (*name).to_owned())).collect()
}

/// A specification with `leaf` at a path of the table.
fn at(path: &str, leaf: Value) -> Value {
    let (head, rest) = path.split_once('.').map_or((path, None), |(head, rest)| (head, Some(rest)));
    let inner = rest.map_or(leaf.clone(), |rest| at(rest, leaf));
    match head.strip_suffix("[]") {
        Some(list) => json!({list: [{}, inner]}),
        None => json!({head: inner}),
    }
}

/// The slow reading: every value at a path of the table.
fn walk<'a>(value: &'a Value, path: &str, out: &mut Vec<&'a Value>) {
    let (head, rest) = path.split_once('.').map_or((path, None), |(head, rest)| (head, Some(rest)));
    let (name, list) = head.strip_suffix("[]").map_or((head, false), |name| (name, true));
    let Some(member) = value.get(name) else { return };
    let inner: Vec<&Value> = match list {
        true => member.as_array().into_iter().flatten().collect(),
        false => vec![member],
    };
    for value in inner {
        match rest {
            Some(rest) => walk(value, rest, out),
            None => out.push(value),
        }
    }
}

/// What a node asks for, read from the table path by path.
fn model(spec: &Value) -> Names {
    let mut names = Names::new();
    for (path, kind) in SITES {
        let mut found = Vec::new();
        walk(spec, path, &mut found);
        let texts = found.into_iter().filter_map(Value::as_str).filter(|name| !name.is_empty());
        names.extend(texts.map(|name| (kind, name.to_owned())));
    }
    names
}

#[test]
fn r18_refs_26_sites() {
    for (path, kind) in SITES {
        let spec = at(path, json!("n"));
        assert_eq!(extracted(&spec), (names(&[(kind, "n")]), 0), "{path}");
        let template = object(json!({"spec": spec}));
        assert_eq!(template_references(&template).names.len(), 1, "{path}");
    }
}

#[test]
fn r12_empty_names_are_skipped_and_a_name_counts_once() {
    for (path, _) in SITES {
        assert_eq!(extracted(&at(path, json!(""))).0, Names::new(), "{path}");
    }
    let again =
        json!({"envFrom": [{"configMapRef": {"name": "a"}}, {"configMapRef": {"name": "a"}}]});
    let spec = json!({
        "containers": [again.clone(), again.clone()],
        "initContainers": [again],
        "volumes": [{"configMap": {"name": "a"}}, {"secret": {"secretName": "a"}}],
    });
    assert_eq!(extracted(&spec).0, names(&[(ConfigMap, "a"), (Secret, "a")]));
}

#[test]
fn r13_optional_mentions_count() {
    let spec = json!({
        "containers": [{
            "env": [{"valueFrom": {"configMapKeyRef": {"name": "a", "key": "k", "optional": true}}}],
            "envFrom": [{"secretRef": {"name": "b", "optional": true}}],
        }],
        "volumes": [{"configMap": {"name": "c", "optional": true}}],
    });
    assert_eq!(extracted(&spec).0, names(&[(ConfigMap, "a"), (ConfigMap, "c"), (Secret, "b")]));
}

#[test]
fn r15_refs_negative_15() {
    let projected = |source: Value| json!({"volumes": [{"projected": {"sources": [source]}}]});
    let claim = json!({"spec": {"dataSource": {"kind": "Secret", "name": "x"}, "secretName": "x",
        "secretRef": {"name": "x"}}});
    let rows = [
        json!({"containers": [{"env": [{"valueFrom": {"fileKeyRef": {"volumeName": "x", "path": "x",
            "key": "x"}}}]}]}),
        json!({"containers": [{"env": [{"valueFrom": {"fieldRef": {"fieldPath": "x"}}}]}]}),
        projected(json!({"serviceAccountToken": {"path": "x", "audience": "x"}})),
        projected(json!({"clusterTrustBundle": {"name": "x", "path": "x"}})),
        projected(json!({"podCertificate": {"signerName": "x", "keyType": "x"}})),
        projected(json!({"downwardAPI": {"items": [{"path": "x"}]}})),
        json!({"volumes": [{"glusterfs": {"endpoints": "x", "path": "x"}}]}),
        json!({"volumes": [{"ephemeral": {"volumeClaimTemplate": claim}}]}),
        json!({"volumes": [{"persistentVolumeClaim": {"claimName": "x"}}]}),
        json!({"volumes": [{"flexVolume": {"driver": "d", "options": {"secretName": "x",
            "secretRef": "x"}}}]}),
        json!({"volumes": [{"csi": {"driver": "d", "volumeAttributes": {"secretName": "x"}}}]}),
        json!({"containers": [{"command": ["--secret=x"], "args": ["configMap/x"]}]}),
        json!({"serviceAccountName": "x", "serviceAccount": "x"}),
        json!({"volumes": [{"secret": {"name": "x"}}]}),
        json!({"volumes": [{"name": "secretName"}, {"emptyDir": {"secretName": "x"}}]}),
    ];
    for row in rows {
        assert_eq!(extracted(&row), (Names::new(), 0), "{row}");
    }
    let annotated = object(json!({"metadata": {"annotations": {"secretName": "x"}}, "spec": {}}));
    assert!(template_references(&annotated).names.is_empty());
}

#[test]
fn r16_a_pull_secret_of_a_running_pod_is_seen() {
    let mut spec = object(json!({"containers": [{"name": "c", "image": "example.com/app:v1"}]}));
    default_pod_spec(&mut spec);
    assert!(references(&spec).names.is_empty());
    spec.insert("imagePullSecrets".to_owned(), json!([{"name": "from-account"}]));
    assert_eq!(references(&spec).names, BTreeSet::from([(Secret, "from-account")]));
    assert_eq!(references(&spec).pulled, BTreeSet::from(["from-account"]));
    spec.insert("volumes".to_owned(), json!([{"secret": {"secretName": "from-account"}}]));
    assert_eq!(references(&spec).pulled, BTreeSet::new());
}

#[test]
fn r17_sources_nobody_knows_are_searched() {
    let volume = |source: Value| json!({"volumes": [{"name": "v", "newDisk": source}]});
    let rows = [
        (volume(json!({"secretRef": {"name": "a"}})), names(&[(Secret, "a")]), 1),
        (volume(json!({"auth": {"secretName": "a"}})), names(&[(Secret, "a")]), 1),
        (volume(json!({"list": [{"configMapRef": {"name": "a"}}]})), names(&[(ConfigMap, "a")]), 1),
        (
            volume(json!({"nodePublishSecretRef": {"name": "a"}, "secretRef": {"name": ""}})),
            names(&[(Secret, "a")]),
            1,
        ),
        (volume(json!({"secretRef": "a", "secretName": {"name": "a"}})), Names::new(), 0),
        (
            json!({"volumes": [{"projected": {"sources": [{"novel": {"secretRef": {"name": "a"}}}]}}]}),
            names(&[(Secret, "a")]),
            1,
        ),
    ];
    for (spec, want, guessed) in rows {
        assert_eq!(extracted(&spec), (want, guessed), "{spec}");
    }
}

/// Any JSON of small names: shapes are wrong as often as right.
fn loose() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        Just(json!("")),
        Just(json!("a")),
        Just(json!("b")),
        Just(json!(7)),
    ];
    let member =
        prop::sample::select(vec!["name", "secretRef", "configMap", "secret", "env", "items"]);
    leaf.prop_recursive(3, 12, 3, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(member.clone().prop_map(str::to_owned), inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Puts two specifications together: objects member by member, lists end to end.
fn join(left: Value, right: Value) -> Value {
    match (left, right) {
        (Value::Object(mut left), Value::Object(right)) => {
            for (name, value) in right {
                let joined = match left.remove(&name) {
                    Some(old) => join(old, value),
                    None => value,
                };
                left.insert(name, joined);
            }
            Value::Object(left)
        }
        (Value::Array(mut left), Value::Array(right)) => {
            left.extend(right);
            Value::Array(left)
        }
        (left, _) => left,
    }
}

proptest! {
    #[test]
    fn r18_what_is_extracted_is_what_a_node_asks_for(
        sites in prop::collection::vec((0..SITES.len(), prop_oneof!["[a-d]?".prop_map(Value::from), loose()]), 0..12)
    ) {
        let spec = sites.into_iter().fold(json!({}), |spec, (site, leaf)| join(spec, at(SITES[site].0, leaf)));
        prop_assert_eq!(extracted(&spec).0, model(&spec));
    }
}
