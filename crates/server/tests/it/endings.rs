//! Rules of spec/ownership.md: how namespaces, definitions and objects end, as far as the server goes.

use serde_json::{Value, json};

use crate::house::*;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn definition(group: &str, plural: &str, kind: &str) -> Value {
    json!({
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": { "plural": plural, "singular": kind.to_lowercase(), "kind": kind },
            "versions": [{ "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object" } },
                "subresources": { "status": {} } }],
        },
    })
}

fn thing(name: &str) -> Value {
    json!({ "apiVersion": "example.com/v1", "kind": "Thing", "metadata": { "name": name } })
}

fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let list = object["status"]["conditions"].as_array();
    list.into_iter().flatten().find(|c| c["type"] == kind).unwrap_or(&Value::Null)
}

fn free() -> Value {
    json!({ "metadata": { "finalizers": null } })
}

#[tokio::test]
async fn r6_custom_kinds_and_updates_are_validated_alike() {
    let house = House::new().await;
    house.made(DEFINITIONS, definition("example.com", "things", "Thing")).await;
    let things = "/apis/example.com/v1/namespaces/default/things";
    house.made(things, thing("a")).await;
    house.config_map("a").await;
    let good = json!({ "apiVersion": "v1", "kind": "X", "name": "o", "uid": "u" });
    let controller = |uid: &str| json!({ "apiVersion": "v1", "kind": "X", "name": uid, "uid": uid, "controller": true });
    let event = json!({ "apiVersion": "v1", "kind": "Event", "name": "o", "uid": "u" });
    let wrong = json!({ "apiVersion": "a/b/c", "kind": "X", "name": "o", "uid": "u" });
    let owners = "metadata.ownerReferences";
    for (references, field) in [
        (
            json!([good, { "kind": "X", "name": "o", "uid": "u" }]),
            format!("{owners}[1].apiVersion"),
        ),
        (json!([wrong]), format!("{owners}[0].apiVersion")),
        (json!([controller("1"), controller("2")]), owners.to_owned()),
        (json!([event]), format!("{owners}[0]")),
    ] {
        for (collection, whole) in [(CONFIG_MAPS, named("b")), (things, thing("b"))] {
            let mut new = whole;
            new["metadata"]["ownerReferences"] = references.clone();
            let path = format!("{collection}/a");
            let mut changed = house.get(&path).await.with(200);
            changed["metadata"]["ownerReferences"] = references.clone();
            let patch = json!({ "metadata": { "ownerReferences": references } });
            // Upstream looks at the metadata of a custom object three times in an update, and tells each.
            let again = if collection == things { 3 } else { 1 };
            for (answer, times) in [
                (house.post(collection, new).await, 1),
                (house.put(&path, changed).await, again),
                (house.merge(&path, patch).await, again),
            ] {
                let told = vec![field.clone(); times];
                assert_eq!(fields(&answer.fails(422, "Invalid")), told, "{collection}");
            }
        }
    }
}

#[tokio::test]
async fn r10_the_status_of_a_custom_kind_leaves_metadata_alone() {
    let house = House::new().await;
    house.made(DEFINITIONS, definition("example.com", "things", "Thing")).await;
    let things = "/apis/example.com/v1/namespaces/default/things";
    let owner = json!({ "apiVersion": "v1", "kind": "X", "name": "o", "uid": "u" });
    let mut body = thing("a");
    body["metadata"]["ownerReferences"] = json!([owner]);
    body["metadata"]["finalizers"] = json!(["a/b"]);
    house.made(things, body).await;
    let patch =
        json!({ "metadata": { "ownerReferences": [], "finalizers": [], "labels": { "a": "b" } } });
    let live = house.merge(&format!("{things}/a/status"), patch).await.with(200);
    assert_eq!(live["metadata"]["ownerReferences"], json!([owner]));
    assert_eq!(live["metadata"]["finalizers"], json!(["a/b"]));
    assert_eq!(live["metadata"].get("labels"), None);
}

#[tokio::test]
async fn r70_custom_kinds_take_a_plain_finalizer_and_warn() {
    let house = House::new().await;
    house.made(DEFINITIONS, definition("example.com", "things", "Thing")).await;
    let things = "/apis/example.com/v1/namespaces/default/things";
    for (name, finalizer, warnings) in
        [("a", "hold", 1), ("b", "example.com/hold", 0), ("c", "orphan", 0)]
    {
        let mut body = thing(name);
        body["metadata"]["finalizers"] = json!([finalizer]);
        let answer = house.post(things, body).await;
        assert_eq!(answer.warnings().len(), warnings, "{finalizer}");
        assert_eq!(answer.with(201)["metadata"]["finalizers"], json!([finalizer]));
    }
    let mut body = thing("d");
    body["metadata"]["finalizers"] = json!(["not a name"]);
    house.post(things, body).await.fails(422, "Invalid");
}

#[tokio::test]
async fn r150_a_namespace_made_anew_is_not_the_one_that_was_seen() {
    let house = House::new().await;
    let made = house.made(NAMESPACES, named("n")).await;
    let path = format!("{NAMESPACES}/n");
    house.delete(&path).await.with(200);
    house.until(&path, 404).await;
    let anew = house.made(NAMESPACES, named("n")).await;
    let old = json!({ "preconditions": { "uid": made["metadata"]["uid"] } });
    house.delete_with(&path, old).await.fails(409, "Conflict");
    let live = house.get(&path).await.with(200);
    assert_eq!(live["metadata"]["uid"], anew["metadata"]["uid"]);
    assert_eq!(live["status"]["phase"], "Active");
    let version = json!({ "preconditions": { "resourceVersion": "1" } });
    let status = house.delete_with(&path, version).await.fails(409, "Conflict");
    assert_eq!(status["details"]["kind"], "namespaces");
}

#[tokio::test]
async fn r155_what_cannot_be_deleted_is_told_and_tried_again() {
    let house = House::new().await;
    house.made(NAMESPACES, named("n")).await;
    let path = format!("{NAMESPACES}/n");
    let mut open = definition("example.com", "things", "Thing");
    open["spec"]["versions"][0]["schema"]["openAPIV3Schema"] =
        json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    house.made(DEFINITIONS, open).await;
    let things = "/apis/example.com/v1/namespaces/n/things";
    let mut body = thing("large");
    body["metadata"]["finalizers"] = json!(["a/b"]);
    body["spec"] = json!({ "k": "" });
    house.made(things, body.clone()).await;
    let large = format!("{things}/large");
    // So large that the mark does not fit any more: it takes about 80 bytes.
    let rest = house.get(&large).await.bytes.len();
    house.delete(&large).await.with(200);
    house.merge(&large, free()).await.with(200);
    body["spec"]["k"] = json!("x".repeat(1536 * 1024 - rest - 40));
    house.made(things, body).await;
    house.delete(&path).await.with(200);
    let failing = "NamespaceDeletionContentFailure";
    let live = house.until_looks(&path, |live| condition(live, failing)["status"] == "True").await;
    assert_eq!(condition(&live, failing)["reason"], "ContentDeletionFailed");
    assert_eq!(condition(&live, "NamespaceContentRemaining")["status"], "True");
    assert_eq!(house.get(&large).await.with(200)["metadata"].get("deletionTimestamp"), None);
    // Nothing of the namespace goes from here on, so only a new try can find that it is small now.
    house.merge(&large, json!({ "spec": { "k": "small" } })).await.with(200);
    house.until_looks(&large, |live| live["metadata"]["deletionTimestamp"].is_string()).await;
    let live = house.until_looks(&path, |live| condition(live, failing)["status"] == "False").await;
    assert_eq!(condition(&live, failing)["reason"], "ContentDeleted");
    house.merge(&large, free()).await.with(200);
    house.until(&path, 404).await;
}

#[tokio::test]
async fn r156_g4_conditions_tell_of_everything_while_pods_remain() {
    let house = House::new().await;
    house.made(NAMESPACES, json!({ "metadata": { "name": "n", "finalizers": ["own/one"] } })).await;
    let path = format!("{NAMESPACES}/n");
    house.until(&format!("{path}/serviceaccounts/default"), 200).await;
    let mut held_pod = pod("p");
    held_pod["metadata"]["finalizers"] = json!(["a/b"]);
    house.made(&format!("{path}/pods"), held_pod).await;
    house.made(&format!("{path}/configmaps"), held("h")).await;
    house.made(&format!("{path}/secrets"), named("s")).await;
    house.delete(&path).await.with(200);
    let remaining = "NamespaceContentRemaining";
    let live = house.until_looks(&path, |live| live["status"]["conditions"].is_array()).await;
    let message = condition(&live, remaining)["message"].as_str().unwrap();
    for part in ["pods. has 1 ", "configmaps. has 2 ", "secrets. has 1 ", "serviceaccounts. has 1 "]
    {
        assert!(message.contains(part), "{part} in {message}");
    }
    let held = condition(&live, "NamespaceFinalizersRemaining")["message"].as_str().unwrap();
    assert!(held.contains("a/b in 1 resource instances, example.com/hold in 1 "), "{held}");
    let since = condition(&live, remaining)["lastTransitionTime"].clone();

    house.merge(&format!("{path}/pods/p"), free()).await.with(200);
    let only = |live: &Value| {
        let said = condition(live, remaining)["message"].as_str().unwrap_or_default();
        said.ends_with(": configmaps. has 1 resource instances")
    };
    let live = house.until_looks(&path, only).await;
    assert_eq!(condition(&live, remaining)["lastTransitionTime"], since, "still so");

    // With its content gone nothing is said to remain, though its own finalizer holds it.
    house.merge(&format!("{path}/configmaps/h"), free()).await.with(200);
    let live = house.until_looks(&path, |live| live["spec"] == json!({})).await;
    let order = [
        ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered"),
        ("NamespaceDeletionGroupVersionParsingFailure", "ParsedGroupVersions"),
        ("NamespaceDeletionContentFailure", "ContentDeleted"),
        (remaining, "ContentRemoved"),
        ("NamespaceFinalizersRemaining", "ContentHasNoFinalizers"),
    ];
    for (at, (kind, reason)) in order.into_iter().enumerate() {
        let condition = &live["status"]["conditions"][at];
        assert_eq!(condition["type"], kind, "in their order");
        assert_eq!((&condition["status"], &condition["reason"]), (&json!("False"), &json!(reason)));
    }
    assert_eq!(live["metadata"]["finalizers"], json!(["own/one"]));
    house.merge(&path, free()).await.with(200);
    house.get(&path).await.fails(404, "NotFound");
}

#[tokio::test]
async fn r158_r159_every_group_is_emptied_whoever_owns_what() {
    let house = House::new().await;
    house.made(DEFINITIONS, definition("example.com", "things", "Thing")).await;
    house.made(NAMESPACES, named("n")).await;
    let path = format!("{NAMESPACES}/n");
    // Owned by something that lives elsewhere, by one another, and by an owner that will stay.
    let outside = house
        .made(
            "/apis/storage.k8s.io/v1/storageclasses",
            json!({
                "metadata": { "name": "outside" }, "provisioner": "example.com/p",
            }),
        )
        .await;
    let reference = |object: &Value, version: &str, kind: &str| {
        json!({ "apiVersion": version, "kind": kind, "name": name(object),
            "uid": object["metadata"]["uid"], "blockOwnerDeletion": true })
    };
    let mut owner = thing("owner");
    owner["metadata"]["ownerReferences"] =
        json!([reference(&outside, "storage.k8s.io/v1", "StorageClass")]);
    let owner = house.made("/apis/example.com/v1/namespaces/n/things", owner).await;
    let dependent = json!({ "metadata": { "name": "d",
        "ownerReferences": [reference(&owner, "example.com/v1", "Thing")] } });
    house.made(&format!("{path}/configmaps"), dependent).await;
    let slice = json!({ "metadata": { "name": "l" }, "spec": {} });
    house.made("/apis/coordination.k8s.io/v1/namespaces/n/leases", slice).await;
    house.delete(&path).await.with(200);
    house.until(&path, 404).await;
    house.get("/apis/storage.k8s.io/v1/storageclasses/outside").await.with(200);
    let left = house.world.current().range("/registry/", None).any(|r| r.namespace() == "n");
    assert!(!left);
}

#[tokio::test]
async fn r160_a_definition_tells_how_far_its_end_has_come() {
    let house = House::new().await;
    let mut body = definition("example.com", "things", "Thing");
    body["metadata"]["finalizers"] = json!(["own/one"]);
    house.made(DEFINITIONS, body).await;
    let things = "/apis/example.com/v1/namespaces/default/things";
    let mut held = thing("held");
    held["metadata"]["finalizers"] = json!(["a/b"]);
    house.made(things, held).await;
    house.made(things, thing("free")).await;
    let path = format!("{DEFINITIONS}/things.example.com");
    let marked = house.delete(&path).await.with(200);
    let cleanup = "customresourcecleanup.apiextensions.k8s.io";
    assert_eq!(marked["metadata"]["finalizers"], json!(["own/one", cleanup]));
    let going = condition(&marked, "Terminating");
    assert_eq!(
        (&going["status"], &going["reason"]),
        (&json!("True"), &json!("InstanceDeletionPending"))
    );
    let reason = |live: &Value| condition(live, "Terminating")["reason"].clone();
    house.until_looks(&path, |live| reason(live) == "InstanceDeletionInProgress").await;
    house.until(&format!("{things}/free"), 404).await;
    // Shown under a definition that is newer than the object, the mark is still whole.
    let live = house.get(&format!("{things}/held")).await.with(200);
    assert!(live["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(live["metadata"]["deletionGracePeriodSeconds"], 0);
    house.post(things, thing("late")).await.fails(403, "Forbidden");
    house.merge(&format!("{things}/held"), free()).await.with(200);
    let live = house.until_looks(&path, |live| reason(live) == "InstanceDeletionCompleted").await;
    assert_eq!(condition(&live, "Terminating")["status"], "False");
    assert_eq!(live["metadata"]["finalizers"], json!(["own/one"]));
    house.merge(&path, free()).await.with(200);
    house.get(&path).await.fails(404, "NotFound");
}

#[tokio::test]
async fn r161_nothing_is_deleted_for_what_was_never_served() {
    let house = House::new().await;
    house.made(DEFINITIONS, definition("example.com", "things", "Thing")).await;
    // Another plural with the same kind is never established.
    let mut second = definition("example.com", "others", "Thing");
    second["metadata"]["finalizers"] = json!(["own/one"]);
    house.made(DEFINITIONS, second).await;
    let things = "/apis/example.com/v1/namespaces/default/things";
    house.made(things, thing("a")).await;
    let path = format!("{DEFINITIONS}/others.example.com");
    house.delete(&path).await.with(200);
    let reason = |live: &Value| condition(live, "Terminating")["reason"].clone();
    house.until_looks(&path, |live| reason(live) == "NeverEstablished").await;
    house.get(&format!("{things}/a")).await.with(200);

    // One whose instances would be the definitions themselves takes none of them along.
    let mut own = definition("apiextensions.k8s.io", "customresourcedefinitions", "Own");
    own["metadata"]["finalizers"] = json!(["own/one"]);
    own["metadata"]["annotations"] =
        json!({ "api-approved.kubernetes.io": "unapproved, experimental-only" });
    own["spec"]["scope"] = json!("Cluster");
    house.made(DEFINITIONS, own).await;
    let path = format!("{DEFINITIONS}/customresourcedefinitions.apiextensions.k8s.io");
    house.delete(&path).await.with(200);
    house.until_looks(&path, |live| reason(live) == "NeverEstablished").await;
    house.merge(&path, free()).await.with(200);
    house.until(&path, 404).await;
    house.get(&format!("{DEFINITIONS}/things.example.com")).await.with(200);
    house.get(&format!("{things}/a")).await.with(200);
}

#[tokio::test]
async fn r168_the_last_event_has_the_last_state_and_the_newest_revision() {
    let house = House::new().await;
    let made = house
        .made(
            CONFIG_MAPS,
            json!({
                "metadata": { "name": "a", "finalizers": ["a/b"] }, "data": { "k": "v" },
            }),
        )
        .await;
    let mut watch =
        house.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={}", version(&made))).await;
    let path = format!("{CONFIG_MAPS}/a");
    let marked = house.delete(&path).await.with(200);
    house.merge(&path, free()).await.with(200);
    watch.expect(&["MODIFIED a"]).await;
    let last = watch.next().await.unwrap();
    assert_eq!(brief(&last), "DELETED a");
    assert_eq!(last["object"]["data"], json!({ "k": "v" }));
    assert_eq!(
        last["object"]["metadata"]["deletionTimestamp"],
        marked["metadata"]["deletionTimestamp"]
    );
    let number = |object: &Value| version(object).parse::<u64>().unwrap();
    assert!(number(&last["object"]) > number(&marked));
    assert_eq!(version(&last["object"]), house.revision().to_string());
}

#[tokio::test]
async fn what_an_owner_owns_is_selected_on_every_kind() {
    let house = House::new().await;
    house.made(DEFINITIONS, definition("example.com", "things", "Thing")).await;
    let things = "/apis/example.com/v1/namespaces/default/things";
    let reference = |uid: &str| json!({ "apiVersion": "v1", "kind": "X", "name": "o", "uid": uid });
    for (name, owners) in [
        ("a", json!([reference("1")])),
        ("b", json!([reference("2"), reference("1")])),
        ("c", json!([reference("2")])),
        ("d", json!([])),
    ] {
        for (collection, mut body) in [(SECRETS, named(name)), (things, thing(name))] {
            body["metadata"]["ownerReferences"] = owners.clone();
            house.made(collection, body).await;
        }
    }
    let field = "metadata.ownerReferences.uid";
    for collection in [SECRETS, things, "/apis/example.com/v1/things", "/api/v1/secrets"] {
        for (selector, wanted) in [
            (format!("{field}%3D1"), vec!["a", "b"]),
            (format!("{field}%3D2"), vec!["b", "c"]),
            (format!("{field}%3D1,{field}%3D2"), vec!["b"]),
            (format!("{field}!%3D1"), vec!["c", "d"]),
            (format!("{field}%3D"), vec!["d"]),
            (format!("{field}%3D1,metadata.name%3Da"), vec!["a"]),
            (format!("{field}%3D3"), vec![]),
        ] {
            let list = house.get(&format!("{collection}?fieldSelector={selector}")).await.with(200);
            assert_eq!(names(&list), wanted, "{collection} {selector}");
        }
        // Pages go on where they ended.
        let mut seen = Vec::new();
        let mut token = String::new();
        loop {
            let path = format!("{collection}?limit=1&fieldSelector={field}%3D1&continue={token}");
            let page = house.get(&path).await.with(200);
            seen.extend(names(&page).into_iter().map(str::to_owned));
            token = page["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
            if token.is_empty() {
                break;
            }
        }
        assert_eq!(seen, ["a", "b"], "{collection}");
    }
    let from = house.revision();
    let path = format!("{SECRETS}?watch=1&resourceVersion={from}&fieldSelector={field}%3D1");
    let mut watch = house.watch(&path).await;
    let owners = |uid: &str| json!({ "metadata": { "ownerReferences": [reference(uid)] } });
    house.merge(&format!("{SECRETS}/c"), owners("1")).await.with(200);
    house.merge(&format!("{SECRETS}/a"), owners("3")).await.with(200);
    watch.expect(&["ADDED c", "DELETED a"]).await;
}
