//! Clusters in a few lines of text, one object each:
//!
//! ```text
//!   Deployment shop/web uid=d1 age=3d status=2/2_ready
//!   ReplicaSet shop/web-1 uid=r1 owner=d1! finalizer=example.com/x deleted=10m
//!   ConfigMap shop/map uid=c1 owner=Boat/titanic:b9
//! ```
//!
//! `owner=UID` names an object of the same text; `!` after it blocks, `*` makes it the controller.
//! `owner=KIND/NAME:UID` names anybody. Time stands still.

use std::collections::HashMap;
use std::sync::Arc;

use tenure_inspect::{
    ClusterSnapshot, DiscoveredKinds, DiscoveredResource, ObjectMetadata, ObservedObject,
    OwnerReference, OwnershipAnalysis, UnreadableKind,
};

pub(crate) const NOW: &str = "2026-06-15T12:00:00Z";

const KINDS: &[(&str, &str, &str, &str, bool)] = &[
    ("", "v1", "Pod", "pods", true),
    ("", "v1", "ConfigMap", "configmaps", true),
    ("", "v1", "Namespace", "namespaces", false),
    ("", "v1", "Node", "nodes", false),
    ("apps", "v1", "Deployment", "deployments", true),
    ("apps", "v1", "ReplicaSet", "replicasets", true),
    ("example.com", "v1", "Widget", "widgets", true),
    ("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", false),
];

fn kinds() -> DiscoveredKinds {
    let verbs = ["delete", "get", "list", "patch", "watch"].map(str::to_owned).to_vec();
    let row = |(group, version, kind, plural, namespaced): &(&str, &str, &str, &str, bool)| {
        DiscoveredResource {
            group: (*group).to_owned(),
            version: (*version).to_owned(),
            kind: (*kind).to_owned(),
            plural: (*plural).to_owned(),
            singular: kind.to_lowercase(),
            short_names: Vec::new(),
            namespaced: *namespaced,
            verbs: verbs.clone(),
        }
    };
    DiscoveredKinds::new(KINDS.iter().map(row).collect())
}

fn ago(text: &str) -> jiff::Timestamp {
    let now: jiff::Timestamp = NOW.parse().unwrap();
    let (number, unit) = text.split_at(text.len() - 1);
    let number: i64 = number.parse().unwrap();
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => 86_400,
    };
    now - jiff::SignedDuration::from_secs(number * seconds)
}

/// The cluster of a text.
pub(crate) fn look(text: &str) -> OwnershipAnalysis {
    let kinds = kinds();
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut named: HashMap<&str, (&str, &str)> = HashMap::new();
    for line in lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let uid = words.iter().find_map(|word| word.strip_prefix("uid=")).unwrap_or_default();
        named.insert(uid, (words[0], words[1].rsplit('/').next().unwrap()));
    }
    let (mut objects, mut unread, mut statuses) = (Vec::new(), Vec::new(), Vec::new());
    for line in lines() {
        let words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
        if let ["unread", kind] = words.as_slice() {
            // `KIND@NAMESPACE` was read there and nowhere else.
            let why = "you may not list it";
            unread.push(match kind.split_once('@') {
                Some((kind, namespace)) => {
                    UnreadableKind::but_within(kind.to_owned(), why.to_owned(), namespace)
                }
                None => UnreadableKind::new(*kind, why),
            });
            continue;
        }
        let served = kinds.all().find(|row| row.kind == words[0]).expect(words[0]);
        let (namespace, name) = words[1].split_once('/').unwrap_or(("", words[1]));
        let mut meta = ObjectMetadata {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            creation_timestamp: Some(ago("3d")),
            ..ObjectMetadata::default()
        };
        for word in &words[2..] {
            let (key, value) = word.split_once('=').expect(word);
            match key {
                "uid" => meta.uid = value.to_owned(),
                "age" => meta.creation_timestamp = Some(ago(value)),
                "status" => statuses.push((meta.uid.clone(), value.replace('_', " "))),
                "finalizer" => meta.finalizers.push(value.to_owned()),
                "deleted" => meta.deletion_timestamp = Some(ago(value)),
                "grace" => {
                    let grace: i64 = value.parse().unwrap();
                    meta.deletion_grace_period_seconds = Some(grace);
                    let end = meta.deletion_timestamp.unwrap();
                    meta.deletion_timestamp = Some(end + jiff::SignedDuration::from_secs(grace));
                }
                "owner" => meta.owner_references.push(owner(value, &named, &kinds)),
                "writer" => {
                    let finalizer = meta.finalizers.last().unwrap();
                    let fields = format!(
                        r#"[{{"manager":"{value}","time":"2026-06-14T12:00:00Z","fieldsV1":{{"f:metadata":{{"f:finalizers":{{"v:\"{finalizer}\"":{{}}}}}}}}}}]"#
                    );
                    let raw = serde_json::value::RawValue::from_string(fields).unwrap();
                    meta.managed_fields = Some(raw);
                }
                other => panic!("no word `{other}`"),
            }
        }
        objects.push(ObservedObject { served: Arc::new(served.clone()), meta, assumed: false });
    }
    let mut facts = ClusterSnapshot { kinds, objects, unread, now: NOW.parse().unwrap() };
    facts.assume_unread();
    let mut look = OwnershipAnalysis::new(facts);
    for (uid, status) in statuses {
        look.set_status(uid, status);
    }
    look
}

fn owner(
    text: &str,
    named: &HashMap<&str, (&str, &str)>,
    kinds: &DiscoveredKinds,
) -> OwnerReference {
    let plain = text.trim_end_matches(['!', '*']);
    let (kind, name, uid) = match plain.split_once(':') {
        Some((who, uid)) => {
            let (kind, name) = who.split_once('/').unwrap();
            (kind, name, uid)
        }
        None => {
            let (kind, name) = named.get(plain).expect(plain);
            (*kind, *name, plain)
        }
    };
    let served = kinds.all().find(|row| row.kind == kind);
    OwnerReference {
        api_version: served
            .map_or_else(|| "sea.example.com/v1".to_owned(), DiscoveredResource::api_version),
        kind: kind.to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        controller: text.contains('*').then_some(true),
        block_owner_deletion: text.contains('!').then_some(true),
    }
}

/// The object with a uid.
pub(crate) fn object<'a>(look: &'a OwnershipAnalysis, uid: &str) -> &'a ObservedObject {
    look.get(uid).unwrap()
}

/// A Deployment as it usually is, with a map that somebody else owns too.
pub(crate) const SHOP: &str = "
    Deployment shop/web uid=d1 status=2/2_ready
    Deployment shop/api uid=d2 status=1/1_ready age=90m
    ReplicaSet shop/web-7c4 uid=r1 owner=d1*! status=2/2_ready
    Pod shop/web-7c4-a uid=p1 owner=r1*! status=Running_1/1 age=45s
    Pod shop/web-7c4-b uid=p2 owner=r1*! status=Running_1/1
    ConfigMap shop/settings uid=c1 owner=d1 owner=d2
";

/// Everything that can be wrong, once.
pub(crate) const WRECK: &str = "
    Namespace shop uid=n1
    Deployment shop/web uid=d1 deleted=10m finalizer=foregroundDeletion
    ReplicaSet shop/web-1 uid=r1 owner=d1*! deleted=10m finalizer=foregroundDeletion
    Pod shop/web-1-a uid=p1 owner=r1*! deleted=9m finalizer=example.com/backup writer=backup-operator
    Widget staging/left uid=w1 owner=w2
    Widget staging/right uid=w2 owner=w1
    ConfigMap shop/foreign uid=c1 owner=w1
    ConfigMap shop/lost uid=c2 owner=Deployment/old:d9
    ConfigMap shop/half uid=c3 owner=Deployment/old:d9 owner=d3
    Deployment shop/live uid=d3
    ConfigMap shop/odd uid=c4 owner=Boat/titanic:b1
    Node worker uid=k1 owner=d3
    Widget shop/self uid=w3 owner=w3!
    Pod shop/ending uid=p3 deleted=10s grace=30
";
