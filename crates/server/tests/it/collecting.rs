//! Rules of spec/ownership.md: what DELETE does to the finalizers of a collector, where one is expected.
//! No collector runs here, so what waits for it stays.

use serde_json::{Value, json};

use crate::house::*;

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const CONTROLLERS: &str = "/api/v1/namespaces/default/replicationcontrollers";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const THINGS: &str = "/apis/example.com/v1/namespaces/default/things";

/// Every wish about dependents, with the finalizer that stands for it.
fn wishes() -> [(Value, Option<&'static str>); 5] {
    [
        (json!({ "orphanDependents": true }), Some("orphan")),
        (json!({ "orphanDependents": false }), None),
        (json!({ "propagationPolicy": "Orphan" }), Some("orphan")),
        (json!({ "propagationPolicy": "Foreground" }), Some("foregroundDeletion")),
        (json!({ "propagationPolicy": "Background" }), None),
    ]
}

/// A ConfigMap in `default` with these finalizers; answers its path.
async fn map(house: &House, finalizers: &[&str]) -> String {
    let body = json!({ "metadata": { "generateName": "m-", "finalizers": finalizers } });
    format!("{CONFIG_MAPS}/{}", name(&house.made(CONFIG_MAPS, body).await))
}

fn finalizers(object: &Value) -> Vec<&str> {
    let list = object["metadata"]["finalizers"].as_array();
    list.into_iter().flatten().map(|name| name.as_str().unwrap()).collect()
}

fn template() -> Value {
    json!({
        "metadata": { "labels": { "app": "a" } },
        "spec": {
            "containers": [{ "name": "c", "image": "example.com/app:v1" }],
            "restartPolicy": "Always",
        },
    })
}

fn job(name: &str) -> Value {
    let mut template = template();
    template["spec"]["restartPolicy"] = json!("Never");
    json!({ "metadata": { "name": name }, "spec": { "template": template } })
}

async fn define_things(house: &House) {
    let definition = json!({
        "metadata": { "name": "things.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "plural": "things", "singular": "thing", "kind": "Thing" },
            "versions": [{ "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object" } } }],
        },
    });
    house.made(DEFINITIONS, definition).await;
}

fn thing(name: &str) -> Value {
    json!({ "apiVersion": "example.com/v1", "kind": "Thing", "metadata": { "name": name } })
}

#[tokio::test]
async fn r40_r41_r42_r43_r44_a_wish_replaces_what_was_there() {
    let house = House::collecting().await;
    for (options, wanted) in wishes() {
        for before in [
            vec!["a/b", "a/c"],
            vec!["orphan", "a/b", "a/c"],
            vec!["a/b", "foregroundDeletion", "a/c"],
        ] {
            let path = map(&house, &before).await;
            let live = house.delete_with(&path, options.clone()).await.json;
            let mut after = vec!["a/b", "a/c"];
            after.extend(wanted);
            let mut kept = before.clone();
            kept.sort_unstable();
            let mut same = after.clone();
            same.sort_unstable();
            // A list that has just what is wanted keeps its order.
            let after = if kept == same { before } else { after };
            assert_eq!(finalizers(&live), after, "{options}");
            assert!(live["metadata"]["deletionTimestamp"].is_string());
            assert_eq!(live["metadata"]["deletionGracePeriodSeconds"], 0);
        }
        // Alone, it decides whether the object stays.
        let path = map(&house, &[]).await;
        house.delete_with(&path, options.clone()).await.json.take();
        let live = house.get(&path).await;
        match wanted {
            Some(one) => assert_eq!(finalizers(&live.with(200)), [one], "{options}"),
            None => assert_eq!(live.code, 404, "{options}"),
        }
    }
}

#[tokio::test]
async fn r39_events_take_no_part() {
    let house = House::collecting().await;
    let core = "/api/v1/namespaces/default/events";
    let new = "/apis/events.k8s.io/v1/namespaces/default/events";
    for (at, (options, _)) in wishes().into_iter().chain([(json!({}), None)]).enumerate() {
        for (collection, finalizers) in
            [(core, json!(["orphan"])), (new, json!(["orphan"])), (core, json!([]))]
        {
            let name = format!("e{at}");
            let event = json!({
                "metadata": { "name": name, "finalizers": finalizers },
                "involvedObject": { "namespace": "default", "name": "a" },
            });
            house.made(core, event).await;
            let path = format!("{collection}/{name}");
            house.delete_with(&path, options.clone()).await.with(200);
            house.get(&path).await.fails(404, "NotFound");
        }
    }
}

#[tokio::test]
async fn r45_r77_without_a_wish_the_object_decides() {
    let house = House::collecting().await;
    for own in ["orphan", "foregroundDeletion"] {
        let path = map(&house, &["a/b", own]).await;
        for options in [json!({}), json!({ "gracePeriodSeconds": 5 })] {
            let live = house.delete_with(&path, options).await.with(200);
            assert_eq!(finalizers(&live), ["a/b", own]);
        }
        let path = map(&house, &[own]).await;
        assert_eq!(finalizers(&house.delete(&path).await.with(200)), [own]);
    }
}

#[tokio::test]
async fn r46_r47_each_kind_has_its_default() {
    let house = House::collecting().await;
    define_things(&house).await;
    let selector = json!({ "matchLabels": { "app": "a" } });
    let apps = "/apis/apps/v1/namespaces/default";
    let set = |kind: &str, extra: Value| {
        let mut body = json!({
            "metadata": { "name": "x" },
            "spec": { "selector": selector, "template": template() },
        });
        for (member, value) in extra.as_object().unwrap() {
            body["spec"][member] = value.clone();
        }
        (format!("{apps}/{kind}"), body)
    };
    let cron = json!({
        "metadata": { "name": "x" },
        "spec": { "schedule": "@daily", "jobTemplate": { "spec": job("")["spec"] } },
    });
    let controller = json!({
        "metadata": { "name": "x" },
        "spec": { "selector": { "app": "a" }, "template": template() },
    });
    let rows = [
        (CONTROLLERS.to_owned(), controller, Some("orphan")),
        (JOBS.to_owned(), job("x"), Some("orphan")),
        ("/apis/batch/v1/namespaces/default/cronjobs".to_owned(), cron, None),
        (DEPLOYMENTS.to_owned(), deployment("x"), None),
        (CONFIG_MAPS.to_owned(), named("x"), None),
        (THINGS.to_owned(), thing("x"), None),
    ];
    let sets = [
        set("replicasets", json!({})),
        set("daemonsets", json!({})),
        set("statefulsets", json!({ "serviceName": "s" })),
    ];
    let sets = sets.into_iter().map(|(path, body)| (path, body, None));
    for (collection, body, wanted) in rows.into_iter().chain(sets) {
        house.made(&collection, body).await;
        let path = format!("{collection}/x");
        house.delete(&path).await.with(200);
        let live = house.get(&path).await;
        match wanted {
            Some(one) => assert_eq!(finalizers(&live.with(200)), [one], "{collection}"),
            None => assert_eq!(live.code, 404, "{collection}"),
        }
    }
}

#[tokio::test]
async fn r46_a_job_tells_that_its_pods_stay() {
    let house = House::collecting().await;
    let told = |answer: &Answer| {
        let warnings = answer.warnings();
        assert!(warnings.len() < 2, "{warnings:?}");
        warnings.first().is_some_and(|w| {
            w.contains("propagationPolicy=Background") && w.contains("propagationPolicy=Orphan")
        })
    };
    for (at, (options, warns)) in [
        (json!({}), true),
        (json!({ "gracePeriodSeconds": 0 }), true),
        (json!({ "propagationPolicy": "Background" }), false),
        (json!({ "propagationPolicy": "Orphan" }), false),
        (json!({ "orphanDependents": false }), false),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("j{at}");
        house.made(JOBS, job(&name)).await;
        let one = house.delete_with(&format!("{JOBS}/{name}?dryRun=All"), options.clone()).await;
        let all = house.delete_with(JOBS, options.clone()).await;
        assert_eq!((told(&one), told(&all)), (warns, warns), "{options}");
    }
    house
        .made(
            CONTROLLERS,
            json!({
                "metadata": { "name": "x" },
                "spec": { "selector": { "app": "a" }, "template": template() },
            }),
        )
        .await;
    assert!(!told(&house.delete(&format!("{CONTROLLERS}/x")).await), "only Jobs say so");
}

#[tokio::test]
async fn r49_what_kubectl_sends_ends_a_job_at_once() {
    let house = House::collecting().await;
    house.made(JOBS, job("a")).await;
    let sent = json!({ "kind": "DeleteOptions", "apiVersion": "batch/v1", "propagationPolicy": "Background" });
    house.delete_with(&format!("{JOBS}/a"), sent).await.with(200);
    house.get(&format!("{JOBS}/a")).await.fails(404, "NotFound");
}

#[tokio::test]
async fn r54_a_second_delete_is_heard_anew() {
    let house = House::collecting().await;
    let foreground = json!({ "propagationPolicy": "Foreground" });
    let orphan = json!({ "propagationPolicy": "Orphan" });
    let background = json!({ "propagationPolicy": "Background" });
    let path = map(&house, &["a/b"]).await;
    let first = house.delete_with(&path, foreground.clone()).await.with(200);
    assert_eq!(finalizers(&first), ["a/b", "foregroundDeletion"]);
    let again = house.delete_with(&path, foreground.clone()).await.with(200);
    assert_eq!(version(&again), version(&first), "nothing new");
    let again = house.delete(&path).await.with(200);
    assert_eq!(version(&again), version(&first), "without a wish it stays");
    let second = house.delete_with(&path, orphan).await.with(200);
    assert_eq!(finalizers(&second), ["a/b", "orphan"]);
    assert_eq!(
        second["metadata"]["deletionTimestamp"], first["metadata"]["deletionTimestamp"],
        "the mark is the first one"
    );
    let third = house.delete_with(&path, background.clone()).await.with(200);
    assert_eq!(finalizers(&third), ["a/b"]);
    house.get(&path).await.with(200);

    let path = map(&house, &[]).await;
    house.delete_with(&path, foreground.clone()).await.with(200);
    house.get(&path).await.with(200);
    let status = house.delete_with(&path, background.clone()).await.with(200);
    assert_eq!(status["status"], "Success");
    house.get(&path).await.fails(404, "NotFound");

    // The mark counts as one change of the spec, however often it is renewed.
    house.made(DEPLOYMENTS, deployment("d")).await;
    let path = format!("{DEPLOYMENTS}/d");
    for options in [foreground, json!({ "propagationPolicy": "Orphan" })] {
        let live = house.delete_with(&path, options).await.with(200);
        assert_eq!(live["metadata"]["generation"], 2);
    }
    house.delete_with(&path, background).await.with(200);
    house.get(&path).await.fails(404, "NotFound");
}

#[tokio::test]
async fn r55_r56_finalizers_of_a_pod_in_its_grace_move_with_its_grace_only() {
    let house = House::collecting().await;
    let path = house.bound(pod("p")).await;
    let with = |grace: i64, policy: &str| {
        format!("{path}?gracePeriodSeconds={grace}&propagationPolicy={policy}")
    };
    let first = house.delete(&with(300, "Foreground")).await.with(200);
    assert_eq!(finalizers(&first), ["foregroundDeletion"]);
    let same = house.delete(&format!("{path}?propagationPolicy=Orphan")).await.with(200);
    assert_eq!(version(&same), version(&first));
    let shorter = house.delete(&with(100, "Orphan")).await.with(200);
    assert_eq!(finalizers(&shorter), ["orphan"]);
    let seconds = |object: &Value| {
        let text = object["metadata"]["deletionTimestamp"].as_str().unwrap();
        text.parse::<jiff::Timestamp>().unwrap().as_second()
    };
    assert_eq!(seconds(&first) - seconds(&shorter), 200, "counted from the first DELETE");
    let over = house.delete(&format!("{path}?gracePeriodSeconds=0")).await.with(200);
    assert_eq!(finalizers(&over), ["orphan"]);
    assert_eq!(over["metadata"]["deletionGracePeriodSeconds"], 0);
    // From here on as any other object (R57).
    house.delete(&format!("{path}?propagationPolicy=Background")).await.with(200);
    house.get(&path).await.fails(404, "NotFound");
}

#[tokio::test]
async fn r58_a_dry_run_shows_the_finalizer_and_stores_none() {
    let house = House::collecting().await;
    let path = map(&house, &[]).await;
    let before = house.revision();
    let dry = json!({ "propagationPolicy": "Foreground", "dryRun": ["All"] });
    let shown = house.delete_with(&path, dry).await.with(200);
    assert_eq!(finalizers(&shown), ["foregroundDeletion"]);
    assert!(shown["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(house.revision(), before);
}

#[tokio::test]
async fn r62_only_the_old_option_is_answered_202_and_only_if_the_object_stays() {
    let house = House::collecting().await;
    for (finalizers, options, code) in [
        (&["a/b"][..], json!({ "orphanDependents": false }), 202),
        (&["orphan", "a/b"], json!({ "orphanDependents": false }), 202),
        (&["orphan"], json!({ "orphanDependents": false }), 200),
        (&[], json!({ "orphanDependents": false }), 200),
        (&[], json!({ "orphanDependents": true }), 200),
        (&["a/b"], json!({ "propagationPolicy": "Background" }), 200),
        (&[], json!({ "propagationPolicy": "Foreground" }), 200),
    ] {
        let path = map(&house, finalizers).await;
        house.delete_with(&path, options).await.with(code);
    }
}

#[tokio::test]
async fn r64_r65_a_collection_is_deleted_one_by_one_with_the_same_wish() {
    let house = House::collecting().await;
    for (name, finalizers) in [("a", json!([])), ("b", json!(["a/b"])), ("c", json!(["orphan"]))] {
        let labels = json!({ "app": "x" });
        let body =
            json!({ "metadata": { "name": name, "labels": labels, "finalizers": finalizers } });
        house.made(SECRETS, body).await;
    }
    house.made(SECRETS, named("other")).await;
    let selected = format!("{SECRETS}?labelSelector=app%3Dx");
    let list = house.delete_with(&selected, json!({ "propagationPolicy": "Foreground" })).await;
    let list = list.with(200);
    assert_eq!(names(&list), ["a", "b", "c"]);
    assert_eq!(list["items"][0]["metadata"].get("deletionTimestamp"), None, "as it was read (R66)");
    for (name, wanted) in [
        ("a", vec!["foregroundDeletion"]),
        ("b", vec!["a/b", "foregroundDeletion"]),
        ("c", vec!["foregroundDeletion"]),
        ("other", vec![]),
    ] {
        let live = house.get(&format!("{SECRETS}/{name}")).await.with(200);
        assert_eq!(finalizers(&live), wanted, "{name}");
    }
    // A condition that one item does not meet ends the request; what went before stays gone.
    let b = house.get(&format!("{SECRETS}/a")).await.with(200);
    let only = json!({
        "propagationPolicy": "Background", "preconditions": { "uid": b["metadata"]["uid"] },
    });
    house.delete_with(&selected, only).await.fails(409, "Conflict");
    house.get(&format!("{SECRETS}/a")).await.fails(404, "NotFound");
    house.get(&format!("{SECRETS}/b")).await.with(200);
}

#[tokio::test]
async fn r68_namespaces_are_deleted_one_by_one() {
    let house = House::collecting().await;
    house.made(NAMESPACES, named("n")).await;
    house.delete(NAMESPACES).await.fails(405, "MethodNotAllowed");
    house.delete(&format!("{NAMESPACES}?labelSelector=a%3Db")).await.fails(405, "MethodNotAllowed");
    assert_eq!(house.get(&format!("{NAMESPACES}/n")).await.with(200)["status"]["phase"], "Active");
}

#[tokio::test]
async fn r73_only_delete_gives_a_going_object_a_finalizer_of_the_collector() {
    let house = House::collecting().await;
    let path = map(&house, &["a/b"]).await;
    house.delete_with(&path, json!({ "propagationPolicy": "Background" })).await.with(200);
    for own in ["orphan", "foregroundDeletion"] {
        let patch = json!({ "metadata": { "finalizers": ["a/b", own] } });
        let status = house.merge(&path, patch).await.fails(422, "Invalid");
        assert_eq!(status["details"]["causes"][0]["reason"], "FieldValueForbidden");
        let policy = if own == "orphan" { "Orphan" } else { "Foreground" };
        let live = house.delete_with(&path, json!({ "propagationPolicy": policy })).await.with(200);
        assert_eq!(finalizers(&live), ["a/b", own]);
    }
}

#[tokio::test]
async fn r80_a_going_owner_may_get_new_dependents() {
    let house = House::collecting().await;
    let path = map(&house, &[]).await;
    let owner =
        house.delete_with(&path, json!({ "propagationPolicy": "Foreground" })).await.with(200);
    let reference = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": name(&owner),
        "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true,
    });
    let late = json!({ "metadata": { "name": "late", "ownerReferences": [reference] } });
    let made = house.made(CONFIG_MAPS, late).await;
    assert_eq!(made["metadata"]["ownerReferences"], json!([reference]));
}

#[tokio::test]
async fn r149_a_namespace_waits_for_dependents_in_its_own_way() {
    let house = House::collecting().await;
    for (options, code, wanted) in [
        (json!({}), 200, vec!["a/b"]),
        (json!({ "propagationPolicy": "Background" }), 200, vec!["a/b"]),
        (json!({ "propagationPolicy": "Foreground" }), 200, vec!["a/b", "foregroundDeletion"]),
        (json!({ "propagationPolicy": "Orphan" }), 200, vec!["a/b", "orphan"]),
        (json!({ "orphanDependents": true }), 200, vec!["a/b", "orphan"]),
        // What means `Background` elsewhere waits here.
        (json!({ "orphanDependents": false }), 202, vec!["a/b", "foregroundDeletion"]),
    ] {
        let body = json!({ "metadata": { "generateName": "n-", "finalizers": ["a/b"] } });
        let made = house.made(NAMESPACES, body).await;
        let path = format!("{NAMESPACES}/{}", name(&made));
        let live = house.delete_with(&path, options.clone()).await.with(code);
        assert_eq!(finalizers(&live), wanted, "{options}");
        assert_eq!(live["status"]["phase"], "Terminating");
        assert_eq!(live["metadata"].get("deletionGracePeriodSeconds"), None);
    }
    for own in ["orphan", "foregroundDeletion"] {
        let body = json!({ "metadata": { "generateName": "n-", "finalizers": [own] } });
        let made = house.made(NAMESPACES, body).await;
        let path = format!("{NAMESPACES}/{}", name(&made));
        assert_eq!(finalizers(&house.delete(&path).await.with(200)), [own], "kept");
        // Once its content is gone, a second DELETE is heard as for any other object.
        house.until_looks(&path, |live| live["spec"] == json!({})).await;
        house.delete_with(&path, json!({ "propagationPolicy": "Background" })).await.with(200);
        house.get(&path).await.fails(404, "NotFound");
    }
}

#[tokio::test]
async fn r153_content_goes_in_the_background_whatever_it_wanted_before() {
    let house = House::collecting().await;
    house.made(NAMESPACES, named("n")).await;
    let inside = format!("{NAMESPACES}/n/configmaps");
    for (name, finalizers) in [
        ("plain", json!([])),
        ("keeps", json!(["orphan"])),
        ("waits", json!(["foregroundDeletion"])),
        ("going", json!([])),
    ] {
        house
            .made(&inside, json!({ "metadata": { "name": name, "finalizers": finalizers } }))
            .await;
    }
    let foreground = json!({ "propagationPolicy": "Foreground" });
    house.delete_with(&format!("{inside}/going"), foreground).await.with(200);
    house.delete(&format!("{NAMESPACES}/n")).await.with(200);
    house.until(&format!("{NAMESPACES}/n"), 404).await;
}

#[tokio::test]
async fn r160_instances_go_by_their_own_wish() {
    let house = House::collecting().await;
    define_things(&house).await;
    let mut keeps = thing("keeps");
    keeps["metadata"]["finalizers"] = json!(["orphan"]);
    house.made(THINGS, keeps).await;
    house.made(THINGS, thing("plain")).await;
    let path = format!("{DEFINITIONS}/things.example.com");
    house.delete_with(&path, json!({ "propagationPolicy": "Background" })).await.with(200);
    house.until(&format!("{THINGS}/plain"), 404).await;
    let live = house.get(&format!("{THINGS}/keeps")).await.with(200);
    assert_eq!(finalizers(&live), ["orphan"]);
    let free = json!({ "metadata": { "finalizers": null } });
    house.merge(&format!("{THINGS}/keeps"), free).await.with(200);
    house.until(&path, 404).await;
}
